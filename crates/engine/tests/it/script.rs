//! Scripts on a real engine: what a procedure, a trigger or a function does to items, that all of it
//! happens or nothing, and that scripts which misbehave harm nobody else.

use std::sync::Arc;

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::item::read::Written;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::relations::Reach;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_engine::script::{
    Bounds, CallFacts, ScriptKind, TriggerNames, TriggeredWrite, WriteKind,
};
use orrery_engine::{Container, Engine};
use orrery_types::{Error, PartitionKey, Result, SystemClock, Value, limits};

use crate::stores::new_store;
use crate::world::{World, json, manual, name};

/// A container `c` of books and authors under `/pk`, on memory.
struct Shelf {
    engine: Engine,
    container: Arc<Container>,
}

const NONE: Preconditions =
    Preconditions { if_match: None, if_none_match: None, reach: Reach::Database };

impl Shelf {
    fn new() -> Self {
        Self::bounded(Bounds { run_ms: 60_000, ..Bounds::default() })
    }

    fn bounded(bounds: Bounds) -> Self {
        let store = new_store();
        let engine = Engine::open(store, Arc::new(SystemClock), 1).expect("an engine");
        let engine = engine.with_script_bounds(bounds);
        engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
        let body = json(r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#);
        engine.containers().create(&name("d"), &body, &manual(None)).expect("a container");
        let container = engine.containers().read(&name("d"), &name("c")).expect("the container");
        Self { engine, container }
    }

    fn script(&self, kind: ScriptKind, id: &str, body: &str) {
        let properties = format!(
            r#"{{"id":"{id}","body":{},"triggerType":"{}","triggerOperation":"All"}}"#,
            Value::from(body).to_json(),
            if id.starts_with("post") { "Post" } else { "Pre" },
        );
        let made = self.engine.scripts().create(&self.container, kind, &json(&properties), true);
        made.unwrap_or_else(|e| panic!("{body}: {e}"));
    }

    fn facts(&self) -> CallFacts {
        CallFacts {
            self_link: self.container.self_link().to_owned(),
            alt_link: self.container.alt_link().to_owned(),
            is_logging: true,
            ..CallFacts::default()
        }
    }

    fn execute(&self, id: &str, arguments: &str) -> Result<String> {
        let (key, facts) = (key("a"), self.facts());
        let done = self.engine.scripts().execute_procedure(
            &self.container,
            &name(id),
            Some(&key),
            arguments.as_bytes(),
            &facts,
        );
        done.map(|done| done.body)
    }

    /// Makes a procedure and runs it.
    fn run(&self, body: &str) -> Result<String> {
        self.script(ScriptKind::Procedure, "p", body);
        self.execute("p", "[]")
    }

    fn item(&self, text: &str) {
        self.engine.items().create(&self.container, None, text.as_bytes()).expect(text);
    }

    /// What is under `/pk` = `a`, by id, without what the server adds.
    fn items(&self) -> Vec<String> {
        let request = ScopeRequest { partition_key: Some(key("a")), ..ScopeRequest::default() };
        let scope = self.container.scope(&request).expect("a scope");
        let size = PageSize { items: 1000 };
        let page =
            self.engine.queries().read_items(&self.container, &scope, size, None).expect("a page");
        let bare = |text: &bytes::Bytes| {
            let mut item = json(std::str::from_utf8(text).expect("text"));
            let object = item.as_object_mut().expect("an object");
            for system in ["_rid", "_self", "_etag", "_ts", "_attachments"] {
                object.remove(system);
            }
            item.to_json()
        };
        page.items.iter().map(bare).collect()
    }

    fn write(
        &self,
        kind: WriteKind,
        id: Option<&str>,
        text: &str,
        before: &[&str],
        after: &[&str],
    ) -> Result<Written> {
        let write = TriggeredWrite {
            kind,
            item: id.map(name),
            text: text.to_owned().into(),
            conditions: NONE,
        };
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let names = TriggerNames { before: owned(before), after: owned(after) };
        self.engine.scripts().write_with_triggers(
            &self.container,
            Some(&key("a")),
            &write,
            &names,
            &self.facts(),
        )
    }

    fn query(&self, text: &str) -> Result<Vec<String>> {
        let request =
            QueryRequest::parse(&json(&format!(r#"{{"query":{}}}"#, Value::from(text).to_json())))?;
        let scope = self
            .container
            .scope(&ScopeRequest { partition_key: Some(key("a")), ..ScopeRequest::default() })?;
        let paging = Paging { crosses: true, ..Paging::default() };
        let page = self.engine.queries().query_items(
            &self.container,
            &scope,
            &request,
            PageSize { items: 100 },
            &paging,
        )?;
        Ok(page.rows)
    }
}

fn key(value: &str) -> PartitionKey {
    PartitionKey::parse_header(&format!("[\"{value}\"]")).expect("a key")
}

fn message(result: Result<String>) -> String {
    match result {
        Err(Error::Script(failure)) => failure.message.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn scripts_are_resources_like_others() {
    let shelf = Shelf::new();
    let (engine, container) = (&shelf.engine, &shelf.container);
    let kind = ScriptKind::Procedure;
    let body = json(r#"{"id":"p","body":"function () {}"}"#);
    let (made, created) = engine.scripts().create(container, kind, &body, false).expect("made");
    assert!(created);
    let link = format!("{}sprocs/{}/", container.self_link(), made.rid);
    assert_eq!(made.body.get("_self").as_str(), Some(link.as_str()));
    assert_eq!(
        engine.scripts().create(container, kind, &body, false).map(drop),
        Err(Error::AlreadyExists)
    );
    let renamed = json(r#"{"id":"q","body":"function () { return 1 }"}"#);
    let replaced =
        engine.scripts().replace(container, kind, &name("p"), &renamed, &NONE).expect("replaced");
    assert_eq!(replaced.rid, made.rid);
    assert_ne!(replaced.stamp.etag, made.stamp.etag);
    let stale = Preconditions { if_match: Some(made.stamp.etag.to_string().into()), ..NONE };
    let refused = engine.scripts().delete(container, kind, &name("q"), &stale);
    assert_eq!(refused, Err(Error::PreconditionFailed));
    assert!(engine.scripts().read(container, ScriptKind::Udf, &name("q")).is_err());
    let by_rid = orrery_types::ids::Address::Rid(made.rid);
    assert_eq!(engine.scripts().read(container, kind, &by_rid).expect("by rid").id, "q".into());
    assert_eq!(engine.scripts().list(container, kind).expect("a list").len(), 1);
    engine.scripts().delete(container, kind, &name("q"), &NONE).expect("deleted");
    assert_eq!(engine.scripts().read(container, kind, &name("q")).map(drop), Err(Error::NotFound));
}

#[test]
fn what_is_no_script_is_refused() {
    let shelf = Shelf::new();
    let create = |kind, body: &str| {
        shelf.engine.scripts().create(&shelf.container, kind, &json(body), false).map(drop)
    };
    for (kind, body) in [
        (ScriptKind::Procedure, r#"{"id":"p"}"#),
        (ScriptKind::Procedure, r#"{"body":"function () {}"}"#),
        (ScriptKind::Procedure, r#"{"id":"p","body":7}"#),
        (ScriptKind::Trigger, r#"{"id":"p","body":"function () {}","triggerType":"Pre"}"#),
        (
            ScriptKind::Trigger,
            r#"{"id":"p","body":"function () {}","triggerType":"Now","triggerOperation":"All"}"#,
        ),
    ] {
        assert!(matches!(create(kind, body), Err(Error::Invalid(_))), "{body}");
    }
    let error = create(ScriptKind::Procedure, r#"{"id":"p","body":"function () { oops oops }"}"#);
    let Err(Error::Script(failure)) = error else { panic!("{error:?}") };
    assert_eq!(failure.number, 65535);
    assert!(failure.message.contains("SyntaxError"), "{}", failure.message);
    // Text that does not even mean to be a function is kept, and fails when it is called.
    create(ScriptKind::Procedure, r#"{"id":"p","body":"Line Separator & more"}"#).expect("kept");
    assert!(message(shelf.execute("p", "[]")).contains("SyntaxError"));
}

#[test]
fn scripts_outlive_a_restart_and_go_with_their_container() {
    let mut world = World::rocks();
    world.database();
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    world.create_container(body, None);
    let procedure =
        json(r#"{"id":"p","body":"function (x) { getContext().getResponse().setBody(x + 1) }"}"#);
    let made = world.engine().scripts().create(
        &world.container("c"),
        ScriptKind::Procedure,
        &procedure,
        false,
    );
    made.expect("made");
    world.reopen();
    let facts = CallFacts::default();
    let run = |world: &World| {
        let container = world.container("c");
        world
            .engine()
            .scripts()
            .execute_procedure(&container, &name("p"), Some(&key("a")), b"[41]", &facts)
            .map(|done| done.body)
    };
    assert_eq!(run(&world).as_deref(), Ok("42"));
    world.engine().containers().delete(&name("d"), &name("c"), &NONE).expect("deleted");
    world.create_container(body, None);
    assert_eq!(run(&world), Err(Error::NotFound));
}

#[test]
fn a_procedure_sees_its_own_writes_and_commits_them_together() {
    let shelf = Shelf::new();
    shelf.item(r#"{"id":"1","pk":"a","n":1}"#);
    shelf.item(r#"{"id":"1","pk":"b","n":1}"#);
    let body = "function () { const c = getContext().getCollection(), link = c.getSelfLink(); \
        c.createDocument(link, { id: '2', pk: 'a', n: 2 }, (e, made) => { if (e) throw e; \
          c.queryDocuments(link, { query: 'SELECT VALUE c.n FROM c WHERE c.n > @n ORDER BY c.n DESC', parameters: [{ name: '@n', value: 0 }] }, (e, rows) => { if (e) throw e; \
            c.readDocument(made._self, (e, read) => { if (e) throw e; \
              c.deleteDocument(c.getAltLink() + '/docs/1', (e) => { if (e) throw e; \
                c.readDocuments(link, (e, all) => getContext().getResponse().setBody([rows, read.id, all.map((d) => d.id)])) }) }) }) }) }";
    assert_eq!(shelf.run(body).as_deref(), Ok(r#"[[2,1],"2",["2"]]"#));
    assert_eq!(shelf.items(), [r#"{"id":"2","pk":"a","n":2}"#]);
}

/// Inserts a book and counts it at both its authors; throws at a step of the caller's choice.
const ADD_BOOK: &str = "function addBook(book, authors, failAt) { \
    const c = getContext().getCollection(); let step = 0; \
    const at = () => { if (++step === failAt) throw new Error('failed at step ' + step) }; \
    at(); \
    if (!c.createDocument(c.getSelfLink(), book, (e) => { if (e) throw e; at(); count(0) })) throw new Error('not accepted'); \
    function count(i) { \
        if (i === authors.length) { at(); getContext().getResponse().setBody('done'); return } \
        c.readDocument(c.getAltLink() + '/docs/' + authors[i], (e, author) => { if (e) throw e; at(); \
            author.countOfBooks += 1; \
            c.replaceDocument(author._self, author, { etag: author._etag }, (e) => { if (e) throw e; at(); count(i + 1) }) }) } }";

fn authors(shelf: &Shelf) {
    shelf.item(r#"{"id":"ada","pk":"a","countOfBooks":0}"#);
    shelf.item(r#"{"id":"bob","pk":"a","countOfBooks":3}"#);
}

#[test]
fn a_book_and_its_authors_change_together_or_not_at_all() {
    let shelf = Shelf::new();
    authors(&shelf);
    shelf.script(ScriptKind::Procedure, "addBook", ADD_BOOK);
    let before = shelf.items();
    for step in 1..=7 {
        let arguments = format!(r#"[{{"id":"book","pk":"a"}},["ada","bob"],{step}]"#);
        let said = message(shelf.execute("addBook", &arguments));
        assert!(
            said.contains(&format!("failed at step {step}")) && said.contains("Stack trace"),
            "{said}"
        );
        assert_eq!(shelf.items(), before, "step {step}");
    }
    let missing = shelf.execute("addBook", r#"[{"id":"book","pk":"a"},["ada","nobody"]]"#);
    let Err(Error::Script(failure)) = missing else { panic!("{missing:?}") };
    assert_eq!(failure.number, 404);
    assert_eq!(shelf.items(), before);
    let done = shelf.execute("addBook", r#"[{"id":"book","pk":"a"},["ada","bob"]]"#);
    assert_eq!(done.as_deref(), Ok("\"done\""));
    assert_eq!(
        shelf.items(),
        [
            r#"{"id":"ada","pk":"a","countOfBooks":1}"#,
            r#"{"id":"bob","pk":"a","countOfBooks":4}"#,
            r#"{"id":"book","pk":"a"}"#,
        ]
    );
}

#[test]
fn procedures_that_meet_start_over_and_lose_nothing() {
    let shelf = Shelf::new();
    authors(&shelf);
    shelf.script(ScriptKind::Procedure, "addBook", ADD_BOOK);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let shelf = &shelf;
            scope.spawn(move || {
                for n in 0..10 {
                    let arguments = format!(r#"[{{"id":"{writer}-{n}","pk":"a"}},["ada","bob"]]"#);
                    shelf.execute("addBook", &arguments).expect("it is retried");
                }
            });
        }
    });
    let items = shelf.items();
    assert_eq!(items.len(), 42);
    assert!(items.contains(&r#"{"id":"ada","pk":"a","countOfBooks":40}"#.to_owned()));
    assert!(items.contains(&r#"{"id":"bob","pk":"a","countOfBooks":43}"#.to_owned()));
}

#[test]
fn a_procedure_stays_in_its_logical_partition() {
    let shelf = Shelf::new();
    shelf.item(r#"{"id":"x","pk":"b"}"#);
    let number = |call: &str| {
        shelf.run(&format!("function () {{ const c = __; c.{call}, (e, d) => c.response.setBody(e ? e.number : 'done')) }}"))
    };
    assert_eq!(
        number("createDocument(c.getSelfLink(), { id: 'y', pk: 'b' }").as_deref(),
        Ok("400")
    );
    assert_eq!(number("readDocument(c.getAltLink() + '/docs/x'").as_deref(), Ok("404"));
    assert_eq!(number("deleteDocument(c.getAltLink() + '/docs/x'").as_deref(), Ok("404"));
    let seen = shelf.run("function () { __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', (e, d) => __.response.setBody(d.length)) }");
    assert_eq!(seen.as_deref(), Ok("0"));
    let without = shelf.engine.scripts().execute_procedure(
        &shelf.container,
        &name("p"),
        None,
        b"",
        &shelf.facts(),
    );
    assert!(matches!(without, Err(Error::Invalid(_))));
}

#[test]
fn scripts_that_misbehave_write_nothing_and_harm_nobody() {
    let shelf = Shelf::bounded(Bounds { run_ms: 400, ..Bounds::default() });
    shelf.item(r#"{"id":"kept","pk":"a"}"#);
    let write = "__.createDocument(__.getSelfLink(), { id: 'half', pk: 'a' }, () => {";
    for (body, bounded) in [
        (format!("function () {{ {write} throw new Error('half-way') }}) }}"), "script"),
        (format!("function () {{ {write} for (;;) ; }}) }}"), "time"),
        (
            format!(
                "function () {{ {write} const a = []; for (;;) a.push(new Array(1000).fill(a.length)) }}) }}"
            ),
            "either",
        ),
        (format!("function () {{ {write} (function f() {{ return 1 + f() }})() }}) }}"), "script"),
        (format!("function () {{ {write} __.response.setBody('x'.repeat(5e6)) }}) }}"), "script"),
        (format!("async function () {{ {write} }}); await new Promise(() => {{}}) }}"), "script"),
        (
            format!(
                "function () {{ {write} __.createDocument(__.getSelfLink(), {{ id: 'other', pk: 'b' }}) }}) }}"
            ),
            "script",
        ),
    ] {
        let error = shelf.run(&body).expect_err(&body);
        match bounded {
            "script" => assert!(matches!(error, Error::Script(_)), "{body}: {error:?}"),
            "time" => assert!(matches!(error, Error::Timeout(_)), "{body}: {error:?}"),
            _ => {
                assert!(matches!(error, Error::Script(_) | Error::Timeout(_)), "{body}: {error:?}");
            }
        }
        assert_eq!(shelf.items(), [r#"{"id":"kept","pk":"a"}"#], "{body}");
    }
    assert_eq!(shelf.run("function () { __.response.setBody(1) }").as_deref(), Ok("1"));
}

#[test]
fn others_work_while_a_script_runs_for_ever() {
    let shelf = Shelf::bounded(Bounds { run_ms: 1000, ..Bounds::default() });
    shelf.script(ScriptKind::Procedure, "spin", "function () { for (;;) ; }");
    std::thread::scope(|scope| {
        let spinning: Vec<_> =
            (0..3).map(|_| scope.spawn(|| shelf.execute("spin", "[]"))).collect();
        for n in 0..20 {
            shelf.item(&format!(r#"{{"id":"{n}","pk":"other"}}"#));
        }
        assert_eq!(shelf.query("SELECT VALUE 1").as_deref(), Ok(&["1".to_owned()][..]));
        for script in spinning {
            let result = script.join().expect("no panic");
            assert!(matches!(result, Err(Error::Timeout(_))), "{result:?}");
        }
    });
}

#[test]
fn scripts_that_overrun_again_and_again_are_blocked_until_they_are_replaced() {
    let shelf = Shelf::bounded(Bounds { run_ms: 50, ..Bounds::default() });
    shelf.item(r#"{"id":"1","pk":"a"}"#);
    let attempt = |kind| match kind {
        ScriptKind::Procedure => shelf.execute("s", "[]").map(drop),
        ScriptKind::Trigger => {
            shelf.write(WriteKind::Upsert, None, r#"{"id":"2","pk":"a"}"#, &["s"], &[]).map(drop)
        }
        ScriptKind::Udf => shelf.query("SELECT VALUE udf.s(c) FROM c").map(drop),
    };
    for kind in [ScriptKind::Procedure, ScriptKind::Trigger, ScriptKind::Udf] {
        shelf.script(kind, "s", "function () { for (;;) ; }");
        for _ in 0..limits::SCRIPT_OVERRUNS_MAX {
            assert!(matches!(attempt(kind), Err(Error::Timeout(_))));
        }
        let Err(Error::Denied(said)) = attempt(kind) else { panic!("it is not blocked") };
        assert!(said.contains("'s' is blocked for execution"), "{said}");
        shelf.script(kind, "s", "function () {}");
        assert_eq!(attempt(kind), Ok(()));
    }
}

#[test]
fn a_procedure_may_delete_what_it_walks_over() {
    let shelf = Shelf::new();
    for n in 0..60 {
        shelf.item(&format!(r#"{{"id":"{n:02}","pk":"a"}}"#));
    }
    let body = "function () { let n = 0; (function on(continuation) { \
        __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', { pageSize: 7, continuation }, (e, docs, o) => { if (e) throw e; \
            docs.forEach((d) => __.deleteDocument(d._self, (e) => { if (e) throw e; __.response.setBody(++n) })); \
            if (o.continuation) on(o.continuation) }) })() }";
    assert_eq!(shelf.run(body).as_deref(), Ok("60"));
    assert!(shelf.items().is_empty());
}

#[test]
fn an_item_without_id_gets_a_new_one_each_time() {
    let shelf = Shelf::new();
    let body = "function () { const ids = []; for (let i = 0; i < 20; i++) __.createDocument(__.getSelfLink(), { pk: 'a' }, (e, d) => { if (e) throw e; ids.push(d.id); __.response.setBody([new Set(ids).size, d.id.length]) }) }";
    assert_eq!(shelf.run(body).as_deref(), Ok("[20,36]"));
    assert_eq!(shelf.items().len(), 20);
}

#[test]
fn triggers_run_within_the_write() {
    let shelf = Shelf::new();
    let trigger = |id: &str, body: &str| shelf.script(ScriptKind::Trigger, id, body);
    trigger(
        "stamp",
        "function () { const r = getContext().getRequest(), d = r.getBody(); d.stamped = r.getOperationType(); r.setBody(d) }",
    );
    trigger(
        "twice",
        "function () { const r = getContext().getRequest(), d = r.getBody(); d.twice = d.stamped + d.stamped; r.setBody(d) }",
    );
    trigger(
        "post-count",
        "function () { __.upsertDocument(__.getSelfLink(), { id: 'count', pk: 'a', last: getContext().getResponse().getBody().id }) }",
    );
    trigger(
        "post-show",
        "function () { const b = __.response.getBody(); __.response.setBody({ shown: b && b.id }) }",
    );

    let made = shelf
        .write(
            WriteKind::Create,
            None,
            r#"{"id":"1","pk":"a"}"#,
            &["stamp", "twice"],
            &["post-count"],
        )
        .expect("made");
    assert!(json(std::str::from_utf8(&made.body).expect("text")).get("_etag").as_str().is_some());
    assert_eq!(
        shelf.items(),
        [
            r#"{"id":"1","pk":"a","stamped":"Create","twice":"CreateCreate"}"#,
            r#"{"id":"count","pk":"a","last":"1"}"#,
        ]
    );
    let shown = shelf
        .write(WriteKind::Replace, Some("1"), r#"{"id":"1","pk":"a"}"#, &["stamp"], &["post-show"])
        .expect("replaced");
    assert_eq!(&shown.body[..], br#"{"shown":"1"}"#);
    shelf
        .write(WriteKind::Upsert, None, r#"{"id":"1","pk":"a","n":1}"#, &["stamp"], &[])
        .expect("upserted");
    shelf
        .write(
            WriteKind::Patch,
            Some("1"),
            r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#,
            &[],
            &["post-count"],
        )
        .expect("patched");
    assert_eq!(shelf.items()[0], r#"{"id":"1","pk":"a","n":2,"stamped":"Upsert"}"#);
    shelf.write(WriteKind::Delete, Some("1"), "", &[], &["post-show"]).expect("deleted");
    assert_eq!(shelf.items().len(), 1);
}

#[test]
fn a_script_may_ask_for_the_quota() {
    let shelf = Shelf::new();
    let body = "function () { const r = getContext().getResponse(); r.setBody([r.getMaxResourceQuota(), r.getResourceQuotaCurrentUsage()]) }";
    let told = shelf.run(body).expect("it runs");
    assert!(told.contains("storedProcedures=100;") && told.contains("collectionSize="), "{told}");
}

#[test]
fn a_trigger_before_a_delete_sees_what_is_to_go() {
    let shelf = Shelf::new();
    shelf.item(r#"{"id":"1","pk":"a","n":7}"#);
    let note = "function () { const b = getContext().getRequest().getBody(); \
                __.createDocument(__.getSelfLink(), { id: 'note', pk: 'a', n: b.n }) }";
    shelf.script(ScriptKind::Trigger, "pre-note", note);
    shelf.write(WriteKind::Delete, Some("1"), "", &["pre-note"], &[]).expect("deleted");
    assert_eq!(shelf.items(), [r#"{"id":"note","pk":"a","n":7}"#]);
    let missing = shelf.write(WriteKind::Delete, Some("1"), "", &["pre-note"], &[]);
    assert!(matches!(missing, Err(Error::NotFound)), "{missing:?}");
}

#[test]
fn arguments_are_an_array_or_read_as_one() {
    let shelf = Shelf::new();
    let echo = "function (...args) { __.response.setBody(args.map((a) => a ?? 'none')) }";
    shelf.script(ScriptKind::Procedure, "p", echo);
    for (given, expected) in [
        ("", "[]"),
        ("null", "[]"),
        ("[1,\"two\"]", "[1,\"two\"]"),
        ("{}", "[]"),
        ("{\"a\":1}", "[]"),
        ("{\"length\":2,\"0\":\"x\"}", "[\"x\",\"none\"]"),
        ("{\"length\":-1}", "[]"),
    ] {
        assert_eq!(shelf.execute("p", given).as_deref(), Ok(expected), "{given}");
    }
    let many = format!("[{}0]", "0,".repeat(limits::SCRIPT_ARGUMENTS_MAX));
    for bad in ["7", "true", "\"text\"", "{\"length\":1e9}", &many] {
        let refused = shelf.execute("p", bad);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
}

#[test]
fn every_container_has_the_system_procedures() {
    let shelf = Shelf::new();
    assert_eq!(shelf.execute("__.sys.echo", r#"["foobar"]"#).as_deref(), Ok("\"foobar\""));
    let insert = |arguments: &str| shelf.execute("__.sys.commonBulkInsert", arguments);
    let items = r#"[{"id":"1","pk":"a"},{"id":"2","pk":"a"}]"#;
    assert_eq!(insert(&format!("[{items}]")).as_deref(), Ok(r#"{"count":2,"errorCode":0}"#));
    assert_eq!(shelf.items().len(), 2);
    let more = r#"[{"id":"3","pk":"a"},{"id":"1","pk":"a"},{"id":"4","pk":"a"}]"#;
    assert!(insert(&format!("[{more}]")).is_err(), "a conflict");
    assert_eq!(shelf.items().len(), 2, "undoes all");
    let soft = insert(&format!(r#"[{more},{{"softStopOnConflict":true}}]"#));
    assert_eq!(soft.as_deref(), Ok(r#"{"count":1,"errorCode":409}"#));
    assert_eq!(shelf.items().len(), 3);
    let upsert = insert(&format!(r#"[{more},{{"enableUpsert":true}}]"#));
    assert_eq!(upsert.as_deref(), Ok(r#"{"count":3,"errorCode":0}"#));
    let unknown = shelf.execute("__.sys.other", "[]");
    assert!(matches!(unknown, Err(Error::NotFound)), "{unknown:?}");
}

#[test]
fn a_trigger_that_throws_undoes_the_write() {
    let shelf = Shelf::new();
    authors(&shelf);
    let before = shelf.items();
    // Refuses a book whose author is not there.
    shelf.script(ScriptKind::Trigger, "hasAuthor", "function () { const book = getContext().getRequest().getBody(); \
        __.readDocument(__.getAltLink() + '/docs/' + book.author, (e) => { if (e) throw new Error(e.number, 'no author ' + book.author) }) }");
    shelf.script(ScriptKind::Trigger, "post-never", "function () { __.createDocument(__.getSelfLink(), { id: 'trace', pk: 'a' }); throw new Error('never') }");
    let book = |author: &str| format!(r#"{{"id":"book","pk":"a","author":"{author}"}}"#);
    let dangling = shelf.write(WriteKind::Create, None, &book("nobody"), &["hasAuthor"], &[]);
    let Err(Error::Script(failure)) = dangling else { panic!("{dangling:?}") };
    assert_eq!(failure.number, 404);
    assert!(failure.message.contains("no author nobody"));
    assert!(
        shelf
            .write(WriteKind::Create, None, &book("ada"), &["hasAuthor"], &["post-never"])
            .is_err()
    );
    assert_eq!(shelf.items(), before);
    shelf.write(WriteKind::Create, None, &book("ada"), &["hasAuthor"], &[]).expect("she is there");
    assert_eq!(shelf.items().len(), 3);
}

#[test]
fn triggers_are_checked_before_anything_runs() {
    let shelf = Shelf::new();
    let trigger = json(
        r#"{"id":"onDelete","body":"function () {}","triggerType":"post","triggerOperation":"delete"}"#,
    );
    shelf
        .engine
        .scripts()
        .create(&shelf.container, ScriptKind::Trigger, &trigger, false)
        .expect("made");
    let text = r#"{"id":"1","pk":"a"}"#;
    for (before, after) in
        [(&["none"][..], &[][..]), (&["onDelete"], &[]), (&[], &["onDelete"]), (&["x"; 11], &[])]
    {
        let result = shelf.write(WriteKind::Create, None, text, before, after);
        assert!(matches!(result, Err(Error::Invalid(_))), "{before:?} {after:?}: {result:?}");
    }
    assert!(shelf.items().is_empty());
    // A body that a trigger moves to another partition is refused like any other.
    shelf.script(
        ScriptKind::Trigger,
        "move",
        "function () { getContext().getRequest().setBody({ id: '1', pk: 'b' }) }",
    );
    let moved = shelf.write(WriteKind::Create, None, text, &["move"], &[]);
    assert!(matches!(moved, Err(Error::PartitionKeyMismatch(_))), "{moved:?}");
    let broken = shelf.write(WriteKind::Create, None, "{", &["move"], &[]);
    assert!(matches!(broken, Err(Error::Invalid(_))), "{broken:?}");
}

#[test]
fn functions_run_in_queries_and_patch_conditions() {
    let shelf = Shelf::bounded(Bounds { run_ms: 1000, ..Bounds::default() });
    shelf.item(r#"{"id":"1","pk":"a","income":100}"#);
    shelf.item(r#"{"id":"2","pk":"a"}"#);
    let udf = |id: &str, body: &str| shelf.script(ScriptKind::Udf, id, body);
    udf(
        "tax",
        "function tax(income) { if (income === undefined) return undefined; return income * 0.2 }",
    );
    udf("kind", "x => ({ is: typeof x })");
    udf("broken", "function broken() { throw new Error('no tax today') }");
    udf("spin", "function () { for (;;) ; }");
    let rows = |text: &str| shelf.query(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(
        rows("SELECT c.id, udf.tax(c.income) AS tax FROM c"),
        [r#"{"id":"1","tax":20}"#, r#"{"id":"2"}"#]
    );
    assert_eq!(
        rows("SELECT VALUE c.id FROM c WHERE udf.tax(c.income) > 10 ORDER BY c.id"),
        [r#""1""#]
    );
    assert_eq!(
        rows("SELECT VALUE udf.kind(c.income) FROM c"),
        [r#"{"is":"number"}"#, r#"{"is":"undefined"}"#]
    );
    let broken = shelf.query("SELECT udf.broken() FROM c").expect_err("it throws");
    assert!(
        matches!(&broken, Error::Script(f) if f.message.contains("no tax today")),
        "{broken:?}"
    );
    assert!(matches!(shelf.query("SELECT udf.spin() FROM c"), Err(Error::Timeout(_))));
    assert!(matches!(shelf.query("SELECT udf.none(1) FROM c"), Err(Error::Query(_))));

    let patch = |condition: &str| {
        let body = format!(
            r#"{{"condition":"FROM c WHERE {condition}","operations":[{{"op":"add","path":"/p","value":1}}]}}"#
        );
        let patch = Patch::parse(&json(&body))?;
        shelf
            .engine
            .items()
            .patch(&shelf.container, Some(&key("a")), &name("1"), &patch, &NONE)
            .map(drop)
    };
    assert_eq!(patch("udf.tax(c.income) > 50"), Err(Error::ConditionNotMet));
    assert_eq!(patch("udf.tax(c.income) < 50"), Ok(()));
    assert!(matches!(patch("udf.broken()"), Err(Error::Script(_))));
    assert!(patch("udf.none(1)").is_err());
    // Within a procedure's query too.
    let within = shelf.run("function () { __.queryDocuments(__.getSelfLink(), 'SELECT VALUE udf.tax(c.income) FROM c', (e, r) => __.response.setBody(r)) }");
    assert_eq!(within.as_deref(), Ok("[20]"));
}

#[test]
fn a_container_has_so_many_scripts_and_no_more() {
    let shelf = Shelf::new();
    for (kind, max) in
        [(ScriptKind::Procedure, 100), (ScriptKind::Trigger, 25), (ScriptKind::Udf, 50)]
    {
        for n in 0..=max {
            let body = json(&format!(
                r#"{{"id":"s{n}","body":"function () {{}}","triggerType":"Pre","triggerOperation":"All"}}"#
            ));
            let made = shelf.engine.scripts().create(&shelf.container, kind, &body, false);
            assert_eq!(made.is_ok(), n < max, "{kind:?} {n}");
        }
    }
}
