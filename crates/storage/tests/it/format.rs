//! Folders written by released versions open and read: `testdata/format/v1` and its successors.
//!
//! A fixture is written once, by the version that introduces a format, and never again:
//! `ORRERY_WRITE_FORMAT=1 cargo test -p orrery-storage --test it format` writes the fixture of the
//! current format if its folder does not exist. Part of it is in tables and part in the log.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_storage::encode::encode;
use orrery_storage::key::{self, PathId, RecordKind, Row};
use orrery_storage::record::{self, Header};
use orrery_storage::{Commit, Part, Put, Space, Store};
use orrery_types::{EffectiveKey, Epoch, Etag, KeyComponent, Lsn, PartitionKey, ShardId, Value};

use crate::stores::{all, epochs, latest, open};

const SYSTEM: ShardId = ShardId(0);
const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(3);
const ITEMS: u64 = 60;

fn fixture() -> PathBuf {
    PathBuf::from("../../testdata/format/v1")
}

fn item_key(n: u64) -> Vec<u8> {
    let effective = EffectiveKey(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec());
    let partition = PartitionKey(vec![KeyComponent::String(format!("p\0{n}").into())]);
    key::item(&effective, &partition, &format!("item {n}"))
}

fn header(n: u64) -> Header {
    let ttl_s = n.is_multiple_of(2).then(|| i64::try_from(n).expect("a small number") + 1);
    let etag = Etag { node: 1, stamp: n << 32 };
    Header { etag, ts_s: 1_700_000_000 + n, row: Row(n), feed_seq: 0, ttl_s }
}

fn body(n: u64) -> String {
    format!(
        r#"{{"id":"item {n}","n":{n},"text":"{}"}}"#,
        "é".repeat(usize::try_from(n).expect("few"))
    )
}

/// Values of every type, as the index holds them.
fn values(n: u64) -> Vec<Value> {
    let text =
        format!(r#"[null,true,{n},{n}.5,-{n}e40,9007199254740993,"t{n}",[{n}],{{"a":{n}}}]"#);
    Value::parse(text.as_bytes()).expect("json").as_array().expect("an array").to_vec()
}

/// A term as the fixture has it: the whole value, where the index of today keeps less.
fn term(path: u32, value: &Value, n: u64) -> Vec<u8> {
    let mut key = key::terms_of(PathId(path)).from;
    encode(value, &mut key);
    key.extend(n.to_be_bytes());
    key
}

/// The n-th commit: what the engine writes when it creates an item.
fn create(n: u64) -> Commit {
    let mut part = Part::new(SHARD, EPOCH);
    let item = item_key(n);
    let mut put = |space, key: Vec<u8>, value: Vec<u8>| part.puts.push(Put { space, key, value });
    put(Space::Items, item.clone(), record::encode(&header(n), body(n).as_bytes()));
    put(Space::Items, key::row(Row(n)).to_vec(), item.clone());
    let effective = key::parse_item(&item).expect("an item key").effective;
    let unique = key::unique(0, &effective, &PartitionKey::default(), &values(n));
    put(Space::Index, unique, n.to_be_bytes().to_vec());
    for (path, value) in (0..).zip(values(n)) {
        put(Space::Index, term(path, &value, n), vec![]);
    }
    if let Some(ttl_s) = header(n).ttl_s {
        let second = header(n).ts_s + ttl_s.unsigned_abs();
        put(Space::Ttl, key::ttl(second, Row(n)).to_vec(), item.clone());
    }
    part.feed.push(item);
    Commit::new(vec![part])
}

fn catalog() -> Commit {
    let mut part = Part::new(SYSTEM, EPOCH);
    let keys = [
        key::record(RecordKind::Database, 0, 1),
        key::record(RecordKind::Container, 1, 2),
        key::record(RecordKind::Udf, 2, 7),
        key::record_name(RecordKind::Database, 0, "db"),
        key::record_name(RecordKind::Container, 1, "c"),
        key::counter("shards"),
        key::rows_reserved(),
    ];
    let put = |key: Vec<u8>| Put { space: Space::Meta, value: key.clone(), key };
    part.puts = keys.map(put).to_vec();
    Commit::new(vec![part])
}

/// Writes the fixture: half in tables, the rest in a log, by a copy of the files of an open store.
fn write_fixture(into: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_open_shard(SYSTEM, EPOCH).expect("a shard");
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    store.commit(catalog()).expect("a commit");
    for n in 1..=ITEMS / 2 {
        store.commit(create(n)).expect("a commit");
    }
    drop(store);
    let store = open(folder.path());
    for n in ITEMS / 2 + 1..=ITEMS {
        store.commit(create(n)).expect("a commit");
    }
    copy(folder.path(), into);
}

/// Copies a data folder, without the locks and the options that every opening writes anew.
fn copy(from: &Path, into: &Path) {
    fs::create_dir_all(into).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a name").to_str().expect("UTF-8");
        if path.is_dir() {
            copy(&path, &into.join(name));
        } else if name != "LOCK" && !name.starts_with("OPTIONS") {
            fs::copy(&path, into.join(name)).expect("a copy");
        }
    }
}

fn expected(space: Space) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<_> = (1..=ITEMS)
        .flat_map(|n| create(n).parts.remove(0).puts)
        .filter(|put| put.space == space)
        .map(|put| (put.key, put.value))
        .collect();
    entries.sort();
    entries
}

#[test]
fn a_folder_of_format_1_opens_and_reads() {
    if std::env::var_os("ORRERY_WRITE_FORMAT").is_some() && !fixture().exists() {
        write_fixture(&fixture());
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy(&fixture(), folder.path());
    let store = open(folder.path());
    assert_eq!(epochs(&store), [(SYSTEM, EPOCH), (SHARD, EPOCH)]);
    let system = latest(&store, SYSTEM);
    let found = all(&*system, Space::Meta).into_iter().map(|e| (e.key, e.value.bytes.to_vec()));
    let catalog = catalog().parts.remove(0).puts.into_iter().map(|put| (put.key, put.value));
    assert_eq!(found.collect::<Vec<_>>(), catalog.collect::<Vec<_>>());
    let snapshot = latest(&store, SHARD);
    assert_eq!(snapshot.lsn(), Lsn(ITEMS));
    for space in [Space::Items, Space::Index, Space::Ttl] {
        let found = all(&*snapshot, space).into_iter().map(|e| (e.key, e.value.bytes.to_vec()));
        assert_eq!(found.collect::<Vec<_>>(), expected(space), "{space:?}");
    }
    for n in 1..=ITEMS {
        let value = snapshot.get(Space::Items, &item_key(n)).expect("a read").expect("an item");
        assert_eq!(value.version, Lsn(n));
        let (found, text) = record::decode(&value.bytes).expect("a record");
        assert_eq!((found, text), (header(n), body(n).as_bytes()));
        let change = snapshot.get(Space::Feed, &key::feed(Lsn(n), 0)).expect("a read");
        assert_eq!(change.expect("a change").bytes, item_key(n));
    }
    drop((system, snapshot));
    let next = store.commit(create(ITEMS + 1)).expect("the folder takes commits");
    assert_eq!(next.lsns, [Lsn(ITEMS + 1)]);
}
