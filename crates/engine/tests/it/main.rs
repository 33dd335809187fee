//! The engine as the server calls it, on every store.

mod limits;
mod model;
mod random;
mod reopen;
mod world;
