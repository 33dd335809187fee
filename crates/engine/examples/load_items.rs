//! Fills a data folder with items of about 1 KB and 35 index terms, to be measured:
//! `cargo run -p orrery-engine --example load_items -- <folder> <count>`, then
//! `cargo run -p orrery-storage --example settle -- <folder>` compacts it and prints sizes.

use std::path::Path;
use std::sync::Arc;

use orrery_engine::Engine;
use orrery_engine::throughput::ThroughputRequest;
use orrery_storage::{RocksOptions, RocksStore};
use orrery_types::ids::Address;
use orrery_types::{PartitionKey, SystemClock, Value};

const ITEMS_EACH_COMMIT: usize = 100;
const WORDS: [&str; 24] = [
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "juniper",
    "knoll", "lagoon", "meadow", "night", "oasis", "pine", "quarry", "ridge", "slope", "tundra",
    "upland", "valley", "willow", "zenith",
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn words(&mut self, count: usize) -> String {
        let word = |_| WORDS[usize::try_from(self.below(24)).expect("small")];
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }

    fn guid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!("{:08x}-{:04x}-{:04x}-{:016x}", a >> 32, a >> 16 & 0xffff, a & 0xffff, b)
    }
}

/// An order: ids, names, amounts, times, an address, lines and a note.
fn item(random: &mut Random, key: &str) -> String {
    let line = |random: &mut Random| {
        format!(
            r#"{{"sku":"{}-{}","quantity":{},"price":{}.{:02}}}"#,
            random.words(1),
            random.below(5000),
            random.below(9) + 1,
            random.below(500),
            random.below(100)
        )
    };
    let lines: Vec<String> = (0..3).map(|_| line(random)).collect();
    format!(
        r#"{{"id":"{}","pk":"{key}","customer":{{"id":"{}","name":"{}","email":"{}@example.com"}},
        "status":"{}","total":{}.{:02},"currency":"EUR","placed":"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z","priority":{},
        "gift":{},"address":{{"street":"{} {}","city":"{}","zip":"{:05}","country":"{}","location":{{"lat":{}.{:04},"lon":{}.{:04}}}}},
        "lines":[{}],"tags":["{}","{}","{}"],"version":{},"score":0.{:06},"session":"{}","note":"{}"}}"#,
        random.guid(),
        random.guid(),
        random.words(2),
        random.words(1),
        random.words(1),
        random.below(2000),
        random.below(100),
        random.below(12) + 1,
        random.below(28) + 1,
        random.below(24),
        random.below(60),
        random.below(60),
        random.below(5),
        random.below(2) == 0,
        random.words(1),
        random.below(300),
        random.words(1),
        random.below(100_000),
        random.words(1),
        random.below(90),
        random.below(10_000),
        random.below(180),
        random.below(10_000),
        lines.join(","),
        random.words(1),
        random.words(1),
        random.words(1),
        random.below(20),
        random.below(1_000_000),
        random.guid(),
        random.words(30),
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let count: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let store = RocksStore::open(Path::new(&folder), &RocksOptions::default()).expect("a store");
    let engine = Engine::open(Arc::new(store), Arc::new(SystemClock), 1).expect("an engine");
    let json = |text: &str| Value::parse(text.as_bytes()).expect("JSON");
    let none = ThroughputRequest::default();
    engine.create_database(&json(r#"{"id":"d"}"#), &none).expect("a database");
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let (database, name) = (Address::Name("d".into()), Address::Name("c".into()));
    engine.create_container(&database, &json(body), &none).expect("a container");
    let container = engine.read_container(&database, &name).expect("it was made");
    let mut random = Random(1);
    let mut bytes = 0;
    for commit in 0..count / ITEMS_EACH_COMMIT {
        let key = format!("customer-{commit}");
        let items: Vec<String> = (0..ITEMS_EACH_COMMIT).map(|_| item(&mut random, &key)).collect();
        bytes += items.iter().map(String::len).sum::<usize>();
        let header = PartitionKey::parse_header(&format!("[\"{key}\"]")).expect("a key");
        let done = engine.transact(&container, &header, &mut |transaction| {
            items.iter().try_for_each(|item| transaction.create(item.as_bytes()).map(drop))
        });
        done.map(drop).expect("a transaction");
    }
    eprintln!("{count} items of {} bytes as sent", bytes / count.max(1));
}
