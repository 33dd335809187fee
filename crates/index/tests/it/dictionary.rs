//! Numbers of paths: given once, kept for ever, whoever asks and however little is in memory.

use std::sync::Arc;
use std::thread;

use orrery_index::{
    Dictionary, DictionaryShard, IndexPath, IndexRules, IndexStep, IndexedItem, IndexingPolicy,
};
use orrery_storage::fault::Faults;
use orrery_storage::key::PathId;
use orrery_storage::{FaultStore, MemoryStore, Store};
use orrery_types::{Epoch, ShardId, Value, limits};

const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(1);

fn memory() -> MemoryStore {
    let store = MemoryStore::new();
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    store
}

fn home(store: &dyn Store) -> DictionaryShard<'_> {
    DictionaryShard { store, shard: SHARD, epoch: EPOCH }
}

fn rules() -> IndexRules {
    IndexRules::new(&IndexingPolicy::default(), &[])
}

fn learn(dictionary: &Dictionary, store: &dyn Store, json: &str) -> usize {
    let item = Value::parse(json.as_bytes()).expect("JSON");
    let item = IndexedItem::new(item.as_object().expect("an object"), &[], vec![]);
    dictionary.terms(home(store), &rules(), &item).expect("terms").iter().len()
}

fn steps(text: &str) -> Vec<IndexStep> {
    IndexPath::parse(text, true).expect("a path").steps
}

fn id(dictionary: &Dictionary, store: &dyn Store, path: &str) -> Option<PathId> {
    dictionary.path_id(home(store), &steps(path)).expect("an answer")
}

#[test]
fn a_path_has_one_number_for_ever() {
    let store = memory();
    let first = Dictionary::default();
    assert_eq!(id(&first, &store, "/a/b"), None);
    learn(&first, &store, r#"{"a":{"b":1},"[]":2,"l":[[1]]}"#);
    let paths = ["/a", "/a/b", "/\"[]\"", "/l", "/l/[]", "/l/[]/[]"];
    let numbers: Vec<PathId> = paths.map(|p| id(&first, &store, p).expect(p)).to_vec();
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), paths.len());
    // After a restart, before and after something is learnt.
    let second = Dictionary::default();
    assert_eq!(paths.map(|p| id(&second, &store, p).expect(p)).to_vec(), numbers);
    learn(&second, &store, r#"{"l":[[1]],"a":{"c":1,"b":2}}"#);
    assert_eq!(paths.map(|p| id(&second, &store, p).expect(p)).to_vec(), numbers);
    assert_eq!(id(&second, &store, "/b"), None);
}

#[test]
fn more_paths_than_memory_holds_are_no_trouble() {
    let (store, dictionary) = (memory(), Dictionary::default());
    let count = limits::INDEX_PATHS_CACHED_MAX + 100;
    let properties: Vec<String> = (0..count).map(|n| format!(r#""p{n}":{n}"#)).collect();
    let item = format!("{{{}}}", properties.join(","));
    for _ in 0..2 {
        // One more: the shape.
        assert_eq!(learn(&dictionary, &store, &item), count + 1);
    }
    let first = id(&dictionary, &store, "/p0");
    learn(&dictionary, &store, r#"{"another":1}"#);
    assert_eq!(id(&dictionary, &store, "/p0"), first);
    let last = format!("/p{}", count - 1);
    assert!(id(&dictionary, &store, &last).is_some());
    assert_ne!(id(&dictionary, &store, &last), id(&dictionary, &store, "/another"));
}

#[test]
fn threads_and_processes_agree() {
    let store = Arc::new(memory());
    let shared = Arc::new(Dictionary::default());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (store, shared) = (store.clone(), shared.clone());
            scope.spawn(move || {
                // Another process has a dictionary of its own over the same store.
                let own = Dictionary::default();
                let dictionary = if thread % 2 == 0 { &*shared } else { &own };
                for n in 0..50 {
                    learn(dictionary, &*store, &format!(r#"{{"p{n}":{{"q":[{thread}]}}}}"#));
                }
            });
        }
    });
    let own = Dictionary::default();
    let mut numbers: Vec<PathId> = Vec::new();
    for n in 0..50 {
        for path in [format!("/p{n}"), format!("/p{n}/q"), format!("/p{n}/q/[]")] {
            let number = id(&own, &*store, &path).expect("it was given");
            assert_eq!(id(&shared, &*store, &path), Some(number));
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 150);
}

#[test]
fn a_lost_answer_leaves_no_number_to_two_paths() {
    let faults = Faults { answer_lost_one_in: 3, read_fails_one_in: 11, ..Faults::default() };
    let store = FaultStore::new(memory(), faults, 7);
    let dictionary = Dictionary::default();
    let rules = rules();
    let (mut lost, count) = (0, 60);
    for n in 0..count {
        let item = Value::parse(format!(r#"{{"p{n}":{n}}}"#).as_bytes()).expect("JSON");
        let item = IndexedItem::new(item.as_object().expect("an object"), &[], vec![]);
        while dictionary.terms(home(&store), &rules, &item).is_err() {
            lost += 1;
        }
    }
    assert!(lost > 0, "some answers were lost");
    let number = |n| id(&Dictionary::default(), store.inner(), &format!("/p{n}")).expect("given");
    let mut numbers: Vec<PathId> = (0..count).map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
}
