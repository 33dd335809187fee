//! Queries that are made to hurt: each ends in a documented error or a bounded answer.

use std::fmt::Write as _;

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryPage, QueryRequest};
use orrery_types::{CancellationToken, Error, Result, Value};

use crate::world::{World, json};

fn world() -> World {
    let mut world = World::memory();
    world.database();
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    world.create_container(body, None);
    let container = world.container("c");
    for number in 0..40 {
        let list: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let item = format!(
            r#"{{"id":"{number}","pk":"p","n":{number},"s":"{}","l":[{}]}}"#,
            "a".repeat(40),
            list.join(",")
        );
        world.engine().items().create(&container, None, item.as_bytes()).expect("an item");
    }
    world
}

fn run(world: &World, text: &str, rows: usize, token: Option<&str>) -> Result<QueryPage> {
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default())?;
    let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
    let request = QueryRequest::parse(&json(&body))?;
    let paging = Paging { continuation: token, crosses: true, explains: true, ..Paging::default() };
    world.engine().queries().query_items(
        &container,
        &scope,
        &request,
        PageSize { items: rows },
        &paging,
    )
}

#[test]
fn texts_that_are_too_long_or_too_deep_are_refused() {
    let world = world();
    let long = format!("SELECT * FROM c WHERE c.s = '{}'", "x".repeat(600 * 1024));
    assert!(matches!(run(&world, &long, 10, None), Err(Error::Query(_) | Error::Invalid(_))));
    let deep = format!("SELECT * FROM c WHERE {}true{}", "(".repeat(1000), ")".repeat(1000));
    assert!(matches!(run(&world, &deep, 10, None), Err(Error::Query(_))));
}

