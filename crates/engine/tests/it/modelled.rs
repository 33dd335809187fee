//! What a model promises, on the engine: checks, references, what is kept in the same commit, and that
//! a failure leaves nothing behind. After each case everything is recomputed and nothing may differ.
//! `modelled_together` has many writers at once, `modelled_layouts` splits and merges.

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::item::read::{Outcome, Written};
use orrery_types::{Error, KeyComponent, PartitionKey, Result, Value};

use crate::random::Random;
use crate::world::{World, json, name};

pub(crate) const LIBRARY: &str = r#"{"version":1,"types":{
    "publisher":{"container":"library","where":"c.type = 'publisher'"},
    "author":{"container":"library","where":"c.type = 'author'"},
    "book":{"container":"library","where":"c.type = 'book'"},
    "person":{"container":"people"},"stock":{"container":"stocks"}},
  "relations":[
    {"name":"stock","from":"person","path":"/holdings/*/stockId","to":"stock","coerce":"string",
     "onMissing":"reject","onDelete":"restrict"},
    {"name":"publisher","from":"book","path":"/pub-id","to":"publisher","onMissing":"reject",
     "onDelete":"unset","propagate":"sync","maxFanout":20,"inverse":{"name":"books"}},
    {"name":"author","from":"book","path":"/authors/*/id","to":"author","onMissing":"reject",
     "onDelete":"pull","copies":{"name":"CONCAT(t.firstName, ' ', t.lastName)"},"propagate":"sync",
     "maxFanout":20,"inverse":{"name":"written","store":"/writtenIds","maxItems":30}}],
  "aggregates":[
    {"on":"author","path":"/countOfBooks","of":"written","value":"COUNT(1)","propagate":"sync"}]}"#;

pub(crate) struct Case(pub(crate) World);

