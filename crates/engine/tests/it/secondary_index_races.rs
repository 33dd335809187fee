//! What happens to a source between the moment a step of an index reads it and its commit, and what happens to the
//! layouts meanwhile: a step is stopped at a chosen read, the other runs to its end, and then the step goes on.

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_storage::Space;
use orrery_types::Value;

use crate::interposed::Read;
use crate::rig::{Rig, reads_item};
use crate::secondary_index_view::{assert_sound, defined, shown};
use crate::world::name;

const SOURCE: &str = r#"{"id":"source","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
const INDEX: &str = r#"{"id":"index","partitionKey":{"paths":["/v"],"kind":"Hash","version":2},
    "globalSecondaryIndexDefinition":{"sourceCollectionId":"source","definition":"SELECT * FROM c"}}"#;

/// Some items that the index has, and one that it is still to get.
fn rig() -> Rig {
    let rig = Rig::new(&[(SOURCE, None), (INDEX, None)], None);
    for n in 0..20 {
        rig.put("source", &format!(r#"{{"id":"i{n}","p":"p{}","v":{n}}}"#, n % 5))
            .expect("an item");
    }
    follow(&rig.engine);
    rig.put("source", r#"{"id":"i7","p":"p2","v":70}"#).expect("an item");
    rig
}

fn follow(engine: &Engine) {
    // What lost against another layout is tried again in the next pass.
    for _ in 0..3 {
        drop(engine.secondary_indexes().follow(&|| false));
    }
}

/// The index is what its definition says.
#[track_caller]
fn check(rig: &Rig) {
    rig.engine.background().run_tasks(&|| false).expect("nothing fails");
    let (source, index) = (rig.container("source"), rig.container("index"));
    assert_eq!(rig.engine.background().failing_work(), Value::array(vec![]));
    let expected = defined(&rig.engine, &source, "SELECT * FROM c", &[]);
    assert_eq!(shown(&rig.engine, &index), expected);
    assert_sound(&rig.engine, &[&source, &index]);
}

/// Stops a step after it has read an item of the source, and again after it has read the index.
fn at_each_read(meanwhile: impl Fn(&Rig)) {
    let index_read = |read: &Read<'_>| match read {
        Read::Key { space: Space::Items, key, .. } => {
            orrery_storage::key::parse_item(key).is_some_and(|item| item.id.len() == 32)
        }
        _ => false,
    };
    let rig = rig_checked();
    rig.between(reads_item("i7"), || follow(&rig.engine), || meanwhile(&rig));
    check(&rig);
    let rig = rig_checked();
    rig.between(index_read, || follow(&rig.engine), || meanwhile(&rig));
    check(&rig);
}

fn rig_checked() -> Rig {
    let rig = rig();
    assert_sound(&rig.engine, &[&rig.container("source"), &rig.container("index")]);
    rig
}

#[test]
fn an_item_that_ends_while_it_is_indexed_is_not_left_in_the_index() {
    at_each_read(|rig| drop(rig.delete("source", "p2", "i7").expect("it goes")));
}

#[test]
fn an_item_that_changes_while_it_is_indexed_ends_as_it_is_last() {
    at_each_read(|rig| {
        rig.put("source", r#"{"id":"i7","p":"p2","v":71}"#).expect("an item");
        rig.put("source", r#"{"id":"i7","p":"p2","v":7}"#).expect("an item");
    });
}

#[test]
fn an_item_that_is_renamed_while_it_is_indexed_is_there_once() {
    at_each_read(|rig| {
        let none = Preconditions::default();
        let (source, key) = (rig.container("source"), crate::rig::pk("p2"));
        let text = br#"{"id":"j7","p":"p2","v":72}"#;
        let items = rig.engine.items();
        items.replace(&source, Some(&key), &name("i7"), text, &none).expect("it is renamed");
        rig.put("source", r#"{"id":"i7","p":"p2","v":73}"#).expect("an item");
    });
}

/// Deleted, made and deleted again: the second deletion must not be taken for the first.
#[test]
fn a_deletion_that_is_renewed_is_followed_once_more() {
    let rig = rig();
    follow(&rig.engine);
    rig.delete("source", "p2", "i7").expect("it goes");
    rig.put("source", r#"{"id":"i7","p":"p2","v":8}"#).expect("an item");
    rig.between(
        reads_item("i7"),
        || follow(&rig.engine),
        || drop(rig.delete("source", "p2", "i7").expect("it goes")),
    );
    check(&rig);
    assert_eq!(shown(&rig.engine, &rig.container("index")).len(), 19);
}

#[test]
fn a_split_of_the_source_comes_between_the_read_of_its_feed_and_the_commit() {
    at_each_read(|rig| {
        let layouts = rig.engine.layouts();
        layouts.split_partition(&name("d"), &name("source"), None, None).expect("a split");
        rig.put("source", r#"{"id":"i8","p":"p3","v":80}"#).expect("an item");
    });
}

#[test]
fn a_split_and_a_merge_of_the_index_come_between_the_read_and_the_commit() {
    at_each_read(|rig| {
        let layouts = rig.engine.layouts();
        layouts.split_partition(&name("d"), &name("index"), None, None).expect("a split");
        layouts.merge_partitions(&name("d"), &name("index"), None).expect("a merge");
    });
}

/// Two engines on one store, as two processes on one `PostgreSQL`: both apply the same changes at the same time.
#[test]
fn two_processes_that_apply_the_same_changes_apply_them_once() {
    let rig = rig();
    let clock: std::sync::Arc<dyn orrery_types::Clock> = rig.clock.clone();
    let other = Engine::open(rig.store.clone(), clock, 2).expect("it opens");
    rig.between(reads_item("i7"), || follow(&rig.engine), || follow(&other));
    let changes = |engine: &Engine| shown(engine, &rig.container("index"));
    assert_eq!(changes(&rig.engine), changes(&other));
    check(&rig);
}

#[test]
fn a_new_indexing_policy_of_the_index_comes_between_the_read_and_the_commit() {
    at_each_read(|rig| {
        let none = Preconditions::default();
        let body = r#"{"id":"index","indexingPolicy":{"excludedPaths":[{"path":"/p/?"}]}}"#;
        let containers = rig.engine.containers();
        let body = Value::parse(body.as_bytes()).expect("JSON");
        containers.replace(&name("d"), &name("index"), &body, &none).expect("it is replaced");
    });
}

#[test]
fn an_index_that_is_deleted_while_it_is_fed_leaves_nothing() {
    let rig = rig();
    rig.between(
        reads_item("i7"),
        || follow(&rig.engine),
        || {
            let none = Preconditions::default();
            rig.engine.containers().delete(&name("d"), &name("index"), &none).expect("it goes");
        },
    );
    follow(&rig.engine);
    assert_sound(&rig.engine, &[&rig.container("source")]);
    assert!(rig.container("source").to_resource().body.get("materializedViews").is_undefined());
}
