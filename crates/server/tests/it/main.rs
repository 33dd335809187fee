//! The front on real sockets, with a tiny service behind it. Limits are small, so that waiting
//! for one takes milliseconds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod crowd;
mod direct;
mod entra;
mod framing;
mod hostile;
mod lifecycle;
mod limits;
mod protocols;
mod side;
