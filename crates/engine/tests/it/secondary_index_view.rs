//! Comparing a global secondary index with the query that defines it: both as sorted texts, one for each item.

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::{Container, Engine};
use orrery_types::{Object, Result, Value};

use crate::world::json;

const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// All rows of a query, of all ranges.
pub(crate) fn rows(engine: &Engine, container: &Container, query: &str) -> Vec<Value> {
    try_rows(engine, container, query).expect("rows")
}

fn try_rows(engine: &Engine, container: &Container, query: &str) -> Result<Vec<Value>> {
    let mut body = Object::new();
    body.set("query", query.into());
    let request = QueryRequest::parse(&Value::object(body)).expect("a query");
    let whole = container.scope(&ScopeRequest::default()).expect("a scope");
    let (mut rows, mut from) = (Vec::new(), None);
    loop {
        let paging = Paging { crosses: true, continuation: from.as_deref(), ..Paging::default() };
        let size = PageSize { items: 1000 };
        let page = engine.queries().query_items(container, &whole, &request, size, &paging);
        let page = page?;
        rows.extend(page.rows.iter().map(|row| json(row)));
        from = page.continuation;
        if from.is_none() {
            return Ok(rows);
        }
    }
}

/// Properties in the order of their names, but for some.
fn sorted_text(object: &Value, but: &[&str]) -> String {
    let object = object.as_object().expect("an object");
    let kept = object.iter().filter(|(name, _)| !but.contains(&&***name));
    let mut properties: Vec<String> =
        kept.map(|(name, value)| format!("{name}={}", value.to_json())).collect();
    properties.sort();
    properties.join(" ")
}

/// What an index has: its items without their own ids.
pub(crate) fn shown(engine: &Engine, index: &Container) -> Vec<String> {
    try_shown(engine, index).expect("items")
}

/// The same on a store that may fail.
pub(crate) fn try_shown(engine: &Engine, index: &Container) -> Result<Vec<String>> {
    let items = try_rows(engine, index, "SELECT * FROM c")?;
    let but = [&["id"][..], &SYSTEM].concat();
    let mut texts: Vec<String> = items.iter().map(|item| sorted_text(item, &but)).collect();
    texts.sort();
    Ok(texts)
}

/// What the query that defines an index returns. `names` are those of its items, none for `SELECT *`.
pub(crate) fn defined(
    engine: &Engine,
    source: &Container,
    definition: &str,
    names: &[&str],
) -> Vec<String> {
    let row = |row: &Value| {
        let mut row = row.as_object().expect("an object").clone();
        if let Some(id) = row.remove("id") {
            row.set("_id", id);
        }
        for name in names.iter().filter(|name| row.get(name).is_none()).copied().collect::<Vec<_>>()
        {
            row.set(name, Value::Null);
        }
        sorted_text(&Value::object(row), &SYSTEM)
    };
    let mut texts: Vec<String> = rows(engine, source, definition).iter().map(row).collect();
    texts.sort();
    texts
}

/// Nothing is wrong with a container, nor with what it has of an index.
#[track_caller]
pub(crate) fn assert_sound(engine: &Engine, containers: &[&Container]) {
    for container in containers {
        let faults = engine.insight().verify(container).expect("it is verified");
        assert!(faults.is_empty(), "{container:?}: {faults:#?}");
    }
}
