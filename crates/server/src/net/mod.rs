//! From a socket to a whole request, and from an answer to its bytes. A connection goes `listener` →
//! `serving_threads` → `slots` → `connection` → `front`, and from there to a
//! [`Service`](crate::service::Service). Nothing here knows of databases.

pub mod listener;
pub(crate) mod serving_threads;
pub(crate) mod slots;
pub(crate) mod connection;
pub(crate) mod watch;
pub(crate) mod refusal;
pub(crate) mod opening;
pub mod tls;
pub mod trust;
pub(crate) mod pfx;
pub(crate) mod framing;
pub(crate) mod front;
pub(crate) mod side;
pub mod cors;
pub(crate) mod body;
