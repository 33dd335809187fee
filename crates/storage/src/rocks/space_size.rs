//! The size of each space after a full compaction, for measurements.

use rocksdb::properties::{AGGREGATED_TABLE_PROPERTIES, LIVE_SST_FILES_SIZE};
use rocksdb::{BottommostLevelCompaction, CompactOptions};

use super::{RocksStore, read_error};
use crate::{Space, StorageError};

/// The size of one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SpaceSize {
    pub space: Space,
    pub disk_bytes: u64,
    pub entries: u64,
    /// Of all keys and values, uncompressed.
    pub plain_bytes: u64,
}

impl RocksStore {
    /// Compacts everything, which takes time in proportion to the data, and returns the sizes.
    pub fn compact_and_measure(&self) -> Result<Vec<SpaceSize>, StorageError> {
        let mut compact = CompactOptions::default();
        compact.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        let (db, mut sizes) = (&self.core.db, Vec::new());
        for space in Space::ALL {
            let family = self.core.cf(space);
            db.flush_cf(family).map_err(read_error)?;
            db.compact_range_cf_opt(family, None::<&[u8]>, None::<&[u8]>, &compact);
            let text = db.property_value_cf(family, AGGREGATED_TABLE_PROPERTIES);
            let text = text.map_err(read_error)?.unwrap_or_default();
            let number = |name: &str| {
                let after = text.split_once(name).map_or("", |(_, after)| after);
                let digits = after.split(';').next().unwrap_or_default().trim();
                digits.parse::<u64>().unwrap_or_default()
            };
            let disk = db.property_int_value_cf(family, LIVE_SST_FILES_SIZE);
            sizes.push(SpaceSize {
                space,
                disk_bytes: disk.map_err(read_error)?.unwrap_or_default(),
                entries: number("# entries="),
                plain_bytes: number("raw key size=") + number("raw value size="),
            });
        }
        Ok(sizes)
    }
}
