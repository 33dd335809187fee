//! Every way in which a model is refused, with the place it names and the fix it offers.

use super::*;
use crate::expression::PathRead;

/// Stands for the query language: reads the dotted paths behind the alias and nothing else.
#[derive(Debug)]
struct Words(Vec<PathRead>);

impl Expression for Words {
    fn value(&self, _: &Value) -> Value {
        Value::Undefined
    }

    fn reads(&self) -> &[PathRead] {
        &self.0
    }
}

struct Fakes;

impl Expressions for Fakes {
    fn parse(&self, alias: &str, text: &str) -> Result<Arc<dyn Expression>, String> {
        if text.contains('!') {
            return Err("Syntax error, incorrect syntax near '!'.".into());
        }
        let words = text.split(|c: char| !(c.is_alphanumeric() || "._".contains(c)));
        let prefix = format!("{alias}.");
        let paths = words.filter_map(|word| word.strip_prefix(&prefix));
        let paths = paths.map(|path| path.split('.').map(Into::into).collect()).collect();
        Ok(Arc::new(Words(paths)))
    }
}

impl Containers for Fakes {
    fn partition_key(&self, container: &str) -> Option<Vec<PropertyPath>> {
        let path = match container {
            "people" | "stocks" | "library" => "/id",
            "blog" => "/blogId",
            "orders" => "/tenantId",
            _ => return None,
        };
        Some(vec![PropertyPath::parse(path).expect(path)])
    }

    fn has_unique_keys(&self, container: &str) -> bool {
        container == "orders"
    }
}

const TYPES: &str = r#"{
    "person":{"container":"people"},"stock":{"container":"stocks"},
    "post":{"container":"blog","where":"c.type = 'post'"},
    "publisher":{"container":"library","where":"c.type = 'publisher'"},
    "author":{"container":"library","where":"c.type = 'author'"},
    "book":{"container":"library","where":"c.type = 'book'",
        "schema":{"required":["title"],"properties":{"title":{"type":"string"}}}},
    "order":{"container":"orders"},"line":{"container":"orders"}}"#;

const AUTHOR: &str = r#"{"name":"author","from":"book","path":"/authors/*/id","to":"author",
    "onMissing":"reject","onDelete":"pull","copies":{"name":"CONCAT(t.firstName, ' ', t.lastName)"},
    "propagate":"sync","inverse":{"name":"written","store":"/books","maxItems":500}}"#;

fn compile(text: &str) -> Result<Rules, ModelError> {
    let document = Value::parse(text.as_bytes()).expect(text);
    Rules::compile(&Model::parse(&document)?, &Fakes, &Fakes)
}

fn model(relations: &str, aggregates: &str) -> String {
    format!(
        r#"{{"version":1,"types":{TYPES},"relations":[{relations}],"aggregates":[{aggregates}]}}"#
    )
}

#[track_caller]
fn check(text: &str, path: &str, says: &str) {
    let error = compile(text).expect_err(text);
    assert_eq!(&*error.path, path, "{error}");
    assert!(error.reason.contains(says), "{error}");
}

#[track_caller]
fn check_relation(relation: &str, path: &str, says: &str) {
    check(&model(relation, ""), path, says);
}

#[test]
fn a_good_model_is_taken() {
    let count = r#"{"on":"author","path":"/countOfBooks","of":"written","value":"COUNT(1)"}"#;
    let rules = compile(&model(AUTHOR, count)).expect("a model");
    assert_eq!(rules.owned.len(), 3);
    assert_eq!(rules.relations[0].navigation.to_string(), "/authors/*/author");
    assert!(!rules.relations[0].same_partition);
    let line = r#"{"name":"order","from":"line","path":"/orderId","to":"order",
        "partitionKey":["/tenantId"],"onDelete":"restrict","propagate":"async"}"#;
    assert!(compile(&model(line, "")).expect("one partition").relations[0].same_partition);
}

