//! `PostgreSQL` as a storage engine, for one node at a time.
//!
//! ```text
//! writers ──▶ a queue for each committer ──▶ groups of one shard ──▶ kv_commit ──▶ head ──▶ answers
//! readers ──▶ pooled connections; a snapshot is a transaction of its own
//! ```
//!
//! - `schema.sql`  tables and functions, with a version
//! - `schema`      creates them, migrates them, and checks them at the start
//! - `address`     where the server is; `password` and `tls` how it is reached
//! - `connection`  connections, prepared statements, pools
//! - `lease`       one node at a time
//! - `staging`     a store that is filled before anybody may open it
//! - `account`     what an account keeps beside its data
//! - `status`      what `orrery store status` shows
//! - `failure`     what an error of the server means to the caller
//! - `folded_key`  keys as the server stores them
//! - `group`       commits that go to the server together
//! - `committer`   the threads that write
//! - `snapshot`    reads of one instant
//! - `scan`        ranges of keys
//!
//! **One node.** A node holds an advisory lock as long as it runs, and a second one is refused (`lease`). The lock is a
//! courtesy; what protects the data is the *owner*, a number that each node raises when it opens the store and
//! that stands in the head of every shard. Every commit requires it under the lock of the head, and every read
//! compares it, so a node that was cut off and replaced neither writes nor answers.

mod account;
mod address;
mod committer;
mod connection;
mod failure;
mod folded_key;
mod group;
mod lease;
mod password;
mod scan;
mod schema;
mod snapshot;
mod staging;
mod status;
mod store;
mod tls;

pub use account::AccountTable;
pub use schema::{PostgresOpenError, init, migrate};
pub use staging::StagingStore;
pub use status::{NodeSession, StoreStatus, status};
pub use store::{PostgresOptions, PostgresStore};
