//! The engine as the server calls it, on every store.

mod aggregates;
mod batch;
mod batch_model;
mod buckets;
mod changes;
mod encryption_key;
mod erasure;
mod expansion;
mod expansion_law;
mod golden_plans;
mod hostile_queries;
mod law;
mod law_queries;
mod limits;
mod model;
mod model_doors;
mod modelled;
mod path_numbers;
mod random;
mod reindex;
mod reopen;
mod script;
mod transaction;
mod world;
