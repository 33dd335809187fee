//! Direct mode: clients send binary frames over TLS in place of HTTP requests, on the same port.
//!
//! 1. `net/connection` reads the first bytes behind TLS. If `net/opening` finds a context request in
//!    them, [`connection`] takes the connection over.
//! 2. `orrery_direct` finds where a frame ends and reads its tokens.
//! 3. [`decode`] makes of a frame the link, headers and credentials that an HTTP request would have; the
//!    service then does exactly what it does for HTTP.
//! 4. [`encode`] writes the answer as a frame.
//!
//! Which addresses clients connect to is answered over HTTP (`handlers/addresses`).

pub(crate) mod connection;
mod decode;
mod encode;
pub(crate) mod replica;
