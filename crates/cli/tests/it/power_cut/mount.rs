//! Unmounting a file system whose processes have just been killed. The kernel may release the last files of a
//! process after the process has been waited for, so the file system is busy for a moment longer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use orrery_types::{Clock as _, SystemClock};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as unmount_once};

const BUSY_MS_MAX: u64 = 20_000;

/// Unmounts what is mounted there as soon as no process uses it.
pub(super) fn unmount(at: &Path) {
    let give_up_us = SystemClock.now_us() + BUSY_MS_MAX * 1000;
    loop {
        match unmount_once(at, UnmountFlags::empty()) {
            Ok(()) => return,
            Err(Errno::BUSY) if SystemClock.now_us() < give_up_us => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => {
                panic!("{} cannot be unmounted: {error}; used by {:?}", at.display(), users(at))
            }
        }
    }
}

/// The processes that use files below this folder, each with the first of them.
fn users(at: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|process| used_by(&process.path(), at)).collect()
}

fn used_by(process: &Path, at: &Path) -> Option<String> {
    let name = std::fs::read_to_string(process.join("comm")).ok()?;
    let opened = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let links = opened.map(|file| file.path()).chain([process.join("cwd"), process.join("root")]);
    let linked =
        links.filter_map(|link| std::fs::read_link(link).ok()).find(|file| file.starts_with(at));
    let used = linked.map(|file| file.display().to_string()).or_else(|| {
        let maps = std::fs::read(process.join("maps")).ok()?;
        let mut mapped = maps.split(|byte| matches!(byte, b' ' | b'\n')).map(OsStr::from_bytes);
        mapped
            .find(|word| Path::new(word).starts_with(at))
            .map(|word| format!("mapped {}", word.display()))
    })?;
    Some(format!("{} ({}): {used}", process.file_name()?.display(), name.trim()))
}
