//! An ordered map of bytes to bytes, in shards, behind one trait with several engines.
//!
//! `store` is the contract; `key`, `encode`, `term`, `record` and `version` say what the bytes mean;
//! `memory` is the reference engine, `rocks` the one on disk, and `fault` wraps either in tests.

pub mod checkpoint;
pub mod commit_id;
pub mod commit_log;
pub mod copy_batch;
pub mod copy_run;
pub mod encode;
pub mod fault;
pub mod journal;
pub mod key;
pub mod memory;
pub mod outgoing_copy;
mod persistent_map;
pub mod record;
pub mod rocks;
pub mod shard_head;
pub mod store;
pub mod term;
pub mod version;

pub use checkpoint::checkpoint;
pub use commit_id::CommitId;
pub use commit_log::Resolution;
pub use copy_batch::CopyBatch;
pub use copy_run::{BufferedRun, CopyRun, copy_run};
pub use fault::FaultStore;
pub use journal::{Copied, Journal, JournalError};
pub use memory::MemoryStore;
pub use outgoing_copy::{OutgoingCopy, OutgoingCopyError};
pub use rocks::{LogDamage, OnLogDamage, OpenError, RocksOptions, RocksStore, SpaceSize};
pub use store::{
    Commit, Committed, EmbeddedStore, Entry, FailedPrecondition, Head, HeadChange, KeyCursor,
    LostAnswer, OnCommitted, Part, Precondition, Put, ReadAt, Scan, ShardState, ShardStats,
    Snapshot, Space, StorageError, Store, Value,
};
