//! Why bytes are not a batch in `HybridRow` form, and where. `handlers/batch` shows it to the sender.

/// What is wrong with a stream, and the offset of what it is wrong with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at offset {offset}")]
pub struct HybridRowError {
    /// What is wrong.
    pub fault: HybridRowFault,
    /// Where, counted from the first byte of the body.
    pub offset: usize,
}

/// What can be wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum HybridRowFault {
    #[error("a value ends too early: it needs {needed} bytes and {left} are left")]
    Truncated { needed: usize, left: usize },
    #[error("a row begins with 0x{0:02x} instead of its version 0x81")]
    Version(u8),
    #[error("unknown or misplaced schema {0}")]
    Schema(u32),
    #[error("a length of {0} is negative, too short, or goes beyond what is around it")]
    Length(i64),
    #[error("the checksum of a row is {told:08x} and its bytes give {found:08x}")]
    Checksum { told: u32, found: u32 },
    #[error("a number of variable length does not end")]
    VarUInt,
    #[error("a text is not valid UTF-8")]
    Utf8,
    #[error("unknown type 0x{0:02x}")]
    Type(u8),
    #[error("the property '{0}' has a type that is not its own")]
    WrongType(&'static str),
    #[error("the property '{0}' occurs twice")]
    Duplicate(&'static str),
}

impl HybridRowFault {
    pub(super) fn at(self, offset: usize) -> HybridRowError {
        HybridRowError { fault: self, offset }
    }
}
