//! The transaction core on a memory store: buffer and savepoints, validation, and what the maintainers of a
//! commit write.

use std::sync::Arc;

use orrery_modeling::{AggregateKind, Tally};
use orrery_storage::key::AggregateId;
use orrery_storage::{Commit, MemoryStore, Part, Precondition, Put, Space};
use orrery_types::{Etag, KeyComponent, ManualClock, Value};

use super::reads::ConflictReason;
use super::write_buffer::{KeyWrite, Mutation, Savepoint, ShardIndex};
use super::*;
use crate::catalog::offer::ThroughputRequest;
use crate::maintain::COMMIT_MAINTAINERS;
use crate::maintain::cascade::RELATION_MAINTAINERS;
use crate::maintain::unique_keys::Holder;

const HOME: ShardIndex = ShardIndex::FIRST;

struct Bench {
    engine: Engine,
    /// With unique key /u and a default time to live.
    first: Arc<Container>,
    second: Arc<Container>,
}

fn parse(json: &str) -> Value {
    Value::parse(json.as_bytes()).expect("JSON")
}

fn bench() -> Bench {
    let clock = Arc::new(ManualClock::at_s(1000));
    let engine = Engine::open(Arc::new(MemoryStore::new()), clock, 1).expect("an engine");
    let none = ThroughputRequest::default();
    engine.databases().create(&parse(r#"{"id":"d"}"#), &none).expect("a database");
    let database = Address::Name("d".into());
    let container = |id: &str| {
        let body = format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}},
            "defaultTtl":60,"uniqueKeyPolicy":{{"uniqueKeys":[{{"paths":["/u"]}}]}}}}"#
        );
        engine.containers().create(&database, &parse(&body), &none).expect("a container");
        engine.containers().read(&database, &Address::Name(id.into())).expect("it was made")
    };
    let (first, second) = (container("first"), container("second"));
    Bench { engine, first, second }
}

impl Bench {
    fn latest<'e>(&'e self, container: &'e Container) -> TransactionState<'e> {
        let view = ReadView::latest(&self.engine);
        let options = TransactionOptions::default();
        TransactionState::new(&self.engine, container, &container.partitions[0], view, options)
    }

    /// From a snapshot; unique keys are checked after each operation.
    fn snapshot<'e>(&'e self, container: &'e Container) -> TransactionState<'e> {
        let shard = container.partitions[0].shard;
        let (view, _) = ReadView::snapshot(&self.engine, shard).expect("a snapshot");
        let claims = Some(UniqueClaims::default());
        let options = TransactionOptions { claims, ..TransactionOptions::default() };
        TransactionState::new(&self.engine, container, &container.partitions[0], view, options)
    }

    fn create(&self, container: &Container, id: &str, u: &str) {
        let text = format!(r#"{{"id":"{id}","p":"x","u":"{u}"}}"#);
        self.engine.items().create(container, None, text.as_bytes()).expect("an item");
    }

    fn delete(&self, container: &Container, id: &str) {
        let (key, item) = (x(), Address::Name(id.into()));
        let deleted =
            self.engine.items().delete(container, Some(&key), &item, &Preconditions::default());
        deleted.expect("it is deleted");
    }
}

/// The partition key of all items.
fn x() -> PartitionKey {
    PartitionKey(vec![KeyComponent::String("x".into())])
}

fn at<'c>(container: &'c Container, id: &str) -> ItemKey<'c> {
    ItemKey::of(container, x(), id).expect("a key")
}

