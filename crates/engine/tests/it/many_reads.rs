//! Reading many items at once, as SDKs do it: a query that names each by id and partition key. The
//! items are looked up by key, and nothing is compared with all that were named.

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryPage, QueryRequest};
use orrery_types::Value;

use crate::split_merge::upsert;
use crate::world::{World, json};

const ITEMS: usize = 1200;

fn world(paths: &str, throughput: Option<i64>) -> World {
    let mut world = World::memory();
    world.database();
    let kind = if paths.contains(',') { "MultiHash" } else { "Hash" };
    let body =
        format!(r#"{{"id":"c","partitionKey":{{"paths":[{paths}],"kind":"{kind}","version":2}}}}"#);
    world.create_container(&body, throughput);
    for n in 0..ITEMS {
        let (a, b) = (n % 50, n % 3);
        let text = format!(r#"{{"id":"i{n}","a":"k{a}","b":{b},"n":{n}}}"#);
        upsert(&world, &text).expect("an item");
    }
    world
}

fn page(world: &World, text: &str, items: usize, token: Option<&str>) -> QueryPage {
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
    let request = QueryRequest::parse(&json(&body)).expect("a query");
    let paging = Paging { crosses: true, explains: true, continuation: token, ..Paging::default() };
    let size = PageSize { items };
    world
        .engine()
        .queries()
        .query_items(&container, &scope, &request, size, &paging)
        .expect("a page")
}

/// All rows, and how many items and steps they took; `check` looks at each page.
fn all(world: &World, text: &str, items: usize, check: impl Fn(&QueryPage)) -> (Vec<String>, u64) {
    let (mut rows, mut loaded, mut token) = (vec![], 0, None::<String>);
    loop {
        let page = page(world, text, items, token.as_deref());
        check(&page);
        loaded += page.report.items;
        rows.extend(page.rows);
        token = page.continuation;
        if token.is_none() {
            rows.sort_unstable();
            return (rows, loaded);
        }
    }
}

fn names(page: &QueryPage) -> String {
    page.report.plan.as_ref().expect("a plan").to_value().to_json()
}

/// The items that are named, of which every fourth does not exist, and one comes twice.
fn pairs(paths: &[&str]) -> (String, Vec<String>) {
    let mut named = Vec::new();
    let mut expected = Vec::new();
    for n in (0..1333).chain([7]) {
        let exists = n < ITEMS && n % 4 != 3;
        let (a, b) = (n % 50, if exists { n % 3 } else { (n + 1) % 3 });
        let mut equal = vec![format!("c.id = 'i{n}'")];
        for path in paths {
            equal.push(match *path {
                "a" if exists => format!("c[\"a\"] = 'k{a}'"),
                "a" => format!("c[\"a\"] = 'other{a}'"),
                _ => format!("{b} = c.b"),
            });
        }
        named.push(format!("({})", equal.join(" AND ")));
        if exists && !expected.contains(&format!("{n}")) {
            expected.push(n.to_string());
        }
    }
    expected.sort_unstable();
    (named.join(" OR "), expected)
}

#[test]
fn a_thousand_items_are_looked_up_by_key() {
    for (declared, paths) in [(r#""/a""#, &["a"][..]), (r#""/a","/b""#, &["a", "b"])] {
        for throughput in [None, Some(30_000)] {
            let world = world(declared, throughput);
            let (filter, expected) = pairs(paths);
            for (text, expected) in [
                (format!("SELECT VALUE c.n FROM c WHERE {filter}"), expected.clone()),
                (
                    format!("SELECT VALUE c.n FROM c WHERE c.n < 500 AND ({filter})"),
                    expected
                        .iter()
                        .filter(|n| n.parse::<u32>().is_ok_and(|n| n < 500))
                        .cloned()
                        .collect(),
                ),
            ] {
                for items in [5000, 100] {
                    let (rows, _) = all(&world, &text, items, |page| {
                        let plan = names(page);
                        assert!(plan.contains("PointRead of 1333 items"), "{plan}");
                        let report = &page.report;
                        assert!(report.steps < 30_000, "{} steps", report.steps);
                        assert!(report.items <= 901, "{} items", report.items);
                    });
                    assert_eq!(rows, expected, "{declared} {throughput:?} {items}");
                }
            }
        }
    }
}

#[test]
fn an_id_that_is_the_partition_key_is_looked_up_too() {
    for throughput in [None, Some(30_000)] {
        let world = world(r#""/id""#, throughput);
        let ids: Vec<String> = (0..400).map(|n| format!("'i{}'", n * 4)).collect();
        for filter in [
            format!("c.id IN ({})", ids.join(",")),
            ids.iter().map(|id| format!("c.id = {id}")).collect::<Vec<_>>().join(" OR "),
        ] {
            let text = format!("SELECT VALUE c.n FROM c WHERE {filter}");
            let (rows, loaded) = all(&world, &text, 1000, |page| {
                assert!(names(page).contains("PointRead of 400 items"), "{}", names(page));
            });
            assert_eq!((rows.len(), loaded), (300, 300));
        }
    }
}

#[test]
fn pairs_that_are_no_keys_are_found_by_the_index() {
    for throughput in [None, Some(30_000)] {
        let world = world(r#""/a""#, throughput);
        let pairs: Vec<String> = (0..600).map(|n| format!("(c.n = {n} AND c.b = 0)")).collect();
        let text = format!("SELECT VALUE c.n FROM c WHERE {}", pairs.join(" OR "));
        let (rows, _) = all(&world, &text, 1000, |page| {
            assert!(page.report.steps < 30_000, "{} steps", page.report.steps);
        });
        assert_eq!(rows.len(), 200);
    }
}
