//! Derived data: everything that is written because an item changes, in the commit of that change.

pub(crate) mod buckets;
pub(crate) mod cascade;
pub(crate) mod deferred;
pub(crate) mod index_terms;
pub(crate) mod kept_on_target;
pub(crate) mod references;
pub(crate) mod unique_keys;
