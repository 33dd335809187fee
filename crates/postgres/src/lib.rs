//! `PostgreSQL` as a storage engine, for any number of nodes.
//!
//! ```text
//! writers ──▶ a queue for each committer ──▶ groups of one shard ──▶ kv_commit ──▶ head ──▶ answers
//! readers ──▶ pooled connections; a snapshot is a transaction of its own
//! ```
//!
//! - `schema.sql`  tables, with a version; `functions.sql` what is done in the server
//! - `schema`      creates them, migrates them, and checks them at the start
//! - `address`     where the server is; `password` and `tls` how it is reached
//! - `connection`  connections, prepared statements, pools
//! - `node_session` how the server knows a node
//! - `heads`       heads of shards, and what was last heard of them
//! - `staging`     a store that is filled before anybody may open it
//! - `account`     what an account keeps beside its data
//! - `status`      what `orrery store status` shows
//! - `failure`     what an error of the server means to the caller
//! - `folded_key`  keys as the server stores them
//! - `group`       commits that go to the server together
//! - `committer`   the threads that write; `bare` what they send, for measuring
//! - `journal`     what is written to a shard while it is copied; `copies` the copy
//! - `snapshot`    reads of one instant
//! - `scan`        ranges of keys
//!
//! **Many nodes.** No node owns anything. The row of a shard's head is what orders commits: each locks it, tests its
//! preconditions against what is committed then, and gives the next LSN. What a node remembers of heads are lower bounds
//! that save a question (`heads`).

mod account;
mod address;
mod bare;
mod committer;
mod connection;
mod copies;
mod failure;
mod folded_key;
mod group;
mod heads;
mod journal;
mod node_session;
mod password;
mod scan;
mod schema;
mod snapshot;
mod staging;
mod status;
mod store;
mod tls;

pub use account::AccountTable;
pub use bare::BareCommitter;
pub use schema::{PostgresOpenError, init, migrate};
pub use staging::StagingStore;
pub use status::{NodeOfStore, StoreStatus, status};
pub use store::{PostgresOptions, PostgresStore};