#[test]
fn what_the_server_sends_may_be_sent_back() {
    let text = model(AUTHOR, "").replacen('{', r#"{"_etag":"x","_ts":1,"_state":[],"#, 1);
    assert!(compile(&text).is_ok());
}

#[test]
fn the_form_is_checked_and_the_place_named() {
    check("[]", "", "must be a JSON object");
    check(r#"{"version":2,"types":{}}"#, "/version", "the number 1");
    check(r#"{"version":1,"types":[]}"#, "/types", "must be an object");
    check(r#"{"version":1,"types":{},"relatoins":[]}"#, "/relatoins", "this property is unknown");
    check(r#"{"version":1,"types":{"a":{}}}"#, "/types/a", "'container' is missing");
    check(
        r#"{"version":1,"types":{"a":{"container":"people","validation":{"level":"loose"}}}}"#,
        "/types/a/validation/level",
        "'loose' is not one of: strict, moderate",
    );
    check(
        r#"{"version":1,"types":{"a":{"container":"people","limits":{"warnBytes":9,"maxBytes":5}}}}"#,
        "/types/a/limits/warnBytes",
        "not be more than 'maxBytes'",
    );
    check(
        r#"{"version":1,"types":{"a":{"container":"people","schema":{"type":"nonsense"}}}}"#,
        "/types/a/schema",
        "not a JSON Schema",
    );
    check_relation(
        r#"{"name":"a","from":"book","to":"author"}"#,
        "/relations/0",
        "'path' is missing",
    );
    check_relation(
        r#"{"name":"a b","from":"book","path":"/a","to":"author"}"#,
        "/relations/0/name",
        "after a dot",
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/a","to":"author","maxFanout":0}"#,
        "/relations/0/maxFanout",
        "a whole number from 1 to",
    );
}

#[test]
fn unknown_names_are_refused() {
    check(
        r#"{"version":1,"types":{"a":{"container":"nowhere"}}}"#,
        "/types/a/container",
        "no container 'nowhere'; create it first",
    );
    check(
        r#"{"version":1,"types":{"a":{"container":"people","where":"!"}}}"#,
        "/types/a/where",
        "Syntax error",
    );
    check_relation(
        r#"{"name":"a","from":"novel","path":"/a","to":"author"}"#,
        "/relations/0/from",
        "the type 'novel' is unknown; declared are: person",
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/a/id","to":"author","copies":{"n":"!"}}"#,
        "/relations/0/copies/n",
        "Syntax error",
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/a/id","to":"author","copies":{"n":"t._ts"}}"#,
        "/relations/0/copies/n",
        "system property",
    );
    check(
        &model(AUTHOR, r#"{"on":"author","path":"/n","of":"books","value":"COUNT(1)"}"#),
        "/aggregates/0/of",
        "declare \"inverse\":{\"name\":\"books\"}",
    );
    check(
        &model(AUTHOR, r#"{"on":"author","path":"/n","of":"written","value":"MEDIAN(c.x)"}"#),
        "/aggregates/0/value",
        "SUM, AVG, MIN or MAX",
    );
}

#[test]
fn on_delete_fits_the_path() {
    check_relation(
        r#"{"name":"a","from":"book","path":"/pub-id","to":"author","onDelete":"pull"}"#,
        "/relations/0/onDelete",
        "use 'unset'",
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/ids/*","to":"author","onDelete":"unset"}"#,
        "/relations/0/onDelete",
        "use 'pull'",
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/ids/*","to":"author","copies":{"n":"t.n"}}"#,
        "/relations/0/copies",
        "make the elements objects",
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/title","to":"author","onDelete":"unset"}"#,
        "/relations/0/onDelete",
        "the schema of 'book' requires",
    );
    check_relation(
        r#"{"name":"a","from":"post","path":"/blogId","to":"author","onDelete":"unset"}"#,
        "/relations/0/onDelete",
        "partition key, which cannot change",
    );
}

#[test]
fn the_partition_of_a_target_must_be_known() {
    check_relation(
        r#"{"name":"a","from":"book","path":"/post","to":"post"}"#,
        "/relations/0/partitionKey",
        r#"say with "partitionKey":["/blogId"]"#,
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/post","to":"post","partitionKey":["/a","/b"]}"#,
        "/relations/0/partitionKey",
        "has 1 partition key paths",
    );
    check_relation(
        r#"{"name":"a","from":"book","path":"/p/*/id","to":"post","partitionKey":["/q/*/blog"]}"#,
        "/relations/0/partitionKey",
        "the same one as the reference",
    );
}

#[test]
fn what_holds_another_item_cannot_be_async_across_partitions() {
    for rule in [r#""onMissing":"reject""#, r#""onDelete":"restrict""#] {
        check_relation(
            &format!(
                r#"{{"name":"a","from":"book","path":"/a","to":"author","propagate":"async",{rule}}}"#
            ),
            "/relations/0/propagate",
            "leave 'propagate' out",
        );
    }
}

#[test]
fn a_name_must_not_hide_what_is_stored() {
    let named = |name: &str, inverse: &str| {
        format!(
            r#"{{"name":"{name}","from":"book","path":"/a","to":"author","inverse":{{"name":"{inverse}"}}}}"#
        )
    };
    check_relation(&named("title", "x"), "/relations/0/name", "the schema of 'book' has it");
    check_relation(&named("id", "x"), "/relations/0/name", "every item may have it");
    check_relation(&named("a", "x"), "/relations/0/name", "reads its reference there");
    check_relation(
        &named("b", "title"),
        "/relations/0/inverse/name",
        "the schema of 'book' has it",
    );
    let stored = r#"{"name":"b","from":"book","path":"/a","to":"author",
        "inverse":{"name":"books","store":"/books"}}"#;
    check_relation(stored, "/relations/0/inverse/name", "it is kept by /relations/0/inverse/store");
    let twice = format!("{},{}", named("b", "x"), named("c", "x"));
    check_relation(&twice, "/relations/1/inverse/name", "already has the name");
}

#[test]
fn a_path_has_one_owner() {
    let count = r#"{"on":"author","path":"/books","of":"written","value":"COUNT(1)"}"#;
    check(&model(AUTHOR, count), "/aggregates/0/path", "already kept by the rule at '/relations/0");
    let count = r#"{"on":"author","path":"/id","of":"written","value":"COUNT(1)"}"#;
    check(&model(AUTHOR, count), "/aggregates/0/path", "identifies an item");
    let other = r#"{"name":"b","from":"author","path":"/books","to":"book"}"#;
    check_relation(&format!("{AUTHOR},{other}"), "/relations/1/path", "written by clients");
}

#[test]
fn cycles_are_refused_and_shown() {
    let a = r#"{"name":"a","from":"book","path":"/x/id","to":"author","copies":{"n":"t.y.m"}}"#;
    let b = r#"{"name":"b","from":"author","path":"/y/id","to":"book","copies":{"m":"t.x.n"}}"#;
    let cycle = "book/x/n ← author/y/m ← book/x/n";
    check_relation(&format!("{a},{b}"), "/relations/0/copies/n", cycle);
    let sum = r#"{"on":"author","path":"/total","of":"written","value":"SUM(c.authors.n)"}"#;
    let total = AUTHOR.replace("CONCAT(t.firstName, ' ', t.lastName)", "t.total");
    let total = total.replace("\"name\":\"t.total\"", "\"n\":\"t.total\"");
    check(&model(&total, sum), "/relations/0/copies/n", "form a cycle");
}

#[test]
fn buckets_need_a_partition_that_they_share() {
    let bucket = |on: &str| {
        format!(
            r#"{{"version":1,"types":{TYPES},"buckets":[{{"on":"{on}","array":"/comments",
            "bucket":{{"link":"/postId"}}}}]}}"#
        )
    };
    check(&bucket("person"), "/buckets/0/on", "keyed on '/id'");
    check(&bucket("nobody"), "/buckets/0/on", "is unknown");
    check(&bucket("order"), "/buckets/0/on", "has unique keys");
    assert!(compile(&bucket("post")).is_ok());
    let with = |more: &str, inner: &str| {
        format!(
            r#"{{"version":1,"types":{TYPES},"buckets":[{{"on":"post","array":"/comments"{more},
            "bucket":{{"link":"/postId"{inner}}}}}]}}"#
        )
    };
    check(&with(r#","count":"/blogId""#, ""), "/buckets/0/count", "identifies an item");
    check(&with(r#","count":"/comments/n""#, ""), "/buckets/0/count", "already kept");
    check(&with("", r#","idFormat":"{id}""#), "/buckets/0/bucket/idFormat", "{id} and {seq} once");
    let link = with("", "").replace("/postId", "/comments");
    check(&link, "/buckets/0/bucket/link", "choose another path");
}
