//! Compacts a data folder completely and prints how large each space is then, and how large its keys
//! and values are: `cargo run -p orrery-storage --example settle -- <folder>`. The folder must not be
//! open; its settings stay as they are.

use std::path::Path;

use rocksdb::{BottommostLevelCompaction, Cache, CompactOptions, DB, Env, Options};

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let files = Path::new(&folder).join("lsm");
    let cache = Cache::new_lru_cache(64 * 1024 * 1024);
    let env = Env::new().expect("an environment");
    let (options, families) =
        Options::load_latest(&files, env, true, cache).expect("the folder's settings");
    let db = DB::open_cf_descriptors(&options, &files, families).expect("the folder opens");
    let mut compact = CompactOptions::default();
    compact.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    for space in ["items", "index", "feed", "ttl", "meta"] {
        let family = db.cf_handle(space).expect("a space");
        db.compact_range_cf_opt(family, None::<&[u8]>, None::<&[u8]>, &compact);
        let found = db.property_value_cf(family, "rocksdb.aggregated-table-properties");
        let text = found.ok().flatten().unwrap_or_default();
        let number = |name: &str| {
            let after = text.split_once(name).map_or("", |(_, after)| after);
            after.split(';').next().unwrap_or_default().trim().parse::<u64>().unwrap_or_default()
        };
        let live = db.property_int_value_cf(family, "rocksdb.live-sst-files-size");
        eprintln!(
            "{space:6} {:>12} bytes on disk, {:>9} entries, {:>12} bytes of keys and values",
            live.ok().flatten().unwrap_or_default(),
            number("# entries="),
            number("raw key size=") + number("raw value size="),
        );
    }
}
