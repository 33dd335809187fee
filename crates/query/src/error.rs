//! What can be wrong with a query, in the service's own shapes: compile errors with code and
//! position (`{"errors":[…]}`), and errors of planning and running (`{"Errors":["…"]}`). Everything
//! in this crate fails with [`QueryError`]; the engine turns it into the domain error.

use std::fmt::{self, Write as _};

use orrery_types::Exceeded;
use orrery_types::json::write_json_string;

use crate::ast::Span;

/// Why a query was refused or stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The text breaks the rules of the language.
    Compile(Box<[Diagnostic]>),
    /// The query cannot be served or failed while running; the text is for its sender.
    Runtime(Box<str>),
    /// The continuation token is malformed, edited, or of another query.
    Token,
    /// The budget of the execution is exceeded.
    Exceeded(Exceeded),
    /// The items could not be read.
    Source(Box<orrery_types::Error>),
}

/// One rule broken at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// First character and the one past the last, counted from 0; absent where the service gives
    /// none.
    pub location: Option<(usize, usize)>,
    /// The service's code, such as `SC1001`.
    pub code: &'static str,
    /// What is wrong.
    pub message: Box<str>,
}

impl QueryError {
    /// One compile error at a place in the text.
    pub(crate) fn at(
        text: &str,
        span: Span,
        code: &'static str,
        message: impl Into<Box<str>>,
    ) -> Self {
        let chars_before = |byte: usize| {
            let byte = byte.min(text.len());
            text.char_indices().take_while(|(i, _)| *i < byte).count()
        };
        let location = Some((chars_before(span.start), chars_before(span.end)));
        Self::Compile(Box::new([Diagnostic { location, code, message: message.into() }]))
    }

    /// One compile error that names no place.
    pub(crate) fn unplaced(code: &'static str, message: impl Into<Box<str>>) -> Self {
        Self::Compile(Box::new([Diagnostic { location: None, code, message: message.into() }]))
    }

    /// ORDER BY RANK by something else than a score.
    pub(crate) fn not_a_score(text: &str, span: Span) -> Self {
        let message = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a \
                       FullTextScore function call.";
        Self::at(text, span, "SC2221", message)
    }

    /// An error without code and place.
    pub(crate) fn runtime(message: impl Into<Box<str>>) -> Self {
        Self::Runtime(message.into())
    }

    /// The code of the first diagnostic.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Compile(list) => list.first().map(|d| d.code),
            Self::Runtime(_) | Self::Token | Self::Exceeded(_) | Self::Source(_) => None,
        }
    }

    /// The JSON text that the service puts behind `Message: `.
    pub fn to_json(&self) -> String {
        let Self::Compile(list) = self else {
            let mut out = String::from("{\"Errors\":[");
            write_json_string(&self.to_string(), &mut out);
            out.push_str("]}");
            return out;
        };
        let mut out = String::from("{\"errors\":[");
        for (i, diagnostic) in list.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str("{\"severity\":\"Error\",");
            if let Some((start, end)) = diagnostic.location {
                let _ = write!(out, "\"location\":{{\"start\":{start},\"end\":{end}}},");
            }
            // The code that is none of the compiler's is a number.
            let is_number = diagnostic.code.bytes().all(|byte| byte.is_ascii_digit());
            let quote = if is_number { "" } else { "\"" };
            let _ = write!(out, "\"code\":{quote}{}{quote},\"message\":", diagnostic.code);
            write_json_string(&diagnostic.message, &mut out);
            out.push('}');
        }
        out.push_str("]}");
        out
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(list) => {
                for (i, diagnostic) in list.iter().enumerate() {
                    let separator = if i > 0 { " " } else { "" };
                    write!(f, "{separator}{}", diagnostic.message)?;
                }
                Ok(())
            }
            Self::Runtime(message) => f.write_str(message),
            Self::Token => f.write_str("Invalid Continuation Token"),
            Self::Exceeded(exceeded) => write!(f, "{exceeded}"),
            Self::Source(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for QueryError {}

impl From<Exceeded> for QueryError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

impl From<orrery_types::Error> for QueryError {
    fn from(error: orrery_types::Error) -> Self {
        Self::Source(Box::new(error))
    }
}

impl From<QueryError> for orrery_types::Error {
    /// The domain error: the store's own errors come back as they were.
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Compile(_) | QueryError::Runtime(_) => Self::Query(error.to_json().into()),
            QueryError::Token => Self::invalid("Invalid Continuation Token"),
            QueryError::Exceeded(exceeded) => exceeded.into(),
            QueryError::Source(error) => *error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_render_in_the_shapes_of_the_service() {
        let text = "SELECT é BADFUNC(1)";
        let start = text.find("BAD").unwrap();
        let error = QueryError::at(text, Span::new(start, start + 7), "SC2005", "no 'f'");
        assert_eq!(
            error.to_json(),
            r#"{"errors":[{"severity":"Error","location":{"start":9,"end":16},"code":"SC2005","message":"no 'f'"}]}"#
        );
        assert_eq!(
            QueryError::unplaced("2206", "no").to_json(),
            r#"{"errors":[{"severity":"Error","code":2206,"message":"no"}]}"#
        );
        assert_eq!(QueryError::runtime("a \"b\"").to_json(), r#"{"Errors":["a \"b\""]}"#);
    }
}
