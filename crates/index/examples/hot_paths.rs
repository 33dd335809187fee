//! How long it takes to find an item's terms and what a replace changes:
//! `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo run -p orrery-index --example hot_paths`.

use orrery_index::maintain::{TermImage, maintain};
use orrery_index::{Dictionary, DictionaryShard, IndexRules, IndexedItem, IndexingPolicy};
use orrery_storage::key::Row;
use orrery_storage::{MemoryStore, Part, Store};
use orrery_types::{Clock, Epoch, ShardId, SystemClock, Value};

const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(1);
const TIMES: u64 = 2_000;
const ROUNDS: u64 = 50;

fn item(n: u64) -> Value {
    let text = format!(
        r#"{{"id":"{n:032}","pk":"customer-{n}","customer":{{"id":"c{n}","name":"amber basin","email":"a{n}@example.com"}},
        "status":"open","total":{n}.25,"currency":"EUR","placed":"2026-01-01T00:00:00Z","priority":3,"gift":false,
        "address":{{"street":"Ridge 7","city":"Fjord","zip":"01234","country":"NO","location":{{"lat":59.9,"lon":10.7}}}},
        "lines":[{{"sku":"a-1","quantity":1,"price":9.5}},{{"sku":"b-2","quantity":2,"price":1.25}},{{"sku":"c-3","quantity":3,"price":7}}],
        "tags":["x","y","z"],"version":{n},"score":0.5,"session":"{n:036}","note":"{}"}}"#,
        "some words of a note ".repeat(16)
    );
    Value::parse(text.as_bytes()).expect("JSON")
}

fn timed(what: &str, mut work: impl FnMut()) {
    // The rest of the machine has disturbed the best round least.
    let round = |_| {
        let start = SystemClock.now_us();
        for _ in 0..TIMES {
            work();
        }
        (SystemClock.now_us() - start) * 1000 / TIMES
    };
    let ns = (0..ROUNDS).map(round).min().unwrap_or_default();
    eprintln!("{what}: {ns} ns");
}

fn main() {
    let store = MemoryStore::new();
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let home = DictionaryShard { store: &store, shard: SHARD, epoch: EPOCH };
    let (dictionary, rules) =
        (Dictionary::default(), IndexRules::new(&IndexingPolicy::default(), &[]));
    let (before, after) = (item(1), item(2));
    let indexed = |value: &'static Value, ts: i64| {
        let own = value.as_object().expect("an object");
        IndexedItem::new(own, &["_ts", "_etag"], vec![("_ts", ts.into())])
    };
    let (before, after): (&'static Value, &'static Value) =
        (Box::leak(Box::new(before)), Box::leak(Box::new(after)));
    let (before, after) = (indexed(before, 1), indexed(after, 2));
    let old = dictionary.terms(home, &rules, &before).expect("terms");
    let new = dictionary.terms(home, &rules, &after).expect("terms");
    eprintln!("{} terms", new.iter().len());
    timed("terms of an item", || {
        std::hint::black_box(dictionary.known_terms(&rules, &after));
    });
    let image = |terms| Some(TermImage { terms, row: Row(1) });
    timed("writes of a create", || {
        let mut part = Part::new(SHARD, EPOCH);
        maintain(None, image(&new), rules.all(), &mut part);
        std::hint::black_box(part);
    });
    timed("writes of a replace", || {
        let mut part = Part::new(SHARD, EPOCH);
        maintain(image(&old), image(&new), rules.all(), &mut part);
        std::hint::black_box(part);
    });
}
