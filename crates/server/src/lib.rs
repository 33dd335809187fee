//! The HTTP front: sockets, TLS, limits, credentials and the shapes of the wire. A request goes
//! through the modules in the order in which they are listed: `net` turns bytes into a
//! [`service::Request`], [`api::Api`] gives it to `execute`, `call` reads its link, credentials and
//! headers (`wire`, `auth`), `operation` names what it does, `dispatch` authorizes it and picks a
//! handler, and the handler calls the engine. Nothing here knows SQL or how data is kept.

pub mod config;
mod directory_config;

pub mod net;
pub(crate) mod direct;
pub mod service;
pub mod api;
mod execute;
mod call;
pub mod wire;
pub mod auth;
mod operation;
mod dispatch;
mod handlers;

pub mod backups;
pub mod copies;
pub mod consistency;
mod explorer;
pub mod statistics;
mod metrics_history;
pub mod telemetry;

pub use net::listener::{DrainOutcome, Limits, ListenError, ListenerConfig, Server};
pub use net::side::SideRoute;
pub use operation::{Operation, RequiredAction};
pub use service::{Answer, MaybeFuture, Request, Scheme, Service};
pub use wire::reply::Reply;
