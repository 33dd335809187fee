//! Options of `RocksDB`: little memory, few threads, short recovery, no files of its own log.

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType,
    DBRecoveryMode, DataBlockIndexType, InfoLogger, LogLevel, Options,
};

use super::wal::OnLogDamage;
use super::{layout, memory};
use crate::Space;

/// Settings of the embedded engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RocksOptions {
    /// Cache of uncompressed blocks, shared by all spaces.
    pub block_cache_bytes: usize,
    /// The row cache: items that were read recently.
    pub row_cache_bytes: usize,
    /// Writes kept in memory before they go to a file, all spaces together.
    pub write_buffer_bytes: usize,
    /// Length of the log past which memory is written out: what a start after a crash replays.
    pub log_bytes_max: u64,
    /// Log files that are kept and overwritten instead of being deleted and created.
    pub recycled_logs: usize,
    /// Threads that flush and compact.
    pub background_jobs: i32,
    /// Files kept open.
    pub open_files_max: i32,
    /// Whether a store opens whose log is damaged in the middle.
    pub on_log_damage: OnLogDamage,
}

impl Default for RocksOptions {
    fn default() -> Self {
        let cache_bytes = cache_bytes(memory::available_bytes());
        Self {
            block_cache_bytes: cache_bytes - cache_bytes / ROW_CACHE_FRACTION,
            row_cache_bytes: cache_bytes / ROW_CACHE_FRACTION,
            write_buffer_bytes: 32 * 1024 * 1024,
            log_bytes_max: 16 * 1024 * 1024,
            recycled_logs: 4,
            background_jobs: 2,
            open_files_max: 512,
            on_log_damage: OnLogDamage::Refuse,
        }
    }
}

/// A quarter of the memory, which fills only as far as blocks are read.
fn cache_bytes(memory_bytes: Option<u64>) -> usize {
    let quarter = memory_bytes.and_then(|bytes| usize::try_from(bytes / 4).ok());
    quarter.unwrap_or_default().clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX)
}

/// The row cache gets this fraction of the cache memory.
const ROW_CACHE_FRACTION: usize = 8;
const CACHE_BYTES_MIN: usize = 64 * 1024 * 1024;
const CACHE_BYTES_MAX: usize = 4 * 1024 * 1024 * 1024;

impl RocksOptions {
    /// Options of the database as a whole.
    pub(super) fn database(&self, create: bool) -> Options {
        let mut options = Options::default();
        options.create_if_missing(create);
        options.create_missing_column_families(create);
        options.set_db_write_buffer_size(self.write_buffer_bytes);
        options.set_max_total_wal_size(self.log_bytes_max);
        options.set_max_background_jobs(self.background_jobs);
        options.set_max_open_files(self.open_files_max);
        // Acknowledged commits are synced, so a log that ends in a broken record lost nothing that
        // was promised; and a folder must open after a loss of power. `wal` has seen to it that
        // nothing whole stands behind such a record.
        options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        options.set_track_and_verify_wals_in_manifest(true);
        // A record that overwrites allocated blocks is synced without a change of the file's metadata.
        options.set_recycle_log_file_num(self.recycled_logs);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options.set_max_manifest_file_size(4 * 1024 * 1024);
        options.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Warn, log));
        options
    }

    /// Every space with its options, and the family that `RocksDB` insists on.
    pub(super) fn families(&self) -> Vec<ColumnFamilyDescriptor> {
        let cache = Cache::new_hyper_clock_cache(self.block_cache_bytes, 0);
        let family =
            |space| ColumnFamilyDescriptor::new(layout::name(space), self.family(space, &cache));
        let default = ColumnFamilyDescriptor::new("default", Options::default());
        Space::ALL.into_iter().map(family).chain([default]).collect()
    }

    /// How a table file of a space is written apart from the database.
    pub(super) fn table(&self, space: Space) -> Options {
        self.family(space, &Cache::new_lru_cache(0))
    }

    fn family(&self, space: Space, cache: &Cache) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(cache);
        table.set_cache_index_and_filter_blocks(true);
        // A file's index in one block would be megabytes, too large for a part of the cache: every
        // read would uncompress it anew. Its filter is a tenth of that, not compressed, and in parts
        // it takes longer to find the part than to ask it.
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_pin_top_level_index_and_filter(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_format_version(5);
        table.set_block_size(match space {
            Space::Items | Space::Meta => 4 * 1024,
            Space::Index | Space::Feed | Space::Ttl => 16 * 1024,
        });
        if matches!(space, Space::Items) {
            // Creates ask for keys that are not there. The index is only ever scanned.
            table.set_bloom_filter(10.0, false);
            table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        }
        let mut options = with_insert_hints(space);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_size(match space {
            Space::Items | Space::Index => self.write_buffer_bytes / 2,
            Space::Feed | Space::Ttl | Space::Meta => self.write_buffer_bytes / 8,
        });
        // Zstandard would take a quarter less on the disk, and make queries whose items are not in
        // memory a tenth to a fifth slower.
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_level_compaction_dynamic_level_bytes(true);
        if matches!(space, Space::Items) {
            // Most keys that are asked for are not among the newest: a filter spares the search.
            options.set_memtable_prefix_bloom_ratio(0.02);
            options.set_memtable_whole_key_filtering(true);
        }
        options
    }
}

/// Options under which a memtable remembers for each prefix where its last key was inserted. A search for the
/// place of the next one begins there: rows rise, and so do the keys of a value that many items share. Without
/// it every key of a commit is searched for from the top, because the one before belongs to another path.
fn with_insert_hints(space: Space) -> Options {
    let prefix_bytes = match space {
        // Shard, kind and path.
        Space::Index => 9,
        // Shard and kind.
        Space::Items | Space::Meta => 5,
        // The keys of a shard rise.
        Space::Feed | Space::Ttl => 4,
    };
    let hints =
        format!("memtable_insert_with_hint_prefix_extractor=rocksdb.CappedPrefix.{prefix_bytes}");
    Options::default().get_options_from_string(hints).expect("an option of this version")
}

/// `RocksDB`'s own messages join ours. Its reports of options and of routine work stay out.
fn log(level: LogLevel, message: &str) {
    match level {
        LogLevel::Error | LogLevel::Fatal => tracing::error!(target: "rocksdb", "{message}"),
        LogLevel::Warn => tracing::warn!(target: "rocksdb", "{message}"),
        LogLevel::Debug | LogLevel::Info | LogLevel::Header => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_a_quarter_of_the_memory_within_bounds() {
        assert_eq!(cache_bytes(Some(8 << 30)), 2 << 30);
        assert_eq!(cache_bytes(Some(1 << 20)), CACHE_BYTES_MIN);
        assert_eq!(cache_bytes(Some(1 << 40)), CACHE_BYTES_MAX);
        assert_eq!(cache_bytes(None), CACHE_BYTES_MIN);
    }
}
