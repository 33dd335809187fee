//! The engine as the server calls it, on every store.

mod limits;
mod reopen;
mod world;
