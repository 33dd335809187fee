//! The order of insertion in ranges of more than 10,000 items: of everything, of the few that a filter
//! leaves, which are looked for along the keys, and of small parts.

use orrery_engine::item::operation::ItemBody;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::transaction::bulk_load::Existing;
use orrery_types::{PartitionKey, Value};

use crate::insertion_order::{THREE_RANGES, feed, ranges, row_of, rows};
use crate::split_merge::{merge, split};
use crate::world::{World, json};

const ITEMS: usize = 12_000;
const KEYS: usize = 300;

/// Items whose ids and partition keys say nothing about when they were inserted; half of them in one
/// logical partition.
fn filled(mut world: World, more: &str, throughput: Option<i64>) -> World {
    world.database();
    let key = r#""partitionKey":{"paths":["/p"],"kind":"Hash","version":2}"#;
    world.create_container(&format!(r#"{{"id":"c",{key}{more}}}"#), throughput);
    let container = world.container("c");
    let body = |n: usize| {
        let (id, p) = (n * 7919 % ITEMS, if n.is_multiple_of(2) { 0 } else { n * 31 % KEYS });
        let tags = if n == ITEMS - 993 { "[1,2]" } else { "[1]" };
        let text = format!(r#"{{"id":"i{id}","p":"k{p}","n":{n},"tags":{tags},"all":[3,1,2]}}"#);
        ItemBody::parse(&container, text.as_bytes()).expect("an item")
    };
    for from in (0..ITEMS).step_by(1000) {
        let bodies = (from..ITEMS.min(from + 1000)).map(body).collect();
        let loaded = world.engine().transactions().load_items(&container, bodies, Existing::Refuse);
        loaded.expect("they are loaded");
    }
    world
}

fn worlds() -> impl Iterator<Item = World> {
    [None, THREE_RANGES]
        .into_iter()
        .map(|throughput| filled(World::memory(), "", throughput))
        .chain(std::iter::once_with(|| filled(World::rocks(), "", None)))
}

/// The row and the number of each item of a scope, by row.
fn inserted(world: &World, scope: &ScopeRequest) -> Vec<(u64, i64)> {
    let sorted = rows(world, scope, "SELECT VALUE [c._rid, c.n] FROM c ORDER BY c.n", 1000, || {});
    let pair = |pair: &Value| {
        let pair = pair.as_array().expect("a pair");
        (row_of(&pair[0]), pair[1].as_i64().expect("a number"))
    };
    let mut all: Vec<(u64, i64)> = sorted.iter().map(pair).collect();
    all.sort_unstable();
    all
}

fn numbers(values: &[Value]) -> Vec<i64> {
    values.iter().map(|value| value.as_i64().expect("a number")).collect()
}

#[test]
fn more_than_10_000_items_come_as_they_were_inserted() {
    for world in worlds() {
        let mut found = 0;
        for scope in ranges(&world) {
            let all: Vec<i64> = inserted(&world, &scope).iter().map(|(_, n)| *n).collect();
            found += all.len();
            let check = |text: &str, wanted: &[i64], size: usize| {
                assert_eq!(numbers(&rows(&world, &scope, text, size, || {})), wanted, "{text}");
            };
            check("SELECT VALUE c.n FROM c", &all, 700);
            check("SELECT TOP 5 VALUE c.n FROM c", &all[..5], 2);
            check("SELECT VALUE c.n FROM c OFFSET 1500 LIMIT 6", &all[1500..1506], 4);
            check("SELECT VALUE c.n FROM c WHERE c.n + 0 >= 0", &all, 1000);
            let joined: Vec<i64> =
                all.iter().flat_map(|n| [n * 10 + 3, n * 10 + 1, n * 10 + 2]).collect();
            check("SELECT VALUE c.n * 10 + t FROM c JOIN t IN c.all", &joined, 1000);
            let fed = feed(&world, &scope, 900, None, || {});
            let fed: Vec<Value> = fed.iter().map(|item| item.get("n").clone()).collect();
            assert_eq!(numbers(&fed), all);
        }
        assert_eq!(found, ITEMS);
    }
}

/// A filter that leaves few items has them looked for along the keys, and gives them by row.
#[test]
fn the_few_that_a_filter_leaves_come_as_they_were_inserted() {
    for world in worlds() {
        for scope in ranges(&world) {
            let all: Vec<i64> = inserted(&world, &scope).iter().map(|(_, n)| *n).collect();
            let few: Vec<i64> = all.iter().copied().filter(|n| n % 101 == 7).collect();
            let fewer: Vec<i64> = all.iter().copied().filter(|n| n % 2999 == 7).collect();
            assert!(few.len() >= 5);
            for size in [1, 3, 1000] {
                let check = |text: &str, wanted: &[i64]| {
                    let found = numbers(&rows(&world, &scope, text, size, || {}));
                    assert_eq!(found, wanted, "{text} in pages of {size}");
                };
                check("SELECT VALUE c.n FROM c WHERE c.n % 101 = 7", &few);
                check("SELECT VALUE c.n FROM c WHERE c.n % 2999 = 7", &fewer);
                check("SELECT VALUE c.n FROM c WHERE c.n % 101 = 101", &[]);
                check("SELECT TOP 3 VALUE c.n FROM c WHERE c.n % 101 = 7", &few[..3]);
                check("SELECT TOP 9 VALUE c.n FROM c WHERE c.n % 2999 = 7", &fewer);
                check("SELECT VALUE c.n FROM c WHERE c.n % 101 = 7 OFFSET 2 LIMIT 2", &few[2..4]);
                let joined: Vec<i64> =
                    few.iter().flat_map(|n| [n * 10 + 3, n * 10 + 1, n * 10 + 2]).collect();
                let join = "SELECT VALUE c.n * 10 + t FROM c JOIN t IN c.all WHERE c.n % 101 = 7";
                check(join, &joined);
                let mut seen = Vec::new();
                for n in &all {
                    if !seen.contains(&(n % 7)) {
                        seen.push(n % 7);
                    }
                }
                check("SELECT DISTINCT VALUE c.n % 7 FROM c", &seen);
                check("SELECT DISTINCT TOP 3 VALUE c.n % 7 FROM c", &seen[..3]);
            }
        }
    }
}

/// An item that fails does so when its turn comes, not when it is looked at ahead of it.
#[test]
fn an_item_that_fails_spoils_no_page_before_it() {
    let world = filled(World::memory(), "", None);
    let text = "SELECT VALUE (SELECT VALUE t FROM t IN c.tags) FROM c WHERE c.n % 1000 = 7";
    let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#))).expect(text);
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let (mut pages, mut token) = (0, None::<String>);
    loop {
        let paging = Paging { continuation: token.as_deref(), crosses: true, ..Paging::default() };
        let size = PageSize { items: 2 };
        match world.engine().queries().query_items(&container, &scope, &request, size, &paging) {
            Ok(page) => token = page.continuation,
            Err(error) => break assert!(error.to_string().contains("cardinality"), "{error}"),
        }
        pages += 1;
        assert!(token.is_some(), "the item with two tags fails");
    }
    assert!(pages >= 3, "{pages}");
}

/// A logical partition, and a small part of a range, with an index of the partition key and without.
#[test]
fn parts_of_a_range_come_as_they_were_inserted() {
    let unindexed = r#","indexingPolicy":{"automatic":false,"indexingMode":"none"}"#;
    for more in ["", unindexed] {
        let world = filled(World::memory(), more, None);
        let key = |header: &str| ScopeRequest {
            partition_key: Some(PartitionKey::parse_header(header).expect("a key")),
            ..ScopeRequest::default()
        };
        let interval = |start: &str, end: &str| ScopeRequest {
            start: Some(start.into()),
            end: Some(end.into()),
            ..ScopeRequest::default()
        };
        for (scope, items_min) in [
            (key(r#"["k0"]"#), 6000),
            (interval("", "02"), 50),
            (interval("10", "11"), 20),
            (interval("", "30"), 2000),
        ] {
            let rids = |size: usize| -> Vec<u64> {
                let text = "SELECT VALUE c._rid FROM c";
                rows(&world, &scope, text, size, || {}).iter().map(row_of).collect()
            };
            let found = rids(1000);
            assert!(found.is_sorted() && found.len() >= items_min, "{}", found.len());
            let found_by_pages = rids(37);
            assert_eq!(found_by_pages, found);
            let fed = feed(&world, &scope, 100, None, || {});
            let fed: Vec<u64> = fed.iter().map(|item| row_of(item.get("_rid"))).collect();
            assert_eq!(fed, found);
            let few =
                rows(&world, &scope, "SELECT VALUE c._rid FROM c WHERE c.n % 300 = 0", 2, || {});
            let few: Vec<u64> = few.iter().map(row_of).collect();
            assert!(few.is_sorted() && few.iter().all(|row| found.contains(row)));
        }
    }
}

/// Nothing is lost or repeated when a range changes between two pages, and it is read to its end in order.
#[test]
fn large_ranges_keep_their_order_across_splits_and_merges() {
    type Change = fn(&World);
    let changes: [(Option<i64>, Change); 2] =
        [(None, |world| drop(split(world, None))), (THREE_RANGES, |world| drop(merge(world)))];
    for (throughput, change) in changes {
        for (text, keep) in
            [("SELECT VALUE c.n FROM c", 1), ("SELECT VALUE c.n FROM c WHERE c.n % 500 = 7", 500)]
        {
            let world = filled(World::memory(), "", throughput);
            let kept = |scope: &ScopeRequest| -> Vec<i64> {
                let all = inserted(&world, scope).into_iter().map(|(_, n)| n);
                all.filter(|n| keep == 1 || n % keep == 7).collect()
            };
            let scopes = ranges(&world);
            let before: Vec<Vec<i64>> = scopes.iter().map(&kept).collect();
            let size = if keep == 1 { 1000 } else { 2 };
            let all = ScopeRequest::default();
            let found = numbers(&rows(&world, &all, text, size, || change(&world)));
            assert_eq!(&found[..before[0].len()], &before[0][..], "{text}");
            let (mut sorted, mut wanted) = (found, before.concat());
            sorted.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(sorted, wanted, "{text}");
            for scope in ranges(&world) {
                let rids = rows(&world, &scope, "SELECT VALUE c._rid FROM c", 1000, || {});
                assert!(rids.iter().map(row_of).is_sorted() && rids.len() > 1000);
            }
        }
    }
}
