//! Ctrl-C and SIGTERM. A command that moves data *cooperates*: it ends at the next safe place, removes
//! what is unfinished, and reports how far it got. Any other command ends at once, with one line. A
//! cooperating command that does not end within half a minute is ended, and so is one that is
//! interrupted a second time; paths it registered are removed then.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::exit::{Exit, Failure};

/// How long a cooperating command has before it is ended.
const GRACE: Duration = Duration::from_secs(30);
/// How often a sleeping command looks whether it was interrupted.
const SLICE: Duration = Duration::from_millis(50);

static REQUESTED: AtomicBool = AtomicBool::new(false);
static COOPERATING: AtomicUsize = AtomicUsize::new(0);
static CODE: AtomicU8 = AtomicU8::new(Exit::Interrupted as u8);
static CHANGED: Notify = Notify::const_new();
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Watches for signals from now on. Without a thread to watch them, a signal ends the process as it
/// does by default.
pub(crate) fn watch() {
    let builder = std::thread::Builder::new().name("signals".to_owned());
    let (ready, started) = std::sync::mpsc::channel();
    let spawned = builder.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(handle(&ready));
        }
    });
    if spawned.is_ok() {
        // A signal that comes right after the start finds its handler.
        let _ = started.recv();
    }
}

#[cfg(unix)]
async fn handle(ready: &std::sync::mpsc::Sender<()>) {
    use tokio::signal::unix::{SignalKind, signal};
    const TERMINATED: u8 = 143;
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    let _ = ready.send(());
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => CODE.store(TERMINATED, Ordering::SeqCst),
        }
        if COOPERATING.load(Ordering::SeqCst) == 0 {
            end();
        }
        REQUESTED.store(true, Ordering::SeqCst);
        CHANGED.notify_waiters();
        tokio::select! {
            _ = interrupt.recv() => end(),
            _ = terminate.recv() => end(),
            () = tokio::time::sleep(GRACE) => {}
            () = acknowledged() => {}
        }
        if is_requested() {
            end();
        }
    }
}

#[cfg(not(unix))]
async fn handle(ready: &std::sync::mpsc::Sender<()>) {
    let _ = ready.send(());
    while tokio::signal::ctrl_c().await.is_ok() {
        if COOPERATING.load(Ordering::SeqCst) == 0 {
            end();
        }
        REQUESTED.store(true, Ordering::SeqCst);
        CHANGED.notify_waiters();
        tokio::select! {
            _ = tokio::signal::ctrl_c() => end(),
            () = tokio::time::sleep(GRACE) => {}
            () = acknowledged() => {}
        }
        if is_requested() {
            end();
        }
    }
}

async fn acknowledged() {
    while is_requested() {
        tokio::time::sleep(SLICE).await;
    }
}

/// Ends the process, without what is unfinished.
fn end() -> ! {
    for path in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        remove(path);
    }
    eprintln!("orrery: interrupted");
    std::process::exit(i32::from(CODE.load(Ordering::SeqCst)));
}

/// Removes a file or a folder, if it exists.
fn remove(path: &Path) {
    if path.is_dir() {
        let _ = std::fs::remove_dir_all(path);
    } else {
        let _ = std::fs::remove_file(path);
    }
}

/// The exit code of a command that was interrupted.
pub(crate) fn code() -> u8 {
    CODE.load(Ordering::SeqCst)
}

/// While it lives, the command looks for itself whether it was interrupted.
#[must_use]
pub(crate) struct Cooperation(());

pub(crate) fn cooperate() -> Cooperation {
    COOPERATING.fetch_add(1, Ordering::SeqCst);
    Cooperation(())
}

impl Drop for Cooperation {
    fn drop(&mut self) {
        COOPERATING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A file or folder that is of no use before it is complete. It is removed when this is dropped, and
/// when the process is interrupted, unless it was finished.
pub(crate) struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    pub(crate) fn new(path: &Path) -> Self {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        Self { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        remove(&self.path);
        let mut all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|path| *path != self.path);
    }
}

/// Whether the command was interrupted.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// The shell goes on after an interruption: it has ended what was running.
pub(crate) fn acknowledge() -> bool {
    REQUESTED.swap(false, Ordering::SeqCst)
}

/// Fails if the command was interrupted.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_requested() { Err(failure("interrupted")) } else { Ok(()) }
}

/// The error of a command that was interrupted; the text says what was done.
pub(crate) fn failure(text: impl Into<String>) -> anyhow::Error {
    Failure::new(Exit::Interrupted, text).into()
}

/// Completes when the command is interrupted.
pub(crate) async fn requested() {
    loop {
        let changed = CHANGED.notified();
        if is_requested() {
            return;
        }
        changed.await;
    }
}

/// Sleeps, unless the command is interrupted.
pub(crate) fn sleep(time: Duration) -> anyhow::Result<()> {
    let mut left = time;
    while !left.is_zero() {
        check()?;
        let slice = left.min(SLICE);
        std::thread::sleep(slice);
        left -= slice;
    }
    check()
}
