//! The server is killed while 16 clients write under a model, over and over, and the model changes in
//! between. Clients write single items, patches and transactional batches. Afterwards everything the
//! model promises holds when it is recomputed: copies, counts, sums and extremes, inverses and buckets;
//! nothing refers to what is not there; and each client's comments are those that it was told of.
//! Names and counts are computed a second time here, from the items alone. `ORRERY_MODEL_KILLS` sets
//! how often, `ORRERY_SEED` repeats a run's choices.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use orrery_engine::Engine;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_storage::{RocksOptions, RocksStore};
use orrery_types::ids::Address;
use orrery_types::{KeyComponent, PartitionKey, SystemClock, Value};

use crate::client::{Answer, Client};
use crate::process::Running;
use crate::random::Random;

const KILLS: usize = 6;
const CLIENTS: usize = 16;
const AUTHORS: usize = 6;
const BOOKS: usize = 40;
const CONTAINERS: [(&str, &str); 3] = [("authors", "/id"), ("books", "/id"), ("blog", "/blogId")];

/// One client: what it does follows from its numbers, and what it knows of its own post.
pub(crate) struct Writer {
    number: usize,
    random: Random,
    count: usize,
    /// Comments that were acknowledged, and edits of one request whose answer did not come.
    comments: Vec<String>,
    pending: Vec<Edit>,
}

#[derive(Clone)]
enum Edit {
    Append(String),
    Remove(String),
}

impl Edit {
    fn apply(&self, comments: &mut Vec<String>) {
        match self {
            Self::Append(id) => comments.push(id.clone()),
            Self::Remove(id) => comments.retain(|known| known != id),
        }
    }

