//! Paging: stopping at any row and going on gives the same rows, and only a genuine token of the
//! same query is taken.

use orrery_query::{ContainerFacts, PageLimits, Query, QueryError, SeekPosition};
use orrery_types::Value;

use crate::memory::{MemorySource, all_rows, context, page};

fn items() -> Vec<Value> {
    let text = r#"[
        {"id":"1","g":"a","t":[1,2,3]}, {"id":"2","g":"b","t":[]}, {"id":"3","g":"a","t":[4]},
        {"id":"4","t":[5,6]}, {"id":"5","g":"b"}, {"id":"6","g":"c","t":[7,8,9,10]}]"#;
    Value::parse(text.as_bytes()).expect("items").as_array().expect("a list").to_vec()
}

#[test]
fn every_page_size_gives_the_same_rows() {
    for text in [
        "SELECT * FROM c",
        "SELECT VALUE t FROM c JOIN t IN c.t",
        "SELECT VALUE [t, u] FROM c JOIN t IN c.t JOIN u IN c.t WHERE t != u",
        "SELECT VALUE t FROM t IN c.t",
        "SELECT VALUE s.x FROM (SELECT t AS x FROM c JOIN t IN c.t WHERE t > 2) s",
        "SELECT VALUE c.g FROM c",
        "SELECT TOP 4 VALUE t FROM c JOIN t IN c.t",
        "SELECT VALUE t FROM c JOIN t IN c.t OFFSET 2 LIMIT 5",
        "SELECT VALUE t FROM c JOIN t IN c.t OFFSET 3 LIMIT 5",
        "SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g ORDER BY c.g DESC",
        "SELECT VALUE s.g FROM (SELECT c.g FROM c) s ORDER BY s.g",
        "SELECT VALUE c.id FROM c ORDER BY c.g DESC",
        "SELECT VALUE c.id FROM c ORDER BY c.g OFFSET 1 LIMIT 3",
        "SELECT DISTINCT VALUE c.g FROM c",
        "SELECT DISTINCT TOP 2 VALUE c.g FROM c",
        "SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT VALUE x FROM x IN (SELECT VALUE [1, 2, 3])",
        "SELECT VALUE s FROM (SELECT DISTINCT VALUE c.g FROM c) s WHERE s != 'b'",
    ] {
        let query = Query::parse(text).unwrap().bind(&[], &ContainerFacts::default()).unwrap();
        let whole = all_rows(&query, &items(), 1000, &context()).unwrap();
        assert!(!whole.is_empty(), "{text}");
        for rows_max in 1..8 {
            let paged = all_rows(&query, &items(), rows_max, &context()).unwrap();
            assert_eq!(paged, whole, "{text} in pages of {rows_max}");
        }
    }
}

#[test]
fn a_page_is_also_bounded_in_size() {
    let query = Query::parse("SELECT * FROM c").unwrap();
    let query = query.bind(&[], &ContainerFacts::default()).unwrap();
    let limits = PageLimits { rows_max: 1000, bytes_max: 1 };
    let page =
        crate::memory::page(&query, &mut MemorySource::new(items()), None, limits, &context())
            .unwrap();
    assert_eq!(page.rows.len(), 1);
    assert!(page.continuation.is_some());
}

#[test]
fn the_last_full_page_has_no_continuation() {
    let query = Query::parse("SELECT * FROM c").unwrap();
    let query = query.bind(&[], &ContainerFacts::default()).unwrap();
    let limits = PageLimits { rows_max: 6, ..PageLimits::default() };
    let page =
        crate::memory::page(&query, &mut MemorySource::new(items()), None, limits, &context())
            .unwrap();
    assert_eq!((page.rows.len(), page.continuation, page.items_read), (6, None, 6));
}

#[test]
fn a_vanished_item_does_not_swallow_rows_of_the_next() {
    let query = Query::parse("SELECT VALUE t FROM c JOIN t IN c.t").unwrap();
    let query = query.bind(&[], &ContainerFacts::default()).unwrap();
    let limits = PageLimits { rows_max: 2, ..PageLimits::default() };
    let first = page(&query, &mut MemorySource::new(items()), None, limits, &context()).unwrap();
    // The token stands in the middle of the first item; that item is replaced by a later one.
    let mut source = Shifted(MemorySource::new(items()));
    let token = first.continuation.as_deref();
    let second = page(&query, &mut source, token, limits, &context()).unwrap();
    let rows: Vec<Value> = second.rows.into_iter().map(orrery_query::Row::into_value).collect();
    assert_eq!(rows, [Value::from(4), Value::from(5)]);
}

/// A source whose first item was deleted after the token was made.
struct Shifted(MemorySource);

impl orrery_query::ItemSource for Shifted {
    fn seek(&mut self, _: SeekPosition<'_>) -> orrery_types::Result<()> {
        self.0.seek(SeekPosition::Key(&2_usize.to_be_bytes()))
    }

    fn next_batch(&mut self, n: usize) -> orrery_types::Result<Vec<orrery_query::SourceItem>> {
        self.0.next_batch(n)
    }
}

#[test]
fn tokens_of_other_queries_or_parameters_are_refused() {
    let facts = ContainerFacts::default();
    let bind = |text: &str, value: i64| {
        let parameters = [("@a".to_owned(), Value::from(value))];
        Query::parse(text).unwrap().bind(&parameters, &facts).unwrap()
    };
    let limits = PageLimits { rows_max: 1, ..PageLimits::default() };
    let text = "SELECT c.id, @a AS a FROM c";
    let page = crate::memory::page(
        &bind(text, 1),
        &mut MemorySource::new(items()),
        None,
        limits,
        &context(),
    );
    let token = page.unwrap().continuation.unwrap();
    assert!(token.bytes().all(|b| b.is_ascii_graphic()), "fit for a header");
    let resume = |query: &orrery_query::BoundQuery| {
        let mut source = MemorySource::new(items());
        let page = crate::memory::page(query, &mut source, Some(&token), limits, &context());
        page.map(|page| page.rows.len())
    };
    assert_eq!(resume(&bind(text, 1)), Ok(1));
    assert_eq!(resume(&bind("select c.id, @a as a from c", 1)), Ok(1), "the same query");
    assert_eq!(resume(&bind(text, 2)), Err(QueryError::Token));
    assert_eq!(resume(&bind("SELECT c.id FROM c ORDER BY c.id", 1)), Err(QueryError::Token));
}
