//! The engine as the server calls it, on every store.

mod batch;
mod encryption_key;
mod limits;
mod model;
mod random;
mod reopen;
mod script;
mod transaction;
mod world;
