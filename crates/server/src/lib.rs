//! The HTTP front: sockets, TLS, limits, credentials and the shapes of the wire. A request goes
//! `listener` → `serving_threads` → `connection` → `front` → `service`, and a service reads its
//! `link`, `auth` and `headers`. [`api::Api`] is the service that serves the database: `dispatch` picks a handler, the
//! handler calls the engine. Nothing here knows SQL or how data is kept.

pub mod api;
pub mod auth;
pub mod backups;
pub mod batch_body;
pub mod binary_json;
mod body;
pub mod config;
mod connection;
pub mod consistency;
pub mod cors;
mod dispatch;
mod emulator_token;
pub mod error;
mod explorer;
mod framing;
mod front;
mod handlers;
mod header_texts;
pub mod headers;
pub mod hybrid_row;
pub mod keys;
pub mod link;
pub mod listener;
mod operation;
pub mod private_file;
mod reply;
pub mod service;
mod serving_threads;
mod side;
mod slots;
pub mod statistics;
pub mod telemetry;
pub mod tls;
pub mod token;
mod wire;

pub use listener::{Drained, Limits, ListenerConfig, Server};
pub use operation::Operation;
pub use service::{Answer, Answering, Request, Response, Scheme, Service};
pub use side::SideRoute;
