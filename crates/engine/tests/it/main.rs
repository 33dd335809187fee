//! The engine as the server calls it, on every store.

mod encryption_key;
mod golden_plans;
mod hostile_queries;
mod law;
mod law_queries;
mod limits;
mod model;
mod random;
mod reindex;
mod reopen;
mod transaction;
mod world;
