//! ORDER BY over several ranges, merged by the client and resumed from every page: by the
//! `resumeFilter` of .NET since 3.39, and by a changed filter together with a token, as .NET before
//! that, Java and JavaScript do it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt::Write as _;

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryPage, QueryRequest};
use orrery_query::SortValue;
use orrery_types::{Error, KeyRange, Object, PartitionKey, Result, Value};

use crate::split_merge::{split, upsert};
use crate::world::{World, json};

const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
    "indexingPolicy":{"compositeIndexes":[[{"path":"/n"},{"path":"/s","order":"descending"}]]}}"#;

/// How a client says where to go on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flow {
    ResumeFilter,
    ChangedFilter,
}

/// Items of many keys, with every type at `v` and duplicates of each.
fn filled(throughput: Option<i64>, flow: Flow) -> World {
    let mut world = World::memory();
    world.database();
    world.create_container(DEFINITION, throughput);
    let long = format!("\"{}\"", "x".repeat(900));
    let mut values = vec!["null", "false", "true", "-1.5", "7", "7", "9007199254740993", "\"\""];
    values.extend(["\"a\"", "\"it's \\\"so\\\"\""]);
    if flow == Flow::ResumeFilter {
        values.extend(["[]", "[1]", "[1]", "[1,[2]]", "{}", "{\"a\":1}", "{\"a\":{\"b\":[]}}"]);
        values.push(&long);
    }
    for n in 0..36 {
        let v = match values.get(n % (values.len() + 1)) {
            Some(value) => format!(",\"v\":{value}"),
            None => String::new(),
        };
        let (p, few, s) = (n % 7, n % 4, n % 5);
        let tags = ["[]", "[1]", "[1,2,3]"][n % 3];
        let text =
            format!(r#"{{"id":"{n:02}","p":{p},"n":{few},"s":"s{s}","same":1,"tags":{tags}{v}}}"#);
        upsert(&world, &text).expect("an upsert");
    }
    world
}

/// What a client knows of a query.
struct Planned {
    rewritten: String,
    expressions: Vec<String>,
    descends: Vec<bool>,
    skip: usize,
    take: usize,
    key: Option<PartitionKey>,
}

impl Planned {
    fn new(world: &World, text: &str, key: Option<PartitionKey>) -> Self {
        let container = world.container("c");
        let request = ScopeRequest { partition_key: key.clone(), ..ScopeRequest::default() };
        let scope = container.scope(&request).expect("a scope");
        let plan = world.engine().queries().query_plan(
            &container,
            &scope,
            &query(text, None).expect(text),
        );
        let plan = json(&plan.expect(text));
        let info = plan.get("queryInfo");
        let texts = |name: &str| -> Vec<String> {
            let list = info.get(name).as_array().expect("a list");
            list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
        };
        let count = |name: &str| info.get(name).as_i64().and_then(|n| usize::try_from(n).ok());
        Self {
            rewritten: info.get("rewrittenQuery").as_str().expect("a text").to_owned(),
            expressions: texts("orderByExpressions"),
            descends: texts("orderBy").iter().map(|order| order == "Descending").collect(),
            skip: count("offset").unwrap_or(0),
            take: count("top").or(count("limit")).unwrap_or(usize::MAX),
            key,
        }
    }

    fn compare(&self, a: &[SortValue], b: &[SortValue]) -> Ordering {
        for ((a, b), descends) in a.iter().zip(b).zip(&self.descends) {
            let order = if *descends { b.cmp(a) } else { a.cmp(b) };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

fn query(text: &str, resume: Option<Value>) -> Result<QueryRequest> {
    let mut body = Object::new();
    body.set("query", text.into());
    body.set("resumeFilter", resume.unwrap_or_default());
    QueryRequest::parse(&Value::object(body))
}

/// A row of a rewritten query.
#[derive(Clone, Debug)]
struct Merged {
    rid: String,
    items: Vec<Value>,
    keys: Vec<SortValue>,
    payload: Value,
}

fn merged(text: &str) -> Merged {
    let row = json(text);
    let items = row.get("orderByItems").as_array().expect("keys").to_vec();
    let items: Vec<Value> = items.iter().map(|item| item.get("item").clone()).collect();
    let keys = items.iter().map(SortValue::of).collect();
    let rid = row.get("_rid").as_str().expect("a rid").to_owned();
    Merged { rid, items, keys, payload: row.get("payload").clone() }
}

/// What a client hands to its user between pages.
#[derive(Clone, Debug)]
struct ClientToken {
    range: KeyRange,
    backend: Option<String>,
    last: Merged,
    skip: usize,
}

/// Where a range stands in relation to the one in which a page stopped.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Target,
    Right,
}

/// One range that is read.
struct Producer {
    id: String,
    range: KeyRange,
    text: String,
    filter: Option<Value>,
    page: VecDeque<Merged>,
    start: Option<String>,
    next: Option<String>,
    begun: bool,
}

impl Producer {
    fn fetch(&mut self, world: &World, planned: &Planned, items: usize) {
        self.start = self.next.take();
        let container = world.container("c");
        let scope = ScopeRequest {
            partition_key: planned.key.clone(),
            range_id: Some(self.id.as_str().into()),
            ..ScopeRequest::default()
        };
        let scope = container.scope(&scope).expect("a scope");
        let request = query(&self.text, self.filter.clone()).expect("a request");
        let paging =
            Paging { continuation: self.start.as_deref(), merges: true, ..Paging::default() };
        let page = world.engine().queries().query_items(
            &container,
            &scope,
            &request,
            size(items),
            &paging,
        );
        let QueryPage { rows, continuation, .. } =
            page.unwrap_or_else(|e| panic!("{e}: {} {:?}", self.text, self.filter));
        self.page = rows.iter().map(|row| merged(row)).collect();
        self.next = continuation;
        self.begun = true;
    }

    /// Fetches until there is a row, or none is left.
    fn fill(&mut self, world: &World, planned: &Planned, items: usize) {
        while self.page.is_empty() && (!self.begun || self.next.is_some()) {
            self.fetch(world, planned, items);
        }
    }

    /// Leaves out what the last page of the client had.
    fn pass(&mut self, world: &World, planned: &Planned, items: usize, token: &ClientToken) {
        let mut skip = token.skip;
        loop {
            self.fill(world, planned, items);
            let Some(row) = self.page.front() else { return };
            let mut order = planned.compare(&token.last.keys, &row.keys);
            if order.is_eq() {
                let rows = [&token.last.rid, &row.rid].map(|rid| number(rid));
                let turned = planned.descends.first() == Some(&true);
                order = if turned { rows[1].cmp(&rows[0]) } else { rows[0].cmp(&rows[1]) };
            }
            match order {
                Ordering::Less => return,
                Ordering::Equal if skip == 0 => return,
                Ordering::Equal => skip -= 1,
                Ordering::Greater => {}
            }
            self.page.pop_front();
        }
    }
}

fn number(rid: &str) -> u64 {
    match rid.parse() {
        Ok(orrery_types::ids::Rid::Child { number, .. }) => number,
        other => panic!("{rid}: {other:?}"),
    }
}

fn size(items: usize) -> PageSize {
    PageSize { items }
}

/// The position as .NET writes it.
fn resume_filter(token: &ClientToken, side: Side) -> Value {
    let value = |key: &SortValue| match key {
        SortValue::Scalar(Value::Undefined) => json("[]"),
        SortValue::Scalar(value) => value.clone(),
        SortValue::Array(hash) => hashed("array", hash),
        SortValue::Object(hash) => hashed("object", hash),
    };
    let mut filter = Object::new();
    filter.set("value", Value::array(token.last.keys.iter().map(value).collect()));
    if side == Side::Target {
        filter.set("rid", token.last.rid.as_str().into());
    }
    filter.set("exclude", (side == Side::Left).into());
    Value::object(filter)
}

fn hashed(kind: &str, hash: &[u8; 16]) -> Value {
    let half = |at: usize| i64::from_le_bytes(hash[at..at + 8].try_into().expect("8 bytes"));
    json(&format!(r#"{{"type":"{kind}","low":{},"high":{}}}"#, half(0), half(8)))
}

const TYPES: [&str; 7] =
    ["NOT IS_DEFINED", "IS_NULL", "IS_BOOLEAN", "IS_NUMBER", "IS_STRING", "IS_ARRAY", "IS_OBJECT"];

/// The position as a condition, type after type and key after key.
fn condition(planned: &Planned, items: &[Value], side: Side) -> String {
    let mut alternatives = Vec::new();
    for prefix in 1..=items.len() {
        let mut parts = Vec::new();
        for (at, item) in items[..prefix].iter().enumerate() {
            let expression = &planned.expressions[at];
            let literal = item.to_json();
            if at + 1 < prefix {
                parts.push(match item {
                    Value::Undefined => format!("(NOT IS_DEFINED({expression}))"),
                    _ => format!("({expression} = {literal})"),
                });
                continue;
            }
            let descends = planned.descends[at];
            let included = prefix == items.len() && side != Side::Left;
            let sign = if descends { "<" } else { ">" };
            let equal = if included { "=" } else { "" };
            let mut text = match (item, descends, included) {
                (Value::Undefined, true, false) => "false".to_owned(),
                (Value::Undefined, true, true) => format!("NOT IS_DEFINED({expression})"),
                (Value::Undefined, false, false) => format!("IS_DEFINED({expression})"),
                (Value::Undefined, false, true) => "true".to_owned(),
                _ => format!("{expression} {sign}{equal} {literal}"),
            };
            let rank = usize::from(item.type_rank());
            let further = if descends { &TYPES[..rank] } else { &TYPES[rank + 1..] };
            for test in further {
                let _ = write!(text, " OR {test}({expression})");
            }
            parts.push(format!("({text})"));
        }
        alternatives.push(format!("({})", parts.join(" AND ")));
    }
    alternatives.join(" OR ")
}

const PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";

/// One page of a client that begins anew with each page, as a web server does.
fn page(
    world: &World,
    planned: &Planned,
    flow: Flow,
    items: usize,
    token: Option<&ClientToken>,
) -> (Vec<Merged>, Option<ClientToken>) {
    let mut producers: Vec<Producer> = Vec::new();
    for partition in &world.container("c").partitions {
        if let Some(key) = &planned.key {
            let definition = &world.container("c").definition.partition_key;
            if !partition.range.contains(&definition.effective(key)) {
                continue;
            }
        }
        let range = partition.range.clone();
        let side = token.map(|token| match () {
            () if range.max <= token.range.min => Side::Left,
            () if token.range.max <= range.min => Side::Right,
            () => Side::Target,
        });
        let (mut text, mut filter) = ("true".to_owned(), None);
        if let (Some(token), Some(side)) = (token, side) {
            match flow {
                Flow::ResumeFilter => filter = Some(resume_filter(token, side)),
                Flow::ChangedFilter => text = condition(planned, &token.last.items, side),
            }
        }
        let is_target = side == Some(Side::Target);
        let mut producer = Producer {
            id: partition.id.to_string(),
            range,
            text: planned.rewritten.replace(PLACEHOLDER, &text),
            filter,
            page: VecDeque::new(),
            start: None,
            next: token.filter(|_| is_target).and_then(|token| token.backend.clone()),
            begun: false,
        };
        match token.filter(|_| is_target) {
            Some(token) => producer.pass(world, planned, items, token),
            None => producer.fill(world, planned, items),
        }
        producers.push(producer);
    }
    drain(planned, items, &mut producers)
}

/// Merges until the page is full or a range has to be asked again.
fn drain(
    planned: &Planned,
    items: usize,
    producers: &mut [Producer],
) -> (Vec<Merged>, Option<ClientToken>) {
    let mut rows: Vec<Merged> = Vec::new();
    let mut token = None;
    while rows.len() < items {
        let heads = producers.iter().enumerate().filter_map(|(at, p)| Some((at, p.page.front()?)));
        let least = heads.min_by(|(i, a), (j, b)| {
            let ranges = || producers[*i].range.min.cmp(&producers[*j].range.min);
            planned.compare(&a.keys, &b.keys).then_with(ranges)
        });
        let Some(at) = least.map(|(at, _)| at) else { break };
        let producer = &mut producers[at];
        let row = producer.page.pop_front().expect("a row");
        rows.push(row.clone());
        let is_drained = producer.page.is_empty() && producer.next.is_some();
        let same = rows.iter().filter(|r| r.rid == row.rid).count();
        let (backend, skip) =
            if is_drained { (producer.next.clone(), 0) } else { (producer.start.clone(), same) };
        token = Some(ClientToken { range: producer.range.clone(), backend, last: row, skip });
        if is_drained {
            break;
        }
    }
    let left = producers.iter().any(|p| !p.page.is_empty() || p.next.is_some());
    (rows, token.filter(|_| left))
}

/// All rows, of which `between` is called after so many pages.
fn all(
    world: &World,
    planned: &Planned,
    flow: Flow,
    items: usize,
    between: &dyn Fn(usize),
) -> Vec<Merged> {
    let (mut rows, mut token) = (Vec::new(), None);
    for pages in 1..500 {
        let (more, next) = page(world, planned, flow, items, token.as_ref());
        rows.extend(more);
        let reach = planned.skip.saturating_add(planned.take);
        if next.is_none() || rows.len() >= reach {
            rows.truncate(reach);
            return rows.split_off(planned.skip.min(rows.len()));
        }
        token = next;
        between(pages);
    }
    panic!("a query without end: {}", planned.rewritten);
}

fn texts(rows: &[Merged]) -> Vec<String> {
    rows.iter().map(|row| row.payload.to_json()).collect()
}

fn check(world: &World, planned: &Planned, flow: Flow, items: usize) {
    check_with(world, planned, flow, items, &|_| {}, false);
}

fn check_with(
    world: &World,
    planned: &Planned,
    flow: Flow,
    items: usize,
    between: &dyn Fn(usize),
    may_repeat: bool,
) {
    let whole = all(world, planned, flow, 1000, &|_| {});
    assert!(whole.len() > 1, "{}", planned.rewritten);
    let resumed = all(world, planned, flow, items, between);
    let context = || format!("{flow:?}, pages of {items}: {}", planned.rewritten);
    let sorted = resumed.is_sorted_by(|a, b| planned.compare(&a.keys, &b.keys).is_le());
    assert!(sorted, "{}: {:?}", context(), texts(&resumed));
    let (mut expected, mut found) = (texts(&whole), texts(&resumed));
    expected.sort_unstable();
    found.sort_unstable();
    if may_repeat {
        expected.dedup();
        found.dedup();
    }
    assert_eq!(found, expected, "{}", context());
}

const QUERIES: [&str; 14] = [
    "SELECT * FROM c ORDER BY c.v",
    "SELECT VALUE c.id FROM c ORDER BY c.v DESC",
    "SELECT VALUE c.id FROM c WHERE c.n > 0 ORDER BY c.v",
    "SELECT VALUE c.id FROM c ORDER BY c.same",
    "SELECT VALUE c.id FROM c ORDER BY c.same DESC",
    "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.n",
    "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.v DESC",
    "SELECT c.id, c.n, c.s FROM c ORDER BY c.n, c.s DESC",
    "SELECT VALUE c.id FROM c ORDER BY c.n DESC, c.s",
    "SELECT TOP 17 VALUE c.id FROM c ORDER BY c.id",
    "SELECT VALUE c.id FROM c ORDER BY c.id DESC OFFSET 5 LIMIT 20",
    "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n",
    "SELECT VALUE c.tags FROM c ORDER BY c.tags",
    "SELECT VALUE c.id FROM c WHERE c.id IN ('01','05','11','12','30') ORDER BY c.n",
];

#[test]
fn every_ordered_query_is_resumed_from_every_page() {
    for flow in [Flow::ResumeFilter, Flow::ChangedFilter] {
        for throughput in [None, Some(30_000)] {
            let world = filled(throughput, flow);
            for text in QUERIES {
                if flow == Flow::ChangedFilter && text.contains("c.tags FROM") {
                    continue; // Arrays have no operators.
                }
                let planned = Planned::new(&world, text, None);
                for items in [1, 2, 3, 7, 20] {
                    check(&world, &planned, flow, items);
                }
            }
        }
    }
}

/// The token of a client names one range. After a split, those of its ranges that lie behind that one
/// begin with the value at which it stopped: rows with equal keys may come again, and none is lost.
#[test]
fn an_ordered_query_goes_on_across_a_split() {
    let by_id = ["SELECT VALUE c.id FROM c ORDER BY c.id", QUERIES[9], QUERIES[10]];
    let with_ties = [QUERIES[0], QUERIES[1], QUERIES[4], QUERIES[5], QUERIES[8]];
    for flow in [Flow::ResumeFilter, Flow::ChangedFilter] {
        for text in by_id.iter().chain(&with_ties) {
            for after in 1..6 {
                let world = filled(None, flow);
                let planned = Planned::new(&world, text, None);
                let splits = |pages| {
                    if pages == after {
                        split(&world, None);
                    }
                };
                let may_repeat = with_ties.contains(text);
                check_with(&world, &planned, flow, 5, &splits, may_repeat);
            }
        }
    }
}

#[test]
fn the_server_counts_what_it_skips_in_one_logical_partition() {
    let flow = Flow::ResumeFilter;
    for throughput in [None, Some(30_000)] {
        let world = filled(throughput, flow);
        let key = PartitionKey::parse_header("[1]").expect("a key");
        for text in [
            "SELECT VALUE c.id FROM c ORDER BY c.v OFFSET 1 LIMIT 3",
            "SELECT VALUE c.id FROM c ORDER BY c.same DESC OFFSET 2 LIMIT 9",
            "SELECT TOP 4 VALUE c.id FROM c ORDER BY c.n",
        ] {
            let planned = Planned::new(&world, text, Some(key.clone()));
            for items in 1..5 {
                check(&world, &planned, flow, items);
            }
        }
    }
}

fn one(world: &World, text: &str, resume: Option<&str>, token: Option<&str>) -> Result<QueryPage> {
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let paging = Paging { crosses: true, continuation: token, ..Paging::default() };
    let request = query(text, resume.map(json))?;
    world.engine().queries().query_items(&container, &scope, &request, size(2), &paging)
}

#[test]
fn a_position_is_before_at_or_behind_a_value() {
    let world = filled(None, Flow::ResumeFilter);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let first =
        |resume: &str| one(&world, text, Some(resume), None).expect("a page").rows[0].clone();
    assert_eq!(first(r#"{"value":[1],"exclude":true}"#), "2");
    assert_eq!(first(r#"{"value":[1],"exclude":false}"#), "1");
    assert_eq!(first(r#"{"value":[0.5]}"#), "1");
    assert_eq!(first(r#"{"value":[[]],"exclude":true}"#), "0", "all lack nothing");
    // Of a token and a filter the further one counts.
    let token = one(&world, text, Some(r#"{"value":[2]}"#), None).expect("a page").continuation;
    let rows = |resume: &str| {
        one(&world, text, Some(resume), token.as_deref()).expect("a page").rows.clone()
    };
    assert_eq!(rows(r#"{"value":[1]}"#), ["2", "2"]);
    assert_eq!(rows(r#"{"value":[2],"exclude":true}"#), ["3", "3"]);
}

#[test]
fn what_is_no_position_is_refused() {
    let world = filled(None, Flow::ResumeFilter);
    let ordered = "SELECT VALUE c.n FROM c ORDER BY c.n";
    for (text, resume) in [
        (ordered, "5"),
        (ordered, "{}"),
        (ordered, r#"{"value":[]}"#),
        (ordered, r#"{"value":[1,2]}"#),
        (ordered, r#"{"value":[[1]]}"#),
        (ordered, r#"{"value":[{"type":"array"}]}"#),
        (ordered, r#"{"value":[1],"rid":"nonsense"}"#),
        (ordered, r#"{"value":[1],"rid":7}"#),
        (ordered, r#"{"value":[1],"rid":"AAAAAA=="}"#),
        (ordered, r#"{"value":[1],"exclude":"yes"}"#),
        ("SELECT * FROM c", r#"{"value":[1]}"#),
        ("SELECT VALUE COUNT(1) FROM c", r#"{"value":[1]}"#),
        ("SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n", r#"{"value":[1]}"#),
    ] {
        let refused = one(&world, text, Some(resume), None);
        let invalid = matches!(refused, Err(Error::Invalid(_) | Error::Query(_)));
        assert!(invalid, "{text} {resume}: {refused:?}");
    }
}

#[test]
fn a_token_belongs_to_an_order_and_not_to_a_filter() {
    let world = filled(None, Flow::ResumeFilter);
    let given = "SELECT VALUE c.id FROM c WHERE c.n >= 0 ORDER BY c.n";
    let token = one(&world, given, None, None).expect("a page").continuation.expect("a token");
    for (text, taken) in [
        ("SELECT VALUE c.id FROM c WHERE c.n >= 1 ORDER BY c.n", true),
        ("SELECT VALUE c.id FROM c WHERE c.n >= 0 ORDER BY c.n DESC", false),
        ("SELECT VALUE c.id FROM c WHERE c.n >= 0 ORDER BY c.s", false),
        ("SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE c.n >= 0 ORDER BY c.n", false),
        ("SELECT VALUE c.id FROM c WHERE c.n >= 0", false),
        ("SELECT DISTINCT VALUE c.id FROM c WHERE c.n >= 0", false),
    ] {
        let page = one(&world, text, None, Some(&token));
        assert_eq!(page.is_ok(), taken, "{text}: {page:?}");
    }
    for token in ["", "nonsense", &token[1..], &format!("{token}AA")] {
        assert!(one(&world, given, None, Some(token)).is_err(), "{token}");
    }
}
