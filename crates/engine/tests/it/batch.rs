//! Batches: all operations or none; bulk: each for itself; and what bounds both.

use bytes::Bytes;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::transaction::batch::{
    Answers, BatchAction, BatchAnswer, BatchOperation, Content,
};
use orrery_engine::transaction::bulk::OnError;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use crate::world::{World, name, session_token};

fn world() -> World {
    let mut world = World::memory();
    world.database();
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    world.create_container(body, Some(12_000));
    world
}

fn key(text: &str) -> PartitionKey {
    PartitionKey::parse_header(&format!("[\"{text}\"]")).expect("a key")
}

fn operation(action: BatchAction) -> BatchOperation {
    let conditions = Preconditions::default();
    BatchOperation { action, partition_key: None, conditions, content: Content::Full }
}

fn item(id: &str, p: &str, n: i64) -> Bytes {
    format!(r#"{{"id":"{id}","p":"{p}","u":"{id}","n":{n}}}"#).into()
}

fn create(id: &str, n: i64) -> BatchOperation {
    operation(BatchAction::Create(item(id, "p", n)))
}

fn increment(id: &str) -> BatchOperation {
    let patch = Bytes::from_static(br#"[{"op":"incr","path":"/n","value":1}]"#);
    operation(BatchAction::Patch(name(id), patch))
}

fn read(id: &str) -> BatchOperation {
    operation(BatchAction::Read(name(id)))
}

fn batch(world: &World, operations: &[BatchOperation]) -> Result<Answers> {
    world.engine().transactions().batch(&world.container("c"), Some(&key("p")), operations)
}

/// In short: the value of `n` of what was read or written, or how it failed.
fn said(answers: &Answers) -> Vec<String> {
    let n = |body: &[u8]| match Value::parse(body) {
        Ok(body) => body.get("n").to_json(),
        Err(_) => "-".to_owned(),
    };
    let said = |answer: &BatchAnswer| match answer {
        BatchAnswer::Read(item) => format!("read {}", n(&item.body)),
        BatchAnswer::NotModified(_) => "not modified".to_owned(),
        BatchAnswer::Written(item) => format!("{:?} {}", item.outcome, n(&item.body)),
        BatchAnswer::Failed(error) => format!("failed: {error}"),
        BatchAnswer::Dependent(_) => "dependent".to_owned(),
    };
    answers.answers.iter().map(said).collect()
}

fn stored(world: &World, p: &str, id: &str) -> Option<Value> {
    let read = world.engine().items().read(&world.container("c"), Some(&key(p)), &name(id));
    match read {
        Ok(item) => Some(Value::parse(&item.body).expect("JSON")),
        Err(Error::NotFound) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn operations_see_what_those_before_them_did() {
    let world = world();
    let operations = [
        create("a", 1),
        increment("a"),
        read("a"),
        operation(BatchAction::Upsert(item("a", "p", 7))),
        operation(BatchAction::Replace(name("a"), item("b", "p", 8))),
        operation(BatchAction::Delete(name("b"))),
        operation(BatchAction::Upsert(item("b", "p", 9))),
    ];
    let answers = batch(&world, &operations).expect("done");
    let expected =
        ["Created 1", "Replaced 2", "read 2", "Replaced 7", "Replaced 8", "Deleted -", "Created 9"];
    assert_eq!(said(&answers), expected);
    assert_eq!(stored(&world, "p", "a"), None);
    assert_eq!(stored(&world, "p", "b").expect("there").get("n").as_i64(), Some(9));
    // One commit, whatever the number of operations.
    let [place] = answers.places[..] else { panic!("one partition") };
    let again = batch(&world, &[increment("b"), increment("b")]).expect("done");
    assert_eq!(again.places[0].lsn.0, place.lsn.0 + 1);
    let sum: f64 = again.answers.iter().map(BatchAnswer::charge).sum();
    assert!((again.charge - sum).abs() < 1e-9, "{} of {sum}", again.charge);
    assert_eq!(world.engine().insight().verify(&world.container("c")).expect("verified"), []);
}

#[test]
fn one_failure_undoes_everything_and_is_named() {
    let world = world();
    batch(&world, &[create("a", 1)]).expect("done");
    let taken =
        operation(BatchAction::Create(Bytes::from_static(br#"{"id":"z","p":"p","u":"a"}"#)));
    let operations = [create("b", 1), increment("a"), taken, read("a")];
    let answers = batch(&world, &operations).expect("answered");
    let violated = "failed: Unique index constraint violation.";
    assert_eq!(said(&answers), ["dependent", "dependent", violated, "dependent"]);
    assert_eq!(stored(&world, "p", "b"), None);
    assert_eq!(stored(&world, "p", "a").expect("there").get("n").as_i64(), Some(1));
}

#[test]
fn each_operation_has_conditions_of_its_own() {
    let world = world();
    let made = batch(&world, &[create("a", 1)]).expect("done");
    let BatchAnswer::Written(made) = &made.answers[0] else { panic!("written") };
    let etag: Box<str> = made.stamp.etag.to_string().into();
    let if_match = |mut operation: BatchOperation, etag: &str| {
        operation.conditions.if_match = Some(etag.into());
        operation
    };
    let mut known = read("a");
    known.conditions.if_none_match = Some(etag.clone());
    let answers = batch(&world, &[known, if_match(increment("a"), &etag)]).expect("done");
    assert_eq!(said(&answers), ["not modified", "Replaced 2"]);
    // The etag is another now, also for an operation that follows in the same batch.
    for stale in [if_match(increment("a"), &etag), if_match(read("a"), &etag)] {
        let answers = batch(&world, &[increment("a"), stale]).expect("answered");
        assert!(matches!(answers.answers[1], BatchAnswer::Failed(Error::PreconditionFailed)));
    }
    assert_eq!(stored(&world, "p", "a").expect("there").get("n").as_i64(), Some(2));
}

#[test]
fn results_hold_no_item_where_none_is_wanted() {
    let world = world();
    let minimal = |mut operation: BatchOperation| {
        operation.content = Content::Minimal;
        operation
    };
    let operations = [minimal(create("a", 1)), minimal(read("a")), read("a")];
    let answers = batch(&world, &operations).expect("done");
    assert_eq!(said(&answers), ["Created -", "read -", "read 1"]);
}

#[test]
fn the_number_of_operations_is_bounded() {
    let world = world();
    let creates = |count: usize| (0..count).map(|n| create(&n.to_string(), 1)).collect::<Vec<_>>();
    let max = limits::BATCH_OPERATIONS_MAX;
    assert!(matches!(batch(&world, &[]), Err(Error::Invalid(_))));
    assert!(matches!(batch(&world, &creates(max + 1)), Err(Error::Invalid(_))));
    assert_eq!(stored(&world, "p", "0"), None);
    assert!(
        batch(&world, &creates(max)).expect("done").answers.iter().all(BatchAnswer::is_success)
    );
}

/// Ten items of almost two megabytes.
fn large_items(world: &World) {
    let filler = "x".repeat(limits::ITEM_SIZE_BYTES_MAX - 1000);
    for id in 0..10 {
        let text = format!(r#"{{"id":"{id}","p":"p","u":{id},"n":1,"f":"{filler}"}}"#);
        world.engine().items().create(&world.container("c"), None, text.as_bytes()).expect("made");
    }
}

#[test]
fn what_the_results_hold_is_bounded() {
    let world = world();
    large_items(&world);
    let reads = |count: usize| (0..count).map(|id| read(&id.to_string())).collect::<Vec<_>>();
    assert!(batch(&world, &reads(3)).expect("done").answers.iter().all(BatchAnswer::is_success));
    let answers = batch(&world, &reads(4)).expect("answered").answers;
    assert!(
        matches!(answers[3], BatchAnswer::Failed(Error::ResponseTooLarge { .. })),
        "{answers:?}"
    );
    assert!(matches!(answers[0], BatchAnswer::Dependent(_)));
    // Bulk gives what there is room for.
    let answers = bulk(&world, &reads(4), OnError::Continue).answers;
    let successes: Vec<bool> = answers.iter().map(BatchAnswer::is_success).collect();
    assert_eq!(successes, [true, true, true, false]);
}

#[test]
fn what_a_transaction_writes_is_bounded() {
    let world = world();
    large_items(&world);
    let minimal =
        |id: usize| BatchOperation { content: Content::Minimal, ..increment(&id.to_string()) };
    let patches: Vec<BatchOperation> = (0..10).map(minimal).collect();
    assert!(
        batch(&world, &patches[..9]).expect("done").answers.iter().all(BatchAnswer::is_success)
    );
    let answers = batch(&world, &patches).expect("answered").answers;
    assert!(matches!(answers[9], BatchAnswer::Failed(Error::TransactionTooLarge { .. })));
    // Bulk goes on in another transaction.
    let answers = bulk(&world, &patches, OnError::Continue).answers;
    assert!(answers.iter().all(BatchAnswer::is_success), "{answers:?}");
    assert_eq!(stored(&world, "p", "9").expect("there").get("n").as_i64(), Some(2));
    assert_eq!(stored(&world, "p", "0").expect("there").get("n").as_i64(), Some(3));
}

fn bulk(world: &World, operations: &[BatchOperation], on_error: OnError) -> Answers {
    let container = world.container("c");
    let operations: Vec<BatchOperation> = operations
        .iter()
        .cloned()
        .map(|o| BatchOperation { partition_key: o.partition_key.clone().or(Some(key("p"))), ..o })
        .collect();
    world
        .engine()
        .transactions()
        .bulk(&container, None, None, &operations, on_error)
        .expect("answered")
}

#[test]
fn bulk_operations_succeed_and_fail_each_for_itself() {
    let world = world();
    batch(&world, &[create("a", 1)]).expect("done");
    let of_q = BatchOperation {
        partition_key: Some(key("q")),
        ..operation(BatchAction::Create(item("a", "q", 5)))
    };
    let wrong = BatchOperation { partition_key: Some(key("q")), ..create("z", 1) };
    let operations = [create("a", 2), create("b", 3), of_q, wrong, increment("b"), read("none")];
    let answers = bulk(&world, &operations, OnError::Continue);
    let exists = "failed: Entity with the specified id already exists in the system.";
    let mismatch = "failed: PartitionKey extracted from document doesn't match the one specified \
                    in the header";
    let missing = format!("failed: {}", Error::NotFound);
    let expected = [exists, "Created 3", "Created 5", mismatch, "Replaced 4", &missing];
    assert_eq!(said(&answers), expected);
    assert_eq!(stored(&world, "p", "b").expect("there").get("n").as_i64(), Some(4));
    assert!(stored(&world, "q", "a").is_some());
    assert_eq!(world.engine().insight().verify(&world.container("c")).expect("verified"), []);
}

#[test]
fn bulk_of_many_logical_partitions_tells_how_far_each_physical_one_is() {
    let world = world();
    let of = |n: usize| {
        let p = n.to_string();
        let action = BatchAction::Create(item("a", &p, 1));
        BatchOperation { partition_key: Some(key(&p)), ..operation(action) }
    };
    let operations: Vec<BatchOperation> = (0..100).map(of).collect();
    let answers = bulk(&world, &operations, OnError::Continue);
    assert!(answers.answers.iter().all(BatchAnswer::is_success));
    let container = world.container("c");
    assert_eq!(answers.places.len(), container.partitions.len());
    let mut places = answers.places.clone();
    places.sort_by_key(|place| place.partition);
    let tokens: Vec<String> = places.iter().map(|p| container.token(p.partition, p.lsn)).collect();
    assert_eq!(tokens.join(","), session_token(world.engine(), &container));
}

#[test]
fn bulk_stops_at_a_failure_if_it_is_told_to() {
    let world = world();
    let operations = [create("a", 1), create("a", 2), create("b", 3)];
    let answers = bulk(&world, &operations, OnError::Stop);
    let exists = "failed: Entity with the specified id already exists in the system.";
    assert_eq!(said(&answers), ["Created 1", exists, "dependent"]);
    assert_eq!(stored(&world, "p", "b"), None);
}

#[test]
fn bulk_for_one_physical_partition_refuses_what_lies_in_another() {
    let world = world();
    let container = world.container("c");
    let definition = &container.definition.partition_key;
    let operations: Vec<BatchOperation> = ["p", "q", "r", "s", "t"]
        .map(|p| BatchOperation {
            partition_key: Some(key(p)),
            ..operation(BatchAction::Create(item("a", p, 1)))
        })
        .to_vec();
    let named = &container.partitions[0];
    let answers = world.engine().transactions().bulk(
        &container,
        Some(named),
        None,
        &operations,
        OnError::Continue,
    );
    let answers = answers.expect("answered").answers;
    let mut inside = 0;
    for (answer, p) in answers.iter().zip(["p", "q", "r", "s", "t"]) {
        if named.range.contains(&definition.effective(&key(p))) {
            assert!(answer.is_success(), "{p}: {answer:?}");
            inside += 1;
        } else {
            assert!(matches!(answer, BatchAnswer::Failed(Error::PartitionGone)), "{p}: {answer:?}");
            assert_eq!(stored(&world, p, "a"), None);
        }
    }
    assert!((1..5).contains(&inside), "{inside} of 5 keys lie in the first partition");
}

#[test]
fn bulk_requests_side_by_side_make_every_item_once() {
    let world = world();
    let of = |n: usize| {
        let p = n.to_string();
        let action = BatchAction::Create(item("a", &p, 1));
        BatchOperation { partition_key: Some(key(&p)), ..operation(action) }
    };
    let operations: Vec<BatchOperation> = (0..100).map(of).collect();
    let created = std::thread::scope(|scope| {
        let run = || {
            let answers = bulk(&world, &operations, OnError::Continue).answers;
            for answer in &answers {
                let taken = matches!(answer, BatchAnswer::Failed(Error::AlreadyExists));
                assert!(answer.is_success() || taken, "{answer:?}");
            }
            answers.iter().filter(|answer| answer.is_success()).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum::<usize>()
    });
    assert_eq!(created, 100);
    let container = world.container("c");
    assert_eq!(world.engine().insight().usage(&container).expect("it counts").items, 100);
    assert_eq!(world.engine().insight().verify(&container).expect("verified"), []);
}
