//! Models over HTTP: how far a resource token goes, what a conditional read of an expanded item
//! answers, and that hostile schemas are refused.

use orrery_types::{Clock as _, Value};

use crate::client::{Answer, Connection, http_date};
use crate::local::Local;

const MODEL: &str = r#"{"version":1,"types":{"publisher":{"container":"publishers"},
    "book":{"container":"books"},
    "chapter":{"container":"books2"}},
  "relations":[
    {"name":"publisher","from":"book","path":"/pubId","to":"publisher","onDelete":"cascade",
     "propagate":"MODE","copies":{"pubName":"t.name"},"inverse":{"name":"books"}},
    {"name":"sequel","from":"book","path":"/sequelId","to":"book","onDelete":"unset"},
    {"name":"book","from":"chapter","path":"/bookId","to":"book","onDelete":"unset",
     "propagate":"MODE"}]}"#;

struct Shop {
    local: Local,
}

impl Shop {
    fn new(mode: &str, throughput: &str) -> Self {
        let local = Local::start();
        local.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
        for id in ["publishers", "books", "books2"] {
            let body =
                format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}}}}"#);
            local.must("POST", "/dbs/d/colls", &[("x-ms-offer-throughput", throughput)], &body);
        }
        local.must("PUT", "/dbs/d/_model", &[], &MODEL.replace("MODE", mode));
        local.must("POST", "/dbs/d/users", &[], r#"{"id":"u"}"#);
        let shop = Self { local };
        for id in ["p1", "p2"] {
            shop.create("publishers", &format!(r#"{{"id":"{id}","name":"{id}"}}"#));
        }
        for (id, more) in [("b1", r#","pubId":"p1""#), ("b2", r#","sequelId":"b1""#), ("b3", "")] {
            shop.create("books", &format!(r#"{{"id":"{id}"{more}}}"#));
        }
        shop.create("books2", r#"{"id":"c1","bookId":"b1"}"#);
        shop
    }

    fn create(&self, container: &str, item: &str) {
        self.local.must("POST", &format!("/dbs/d/colls/{container}/docs"), &[], item);
    }

    fn get(&self, container: &str, id: &str, more: &[(&str, &str)]) -> Answer {
        let key = format!("[\"{id}\"]");
        let mut headers = vec![("x-ms-documentdb-partitionkey", &*key)];
        headers.extend_from_slice(more);
        self.local.send("GET", &format!("/dbs/d/colls/{container}/docs/{id}"), &headers, "")
    }

    /// A token for everything in a container, or in one of its partition keys.
    fn token(&self, id: &str, container: &str, more: &str) -> String {
        let body = format!(
            r#"{{"id":"{id}","permissionMode":"All","resource":"dbs/d/colls/{container}"{more}}}"#
        );
        let made = self.local.must("POST", "/dbs/d/users/u/permissions", &[], &body);
        let made = Value::parse(made.body.as_bytes()).unwrap();
        let token = made.get("_token").as_str().unwrap();
        let escapes =
            [("%", "%25"), ("=", "%3D"), ("&", "%26"), (";", "%3B"), ("+", "%2B"), ("/", "%2F")];
        escapes.iter().fold(token.to_owned(), |text, (c, escape)| text.replace(c, escape))
    }

    fn with_token(
        &self,
        token: &str,
        (method, path): (&str, &str),
        more: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let date = http_date(self.local.clock.now_s());
        let mut headers = vec![("authorization", token), ("x-ms-date", &*date)];
        headers.extend_from_slice(more);
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut connection = Connection::open(self.local.address).unwrap();
        connection.send(method, path, &headers, body.as_bytes()).unwrap()
    }

    fn delete(&self, token: &str, container: &str, id: &str) -> Answer {
        let key = format!("[\"{id}\"]");
        let path = format!("/dbs/d/colls/{container}/docs/{id}");
        self.with_token(token, ("DELETE", &path), &[("x-ms-documentdb-partitionkey", &key)], "")
    }
}

fn is_denied(answer: &Answer) {
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("Use an account key"), "{answer:?}");
}

#[test]
fn a_token_changes_nothing_by_cascade_that_it_does_not_open() {
    for (mode, throughput) in [("sync", "400"), ("sync", "30000"), ("async", "400")] {
        let shop = Shop::new(mode, throughput);
        let publishers = shop.token("a", "publishers", "");
        // A single delete, a batch, bulk, a procedure, and a delete by partition key.
        is_denied(&shop.delete(&publishers, "publishers", "p1"));
        let key = ("x-ms-documentdb-partitionkey", "[\"p1\"]");
        let items = ("POST", "/dbs/d/colls/publishers/docs");
        let operation = r#"[{"operationType":"Delete","id":"p1","partitionKey":"[\"p1\"]"}]"#;
        for atomic in ["True", "False"] {
            let headers = [
                key,
                ("x-ms-cosmos-is-batch-request", "True"),
                ("x-ms-cosmos-batch-atomic", atomic),
            ];
            let answer = shop.with_token(&publishers, items, &headers, operation);
            assert!(answer.body.contains("\"statusCode\":403"), "{atomic}: {answer:?}");
        }
        let procedure =
            r#"{"id":"s","body":"function s() { getContext().getResponse().setBody(1); }"}"#;
        shop.local.must("POST", "/dbs/d/colls/publishers/sprocs", &[], procedure);
        let run = ("POST", "/dbs/d/colls/publishers/sprocs/s");
        is_denied(&shop.with_token(&publishers, run, &[key], "[]"));
        let erase = ("POST", "/dbs/d/colls/publishers/operations/partitionkeydelete");
        is_denied(&shop.with_token(&publishers, erase, &[key], ""));
        for (container, id) in [("publishers", "p1"), ("books", "b1")] {
            assert_eq!(shop.get(container, id, &[]).status, 200, "{container} {id}");
        }
        // No item refers to the other one, so deleting it has no effects.
        assert_eq!(shop.delete(&publishers, "publishers", "p2").status, 204);
        let renamed = r#"{"id":"p1","name":"new"}"#;
        let put = ("PUT", "/dbs/d/colls/publishers/docs/p1");
        assert_eq!(shop.with_token(&publishers, put, &[key], renamed).status, 200);
        // Within its container a token changes what it opens, and nothing beyond.
        let books = shop.token("b", "books", "");
        is_denied(&shop.delete(&books, "books", "b1"));
        let none = r#"{"id":"c1"}"#;
        let chapter = [("x-ms-documentdb-partitionkey", "[\"c1\"]")];
        shop.local.must("PUT", "/dbs/d/colls/books2/docs/c1", &chapter, none);
        let one_key = shop.token("k", "books", r#","resourcePartitionKey":["b1"]"#);
        is_denied(&shop.delete(&one_key, "books", "b1"));
        assert_eq!(shop.delete(&books, "books", "b1").status, 204);
        // An account key does everything.
        let key = [("x-ms-documentdb-partitionkey", "[\"p1\"]")];
        shop.local.must("DELETE", "/dbs/d/colls/publishers/docs/p1", &key, "");
    }
}

#[test]
fn a_token_reads_copies_and_follows_no_relation_out_of_its_container() {
    let shop = Shop::new("sync", "400");
    let books = shop.token("b", "books", "");
    let path = "/dbs/d/colls/books/docs/b1";
    let key = ("x-ms-documentdb-partitionkey", "[\"b1\"]");
    let read = shop.with_token(&books, ("GET", path), &[key], "");
    // The copy is data of the book.
    assert!(read.status == 200 && read.body.contains(r#""pubName":"p1""#), "{read:?}");
    let expand = ("x-model-expand", "publisher");
    assert_eq!(shop.with_token(&books, ("GET", path), &[key, expand], "").status, 403);
    let query =
        [key, ("x-ms-documentdb-isquery", "true"), ("content-type", "application/query+json")];
    let text = r#"{"query":"SELECT VALUE b.publisher.name FROM b"}"#;
    let items = ("POST", "/dbs/d/colls/books/docs");
    assert_eq!(shop.with_token(&books, items, &query, text).status, 403);
}

#[test]
fn a_conditional_read_of_an_expanded_item_shows_its_targets() {
    let shop = Shop::new("sync", "400");
    let etag = shop.get("books", "b1", &[]).header("etag").unwrap().to_owned();
    let unchanged = [("if-none-match", &*etag)];
    assert_eq!(shop.get("books", "b1", &unchanged).status, 304);
    let expanded = [("if-none-match", &*etag), ("x-model-expand", "publisher")];
    let key = [("x-ms-documentdb-partitionkey", "[\"p1\"]")];
    for n in [1, 2] {
        let read = shop.get("books", "b1", &expanded);
        assert_eq!((read.status, read.header("etag")), (200, Some(&*etag)), "{read:?}");
        let more = format!(r#"{{"id":"p1","name":"p1","n":{n}}}"#);
        shop.local.must("PUT", "/dbs/d/colls/publishers/docs/p1", &key, &more);
        assert!(shop.get("books", "b1", &expanded).body.contains(&format!(r#""n":{n}"#)));
    }
}

#[test]
fn hostile_schemas_are_refused_over_http() {
    let shop = Shop::new("sync", "400");
    let nested = format!("{}{{}}{}", r#"{"anyOf":["#.repeat(24), "]}".repeat(24));
    let pattern = r#"{"properties":{"a":{"pattern":"(a+)+(?=b)"}}}"#;
    let doubling: Vec<String> = (0..24)
        .map(|n| {
            let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, n + 1);
            format!(r#""d{n}":{{"anyOf":[{next},{next}]}}"#)
        })
        .collect();
    let doubling = format!(
        r##"{{"$defs":{{{},"d24":{{"const":1}}}},"$ref":"#/$defs/d0"}}"##,
        doubling.join(",")
    );
    for schema in [&*nested, pattern, &*doubling, r##"{"$ref":"#"}"##] {
        let model =
            format!(r#"{{"version":1,"types":{{"b":{{"container":"books","schema":{schema}}}}}}}"#);
        let answer = shop.local.send("PUT", "/dbs/d/_model", &[], &model);
        assert_eq!(answer.status, 400, "{schema}: {answer:?}");
        assert!(answer.body.contains("/types/b/schema"), "{answer:?}");
    }
}
