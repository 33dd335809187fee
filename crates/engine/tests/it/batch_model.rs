//! Random batches against a model that is a map: on memory, on disk, and on a store whose commits
//! and reads fail now and then. After an answer that says nothing certain, everything the batch
//! wanted is there or nothing of it. `ORRERY_SEED` repeats a run, `ORRERY_STEPS` lengthens it.

use std::collections::BTreeMap;

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::read::Outcome;
use orrery_engine::transaction::batch::{
    Answers, BatchAction, BatchAnswer, BatchOperation, Content,
};
use orrery_types::{Error, PartitionKey, Value};

use crate::random::Random;
use crate::world::{World, name};

const IDS: usize = 8;

/// Items by id: their number, and the unique key that goes with it.
type Items = BTreeMap<usize, (i64, i64)>;

#[derive(Clone, Copy, Debug)]
enum Step {
    Create(usize, i64, i64),
    Upsert(usize, i64, i64),
    Replace(usize, i64, i64),
    Increment(usize),
    Delete(usize),
    Read(usize),
}

/// What a step comes to: what it did and the number it shows, or the status of its refusal.
type Said = Result<(&'static str, Option<i64>), u16>;

impl Step {
    fn random(random: &mut Random) -> Self {
        let id = random.below(IDS);
        let n = i64::try_from(random.below(1000)).expect("small");
        let unique = i64::try_from(random.below(3 * IDS)).expect("small");
        match random.below(10) {
            0..3 => Self::Create(id, n, unique),
            3..5 => Self::Upsert(id, n, unique),
            5 => Self::Replace(id, n, unique),
            6..8 => Self::Increment(id),
            8 => Self::Delete(id),
            _ => Self::Read(id),
        }
    }

    fn operation(self) -> BatchOperation {
        let text = |id: usize, n: i64, u: i64| {
            format!(r#"{{"id":"{id}","p":"p","n":{n},"u":{u}}}"#).into_bytes().into()
        };
        let address = |id: usize| name(&id.to_string());
        let action = match self {
            Self::Create(id, n, u) => BatchAction::Create(text(id, n, u)),
            Self::Upsert(id, n, u) => BatchAction::Upsert(text(id, n, u)),
            Self::Replace(id, n, u) => BatchAction::Replace(address(id), text(id, n, u)),
            Self::Increment(id) => {
                let patch = &br#"[{"op":"incr","path":"/n","value":1}]"#[..];
                BatchAction::Patch(address(id), patch.into())
            }
            Self::Delete(id) => BatchAction::Delete(address(id)),
            Self::Read(id) => BatchAction::Read(address(id)),
        };
        let conditions = Preconditions::default();
        BatchOperation { action, partition_key: None, conditions, content: Content::Full }
    }

    /// What the step does to the map.
    fn apply(self, items: &mut Items) -> Said {
        let (id, after) = match self {
            Self::Create(id, ..) if items.contains_key(&id) => return Err(409),
            Self::Replace(id, ..) | Self::Increment(id) | Self::Delete(id) | Self::Read(id)
                if !items.contains_key(&id) =>
            {
                return Err(404);
            }
            Self::Create(id, n, u) | Self::Upsert(id, n, u) | Self::Replace(id, n, u) => {
                (id, (n, u))
            }
            Self::Increment(id) => (id, (items[&id].0 + 1, items[&id].1)),
            Self::Delete(id) => {
                items.remove(&id);
                return Ok(("deleted", None));
            }
            Self::Read(id) => return Ok(("read", Some(items[&id].0))),
        };
        if items.iter().any(|(other, (_, u))| *other != id && *u == after.1) {
            return Err(409);
        }
        let did = if items.insert(id, after).is_some() { "replaced" } else { "created" };
        Ok((did, Some(after.0)))
    }
}

fn said(answer: &BatchAnswer) -> Said {
    let n = |body: &[u8]| Value::parse(body).ok().and_then(|body| body.get("n").as_i64());
    match answer {
        BatchAnswer::Read(item) => Ok(("read", n(&item.body))),
        BatchAnswer::Written(item) => Ok((
            match item.outcome {
                Outcome::Created => "created",
                Outcome::Replaced => "replaced",
                Outcome::Deleted => "deleted",
            },
            n(&item.body),
        )),
        BatchAnswer::Failed(Error::NotFound) => Err(404),
        BatchAnswer::Failed(Error::AlreadyExists | Error::UniqueKeyViolation) => Err(409),
        BatchAnswer::Dependent(_) => Err(424),
        other => panic!("{other:?}"),
    }
}

/// What a batch of these steps does, and what it answers.
fn expected(steps: &[Step], items: &Items) -> (Items, Vec<Said>) {
    let mut after = items.clone();
    let mut answers = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match step.apply(&mut after) {
            Ok(done) => answers.push(Ok(done)),
            Err(status) => {
                let mut refused = vec![Err(424); steps.len()];
                refused[at] = Err(status);
                return (items.clone(), refused);
            }
        }
    }
    (after, answers)
}

fn run(mut world: World, mut random: Random, steps: usize) {
    let steps = std::env::var("ORRERY_STEPS")
        .map_or(steps, |text| text.parse().expect("ORRERY_STEPS is a number"));
    world.database();
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    world.create_container(body, None);
    let key = PartitionKey::parse_header(r#"["p"]"#).expect("a key");
    let mut items = Items::new();
    let (mut committed, mut refused, mut unknown) = (0, 0, 0);
    for _ in 0..steps {
        let batch: Vec<Step> = (0..=random.below(5)).map(|_| Step::random(&mut random)).collect();
        let operations: Vec<BatchOperation> = batch.iter().map(|step| step.operation()).collect();
        let (after, answers) = expected(&batch, &items);
        match world.engine().transactions().batch(&world.container("c"), Some(&key), &operations) {
            Ok(Answers { answers: found, .. }) => {
                let found: Vec<Said> = found.iter().map(said).collect();
                assert_eq!(found, answers, "{batch:?} on {items:?}");
                let is_committed = found.iter().all(Result::is_ok);
                *(if is_committed { &mut committed } else { &mut refused }) += 1;
                items = after;
            }
            Err(error) => {
                assert!(world.is_faulty(), "{batch:?}: {error}");
                unknown += 1;
                // Only now it turns out whether a commit that failed had reached the disk.
                world.reopen();
                let found = stored(&mut world, &key);
                assert!(found == items || found == after, "{batch:?} on {items:?} left {found:?}");
                items = found;
            }
        }
        if random.one_in(100) {
            world.reopen();
        }
    }
    assert_eq!(stored(&mut world, &key), items);
    world.reopen();
    let faults = world.insist(|engine| {
        engine.insight().verify(&*engine.containers().read(&name("d"), &name("c"))?)
    });
    assert!(faults.is_empty(), "{faults:#?}");
    eprintln!("{committed} batches committed, {refused} refused, {unknown} of unknown outcome");
    assert!(committed > steps / 10 && refused > steps / 10);
}

/// Everything that is there, once the store works again.
fn stored(world: &mut World, key: &PartitionKey) -> Items {
    world.insist(|engine| {
        let container = engine.containers().read(&name("d"), &name("c"))?;
        let mut items = Items::new();
        for id in 0..IDS {
            match engine.items().read(&container, Some(key), &name(&id.to_string())) {
                Ok(item) => {
                    let body = Value::parse(&item.body).expect("stored JSON");
                    let number = |name: &str| body.get(name).as_i64().expect("a number");
                    items.insert(id, (number("n"), number("u")));
                }
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(items)
    })
}

#[test]
fn batches_on_memory_agree_with_the_model() {
    run(World::memory(), Random::from_environment("batches on memory"), 2000);
}

#[test]
fn batches_on_disk_agree_with_the_model() {
    run(World::rocks(), Random::from_environment("batches on disk"), 300);
}

#[test]
fn batches_on_a_failing_store_are_there_whole_or_not_at_all() {
    let mut random = Random::from_environment("batches on a failing store");
    run(World::faulty(random.next()), random, 2000);
}
