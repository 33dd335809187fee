//! `orrery db`, `orrery container`, `orrery item` and `orrery feed`, on one range and on several.

use orrery_types::Value;

use crate::process::Running;
use crate::tool::{Said, Tool, at, with};
use crate::transfer::MEMORY;

struct Shop {
    tool: Tool,
    server: [String; 4],
    _running: Running,
}

impl Shop {
    fn open() -> Self {
        let running = Running::start(&MEMORY);
        Self { tool: Tool::new(), server: at(&running), _running: running }
    }

    fn run(&self, arguments: &[&str]) -> Said {
        self.tool.run(&with(arguments, &self.server))
    }

    #[track_caller]
    fn must(&self, arguments: &[&str]) -> String {
        self.tool.must(&with(arguments, &self.server))
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        Value::parse(self.must(arguments).as_bytes()).unwrap()
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], code: i32, expected: &str) {
        self.tool.refused(&with(arguments, &self.server), code, expected);
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).as_str().unwrap()
}

#[test]
fn databases_and_containers_are_created_listed_read_and_deleted() {
    let shop = Shop::open();
    assert_eq!(text(&shop.json(&["db", "create", "my shop"]), "id"), "my shop");
    shop.refused(&["db", "create", "my shop"], 4, "(409)");
    shop.must(&["db", "create", "-d", "other", "--manual", "1000"]);
    let listed = shop.must(&["db", "list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert_eq!(text(&shop.json(&["db", "read", "other"]), "id"), "other");
    shop.refused(&["db", "read", "none"], 4, "(404)");

    let books = ["-d", "my shop", "-c", "books"];
    let create = ["container", "create", "-k", "/publisher,/year", "--ttl", "-1"];
    let made = shop.json(&[&create[..], &books, &["--autoscale", "12000"]].concat());
    assert_eq!(made.get("partitionKey").get("kind").as_str(), Some("MultiHash"));
    assert_eq!(made.get("defaultTtl").as_i64(), Some(-1));
    let definition = shop.tool.write(
        "orders.json",
        r#"{"partitionKey":{"paths":["/id"],"kind":"Hash","version":2},
            "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/number"]}]}}"#,
    );
    let orders = ["-d", "my shop", "--definition", &*definition];
    shop.must(&[&["container", "create", "orders"], &orders[..]].concat());
    let named = shop.tool.write("named.json", r#"{"id":"x","partitionKey":{"paths":["/id"]}}"#);
    let wrong = ["container", "create", "y", "-d", "my shop", "--definition", &*named];
    shop.refused(&wrong, 2, "the definition is of 'x'");
    shop.refused(&["container", "create", "y", "-d", "my shop"], 2, "--partition-key");
    let listed = shop.must(&["container", "list", "-d", "my shop"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");

    // A definition is replaced, and only by whoever has read it last.
    let mut orders = shop.json(&["container", "read", "orders", "-d", "my shop"]);
    let etag = text(&orders, "_etag").to_owned();
    orders.as_object_mut().unwrap().set("defaultTtl", 60_i64.into());
    let changed = shop.tool.write("changed.json", &orders.to_json());
    let write =
        ["container", "write", "orders", "-d", "my shop", "--definition", &*changed, "--if-match"];
    let written = shop.json(&[&write[..], &[&*etag]].concat());
    assert_eq!(written.get("defaultTtl").as_i64(), Some(60));
    shop.refused(&[&write[..], &[&*etag]].concat(), 4, "(412)");

    shop.refused(&["container", "delete", "orders", "-d", "my shop"], 2, "--yes");
    shop.refused(&["db", "delete", "other"], 2, "--yes");
    assert_eq!(shop.must(&["db", "list"]).lines().count(), 2);
    shop.must(&["container", "delete", "orders", "-d", "my shop", "--yes"]);
    shop.refused(&["container", "read", "orders", "-d", "my shop"], 4, "(404)");
    shop.must(&["db", "delete", "other", "-y"]);
    shop.refused(&["db", "delete", "other", "-y"], 4, "(404)");
}

#[test]
fn items_are_written_read_and_deleted_by_hierarchical_keys_and_etags() {
    let shop = Shop::open();
    shop.must(&["db", "create", "shop"]);
    let books = ["-d", "shop", "-c", "books"];
    // Several ranges.
    let create = ["container", "create", "-k", "/publisher,/year", "--manual", "12000"];
    shop.must(&[&create[..], &books].concat());
    let with_books = |more: &[&'static str]| -> Vec<&'static str> { [more, &books[..]].concat() };

    // From an argument, a file and standard input.
    let first = r#"{"id":"a/b","publisher":"mspress","year":2006,"n":1}"#;
    let item = shop.json(&[&["item", "create", first], &books[..]].concat());
    let etag = text(&item, "_etag").to_owned();
    let again = shop.run(&[&["item", "create", first], &books[..]].concat());
    assert!(again.code == 4 && again.err.contains("an item with this id exists"), "{again:?}");
    let file = shop.tool.write("b.json", r#"{"id":"b","publisher":"mspress","year":null}"#);
    shop.must(&[&["item", "write", "--file", &file], &books[..]].concat());
    let write = with_books(&["item", "write"]);
    let typed = "\u{feff}{\"id\":\"c\",\"publisher\":\"other\"}\n";
    let said = shop.tool.run_with(&with(&write, &shop.server), typed);
    assert_eq!(said.code, 0, "{said:?}");

    // Read by its whole key; an id may hold anything.
    let key = r#"["mspress",2006]"#;
    let read = shop.json(&[&["item", "read", "a/b", "-k", key], &books[..]].concat());
    assert_eq!(read.get("n").as_i64(), Some(1));
    let null = r#"["mspress",null]"#;
    shop.must(&[&["item", "read", "b", "-k", null], &books[..]].concat());
    shop.refused(&with_books(&["item", "read", "a/b"]), 2, "which is /publisher, /year");
    shop.refused(&with_books(&["item", "read", "a/b", "-k", "[\"x\",1]"]), 4, "check id and");

    // An etag guards against changes that were not seen.
    let second = first.replace("\"n\":1", "\"n\":2");
    let write = |text: &str, etag: &str| {
        let arguments = ["item", "write", text, "--if-match", etag];
        shop.run(&[&arguments[..], &books[..]].concat())
    };
    assert_eq!(write(&second, &etag).code, 0);
    let stale = write(&second, &etag);
    assert!(stale.code == 4 && stale.err.contains("has changed since"), "{stale:?}");
    let missing = write(r#"{"id":"none","publisher":"x","year":1}"#, &etag);
    assert!(missing.code == 4 && missing.err.contains("(404)"), "{missing:?}");
    let delete = ["item", "delete", "a/b", "-k", key, "--if-match"];
    shop.refused(&[&delete[..], &[&*etag], &books[..]].concat(), 4, "(412)");
    let listed = shop.must(&with_books(&["item", "list"]));
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let listed = shop.run(&with_books(&["item", "list", "--limit", "2"]));
    assert!(listed.out.lines().count() == 2 && listed.err.contains("more items"), "{listed:?}");
    shop.must(&[&["item", "delete", "a/b", "-k", key], &books[..]].concat());
    shop.refused(&[&["item", "delete", "a/b", "-k", key], &books[..]].concat(), 4, "(404)");

    for (bad, expected) in [("[1]", "orrery import"), ("{", "not JSON"), ("1", "not a JSON object")]
    {
        shop.refused(&[&["item", "write", bad], &books[..]].concat(), 2, expected);
    }
    let both = ["item", "create", first, "--if-match", "x"];
    shop.refused(&[&both[..], &books[..]].concat(), 2, "a new item has no etag");
}

#[test]
fn a_feed_is_printed_on_one_range_and_on_several_after_splits_and_merges() {
    let shop = Shop::open();
    shop.must(&["db", "create", "shop"]);
    for (name, units) in [("one", "400"), ("several", "12000")] {
        let place = ["-d", "shop", "-c", name];
        let create = ["container", "create", "-k", "/p", "--manual", units];
        shop.must(&[&create[..], &place].concat());
        for n in 0..12 {
            let item = format!(r#"{{"id":"i{n}","p":"p{n}"}}"#);
            shop.must(&[&["item", "write", &item], &place[..]].concat());
        }
        shop.must(&[&["split"], &place[..]].concat());
        let ids = |said: &str| {
            let id = |line: &str| {
                let value = Value::parse(line.as_bytes()).unwrap();
                text(&value, "id").to_owned()
            };
            let mut ids: Vec<String> = said.lines().map(id).collect();
            ids.sort_unstable();
            ids
        };
        let mut expected: Vec<String> = (0..12).map(|n| format!("i{n}")).collect();
        expected.sort_unstable();
        assert_eq!(ids(&shop.must(&[&["feed"], &place[..]].concat())), expected, "{name}");
        let one = shop.must(&[&["feed", "-k", "p3"], &place[..]].concat());
        assert_eq!(ids(&one), ["i3"], "{name}");
        shop.must(&[&["merge"], &place[..]].concat());
        assert_eq!(ids(&shop.must(&[&["feed"], &place[..]].concat())), expected, "{name}");
        assert_eq!(shop.must(&[&["feed", "--from", "now"], &place[..]].concat()), "", "{name}");
        shop.refused(&[&["feed", "--all-versions"], &place[..]].concat(), 4, "(400)");
    }
}