fn create(container: &Container, id: &str, u: &str) -> ItemWrite {
    let text = format!(r#"{{"id":"{id}","p":"x","u":"{u}"}}"#);
    ItemWrite::Create(ItemBody::parse(container, text.as_bytes()).expect("a body"))
}

fn ids(tx: &TransactionState<'_>) -> Vec<String> {
    let written = tx.writes.shard(HOME).written();
    let id = |entry: &&ItemEntry<'_>| key::parse_item(&entry.at.key).expect("a key").id.to_owned();
    written.iter().map(id).collect()
}

#[test]
fn a_shard_joins_the_buffer_once_and_the_home_shard_is_first() {
    let bench = bench();
    let mut tx = bench.latest(&bench.first);
    let other = tx.writes.shard_of(&bench.second, &bench.second.partitions[0]);
    assert_eq!(tx.writes.shard_of(&bench.first, &bench.first.partitions[0]), HOME);
    assert_eq!(tx.writes.shard_of(&bench.second, &bench.second.partitions[0]), other);
    let containers: Vec<&str> = tx.writes.shards().map(|(_, s)| &*s.container.id).collect();
    assert_eq!(containers, ["first", "second"]);
}

#[test]
fn written_items_stand_in_the_order_of_their_last_writes() {
    let bench = bench();
    let mut tx = bench.latest(&bench.first);
    for id in ["b", "a", "c"] {
        tx.apply(&at(&bench.first, id), &create(&bench.first, id, id)).expect("a create");
    }
    assert_eq!(ids(&tx), ["b", "a", "c"]);
    tx.set_item(HOME, &at(&bench.first, "b"), Mutation::Delete);
    assert_eq!(ids(&tx), ["a", "c", "b"]);
    assert_eq!(tx.writes.written(), 3);
}

#[test]
fn a_rollback_restores_items_with_their_order_and_keeps_the_read_set() {
    let bench = bench();
    bench.create(&bench.first, "stored", "s");
    let mut tx = bench.latest(&bench.first);
    let (a, stored) = (at(&bench.first, "a"), at(&bench.first, "stored"));
    tx.apply(&a, &create(&bench.first, "a", "a")).expect("a create");
    let text = tx.current(HOME, &a.key).expect("it was written").text();
    let savepoint = tx.writes.savepoint();
    tx.load(HOME, &stored).expect("it is read");
    tx.set_item(HOME, &stored, Mutation::Delete);
    tx.set_item(HOME, &a, Mutation::Delete);
    assert!(tx.current(HOME, &a.key).is_none() && tx.writes.written() == 2);
    tx.writes.rollback_to(savepoint);
    assert_eq!(tx.current(HOME, &a.key).expect("it is back").text(), text);
    assert_eq!(ids(&tx), ["a"]);
    let entry = tx.entry(HOME, &stored.key).expect("what was read stays read");
    assert!(!entry.is_written() && entry.before.is_some());
}

#[test]
fn a_rollback_restores_keys_tallies_deltas_and_unique_keys() {
    let bench = bench();
    let mut tx = bench.latest(&bench.first);
    let count = |n: i64| Tally::of(AggregateKind::Count, &Value::from(n));
    let of = AggregateId { rule: 1, ordinal: 0 };
    let mark = Etag { node: 1, stamp: 2 };
    let writes = &mut tx.writes;
    writes.set_key(HOME, Space::Index, b"k".to_vec(), Some(b"old".to_vec()));
    writes.add_tally(HOME, b"t".to_vec(), Tally::default());
    writes.merge_delta(HOME, (of, b"target"), mark, &count(1));
    writes.set_unique(HOME, b"u".to_vec(), Holder::Nobody);
    let savepoint = writes.savepoint();
    writes.set_key(HOME, Space::Index, b"k".to_vec(), None);
    writes.set_key(HOME, Space::Index, b"new".to_vec(), Some(vec![]));
    writes.merge_tally(HOME, b"t", &count(1));
    writes.merge_delta(HOME, (of, b"target"), mark, &count(1));
    writes.merge_delta(HOME, (of, b"other"), mark, &count(1));
    writes.set_unique(HOME, b"u".to_vec(), Holder::Own);
    writes.set_unique(HOME, b"v".to_vec(), Holder::Own);
    assert_eq!(writes.shard(HOME).key(Space::Index, b"k"), Some(&KeyWrite::Delete));
    writes.rollback_to(savepoint);
    let shard = writes.shard(HOME);
    assert_eq!(shard.key(Space::Index, b"k"), Some(&KeyWrite::Put(b"old".to_vec())));
    assert_eq!(shard.key(Space::Index, b"new"), None);
    let tally = &shard.tallies()[&b"t".to_vec()];
    assert!(tally.now().is_empty(), "it was read, and is as it was");
    assert_eq!(shard.deltas()[&(of, b"target".to_vec())].1, count(1));
    assert_eq!(shard.deltas().len(), 1);
    assert_eq!(shard.unique_holder(b"u"), Some(Holder::Nobody));
    assert_eq!(shard.unique_holder(b"v"), None);
}

#[test]
fn what_an_operation_has_written_is_listed_once_with_what_it_was() {
    let bench = bench();
    let mut tx = bench.latest(&bench.first);
    let a = at(&bench.first, "a");
    tx.apply(&a, &create(&bench.first, "a", "a")).expect("a create");
    let savepoint: Savepoint = tx.writes.savepoint();
    tx.set_item(HOME, &a, Mutation::Delete);
    tx.set_item(HOME, &a, Mutation::Delete);
    let since: Vec<(&[u8], &Mutation)> = tx.writes.items_since(savepoint, HOME).collect();
    assert_eq!(since.len(), 1);
    assert!(matches!(since[0].1, Mutation::Put(_)), "{:?}", since[0].1);
}

#[test]
fn a_refused_operation_leaves_nothing_behind() {
    let bench = bench();
    let mut tx = bench.snapshot(&bench.first);
    tx.apply(&at(&bench.first, "a"), &create(&bench.first, "a", "same")).expect("a create");
    let again = tx.apply(&at(&bench.first, "b"), &create(&bench.first, "b", "same"));
    assert!(matches!(again, Err(Error::UniqueKeyViolation)), "{again:?}");
    assert_eq!(ids(&tx), ["a"]);
    assert!(tx.doomed().is_none(), "the transaction may go on");
    tx.apply(&at(&bench.first, "b"), &create(&bench.first, "b", "other")).expect("a create");
    assert_eq!(ids(&tx), ["a", "b"]);
}

#[test]
fn a_hidden_holder_of_a_unique_key_dooms_the_attempt() {
    let bench = bench();
    bench.create(&bench.first, "old", "key");
    let clock = Arc::new(ManualClock::at_s(1100));
    let engine = Engine::open(bench.engine.store.clone(), clock, 2).expect("an engine");
    let bench = Bench { engine, ..bench };
    let mut tx = bench.snapshot(&bench.first);
    let refused = tx.apply(&at(&bench.first, "new"), &create(&bench.first, "new", "key"));
    assert!(matches!(refused, Err(Error::RetryWith)), "{refused:?}");
    assert!(matches!(tx.doomed(), Some(RetryReason::HiddenHolder(..))));
}

#[test]
fn every_item_that_was_read_is_a_precondition() {
    let bench = bench();
    bench.create(&bench.first, "stored", "s");
    let mut tx = bench.snapshot(&bench.first);
    tx.load(HOME, &at(&bench.first, "stored")).expect("it is read");
    tx.load(HOME, &at(&bench.first, "absent")).expect("it is read");
    tx.apply(&at(&bench.first, "new"), &create(&bench.first, "new", "n")).expect("a create");
    let (commit, unique) = tx.assemble().expect("a commit").into_commit();
    let checks = &commit.parts[0].preconditions;
    let is_version =
        |check: &&Precondition| matches!(check, Precondition::Version { space: Space::Items, .. });
    let is_absent =
        |check: &&Precondition| matches!(check, Precondition::Absent { space: Space::Items, .. });
    assert_eq!(checks.iter().filter(is_version).count(), 1, "{checks:?}");
    assert_eq!(checks.iter().filter(is_absent).count(), 2, "{checks:?}");
    assert_eq!(unique.len(), 1);
}

#[test]
fn a_read_set_is_valid_until_another_writer_changes_something_in_it() {
    let bench = bench();
    bench.create(&bench.first, "a", "a");
    let mut tx = bench.snapshot(&bench.first);
    tx.load(HOME, &at(&bench.first, "a")).expect("it is read");
    assert!(tx.validate(None).expect("it is validated"));
    bench.create(&bench.first, "beside", "b");
    assert!(tx.validate(None).expect("it is validated"), "nothing of it was read");
    bench.delete(&bench.first, "a");
    assert!(!tx.validate(None).expect("it is validated"));
}

#[test]
fn a_failed_precondition_has_a_name() {
    let bench = bench();
    bench.create(&bench.first, "a", "a");
    let reason = |tx: &TransactionState<'_>| {
        let (commit, _) = tx.assemble().expect("a commit").into_commit();
        match bench.engine.store.commit(commit) {
            Err(StorageError::Conflict(failed)) => tx.conflict_reason(&failed),
            other => panic!("{other:?}"),
        }
    };
    let write = |id: &str, u: &str| {
        let mut tx = bench.latest(&bench.first);
        tx.apply(&at(&bench.first, id), &create(&bench.first, id, u)).expect("a create");
        tx
    };
    assert_eq!(reason(&write("b", "a")), ConflictReason::UniqueKeyTaken);
    let mut tx = write("c", "c");
    let guard = key::guard(b"target");
    let (shard, other) = (HOME, ConflictReason::ReferenceAdded);
    tx.reads.add(shard, Space::Meta, guard.clone(), Some(Lsn(1)), other);
    assert_eq!(reason(&tx), ConflictReason::ReferenceAdded);
    let tx = write("d", "d");
    bench.create(&bench.first, "d", "e");
    assert_eq!(reason(&tx), ConflictReason::ItemChanged);
    let mut tx = bench.snapshot(&bench.first);
    tx.apply(&at(&bench.first, "f"), &create(&bench.first, "f", "f")).expect("a create");
    let partition = &bench.first.partitions[0];
    tx.reads.add_range(7, bench.engine.sessions().shard_lsn(partition).expect("an LSN"));
    let mut part = Part::new(partition.shard, partition.epoch);
    part.stripes.push(7);
    part.puts.push(Put { space: Space::Meta, key: guard, value: vec![] });
    bench.engine.store.commit(Commit::new(vec![part])).expect("a commit");
    assert_eq!(reason(&tx), ConflictReason::RangeChanged);
}

