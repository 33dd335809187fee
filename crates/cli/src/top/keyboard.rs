//! The key that ends `orrery top`. While it runs on a terminal, keys come without a line feed and are
//! not shown; the terminal is as before when this is dropped.

use std::time::Duration;

use crate::interrupt;

/// How often an interruption is looked for while no key is pressed.
#[cfg(unix)]
const SLICE: Duration = Duration::from_millis(100);

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The time is over.
    Time,
    /// `q`, Ctrl-D or Ctrl-C.
    Quit,
}

#[cfg(unix)]
pub(super) struct Keyboard {
    /// The state of the terminal before; none without a terminal.
    before: Option<rustix::termios::Termios>,
}

#[cfg(unix)]
impl Keyboard {
    pub(super) fn open() -> Self {
        use rustix::termios::{self, LocalModes, OptionalActions};
        let before = termios::tcgetattr(rustix::stdio::stdin()).ok();
        let before = before.filter(|_| crate::table::is_terminal());
        if let Some(before) = &before {
            let mut changed = before.clone();
            changed.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
            let _ = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &changed);
        }
        Self { before }
    }

    /// Waits for a time, or for the key that ends it.
    pub(super) fn wait(&self, time: Duration) -> Waited {
        let mut left = time;
        while !left.is_zero() {
            if interrupt::is_requested() || self.is_quit_pressed(left.min(SLICE)) {
                return Waited::Quit;
            }
            left = left.saturating_sub(SLICE);
        }
        if interrupt::is_requested() { Waited::Quit } else { Waited::Time }
    }

    fn is_quit_pressed(&self, time: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let end_of_input = 4;
        if self.before.is_none() {
            std::thread::sleep(time);
            return false;
        }
        let stdin = rustix::stdio::stdin();
        let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
        let Ok(time) = Timespec::try_from(time) else { return false };
        if !poll(&mut watched, Some(&time)).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut keys = [0; 16];
        match rustix::io::read(stdin, &mut keys) {
            // The terminal is gone.
            Ok(0) | Err(_) => true,
            Ok(count) => keys
                .iter()
                .take(count)
                .any(|key| matches!(key, b'q' | b'Q') || *key == end_of_input),
        }
    }
}

#[cfg(unix)]
impl Drop for Keyboard {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.before {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(not(unix))]
pub(super) struct Keyboard;

#[cfg(not(unix))]
impl Keyboard {
    pub(super) fn open() -> Self {
        Self
    }

    pub(super) fn wait(&self, time: Duration) -> Waited {
        if interrupt::sleep(time).is_err() { Waited::Quit } else { Waited::Time }
    }
}
