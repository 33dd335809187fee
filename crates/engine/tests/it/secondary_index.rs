//! Global secondary indexes: what may be one, what it holds, and that it follows whatever happens to its source.

use std::sync::Arc;

use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::transaction::bulk_load::Existing;
use orrery_types::{Error, PartitionKey, Result, Value};

use crate::secondary_index_view::{assert_sound, defined, rows, shown};
use crate::world::{World, json, manual, name};

const SOURCE: &str = r#"{"id":"orders","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
    "defaultTtl":-1}"#;
const ALL: &str = "SELECT * FROM c";
const SOME: &str = "SELECT c.p, c.customer.city, c.id, c.n FROM c";
const SOME_NAMES: [&str; 4] = ["p", "city", "_id", "n"];

fn index_body(id: &str, path: &str, definition: &str) -> String {
    format!(
        r#"{{"id":"{id}","partitionKey":{{"paths":["{path}"],"kind":"Hash","version":2}},
        "globalSecondaryIndexDefinition":{{"sourceCollectionId":"orders","definition":"{definition}"}}}}"#
    )
}

fn key(text: &str) -> PartitionKey {
    PartitionKey::parse_header(&format!(r#"["{text}"]"#)).expect("a key")
}

/// A source of several ranges, and two indexes.
fn world(mut world: World) -> World {
    world.database();
    world.create_container(SOURCE, Some(12_000));
    world.create_container(&index_body("by_city", "/city", SOME), Some(12_000));
    world.create_container(&index_body("by_n", "/n", ALL), None);
    world
}

fn create(world: &World, body: &str) -> Result<Value> {
    let made = world.engine().containers().create(&name("d"), &json(body), &manual(None));
    made.map(|resource| resource.body)
}

fn put(world: &World, p: &str, id: &str, city: &str, n: i64) {
    let text = format!(r#"{{"id":"{id}","p":"{p}","customer":{{"city":"{city}"}},"n":{n}}}"#);
    let none = Preconditions::default();
    let source = world.container("orders");
    world.engine().items().upsert(&source, None, text.as_bytes(), &none).expect("an item");
}

fn delete(world: &World, p: &str, id: &str) {
    let (source, none) = (world.container("orders"), Preconditions::default());
    world.engine().items().delete(&source, Some(&key(p)), &name(id), &none).expect("it goes");
}

fn all(world: &World) -> [Arc<Container>; 3] {
    ["orders", "by_city", "by_n"].map(|id| world.container(id))
}

/// Both indexes are what their definitions say, and nothing is left over.
#[track_caller]
fn check(world: &mut World) -> usize {
    world.run_tasks();
    let engine = world.engine();
    assert_eq!(engine.background().failing_work(), Value::array(vec![]));
    let [source, by_city, by_n] = all(world);
    assert_eq!(shown(engine, &by_city), defined(engine, &source, SOME, &SOME_NAMES));
    let items = shown(engine, &by_n);
    assert_eq!(items, defined(engine, &source, ALL, &[]));
    assert_sound(engine, &[&source, &by_city, &by_n]);
    assert_eq!(engine.secondary_indexes().lag_s(), 0);
    items.len()
}

fn status(world: &World, id: &str) -> String {
    let body = world.container(id).to_resource().body;
    let of = |member: &str| body.get(member).get("status").as_str().expect("a status").to_owned();
    let status = of("globalSecondaryIndexDefinition");
    assert_eq!(status, of("materializedViewDefinition"), "both names say the same");
    status
}

#[test]
fn an_index_is_built_over_what_there_is_and_follows_what_comes() {
    let mut world = World::rocks();
    world.database();
    world.create_container(SOURCE, Some(12_000));
    for n in 0..700 {
        put(&world, &format!("p{}", n % 30), &format!("i{n}"), &format!("c{}", n % 7), n);
    }
    let made = create(&world, &index_body("by_city", "/city", SOME)).expect("an index");
    let definition = made.get("globalSecondaryIndexDefinition");
    assert_eq!(definition.get("sourceCollectionId").as_str(), Some("orders"));
    let source = world.container("orders").to_resource().body;
    assert_eq!(definition.get("sourceCollectionRid"), source.get("_rid"));
    assert_eq!(definition.get("definition").as_str(), Some(SOME));
    assert_eq!(status(&world, "by_city"), "Initializing");
    assert_eq!(source.get("materializedViews").at(0).get("id").as_str(), Some("by_city"));
    world.create_container(&index_body("by_n", "/n", ALL), None);
    assert_eq!(check(&mut world), 700);
    assert_eq!(status(&world, "by_city"), "Active");
    for n in (0..700).step_by(3) {
        put(&world, &format!("p{}", n % 30), &format!("i{n}"), &format!("d{}", n % 5), -n);
    }
    for n in (1..700).step_by(7) {
        delete(&world, &format!("p{}", n % 30), &format!("i{n}"));
    }
    assert_eq!(check(&mut world), 600);
    world.reopen();
    assert_eq!(status(&world, "by_city"), "Active", "it was noted");
    assert_eq!(check(&mut world), 600);
    let found =
        rows(world.engine(), &world.container("by_city"), "SELECT * FROM c WHERE c.city='d1'");
    assert!(!found.is_empty() && found.iter().all(|row| row.get("id") != row.get("_id")));
}

#[test]
fn an_index_follows_every_way_in_which_an_item_changes_or_ends() {
    let mut world = world(World::memory());
    for n in 0..40 {
        put(&world, &format!("p{}", n % 4), &format!("i{n}"), "c", n);
    }
    assert_eq!(check(&mut world), 40);
    let source = world.container("orders");
    let none = Preconditions::default();
    let before = rows(world.engine(), &world.container("by_n"), "SELECT * FROM c WHERE c._id='i5'");
    // A new value under the key of one index; of the other, nothing that it holds.
    put(&world, "p1", "i5", "elsewhere", 5);
    // A rename, one in a circle, and an id that is used again.
    let rename = |from: &str, to: &str, n: i64| {
        let text = format!(r#"{{"id":"{to}","p":"p0","n":{n}}}"#);
        let items = world.engine().items();
        let renamed = items.replace(&source, Some(&key("p0")), &name(from), text.as_bytes(), &none);
        renamed.expect("it is renamed");
    };
    rename("i0", "j0", 100);
    rename("i4", "free", 4);
    rename("i8", "i4", 8);
    rename("free", "i8", 4);
    delete(&world, "p0", "i12");
    put(&world, "p0", "i12", "again", 12);
    delete(&world, "p0", "i16");
    assert_eq!(check(&mut world), 39);
    let after = rows(world.engine(), &world.container("by_n"), "SELECT * FROM c WHERE c._id='i5'");
    assert_eq!(before[0].get("id"), after[0].get("id"), "an item keeps its own id");
    // Expiry: hidden at once in the source, and gone from the index with its removal.
    let text = br#"{"id":"short","p":"p2","n":1,"ttl":5}"#;
    world.engine().items().create(&source, None, text).expect("an item");
    assert_eq!(check(&mut world), 40);
    world.clock.advance_s(6);
    assert_eq!(check(&mut world), 39);
    // Everything of a partition key, and one of it anew.
    world.engine().erasure().erase_partition_key(&source, &key("p1")).expect("it is accepted");
    put(&world, "p1", "i1", "after", 1);
    assert_eq!(check(&mut world), 30);
}

#[test]
fn values_of_all_types_are_keys_of_an_index() {
    let mut world = world(World::memory());
    let source = world.container("orders");
    for (id, n) in [
        ("number", "1.5"),
        ("text", r#""x""#),
        ("true", "true"),
        ("null", "null"),
        ("object", r#"{"a":[]}"#),
        ("array", "[1,2]"),
    ] {
        let text = format!(r#"{{"id":"{id}","p":"p","n":{n},"customer":{{"city":{n}}}}}"#);
        world.engine().items().create(&source, None, text.as_bytes()).expect(id);
    }
    let text = br#"{"id":"none","p":"p","_id":"taken","ttl":1000}"#;
    world.engine().items().create(&source, None, text).expect("an item");
    assert_eq!(check(&mut world), 7);
}

#[test]
fn layouts_of_source_and_index_change_under_an_index() {
    let mut world = world(World::memory());
    for n in 0..300 {
        put(&world, &format!("p{}", n % 20), &format!("i{n}"), &format!("c{}", n % 9), n);
    }
    world.run_tasks();
    for round in 0..4 {
        for n in (round..300).step_by(4) {
            put(
                &world,
                &format!("p{}", n % 20),
                &format!("i{n}"),
                &format!("d{}", n % 11),
                n + 1000,
            );
        }
        delete(&world, &format!("p{}", round % 20), &format!("i{round}"));
        let layouts = world.engine().layouts();
        for id in ["orders", "by_city"] {
            if round % 2 == 0 {
                layouts.split_partition(&name("d"), &name(id), None, None).expect("a split");
            } else {
                layouts.merge_partitions(&name("d"), &name(id), None).expect("a merge");
            }
        }
        // Something of before the change is still to be applied, at positions of the parents.
        if round != 1 {
            check(&mut world);
        }
    }
    assert_eq!(check(&mut world), 296);
}

#[test]
fn clients_only_read_an_index() {
    let mut world = world(World::memory());
    put(&world, "p", "i", "c", 1);
    check(&mut world);
    let (engine, index) = (world.engine(), world.container("by_city"));
    let none = Preconditions::default();
    let text = br#"{"id":"x","city":"c"}"#;
    let refused = |result: Result<()>| match result {
        Err(Error::Denied(reason)) => assert!(reason.contains("read-only"), "{reason}"),
        other => panic!("{other:?}"),
    };
    let found = rows(engine, &index, "SELECT VALUE c.id FROM c");
    let id = name(found[0].as_str().expect("an id"));
    let items = engine.items();
    refused(items.create(&index, None, text).map(drop));
    refused(items.upsert(&index, None, text, &none).map(drop));
    refused(items.delete(&index, Some(&key("c")), &id, &none).map(drop));
    refused(engine.erasure().erase_partition_key(&index, &key("c")).map(drop));
    let worked = engine.transactions().transact(&index, &key("c"), &mut |tx| tx.create(text));
    refused(worked.map(drop));
    let body = orrery_engine::item::operation::ItemBody::parse(&index, text).expect("a body");
    let loaded = engine.transactions().load_items(&index, vec![body], Existing::Keep);
    refused(loaded.expect("answers").remove(0).map(drop));
    let read = items.read(&index, Some(&key("c")), &id).expect("it is read");
    assert!(read.body.starts_with(b"{\"id\":"));
    assert_eq!(check(&mut world), 1);
}

#[test]
fn what_cannot_be_an_index_is_refused() {
    let mut world = world(World::memory());
    let body = |id: &str, more: &str, source: &str, definition: &str| {
        format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["/n"]}}{more},"materializedViewDefinition":
            {{"sourceCollectionId":"{source}","definition":"{definition}"}}}}"#
        )
    };
    for (body, what) in [
        (body("x", "", "missing", ALL), "no container 'missing'"),
        (body("x", "", "by_n", ALL), "is a global secondary index itself"),
        (body("x", "", "orders", "SELECT * FROM c WHERE c.n=1"), "WHERE"),
        (body("x", "", "orders", "SELECT c.p FROM c"), "partition key path '/n'"),
        (body("x", "", "orders", "SELECT c.n FROM c"), "partition key path '/p'"),
        (body("x", r#","defaultTtl":1"#, "orders", ALL), "defaultTtl"),
        (
            body("x", r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]}]}"#, "orders", ALL),
            "uniqueKeyPolicy",
        ),
        (index_body("x", "/id", ALL), "partition key path '/id'"),
        (index_body("x", "/n", ALL).replace("\"paths\":[\"/n\"],", ""), "partition key"),
    ] {
        match create(&world, &body) {
            Err(Error::Invalid(reason)) => assert!(reason.contains(what), "{what}: {reason}"),
            other => panic!("{what}: {other:?}"),
        }
    }
    // Another database has no such container.
    world.insist(|engine| {
        engine.databases().create(&json(r#"{"id":"e"}"#), &manual(None)).map(drop)
    });
    let elsewhere = world.engine().containers().create(
        &name("e"),
        &json(&index_body("x", "/n", ALL)),
        &manual(None),
    );
    assert!(matches!(elsewhere, Err(Error::Invalid(_))), "{elsewhere:?}");
    // A replace keeps source and definition, and changes other things.
    let none = Preconditions::default();
    let replace = |body: &str| {
        let replaced =
            world.engine().containers().replace(&name("d"), &name("by_n"), &json(body), &none);
        replaced.map(|resource| resource.body)
    };
    for changed in [
        index_body("by_n", "/n", SOME),
        index_body("by_n", "/n", ALL).replace("orders", "by_city"),
        index_body("by_n", "/n", ALL)
            .replace("\"defaultTtl\"", "")
            .replace("{\"id\"", "{\"defaultTtl\":5,\"id\""),
    ] {
        assert!(matches!(replace(&changed), Err(Error::Invalid(_))), "{changed}");
    }
    let source = world.engine().containers().replace(
        &name("d"),
        &name("orders"),
        &json(&index_body("orders", "/p", ALL)),
        &none,
    );
    assert!(matches!(source, Err(Error::Invalid(_))), "no container becomes an index");
    let policy = r#"{"id":"by_n","indexingPolicy":{"excludedPaths":[{"path":"/customer/*"}]}}"#;
    let replaced = replace(policy).expect("a policy may change");
    assert_eq!(
        replaced.get("globalSecondaryIndexDefinition").get("definition").as_str(),
        Some(ALL)
    );
    // So many, and no more.
    for n in 2..5 {
        create(&world, &index_body(&format!("more{n}"), "/n", ALL)).expect("an index");
    }
    match create(&world, &index_body("sixth", "/n", ALL)) {
        Err(Error::Invalid(reason)) => assert!(reason.contains("the limit is 5"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_source_outlives_its_indexes_and_keeps_nothing_of_them() {
    let mut world = world(World::rocks());
    for n in 0..600 {
        put(&world, &format!("p{}", n % 9), &format!("i{n}"), "c", n);
    }
    check(&mut world);
    delete(&world, "p0", "i0");
    let none = Preconditions::default();
    let remove =
        |world: &World, id: &str| world.engine().containers().delete(&name("d"), &name(id), &none);
    match remove(&world, "orders") {
        Err(Error::Invalid(reason)) => {
            assert!(reason.contains("'by_city', 'by_n'"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    remove(&world, "by_city").expect("an index goes");
    world.reopen();
    delete(&world, "p1", "i1");
    world.run_tasks();
    let (source, by_n) = (world.container("orders"), world.container("by_n"));
    assert_eq!(shown(world.engine(), &by_n), defined(world.engine(), &source, ALL, &[]));
    assert_sound(world.engine(), &[&source, &by_n]);
    remove(&world, "by_n").expect("an index goes");
    world.run_tasks();
    assert_sound(world.engine(), &[&world.container("orders")]);
    let shown = world.container("orders").to_resource().body;
    assert!(shown.get("materializedViews").is_undefined());
    // Under a name of before, an index begins anew.
    create(&world, &index_body("by_city", "/city", SOME)).expect("an index");
    create(&world, &index_body("by_n", "/n", ALL)).expect("an index");
    assert_eq!(check(&mut world), 598);
    for id in ["by_city", "by_n", "orders"] {
        remove(&world, id).expect("it goes");
    }
}

/// An item that an index cannot hold keeps no other from following, and is named until it can be held.
#[test]
fn an_item_that_an_index_cannot_hold_is_named_and_holds_up_no_other() {
    let mut world = world(World::one());
    put(&world, "p", "good", "c", 1);
    put(&world, "p", "bad", "c", 2);
    check(&mut world);
    let long = "x".repeat(3000);
    put(&world, "p", "bad", &long, 2);
    put(&world, "p", "after", "c", 3);
    world.engine().background().run_tasks(&|| false).expect_err("an item cannot be held");
    let (engine, [source, by_city, by_n]) = (world.engine(), all(&world));
    let failing = engine.background().failing_work();
    let reason = failing.at(0).get("reason").as_str().expect("a reason");
    assert!(reason.contains("item 'bad' in 'orders'") && reason.contains("2048"), "{reason}");
    assert_eq!(shown(engine, &by_city).len(), 2, "what it was is not shown");
    assert_eq!(shown(engine, &by_n).len(), 3, "another index holds it");
    assert_sound(engine, &[&source, &by_city, &by_n]);
    put(&world, "p", "bad", "short", 2);
    assert_eq!(check(&mut world), 3);
    put(&world, "p", "bad", &long, 2);
    world.engine().background().run_tasks(&|| false).expect_err("an item cannot be held");
    delete(&world, "p", "bad");
    assert_eq!(check(&mut world), 2);
}

/// A commit of the source may have more changes than one step of an index applies.
#[test]
fn a_large_commit_of_the_source_is_applied_in_steps() {
    let mut world = world(World::memory());
    let source = world.container("orders");
    let body = |n: usize| {
        let text = format!(r#"{{"id":"i{n}","p":"p","n":{n}}}"#);
        orrery_engine::item::operation::ItemBody::parse(&source, text.as_bytes()).expect("a body")
    };
    let bodies = (0..1000).map(body).collect();
    let loaded = world.engine().transactions().load_items(&source, bodies, Existing::Keep);
    assert_eq!(loaded.expect("they are loaded").len(), 1000);
    put(&world, "p", "last", "c", 1);
    assert_eq!(check(&mut world), 1001);
}

#[test]
fn no_model_is_about_an_index() {
    let world = world(World::memory());
    let model = r#"{"version":1,"types":{"order":{"container":"by_n"}},"relations":[]}"#;
    let none = Preconditions::default();
    match world.engine().models().store(&name("d"), &json(model), &none) {
        Err(Error::Invalid(reason)) => assert!(reason.contains("secondary index"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// What verification would not notice is no verification.
#[test]
fn verification_names_what_differs_from_the_source() {
    use orrery_storage::{Commit, Part, ReadAt, Space, key};
    let disk = crate::stores::new_store();
    let clock = Arc::new(orrery_types::ManualClock::at_s(crate::world::START_S));
    let engine = orrery_engine::Engine::open(disk.clone(), clock, 1).expect("it opens");
    engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    for body in [SOURCE.to_owned(), index_body("by_n", "/n", ALL)] {
        engine.containers().create(&name("d"), &json(&body), &manual(None)).expect("a container");
    }
    let container =
        |id: &str| engine.containers().read(&name("d"), &name(id)).expect("it is there");
    let source = container("orders");
    for n in 0..3 {
        let text = format!(r#"{{"id":"i{n}","p":"p","n":{n}}}"#);
        engine.items().create(&source, None, text.as_bytes()).expect("an item");
    }
    engine.background().run_tasks(&|| false).expect("it follows");
    assert_sound(&engine, &[&container("by_n")]);
    let kinds = || {
        let faults = engine.insight().verify(&container("by_n")).expect("it is verified");
        faults.iter().map(|fault| format!("{:?}", fault.kind)).collect::<Vec<_>>()
    };
    let source = container("orders");
    let partition = &source.partitions[0];
    let places = key::secondary_places(container_number(&container("by_n")));
    let snapshot = disk.snapshot(partition.shard, ReadAt::Latest).expect("a snapshot");
    let scan = places.scan(Space::Index, 10, usize::MAX);
    let entries = snapshot.scan(&scan).expect("places");
    drop(snapshot);
    assert_eq!(entries.len(), 3);
    let mut part = Part::new(partition.shard, partition.epoch);
    part.deletes.push((Space::Index, entries[0].key.clone()));
    disk.commit(Commit::new(vec![part])).expect("a commit");
    assert_eq!(kinds(), ["IndexItemMissing", "IndexItemOrphan"]);
}

fn container_number(container: &Container) -> u32 {
    match container.rid() {
        orrery_types::ids::Rid::Container { container, .. } => container,
        other => panic!("{other}"),
    }
}
