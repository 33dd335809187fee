//! What of a container and its partitions a query must know: how its vectors are compared, where items
//! without a key are, and that a query without FROM reads none of them.

use orrery_engine::feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::scope::ScopeRequest;
use orrery_types::Value;

use crate::world::{World, json};

fn world(more: &str, throughput: Option<i64>, items: &[&str]) -> World {
    let mut world = World::memory();
    world.database();
    let key = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;
    world.create_container(&format!(r#"{{"id":"c",{key}{more}}}"#), throughput);
    let container = world.container("c");
    for item in items {
        world.engine().create_item(&container, None, item.as_bytes()).expect("an item");
    }
    world
}

fn request(text: &str) -> QueryRequest {
    let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
    QueryRequest::parse(&json(&body)).expect(text)
}

/// All rows of a query, in pages of two, sorted.
fn rows(world: &World, text: &str) -> Vec<String> {
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let (mut rows, mut token) = (Vec::new(), None::<String>);
    loop {
        let paging = Paging { continuation: token.as_deref(), crosses: true, ..Paging::default() };
        let (request, size) = (request(text), PageSize { items: 2 });
        let page = world.engine().query_items(&container, &scope, &request, size, &paging);
        let page = page.expect(text);
        rows.extend(page.rows);
        token = page.continuation;
        if token.is_none() {
            rows.sort();
            return rows;
        }
    }
}

#[test]
fn vectors_are_compared_as_the_policy_says() {
    let policy = |distance: &str| {
        format!(
            r#","vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
            "dimensions":2,"distanceFunction":"{distance}"}}]}}"#
        )
    };
    let item = [r#"{"id":"a","pk":"p","v":[3,4]}"#];
    for (distance, expected) in [("euclidean", "5"), ("dotproduct", "0"), ("cosine", "0.6")] {
        let world = world(&policy(distance), None, &item);
        let other = if distance == "cosine" { "[1,0]" } else { "[0,0]" };
        let text = format!("SELECT VALUE VectorDistance(c.v, {other}) FROM c");
        assert_eq!(rows(&world, &text), [expected], "{distance}");
        let own = "SELECT VALUE VectorDistance(c.v, [0,0], false, {'distanceFunction':'euclidean'}) \
                   FROM c";
        assert_eq!(rows(&world, own), ["5"], "{distance}");
    }
}

#[test]
fn a_ranked_query_gives_whole_items() {
    let items =
        [r#"{"id":"a","pk":"p","t":"fox","n":1}"#, r#"{"id":"b","pk":"q","t":"dog","n":2}"#];
    for throughput in [None, Some(18_000)] {
        let world = world("", throughput, &items);
        for text in ["SELECT TOP 1 *", "SELECT TOP 1 VALUE c"] {
            let text =
                format!("{text} FROM c WHERE c.n < 9 ORDER BY RANK FullTextScore(c.t, 'fox')");
            let found: Vec<Value> = rows(&world, &text).iter().map(|row| json(row)).collect();
            let [item] = &found[..] else { panic!("{text}: {found:?}") };
            assert_eq!(item.get("id").as_str(), Some("a"), "{text}");
            assert_eq!(item.get("pk").as_str(), Some("p"), "{text}");
            assert!(item.get("_rid").as_str().is_some(), "{text}");
        }
    }
}

#[test]
fn a_query_without_from_has_one_row() {
    let world = world("", Some(18_000), &[r#"{"id":"a","pk":"p"}"#]);
    let container = world.container("c");
    assert_eq!(world.engine().list_ranges(&container).expect("ranges").len(), 3);
    assert_eq!(rows(&world, "SELECT VALUE 1"), ["1"]);
    assert_eq!(rows(&world, "SELECT COUNT(1) AS n"), [r#"{"n":1}"#]);
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let plan = world.engine().query_plan(&container, &scope, &request("SELECT VALUE 1"));
    let ranges = json(&plan.expect("a plan")).get("queryRanges").to_json();
    let one = r#"[{"min":"","max":"","isMinInclusive":true,"isMaxInclusive":true}]"#;
    assert_eq!(ranges, one);
}

#[test]
fn items_with_an_array_for_a_key_are_found_among_those_without() {
    let items = [r#"{"id":"array","pk":[1]}"#, r#"{"id":"one","pk":1}"#, r#"{"id":"two","pk":2}"#];
    for throughput in [None, Some(18_000)] {
        let world = world("", throughput, &items);
        for filter in ["c.pk IN ([1], 1)", "c.pk = [1] OR c.pk = 1"] {
            let text = format!("SELECT VALUE c.id FROM c WHERE {filter}");
            assert_eq!(rows(&world, &text), [r#""array""#, r#""one""#], "{filter}");
        }
        assert_eq!(rows(&world, "SELECT VALUE c.id FROM c WHERE c.pk = [1]"), [r#""array""#]);
    }
}

#[test]
fn what_may_take_any_time_is_not_answered_in_passing() {
    let world = world("", None, &[r#"{"id":"a","pk":"p","s":"aa"}"#]);
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let is_answered = |text: &str| {
        let paging = Paging { crosses: true, if_cheap: true, ..Paging::default() };
        let (request, size) = (request(text), PageSize { items: 10 });
        let page = world.engine().try_query_items(&container, &scope, &request, size, &paging);
        page.expect(text).is_some()
    };
    assert!(is_answered("SELECT * FROM c WHERE c.id = 'a'"));
    for text in ["SELECT VALUE udf.f(c) FROM c", "SELECT * FROM c WHERE RegexMatch(c.s, '(?=a)a')"]
    {
        assert!(!is_answered(text), "{text}");
    }
}
