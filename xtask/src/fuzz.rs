//! `cargo xtask fuzz`: runs the targets under fuzz/, one after the other, each for so many inputs or
//! seconds. It needs a nightly compiler and `cargo install cargo-fuzz`.

use crate::{process, project};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::process::Command;

#[derive(Args)]
pub(crate) struct Options {
    /// Inputs for each target
    #[arg(long, default_value_t = 10_000_000)]
    runs: u64,
    /// Seconds for each target, after which it ends before all inputs are tried
    #[arg(long)]
    seconds: Option<u64>,
    /// The targets; all of them if none is named
    targets: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let manifest = project::root().join("fuzz/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).context("fuzz/Cargo.toml does not read")?;
    let known = targets(&text);
    for target in &options.targets {
        ensure!(known.contains(target), "there is no target {target}, but {}", known.join(", "));
    }
    let chosen = if options.targets.is_empty() { &known } else { &options.targets };
    for target in chosen {
        let mut fuzz = Command::new("cargo");
        fuzz.args(["+nightly", "fuzz", "run", target, "--", &format!("-runs={}", options.runs)]);
        fuzz.args(options.seconds.map(|seconds| format!("-max_total_time={seconds}")));
        fuzz.current_dir(project::root().join("fuzz")).env_remove("RUSTUP_TOOLCHAIN");
        process::run(&mut fuzz)?;
    }
    Ok(())
}

/// The names of the binaries in a manifest.
fn targets(manifest: &str) -> Vec<String> {
    let bins = manifest.split("[[bin]]").skip(1);
    let name = |bin: &str| {
        let line = bin.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    bins.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_binaries() {
        let text = "[package]\nname = \"x\"\n\n[[bin]]\nname = \"a\"\n\n[[bin]]\nname = \"b\"\n";
        assert_eq!(targets(text), ["a", "b"]);
    }
}
