//! The HTTP front: sockets, TLS, limits, credentials and the shapes of the wire. A request goes
//! `listener` → `connection` → `front` → `service`, and a service reads its `link`, `auth` and
//! `headers`. Nothing here knows SQL or how data is kept.

pub mod auth;
pub mod error;
pub mod headers;
pub mod keys;
pub mod link;
mod private_file;
pub mod service;
pub mod token;
