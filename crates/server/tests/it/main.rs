//! The front on real sockets, with a tiny service behind it. Limits are small, so that waiting
//! for one takes milliseconds.

mod client;
mod hostile;
mod lifecycle;
mod limits;
mod protocols;
mod side;
