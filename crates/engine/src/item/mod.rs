//! One item: where it lies, what a request wants done with it, its body, and point reads.

pub(crate) mod address;
pub(crate) mod image;
pub mod operation;
pub mod patch;
pub mod read;
