//! Several processes, *nodes*, over one store. What this one keeps in memory of a shared store is compared with
//! what others have changed ([`observed_store`]).

pub(crate) mod catalog_watch;
pub(crate) mod observed_store;
