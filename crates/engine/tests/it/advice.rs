//! The advisor on a server's own data and on what it has seen of requests: planted habits are found,
//! and a database that is used well has no findings.

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{Error, KeyComponent, Object, PartitionKey, Value};

use crate::world::{World, json, name};

struct Shop(World);

impl Shop {
    fn new(containers: &[(&str, &str)]) -> Self {
        let mut world = World::memory();
        world.database();
        for (id, key) in containers {
            let body =
                format!(r#"{{"id":"{id}","partitionKey":{{"paths":["{key}"],"kind":"Hash"}}}}"#);
            world.create_container(&body, None);
        }
        Self(world)
    }

    fn model(&self, text: &str) {
        let none = Preconditions::default();
        self.0.engine().models().store(&name("d"), &json(text), &none).expect("the model is taken");
    }

    fn put(&self, container: &str, item: &str) {
        let container = self.0.container(container);
        let none = Preconditions::default();
        self.0.engine().items().upsert(&container, None, item.as_bytes(), &none).expect(item);
    }

    fn read(&self, container: &str, id: &str) {
        let container = self.0.container(container);
        let key = PartitionKey(vec![KeyComponent::String(id.into())]);
        let read = self.0.engine().items().read(&container, Some(&key), &name(id));
        read.unwrap_or_else(|e| panic!("{id}: {e}"));
    }

    /// Asks for all pages.
    fn query(&self, container: &str, text: &str) {
        let container = self.0.container(container);
        let mut body = Object::new();
        body.set("query", text.into());
        let request = QueryRequest::parse(&Value::object(body)).expect(text);
        let scope = container.scope(&ScopeRequest::default()).expect("all of it");
        let mut continuation = None;
        loop {
            let paging = Paging {
                crosses: true,
                continuation: continuation.as_deref(),
                ..Paging::default()
            };
            let size = PageSize { items: 100 };
            let queries = self.0.engine().queries();
            let page =
                queries.query_items(&container, &scope, &request, size, &paging).expect(text);
            continuation = page.continuation;
            if continuation.is_none() {
                break;
            }
        }
    }

    fn advice(&self) -> Value {
        self.0.engine().insight().advise(&name("d")).expect("a report")
    }

    /// Findings as `rule type path`, sorted.
    fn found(&self) -> Vec<String> {
        let report = self.advice();
        let findings = report.get("findings").as_array().expect("a list");
        let word = |f: &Value, name: &str| f.get(name).as_str().expect(name).to_owned();
        let line = |f: &Value| {
            for part in ["window", "counts", "samples", "confidence", "reason", "patch"] {
                assert!(!f.get(part).is_undefined(), "{part} of {}", f.to_json());
            }
            format!("{} {} {}", word(f, "rule"), word(f, "type"), word(f, "path"))
        };
        let mut lines: Vec<String> = findings.iter().map(line).collect();
        lines.sort();
        lines
    }
}

const LIBRARY: &str = r#"{"version":1,"types":{
    "book":{"container":"books"},"author":{"container":"authors"}},
  "relations":[{"name":"author","from":"book","path":"/authors/*/id","to":"author"}]}"#;

