//! The engine as the server calls it, on every store.

mod batch;
mod batch_model;
mod changes;
mod charge;
mod encryption_key;
mod erasure;
mod golden_plans;
mod hostile_queries;
mod law;
mod law_queries;
mod limits;
mod model;
mod modelled;
mod random;
mod reindex;
mod reopen;
mod script;
mod throttle;
mod transaction;
mod world;
