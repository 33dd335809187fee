//! The ranges of a query plan lose no rows: whoever asks every physical partition that a plan's ranges
//! touch, as clients do, gets what the whole container answers.

use std::collections::BTreeSet;

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::Value;

use crate::random::Random;
use crate::split_merge::split;
use crate::world::{World, json};

/// Containers by the paths of their key, each with expressions that name the levels.
const KEYS: [(&str, &[&str]); 4] = [
    (r#"{"paths":["/pk"],"kind":"Hash","version":2}"#, &["c.pk"]),
    (r#"{"paths":["/pk"],"kind":"Hash","version":1}"#, &["c['pk']"]),
    (r#"{"paths":["/a/b"],"kind":"Hash","version":2}"#, &["c.a.b"]),
    (r#"{"paths":["/t","/a/b","/pk"],"kind":"MultiHash","version":2}"#, &["c.t", "c.a.b", "c.pk"]),
];

const VALUES: [&str; 9] = ["'x'", "'X'", "'y'", "''", "1", "-1", "null", "true", "false"];

fn pick<'a>(random: &mut Random, list: &[&'a str]) -> &'a str {
    list[random.below(list.len())]
}

fn world(random: &mut Random, key: &str) -> World {
    let mut world = World::memory();
    world.database();
    let throughput = if random.one_in(2) { Some(30_000) } else { None };
    world.create_container(&format!(r#"{{"id":"c","partitionKey":{key}}}"#), throughput);
    let container = world.container("c");
    for n in 0..60 {
        let mut value = || match random.below(10) {
            9 => None,
            at => Some(VALUES[at].replace('\'', "\"")),
        };
        let mut parts = vec![format!(r#""id":"{n}","n":{}"#, n % 3)];
        parts.extend(value().map(|v| format!(r#""t":{v}"#)));
        parts.extend(value().map(|v| format!(r#""pk":{v}"#)));
        parts.extend(value().map(|v| format!(r#""a":{{"b":{v}}}"#)));
        let item = format!("{{{}}}", parts.join(","));
        world.engine().items().create(&container, None, item.as_bytes()).expect("an item");
    }
    for _ in 0..random.below(3) {
        split(&world, None);
    }
    world
}

fn condition(random: &mut Random, paths: &[&str], depth: usize) -> String {
    if depth > 0 {
        let part = |random: &mut Random| condition(random, paths, depth - 1);
        match random.below(6) {
            0 | 1 => return format!("({} AND {})", part(random), part(random)),
            2 => return format!("({} OR {})", part(random), part(random)),
            3 => return format!("NOT ({})", part(random)),
            4 => return format!("({} ? {} : {})", part(random), part(random), part(random)),
            _ => {}
        }
    }
    let (path, value) = (pick(random, paths), pick(random, &VALUES));
    match random.below(18) {
        0..=4 => format!("{path} = {value}"),
        5 => format!("{path} IN ({value}, {}, undefined)", pick(random, &VALUES)),
        6 => format!("{path} {} {value}", pick(random, &["!=", "<", "<=", ">", ">="])),
        7 => format!("({path} BETWEEN {value} AND {})", pick(random, &VALUES)),
        8 => {
            format!("{}({path})", pick(random, &["IS_NULL", "IS_BOOL", "IS_STRING", "IS_DEFINED"]))
        }
        9 => path.to_owned(),
        10 => format!("{}({path}) = {value}", pick(random, &["UPPER", "LOWER", "ABS"])),
        11 => format!("STRINGEQUALS({path}, 'x', {})", pick(random, &["true", "false"])),
        12 => format!("ARRAY_CONTAINS([{value}, 'y'], {path})"),
        13 => format!("({path} = {value}) = {}", pick(random, &["true", "false"])),
        14 => format!("({path} ?? {value}) = {}", pick(random, &VALUES)),
        15 => format!("{path} LIKE {}", pick(random, &["'x'", "'x%'", "'%'"])),
        16 => format!("[{value}] = [{path}]"),
        _ => format!("c.n = {}", random.below(3)),
    }
}

fn request(text: &str) -> QueryRequest {
    let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
    QueryRequest::parse(&json(&body)).expect(text)
}

fn rows(world: &World, part: &ScopeRequest, text: &str) -> Vec<String> {
    let container = world.container("c");
    let scope = container.scope(part).expect("a scope");
    let (mut rows, mut token) = (Vec::new(), None::<String>);
    loop {
        let paging = Paging { continuation: token.as_deref(), crosses: true, ..Paging::default() };
        let (request, size) = (request(text), PageSize { items: 1000 });
        let page =
            world.engine().queries().query_items(&container, &scope, &request, size, &paging);
        let page = page.unwrap_or_else(|e| panic!("{text}: {e}"));
        rows.extend(page.rows);
        token = page.continuation;
        if token.is_none() {
            return rows;
        }
    }
}

/// The rows that a client finds by the plan: each range in every partition that it touches.
fn planned_rows(world: &World, text: &str, by_partition: bool) -> Vec<String> {
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let plan = world.engine().queries().query_plan(&container, &scope, &request(text)).expect(text);
    let plan = json(&plan);
    let mut found = Vec::new();
    for range in plan.get("queryRanges").as_array().expect("ranges") {
        let end = |name: &str| range.get(name).as_str().expect("an end").to_owned();
        let (min, max) = (end("min"), end("max"));
        let mut ask = |id: Option<String>, start: String, end: String| {
            let part = ScopeRequest {
                range_id: id.map(Into::into),
                start: Some(start.into()),
                end: Some(end.into()),
                ..ScopeRequest::default()
            };
            found.extend(rows(world, &part, text));
        };
        if !by_partition {
            ask(None, min, max);
            continue;
        }
        for partition in &container.partitions {
            let own = (partition.range.min.to_string(), partition.range.max.to_string());
            let inclusive = range.get("isMaxInclusive").is_true();
            let touches = min < own.1 && (own.0 < max || (inclusive && own.0 == max));
            if touches {
                let (start, end) = (min.clone().max(own.0), max.clone().min(own.1));
                ask(Some(partition.id.to_string()), start, end);
            }
        }
    }
    found
}

#[test]
fn the_ranges_of_a_plan_give_all_rows() {
    let mut random = Random::from_environment("the_ranges_of_a_plan_give_all_rows");
    for (key, paths) in KEYS {
        for _ in 0..4 {
            let world = world(&mut random, key);
            for _ in 0..60 {
                let filter = condition(&mut random, paths, 2);
                let text = format!("SELECT VALUE c.id FROM c WHERE {filter}");
                let whole: BTreeSet<String> =
                    rows(&world, &ScopeRequest::default(), &text).into_iter().collect();
                for by_partition in [false, true] {
                    let found = planned_rows(&world, &text, by_partition);
                    let distinct: BTreeSet<String> = found.iter().cloned().collect();
                    assert_eq!(distinct, whole, "{key}, by partition: {by_partition}: {text}");
                    assert_eq!(found.len(), whole.len(), "rows came twice: {key}: {text}");
                }
            }
        }
    }
}

#[test]
fn a_prefix_is_a_range_and_not_one_key() {
    let mut random = Random::new(7);
    let (key, _) = KEYS[3];
    let world = world(&mut random, key);
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let plan = |text: &str| {
        json(&world.engine().queries().query_plan(&container, &scope, &request(text)).expect(text))
    };
    let prefix = plan("SELECT * FROM c WHERE c.t = 'x' OFFSET 1 LIMIT 2");
    let range = &prefix.get("queryRanges").as_array().expect("ranges")[0];
    let min = range.get("min").as_str().expect("an end");
    assert_eq!(range.get("max").as_str(), Some(&*format!("{min}FF")));
    let info = prefix.get("queryInfo");
    assert_eq!((info.get("offset").as_i64(), info.get("limit").as_i64()), (Some(1), Some(2)));
    assert!(info.get("rewrittenQuery").as_str().is_some_and(|t| t.ends_with("OFFSET 0 LIMIT 3")));
    // Clients that took the range for a point send its beginning alone.
    let all: BTreeSet<String> =
        rows(&world, &ScopeRequest::default(), "SELECT VALUE c.id FROM c WHERE c.t = 'x'")
            .into_iter()
            .collect();
    let point =
        ScopeRequest { start: Some(min.into()), end: Some(min.into()), ..ScopeRequest::default() };
    let found: BTreeSet<String> =
        rows(&world, &point, "SELECT VALUE c.id FROM c WHERE c.t = 'x'").into_iter().collect();
    assert!(!all.is_empty());
    assert_eq!(found, all);
}
