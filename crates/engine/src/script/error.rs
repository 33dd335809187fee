//! The script runner's errors become the domain's in this one place.

use orrery_script::ScriptError;
use orrery_types::{Error, ScriptFailure};

/// What a text is numbered with that does not compile.
const COMPILE_ERROR: u16 = 65535;

/// What the sender of a request may know of a script's failure.
pub(crate) fn script_error(error: ScriptError) -> Error {
    let message = error.to_string().into();
    match error {
        ScriptError::Syntax(_) => Error::Script(Box::new(ScriptFailure {
            message,
            number: COMPILE_ERROR,
            log: "".into(),
        })),
        ScriptError::Thrown(thrown) => {
            let number = thrown.number.and_then(|n| u16::try_from(n).ok()).unwrap_or_default();
            Error::Script(Box::new(ScriptFailure { message, number, log: thrown.log.into() }))
        }
        ScriptError::Timeout(_) => Error::Timeout(message),
        ScriptError::Blocked(_) => Error::Denied(message),
        ScriptError::TooLarge { size, limit } => {
            Error::TooLarge { what: "the body of the script's answer", size, limit }
        }
        ScriptError::Host(error) => *error,
        ScriptError::Internal(reason) => Error::Internal(reason),
    }
}
