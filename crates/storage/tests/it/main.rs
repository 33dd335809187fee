//! Every promise of the store contract, kept by every engine.

mod cluster;
mod commit_paths;
mod contract;
mod copies;
mod crash;
mod estimate;
mod failure;
mod fault;
mod folder;
mod format;
mod model;
mod nodes;
mod postgres;
#[cfg(unix)]
mod postgres_cut;
mod postgres_nodes;
mod postgres_store;
#[cfg(unix)]
mod postgres_tls;
mod prop;
mod random;
mod resolve;
mod shards;
mod stores;
