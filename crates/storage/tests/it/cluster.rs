//! A private cluster of `PostgreSQL` for the tests of a process, of several crates and of `xtask`, in a temporary folder and on a socket there. It
//! is started when the first test asks for it, and stopped when the process ends, however it ends. Where
//! `PostgreSQL` is not installed, the tests run on the other engines and say so.
//!
//! The folder is in memory where there is room, so that syncs cost nothing and need not be switched off.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The server refuses to run as root; Debian's package creates this user.
const USER: &str = "postgres";
/// Connections are as many as the stores of tests side by side may open; few of them are.
const SETTINGS: &str = "-c listen_addresses='' -c max_connections=2000 -c shared_buffers=64MB \
    -c autovacuum=off";
/// A file system in memory, and the kilobytes that must be free in it.
const MEMORY: (&str, u64) = ("/dev/shm", 4_000_000);

struct Cluster {
    folder: PathBuf,
    /// Waits for the end of this process, then stops the server and removes the folder.
    _guard: Child,
}

/// The address of the cluster; `None` where there is no server to start.
pub(crate) fn address() -> Option<String> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| {
        let started = programs().map(|programs| start(&programs));
        if started.is_none() {
            let line = "PostgreSQL is not installed: its tests are skipped\n";
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        started
    });
    cluster.as_ref().map(|c| format!("host={} user={USER} dbname=postgres", c.folder.display()))
}

/// Where the programs of the server are: Debian keeps them off the path, one folder for each version.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<PathBuf> = versions.flatten().map(|e| e.path().join("bin")).collect();
    folders.sort();
    folders.into_iter().rev().find(|folder| folder.join("initdb").exists())
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

/// A program as a user that the server accepts.
fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", USER, "--"]).arg(program);
    command
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
}

/// A new folder, in memory if there is room.
fn new_folder() -> PathBuf {
    let (memory, least) = MEMORY;
    let free = Command::new("df").args(["-k", "--output=avail", memory]).output();
    let free = free.ok().and_then(|df| {
        String::from_utf8_lossy(&df.stdout).lines().nth(1)?.trim().parse::<u64>().ok()
    });
    let parent = match free {
        Some(free) if free > least => memory.into(),
        _ => std::env::temp_dir(),
    };
    let made = Command::new("mktemp").args(["-d", "-p"]).arg(parent).output().expect("mktemp runs");
    assert!(made.status.success(), "a folder is made");
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

fn start(programs: &Path) -> Cluster {
    let folder = new_folder();
    if is_root() {
        run(Command::new("chown").arg(USER).arg(&folder));
    }
    let (data, control) = (folder.join("data"), programs.join("pg_ctl"));
    let init = ["-A", "trust", "-N", "-U", USER, "-D"];
    run(as_user(&programs.join("initdb")).args(init).arg(&data));
    let settings = format!("{SETTINGS} -k {}", folder.display());
    let log = folder.join("log");
    // Its output goes to the log, or the caller would wait for the server to close it.
    let mut command = as_user(&control);
    command.arg("-D").arg(&data).arg("-l").arg(log).args(["-w", "-s", "-o", &settings, "start"]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.expect("pg_ctl starts").success(), "the server starts");
    // The pipe closes with this process. What ends the process, as Ctrl-C, may be meant for its whole group.
    let stop = "trap '' HUP INT TERM; cat > /dev/null; \"$@\"; rm -rf \"$0\"";
    let mut guard = Command::new("sh");
    guard.args(["-c", stop]).arg(&folder);
    let mut stopped = as_user(&control);
    stopped.arg("-D").arg(&data).args(["-s", "-m", "immediate", "stop"]);
    guard.arg(stopped.get_program()).args(stopped.get_args());
    guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Cluster { folder, _guard: guard.spawn().expect("a shell") }
}
