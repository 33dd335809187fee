//! What of a container and its partitions a query must know: how its vectors are compared, where items
//! without a key are, and that a query without FROM reads none of them.

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, PreparedQuery, QueryRequest};
use orrery_types::Value;

use crate::world::{World, json};

fn world(more: &str, throughput: Option<i64>, items: &[&str]) -> World {
    let mut world = World::memory();
    world.database();
    let key = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;
    world.create_container(&format!(r#"{{"id":"c",{key}{more}}}"#), throughput);
    let container = world.container("c");
    for item in items {
        world.engine().items().create(&container, None, item.as_bytes()).expect("an item");
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
        let page =
            world.engine().queries().query_items(&container, &scope, &request, size, &paging);
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

/// What an SDK sends to each range for a ranked query without TOP gives every row of the range.
#[test]
fn a_ranked_query_without_a_bound_gives_every_row() {
    let items: Vec<String> = (0..700)
        .map(|n| format!(r#"{{"id":"{n}","pk":"p{n}","t":"fox {}"}}"#, "dog ".repeat(n % 7)))
        .collect();
    let items: Vec<&str> = items.iter().map(|item| &**item).collect();
    let text = "SELECT c.id FROM c ORDER BY RANK FullTextScore(c.t, 'fox')";
    for throughput in [None, Some(18_000)] {
        let world = world("", throughput, &items);
        let container = world.container("c");
        let ranges = world.engine().layouts().list_ranges(&container).expect("ranges");
        let (mut ids, mut most) = (Vec::new(), 0);
        for range in &ranges {
            let part = ScopeRequest { range_id: Some(range.id.clone()), ..ScopeRequest::default() };
            let scope = container.scope(&part).expect("a scope");
            let plan = world.engine().queries().query_plan(&container, &scope, &request(text));
            let plan = json(&plan.expect("a plan"));
            let component = plan.get("hybridSearchQueryInfo").get("componentQueryInfos").at(0);
            let sent = component.get("rewrittenQuery").as_str().expect("a text").to_owned();
            let sent = sent.replace("{documentdb-formattableorderbyquery-filter}", "true");
            let statistics = [
                "{documentdb-formattablehybridsearchquery-totaldocumentcount}",
                "{documentdb-formattablehybridsearchquery-totalwordcount-0}",
            ];
            let sent = statistics.iter().fold(sent, |sent, name| sent.replace(name, "700"));
            let hits = "{documentdb-formattablehybridsearchquery-hitcountsarray-0}";
            let sent = sent.replace(hits, "[700]");
            let (mut found, mut token) = (0, None::<String>);
            loop {
                let paging =
                    Paging { continuation: token.as_deref(), merges: true, ..Paging::default() };
                let size = PageSize { items: 90 };
                let page = world.engine().queries().query_items(
                    &container,
                    &scope,
                    &request(&sent),
                    size,
                    &paging,
                );
                let page = page.unwrap_or_else(|error| panic!("{error}: {sent}"));
                found += page.rows.len();
                ids.extend(page.rows.iter().map(|row| json(row).get("_rid").to_json()));
                token = page.continuation;
                if token.is_none() {
                    break;
                }
            }
            most = most.max(found);
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), items.len(), "{} ranges", ranges.len());
        assert!(most > 200, "{most}: more than a client asks for by itself");
    }
}

#[test]
fn a_query_without_from_has_one_row() {
    let world = world("", Some(18_000), &[r#"{"id":"a","pk":"p"}"#]);
    let container = world.container("c");
    assert_eq!(world.engine().layouts().list_ranges(&container).expect("ranges").len(), 3);
    assert_eq!(rows(&world, "SELECT VALUE 1"), ["1"]);
    assert_eq!(rows(&world, "SELECT COUNT(1) AS n"), [r#"{"n":1}"#]);
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let plan = world.engine().queries().query_plan(&container, &scope, &request("SELECT VALUE 1"));
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
        let paging = Paging { crosses: true, ..Paging::default() };
        let (request, size) = (request(text), PageSize { items: 10 });
        let mut query = PreparedQuery::new(container.clone(), scope.clone(), request, size);
        let page = world.engine().queries().run_inline(&mut query, &paging);
        page.expect(text).is_some()
    };
    assert!(is_answered("SELECT * FROM c WHERE c.id = 'a'"));
    for text in ["SELECT VALUE udf.f(c) FROM c", "SELECT * FROM c WHERE RegexMatch(c.s, '(?=a)a')"]
    {
        assert!(!is_answered(text), "{text}");
    }
}