#[test]
fn the_maintainers_of_a_commit_write_all_that_stands_beside_an_item() {
    assert_eq!(
        format!("{COMMIT_MAINTAINERS:?}"),
        "[ItemRecord, IndexTerms, VersionHistory, IndexDeletions]"
    );
    assert_eq!(format!("{RELATION_MAINTAINERS:?}"), "[KeptOnTarget, OnTargetDelete, Copies]");
    let bench = bench();
    let mut tx = bench.latest(&bench.first);
    tx.apply(&at(&bench.first, "a"), &create(&bench.first, "a", "a")).expect("a create");
    let (commit, _) = tx.assemble().expect("a commit").into_commit();
    let [part] = &commit.parts[..] else { panic!("one shard, one part") };
    let puts = |space| part.puts.iter().filter(|put| put.space == space).count();
    assert_eq!((puts(Space::Items), puts(Space::Ttl)), (2, 1), "record and row; expiry");
    assert_eq!(part.feed, [at(&bench.first, "a").key]);
    assert!(puts(Space::Index) > 3, "index terms and a unique key");
    assert!(part.versions.is_empty(), "the policy keeps none");
    assert!(part.deletes.is_empty());
}

#[test]
fn what_an_item_leaves_behind_is_deleted_with_it() {
    let bench = bench();
    bench.create(&bench.first, "a", "a");
    let mut tx = bench.latest(&bench.first);
    let a = at(&bench.first, "a");
    tx.load(HOME, &a).expect("it is read");
    tx.set_item(HOME, &a, Mutation::Delete);
    let (commit, unique) = tx.assemble().expect("a commit").into_commit();
    assert!(
        unique.is_empty() && commit.parts[0].puts.is_empty() && commit.parts[0].feed.is_empty()
    );
    bench.engine.store.commit(commit).expect("a commit");
    let faults = bench.engine.insight().verify(&bench.first).expect("it is verified");
    assert!(faults.is_empty(), "{faults:?}");
}
