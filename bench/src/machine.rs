//! What the numbers were measured on; a number without it says nothing.

use std::path::Path;
use std::process::Command;

/// Prints processor, memory, system and commit.
pub(crate) fn describe(root: &Path) {
    print!("{}", description(root));
}

/// The same as lines of a list.
pub(crate) fn description(root: &Path) -> String {
    let processor = field("/proc/cpuinfo", "model name");
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = field("/proc/meminfo", "MemTotal");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let commit = git(root, &["rev-parse", "--short", "HEAD"]);
    let changed = !git(root, &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    let changed = if changed { " with changes" } else { "" };
    format!(
        "- machine: {cores} cores ({processor}), memory {memory}, Linux {}\n- commit: {commit}{changed}\n",
        kernel.trim()
    )
}

/// How busy the machine was in the last minute, by its own account.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn field(path: &str, name: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
    value.unwrap_or("unknown").to_owned()
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").current_dir(root).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}
