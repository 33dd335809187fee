//! Paths get their numbers with the items that bring them: a client that counts commits sees one for
//! each write, and writers who bring the same paths at the same time all get through.

use std::thread;

use orrery_engine::catalog::resource::Preconditions;
use orrery_types::PartitionKey;

use crate::world::World;

fn world(mut world: World) -> World {
    world.database();
    world.create_container(r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#, None);
    world
}

fn upsert(world: &World, text: &str) -> u64 {
    let (container, any) = (world.container("c"), Preconditions::default());
    let written = world.engine().items().upsert(&container, None, text.as_bytes(), &any);
    written.expect("an item").place.lsn.0
}

#[test]
fn an_item_with_new_paths_is_one_commit() {
    for world in [world(World::memory()), world(World::rocks())] {
        let first = upsert(&world, r#"{"id":"1","p":"k"}"#);
        assert_eq!(upsert(&world, r#"{"id":"2","p":"k","new":true}"#), first + 1);
        assert_eq!(upsert(&world, r#"{"id":"2","p":"k","new":{"er":[1]}}"#), first + 2);
        assert_eq!(upsert(&world, r#"{"id":"3","p":"k","new":{"er":[2]}}"#), first + 3);
        let faults =
            world.engine().insight().verify(&world.container("c")).expect("a verification");
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

#[test]
fn writers_who_bring_paths_at_the_same_time_all_get_through() {
    let world = world(World::memory());
    thread::scope(|scope| {
        for writer in 0..8 {
            let world = &world;
            scope.spawn(move || {
                for n in 0..50 {
                    let text = format!(
                        r#"{{"id":"{writer}-{n}","p":"{writer}","common{n}":1,"own{writer}_{n}":{{"x":[{n}]}}}}"#
                    );
                    upsert(world, &text);
                }
            });
        }
    });
    let faults = world.engine().insight().verify(&world.container("c")).expect("a verification");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_transaction_with_new_paths_is_one_commit() {
    for world in [world(World::memory()), world(World::rocks())] {
        let first = upsert(&world, r#"{"id":"1","p":"k"}"#);
        let key = PartitionKey::parse_header(r#"["k"]"#).expect("a key");
        let done = world.engine().transactions().transact(
            &world.container("c"),
            &key,
            &mut |transaction| {
                transaction.create(br#"{"id":"2","p":"k","new":{"er":[1]}}"#)?;
                transaction.create(br#"{"id":"3","p":"k","new":{"est":2},"er":1}"#)
            },
        );
        assert_eq!(done.expect("a commit").place.lsn.0, first + 1);
        assert_eq!(upsert(&world, r#"{"id":"4","p":"k","er":1,"new":{"est":2}}"#), first + 2);
        let faults =
            world.engine().insight().verify(&world.container("c")).expect("a verification");
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