impl Case {
    pub(crate) fn new(world: World) -> Self {
        let mut world = world;
        world.database();
        for id in ["library", "people", "stocks", "other"] {
            let body =
                format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}}}}"#);
            // Several physical partitions, so that commits span shards.
            world.create_container(&body, (id == "library").then_some(18_000));
        }
        Self(world)
    }

    pub(crate) fn with_model(text: &str) -> Self {
        let case = Self::new(World::memory());
        case.store(text).expect("the model is taken");
        case
    }

    pub(crate) fn store(&self, text: &str) -> Result<Outcome> {
        let none = Preconditions::default();
        self.0.engine().models().store(&name("d"), &json(text), &none).map(|(outcome, _)| outcome)
    }

    pub(crate) fn put(&self, container: &str, item: &str) -> Result<Written> {
        let container = self.0.container(container);
        self.0.engine().items().upsert(&container, None, item.as_bytes(), &Preconditions::default())
    }

    pub(crate) fn delete(&self, container: &str, id: &str) -> Result<Written> {
        let container = self.0.container(container);
        let (key, none) = (key(id), Preconditions::default());
        self.0.engine().items().delete(&container, Some(&key), &name(id), &none)
    }

    pub(crate) fn get(&self, container: &str, id: &str) -> Result<Value> {
        let container = self.0.container(container);
        let item = self.0.engine().items().read(&container, Some(&key(id)), &name(id))?;
        Ok(Value::parse(&item.body).expect("JSON"))
    }

    pub(crate) fn at(&self, container: &str, id: &str, property: &str) -> String {
        self.get(container, id).expect(id).get(property).to_json()
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let drift =
            self.0.engine().model_verification().verify(&name("d")).expect("it is verified");
        assert!(drift.is_empty(), "{drift:#?}");
        for id in ["library", "people", "stocks"] {
            let faults =
                self.0.engine().insight().verify(&self.0.container(id)).expect("it is verified");
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }

    pub(crate) fn author(&self, id: &str) {
        let item = format!(r#"{{"id":"{id}","type":"author","firstName":"F{id}","lastName":"L"}}"#);
        self.put("library", &item).expect("an author");
    }

    pub(crate) fn book(&self, id: &str, authors: &[&str]) -> Result<Written> {
        let authors: Vec<String> = authors.iter().map(|a| format!(r#"{{"id":"{a}"}}"#)).collect();
        let authors = authors.join(",");
        self.put("library", &format!(r#"{{"id":"{id}","type":"book","authors":[{authors}]}}"#))
    }
}

fn key(id: &str) -> PartitionKey {
    PartitionKey(vec![KeyComponent::String(id.into())])
}

#[track_caller]
fn refused(result: Result<Written>, says: &str) {
    match result {
        Err(Error::ModelViolated(text) | Error::StillReferenced(text)) => {
            assert!(text.contains(says), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_is_stored_read_and_deleted_under_its_etag() {
    let mut case = Case::new(World::memory());
    let none = Preconditions::default();
    assert_eq!(case.0.engine().models().read(&name("d")).map(drop), Err(Error::NotFound));
    assert_eq!(case.0.engine().models().read(&name("x")).map(drop), Err(Error::OwnerNotFound));
    assert_eq!(case.store(LIBRARY), Ok(Outcome::Created));
    let first = case.0.engine().models().read(&name("d")).expect("a model");
    assert_eq!(first.body.get("_state").at(0).get("state").as_str(), Some("enforced"));
    // What was read may be sent back.
    let back = case.0.engine().models().store(&name("d"), &first.body, &none).expect("it is taken");
    assert_eq!(back.0, Outcome::Replaced);
    let stale =
        Preconditions { if_match: Some(first.stamp.etag.to_string().into()), ..none.clone() };
    let refused = case.0.engine().models().store(&name("d"), &first.body, &stale);
    assert_eq!(refused.map(drop), Err(Error::PreconditionFailed));
    assert_eq!(case.0.engine().models().delete(&name("d"), &stale), Err(Error::PreconditionFailed));
    // It survives a new definition of a container, and a restart; its containers stay.
    let container = case.0.container("library").to_resource().body;
    case.0
        .engine()
        .containers()
        .replace(&name("d"), &name("library"), &container, &none)
        .expect("it");
    case.0.reopen();
    assert!(case.0.engine().models().read(&name("d")).is_ok());
    let gone = case.0.engine().containers().delete(&name("d"), &name("library"), &none);
    assert!(
        matches!(gone, Err(Error::Invalid(text)) if text.contains("Change or delete the model"))
    );
    assert!(case.0.engine().containers().delete(&name("d"), &name("other"), &none).is_ok());
    refused_model(&case, &LIBRARY.replace("\"sync\"", "\"async\""), "/relations/1/propagate");
    assert_eq!(case.0.engine().models().delete(&name("d"), &none), Ok(()));
    assert_eq!(case.0.engine().models().delete(&name("d"), &none), Err(Error::NotFound));
}

#[track_caller]
fn refused_model(case: &Case, text: &str, says: &str) {
    match case.store(text) {
        Err(Error::Invalid(message) | Error::ModelViolated(message)) => {
            assert!(message.contains(says), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bucket_without_a_partition_to_share_is_refused() {
    let case = Case::new(World::memory());
    let bucket = r#"{"on":"person","array":"/l","bucket":{"link":"/personId"}}"#;
    let buckets =
        LIBRARY.replacen(r#""version":1"#, &format!(r#""version":1,"buckets":[{bucket}]"#), 1);
    refused_model(&case, &buckets, "keyed on '/id'");
    assert_eq!(case.0.engine().models().read(&name("d")).map(drop), Err(Error::NotFound));
}

#[test]
fn schema_and_limits_warn_or_refuse() {
    let model = |action: &str, level: &str| {
        format!(
            r#"{{"version":1,"types":{{"person":{{"container":"people",
            "schema":{{"required":["name"],"properties":{{"tags":{{"maxItems":2}}}}}},
            "limits":{{"warnBytes":100,"maxBytes":200}},
            "validation":{{"level":"{level}","action":"{action}"}}}}}}}}"#
        )
    };
    let case = Case::new(World::memory());
    let bad = r#"{"id":"old","tags":[1,2,3]}"#;
    case.put("people", bad).expect("there is no model yet");
    case.store(&model("warn", "strict")).expect("a model");
    let warnings = case.put("people", bad).expect("it is written").warnings;
    assert!(warnings.iter().any(|w| w.contains("/tags") && w.contains("maxItems")), "{warnings:?}");
    let good = r#"{"id":"p","name":"n","tags":[1]}"#;
    assert!(case.put("people", good).expect("it is written").warnings.is_empty());
    let long = |n: usize| format!(r#"{{"id":"p","name":"{}"}}"#, "x".repeat(n));
    assert!(
        case.put("people", &long(120)).expect("it is written").warnings[0].contains("warnBytes")
    );
    case.store(&model("error", "strict")).expect("a model");
    refused(case.put("people", bad), "required");
    refused(case.put("people", &long(300)), "limits/maxBytes");
    case.store(&model("error", "moderate")).expect("a model");
    assert!(case.put("people", bad).is_ok(), "it was invalid before");
    refused(case.put("people", r#"{"id":"new"}"#), "required");
    case.put("people", good).expect("it is valid");
    refused(case.put("people", r#"{"id":"p"}"#), "required");
}

#[test]
fn a_holding_refers_to_a_stock_that_is_there() {
    let case = Case::with_model(LIBRARY);
    case.put("stocks", r#"{"id":"1","price":5}"#).expect("a stock");
    let holding = |stock: &str| format!(r#"{{"id":"p","holdings":[{{"stockId":{stock},"n":3}}]}}"#);
    refused(case.put("people", &holding("99")), "'/holdings/*/stockId' has the value 99");
    assert_eq!(case.get("people", "p"), Err(Error::NotFound));
    case.put("people", &holding("1")).expect("a number counts as its text");
    case.put("stocks", r#"{"id":"1","price":6}"#).expect("a new price touches nobody else");
    refused(case.delete("stocks", "1"), "onDelete restrict): p.");
    case.put("people", &holding("null")).expect("null refers to nothing");
    case.check();
    case.delete("stocks", "1").expect("nobody refers to it");
    case.check();
}

#[test]
fn a_refused_delete_names_ten_holders() {
    let case = Case::with_model(LIBRARY);
    case.put("stocks", r#"{"id":"1"}"#).expect("a stock");
    for n in 10..25 {
        let item = format!(r#"{{"id":"p{n}","holdings":[{{"stockId":1}}]}}"#);
        case.put("people", &item).expect("a person");
    }
    refused(
        case.delete("stocks", "1"),
        "p10, p11, p12, p13, p14, p15, p16, p17, p18, p19 and 5 more",
    );
}

#[test]
fn a_book_is_one_commit_with_its_authors() {
    let case = Case::with_model(LIBRARY);
    case.author("a1");
    case.author("a2");
    let written = case.book("b5", &["a1", "a2"]).expect("a book");
    let body = Value::parse(&written.body).expect("JSON");
    assert_eq!(
        body.get("authors").to_json(),
        r#"[{"id":"a1","name":"Fa1 L"},{"id":"a2","name":"Fa2 L"}]"#
    );
    assert_eq!(case.at("library", "a1", "countOfBooks"), "1");
    assert_eq!(case.at("library", "a2", "writtenIds"), r#"["b5"]"#);
    refused(case.book("b6", &["a1", "a9"]), "\"a9\"");
    assert_eq!(case.at("library", "a1", "countOfBooks"), "1", "nothing of it was written");
    case.check();
    // A client that writes back what it has read changes nothing that the server keeps.
    let stale = r#"{"id":"a1","type":"author","firstName":"New","lastName":"L","countOfBooks":77}"#;
    case.put("library", stale).expect("an author");
    assert_eq!(case.at("library", "a1", "countOfBooks"), "1");
    assert_eq!(case.at("library", "a1", "writtenIds"), r#"["b5"]"#);
    let renamed = r#"[{"id":"a1","name":"New L"},{"id":"a2","name":"Fa2 L"}]"#;
    assert_eq!(case.at("library", "b5", "authors"), renamed);
    case.check();
    case.delete("library", "a2").expect("pulled");
    assert_eq!(case.at("library", "b5", "authors"), r#"[{"id":"a1","name":"New L"}]"#);
    case.delete("library", "b5").expect("a book");
    assert_eq!(case.at("library", "a1", "countOfBooks"), "0");
    assert_eq!(case.at("library", "a1", "writtenIds"), "[]");
    case.check();
}

#[test]
fn a_publisher_that_goes_is_unset_everywhere_or_nowhere() {
    let case = Case::with_model(LIBRARY);
    case.put("library", r#"{"id":"ms","type":"publisher"}"#).expect("a publisher");
    for n in 0..20 {
        let item = format!(r#"{{"id":"b{n}","type":"book","pub-id":"ms","books":[1]}}"#);
        case.put("library", &item).expect("a book");
    }
    let own = r#"{"id":"extra","type":"book","pub-id":"ms","publisher":{"x":1}}"#;
    refused(case.put("library", own), "'/publisher', the name of the relation 'publisher'");
    let shown = r#"{"id":"extra","type":"book","pub-id":"ms","publisher":{"id":"ms"}}"#;
    case.put("library", shown).expect("what expansion shows is taken off");
    assert_eq!(
        case.at("library", "extra", "publisher"),
        "",
        "the name of a relation is not stored"
    );
    refused(case.delete("library", "ms"), "more than 20 items in other partitions");
    assert_eq!(case.at("library", "b3", "pub-id"), r#""ms""#);
    case.delete("library", "extra").expect("a book");
    case.delete("library", "ms").expect("now they are few enough");
    assert_eq!(case.at("library", "b3", "pub-id"), "");
    case.check();
}

#[test]
fn what_may_follow_later_does_so_without_the_bound() {
    let later = [
        LIBRARY.replacen(r#""propagate":"sync","maxFanout":20,"#, "", 1),
        LIBRARY.replacen(r#""maxFanout":20"#, r#""maxFanout":20,"onOverflow":"async""#, 1),
    ];
    for text in later {
        let mut case = Case::with_model(&text);
        case.put("library", r#"{"id":"ms","type":"publisher"}"#).expect("a publisher");
        for n in 0..150 {
            let item = format!(r#"{{"id":"b{n}","type":"book","pub-id":"ms"}}"#);
            case.put("library", &item).expect("a book");
        }
        case.delete("library", "ms").expect("it commits");
        assert_eq!(case.at("library", "b149", "pub-id"), r#""ms""#, "it follows later");
        // It may be read and written meanwhile, and nothing new may refer to what is gone.
        case.put("library", r#"{"id":"b149","type":"book","pub-id":"ms","n":1}"#).expect("a book");
        refused(case.put("library", r#"{"id":"new","type":"book","pub-id":"ms"}"#), "\"ms\"");
        case.0.reopen();
        case.0.run_tasks();
        assert_eq!(case.at("library", "b149", "pub-id"), "");
        assert_eq!(case.at("library", "b0", "pub-id"), "");
        case.check();
    }
}

#[test]
fn copies_follow_later_what_their_source_is_then() {
    let text = LIBRARY.replace("\"maxItems\":30", "\"maxItems\":1000");
    let text = text.replace(
        r#""maxFanout":20,"inverse":{"name":"written""#,
        r#""maxFanout":20,"onOverflow":"async","inverse":{"name":"written""#,
    );
    let mut case = Case::with_model(&text);
    let rename = |case: &Case, name: &str| {
        let item = format!(r#"{{"id":"a1","type":"author","firstName":"{name}","lastName":"L"}}"#);
        case.put("library", &item).expect("an author");
    };
    let name_in = |case: &Case, book: &str| {
        case.get("library", book).expect(book).get("authors").at(0).get("name").to_json()
    };
    case.author("a1");
    for n in 0..20 {
        case.book(&format!("b{n}"), &["a1"]).expect("a book");
    }
    rename(&case, "Few");
    assert_eq!(name_in(&case, "b7"), r#""Few L""#, "in the same commit");
    case.book("b20", &["a1"]).expect("a book");
    rename(&case, "Many");
    assert_eq!(name_in(&case, "b7"), r#""Few L""#);
    // A book that is written meanwhile is ahead of the others.
    case.book("b8", &["a1"]).expect("a book");
    assert_eq!(name_in(&case, "b8"), r#""Many L""#);
    rename(&case, "Last");
    case.0.run_tasks();
    for book in ["b0", "b7", "b8", "b20"] {
        assert_eq!(name_in(&case, book), r#""Last L""#);
    }
    case.check();
}

#[test]
fn a_cascade_that_is_refused_waits_until_it_is_not() {
    let model = r#"{"version":1,"types":{
        "shelf":{"container":"stocks"},"box":{"container":"people"},"label":{"container":"other"}},
      "relations":[
        {"name":"shelf","from":"box","path":"/shelfId","to":"shelf","onDelete":"cascade"},
        {"name":"box","from":"label","path":"/boxId","to":"box","onDelete":"restrict"}]}"#;
    let mut case = Case::with_model(model);
    case.put("stocks", r#"{"id":"s"}"#).expect("a shelf");
    for n in 0..5 {
        case.put("people", &format!(r#"{{"id":"b{n}","shelfId":"s"}}"#)).expect("a box");
    }
    case.put("other", r#"{"id":"l","boxId":"b3"}"#).expect("a label");
    case.delete("stocks", "s").expect("it commits");
    case.0.run_tasks();
    assert_eq!(case.get("people", "b1"), Err(Error::NotFound));
    assert!(case.get("people", "b3").is_ok(), "a label refers to it");
    assert_eq!(case.get("people", "b4"), Err(Error::NotFound), "others do not wait for it");
    assert!(case.0.engine().models().lag_ms().is_ok());
    case.delete("other", "l").expect("a label");
    case.0.run_tasks();
    assert_eq!(case.get("people", "b3"), Err(Error::NotFound));
    case.check();
}

#[test]
fn an_item_that_changes_its_type_is_no_target_any_more() {
    let case = Case::with_model(LIBRARY);
    case.author("a1");
    case.book("b", &["a1"]).expect("a book");
    case.put("library", r#"{"id":"a1","type":"retired"}"#).expect("it");
    assert_eq!(case.at("library", "b", "authors"), "[]");
    case.put("library", r#"{"id":"b","type":"leaflet","authors":[{"id":"nobody"}]}"#)
        .expect("no book");
    case.check();
}

#[test]
fn a_full_inverse_refuses_and_keeps_everything_as_it_was() {
    let case = Case::with_model(LIBRARY);
    case.author("a1");
    for n in 0..30 {
        case.book(&format!("b{n}"), &["a1"]).expect("a book");
    }
    refused(case.book("b30", &["a1"]), "maxItems");
    assert_eq!(case.get("library", "b30"), Err(Error::NotFound));
    case.check();
}

#[test]
fn patches_batches_and_undone_changes_keep_the_model() {
    let model = r#"{"version":1,"types":{
        "order":{"container":"shop","where":"c.type = 'order'"},
        "line":{"container":"shop","where":"c.type = 'line'"}},
      "relations":[{"name":"order","from":"line","path":"/orderId","to":"order",
        "partitionKey":["/tenant"],"onMissing":"reject","onDelete":"cascade",
        "copies":{"day":"t.day"},"inverse":{"name":"lines"}}],
      "aggregates":[{"on":"order","path":"/lineCount","of":"lines","value":"COUNT(1)"}]}"#;
    let mut case = Case::new(World::memory());
    case.0.create_container(
        r#"{"id":"shop","partitionKey":{"paths":["/tenant"],"kind":"Hash"}}"#,
        None,
    );
    case.store(model).expect("one logical partition is always sync");
    let shop = case.0.container("shop");
    let (tenant, none) = (key("t"), Preconditions::default());
    let done = case.0.engine().transactions().transact(&shop, &tenant, &mut |transaction| {
        transaction.create(br#"{"id":"o","tenant":"t","type":"order","day":1}"#)?;
        transaction.create(br#"{"id":"l1","tenant":"t","type":"line","orderId":"o"}"#)?;
        // A refusal inside takes back all of itself and nothing else.
        let bad = transaction.create(br#"{"id":"l2","tenant":"t","type":"line","orderId":"no"}"#);
        assert!(matches!(bad, Err(Error::ModelViolated(_))), "{bad:?}");
        let order = transaction.read(&name("o"))?;
        let order = Value::parse(&order.body).expect("JSON");
        assert_eq!(order.get("lineCount").to_json(), "1", "own writes are seen");
        transaction.create(br#"{"id":"l2","tenant":"t","type":"line","orderId":"o"}"#)?;
        let patch = json(r#"{"operations":[{"op":"set","path":"/day","value":2}]}"#);
        transaction.patch(&name("o"), &Patch::parse(&patch)?, &none)
    });
    done.expect("it commits");
    let read = |id: &str| {
        let item = case.0.engine().items().read(&shop, Some(&tenant), &name(id)).expect(id);
        Value::parse(&item.body).expect("JSON")
    };
    assert_eq!(read("o").get("lineCount").to_json(), "2");
    assert_eq!(read("l1").get("day").to_json(), "2");
    case.check();
    case.0.engine().items().delete(&shop, Some(&tenant), &name("o"), &none).expect("it cascades");
    let left = case.0.engine().items().read(&shop, Some(&tenant), &name("l1")).map(drop);
    assert_eq!(left, Err(Error::NotFound));
    case.check();
}

#[test]
fn clients_may_be_refused_what_the_server_keeps() {
    let strict =
        LIBRARY.replace(r#""value":"COUNT(1)","#, r#""value":"COUNT(1)","clientWrites":"reject","#);
    let case = Case::with_model(&strict);
    refused(
        case.put("library", r#"{"id":"a","type":"author","countOfBooks":5}"#),
        "kept by the server",
    );
    case.put("library", r#"{"id":"a","type":"author","countOfBooks":0}"#)
        .expect("it is the true one");
}

#[test]
fn data_that_is_there_comes_under_a_new_model_and_what_breaks_it_is_listed() {
    let mut case = Case::new(World::memory());
    case.author("a1");
    for n in 0..10 {
        case.book(&format!("b{n}"), &["a1"]).expect("a book");
    }
    case.book("bad", &["a1", "nobody"]).expect("there is no model yet");
    case.store(LIBRARY).expect("it is being built");
    let state = |case: &Case, at: usize| {
        let model = case.0.engine().models().read(&name("d")).expect("a model").body;
        model.get("_state").at(5 + at).clone()
    };
    let author = state(&case, 2);
    assert_eq!(author.get("rule").as_str(), Some("/relations/2"));
    assert_eq!(author.get("state").as_str(), Some("building"));
    assert_eq!(author.get("violations").to_json(), "1");
    let sample = r#"["item 'bad' in 'library': \"nobody\" at '/authors/*/id' leads nowhere"]"#;
    assert_eq!(author.get("samples").to_json(), sample);
    assert_eq!(state(&case, 1).get("state").as_str(), Some("enforced"), "others do not wait");
    // Writes keep the rule meanwhile, and nothing was deleted.
    refused(case.book("new", &["nobody"]), "nobody");
    case.0.run_tasks();
    assert_eq!(case.at("library", "a1", "countOfBooks"), "11");
    case.delete("library", "bad").expect("a book");
    case.0.run_tasks();
    assert_eq!(state(&case, 2).get("state").as_str(), Some("enforced"));
    assert_eq!(case.at("library", "a1", "countOfBooks"), "10");
    assert_eq!(
        case.get("library", "b3").expect("b3").get("authors").at(0).get("name").to_json(),
        r#""Fa1 L""#
    );
    case.check();
    // Another rule for the same references is backfilled, and the old entries are gone.
    case.store(&LIBRARY.replace("' ', t.lastName", "'-', t.lastName")).expect("a new copy");
    assert_eq!(
        case.get("library", "b3").expect("b3").get("authors").at(0).get("name").to_json(),
        r#""Fa1-L""#
    );
    case.check();
    case.0.engine().models().delete(&name("d"), &Preconditions::default()).expect("it goes");
    assert_eq!(case.at("library", "a1", "countOfBooks"), "10", "the data stays as it is");
    case.delete("library", "a1").expect("nothing is kept any more");
    assert_eq!(
        case.get("library", "b3").expect("b3").get("authors").at(0).get("id").to_json(),
        r#""a1""#
    );
}

#[test]
fn a_partition_key_is_deleted_with_all_that_follows_or_not_at_all() {
    let mut case = Case::with_model(LIBRARY);
    case.author("a1");
    case.author("a2");
    for n in 0..5 {
        case.book(&format!("b{n}"), &["a1", "a2"]).expect("a book");
    }
    let library = case.0.container("library");
    let erase = |case: &Case, id: &str, container: &str| {
        let container = case.0.container(container);
        case.0.engine().erasure().erase_partition_key(&container, &key(id)).map(drop)
    };
    erase(&case, "a1", "library").expect("it is pulled");
    assert_eq!(case.get("library", "a1"), Err(Error::NotFound));
    assert_eq!(
        case.get("library", "b3").expect("b3").get("authors").as_array().map(<[_]>::len),
        Some(1)
    );
    erase(&case, "b3", "library").expect("it is counted");
    assert_eq!(case.at("library", "a2", "countOfBooks"), "4");
    case.put("stocks", r#"{"id":"1"}"#).expect("a stock");
    case.put("people", r#"{"id":"p","holdings":[{"stockId":1}]}"#).expect("it is held");
    assert!(matches!(erase(&case, "1", "stocks"), Err(Error::StillReferenced(_))));
    assert!(case.get("stocks", "1").is_ok());
    case.0.run_tasks();
    case.check();
    drop(library);
}

#[test]
fn expiry_is_a_delete_and_restrict_postpones_it() {
    let mut case = Case::new(World::memory());
    case.0.create_container(
        r#"{"id":"shares","partitionKey":{"paths":["/id"],"kind":"Hash"},"defaultTtl":-1}"#,
        None,
    );
    let model = r#"{"version":1,"types":{"owner":{"container":"people"},"share":{"container":"shares"}},
        "relations":[{"name":"share","from":"owner","path":"/shareId","to":"share",
            "onMissing":"reject","onDelete":"restrict"},
          {"name":"holder","from":"share","path":"/ownerId","to":"owner","inverse":{"name":"shares"}}],
        "aggregates":[{"on":"owner","path":"/shareCount","of":"shares","value":"COUNT(1)","propagate":"sync"}]}"#;
    case.store(model).expect("a model");
    case.put("people", r#"{"id":"p"}"#).expect("an owner");
    case.put("shares", r#"{"id":"s","ownerId":"p","ttl":10}"#).expect("a share");
    case.put("people", r#"{"id":"p","shareId":"s"}"#).expect("it is held");
    assert_eq!(case.at("people", "p", "shareCount"), "1");
    case.0.clock.advance_s(11);
    case.0.run_tasks();
    assert_eq!(case.get("shares", "s"), Err(Error::NotFound), "it is hidden");
    assert_eq!(case.at("people", "p", "shareCount"), "1", "and not removed");
    case.put("people", r#"{"id":"p"}"#).expect("it is let go");
    case.0.run_tasks();
    assert_eq!(case.at("people", "p", "shareCount"), "0");
    case.check();
}

#[test]
fn random_writes_on_a_failing_disk_leave_nothing_half_done() {
    for seed in 1..=6 {
        let mut case = Case::new(World::faulty(seed));
        let text = LIBRARY.replace("\"maxItems\":30", "\"maxItems\":1000");
        let model = json(&text);
        case.0
            .insist(|e| e.models().store(&name("d"), &model, &Preconditions::default()).map(drop));
        let mut random = Random::new(seed);
        for _ in 0..150 {
            let id = random.below(6);
            let (author, book) = (format!("a{id}"), format!("b{}", random.below(8)));
            let outcome = match random.below(5) {
                0 => case.put(
                    "library",
                    &format!(
                        r#"{{"id":"{author}","type":"author","firstName":"F{}"}}"#,
                        random.below(3)
                    ),
                ),
                1 => case.delete("library", &author),
                2 => case.delete("library", &book),
                _ => case.book(&book, &[&author, &format!("a{}", random.below(6))]),
            };
            if matches!(
                outcome,
                Err(Error::Unavailable(_) | Error::Internal(_) | Error::Timeout(_))
            ) {
                case.0.reopen();
            }
        }
        case.0.reopen();
        let drift = case.0.insist(|e| e.model_verification().verify(&name("d")));
        assert!(drift.is_empty(), "seed {seed}: {drift:#?}");
    }
}
