//! An ordered map of bytes to bytes, in shards, behind one trait with several engines.

pub mod store;

pub use store::{
    Check, Commit, Committed, Entry, Expect, Part, Put, ReadAt, Scan, ShardStats, Snapshot, Space,
    StorageError, Store, Value,
};
