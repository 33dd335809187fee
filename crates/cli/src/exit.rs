//! How a command ends, for scripts that look at the exit code. `docs/cli.md` lists the codes.

use std::fmt;

/// A kind of failure that scripts may want to tell from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Anything that has no code of its own.
    Failed = 1,
    /// The arguments are wrong.
    Usage = 2,
    /// No server answered.
    Unreachable = 3,
    /// The server answered, and refused.
    Refused = 4,
    /// Some of the work was done; what was not is listed.
    Partly = 5,
    /// Data is damaged.
    Damaged = 6,
    /// Ended by Ctrl-C; what was done until then is reported.
    Interrupted = 130,
}

/// An error with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

/// The error of arguments that are wrong.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Failure::new(Exit::Usage, message).into()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Whether a command was ended by a signal.
pub(crate) fn is_interrupted(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
    causes.any(|failure| failure.exit == Exit::Interrupted)
}

/// What is said when the output cannot be written.
pub(crate) const UNREAD: &str = "the output cannot be written";

/// Whether a command failed only because its reader has read enough, as `head` does.
pub(crate) fn is_enough(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    let closed = cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe);
    closed && error.chain().any(|cause| cause.to_string() == UNREAD)
}

/// The code of an error: the one that any of its causes has.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    let own = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    match own.map_or(Exit::Failed, |failure| failure.exit) {
        Exit::Interrupted => crate::interrupt::code(),
        exit => exit as u8,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn the_code_is_that_of_the_cause() {
        let plain = anyhow::anyhow!("no");
        assert_eq!(code(&plain), 1);
        let failed: anyhow::Result<()> = Err(Failure::new(Exit::Refused, "no").into());
        let told = failed.context("while asking").unwrap_err();
        assert_eq!(code(&told), 4);
        assert_eq!(format!("{told:#}"), "while asking: no");
    }

    #[test]
    fn a_reader_who_has_enough_is_no_failure() {
        let closed = || -> std::io::Result<()> { Err(std::io::ErrorKind::BrokenPipe.into()) };
        assert!(is_enough(&closed().context(UNREAD).unwrap_err()));
        assert!(!is_enough(&closed().context("the server hung up").unwrap_err()));
        let full: std::io::Result<()> = Err(std::io::ErrorKind::StorageFull.into());
        assert!(!is_enough(&full.context(UNREAD).unwrap_err()));
    }
}
