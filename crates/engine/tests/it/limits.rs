//! Each limit that the engine enforces: at it, and one past it. Those of the HTTP front stand in the
//! server's tests; those on time and tokens in `golden/http`.

use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::throughput::ThroughputRequest;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use crate::world::{World, json, manual, name};

fn world() -> World {
    let mut world = World::memory();
    world.database();
    world.create_container(&definition("c", r#""defaultTtl":-1"#), None);
    world
}

fn definition(id: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!(
        r#"{{"id":"{id}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}{comma}{more}}}"#
    )
}

/// Asserts that the first is done and the second refused as wrong in itself.
#[track_caller]
fn check<T>(limit: &str, at: Result<T>, past: Result<T>) {
    assert!(at.is_ok(), "{limit}: at the limit: {}", at.err().expect("an error"));
    let error = past.err().unwrap_or_else(|| panic!("{limit}: nothing past the limit is refused"));
    assert!(matches!(error, Error::Invalid(_) | Error::Query(_)), "{limit}: {error:?}");
}

fn create(world: &World, text: &str) -> Result<()> {
    world.engine().items().create(&world.container("c"), None, text.as_bytes()).map(drop)
}

/// Tries a definition under an id of its own.
fn define(world: &World, policy: &str) -> Result<()> {
    let count = world.engine().containers().list(&name("d")).expect("a list").1.len();
    let body = json(&definition(&format!("c{count}"), policy));
    world.engine().containers().create(&name("d"), &body, &manual(None)).map(drop)
}

fn list(count: usize, entry: impl Fn(usize) -> String) -> String {
    let entries: Vec<String> = (0..count).map(entry).collect();
    format!("[{}]", entries.join(","))
}

fn nested(depth: usize) -> String {
    format!("{}1{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn items_nest_so_deep() {
    let world = world();
    let item = |id: &str, depth: usize| format!(r#"{{"id":"{id}","a":{}}}"#, nested(depth));
    let most = limits::NESTING_DEPTH_MAX - 1;
    check("nesting", create(&world, &item("a", most)), create(&world, &item("b", most + 1)));
    // A patch brings a value that nests almost to the limit to a place that is deep itself.
    let patch = |path: &str| {
        patch_item(&world, "a", r#"[{"op":"set","path":"/a","value":{"b":{}}}]"#)?;
        let value = nested(most - 1);
        patch_item(&world, "a", &format!(r#"[{{"op":"set","path":"{path}","value":{value}}}]"#))
    };
    check("nesting by a patch", patch("/a/b"), patch("/a/b/c"));
    let container = world.container("c");
    let key = PartitionKey::parse_header("[{}]").expect("a key");
    let read = world.engine().items().read(&container, Some(&key), &name("a")).expect("an item");
    assert!(Value::parse(&read.body).is_ok(), "what is stored can be read");
}

fn patch_item(world: &World, id: &str, patch: &str) -> Result<()> {
    let key = PartitionKey::parse_header("[{}]").expect("a key");
    let (container, patch) = (world.container("c"), Patch::parse(&json(patch))?);
    let conditions = Preconditions::default();
    world.engine().items().patch(&container, Some(&key), &name(id), &patch, &conditions).map(drop)
}

#[test]
fn items_are_so_large() {
    let world = world();
    let of_size = |id: &str, size: usize| {
        let head = format!(r#"{{"id":"{id}","a":""#);
        format!(r#"{head}{}"}}"#, "x".repeat(size - head.len() - 2))
    };
    create(&world, &of_size("a", limits::ITEM_SIZE_BYTES_MAX)).expect("an item of the limit");
    let past = create(&world, &of_size("b", limits::ITEM_SIZE_BYTES_MAX + 1));
    assert!(matches!(past, Err(Error::TooLarge { .. })), "{past:?}");
    let grown = patch_item(&world, "a", r#"[{"op":"set","path":"/more","value":1}]"#);
    assert!(matches!(grown, Err(Error::TooLarge { .. })), "{grown:?}");
}

#[test]
fn pages_are_so_large() {
    let world = world();
    let container = world.container("c");
    for id in 0..5 {
        let text = format!(r#"{{"id":"{id}","a":"{}"}}"#, "x".repeat(1_500_000));
        create(&world, &text).expect("an item");
    }
    let pages = pages(&world, &container, Some(1000));
    assert_eq!(pages.iter().map(|(count, _)| count).sum::<usize>(), 5);
    assert!(pages.iter().all(|(_, bytes)| *bytes <= limits::PAGE_SIZE_BYTES_MAX));
    assert_eq!(pages[0].0, 2, "a page takes what fits");
}

#[test]
fn pages_have_so_many_items() {
    let world = world();
    let container = world.container("c");
    for id in 0..=limits::PAGE_ITEMS_MAX {
        create(&world, &format!(r#"{{"id":"{id}"}}"#)).expect("an item");
    }
    let first = |size| pages(&world, &container, size)[0].0;
    assert_eq!(first(None), limits::PAGE_ITEMS_DEFAULT);
    assert_eq!(first(Some(-1)), limits::PAGE_ITEMS_MAX);
    assert_eq!(first(Some(1001)), limits::PAGE_ITEMS_MAX + 1);
    assert_eq!(first(Some(0)), limits::PAGE_ITEMS_DEFAULT);
    check("page size", PageSize::from_header(Some(i64::MAX)), PageSize::from_header(Some(-2)));
}

/// Count and bytes of every page.
fn pages(world: &World, container: &Container, size: Option<i64>) -> Vec<(usize, usize)> {
    let scope = container.scope(&ScopeRequest::default()).expect("all");
    let size = PageSize::from_header(size).expect("a size");
    let (mut found, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let token = continuation.as_deref();
        let page =
            world.engine().queries().read_items(container, &scope, size, token).expect("a page");
        found.push((page.items.len(), page.items.iter().map(bytes::Bytes::len).sum()));
        continuation = page.continuation;
        if continuation.is_none() {
            return found;
        }
    }
}

#[test]
fn ids_are_so_long() {
    let world = world();
    let engine = world.engine();
    let (most, past) = (limits::RESOURCE_ID_CHARS_MAX, limits::RESOURCE_ID_CHARS_MAX + 1);
    // Characters, not bytes.
    let body = |chars: usize| json(&format!(r#"{{"id":"{}"}}"#, "é".repeat(chars)));
    let database = |chars| engine.databases().create(&body(chars), &manual(None));
    check("database id", database(most), database(past));
    let container = |chars| engine.containers().create(&name("d"), &body(chars), &manual(None));
    check("container id", container(most), container(past));
    let user = |chars| engine.users().create(&name("d"), &body(chars), false);
    check("user id", user(most), user(past));
    let item = |bytes: usize| create(&world, &format!(r#"{{"id":"{}"}}"#, "x".repeat(bytes)));
    check("item id", item(limits::ITEM_ID_BYTES_MAX), item(limits::ITEM_ID_BYTES_MAX + 1));
    let wide = |bytes: usize| create(&world, &format!(r#"{{"id":"{}x"}}"#, "é".repeat(bytes / 2)));
    check("item id in bytes", wide(limits::ITEM_ID_BYTES_MAX), wide(limits::ITEM_ID_BYTES_MAX + 1));
}

#[test]
fn partition_keys_are_so_long_and_deep() {
    let mut world = world();
    world.create_container(r#"{"id":"v1","partitionKey":{"paths":["/p"]}}"#, None);
    for (id, most) in
        [("v1", limits::PARTITION_KEY_BYTES_MAX), ("c", limits::PARTITION_KEY_BYTES_MAX)]
    {
        let container = world.container(id);
        let item = |bytes: usize| {
            let text = format!(r#"{{"id":"a","p":"{}"}}"#, "x".repeat(bytes));
            world.engine().items().create(&container, None, text.as_bytes())
        };
        check(id, item(most), item(most + 1));
    }
    let levels = |count: usize| {
        let paths = list(count, |n| format!(r#""/p{n}""#));
        let id = format!("levels{count}");
        let body =
            format!(r#"{{"id":"{id}","partitionKey":{{"paths":{paths},"kind":"MultiHash"}}}}"#);
        world.engine().containers().create(&name("d"), &json(&body), &manual(None))
    };
    let most = limits::PARTITION_KEY_LEVELS_MAX;
    check("levels", levels(most), levels(most + 1));
}

#[test]
fn patches_have_so_many_operations() {
    let operations = |count: usize| {
        let operations = list(count, |n| format!(r#"{{"op":"set","path":"/a{n}","value":1}}"#));
        Patch::parse(&json(&operations))
    };
    let most = limits::PATCH_OPERATIONS_MAX;
    check("patch operations", operations(most), operations(most + 1));
    check("patch operations", operations(1), operations(0));
}

#[test]
fn policies_are_so_long() {
    let world = world();
    let unique = |keys: usize, paths: usize| {
        let key = |k: usize| {
            let paths = list(paths, |p| format!(r#""/u{k}x{p}""#));
            format!(r#"{{"paths":{paths}}}"#)
        };
        let keys = list(keys, key);
        define(&world, &format!(r#""uniqueKeyPolicy":{{"uniqueKeys":{keys}}}"#))
    };
    let (keys, paths) = (limits::UNIQUE_KEYS_MAX, limits::UNIQUE_KEY_PATHS_MAX);
    check("unique keys", unique(keys, 1), unique(keys + 1, 1));
    check("paths of a unique key", unique(1, paths), unique(1, paths + 1));

    let composite = |indexes: usize, paths: usize| {
        let index = |i: usize| list(paths, |p| format!(r#"{{"path":"/c{i}x{p}"}}"#));
        let indexes = list(indexes, index);
        define(&world, &format!(r#""indexingPolicy":{{"compositeIndexes":{indexes}}}"#))
    };
    let (indexes, paths) = (limits::COMPOSITE_INDEXES_MAX, limits::COMPOSITE_PATHS_MAX);
    check("composite indexes", composite(indexes, 2), composite(indexes + 1, 2));
    check("paths of a composite index", composite(1, paths), composite(1, paths + 1));

    let excluded = |count: usize| {
        let paths = list(count, |n| format!(r#"{{"path":"/e{n}/?"}}"#));
        let included = r#""includedPaths":[{"path":"/*"}]"#;
        define(&world, &format!(r#""indexingPolicy":{{{included},"excludedPaths":{paths}}}"#))
    };
    // The etag's own path is added where it is not named.
    let most = limits::INDEX_PATHS_MAX;
    check("excluded paths", excluded(most), excluded(most + 1));

    let computed = |count: usize| {
        let property = |n| format!(r#"{{"name":"n{n}","query":"SELECT VALUE c.a FROM c"}}"#);
        define(&world, &format!(r#""computedProperties":{}"#, list(count, property)))
    };
    let most = limits::COMPUTED_PROPERTIES_MAX;
    check("computed properties", computed(most), computed(most + 1));
}

#[test]
fn vectors_have_so_many_dimensions() {
    let world = world();
    let vector = |kind: &str, dimensions: i64| {
        let embedding = format!(
            r#"{{"path":"/v","dataType":"float32","distanceFunction":"cosine","dimensions":{dimensions}}}"#
        );
        let index = format!(r#"{{"path":"/v","type":"{kind}"}}"#);
        define(
            &world,
            &format!(
                r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{embedding}]}},
                "indexingPolicy":{{"vectorIndexes":[{index}]}}"#
            ),
        )
    };
    let most = limits::VECTOR_DIMENSIONS_MAX;
    check("dimensions", vector("diskANN", most), vector("diskANN", most + 1));
    let most = limits::VECTOR_DIMENSIONS_FLAT_MAX;
    check("dimensions of a flat index", vector("flat", most), vector("flat", most + 1));
}

#[test]
fn lives_are_so_long() {
    let world = world();
    let most = limits::TTL_SECONDS_MAX;
    let item = |id: &str, ttl: i64| create(&world, &format!(r#"{{"id":"{id}","ttl":{ttl}}}"#));
    check("ttl", item("a", most), item("b", most + 1));
    check("ttl", item("c", 1), item("d", 0));
    check("ttl", item("e", -1), item("f", -2));
    let default = |ttl: i64| define(&world, &format!(r#""defaultTtl":{ttl}"#));
    check("defaultTtl", default(most), default(most + 1));
    check("defaultTtl", default(1), default(0));
    check("defaultTtl", default(-1), default(-2));
}

#[test]
fn throughput_is_so_small_and_large() {
    let world = world();
    let ask = |throughput: ThroughputRequest| {
        let count = world.engine().databases().list().len();
        world.engine().databases().create(&json(&format!(r#"{{"id":"t{count}"}}"#)), &throughput)
    };
    let fixed = |n: i64| ask(manual(Some(n)));
    let scaled = |n: i64| {
        let autoscale = Some(format!(r#"{{"maxThroughput":{n}}}"#).into());
        ask(ThroughputRequest { manual: None, autoscale })
    };
    check("least", fixed(limits::THROUGHPUT_MIN), fixed(limits::THROUGHPUT_MIN - 100));
    check("most", fixed(limits::THROUGHPUT_MAX), fixed(limits::THROUGHPUT_MAX + 100));
    check("least autoscale", scaled(limits::AUTOSCALE_MIN), scaled(limits::AUTOSCALE_MIN - 1000));
    check("most autoscale", scaled(limits::THROUGHPUT_MAX), scaled(limits::THROUGHPUT_MAX + 1000));
    for (throughput, partitions) in
        [(limits::PARTITION_THROUGHPUT - 100, 1), (limits::PARTITION_THROUGHPUT, 2)]
    {
        let id = format!("p{partitions}");
        let body = json(&definition(&id, ""));
        let made = world.engine().containers().create(&name("d"), &body, &manual(Some(throughput)));
        made.expect("a container");
        assert_eq!(world.container(&id).partitions.len(), partitions);
    }
}

#[test]
fn queries_are_so_long_and_deep() {
    let world = world();
    create(&world, r#"{"id":"a","l":[1]}"#).expect("an item");
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("all");
    let query = |text: &str| {
        let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
        let request = QueryRequest::parse(&json(&body))?;
        let size = PageSize { items: 10 };
        let paging = Paging { crosses: true, ..Paging::default() };
        world.engine().queries().query_items(&container, &scope, &request, size, &paging)
    };
    let of_size = |size: usize| {
        let text = "SELECT * FROM c";
        query(&format!("{text}{}", " ".repeat(size - text.len())))
    };
    let most = limits::QUERY_TEXT_BYTES_MAX;
    check("query text", of_size(most), of_size(most + 1));
    let joins = |count: usize| {
        let joins: Vec<String> = (0..count).map(|n| format!("JOIN j{n} IN c.l")).collect();
        query(&format!("SELECT VALUE c.id FROM c {}", joins.join(" ")))
    };
    let most = limits::QUERY_JOINS_MAX;
    check("joins", joins(most), joins(most + 1));
    let parentheses = |depth: usize| {
        query(&format!("SELECT VALUE {}1{} FROM c", "(".repeat(depth), ")".repeat(depth)))
    };
    // A statement is a level itself; what matters is that the stack is never the limit.
    let most = limits::QUERY_NESTING_MAX;
    check("nesting of a query", parentheses(most / 4), parentheses(most + 1));
    check("nesting of a query", parentheses(1), parentheses(100_000));
    let replicate = |count: usize| {
        let page = query(&format!("SELECT VALUE LENGTH(REPLICATE('x', {count})) FROM c"));
        page.expect("a page").rows
    };
    let most = limits::REPLICATE_CHARS_MAX;
    assert_eq!(replicate(most), [most.to_string()]);
    assert!(replicate(most + 1).is_empty());
}

#[test]
fn a_sweep_goes_on_past_what_one_round_removes() {
    let world = world();
    for id in 0..=limits::SWEEP_ITEMS_MAX {
        create(&world, &format!(r#"{{"id":"{id}","ttl":1}}"#)).expect("an item");
    }
    world.clock.advance_s(1);
    let removed = world.engine().background().run_tasks(&|| false).expect("a sweep");
    assert_eq!(removed, limits::SWEEP_ITEMS_MAX + 1);
    assert_eq!(world.engine().insight().usage(&world.container("c")).expect("a count").items, 0);
}
