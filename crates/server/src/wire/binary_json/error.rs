//! Why bytes are not a value in binary form, and where. `api` shows it to the sender.

use orrery_types::limits;

/// What is wrong with a binary body, and the offset of the value or name it is wrong with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at offset {offset}")]
pub struct BinaryJsonError {
    /// What is wrong.
    pub fault: BinaryJsonFault,
    /// Where, counted from the first byte of the body.
    pub offset: usize,
}

/// What can be wrong with a binary body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BinaryJsonFault {
    #[error("the first byte is not 0x80")]
    Preamble,
    #[error("unknown marker 0x{0:02x}")]
    Marker(u8),
    #[error("marker 0x{0:02x} refers to a dictionary of user strings, and there is none")]
    UserString(u8),
    #[error("marker 0x{0:02x} stands where a property name must")]
    Name(u8),
    #[error("a value ends too early: it needs {needed} bytes and {left} are left")]
    Truncated { needed: usize, left: usize },
    #[error("a length of {0} bytes goes beyond what is around it")]
    Length(usize),
    #[error("a container has {found} members and says it has {told}")]
    Count { told: usize, found: usize },
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    #[error("a string is not valid UTF-8")]
    Utf8,
    #[error("a packed string has a character that is not ASCII")]
    NotAscii,
    #[error("a packed string or base64 text has a wrong padding")]
    Padding,
    #[error("no string begins at {0}, where a reference says there is one")]
    Reference(usize),
    #[error("the property '{0}' occurs twice")]
    Duplicate(Box<str>),
    #[error("number out of range")]
    NotFinite,
    #[error("nesting is deeper than {max} levels", max = limits::NESTING_DEPTH_MAX)]
    Depth,
    #[error("the value takes {text_bytes} bytes or more as text")]
    TooLarge { text_bytes: usize },
}

impl BinaryJsonFault {
    pub(super) fn at(self, offset: usize) -> BinaryJsonError {
        BinaryJsonError { fault: self, offset }
    }
}
