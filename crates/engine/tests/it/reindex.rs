//! A changed indexing policy: whoever writes when, and wherever the work is interrupted, the index
//! ends up with exactly the terms of the policy of now, and no path is relied upon before.

use std::sync::Arc;
use std::thread;

use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_index::{IndexPath, IndexStep};
use orrery_types::{Error, PartitionKey};

use crate::random::Random;
use crate::world::{World, json, name};

const POLICIES: [&str; 6] = [
    "{}",
    r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#,
    r#"{"excludedPaths":[{"path":"/b/*"},{"path":"/l/[]/?"}]}"#,
    r#"{"indexingMode":"none"}"#,
    r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b/c","order":"descending"}]]}"#,
    r#"{"includedPaths":[{"path":"/l/[]/*"}],"excludedPaths":[{"path":"/*"}],
        "compositeIndexes":[[{"path":"/a"},{"path":"/b/c","order":"descending"}],[{"path":"/id"},{"path":"/a"}]]}"#,
];

fn definition(policy: &str) -> String {
    format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/p"],"kind":"Hash"}},"indexingPolicy":{policy}}}"#
    )
}

fn world(mut world: World, policy: &str) -> World {
    world.database();
    world.create_container(&definition(policy), None);
    world
}

fn any() -> Preconditions {
    Preconditions::default()
}

fn key() -> PartitionKey {
    PartitionKey::parse_header(r#"["k"]"#).expect("a key")
}

fn text(id: usize, a: usize) -> String {
    format!(
        r#"{{"id":"{id}","p":"k","a":{a},"b":{{"c":"{id}","d":[{a}]}},"l":[{id},{a},{{"x":null}}]}}"#
    )
}

fn upsert(world: &World, container: &Container, id: usize, a: usize) {
    let text = text(id, a);
    let written = world.engine().items().upsert(container, None, text.as_bytes(), &any());
    written.expect("an item");
}

fn redefine(world: &World, policy: &str) {
    let body = json(&definition(policy));
    let replaced = world.engine().containers().replace(&name("d"), &name("c"), &body, &any());
    replaced.expect("a policy");
}

#[track_caller]
fn check_sound(world: &World) {
    let container = world.container("c");
    assert!(container.index.is_complete());
    let faults = world.engine().insight().verify(&container).expect("a verification");
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(world.engine().index_build().index_progress(&container), Ok(100));
}

fn path(text: &str) -> Vec<IndexStep> {
    IndexPath::parse(text, true).expect("a path").steps
}

#[test]
fn every_change_from_one_policy_to_another_ends_with_the_terms_of_the_last() {
    for from in POLICIES {
        for to in POLICIES {
            let mut world = world(World::memory(), from);
            let container = world.container("c");
            (0..5).for_each(|id| upsert(&world, &container, id, id));
            redefine(&world, to);
            // Before the work begins, and under the definition from before it.
            upsert(&world, &world.container("c"), 0, 7);
            upsert(&world, &container, 1, 8);
            upsert(&world, &container, 5, 5);
            let address = name("2");
            world
                .engine()
                .items()
                .delete(&container, Some(&key()), &address, &any())
                .expect("gone");
            world.run_tasks();
            check_sound(&world);
            // And after it.
            upsert(&world, &container, 3, 9);
            upsert(&world, &container, 6, 6);
            check_sound(&world);
        }
    }
}

#[test]
fn a_path_is_relied_upon_only_while_every_policy_in_effect_has_it() {
    let mut world = world(World::memory(), POLICIES[1]);
    let usable = |world: &World, text: &str| world.container("c").index.is_usable(&path(text));
    let composites = |world: &World| world.container("c").index.usable_composites().count();
    upsert(&world, &world.container("c"), 1, 1);
    assert!(usable(&world, "/a") && usable(&world, "/id") && usable(&world, "/_ts"));
    assert!(!usable(&world, "/b/c") && !usable(&world, "/_rid"));
    redefine(&world, POLICIES[4]);
    assert!(usable(&world, "/a") && !usable(&world, "/b/c"));
    assert_eq!(composites(&world), 0);
    world.run_tasks();
    assert!(usable(&world, "/a") && usable(&world, "/b/c") && usable(&world, "/l/[]"));
    assert_eq!(composites(&world), 1);
    redefine(&world, POLICIES[2]);
    assert!(!usable(&world, "/b/c") && !usable(&world, "/l/[]") && usable(&world, "/x"));
    assert_eq!(composites(&world), 0);
}

#[test]
fn a_restart_goes_on_where_the_work_was() {
    let mut world = world(World::rocks(), POLICIES[1]);
    let container = world.container("c");
    let count = 700;
    (0..count).for_each(|id| upsert(&world, &container, id, id));
    redefine(&world, POLICIES[0]);
    let mut seen = vec![0];
    for _ in 0..3 {
        // Stops after the first batch.
        world.engine().background().run_tasks(&|| true).expect("some work");
        seen.push(
            world.engine().index_build().index_progress(&world.container("c")).expect("a number"),
        );
        world.reopen();
    }
    assert!(seen.is_sorted_by(|a, b| a < b) && seen.iter().all(|p| *p < 100), "{seen:?}");
    upsert(&world, &world.container("c"), 0, 1);
    world.run_tasks();
    check_sound(&world);
}

#[test]
fn too_many_changes_at_once_have_to_wait() {
    let mut world = world(World::memory(), "{}");
    let policy = |n: usize| format!(r#"{{"excludedPaths":[{{"path":"/x{n}/?"}}]}}"#);
    let mut changes = 0;
    let refused = loop {
        let body = json(&definition(&policy(changes)));
        match world.engine().containers().replace(&name("d"), &name("c"), &body, &any()) {
            Ok(_) => changes += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::RateLimited { .. }), "{refused}");
    assert_eq!(changes, orrery_types::limits::INDEX_POLICIES_MAX - 1);
    world.run_tasks();
    redefine(&world, &policy(changes));
    world.run_tasks();
    check_sound(&world);
}

#[test]
fn writers_and_changes_at_the_same_time_leave_a_sound_index() {
    let mut random = Random::from_environment("writers and changes");
    let mut world = world(World::memory(), "{}");
    let engine = world.engine();
    thread::scope(|scope| {
        for writer in 0..3 {
            let (container, seed) = (world.container("c"), random.next());
            let world = &world;
            scope.spawn(move || write(world, &container, writer, seed));
        }
        for _ in 0..40 {
            redefine(&world, POLICIES[random.below(POLICIES.len())]);
            for _ in 0..random.below(3) {
                engine.background().run_tasks(&|| false).expect("the work");
            }
        }
    });
    world.run_tasks();
    check_sound(&world);
}

/// Writes, now under the definition of then, now under that of now.
fn write(world: &World, then: &Arc<Container>, writer: usize, seed: u64) {
    let mut random = Random::new(seed);
    for n in 0..300 {
        let now = world.container("c");
        let container = if random.one_in(2) { then } else { &now };
        let id = writer * 10 + random.below(10);
        match random.below(4) {
            0 => {
                let key = key();
                let address = name(&id.to_string());
                let gone = world.engine().items().delete(container, Some(&key), &address, &any());
                assert!(matches!(gone, Ok(_) | Err(Error::NotFound)), "{gone:?}");
            }
            1 => {
                let text = text(id, n);
                let done =
                    world.engine().transactions().transact(container, &key(), &mut |transaction| {
                        transaction.upsert(text.as_bytes(), &any()).map(drop)
                    });
                done.map(drop).expect("a transaction");
            }
            _ => upsert(world, container, id, n),
        }
    }
}
