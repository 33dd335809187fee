//! A command that is run to its end, as a person would at a shell, with a state folder of its own.

use std::io::Write as _;
use std::process::{Child, Output, Stdio};

use crate::process::{Running, orrery};

/// A place to run commands in.
pub(crate) struct Tool {
    pub(crate) folder: tempfile::TempDir,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Tool {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = orrery(arguments);
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        command.current_dir(self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.run_with(arguments, "")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], typed: &str) -> Said {
        let mut child = self.spawn(arguments);
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        Said {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed; what it printed.
    #[track_caller]
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        said.out
    }

    /// Runs a command that must fail so.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &[&str], code: i32, expected: &str) {
        let said = self.run(arguments);
        assert_eq!(said.code, code, "{arguments:?}: {said:?}");
        assert!(said.err.contains(expected), "{arguments:?}: {said:?}");
    }
}

/// The flags that lead to a server.
pub(crate) fn at(server: &Running) -> [String; 4] {
    let endpoint = format!("http://{}", server.address());
    ["--endpoint".into(), endpoint, "--key".into(), server.key()]
}

/// Arguments, with those of a server behind them.
pub(crate) fn with<'a>(arguments: &[&'a str], more: &'a [String]) -> Vec<&'a str> {
    arguments.iter().copied().chain(more.iter().map(String::as_str)).collect()
}
