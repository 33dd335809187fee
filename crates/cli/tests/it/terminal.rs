//! A command on a terminal: a pseudo-terminal whose other end the test reads and types on.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A wait that no test should come near; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Terminal {
    typed: File,
    shown: Receiver<Vec<u8>>,
    /// What was shown and not waited for yet.
    text: String,
    child: Child,
}

impl Terminal {
    /// Starts a command on a terminal of 100 columns and 30 rows.
    pub(crate) fn start(mut command: Command) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        command.env("TERM", "xterm").env("ORRERY_PAGER", "");
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = command.spawn().unwrap();
        // The slave's other handles are the child's now.
        drop(command);
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                if sender.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { typed: master, shown, text: String::new(), child }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.typed.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text is shown; what was shown up to its end.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, expected: &str) -> String {
        loop {
            if let Some(at) = self.text.find(expected) {
                let rest = self.text.split_off(at + expected.len());
                return std::mem::replace(&mut self.text, rest);
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(piece) => self.text += &String::from_utf8_lossy(&piece),
                Err(error) => panic!("no '{expected}' ({error}) in {:?}", self.text),
            }
        }
    }

    /// Waits until the command has ended; how, and what it showed last.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        while let Ok(piece) = self.shown.recv_timeout(PATIENCE) {
            self.text += &String::from_utf8_lossy(&piece);
        }
        (status, std::mem::take(&mut self.text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
