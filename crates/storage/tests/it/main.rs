//! Every promise of the store contract, kept by every engine.

mod contract;
mod copies;
mod crash;
mod estimate;
mod failure;
mod fault;
mod folder;
mod format;
mod model;
mod prop;
mod random;
mod shards;
mod stores;