fn library(shop: &Shop) {
    for n in 0..30 {
        let item = format!(r#"{{"id":"a{n}","firstName":"F{n}","lastName":"L{}"}}"#, n % 9);
        shop.put("authors", &item);
    }
    for n in 0..60 {
        let authors: Vec<String> =
            (0..6).map(|i| format!(r#"{{"id":"a{}"}}"#, (n * 7 + i) % 30)).collect();
        let text =
            format!(r#"{{"id":"b{n}","title":"Title {n}","authors":[{}]}}"#, authors.join(","));
        shop.put("books", &text);
    }
}

#[test]
fn reads_by_ids_out_of_an_answer_are_found() {
    let shop = Shop::new(&[("books", "/id"), ("authors", "/id")]);
    library(&shop);
    shop.model(LIBRARY);
    // One request in sixteen is watched: enough of them, and some are.
    for round in 0..200 {
        let n = round % 60;
        shop.query("books", &format!("SELECT * FROM b WHERE b.id = 'b{n}'"));
        (0..6).for_each(|i| shop.read("authors", &format!("a{}", (n * 7 + i) % 30)));
    }
    let report = shop.advice();
    let finding = report.get("findings").at(0);
    assert_eq!(finding.get("rule").as_str(), Some("M04"), "{}", report.to_json());
    assert_eq!(finding.get("path").as_str(), Some("/authors/*/id"));
    let reason = finding.get("reason").as_str().expect("a reason");
    assert!(reason.contains("The relation is declared"), "{reason}");
}

#[test]
fn the_same_fields_through_a_relation_are_worth_copying() {
    let shop = Shop::new(&[("books", "/id"), ("authors", "/id")]);
    shop.model(LIBRARY);
    library(&shop);
    for n in 0..4000 {
        let text = format!(
            "SELECT b.title, a.author.firstName FROM b JOIN a IN b.authors WHERE b.id = 'b{}'",
            n % 60
        );
        shop.query("books", &text);
    }
    assert_eq!(shop.found(), ["M05 book /authors/*/author"]);
    let patch = shop.advice().get("findings").at(0).get("patch").clone();
    let model = shop.0.engine().models().read(&name("d")).expect("a model").body;
    let merged = orrery_modeling::patch::merged(&model, &patch).expect("it is merged");
    let none = Preconditions::default();
    shop.0.engine().models().store(&name("d"), &merged, &none).expect("the patch is taken");
    assert!(shop.found().is_empty());
}

#[test]
fn copies_that_cost_more_than_they_save_are_found() {
    let shop = Shop::new(&[("books", "/id"), ("authors", "/id")]);
    shop.model(&LIBRARY.replace(
        r#""to":"author"}"#,
        r#""to":"author","propagate":"sync","copies":{"name":"t.firstName"}}"#,
    ));
    library(&shop);
    for n in 0..600 {
        shop.put("authors", &format!(r#"{{"id":"a{}","firstName":"G{n}"}}"#, n % 30));
    }
    assert_eq!(shop.found(), ["M06 book /authors/*/id"]);
}

#[test]
fn one_key_that_takes_most_of_the_charge_is_found() {
    let shop = Shop::new(&[("orders", "/tenant")]);
    for n in 0..1500 {
        let tenant = if n % 2 == 0 { 0 } else { n % 40 };
        shop.put("orders", &format!(r#"{{"id":"o{n}","tenant":"t{tenant}","total":{n}}}"#));
    }
    assert_eq!(shop.found(), ["M11 orders /tenant"]);
    let patch = shop.advice().get("findings").at(0).get("patch").to_json();
    assert!(patch.contains(r#""paths":["/tenant","/id"],"kind":"MultiHash""#), "{patch}");
}

#[test]
fn a_path_that_nobody_asks_for_and_every_write_pays_for_is_found() {
    let shop = Shop::new(&[("things", "/id")]);
    let vector: Vec<String> = (0..60).map(|n| format!("0.{n}1")).collect();
    for n in 0..2000 {
        let text = format!(r#"{{"id":"t{n}","name":"N{n}","v":[{}]}}"#, vector.join(","));
        shop.put("things", &text);
        shop.query("things", &format!("SELECT * FROM c WHERE c.name = 'N{n}'"));
    }
    assert_eq!(shop.found(), ["M12 things /v"]);
    (0..200).for_each(|_| shop.query("things", "SELECT * FROM c WHERE c.v[0] = 7"));
    assert!(shop.found().is_empty());
}

/// Orders by customer, in so many physical partitions, which are asked for by city, and some by customer.
fn orders_by_city(throughput: i64) -> Shop {
    let mut shop = Shop::new(&[]);
    let orders =
        r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash","version":2}}"#;
    shop.0.create_container(orders, Some(throughput));
    for n in 0..200 {
        let place = format!(r#"{{"city":"City {}"}}"#, n % 9);
        shop.put(
            "orders",
            &format!(
                r#"{{"id":"o{n}","customer":"c{}","address":{place},"type":"order"}}"#,
                n % 40
            ),
        );
    }
    for n in 0..2000 {
        let city = format!("WHERE c.type = 'order' AND c.address.city = 'City {}'", n % 9);
        shop.query("orders", &format!("SELECT * FROM c {city}"));
        shop.query("orders", &format!("SELECT * FROM c {city} AND c.customer = 'c{}'", n % 40));
    }
    shop
}

#[test]
fn queries_by_another_key_that_come_again_propose_a_secondary_index() {
    let mut shop = orders_by_city(15_000);
    assert_eq!(shop.found(), ["M14 order /address/city"]);
    let finding = shop.advice().get("findings").at(0).clone();
    let counts = finding.get("counts");
    assert_eq!(counts.get("physicalPartitions").as_i64(), Some(3));
    let cost = |name: &str| counts.get(name).as_number().expect(name).as_f64();
    assert!(cost("requestUnitsAfter") + 4.0 < cost("requestUnitsNow"), "{}", counts.to_json());
    // About half of the queries named the customer: these ask one partition anyway.
    let queries = cost("queries");
    assert!((1_000.0..3_000.0).contains(&queries), "{queries}");
    let containers = finding.get("patch").get("containers").as_object().expect("containers");
    let (id, definition) = containers.iter().next().expect("an index");
    let mut body = definition.clone();
    body.as_object_mut().expect("a definition").set("id", Value::from(&**id));
    shop.0.create_container(&body.to_json(), None);
    assert_eq!(shop.found(), Vec::<String>::new());
}

#[test]
fn no_index_is_proposed_where_one_partition_answers_or_writes_would_cost_more() {
    assert_eq!(orders_by_city(400).found(), Vec::<String>::new());
    let shop = orders_by_city(15_000);
    for n in 0..3000 {
        let item =
            format!(r#"{{"id":"o{n}","customer":"c{n}","address":{{"city":"C"}},"type":"order"}}"#);
        shop.put("orders", &item);
    }
    assert_eq!(shop.found(), Vec::<String>::new());
}

#[test]
fn growth_shows_in_the_writes_themselves() {
    let shop = Shop::new(&[("blog", "/id")]);
    let post = |n: usize, comments: usize| {
        let comments: Vec<String> =
            (0..comments).map(|i| format!(r#"{{"id":{i},"text":"something"}}"#)).collect();
        shop.put("blog", &format!(r#"{{"id":"p{n}","comments":[{}]}}"#, comments.join(",")));
    };
    for comments in [120, 125, 130] {
        (0..400).for_each(|n| post(n, comments));
    }
    let found = shop.found();
    assert!(found.contains(&"M01 blog /comments".to_owned()), "{found:?}");
}

#[test]
fn what_is_proposed_the_model_takes() {
    let shop = Shop::new(&[("library", "/id"), ("people", "/id"), ("stocks", "/id")]);
    for n in 1..=30 {
        shop.put("stocks", &format!(r#"{{"id":"{n}","symbol":"S{n}","high":{n}}}"#));
        let text =
            format!(r#"{{"id":"a{n}","type":"author","firstName":"F{n}","countOfBooks":0}}"#);
        shop.put("library", &text);
    }
    for n in 0..100 {
        let text = format!(
            r#"{{"id":"p{n}","name":"N{n}","holdings":[{{"held":1,"stockId":{}}}]}}"#,
            1 + n % 30
        );
        shop.put("people", &text);
        let text = format!(
            r#"{{"id":"b{n}","type":"book","title":"T{n}","authors":[{{"id":"a{}"}}]}}"#,
            1 + n % 30
        );
        shop.put("library", &text);
    }
    let before = shop.found();
    assert_eq!(
        before,
        ["M07 book /authors/*/id", "M07 people /holdings/*/stockId", "M10 author /countOfBooks",]
    );
    let mut model = Value::Undefined;
    for finding in shop.advice().get("findings").as_array().expect("a list") {
        model = orrery_modeling::patch::merged(&model, finding.get("patch")).expect("a part");
    }
    shop.model(&model.to_json());
    assert_eq!(shop.found(), Vec::<String>::new());
    let drift = shop.0.engine().model_verification().verify(&name("d")).expect("it is verified");
    assert!(drift.is_empty(), "{drift:?}");
}

#[test]
fn a_database_that_is_used_well_has_no_findings_and_statistics_can_be_off() {
    let shop = Shop::new(&[("books", "/id"), ("authors", "/id")]);
    shop.model(LIBRARY);
    library(&shop);
    for n in 0..400 {
        shop.query("books", &format!("SELECT * FROM b WHERE b.title = 'Title {}'", n % 60));
        // Whoever reads authors does not do so because of the answer before.
        shop.read("authors", &format!("a{}", (n * 11 + 3) % 30));
        let text = format!(r#"{{"id":"a{}","firstName":"F{n}","lastName":"L"}}"#, n % 30);
        shop.put("authors", &text);
    }
    assert_eq!(shop.found(), Vec::<String>::new());
    shop.0.engine().insight().keep_statistics(false);
    let report = shop.advice();
    let lacking = report.get("tooLittleData").to_json();
    assert!(lacking.contains("switched off"), "{lacking}");
    assert_eq!(report.get("workload").get("containers").at(0).get("writes").as_i64(), Some(0));
    assert_eq!(
        shop.0.engine().insight().advise(&name("none")).map(drop),
        Err(Error::OwnerNotFound)
    );
}
