//! What can become of a script other than an answer, and the text in which the service reports it.

use orrery_types::{Error, limits};

/// Why a script did not end well. Nothing of what it wrote may be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The text is not a function of the language.
    #[error("Encountered exception while compiling Javascript. Exception = {0}")]
    Syntax(Box<str>),
    /// The script threw, or called `abort`.
    #[error("{0}")]
    Thrown(Box<Thrown>),
    /// The time was used up.
    #[error("The script did not end within {0} ms, and nothing that it did was kept.")]
    Timeout(u128),
    /// It ran out of time several times in a row, and is not run for a while.
    #[error(
        "The script with id '{0}' is blocked for execution because it has violated its allowed \
         resource limit several times."
    )]
    Blocked(Box<str>),
    /// A body of the script's is larger than its limit.
    #[error("the body of the script's answer is {size} bytes, the limit is {limit}")]
    #[expect(missing_docs, reason = "the message says it")]
    TooLarge { size: usize, limit: usize },
    /// The store failed in a way that no script should handle.
    #[error("{0}")]
    Host(Box<Error>),
    /// A fault of ours.
    #[error("{0}")]
    Internal(Box<str>),
}

/// What a script threw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thrown {
    /// The `number` of the error, if it had one.
    pub number: Option<i32>,
    /// The error as text, such as `Error: no such author`.
    pub text: String,
    /// Where it was thrown, a line for each call; empty for what is not an error.
    pub stack: String,
    /// What the script had logged until then.
    pub log: String,
}

impl std::fmt::Display for Thrown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = &self.text;
        let text = format!("Encountered exception while executing Javascript. Exception = {what}");
        let text = match self.stack.as_str() {
            "" => text,
            stack => format!("{text}\r\nStack trace: {what}\n{stack}"),
        };
        if text.len() > limits::SCRIPT_MESSAGE_BYTES_MAX {
            let fits = |at: &usize| text.is_char_boundary(*at);
            let end = (0..=limits::SCRIPT_MESSAGE_BYTES_MAX).rev().find(fits).unwrap_or(0);
            return write!(f, "{}…", text.get(..end).unwrap_or_default());
        }
        f.write_str(&text)
    }
}

impl From<Thrown> for ScriptError {
    fn from(thrown: Thrown) -> Self {
        Self::Thrown(Box::new(thrown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thrown_error_reads_as_the_service_writes_it() {
        let text = "Error: no".to_owned();
        let stack = "   at f (sp.js:1:2)".to_owned();
        let thrown = Thrown { text, stack, ..Thrown::default() };
        assert_eq!(
            thrown.to_string(),
            "Encountered exception while executing Javascript. Exception = Error: no\r\n\
             Stack trace: Error: no\n   at f (sp.js:1:2)"
        );
    }

    #[test]
    fn a_long_text_is_cut() {
        let thrown = Thrown { text: "ü".repeat(1 << 20), ..Thrown::default() };
        assert!(thrown.to_string().len() <= limits::SCRIPT_MESSAGE_BYTES_MAX + "…".len());
    }
}
