//! The engine as the server calls it, on every store.

mod batch;
mod batch_model;
mod changes;
mod charge;
mod encryption_key;
mod erasure;
mod expansion;
mod expansion_law;
mod golden_plans;
mod hostile_queries;
mod law;
mod law_queries;
mod limits;
mod load;
mod model;
mod modelled;
mod path_numbers;
mod random;
mod reindex;
mod reopen;
mod script;
mod throttle;
mod transaction;
mod world;
