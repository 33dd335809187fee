//! The engine as the server calls it, on every store.

mod batch;
mod batch_model;
mod encryption_key;
mod limits;
mod model;
mod random;
mod reopen;
mod transaction;
mod world;
