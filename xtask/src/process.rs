//! Running other programs: to the end with a clear error, or within a time limit as a whole group.

use crate::stopwatch::Stopwatch;
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How often a running program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// Says what is run, runs it, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("  $ {}", describe(command));
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs quietly and gives standard output; standard error goes through.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", describe(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed something that is not UTF-8", describe(command)))
}

/// The end of a program that had a time limit.
pub(crate) enum Ending {
    Exited(ExitStatus),
    TimedOut,
}

/// Runs a program in a process group of its own; at the limit the whole group is killed, so that
/// nothing it started lives on.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<Ending> {
    command.process_group(0);
    let mut child = command.spawn().with_context(|| cannot_start(command))?;
    let watch = Stopwatch::start();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ending::Exited(status));
        }
        if watch.elapsed() > limit {
            kill_group(&mut child)?;
            return Ok(Ending::TimedOut);
        }
        std::thread::sleep(POLL);
    }
}

fn kill_group(child: &mut Child) -> Result<()> {
    // The shell's own `kill`: the program of that name is missing on small systems.
    let script = r#"kill -s KILL -- "-$0""#;
    let killed = Command::new("sh").args(["-c", script, &child.id().to_string()]).status();
    if !killed.is_ok_and(|status| status.success()) {
        // The group may have ended by itself between the question and the signal.
        child.kill().or_else(|error| child.try_wait().map(drop).map_err(|_| error))?;
    }
    child.wait()?;
    Ok(())
}

/// The command as a person would type it, without its folder and environment.
fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", command.get_program().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_program_that_ends_in_time_reports_its_status() {
        let ending = run_within(&mut Command::new("true"), Duration::from_secs(30)).unwrap();
        assert!(matches!(ending, Ending::Exited(status) if status.success()));
    }

    #[test]
    fn at_the_limit_the_children_die_too() {
        // A pipe ends when the last process that holds it is gone, grandchildren included.
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo started; wait"]).stdout(writer);
        let watch = Stopwatch::start();
        let ending = run_within(&mut command, Duration::from_millis(500)).unwrap();
        assert!(matches!(ending, Ending::TimedOut));
        drop(command);
        let mut output = String::new();
        reader.read_to_string(&mut output).unwrap();
        assert_eq!(output, "started\n");
        assert!(watch.elapsed() < Duration::from_secs(20), "a child outlived the limit");
    }

    #[test]
    fn a_failing_program_is_named_in_the_error() {
        let error = run(&mut Command::new("false")).unwrap_err();
        assert!(error.to_string().contains("`false` failed"), "{error}");
    }
}
