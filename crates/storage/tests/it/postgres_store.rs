//! New stores in the cluster of the tests, for the tests of several crates.

use std::sync::atomic::{AtomicU32, Ordering};

use orrery_postgres::{PostgresOptions, init};

use crate::cluster;

/// A new and empty store in the cluster, as its address and options; `None` where there is no server.
pub(crate) fn new_store() -> Option<(String, PostgresOptions)> {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let address = cluster::address()?;
    let schema = format!("s{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
    let (reads_max, committers) = (4, 2);
    let options = PostgresOptions { schema, reads_max, committers, ..PostgresOptions::default() };
    init(&address, &options).expect("a store is created");
    Some((address, options))
}