    fn operation(&self) -> String {
        match self {
            Self::Append(id) => {
                format!(r#"{{"op":"add","path":"/comments/-","value":{{"id":"{id}","n":1}}}}"#)
            }
            Self::Remove(id) => format!(r#"{{"op":"remove","path":"/comments/{id}"}}"#),
        }
    }
}

impl Writer {
    fn post(&self) -> String {
        format!("p{}", self.number)
    }

    fn blog(&self) -> String {
        format!("b{}", self.number % 3)
    }

    /// Writes until the server is gone.
    pub(crate) fn run(&mut self, address: SocketAddr, key: &str, acknowledged: &Sender<()>) {
        let Ok(mut client) = Client::open(address, key) else { return };
        loop {
            let done = match self.random.below(10) {
                0..3 => self.comment(&mut client),
                3 => self.author(&mut client),
                4 => self.delete(&mut client, "authors", &format!("a{}", self.number % AUTHORS)),
                5 => {
                    let book = format!("k{}", self.random.below(BOOKS));
                    self.delete(&mut client, "books", &book)
                }
                6 => self.patch_book(&mut client),
                _ => self.book(&mut client),
            };
            if done.is_none() || acknowledged.send(()).is_err() {
                return;
            }
        }
    }

    fn put(&self, client: &mut Client, container: &str, key: &str, body: &str) -> Option<u16> {
        let key = format!(r#"["{key}"]"#);
        let headers =
            [("x-ms-documentdb-partitionkey", &*key), ("x-ms-documentdb-is-upsert", "true")];
        let path = format!("/dbs/d/colls/{container}/docs");
        self.answered(client.send("POST", &path, &headers, body))
    }

    /// The status; `None` if no answer came, or the server stops.
    fn answered(&self, answer: std::io::Result<Answer>) -> Option<u16> {
        let answer = answer.ok()?;
        match answer.status {
            503 => None,
            200 | 201 | 204 | 400 | 404 | 409 | 449 => Some(answer.status),
            _ => panic!("client {}: {answer:?}", self.number),
        }
    }

    fn author(&mut self, client: &mut Client) -> Option<()> {
        let (id, name) = (self.random.below(AUTHORS), self.random.below(5));
        let id = format!("a{id}");
        let body = format!(r#"{{"id":"{id}","name":"N{name}"}}"#);
        self.put(client, "authors", &id, &body).map(drop)
    }

    fn book(&mut self, client: &mut Client) -> Option<()> {
        let id = format!("k{}", self.random.below(BOOKS));
        let authors: Vec<String> = (0..self.random.below(4))
            .map(|_| format!(r#"{{"id":"a{}"}}"#, self.random.below(AUTHORS)))
            .collect();
        let amounts = ["1", "2.5", "0.1", "-7", "1e300", "null", r#""x""#];
        let amount = amounts[self.random.below(amounts.len())];
        let authors = authors.join(",");
        let editor = match self.random.below(3) {
            0 => String::new(),
            _ => format!(r#","editor":"a{}""#, self.random.below(AUTHORS)),
        };
        let body = format!(r#"{{"id":"{id}","authors":[{authors}],"amount":{amount}{editor}}}"#);
        self.put(client, "books", &id, &body).map(drop)
    }

    /// Changes a part of a book: another author, another editor, another amount.
    fn patch_book(&mut self, client: &mut Client) -> Option<()> {
        let id = format!("k{}", self.random.below(BOOKS));
        let author = self.random.below(AUTHORS);
        let operation = match self.random.below(3) {
            0 => format!(r#"{{"op":"add","path":"/authors/-","value":{{"id":"a{author}"}}}}"#),
            1 => format!(r#"{{"op":"set","path":"/editor","value":"a{author}"}}"#),
            _ => format!(r#"{{"op":"set","path":"/amount","value":{author}}}"#),
        };
        let (key, path) = (format!(r#"["{id}"]"#), format!("/dbs/d/colls/books/docs/{id}"));
        let headers = [("x-ms-documentdb-partitionkey", &*key)];
        self.answered(client.send("PATCH", &path, &headers, format!("[{operation}]"))).map(drop)
    }

    fn delete(&self, client: &mut Client, container: &str, id: &str) -> Option<()> {
        let key = format!(r#"["{id}"]"#);
        let path = format!("/dbs/d/colls/{container}/docs/{id}");
        let headers = [("x-ms-documentdb-partitionkey", &*key)];
        self.answered(client.send("DELETE", &path, &headers, "")).map(drop)
    }

    /// Adds comments to its post, or removes one: one by a patch, several by a batch.
    fn comment(&mut self, client: &mut Client) -> Option<()> {
        let removes = !self.comments.is_empty() && self.random.one_in(4);
        let edits = if removes {
            vec![Edit::Remove(self.comments[self.random.below(self.comments.len())].clone())]
        } else {
            let first = self.count + 1;
            self.count += if self.random.one_in(4) { 1 + self.random.below(12) } else { 1 };
            (first..=self.count).map(|n| Edit::Append(format!("c{n}"))).collect()
        };
        self.pending.clone_from(&edits);
        let key = format!(r#"["{}"]"#, self.blog());
        let headers = [("x-ms-documentdb-partitionkey", &*key)];
        let is_batch =
            [("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
        let sent = if let [edit] = &edits[..] {
            let path = format!("/dbs/d/colls/blog/docs/{}", self.post());
            client.send("PATCH", &path, &headers, format!("[{}]", edit.operation()))
        } else {
            let patch = |edit: &Edit| {
                format!(
                    r#"{{"operationType":"Patch","id":"{}","resourceBody":{{"operations":[{}]}}}}"#,
                    self.post(),
                    edit.operation()
                )
            };
            let body = edits.iter().map(patch).collect::<Vec<_>>().join(",");
            let headers = [&headers[..], &is_batch].concat();
            client.send("POST", "/dbs/d/colls/blog/docs", &headers, format!("[{body}]"))
        };
        let status = self.answered(sent)?;
        assert!(matches!(status, 200 | 449), "{status}");
        if status == 200 {
            for edit in edits {
                edit.apply(&mut self.comments);
            }
        }
        self.pending.clear();
        Some(())
    }

    /// Compares with what is there, and goes on from that.
    fn settle(&mut self, engine: &Engine) {
        let blog = engine.containers().read(&name("d"), &name("blog")).unwrap();
        let key = PartitionKey(vec![KeyComponent::String(self.blog().into())]);
        let read = |id: &str| {
            let item = engine.items().read(&blog, Some(&key), &name(id)).ok()?;
            Some(Value::parse(&item.body).unwrap())
        };
        let id = |element: &Value| element.get("id").as_str().unwrap().to_owned();
        let mut found = Vec::new();
        for seq in 0..=self.count {
            let bucket = read(&format!("{}~{seq:06}", self.post()));
            let elements = bucket.as_ref().and_then(|b| b.get("comments").as_array());
            found.extend(elements.unwrap_or_default().iter().map(id));
        }
        let mut maybe = self.comments.clone();
        self.pending.drain(..).for_each(|edit| edit.apply(&mut maybe));
        assert!(found == self.comments || found == maybe, "{found:?}, told {:?}", self.comments);
        let post = read(&self.post()).expect("the post");
        assert_eq!(post.get("commentCount").as_i64(), i64::try_from(found.len()).ok());
        self.comments = found;
    }
}

fn name(text: &str) -> Address {
    Address::Name(text.into())
}

/// A model of random choices over the same containers.
pub(crate) fn model(random: &mut Random) -> String {
    let mut one = |choices: &[&str]| choices[random.below(choices.len())].to_owned();
    let missing = one(&["reject", "allow"]);
    let delete = one(&["pull", "restrict", "cascade", "keep"]);
    let edited = one(&["unset", "restrict", "cascade", "keep"]);
    let free = missing == "allow" && delete != "restrict" && edited != "restrict";
    let propagate = one(&[
        r#","propagate":"sync","maxFanout":1000"#,
        r#","propagate":"sync","maxFanout":3,"onOverflow":"async""#,
        if free { r#","propagate":"async""# } else { "" },
    ]);
    let store = one(&["", r#","store":"/bookIds","maxItems":1000"#]);
    let copies = one(&["", r#","copies":{"name":"t.name"}"#]);
    let later = [
        r#""propagate":"sync","maxFanout":1000"#,
        r#""propagate":"sync","maxFanout":2,"onOverflow":"async""#,
        r#""propagate":"async""#,
    ];
    let aggregates: Vec<String> =
        ["COUNT(1)", "SUM(c.amount)", "AVG(c.amount)", "MIN(c.amount)", "MAX(c.amount)"]
            .iter()
            .enumerate()
            .map(|(n, value)| {
                let later = one(&later);
                format!(
                    r#"{{"on":"author","path":"/g{n}","of":"books","value":"{value}",{later}}}"#
                )
            })
            .collect();
    format!(
        r#"{{"version":1,"types":{{"author":{{"container":"authors"}},"book":{{"container":"books"}},
        "post":{{"container":"blog","where":"c.type = 'post'"}}}},
        "relations":[{{"name":"author","from":"book","path":"/authors/*/id","to":"author",
        "onMissing":"{missing}","onDelete":"{delete}"{propagate}{copies},
        "inverse":{{"name":"books"{store}}}}},
        {{"name":"editing","from":"book","path":"/editor","to":"author","onMissing":"{missing}",
        "onDelete":"{edited}"{propagate},"inverse":{{"name":"edited"}}}}],
        "aggregates":[{}],
        "buckets":[{{"on":"post","array":"/comments","elementKey":"id",
        "recent":{{"path":"/recent","keep":2}},"count":"/commentCount",
        "bucket":{{"items":8,"link":"/postId"}}}}]}}"#,
        aggregates.join(",")
    )
}

pub(crate) fn prepare(folder: &Path, writers: &[Writer], model: &str) {
    let server = Running::serve(folder);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    for (id, key) in CONTAINERS {
        let body = format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["{key}"],"kind":"Hash","version":2}}}}"#
        );
        client.must("POST", "/dbs/d/colls", &[("x-ms-offer-throughput", "12000")], &body);
    }
    client.must("PUT", "/dbs/d/_model", &[], model);
    for writer in writers {
        let (post, blog) = (writer.post(), writer.blog());
        let body = format!(r#"{{"id":"{post}","blogId":"{blog}","type":"post"}}"#);
        assert!(writer.put(&mut client, "blog", &blog, &body).is_some());
    }
}

/// All clients, before they have done anything.
pub(crate) fn writers(random: &mut Random) -> Vec<Writer> {
    let writer = |number| {
        let random = Random::new(random.next());
        Writer { number, random, count: 0, comments: vec![], pending: vec![] }
    };
    (0..CLIENTS).map(writer).collect()
}

/// Opens the folder that no server has open, lets everything follow that is to follow, and looks at
/// every promise.
pub(crate) fn check(folder: &Path, writers: &mut [Writer], round: usize) -> [usize; 2] {
    let store = RocksStore::open(&folder.join("store"), &RocksOptions::default()).unwrap();
    let engine = Engine::open(Arc::new(store), Arc::new(SystemClock), 1).unwrap();
    engine.background().run_tasks(&|| false).unwrap();
    let drift = engine.model_verification().verify(&name("d")).unwrap();
    assert!(drift.is_empty(), "round {round}: {drift:#?}");
    for (id, _) in CONTAINERS {
        let container = engine.containers().read(&name("d"), &name(id)).unwrap();
        let faults = engine.insight().verify(&container).unwrap();
        assert!(faults.is_empty(), "round {round}: {faults:?}");
    }
    assert_eq!(engine.models().lag_ms(), Ok(0), "round {round}: something waits for ever");
    for writer in writers {
        writer.settle(&engine);
    }
    check_library(&engine, round)
}

/// All items of a container; they fit into a page.
fn items(engine: &Engine, container: &str) -> Vec<Value> {
    let container = engine.containers().read(&name("d"), &name(container)).unwrap();
    let whole = container.scope(&ScopeRequest::default()).unwrap();
    let page =
        engine.queries().read_items(&container, &whole, PageSize { items: 1000 }, None).unwrap();
    assert_eq!(page.continuation, None);
    page.items.iter().map(|text| Value::parse(text).unwrap()).collect()
}

/// What the model promises of books and authors, from the items alone; how many references had to lead
/// somewhere, and how many counts were compared.
fn check_library(engine: &Engine, round: usize) -> [usize; 2] {
    let mut looked_at = [0, 0];
    let model = engine.models().read(&name("d")).unwrap().body;
    let (authors, books) = (items(engine, "authors"), items(engine, "books"));
    let author = |id: &Value| authors.iter().find(|author| author.get("id") == id);
    let at = |list: &str, n: usize| model.get(list).as_array().unwrap()[n].clone();
    let is_enforced = |relation: usize| {
        let rule = Value::from(format!("/relations/{relation}"));
        let states = model.get("_state").as_array().unwrap();
        states.iter().any(|s| *s.get("rule") == rule && s.get("state").as_str() == Some("enforced"))
    };
    let of = |book: &Value, relation: usize| -> Vec<Value> {
        let all = book.get("authors").as_array().unwrap_or_default();
        let mut ids: Vec<Value> = match relation {
            0 => all.iter().map(|author| author.get("id").clone()).collect(),
            _ => vec![book.get("editor").clone()],
        };
        ids.retain(|id| !id.is_undefined());
        ids.sort();
        ids.dedup();
        ids
    };
    for relation in 0..2 {
        let rule = at("relations", relation);
        let is = |name: &str, value: &str| rule.get(name).as_str() == Some(value);
        if is("onMissing", "reject") && !is("onDelete", "keep") && is_enforced(relation) {
            for (book, id) in
                books.iter().flat_map(|b| of(b, relation).into_iter().map(move |id| (b, id)))
            {
                looked_at[0] += 1;
                assert!(author(&id).is_some(), "round {round}: {id:?} is not there: {book:?}");
            }
        }
    }
    if !is_enforced(0) {
        return looked_at;
    }
    looked_at[1] = authors.len();
    for author in &authors {
        let id = author.get("id");
        let count = books.iter().filter(|book| of(book, 0).contains(id)).count();
        let count = Value::from(i64::try_from(count).unwrap());
        assert_eq!(*author.get("g0"), count, "round {round}: {author:?}");
    }
    if at("relations", 0).get("copies").is_undefined() {
        return looked_at;
    }
    for reference in
        books.iter().flat_map(|book| book.get("authors").as_array().unwrap_or_default())
    {
        if let Some(author) = author(reference.get("id")) {
            assert_eq!(reference.get("name"), author.get("name"), "round {round}: {reference:?}");
        }
    }
    looked_at
}

#[cfg(unix)]
#[test]
fn a_model_holds_after_every_kill() {
    let kills = std::env::var("ORRERY_MODEL_KILLS");
    let kills = kills.map_or(KILLS, |text| text.parse().expect("ORRERY_MODEL_KILLS is a number"));
    let mut random = Random::from_environment("model kill");
    let folder = tempfile::tempdir().unwrap();
    let mut writers = writers(&mut random);
    prepare(folder.path(), &writers, &model(&mut random));
    let (mut acknowledged, mut references, mut counts) = (0, 0, 0);
    for round in 0..kills {
        let server = Running::serve(folder.path());
        let (address, key) = (server.address(), server.key());
        let (sender, receiver) = channel();
        let (after, changes) = (200 + random.below(400), random.one_in(2));
        let next = model(&mut random);
        acknowledged += std::thread::scope(|scope| {
            for writer in &mut writers {
                let (sender, key) = (sender.clone(), key.clone());
                scope.spawn(move || writer.run(address, &key, &sender));
            }
            drop(sender);
            let before = receiver.iter().take(after / 2).count();
            if changes {
                // Another model takes over among the writers, and is being built when the end comes.
                let mut client = Client::open(address, &key).unwrap();
                client.must("PUT", "/dbs/d/_model", &[], &next);
            }
            let counted = before + receiver.iter().take(after / 2).count();
            assert_eq!(counted, after / 2 * 2, "the server ended by itself");
            drop(server);
            counted + receiver.iter().count()
        });
        let [in_round, counted] = check(folder.path(), &mut writers, round);
        (references, counts) = (references + in_round, counts + counted);
    }
    let comments: usize = writers.iter().map(|writer| writer.comments.len()).sum();
    eprintln!(
        "{kills} kills: {acknowledged} acknowledged writes by {CLIENTS} clients, drift 0, {references} \
         references under reject lead somewhere, {counts} counts are exact, {comments} comments are \
         as they were told"
    );
}
