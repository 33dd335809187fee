//! The shapes of the wire, both ways: links and headers of a request, bodies in their encodings, and the
//! parts of an answer.

pub mod link;
pub mod headers;
pub mod binary_json;
pub mod batch_body;
pub mod transaction_body;
pub mod hybrid_row;
pub(crate) mod resources;
pub mod reply;
pub(crate) mod response_head;
pub(crate) mod header_texts;
pub mod error;
