//! Relations without a database: names are bound where they hang, and lists in parts are read no
//! further than a page needs.

use std::cell::RefCell;

use super::*;
use crate::plan::access::SourceOrder;
use crate::{
    ContainerFacts, EvalContext, ItemSource, PageLimits, Query, Resume, Run, SeekPosition,
    SourceItem, execute,
};

/// `c.list` comes in parts of ten, `c.one` and `c.a[].one` lead to an item.
struct Names;

impl Relations for Names {
    fn root(&self) -> usize {
        0
    }

    fn find(&self, container: usize, holder: &[HolderStep], name: &str) -> Option<Navigation> {
        let in_element = [HolderStep::Name("a".into()), HolderStep::Element];
        let number = match (holder, name) {
            ([], "list") => 0,
            ([], "one") => 1,
            (steps, "one") if *steps == in_element => 2,
            _ => return None,
        };
        let members = ["id"].map(Arc::from).into();
        Some(Navigation {
            number,
            target: container,
            many: number == 0,
            members,
            path: name.into(),
        })
    }
}

#[derive(Default)]
struct Host(RefCell<Vec<usize>>);

impl RelationHost for Host {
    fn follow(&self, number: usize, item: &Value, holder: &Value) -> orrery_types::Result<Value> {
        let mut object = orrery_types::Object::new();
        object.set("n", i64::try_from(number).unwrap_or(0).into());
        object.set("of", item.get("id").clone());
        object.set("x", holder.get("x").clone());
        Ok(Value::object(object))
    }

    fn parts(&self, number: usize, _: &Value, _: &Value) -> orrery_types::Result<Option<Vec<u64>>> {
        Ok((number == 0).then(|| vec![10; 10]))
    }

    fn part(&self, _: usize, _: &Value, _: &Value, at: usize) -> orrery_types::Result<Vec<Value>> {
        self.0.borrow_mut().push(at);
        let first = i64::try_from(at * 10).unwrap_or(0);
        Ok((first..first + 10).map(Value::from).collect())
    }
}

struct One(Option<SourceItem>);

impl ItemSource for One {
    fn seek(&mut self, _: SeekPosition<'_>) -> orrery_types::Result<()> {
        Ok(())
    }

    fn next_batch(&mut self, _: usize) -> orrery_types::Result<Vec<SourceItem>> {
        Ok(self.0.take().into_iter().collect())
    }
}

/// All rows in pages of so many, and the parts that were loaded.
fn run(text: &str, rows_max: usize) -> (Vec<String>, Vec<usize>) {
    let facts = ContainerFacts { relations: Some(&Names), ..ContainerFacts::default() };
    let query = Query::parse(text).expect(text).bind(&[], &facts).expect(text);
    let host = Host::default();
    let budget = orrery_types::ExecutionBudget::default();
    let context = EvalContext { relations: Some(&host), ..EvalContext::new(&budget) };
    let (mut rows, mut resume) = (Vec::new(), None);
    loop {
        let value = Value::parse(br#"{"id":"i","a":[{"x":1},{"x":2}]}"#).expect("JSON");
        let item = SourceItem { value, text: None, row: 1, key: Box::new([1]) };
        let run = Run { resume, filter: None, order: SourceOrder::Keys, chosen_order: None };
        let limits = PageLimits { rows_max, ..PageLimits::default() };
        let page = execute(&query, &mut One(Some(item)), &run, limits, &context).expect(text);
        rows.extend(page.rows.iter().map(|row| row.to_json(0)));
        let Some(token) = page.continuation else { break };
        resume = Some(Resume::parse(&token, &query).expect("a token"));
    }
    (rows, host.0.into_inner())
}

#[test]
fn names_are_bound_where_they_hang() {
    let check = |text: &str, expected: &[&str]| assert_eq!(run(text, 100).0, expected, "{text}");
    check("SELECT VALUE c.one.n FROM c", &["1"]);
    check("SELECT VALUE e.one.x FROM c JOIN e IN c.a", &["1", "2"]);
    check("SELECT VALUE c.a[1]['one'].of FROM c", &["\"i\""]);
    check("SELECT VALUE e.one FROM c JOIN e IN c.other", &[]);
    check("SELECT VALUE IS_DEFINED(c.b.one) FROM c", &["false"]);
    check(
        "SELECT VALUE e.one.x FROM c JOIN (SELECT VALUE e FROM e IN c.a WHERE e.x > 1) e",
        &["2"],
    );
    check("SELECT VALUE s.one.n FROM (SELECT VALUE c FROM c) s", &["1"]);
}

#[test]
fn a_page_loads_the_parts_that_it_shows() {
    let (rows, parts) = run("SELECT VALUE e FROM c JOIN e IN c.list OFFSET 35 LIMIT 10", 100);
    assert_eq!(rows, (35..45).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(parts, [3, 4]);
    let (rows, parts) = run("SELECT e AS n FROM c JOIN e IN c.list WHERE c.id = 'i'", 25);
    assert_eq!(rows.len(), 100);
    assert_eq!(rows[99], r#"{"n":99}"#);
    assert!(parts.len() <= 14, "{parts:?}");
    // Elements that have to be looked at are.
    let (rows, parts) =
        run("SELECT VALUE e FROM c JOIN e IN c.list WHERE e >= 50 OFFSET 10 LIMIT 5", 100);
    assert_eq!(rows, ["60", "61", "62", "63", "64"]);
    assert_eq!(parts, [0, 1, 2, 3, 4, 5, 6]);
    let (rows, _) = run("SELECT VALUE COUNT(1) FROM c JOIN e IN c.list", 100);
    assert_eq!(rows, ["100"]);
    let (rows, parts) =
        run("SELECT VALUE e FROM c JOIN e IN c.list WHERE c.id = 'x' OFFSET 5 LIMIT 5", 9);
    assert!(rows.is_empty() && parts.is_empty());
}
