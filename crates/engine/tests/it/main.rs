//! The engine as the server calls it, on every store.

mod reopen;
mod world;
