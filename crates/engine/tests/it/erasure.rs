//! Deleting everything that has a partition key: gone at once, removed later, and across restarts.

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::change_feed::{ChangesRequest, Mode, Shape};
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Value};

use crate::world::{World, json};

const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},
    "changeFeedPolicy":{"retentionDuration":60}}"#;

fn world(disk: fn() -> World) -> World {
    let mut world = disk();
    world.database();
    world.create_container(DEFINITION, Some(12_000));
    world
}

fn key(text: &str) -> PartitionKey {
    PartitionKey::parse_header(text).expect("a key")
}

fn create(world: &World, p: &str, id: usize) -> Result<(), Error> {
    let text = format!(r#"{{"id":"{id}","p":"{p}","u":{id}}}"#);
    world.engine().items().create(&world.container("c"), None, text.as_bytes()).map(drop)
}

fn erase(world: &World, p: &str) {
    let key = key(&format!(r#"["{p}"]"#));
    world
        .engine()
        .erasure()
        .erase_partition_key(&world.container("c"), &key)
        .expect("it is accepted");
}

/// How many items of a key there are, by every way to see them.
fn count(world: &World, p: &str) -> usize {
    let (container, engine) = (world.container("c"), world.engine());
    let request = ScopeRequest {
        partition_key: Some(key(&format!(r#"["{p}"]"#))),
        ..ScopeRequest::default()
    };
    let scope = container.scope(&request).expect("a scope");
    let size = PageSize { items: 1000 };
    let listed =
        engine.queries().read_items(&container, &scope, size, None).expect("a page").items.len();
    let query = format!(r#"{{"query":"SELECT VALUE c.id FROM c WHERE c.p = '{p}'"}}"#);
    let query = QueryRequest::parse(&json(&query)).expect("a query");
    let whole = container.scope(&ScopeRequest::default()).expect("a scope");
    let paging = Paging { crosses: true, ..Paging::default() };
    let found =
        engine.queries().query_items(&container, &whole, &query, size, &paging).expect("a page");
    let changes = engine.change_feed().read_changes(
        &container,
        &ChangesRequest {
            scope: request.clone(),
            mode: Mode::Latest(Shape::Bare),
            after: None,
            since_s: None,
            size,
        },
    );
    let changed = changes.expect("a page").changes.len();
    let readable = (0..600)
        .filter(|id| {
            let id = Address::Name(id.to_string());
            engine.items().read(&container, request.partition_key.as_ref(), &id).is_ok()
        })
        .count();
    assert_eq!([listed, changed, readable], [found.rows.len(); 3], "all ways agree");
    listed
}

fn check(disk: fn() -> World) {
    let mut world = world(disk);
    for id in 0..600 {
        create(&world, "a", id).expect("a create");
        if id < 10 {
            create(&world, "b", id).expect("a create");
        }
    }
    erase(&world, "a");
    assert_eq!((count(&world, "a"), count(&world, "b")), (0, 10), "gone at once");
    world.reopen();
    assert_eq!((count(&world, "a"), count(&world, "b")), (0, 10), "and after a restart");
    create(&world, "a", 7).expect("its id and its unique key are free");
    let none = Preconditions::default();
    let container = world.container("c");
    let eight = Address::Name("8".into());
    let gone = world.engine().items().delete(&container, Some(&key(r#"["a"]"#)), &eight, &none);
    assert_eq!(gone.map(drop), Err(Error::NotFound));
    assert_eq!(count(&world, "a"), 1);
    world.run_tasks();
    assert_eq!((count(&world, "a"), count(&world, "b")), (1, 10), "what came after stays");
    assert_eq!(world.engine().insight().verify(&world.container("c")), Ok(vec![]));
    let stored = world.engine().insight().usage(&world.container("c")).expect("a count").items;
    assert_eq!(stored, 11, "the rest takes no space");
    world.reopen();
    create(&world, "a", 8).expect("nothing hides it");
    assert_eq!(count(&world, "a"), 2);
}

#[test]
fn a_key_is_gone_at_once_and_its_items_are_removed_on_memory() {
    check(World::memory);
}

#[test]
fn a_key_is_gone_at_once_and_its_items_are_removed_on_disk() {
    check(World::rocks);
}

#[test]
fn a_later_erasure_of_the_same_key_counts_too() {
    let mut world = world(World::memory);
    create(&world, "a", 1).expect("a create");
    erase(&world, "a");
    create(&world, "a", 2).expect("a create");
    erase(&world, "a");
    create(&world, "a", 3).expect("a create");
    assert_eq!(count(&world, "a"), 1);
    world.run_tasks();
    assert_eq!(count(&world, "a"), 1);
    assert_eq!(world.engine().insight().verify(&world.container("c")), Ok(vec![]));
}

#[test]
fn an_erasure_shows_as_deletes_in_the_feed_of_all_versions() {
    let mut world = world(World::memory);
    let read = |world: &World, after: &str| {
        let request = ChangesRequest {
            scope: ScopeRequest::default(),
            mode: Mode::AllVersions,
            after: Some(after),
            since_s: None,
            size: PageSize { items: 1000 },
        };
        world.engine().change_feed().read_changes(&world.container("c"), &request).expect("a page")
    };
    for id in 0..5 {
        create(&world, "a", id).expect("a create");
    }
    let start = read(&world, "*").etag;
    erase(&world, "a");
    world.run_tasks();
    let page = read(&world, &start);
    assert_eq!(page.changes.len(), 5);
    for change in &page.changes {
        let change = Value::parse(change).expect("JSON");
        let metadata = change.get("metadata");
        assert_eq!(metadata.get("operationType").as_str(), Some("delete"));
        assert!(!metadata.get("timeToLiveExpired").is_true());
        assert_eq!(*metadata.get("partitionKey"), json(r#"{"p":"a"}"#));
    }
}

#[test]
fn a_key_with_other_levels_than_the_container_has_is_refused() {
    let mut world = World::memory();
    world.database();
    let body = r#"{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}"#;
    world.create_container(body, None);
    for given in ["[]", r#"["x","y","z"]"#] {
        let refused =
            world.engine().erasure().erase_partition_key(&world.container("c"), &key(given));
        assert!(matches!(refused, Err(Error::PartitionKeyMismatch(_))), "{given}: {refused:?}");
    }
}
