//! The engine as the server calls it, on every store.

mod batch;
mod changes;
mod encryption_key;
mod erasure;
mod limits;
mod model;
mod random;
mod reopen;
mod transaction;
mod world;
