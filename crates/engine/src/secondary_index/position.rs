//! How far the feed of a shard has been applied to an index: the position of a reader of the change feed, by
//! effective key, so that it stays right when shards split and merge.

use orrery_storage::{Snapshot, Space, key};
use orrery_types::{Error, KeyRange, Lsn, Result};

use crate::change_feed::position::FeedPosition;
use crate::error::storage;

/// The position of an index in a shard of its source, as a snapshot has it.
pub(crate) struct StoredPosition {
    pub(crate) position: FeedPosition,
    /// The version of its key; `None` if the index has not begun to follow the shard.
    pub(crate) version: Option<Lsn>,
}

impl StoredPosition {
    /// That of an index in the shard of a range.
    pub(crate) fn read(snapshot: &dyn Snapshot, index: u32, range: &KeyRange) -> Result<Self> {
        let stored = snapshot.get(Space::Meta, &key::secondary_position(index)).map_err(storage)?;
        let Some(stored) = stored else {
            return Ok(Self { position: FeedPosition::at(range, Lsn(0)), version: None });
        };
        let position = FeedPosition::from_state(&stored.bytes).ok_or_else(corrupt)?;
        let position = position.within(range).map_err(|_| corrupt())?;
        Ok(Self { position, version: Some(stored.version) })
    }
}

/// The positions of all indexes in a shard that two others are merged into, as keys and values: each position
/// holds for the keys of its parent.
pub(crate) fn joined(parents: [(&dyn Snapshot, &KeyRange); 2]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let [(first, first_range), (second, second_range)] = parents;
    let mut indexes = indexes_of(first)?;
    indexes.extend(indexes_of(second)?);
    indexes.sort_unstable();
    indexes.dedup();
    let of = |index: u32| {
        let one = StoredPosition::read(first, index, first_range)?.position;
        let other = StoredPosition::read(second, index, second_range)?.position;
        Ok((key::secondary_position(index), one.joined(other).to_state()))
    };
    indexes.into_iter().map(of).collect()
}

/// The indexes that have a position in a shard. There are few: those of a source, and deleted ones whose keys are
/// being removed.
fn indexes_of(snapshot: &dyn Snapshot) -> Result<Vec<u32>> {
    let bounds = key::secondary_positions();
    let scan = bounds.scan(Space::Meta, usize::MAX, usize::MAX);
    let entries = snapshot.scan(&scan).map_err(storage)?;
    entries
        .iter()
        .map(|entry| key::parse_secondary_position(&entry.key).ok_or_else(corrupt))
        .collect()
}

fn corrupt() -> Error {
    Error::internal("the position of a global secondary index is corrupt")
}