#[test]
fn ten_thousand_alternatives_are_planned_and_answered() {
    let world = world();
    for (count, same_path) in [(9_000, true), (20_000, true), (9_000, false)] {
        let mut text = "SELECT VALUE c.id FROM c WHERE c.n = 3".to_owned();
        for number in 0..count {
            if same_path {
                write!(text, " OR c.n = {}", number + 100).unwrap();
            } else {
                write!(text, " OR c.p{number} = 1").unwrap();
            }
        }
        let page = run(&world, &text, 10, None).expect("an answer");
        assert_eq!(page.rows, [r#""3""#], "{count}");
        let plan = page.report.plan.expect("a plan").to_value().to_json();
        assert!(plan.len() < 4096 || !same_path, "the plan has {} bytes", plan.len());
    }
}

#[test]
fn searches_and_joins_without_end_are_bounded() {
    let world = world();
    let backtracks = "SELECT * FROM c WHERE RegexMatch(c.s, '(a|aa|a?)+(?=b)c')";
    match run(&world, backtracks, 10, None) {
        Ok(page) => assert!(page.rows.is_empty()),
        Err(error) => assert!(matches!(error, Error::Query(_)), "{error}"),
    }
    let explodes = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.l JOIN b IN c.l JOIN d IN c.l \
                    JOIN e IN c.l JOIN f IN c.l JOIN g IN c.l JOIN h IN c.l";
    assert!(matches!(run(&world, explodes, 10, None), Err(Error::Query(_))));
}

#[test]
fn a_token_is_good_for_its_own_query_only() {
    let world = world();
    let texts = [
        "SELECT * FROM c",
        "SELECT * FROM c WHERE c.n > 3",
        "SELECT * FROM c ORDER BY c.n",
        "SELECT * FROM c ORDER BY c.n DESC",
        "SELECT DISTINCT VALUE c.n FROM c",
        "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n",
    ];
    let refused = |result: Result<QueryPage>, why: &str| match result {
        Err(Error::Invalid(message)) => assert_eq!(&*message, "Invalid Continuation Token"),
        other => panic!("{why}: {other:?}"),
    };
    for text in texts {
        let token = run(&world, text, 5, None).expect(text).continuation.expect(text);
        assert!(token.len() < 1024, "{text} has a token of {} bytes", token.len());
        assert!(run(&world, text, 5, Some(&token)).is_ok(), "{text}");
        for other in texts.iter().filter(|other| **other != text) {
            refused(run(&world, other, 5, Some(&token)), other);
        }
        for at in 0..token.len() {
            let mut edited = token.clone().into_bytes();
            edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
            let edited = String::from_utf8(edited).expect("ascii");
            refused(run(&world, text, 5, Some(&edited)), text);
        }
    }
    refused(run(&world, texts[0], 5, Some("-RID:~AAAA#RT:1")), "a token of another server");
}

#[test]
fn a_query_ends_when_nobody_waits_for_it() {
    let world = world();
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let text = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.l JOIN b IN c.l JOIN d IN c.l";
    let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
    let request = QueryRequest::parse(&json(&body)).expect("a query");
    for is_cancelled in [false, true] {
        let token = CancellationToken::default();
        if is_cancelled {
            token.cancel();
        }
        let paging = Paging { crosses: true, cancellation: Some(&token), ..Paging::default() };
        let size = PageSize { items: 10 };
        let page =
            world.engine().queries().query_items(&container, &scope, &request, size, &paging);
        if is_cancelled {
            assert!(matches!(page, Err(Error::Timeout(_))), "{page:?}");
        } else {
            assert_eq!(page.expect("an answer").rows, ["2560000"]);
        }
    }
}

#[test]
fn queries_share_the_memory_that_there_is() {
    let world = world().with_query_memory(8 << 20);
    let large = "SELECT DISTINCT VALUE [a, b, d, c.id] FROM c JOIN a IN c.l JOIN b IN c.l JOIN d IN c.l \
                 OFFSET 200000 LIMIT 5";
    let sorts = "SELECT VALUE [a, b, d] FROM c JOIN a IN c.l JOIN b IN c.l JOIN d IN c.l \
                 WHERE c.n < 9 ORDER BY c.s OFFSET 300000 LIMIT 5";
    let groups = "SELECT a, b, d, COUNT(1) AS n FROM c JOIN a IN c.l JOIN b IN c.l JOIN d IN c.l \
                  GROUP BY a, b, d";
    // What is taken is given back, whether the query was answered or refused.
    for _ in 0..3 {
        for text in [large, sorts, groups] {
            let refused = run(&world, text, 10, None);
            assert!(matches!(refused, Err(Error::RateLimited { .. })), "{text}: {refused:?}");
            let small = "SELECT a, COUNT(1) AS n FROM c JOIN a IN c.l JOIN b IN c.l GROUP BY a";
            assert_eq!(run(&world, small, 100, None).expect(small).rows.len(), 40);
        }
    }
    let world = world.with_query_memory(usize::MAX);
    assert_eq!(run(&world, groups, 10, None).expect(groups).rows.len(), 10);
    assert_eq!(run(&world, large, 10, None).expect(large).rows.len(), 5);
}

#[test]
fn arrays_that_are_sorted_count_as_memory() {
    let mut world = World::memory();
    world.database();
    world.create_container(r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#, None);
    let container = world.container("c");
    for n in 0..300 {
        let item = format!(r#"{{"id":"{n}","pk":"p{n}","v":[{n}]}}"#);
        world.engine().items().create(&container, None, item.as_bytes()).expect("an item");
    }
    let text = "SELECT VALUE c.id FROM c ORDER BY c.v";
    assert_eq!(run(&world, text, 5, None).expect("a page").rows.len(), 5);
    let world = world.with_query_memory(4 << 10);
    let refused = run(&world, text, 5, None);
    assert!(matches!(refused, Err(Error::RateLimited { .. })), "{refused:?}");
}

#[test]
fn a_short_query_is_answered_while_all_long_ones_are_under_way() {
    let world = world();
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let request = |text: &str| {
        let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
        QueryRequest::parse(&json(&body)).expect(text)
    };
    let product = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.l JOIN b IN c.l JOIN d IN c.l \
                   JOIN e IN c.l JOIN f IN c.l JOIN g IN c.l JOIN h IN c.l";
    let size = PageSize { items: 10 };
    let token = CancellationToken::default();
    std::thread::scope(|scope_of| {
        let long = || {
            let paging = Paging { crosses: true, cancellation: Some(&token), ..Paging::default() };
            world.engine().queries().query_items(
                &container,
                &scope,
                &request(product),
                size,
                &paging,
            )
        };
        let long: Vec<_> = (0..24).map(|_| scope_of.spawn(long)).collect();
        for n in 0..40 {
            let text = format!("SELECT VALUE c.id FROM c WHERE c.n = {n}");
            let paging = Paging { crosses: true, ..Paging::default() };
            let page = world.engine().queries().query_items(
                &container,
                &scope,
                &request(&text),
                size,
                &paging,
            );
            assert_eq!(page.expect("a page").rows, [format!("\"{n}\"")]);
        }
        token.cancel();
        // None of them had ended: an end by itself is an error of another kind.
        for long in long {
            let ended = long.join().expect("no panic");
            assert!(matches!(ended, Err(Error::Timeout(_))), "{ended:?}");
        }
    });
}
