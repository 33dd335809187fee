//! Without ORDER BY the items of a range come in the order in which they were inserted, which is that
//! of `_rid`, over all its logical partitions: in queries and read feeds, from any page on, in one
//! range and in several, before and after splits and merges.

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::continuation;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_storage::key;
use orrery_types::ids::Rid;
use orrery_types::{PartitionKey, Value};

use crate::split_merge::{merge, split, upsert};
use crate::world::{World, json};

const ITEMS: usize = 90;
const ONE_PATH: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
pub(crate) const THREE_RANGES: Option<i64> = Some(18_000);

/// Items whose ids and partition keys say nothing about when they were inserted.
fn filled(mut world: World, definition: &str, throughput: Option<i64>, keys: usize) -> World {
    world.database();
    world.create_container(definition, throughput);
    for n in 0..ITEMS {
        let (id, p) = (n * 37 % ITEMS, n * 7 % keys);
        let (q, m) = (p % 3, ITEMS - n);
        let text =
            format!(r#"{{"id":"i{id:03}","p":"k{p}","q":{q},"n":{n},"m":{m},"tags":[1,2,3]}}"#);
        upsert(&world, &text).expect("an upsert");
    }
    // What is replaced stays where it is.
    for n in (0..ITEMS).step_by(9) {
        let (id, p) = (n * 37 % ITEMS, n * 7 % keys);
        let (q, m) = (p % 3, ITEMS - n);
        let text = format!(r#"{{"id":"i{id:03}","p":"k{p}","q":{q},"n":{n},"m":{m},"tags":[1]}}"#);
        upsert(&world, &text).expect("an upsert");
    }
    world
}

fn worlds() -> impl Iterator<Item = (World, bool)> {
    [None, THREE_RANGES].into_iter().flat_map(|throughput| {
        let world = move |world| (filled(world, ONE_PATH, throughput, 11), throughput.is_none());
        [World::memory(), World::rocks()].map(world)
    })
}

/// Every range of the container, as a request names it.
pub(crate) fn ranges(world: &World) -> Vec<ScopeRequest> {
    let ranges = world.engine().layouts().list_ranges(&world.container("c")).expect("ranges");
    let scope = |range: &orrery_engine::Resource| ScopeRequest {
        range_id: Some((&*range.id).into()),
        ..ScopeRequest::default()
    };
    ranges.iter().map(scope).collect()
}

/// The rows of a query, in pages of so many; `between` comes after the first page.
pub(crate) fn rows(
    world: &World,
    scope: &ScopeRequest,
    text: &str,
    items: usize,
    between: impl Fn(),
) -> Vec<Value> {
    let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#))).expect(text);
    let (mut found, mut token): (Vec<Value>, Option<String>) = (vec![], None);
    loop {
        let container = world.container("c");
        let resolved = container.scope(scope).expect("a scope");
        let paging = Paging { continuation: token.as_deref(), crosses: true, ..Paging::default() };
        let size = PageSize { items };
        let page =
            world.engine().queries().query_items(&container, &resolved, &request, size, &paging);
        let page = page.expect(text);
        assert!(page.rows.len() <= items);
        found.extend(page.rows.iter().map(|row| json(row)));
        if token.is_none() {
            between();
        }
        token = page.continuation;
        if token.is_none() {
            return found;
        }
    }
}

/// The items of a read feed, likewise.
pub(crate) fn feed(
    world: &World,
    scope: &ScopeRequest,
    items: usize,
    mut token: Option<String>,
    between: impl Fn(),
) -> Vec<Value> {
    let mut found = vec![];
    let mut is_first = true;
    loop {
        let container = world.container("c");
        let resolved = container.scope(scope).expect("a scope");
        let size = PageSize { items };
        let page =
            world.engine().queries().read_items(&container, &resolved, size, token.as_deref());
        let page = page.expect("a page");
        assert!(page.items.len() <= items);
        found.extend(page.items.iter().map(|item| Value::parse(item).expect("JSON")));
        if is_first {
            between();
            is_first = false;
        }
        token = page.continuation;
        if token.is_none() {
            return found;
        }
    }
}

pub(crate) fn row_of(rid: &Value) -> u64 {
    match rid.as_str().expect("a rid").parse() {
        Ok(Rid::Child { number, .. }) => number,
        other => panic!("{other:?} is no rid of an item"),
    }
}

fn numbers(values: &[Value]) -> Vec<i64> {
    values.iter().map(|value| value.as_i64().expect("a number")).collect()
}

/// The numbers in the order of insertion, as a read feed over a scope has to give them.
fn expected(world: &World, scope: &ScopeRequest) -> Vec<i64> {
    let sorted = "SELECT VALUE c.n FROM c ORDER BY c.n";
    numbers(&rows(world, scope, sorted, 1000, || {}))
}

#[test]
fn items_of_a_range_come_as_they_were_inserted() {
    for (world, _) in worlds() {
        for scope in ranges(&world) {
            let all = expected(&world, &scope);
            for size in [1, 7, 1000] {
                let check = |text: &str, wanted: &[i64]| {
                    let found = numbers(&rows(&world, &scope, text, size, || {}));
                    assert_eq!(found, wanted, "{text} in pages of {size}");
                };
                check("SELECT VALUE c.n FROM c", &all);
                check("SELECT TOP 5 VALUE c.n FROM c", &all[..5]);
                check("SELECT VALUE c.n FROM c OFFSET 3 LIMIT 6", &all[3..9]);
                check("SELECT VALUE c.n FROM c WHERE c.n * 2 >= 0", &all);
                check("SELECT VALUE c.n FROM c WHERE c.m >= 0", &all);
                check("SELECT VALUE c.n FROM c WHERE c.m IN (3, 2, 1) OR c.m > 3", &all);
                check("SELECT VALUE c.n FROM c WHERE IS_DEFINED(c.id)", &all);
                check("SELECT DISTINCT VALUE c.n + 0 FROM c", &all);
                let joined: Vec<i64> = all
                    .iter()
                    .flat_map(|n| {
                        let tags = if n % 9 == 0 { 1 } else { 3 };
                        (1..=tags).map(move |tag| n * 10 + tag)
                    })
                    .collect();
                check("SELECT VALUE c.n * 10 + t FROM c JOIN t IN c.tags", &joined);
                let fed: Vec<Value> = feed(&world, &scope, size, None, || {});
                let fed: Vec<Value> = fed.iter().map(|item| item.get("n").clone()).collect();
                assert_eq!(numbers(&fed), all, "a feed in pages of {size}");
            }
        }
    }
}

#[test]
fn a_container_comes_range_by_range() {
    for (world, is_one) in worlds() {
        let scopes = ranges(&world);
        assert_eq!(scopes.len() == 1, is_one);
        let wanted: Vec<i64> = scopes.iter().flat_map(|scope| expected(&world, scope)).collect();
        let all = ScopeRequest::default();
        for size in [1, 7, 1000] {
            let found = rows(&world, &all, "SELECT VALUE c.n FROM c", size, || {});
            assert_eq!(numbers(&found), wanted);
            let fed = feed(&world, &all, size, None, || {});
            let fed: Vec<Value> = fed.iter().map(|item| item.get("n").clone()).collect();
            assert_eq!(numbers(&fed), wanted);
        }
    }
}

/// Partitions of a few items and of many, whose keys the index knows and does not know.
#[test]
fn items_of_a_logical_partition_come_as_they_were_inserted() {
    let levels =
        r#"{"id":"c","partitionKey":{"paths":["/p","/q"],"kind":"MultiHash","version":2}}"#;
    let unindexed = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "indexingPolicy":{"automatic":false,"indexingMode":"none"}}"#;
    for (definition, keys, header) in [
        (ONE_PATH, 11, r#"["k4"]"#),
        (ONE_PATH, 1, r#"["k0"]"#),
        (levels, 5, r#"["k4",1]"#),
        (unindexed, 2, r#"["k1"]"#),
    ] {
        for world in [World::memory(), World::rocks()] {
            let world = filled(world, definition, None, keys);
            for n in 0..ITEMS * 2 {
                // More than are read at once, unless only those can be put into order.
                if keys == 1 {
                    let text = format!(r#"{{"id":"j{}","p":"k0","n":{}}}"#, n * 7 % 200, ITEMS + n);
                    upsert(&world, &text).expect("an upsert");
                }
            }
            let partition_key = PartitionKey::parse_header(header).expect("a key");
            let scope = ScopeRequest { partition_key: Some(partition_key), ..Default::default() };
            let mut wanted = numbers(&rows(&world, &scope, "SELECT VALUE c.n FROM c", 1000, || {}));
            wanted.sort_unstable();
            assert!(wanted.len() >= 8, "{header}");
            for size in [1, 7, 1000] {
                let found = rows(&world, &scope, "SELECT VALUE c.n FROM c", size, || {});
                assert_eq!(numbers(&found), wanted, "{header} in pages of {size}");
                let fed = feed(&world, &scope, size, None, || {});
                let fed: Vec<Value> = fed.iter().map(|item| item.get("n").clone()).collect();
                assert_eq!(numbers(&fed), wanted, "{header} in pages of {size}");
            }
            let named = "SELECT VALUE c.n FROM c WHERE c.id IN ('i000', 'i001', 'i002', 'i003', \
                         'i004', 'i005', 'i006', 'i007', 'i008', 'i009', 'i010', 'i011')";
            let found = numbers(&rows(&world, &scope, named, 2, || {}));
            assert!(found.is_sorted(), "{found:?}");
        }
    }
}

/// Nothing is lost or repeated, and each range stays in order, when it changes between two pages.
#[test]
fn the_order_holds_across_splits_and_merges() {
    type Change = fn(&World);
    let changes: [(&str, Option<i64>, Change); 3] = [
        ("split", None, |world| drop(split(world, None))),
        ("split and merge", None, |world| {
            split(world, None);
            merge(world);
        }),
        ("merge", THREE_RANGES, |world| drop(merge(world))),
    ];
    for (name, throughput, change) in changes {
        for size in [1, 7, 40] {
            let fresh = || filled(World::memory(), ONE_PATH, throughput, 11);
            for by_feed in [false, true] {
                let world = fresh();
                let before: Vec<Vec<i64>> =
                    ranges(&world).iter().map(|scope| expected(&world, scope)).collect();
                let all = ScopeRequest::default();
                let found = if by_feed {
                    let fed = feed(&world, &all, size, None, || change(&world));
                    fed.iter().map(|item| item.get("n").clone()).collect()
                } else {
                    rows(&world, &all, "SELECT VALUE c.n FROM c", size, || change(&world))
                };
                let found = numbers(&found);
                let mut sorted = found.clone();
                sorted.sort_unstable();
                let everything: Vec<i64> = (0..).take(ITEMS).collect();
                assert_eq!(sorted, everything, "{name} in pages of {size}");
                // The range that was being read when it changed is read to its end in order.
                assert_eq!(&found[..before[0].len()], &before[0][..], "{name} in pages of {size}");
            }
            // Afterwards the order is that of the rids in each new range.
            let world = fresh();
            change(&world);
            for scope in ranges(&world) {
                let rids = rows(&world, &scope, "SELECT VALUE c._rid FROM c", size, || {});
                let rids: Vec<u64> = rids.iter().map(row_of).collect();
                assert!(rids.is_sorted() && rids.len() > 3, "{name}: {rids:?}");
                let fed = feed(&world, &scope, size, None, || {});
                let fed: Vec<u64> = fed.iter().map(|item| row_of(item.get("_rid"))).collect();
                assert_eq!(fed, rids, "{name} in pages of {size}");
            }
        }
    }
}

/// A feed that an earlier version began goes on in the order of keys, to the end.
#[test]
fn feeds_in_the_order_of_keys_go_on_in_it() {
    for (world, _) in worlds() {
        let container = world.container("c");
        let all = ScopeRequest::default();
        let definition = &container.definition.partition_key;
        let item_key = |item: &Value| {
            let partition = PartitionKey::parse_header(&format!("[{}]", item.get("p").to_json()));
            let partition = partition.expect("a key");
            let id = item.get("id").as_str().expect("an id");
            key::item(&definition.effective(&partition), &partition, id)
        };
        let mut keys: Vec<Vec<u8>> =
            feed(&world, &all, 1000, None, || {}).iter().map(item_key).collect();
        keys.sort_unstable();
        let owner = format!("items {} ", container.rid());
        for at in [0, 17, ITEMS - 2] {
            let token = continuation::encode(&owner, &keys[at]);
            let rest = feed(&world, &all, 5, Some(token), || {});
            let rest: Vec<Vec<u8>> = rest.iter().map(item_key).collect();
            assert_eq!(rest, keys[at + 1..], "behind {at}");
        }
    }
}
