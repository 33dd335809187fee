//! Compacts a data folder completely and prints how large each space is then, and how large its keys
//! and values are: `cargo run -p orrery-storage --example space_size -- <folder>`. The folder must not be
//! open.

use std::path::Path;

use orrery_storage::{RocksOptions, RocksStore};

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let store = RocksStore::open(Path::new(&folder), &RocksOptions::default());
    for size in store.expect("the folder opens").compact_and_measure().expect("sizes") {
        eprintln!(
            "{:6} {:>12} bytes on disk, {:>9} entries, {:>12} bytes of keys and values",
            format!("{:?}", size.space).to_lowercase(),
            size.disk_bytes,
            size.entries,
            size.plain_bytes,
        );
    }
}
