//! Each kind of fault is planted behind the engine's back and must be named, and nothing else.

use std::sync::Arc;

use orrery_storage::{Commit, MemoryStore, Part, Put, Scan};
use orrery_types::ManualClock;
use orrery_types::ids::Address;

use super::*;
use crate::Engine;
use crate::catalog::offer::ThroughputRequest;

struct Bench {
    engine: Engine,
    container: Arc<Container>,
}

fn parse(json: &str) -> Value {
    Value::parse(json.as_bytes()).expect("JSON")
}

/// A container with two items that have all there is: a row, a unique key, an expiry.
fn bench() -> Bench {
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(ManualClock::at_s(1000));
    let engine = Engine::open(store, clock, 1).expect("an engine");
    let none = ThroughputRequest::default();
    engine.databases().create(&parse(r#"{"id":"d"}"#), &none).expect("a database");
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "defaultTtl":60,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    let (database, name) = (Address::Name("d".into()), Address::Name("c".into()));
    engine.containers().create(&database, &parse(body), &none).expect("a container");
    let container = engine.containers().read(&database, &name).expect("it was made");
    for id in ["a", "b"] {
        let text = format!(r#"{{"id":"{id}","p":"x","u":"{id}"}}"#);
        engine.items().create(&container, None, text.as_bytes()).expect("an item");
    }
    Bench { engine, container }
}

impl Bench {
    /// The first entry of a space that `wanted` accepts.
    fn entry(&self, space: Space, wanted: impl Fn(&Entry) -> bool) -> Entry {
        let shard = self.container.partitions[0].shard;
        let snapshot = self.engine.store.snapshot(shard, ReadAt::Latest).expect("a snapshot");
        let scan = Scan {
            space,
            from: &[],
            to: key::END,
            reverse: false,
            max_rows: usize::MAX,
            max_bytes: usize::MAX,
            keys_only: false,
        };
        let entries = snapshot.scan(&scan).expect("a scan");
        entries.into_iter().find(wanted).expect("such an entry")
    }

    fn item(&self) -> Entry {
        self.entry(Space::Items, |e| key::parse_item(&e.key).is_some())
    }

    fn row(&self) -> Entry {
        self.entry(Space::Items, |e| key::parse_row(&e.key).is_some())
    }

    /// Changes the store and looks: the kinds of all faults, sorted, each once.
    fn plant(self, change: impl FnOnce(&mut Part)) -> Vec<FaultKind> {
        let partition = &self.container.partitions[0];
        let mut part = Part::new(partition.shard, partition.epoch);
        change(&mut part);
        self.engine.store.commit(Commit::new(vec![part])).expect("a commit");
        let faults = self.engine.insight().verify(&self.container).expect("a verification");
        let mut kinds: Vec<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Puts the first item's record anew, so that its version moves on, with a feed entry for it.
    fn rewrite(&self, header: &Header, text: &[u8], part: &mut Part) {
        let key = self.item().key;
        let old = self.item().value.version;
        part.deletes.push((Space::Feed, key::feed(old, 0).to_vec()));
        part.feed.push(key.clone());
        part.puts.push(Put { space: Space::Items, key, value: record::encode(header, text) });
    }
}

/// Plants the absence of an entry of a space.
fn check_missing(space: Space, entry: &Entry, bench: Bench, expected: &[FaultKind]) {
    let kinds = bench.plant(|part| part.deletes.push((space, entry.key.clone())));
    assert_eq!(kinds, expected, "{space:?}");
}

/// Plants an entry that leads nowhere.
fn check_orphan(space: Space, key: Vec<u8>, value: Vec<u8>, expected: FaultKind) {
    let kinds = bench().plant(|part| part.puts.push(Put { space, key, value }));
    assert_eq!(kinds, [expected], "{space:?}");
}

#[test]
fn a_sound_container_has_no_fault() {
    assert_eq!(bench().plant(|_| ()), []);
}

#[test]
fn what_an_item_lacks_is_named() {
    let b = bench();
    check_missing(Space::Items, &b.row(), b, {
        &[
            FaultKind::RowMissing,
            // What leads to the item by its row leads nowhere now.
            FaultKind::UniqueKeyOrphan,
            FaultKind::ExpiryOrphan,
        ]
    });
    let b = bench();
    check_missing(Space::Feed, &b.entry(Space::Feed, |_| true), b, &[FaultKind::FeedMissing]);
    let b = bench();
    let unique = b.entry(Space::Index, |_| true);
    check_missing(Space::Index, &unique, b, &[FaultKind::UniqueKeyMissing]);
    let b = bench();
    check_missing(Space::Ttl, &b.entry(Space::Ttl, |_| true), b, &[FaultKind::ExpiryMissing]);
}

#[test]
fn what_is_left_of_an_item_is_named() {
    let b = bench();
    let expected = [
        FaultKind::RowOrphan,
        FaultKind::UniqueKeyOrphan,
        FaultKind::TermOrphan,
        FaultKind::FeedOrphan,
        FaultKind::ExpiryOrphan,
    ];
    check_missing(Space::Items, &b.item(), b, &expected);
}

#[test]
fn entries_that_lead_nowhere_are_named() {
    let row = Row(12345);
    let nowhere = bench().item().key;
    let nowhere = [&nowhere[..], b"-not"].concat();
    check_orphan(Space::Items, key::row(row).to_vec(), nowhere.clone(), FaultKind::RowOrphan);
    let taken = bench().item().key;
    check_orphan(Space::Items, key::row(row).to_vec(), taken.clone(), FaultKind::RowOrphan);
    check_orphan(Space::Ttl, key::ttl(5, row).to_vec(), taken, FaultKind::ExpiryOrphan);
    let feed = key::feed(Lsn(1), 9).to_vec();
    check_orphan(Space::Feed, feed, nowhere, FaultKind::FeedOrphan);
    let unique = bench().entry(Space::Index, |_| true);
    let other = [&unique.key[..], b"x"].concat();
    check_orphan(Space::Index, other, unique.value.bytes.into(), FaultKind::UniqueKeyOrphan);
    check_orphan(Space::Items, b"\x07what".to_vec(), vec![], FaultKind::KeyUnknown);
}

#[test]
fn an_expiry_entry_of_another_time_is_no_fault() {
    let b = bench();
    let (row, item) = (b.row(), b.item());
    let row = key::parse_row(&row.key).expect("a row");
    let stale = Put { space: Space::Ttl, key: key::ttl(7, row).to_vec(), value: item.key };
    assert_eq!(b.plant(|part| part.puts.push(stale)), []);
}

#[test]
fn a_unique_key_of_another_row_is_named() {
    let b = bench();
    let unique = b.entry(Space::Index, |_| true);
    let other = Put { space: Space::Index, key: unique.key, value: 99_u64.to_be_bytes().to_vec() };
    let kinds = b.plant(|part| part.puts.push(other));
    assert_eq!(kinds, [FaultKind::UniqueKeyMissing, FaultKind::UniqueKeyOrphan]);
}

#[test]
fn a_term_too_few_or_too_many_is_named() {
    let b = bench();
    let term = b.entry(Space::Index, |e| key::parse_term(&e.key).is_some());
    check_missing(Space::Index, &term, b, &[FaultKind::TermMissing]);
    let parsed = key::parse_term(&term.key).expect("a term");
    let other = key::term(parsed.path, &"other".into(), parsed.row);
    check_orphan(Space::Index, other.clone(), vec![], FaultKind::TermOrphan);
    let nobody = key::term(parsed.path, &"x".into(), Row(12345));
    check_orphan(Space::Index, nobody, vec![], FaultKind::TermOrphan);
    // One for another, so that there are as many as there should be.
    let kinds = bench().plant(|part| {
        part.deletes.push((Space::Index, term.key.clone()));
        part.puts.push(Put { space: Space::Index, key: other, value: vec![] });
    });
    assert_eq!(kinds, [FaultKind::TermMissing, FaultKind::TermOrphan]);
    // The paths of the item have no numbers.
    let number = bench().entry(Space::Meta, |e| e.key.starts_with(&[0x12]));
    let b = bench();
    let kinds = b.plant(|part| part.deletes.push((Space::Meta, number.key)));
    assert_eq!(kinds, [FaultKind::TermMissing, FaultKind::TermOrphan]);
}

#[test]
fn a_damaged_item_is_named() {
    let b = bench();
    let item = b.item();
    let mut value = Vec::from(item.value.bytes);
    *value.last_mut().expect("bytes") ^= 1;
    let kinds = b.plant(|part| {
        let put = Put { space: Space::Items, key: item.key, value };
        part.puts.push(put);
    });
    assert!(kinds.contains(&FaultKind::ItemDamaged), "{kinds:?}");
}

#[test]
fn an_item_that_says_something_else_than_its_key_is_named() {
    for (from, to, expected) in [
        (
            r#""p":"x""#,
            r#""p":"y""#,
            vec![FaultKind::ItemMisplaced, FaultKind::UniqueKeyMissing, FaultKind::TermMissing],
        ),
        (r#""id":"a""#, r#""id":"z""#, vec![FaultKind::ItemMisplaced, FaultKind::TermMissing]),
        (r#""_ts":1000"#, r#""_ts":1001"#, vec![FaultKind::ItemMislabelled]),
    ] {
        let b = bench();
        let item = b.item();
        let (header, text) = record::decode(&item.value.bytes).expect("an item");
        let changed = String::from_utf8(text.to_vec()).expect("text").replace(from, to);
        let mut rewritten = Part::new(b.container.partitions[0].shard, orrery_types::Epoch(1));
        b.rewrite(&header, changed.as_bytes(), &mut rewritten);
        let kinds = b.plant(|part| *part = rewritten);
        let orphaned = [FaultKind::UniqueKeyOrphan, FaultKind::TermOrphan];
        let kinds: Vec<_> = kinds.into_iter().filter(|kind| !orphaned.contains(kind)).collect();
        assert_eq!(kinds, expected, "{from}");
    }
}
