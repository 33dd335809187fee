//! What a restart must not lose or trip over.

use orrery_engine::catalog::resource::Preconditions;
use orrery_types::{Error, Value};

use crate::world::{World, json, manual, name};

const TIMED: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"},"defaultTtl":5}"#;
const UNTIMED: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;

fn world(definition: &str) -> World {
    let mut world = World::memory();
    world.database();
    world.create_container(definition, None);
    world
}

fn create(world: &World, text: &str) {
    let container = world.container("c");
    world.engine().items().create(&container, None, text.as_bytes()).expect("an item");
}

fn redefine(world: &World, definition: &str) {
    let (body, conditions) = (json(definition), Preconditions::default());
    let replaced = world.engine().containers().replace(&name("d"), &name("c"), &body, &conditions);
    replaced.expect("a new definition");
}

#[track_caller]
fn check_sound(world: &World) {
    let faults = world.engine().insight().verify(&world.container("c")).expect("a verification");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_definition_that_is_accepted_reads_back() {
    let mut world = World::memory();
    world.database();
    let mut accepted = Vec::new();
    let policies = [
        r#""partitionKey":{"paths":["/a b"],"kind":"Hash"}"#,
        r#""partitionKey":{"paths":["/\"a/b\""],"kind":"Hash"}"#,
        r#""partitionKey":{"paths":["/'a\"b'"],"kind":"Hash"}"#,
        r#""partitionKey":{"paths":["/'a\\'b'"],"kind":"Hash"}"#,
        r#""partitionKey":{"paths":["/\"a'b\""],"kind":"Hash"}"#,
        r#""partitionKey":{"paths":["/a\\b"],"kind":"Hash"}"#,
        r#""partitionKey":{"paths":["/é"],"kind":"Hash","version":1}"#,
        r#""partitionKey":{"paths":["/a","/b/c"],"kind":"MultiHash"}"#,
        r#""partitionKey":null"#,
        r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/'x\"y'","/a/b"]}]}"#,
        r#""uniqueKeyPolicy":{"uniqueKeys":[]}"#,
        r#""defaultTtl":-1,"analyticalStorageTtl":-1"#,
        r#""indexingPolicy":{"indexingMode":"none","automatic":false}"#,
        r#""indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"a b\"/?"},{"path":"/'x\"y'/*"}]}"#,
        r#""computedProperties":[{"name":"lower","query":"SELECT VALUE LOWER(c.name) FROM c"}]"#,
        r#""geospatialConfig":{"type":"Geometry"}"#,
        r#""conflictResolutionPolicy":{"mode":"Custom","conflictResolutionProcedure":"x"}"#,
        r#""changeFeedPolicy":{"retentionDuration":10}"#,
    ];
    for (n, policy) in policies.iter().enumerate() {
        let body = json(&format!(r#"{{"id":"c{n}",{policy}}}"#));
        match world.engine().containers().create(&name("d"), &body, &manual(None)) {
            Ok(made) => accepted.push(made),
            Err(error) => assert!(matches!(error, Error::Invalid(_)), "{policy}: {error}"),
        }
    }
    assert!(accepted.len() >= 12, "most of these are valid");
    world.reopen();
    for made in accepted {
        assert_eq!(world.container(&made.id).to_resource().body, made.body);
    }
}

#[test]
fn a_changed_default_is_carried_out_after_a_restart() {
    let mut world = world(UNTIMED);
    create(&world, r#"{"id":"a"}"#);
    redefine(&world, TIMED);
    world.reopen();
    world.run_tasks();
    check_sound(&world);
    world.clock.advance_s(5);
    let removed = world.engine().background().run_tasks(&|| false).expect("a sweep");
    assert_eq!(removed, 1);
    let usage = world.engine().insight().usage(&world.container("c")).expect("a count");
    assert_eq!(usage.items, 0);
    check_sound(&world);
}

#[test]
fn expiry_entries_of_an_old_default_go_with_it() {
    for then in [TIMED.replace(":5}", ":50}"), UNTIMED.to_owned()] {
        let mut world = world(TIMED);
        create(&world, r#"{"id":"a"}"#);
        create(&world, r#"{"id":"b"}"#);
        redefine(&world, &then);
        let container = world.container("c");
        let key = orrery_types::PartitionKey::parse_header("[{}]").expect("a key");
        let delete = |id| {
            let conditions = Preconditions::default();
            world.engine().items().delete(&container, Some(&key), &name(id), &conditions)
        };
        delete("a").expect("it was there");
        world.run_tasks();
        check_sound(&world);
        let container = world.container("c");
        let conditions = Preconditions::default();
        let deleted =
            world.engine().items().delete(&container, Some(&key), &name("b"), &conditions);
        deleted.expect("it was there");
        check_sound(&world);
    }
}

#[test]
fn what_an_item_says_of_its_life_counts_from_when_the_container_has_a_policy() {
    let mut world = world(UNTIMED);
    create(&world, r#"{"id":"for ever","ttl":-1}"#);
    create(&world, r#"{"id":"long","ttl":7}"#);
    create(&world, r#"{"id":"default"}"#);
    let nonsense = br#"{"id":"nonsense","ttl":"soon"}"#;
    let refused = world.engine().items().create(&world.container("c"), None, nonsense);
    assert!(matches!(refused, Err(orrery_types::Error::Invalid(_))), "{refused:?}");
    redefine(&world, TIMED);
    world.run_tasks();
    let seen = |world: &World| {
        let container = world.container("c");
        let scope = container.scope(&orrery_engine::partition::scope::ScopeRequest::default());
        let size = orrery_engine::query::read_feed::PageSize { items: 10 };
        let page =
            world.engine().queries().read_items(&container, &scope.expect("all"), size, None);
        let mut ids: Vec<String> = page
            .expect("a page")
            .items
            .iter()
            .map(|body| Value::parse(body).expect("JSON").get("id").as_str().unwrap_or("").into())
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(seen(&world).len(), 3);
    world.clock.advance_s(5);
    assert_eq!(seen(&world), ["for ever", "long"]);
    world.clock.advance_s(2);
    world.run_tasks();
    assert_eq!(seen(&world), ["for ever"]);
    check_sound(&world);
}

#[test]
fn nothing_that_is_accepted_is_too_deep_to_be_read_again() {
    let mut world = world(UNTIMED);
    for depth in 118..126 {
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let body = format!(
            r#"{{"id":"c{depth}","changeFeedPolicy":{{"retentionDuration":5,"x":{deep}}}}}"#
        );
        let made = world.engine().containers().create(&name("d"), &json(&body), &manual(None));
        assert!(made.is_ok() || matches!(made, Err(Error::Invalid(_))));
        let body = format!(
            r#"{{"id":"k{depth}","encryptionAlgorithm":"a","wrappedDataEncryptionKey":"b",
            "keyWrapMetadata":{{"x":{deep}}}}}"#
        );
        let kept = world.engine().encryption_keys().create(&name("d"), &json(&body));
        assert!(kept.is_ok() || matches!(kept, Err(Error::Invalid(_))));
    }
    world.reopen();
    world.engine().encryption_keys().list(&name("d")).expect("every key reads back");
    world
        .engine()
        .databases()
        .delete(&name("d"), &Preconditions::default())
        .expect("all of it goes");
}

#[test]
fn a_stale_expiry_entry_does_not_stand_for_the_item_that_came_after() {
    let world = world(TIMED);
    create(&world, r#"{"id":"a"}"#);
    redefine(&world, &TIMED.replace(":5}", ":9}"));
    world.clock.advance_s(9);
    create(&world, r#"{"id":"a"}"#);
    world.clock.advance_s(9);
    // The sweeper comes before the entries of the old default are gone.
    let removed = world.engine().background().run_tasks(&|| false).expect("a sweep");
    assert_eq!(removed, 1);
    check_sound(&world);
}
