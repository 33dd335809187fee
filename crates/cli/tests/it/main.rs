//! The binary as people and scripts start, stop and kill it, and the server behind it as clients of
//! every kind talk to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod advise;
mod client;
mod full_disk;
mod golden_http;
mod hybrid_row;
mod isolation;
mod kill;
mod model_kill;
mod process;
mod query;
mod random;
mod start;
