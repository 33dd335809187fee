//! Arrays that the model keeps in buckets: what a client does with standard requests, beside a plain
//! list that the test keeps. After each case everything is recomputed and nothing may differ.

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::item::read::Written;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::relations::Reach;
use orrery_engine::query::{Paging, QueryPage, QueryRequest};
use orrery_types::{Error, KeyComponent, PartitionKey, Result, Value};

use crate::random::Random;
use crate::world::{World, json, name};

const BLOG: &str = r#"{"version":1,"types":{"post":{"container":"blog","where":"c.type = 'post'"}},
  "buckets":[{"on":"post","array":"/comments","elementKey":"id",
    "recent":{"path":"/recentComments","keep":3},"count":"/commentCount",
    "bucket":{"items":10,"maxBytes":4096,"link":"/postId","idFormat":"{id}~c{seq:06}"}}]}"#;

struct Blog(World);

fn blog_key() -> PartitionKey {
    PartitionKey(vec![KeyComponent::String("b".into())])
}

impl Blog {
    fn new(mut world: World, ttl: &str) -> Self {
        world.database();
        let key = r#""partitionKey":{"paths":["/blogId"],"kind":"Hash"}"#;
        world.create_container(&format!(r#"{{"id":"blog",{key}{ttl}}}"#), None);
        let none = Preconditions::default();
        world.engine().models().store(&name("d"), &json(BLOG), &none).expect("the model is taken");
        Self(world)
    }

    fn put(&self, id: &str, more: &str) -> Result<Written> {
        let item = format!(r#"{{"id":"{id}","blogId":"b","type":"post"{more}}}"#);
        let blog = self.0.container("blog");
        self.0.engine().items().upsert(&blog, None, item.as_bytes(), &Preconditions::default())
    }

    fn patch(&self, id: &str, operations: &str) -> Result<Written> {
        let patch = Patch::parse(&json(&format!("[{operations}]")))?;
        let (blog, none) = (self.0.container("blog"), Preconditions::default());
        self.0.engine().items().patch(&blog, Some(&blog_key()), &name(id), &patch, &none)
    }

    fn append(&self, id: &str, comment: &str) -> Result<Written> {
        let comment = format!(r#"{{"id":"{comment}","text":"{comment} says it"}}"#);
        self.patch(id, &format!(r#"{{"op":"add","path":"/comments/-","value":{comment}}}"#))
    }

    fn get(&self, id: &str) -> Result<Value> {
        let blog = self.0.container("blog");
        let item = self.0.engine().items().read(&blog, Some(&blog_key()), &name(id))?;
        Ok(Value::parse(&item.body).expect("JSON"))
    }

    fn delete(&self, id: &str) -> Result<Written> {
        let (blog, none) = (self.0.container("blog"), Preconditions::default());
        self.0.engine().items().delete(&blog, Some(&blog_key()), &name(id), &none)
    }

    /// The ids of all elements, bucket by bucket.
    fn buckets(&self, id: &str, last: usize) -> Vec<Vec<String>> {
        let bucket = |seq| self.get(&format!("{id}~c{seq:06}")).ok();
        (0..last).filter_map(bucket).map(|bucket| ids(bucket.get("comments"))).collect()
    }

    fn query(&self, text: &str, rows: usize, continuation: Option<&str>) -> QueryPage {
        let request = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
        let request = QueryRequest::parse(&json(&request)).expect("a query");
        let blog = self.0.container("blog");
        let scope = ScopeRequest { partition_key: Some(blog_key()), ..ScopeRequest::default() };
        let scope = blog.scope(&scope).expect("a scope");
        let paging = Paging { continuation, ..Paging::default() };
        let size = PageSize { items: rows };
        self.0.engine().queries().query_items(&blog, &scope, &request, size, &paging).expect(text)
    }

    #[track_caller]
    fn check(&self) {
        let drift =
            self.0.engine().model_verification().verify(&name("d")).expect("it is verified");
        assert!(drift.is_empty(), "{drift:#?}");
        let faults =
            self.0.engine().insight().verify(&self.0.container("blog")).expect("it is verified");
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

fn ids(array: &Value) -> Vec<String> {
    let id = |element: &Value| element.get("id").as_str().expect("an id").to_owned();
    array.as_array().unwrap_or_default().iter().map(id).collect()
}

fn comments(ids: &[String]) -> String {
    let all: Vec<String> = ids.iter().map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    format!(r#","comments":[{}]"#, all.join(","))
}

#[track_caller]
fn refused(result: Result<Written>, says: &str) {
    match result {
        Err(Error::ModelViolated(text) | Error::Invalid(text)) => {
            assert!(text.contains(says), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_patch_appends_to_the_last_bucket_and_the_post_stays_small() {
    let blog = Blog::new(World::memory(), "");
    blog.put("1", "").expect("a post");
    let post = blog.get("1").expect("it");
    assert_eq!(post.get("commentCount").to_json(), "0");
    assert_eq!(post.get("recentComments").to_json(), "[]");
    for n in 0..25 {
        blog.append("1", &format!("c{n}")).expect("a comment");
    }
    let post = blog.get("1").expect("it");
    assert_eq!(post.get("commentCount").to_json(), "25");
    assert_eq!(ids(post.get("recentComments")), ["c22", "c23", "c24"]);
    assert!(post.get("comments").is_undefined(), "they are in buckets");
    let lengths: Vec<usize> = blog.buckets("1", 9).iter().map(Vec::len).collect();
    assert_eq!(lengths, [10, 10, 5]);
    let bucket = blog.get("1~c000001").expect("a bucket");
    assert_eq!(bucket.get("postId").as_str(), Some("1"));
    assert_eq!(bucket.get("blogId").as_str(), Some("b"));
    refused(blog.append("1", "c3"), "already has an element with the key 'c3'");
    refused(
        blog.patch("1", r#"{"op":"add","path":"/comments/-","value":{"text":"no id"}}"#),
        "elementKey",
    );
    blog.check();
    // Several in one patch, beside an operation on the post itself.
    let two = r#"{"op":"add","path":"/comments/-","value":{"id":"x"}},
        {"op":"set","path":"/title","value":"t"},
        {"op":"add","path":"/comments/-","value":{"id":"y"}}"#;
    blog.patch("1", two).expect("all of it");
    let post = blog.get("1").expect("it");
    assert_eq!(ids(post.get("recentComments")), ["c24", "x", "y"]);
    assert_eq!(post.get("title").as_str(), Some("t"));
    blog.check();
}

#[test]
fn a_large_element_starts_a_bucket() {
    let blog = Blog::new(World::memory(), "");
    blog.put("1", "").expect("a post");
    for n in 0..4 {
        let text = "x".repeat(1500);
        let element = format!(r#"{{"id":"c{n}","text":"{text}"}}"#);
        blog.patch("1", &format!(r#"{{"op":"add","path":"/comments/-","value":{element}}}"#))
            .expect("a comment");
    }
    assert_eq!(blog.buckets("1", 9), [["c0", "c1"], ["c2", "c3"]]);
    blog.check();
}

#[test]
fn elements_are_edited_and_removed_by_their_key() {
    let blog = Blog::new(World::memory(), "");
    blog.put("1", "").expect("a post");
    for n in 0..12 {
        blog.append("1", &format!("c{n}")).expect("a comment");
    }
    blog.patch("1", r#"{"op":"set","path":"/comments/c3/text","value":"new"}"#).expect("an edit");
    blog.patch("1", r#"{"op":"incr","path":"/comments/c11/likes","value":2}"#).expect("an edit");
    let bucket = blog.get("1~c000000").expect("a bucket");
    assert_eq!(bucket.get("comments").at(3).get("text").as_str(), Some("new"));
    let post = blog.get("1").expect("it");
    assert_eq!(post.get("recentComments").at(2).get("likes").to_json(), "2", "recent is a copy");
    blog.patch("1", r#"{"op":"replace","path":"/comments/c0","value":{"id":"c0"}}"#).expect("it");
    refused(
        blog.patch("1", r#"{"op":"replace","path":"/comments/c0","value":{"id":"z"}}"#),
        "The key 'c0'",
    );
    refused(blog.patch("1", r#"{"op":"remove","path":"/comments/nobody"}"#), "no element");
    refused(
        blog.patch("1", r#"{"op":"move","from":"/comments/c1","path":"/x"}"#),
        "nothing can be moved",
    );
    blog.check();
    for key in ["c10", "c11"] {
        blog.patch("1", &format!(r#"{{"op":"remove","path":"/comments/{key}"}}"#)).expect("gone");
    }
    let post = blog.get("1").expect("it");
    assert_eq!(ids(post.get("recentComments")), ["c7", "c8", "c9"], "older ones are recent again");
    assert_eq!(post.get("commentCount").to_json(), "10");
    assert_eq!(blog.get("1~c000001").map(drop), Err(Error::NotFound), "an empty bucket goes");
    blog.append("1", "c11").expect("the key is free again");
    blog.check();
}

#[test]
fn a_full_replace_is_split_and_one_without_the_array_changes_nothing() {
    let blog = Blog::new(World::memory(), "");
    let all: Vec<String> = (0..23).map(|n| format!("c{n}")).collect();
    let written = blog.put("1", &comments(&all)).expect("a post with comments");
    assert!(Value::parse(&written.body).expect("JSON").get("comments").is_undefined());
    assert_eq!(blog.buckets("1", 9).concat(), all);
    blog.check();
    let second = blog.get("1~c000001").expect("a bucket");
    blog.put("1", r#","title":"t","commentCount":99"#).expect("a new title");
    assert_eq!(blog.get("1").expect("it").get("commentCount").to_json(), "23");
    // The buckets in front of the first difference are not touched.
    let mut fewer = all[..15].to_vec();
    fewer.push("new".into());
    blog.put("1", &comments(&fewer)).expect("other comments");
    assert_eq!(blog.buckets("1", 9).concat(), fewer);
    assert_eq!(ids(blog.get("1").expect("it").get("recentComments")), ["c13", "c14", "new"]);
    assert_ne!(blog.get("1~c000001").expect("it").get("_etag"), second.get("_etag"));
    blog.check();
    refused(blog.put("1", r#","comments":"none""#), "is no array");
    blog.put("1", r#","comments":[]"#).expect("empty");
    assert!(blog.buckets("1", 9).is_empty());
    blog.check();
}

#[test]
fn buckets_live_and_die_with_their_post() {
    let blog = Blog::new(World::memory(), r#","defaultTtl":-1"#);
    let all: Vec<String> = (0..23).map(|n| format!("c{n}")).collect();
    blog.put("1", &comments(&all)).expect("a post");
    refused(blog.delete("1~c000000"), "Patch '/comments/-' of the item '1'");
    let own = r#"{"id":"x","blogId":"b","_bucket":{}}"#;
    let (container, none) = (blog.0.container("blog"), Preconditions::default());
    let own = blog.0.engine().items().upsert(&container, None, own.as_bytes(), &none);
    refused(own, "_bucket");
    let other = r#"{"id":"1","blogId":"b","type":"page"}"#;
    let other = blog.0.engine().items().upsert(&container, None, other.as_bytes(), &none);
    refused(other, "empty the array first");
    // Under another id it takes them along.
    let renamed = br#"{"id":"2","blogId":"b","type":"post"}"#;
    let key = blog_key();
    let done = blog.0.engine().items().replace(&container, Some(&key), &name("1"), renamed, &none);
    done.expect("it is renamed");
    assert!(blog.buckets("1", 9).is_empty());
    assert_eq!(blog.buckets("2", 9).concat(), all);
    blog.check();
    blog.delete("2").expect("a post");
    assert!(blog.buckets("2", 9).is_empty());
    blog.check();
    // Expiry is a delete, and a new post begins with nothing.
    let mut blog = blog;
    for ttl in [r#","ttl":10"#, r#","ttl":20"#] {
        blog.put("3", &format!("{ttl}{}", comments(&all[..12]))).expect("a post");
        blog.0.clock.advance_s(30);
        blog.put("3", "").expect("another post");
        assert_eq!(blog.get("3").expect("it").get("commentCount").to_json(), "0");
        blog.check();
    }
    blog.put("4", &format!(r#","ttl":10{}"#, comments(&all))).expect("a post");
    blog.0.clock.advance_s(30);
    blog.0.run_tasks();
    assert!(blog.buckets("4", 9).is_empty());
    blog.check();
}

#[test]
fn an_append_costs_the_same_however_many_there_are() {
    let blog = Blog::new(World::memory(), "");
    let charge = |count: usize, id: &str| {
        let all: Vec<String> = (100_000..100_000 + count).map(|n| format!("c{n}")).collect();
        blog.put(id, &comments(&all)).expect("a post");
        let element = r#"{"id":"c999999"}"#;
        let patch = format!(r#"{{"op":"add","path":"/comments/-","value":{element}}}"#);
        blog.patch(id, &patch).expect("a comment").charge
    };
    assert!((charge(15, "1") - charge(4_005, "2")).abs() < 0.2);
}

#[test]
fn arrays_that_are_there_go_into_buckets_when_the_model_says_so() {
    let mut blog = Blog::new(World::memory(), "");
    let none = Preconditions::default();
    blog.0.engine().models().delete(&name("d"), &none).expect("no model");
    let all: Vec<String> = (0..23).map(|n| format!("c{n}")).collect();
    for id in ["1", "2"] {
        blog.put(id, &comments(&all)).expect("a post");
    }
    blog.0.engine().models().store(&name("d"), &json(BLOG), &none).expect("the model is taken");
    blog.0.run_tasks();
    assert_eq!(blog.buckets("1", 9).concat(), all);
    assert_eq!(blog.get("2").expect("it").get("commentCount").to_json(), "23");
    blog.check();
    // Without the model they are items like others; with it again they are buckets again.
    blog.0.engine().models().delete(&name("d"), &none).expect("no model");
    blog.delete("1~c000001").expect("an item");
    blog.0.engine().models().store(&name("d"), &json(BLOG), &none).expect("the model is taken");
    blog.0.run_tasks();
    assert_eq!(blog.get("1").expect("it").get("commentCount").to_json(), "13");
    blog.append("1", "more").expect("a comment");
    blog.check();
}

#[test]
fn queries_see_the_array_across_its_buckets() {
    let blog = Blog::new(World::memory(), "");
    let all: Vec<String> = (0..35).map(|n| format!("c{n}")).collect();
    blog.put("1", &comments(&all)).expect("a post");
    blog.put("2", "").expect("a post");
    let query = |text: &str| blog.query(text, 1000, None).rows;
    let page =
        query("SELECT VALUE c.id FROM p JOIN c IN p.comments WHERE p.id = '1' OFFSET 8 LIMIT 4");
    assert_eq!(page, ["\"c8\"", "\"c9\"", "\"c10\"", "\"c11\""]);
    assert_eq!(
        query("SELECT VALUE ARRAY_LENGTH(p.comments) FROM p WHERE p.type = 'post'"),
        ["35", "0"]
    );
    assert_eq!(
        query(
            "SELECT VALUE p.id FROM p WHERE ARRAY_CONTAINS(p.comments, {id:'c30'}, true) AND p.type = 'post'"
        ),
        ["\"1\""]
    );
    let container = blog.0.container("blog");
    let reach = Reach::default();
    let engine = blog.0.engine();
    let read = engine.queries().read_item_expanded(
        &container,
        Some(&blog_key()),
        &name("1"),
        "comments",
        reach,
    );
    let read = read.expect("it is expanded");
    assert_eq!(ids(Value::parse(&read.body).expect("JSON").get("comments")), all);
    // An expanded item that is saved back is the same item.
    let none = Preconditions::default();
    engine.items().upsert(&container, None, &read.body, &none).expect("it is saved back");
    assert_eq!(blog.buckets("1", 9).concat(), all);
    blog.check();
}

#[test]
fn a_page_out_of_an_array_loads_the_buckets_that_it_shows() {
    let blog = Blog::new(World::memory(), "");
    let all: Vec<String> = (0..1000).map(|n| format!("c{n}")).collect();
    blog.put("1", &comments(&all)).expect("a post");
    // The post, and so many of its hundred buckets.
    let check = |text: &str, buckets: u64, expected: &[&str]| {
        let page = blog.query(text, 1000, None);
        assert_eq!(page.rows, expected, "{text}");
        assert_eq!(page.report.items, 1 + buckets, "{text}");
    };
    let join = "SELECT VALUE c FROM p JOIN c IN p.comments WHERE p.id = '1'";
    check(&format!("{join} OFFSET 0 LIMIT 1"), 1, &[r#"{"id":"c0"}"#]);
    check(&format!("{join} OFFSET 509 LIMIT 2"), 2, &[r#"{"id":"c509"}"#, r#"{"id":"c510"}"#]);
    check(&format!("{join} OFFSET 999 LIMIT 10"), 1, &[r#"{"id":"c999"}"#]);
    check(&format!("{join} OFFSET 1000 LIMIT 10"), 0, &[]);
    let one = |expression: &str| format!("SELECT VALUE {expression} FROM p WHERE p.id = '1'");
    check(&one("ARRAY_LENGTH(p.comments)"), 0, &["1000"]);
    check(&one("p.comments[517].id"), 1, &["\"c517\""]);
    check(&one("IS_DEFINED(p.comments[1000])"), 0, &["false"]);
    let slice = [r#"[{"id":"c518"},{"id":"c519"},{"id":"c520"}]"#];
    check(&one("ARRAY_SLICE(p.comments, 518, 3)"), 2, &slice);
    check(&one("ARRAY_SLICE(p.comments, -1)"), 1, &[r#"[{"id":"c999"}]"#]);
    check(&one("ARRAY_SLICE(p.comments, 2000)"), 0, &["[]"]);
    check(&one("ARRAY_LENGTH(p.nothing)"), 0, &[]);
    check(
        &one("COUNT(1) FROM p JOIN c IN p.comments").replace(" FROM p WHERE", " WHERE"),
        100,
        &["1000"],
    );

    // Page by page: each goes on behind the last one.
    let (mut rows, mut token, mut read) = (Vec::new(), None, 0);
    loop {
        let page = blog.query(join, 100, token.as_deref());
        (rows, read) = ([rows, page.rows].concat(), read + page.report.items);
        token = page.continuation;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(rows.len(), 1000);
    assert_eq!(rows[512], r#"{"id":"c512"}"#);
    assert!(read <= 10 * 12, "{read} items for ten pages of ten buckets");
}

/// Random edits beside a plain list.
fn run(world: World, seed: u64, steps: usize) {
    let mut blog = Blog::new(world, "");
    let mut random = Random::new(seed);
    let mut list: Vec<String> = Vec::new();
    blog.put("1", "").expect("a post");
    for step in 0..steps {
        let known = |random: &mut Random| list.get(random.below(list.len().max(1))).cloned();
        match random.below(12) {
            0 => {
                list.truncate(random.below(40));
                list.push(format!("s{step}"));
                blog.put("1", &comments(&list)).expect("the post");
            }
            1 => drop(blog.put("1", &format!(r#","n":{step}"#)).expect("the post")),
            2..5 => {
                if let Some(key) = known(&mut random) {
                    let path = format!(r#"{{"op":"remove","path":"/comments/{key}"}}"#);
                    blog.patch("1", &path).expect("it is there");
                    list.retain(|id| *id != key);
                }
            }
            5 => {
                if let Some(key) = known(&mut random) {
                    let path = format!("/comments/{key}/n");
                    blog.patch("1", &format!(r#"{{"op":"set","path":"{path}","value":{step}}}"#))
                        .expect("it is there");
                }
            }
            6 => {
                // Several in one transaction, one of them refused.
                let (container, key) = (blog.0.container("blog"), blog_key());
                let none = Preconditions::default();
                let patch = |id: &str| {
                    let value = format!(r#"{{"id":"{id}"}}"#);
                    let path = r#""op":"add","path":"/comments/-""#;
                    Patch::parse(&json(&format!(r#"[{{{path},"value":{value}}}]"#)))
                };
                let (a, b) = (format!("a{step}"), format!("b{step}"));
                let done =
                    blog.0.engine().transactions().transact(&container, &key, &mut |transaction| {
                        transaction.patch(&name("1"), &patch(&a)?, &none)?;
                        assert!(transaction.patch(&name("1"), &patch(&a)?, &none).is_err());
                        transaction.patch(&name("1"), &patch(&b)?, &none)
                    });
                done.expect("it commits");
                list.extend([a, b]);
            }
            _ => {
                let id = format!("c{step}");
                blog.append("1", &id).expect("a comment");
                list.push(id);
            }
        }
        let post = blog.get("1").expect("it");
        assert_eq!(post.get("commentCount").as_i64(), i64::try_from(list.len()).ok());
        let recent = &list[list.len().saturating_sub(3)..];
        assert_eq!(ids(post.get("recentComments")), recent, "step {step}");
        if step % 40 == 39 {
            assert_eq!(blog.buckets("1", 200).concat(), list, "step {step}");
            blog.check();
            blog.0.reopen();
        }
    }
}

#[test]
fn random_edits_leave_what_a_list_would_hold() {
    for seed in 1..=3 {
        run(World::memory(), seed, 240);
    }
    run(World::rocks(), 7, 80);
}

#[test]
fn what_is_kept_beside_an_item_moves_with_it() {
    for world in [World::memory(), World::rocks()] {
        let blog = Blog::new(world, "");
        let elsewhere = |n: usize| {
            let item =
                format!(r#"{{"id":"p","blogId":"b{n}","type":"post","comments":[{{"id":"c"}}]}}"#);
            let (container, none) = (blog.0.container("blog"), Preconditions::default());
            blog.0
                .engine()
                .items()
                .upsert(&container, None, item.as_bytes(), &none)
                .expect("a post");
        };
        (0..40).for_each(elsewhere);
        blog.put("p", "").expect("a post");
        let append = |range: std::ops::Range<usize>| {
            for n in range {
                blog.append("p", &format!("c{n}")).expect("an append");
            }
        };
        append(0..25);
        let engine = blog.0.engine();
        for _ in 0..3 {
            engine
                .layouts()
                .split_partition(&name("d"), &name("blog"), None, None)
                .expect("a split");
        }
        append(25..45);
        blog.check();
        for _ in 0..3 {
            engine.layouts().merge_partitions(&name("d"), &name("blog"), None).expect("a merge");
        }
        append(45..52);
        blog.check();
        let all: Vec<String> = (0..52).map(|n| format!("c{n}")).collect();
        assert_eq!(blog.buckets("p", 10).concat(), all);
        assert_eq!(blog.get("p").expect("a post").get("commentCount").to_json(), "52");
    }
}

#[test]
fn the_elements_of_an_array_count_once() {
    for only in [r#","where":"c.type = 'post'""#, ""] {
        let mut world = World::memory();
        world.database();
        let key = r#""partitionKey":{"paths":["/blogId"],"kind":"Hash"}"#;
        world.create_container(&format!(r#"{{"id":"blog",{key}}}"#), Some(30_000));
        let model = BLOG.replace(r#","where":"c.type = 'post'""#, only);
        let none = Preconditions::default();
        world
            .engine()
            .models()
            .store(&name("d"), &json(&model), &none)
            .expect("the model is taken");
        let blog = Blog(world);
        let all: Vec<String> = (0..25).map(|n| format!("c{n}")).collect();
        blog.put("1", &comments(&all)).expect("a post");
        blog.put("2", &comments(&all[..3])).expect("a post");
        for (text, answer) in [
            ("SELECT VALUE COUNT(1) FROM p JOIN c IN p.comments", "28"),
            ("SELECT VALUE SUM(ARRAY_LENGTH(p.comments)) FROM p", "28"),
            ("SELECT VALUE COUNT(1) FROM p WHERE IS_DEFINED(p.comments)", "2"),
            (
                "SELECT VALUE COUNT(1) FROM p WHERE EXISTS(SELECT c FROM c IN p.comments WHERE c.id = 'c1')",
                "2",
            ),
        ] {
            assert_eq!(blog.query(text, 100, None).rows[0], answer, "{text}");
        }
        blog.check();
    }
}

#[test]
fn an_array_with_elements_keeps_its_name_and_its_buckets() {
    let mut blog = Blog::new(World::memory(), "");
    let all: Vec<String> = (0..25).map(|n| format!("c{n}")).collect();
    blog.put("1", &comments(&all)).expect("a post");
    let store = |blog: &Blog, model: &str| {
        blog.0
            .engine()
            .models()
            .store(&name("d"), &json(model), &Preconditions::default())
            .map(drop)
    };
    for (from, to, at) in [
        (r#""array":"/comments""#, r#""array":"/remarks""#, "/buckets/0/array"),
        ("{id}~c{seq:06}", "{id}-{seq}", "/buckets/0/bucket/idFormat"),
        (r#""link":"/postId""#, r#""link":"/of""#, "/buckets/0/bucket/link"),
    ] {
        match store(&blog, &BLOG.replace(from, to)) {
            Err(Error::Invalid(text)) => assert!(text.contains(at), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    blog.append("1", "c25").expect("it goes on");
    assert_eq!(blog.get("1").expect("it").get("commentCount").to_json(), "26");
    blog.check();
    // Without the rule its buckets are items like any others; under another rule too.
    let without = BLOG.replace(r#""/comments""#, r#""/remarks""#);
    let none = r#"{"version":1,"types":{"post":{"container":"blog","where":"c.type = 'post'"}}}"#;
    store(&blog, none).expect("the model is taken");
    store(&blog, &without.replace("{id}~c", "{id}~r")).expect("the model is taken");
    blog.0.run_tasks();
    blog.delete("1~c000000").expect("nobody owns it any more");
    assert_eq!(blog.get("1").expect("it").get("commentCount").to_json(), "0");
    // With the rule back those that are left are the array again.
    store(&blog, none).expect("the model is taken");
    store(&blog, BLOG).expect("the model is taken");
    blog.0.run_tasks();
    assert_eq!(blog.get("1").expect("it").get("commentCount").to_json(), "16");
    refused(blog.delete("1~c000001"), "not written directly");
    blog.check();
    // Their parent is of another type now: they may go.
    let other = BLOG.replace("c.type = 'post'", "c.type = 'other'");
    store(&blog, &other).expect("the model is taken");
    blog.0.run_tasks();
    let drift = blog.0.engine().model_verification().verify(&name("d")).expect("it is verified");
    assert!(drift.iter().any(|line| line.contains("'1~c000001' belongs to no item")), "{drift:?}");
    for seq in 1..3 {
        blog.delete(&format!("1~c{seq:06}")).expect("nobody owns it any more");
    }
    blog.check();
}

#[test]
fn elements_are_checked_against_the_schema() {
    let schema = r#""schema":{"properties":{"comments":{"type":"array","items":{"type":"object",
        "required":["text"],"properties":{"text":{"type":"string","maxLength":20}}}}}},
        "container":"blog","where""#;
    let model = BLOG.replace(r#""container":"blog","where""#, schema);
    let mut blog = Blog::new(World::memory(), "");
    let store = |blog: &Blog, model: &str| {
        blog.0
            .engine()
            .models()
            .store(&name("d"), &json(model), &Preconditions::default())
            .map(drop)
    };
    blog.put("old", r#","comments":[{"id":"a"}]"#).expect("a post");
    store(&blog, &model).expect("the model is taken");
    blog.0.run_tasks();
    blog.append("1", "none").expect_err("there is no post");
    blog.put("1", r#","comments":[{"id":"a","text":"yes"}]"#).expect("a post");
    refused(blog.put("2", r#","comments":[{"id":"a"}]"#), "/comments/0");
    refused(blog.put("1", r#","comments":[{"id":"a","text":"yes"},{"id":"b"}]"#), "/comments/0");
    let add = |value: &str| format!(r#"{{"op":"add","path":"/comments/-","value":{value}}}"#);
    refused(blog.patch("1", &add(r#"{"id":"b","text":7}"#)), "/comments/0/text");
    let set = r#"{"op":"set","path":"/comments/a/text","value":7}"#;
    refused(blog.patch("1", set), "/comments/0/text");
    blog.append("1", "b").expect("a good one");
    assert_eq!(blog.get("1").expect("it").get("commentCount").to_json(), "2");
    // What was there before stays, and is seen.
    blog.append("old", "b").expect("a good one");
    let drift = blog.0.engine().model_verification().verify(&name("d")).expect("it is verified");
    assert_eq!(drift.len(), 1, "{drift:?}");
    assert!(drift[0].contains("'old~c000000' in 'blog' breaks its type"), "{drift:?}");
    for keyword in [r#""maxItems":3"#, r#""uniqueItems":true"#, r#""contains":{}"#] {
        let whole = model.replace(r#""type":"array""#, keyword);
        match store(&blog, &whole) {
            Err(Error::Invalid(text)) => assert!(text.contains("/types/post/schema"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
