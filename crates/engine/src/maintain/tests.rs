//! The maintainers of a model by images: items that are stored, one write, and what it changes in other items
//! before anything is committed. A line is an item of the write set: `container/id` with its after image, or
//! with `-` before it if it is deleted.

use std::sync::Arc;

use orrery_storage::key::Bounds;
use orrery_storage::{MemoryStore, ReadAt, Space, key};
use orrery_types::ids::Address;
use orrery_types::{Error, ManualClock, PartitionKey, Result, Value};

use crate::Engine;
use crate::catalog::offer::ThroughputRequest;
use crate::catalog::resource::Preconditions;
use crate::item::address::ItemKey;
use crate::item::operation::{ItemBody, ItemWrite, SYSTEM_PROPERTIES};
use crate::item::patch::Patch;
use crate::model::ModelContext;
use crate::transaction::reads::ReadView;
use crate::transaction::state::{TransactionOptions, TransactionState};

/// Parents and children, each partitioned by its id. `RELATION` and `MORE` differ from test to test.
const FAMILY: &str = r#"{"version":1,
    "types":{"parent":{"container":"parents","where":"NOT IS_DEFINED(c.retired)"},
        "child":{"container":"children"}},
    "relations":[{"name":"parent","from":"child","to":"parent","propagate":"sync",RELATION}]MORE}"#;
const BLOG: &str = r#"{"version":1,"types":{"post":{"container":"parents"}},
    "buckets":[{"on":"post","array":"/notes","elementKey":"id","count":"/noteCount",
        "recent":{"path":"/recent","keep":2},
        "bucket":{"items":3,"maxBytes":4096,"link":"/of","idFormat":"{id}~{seq:02}"}}]}"#;

struct Bench(Engine);

fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).expect("JSON")
}

fn name(id: &str) -> Address {
    Address::Name(id.into())
}

/// A write of an item that is partitioned by its id.
enum Act<'a> {
    Put(&'a str),
    Patch(&'a str, &'a str),
    Delete(&'a str),
}

impl Bench {
    fn new(model: &str) -> Self {
        let clock = Arc::new(ManualClock::at_s(1000));
        let engine = Engine::open(Arc::new(MemoryStore::new()), clock, 1).expect("an engine");
        let none = ThroughputRequest::default();
        engine.databases().create(&json(r#"{"id":"d"}"#), &none).expect("a database");
        for id in ["parents", "children"] {
            // Buckets stand in the logical partition of their parent.
            let path = if model == BLOG { "/blog" } else { "/id" };
            let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["{path}"]}}}}"#);
            engine.containers().create(&name("d"), &json(&body), &none).expect("a container");
        }
        let none = Preconditions::default();
        engine.models().store(&name("d"), &json(model), &none).expect("the model is stored");
        Self(engine)
    }

    fn family(relation: &str, more: &str) -> Self {
        Self::new(&FAMILY.replace("RELATION", relation).replace("MORE", more))
    }

    /// Stores items, each given as `container/…` and its text.
    fn stored(self, items: &[(&str, &str)]) -> Self {
        for (container, text) in items {
            self.commit(container, &Act::Put(text));
        }
        self
    }

    fn commit(&self, container: &str, act: &Act<'_>) {
        let container = self.0.containers().read(&name("d"), &name(container)).expect("it");
        let none = Preconditions::default();
        let key = |id: &str| PartitionKey::parse_header(&format!(r#"["{id}"]"#)).expect("a key");
        let items = self.0.items();
        let done = match act {
            Act::Put(text) => items.upsert(&container, None, text.as_bytes(), &none),
            Act::Patch(id, operations) => {
                let patch = Patch::parse(&json(operations)).expect("a patch");
                items.patch(&container, Some(&key("b")), &name(id), &patch, &none)
            }
            Act::Delete(id) => items.delete(&container, Some(&key(id)), &name(id), &none),
        };
        done.expect("it is written");
    }

    /// The write set of one write, without the item that the client writes unless it is `whole`.
    fn write_set(&self, container: &str, act: &Act<'_>, whole: bool) -> Result<Vec<String>> {
        let container = self.0.containers().read(&name("d"), &name(container)).expect("it");
        let database = self.0.models().database_of(&container);
        let model = ModelContext::of(database.as_deref(), &container).expect("a model");
        let none = Preconditions::default();
        let write = match act {
            Act::Put(text) => {
                ItemWrite::Upsert(ItemBody::parse(&container, text.as_bytes())?, none)
            }
            Act::Patch(id, operations) => {
                ItemWrite::Patch(name(id), Patch::parse(&json(operations))?, none)
            }
            Act::Delete(id) => ItemWrite::Delete(name(id), none),
        };
        let at = match act {
            Act::Put(_) => write.locate(&self.0, &container, None)?,
            Act::Patch(id, _) | Act::Delete(id) => {
                let key = if container.definition.partition_key.paths[0].to_string() == "/id" {
                    *id
                } else {
                    "b"
                };
                let key = PartitionKey::parse_header(&format!(r#"["{key}"]"#)).expect("a key");
                ItemKey::of(&container, key, id)?
            }
        };
        let options = TransactionOptions::under(Some(model));
        let (view, own) = (ReadView::latest(&self.0), at.key.clone());
        let mut tx = TransactionState::new(&self.0, &container, at.partition, view, options);
        tx.apply(&at, &write)?;
        Ok(lines(&tx, (!whole).then_some(&*own)))
    }

    fn follows(&self, container: &str, act: &Act<'_>) -> Vec<String> {
        self.write_set(container, act, false).expect("it is not refused")
    }
}

/// The items of a write set but one, sorted.
fn lines(tx: &TransactionState<'_>, but: Option<&[u8]>) -> Vec<String> {
    let mut lines = Vec::new();
    for (shard, writes) in tx.writes.shards() {
        for entry in writes.written() {
            if shard == crate::transaction::write_buffer::ShardIndex::FIRST
                && but == Some(&*entry.at.key)
            {
                continue;
            }
            let id = key::parse_item(&entry.at.key).expect("a key").id.to_owned();
            let container = &writes.container.id;
            lines.push(match entry.after() {
                Some(after) => {
                    format!("{container}/{id} {}", own_properties(&after.value).to_json())
                }
                None => format!("-{container}/{id}"),
            });
        }
    }
    lines.sort();
    lines
}

/// An image without what the server writes into every item.
fn own_properties(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        for name in SYSTEM_PROPERTIES {
            object.remove(name);
        }
    }
    value
}

const COPIED: &str = r#""path":"/parentId","copies":{"label":"t.label"}"#;
const TWO_CHILDREN: [(&str, &str); 3] = [
    ("parents", r#"{"id":"p","label":"old"}"#),
    ("children", r#"{"id":"a","parentId":"p"}"#),
    ("children", r#"{"id":"b","parentId":"p"}"#),
];

#[test]
fn a_changed_field_is_copied_into_every_item_that_refers() {
    let bench = Bench::family(COPIED, "").stored(&TWO_CHILDREN);
    let follows = bench.follows("parents", &Act::Put(r#"{"id":"p","label":"new"}"#));
    assert_eq!(
        follows,
        [
            r#"children/a {"id":"a","parentId":"p","label":"new"}"#,
            r#"children/b {"id":"b","parentId":"p","label":"new"}"#,
        ]
    );
}

#[test]
fn nothing_follows_from_a_change_of_what_is_not_copied() {
    let bench = Bench::family(COPIED, "").stored(&TWO_CHILDREN);
    let follows = bench.follows("parents", &Act::Put(r#"{"id":"p","label":"old","other":1}"#));
    assert!(follows.is_empty(), "{follows:?}");
}

#[test]
fn a_field_that_is_gone_is_gone_from_its_copies() {
    let bench = Bench::family(COPIED, "").stored(&TWO_CHILDREN);
    let follows = bench.follows("parents", &Act::Put(r#"{"id":"p"}"#));
    assert_eq!(
        follows,
        [r#"children/a {"id":"a","parentId":"p"}"#, r#"children/b {"id":"b","parentId":"p"}"#]
    );
}

#[test]
fn a_target_that_arrives_late_fills_the_copies_of_those_that_wait_for_it() {
    let waiting = [("children", r#"{"id":"a","parentId":"p"}"#)];
    let bench = Bench::family(COPIED, "").stored(&waiting);
    let follows = bench.follows("parents", &Act::Put(r#"{"id":"p","label":"new"}"#));
    assert_eq!(follows, [r#"children/a {"id":"a","parentId":"p","label":"new"}"#]);
}

#[test]
fn in_an_array_the_copy_stands_beside_its_reference() {
    let relation = r#""path":"/parents/*/id","copies":{"label":"t.label"}"#;
    let stored = [
        ("parents", r#"{"id":"p","label":"old"}"#),
        ("parents", r#"{"id":"q","label":"other"}"#),
        ("children", r#"{"id":"a","parents":[{"id":"q"},{"id":"p","as":"first"}]}"#),
    ];
    let bench = Bench::family(relation, "").stored(&stored);
    let follows = bench.follows("parents", &Act::Put(r#"{"id":"p","label":"new"}"#));
    let expected = r#"children/a {"id":"a","parents":[{"id":"q","label":"other"},{"id":"p","as":"first","label":"new"}]}"#;
    assert_eq!(follows, [expected]);
}

/// What follows from the deletion of a target with two referrers, by the relation's `onDelete`.
fn on_delete(rule: &str, path: &str, children: &[(&str, &str)]) -> Result<Vec<String>> {
    let relation = format!(r#""path":"{path}","copies":{{"label":"t.label"}},"onDelete":"{rule}""#);
    let parents =
        [("parents", r#"{"id":"p","label":"it"}"#), ("parents", r#"{"id":"q","label":"other"}"#)];
    let bench = Bench::family(&relation, "").stored(&parents).stored(children);
    bench.write_set("parents", &Act::Delete("p"), false)
}

const ONE_EACH: [(&str, &str); 2] =
    [("children", r#"{"id":"a","parentId":"p"}"#), ("children", r#"{"id":"b","parentId":"q"}"#)];

#[test]
fn the_items_that_refer_to_a_deleted_one_follow_the_rule_and_no_others() {
    let done = on_delete("keep", "/parentId", &ONE_EACH).expect("it is deleted");
    assert!(done.is_empty(), "{done:?}");
    let done = on_delete("cascade", "/parentId", &ONE_EACH).expect("it is deleted");
    assert_eq!(done, ["-children/a"]);
    let done = on_delete("unset", "/parentId", &ONE_EACH).expect("it is deleted");
    assert_eq!(done, [r#"children/a {"id":"a"}"#], "the copy goes with the reference");
}

#[test]
fn pull_removes_the_elements_that_refer() {
    let children = [("children", r#"{"id":"a","parents":[{"id":"p"},{"id":"q"},{"id":"p"}]}"#)];
    let done = on_delete("pull", "/parents/*/id", &children).expect("it is deleted");
    assert_eq!(done, [r#"children/a {"id":"a","parents":[{"id":"q","label":"other"}]}"#]);
}

#[test]
fn restrict_refuses_the_deletion_and_names_those_that_refer() {
    let refused = on_delete("restrict", "/parentId", &ONE_EACH);
    let Err(Error::StillReferenced(text)) = &refused else { panic!("{refused:?}") };
    assert!(text.ends_with("onDelete restrict): a."), "{text}");
    let done = on_delete("restrict", "/parentId", &ONE_EACH[1..]).expect("nobody refers to it");
    assert!(done.is_empty(), "{done:?}");
}

#[test]
fn an_item_that_leaves_the_target_type_counts_as_deleted() {
    let relation = r#""path":"/parentId","onDelete":"cascade""#;
    let bench = Bench::family(relation, "").stored(&TWO_CHILDREN);
    let follows = bench.follows("parents", &Act::Put(r#"{"id":"p","retired":true}"#));
    assert_eq!(follows, ["-children/a", "-children/b"]);
}

#[test]
fn a_cascade_follows_what_it_deletes() {
    let model = r#"{"version":1,"types":{"node":{"container":"parents"}},
        "relations":[{"name":"over","from":"node","path":"/up","to":"node","propagate":"sync",
            "onDelete":"cascade"}]}"#;
    let bench = Bench::new(model).stored(&[
        ("parents", r#"{"id":"1"}"#),
        ("parents", r#"{"id":"2","up":"1"}"#),
        ("parents", r#"{"id":"3","up":"2"}"#),
        ("parents", r#"{"id":"4","up":"4"}"#),
    ]);
    assert_eq!(bench.follows("parents", &Act::Delete("1")), ["-parents/2", "-parents/3"]);
    let alone = bench.follows("parents", &Act::Delete("4"));
    assert!(alone.is_empty(), "it refers to itself and goes once: {alone:?}");
}

/// All kinds of aggregates and a stored inverse on the parent.
fn kept() -> Bench {
    let aggregate = |path: &str, value: &str| {
        format!(
            r#"{{"on":"parent","path":"/{path}","of":"children","value":"{value}","propagate":"sync"}}"#
        )
    };
    let all = [("n", "COUNT(1)"), ("sum", "SUM(c.x)"), ("mean", "AVG(c.x)"), ("max", "MAX(c.x)")];
    let all: Vec<String> = all.iter().map(|(path, value)| aggregate(path, value)).collect();
    let relation =
        r#""path":"/parentId","inverse":{"name":"children","store":"/ids","maxItems":3}"#;
    let bench = Bench::family(relation, &format!(r#","aggregates":[{}]"#, all.join(",")));
    bench.stored(&[
        ("parents", r#"{"id":"p"}"#),
        ("parents", r#"{"id":"q"}"#),
        ("children", r#"{"id":"a","parentId":"p","x":1}"#),
        ("children", r#"{"id":"b","parentId":"p","x":4}"#),
    ])
}

/// What is kept on targets after a write: target, ids, count, sum, mean and greatest.
fn kept_after(bench: &Bench, act: &Act<'_>) -> Vec<String> {
    let shown = |line: &String| {
        let (of, value) = line.split_once(' ').expect("an image");
        let value = json(value);
        let of_value = ["ids", "n", "sum", "mean", "max"].map(|name| value.get(name).to_json());
        format!("{of} {}", of_value.join(" "))
    };
    bench.follows("children", act).iter().map(shown).collect()
}

#[test]
fn what_is_kept_on_a_target_follows_new_changed_and_deleted_sources() {
    let bench = kept();
    let put = |text| kept_after(&bench, &Act::Put(text));
    assert_eq!(put(r#"{"id":"c","parentId":"p","x":7}"#), [r#"parents/p ["a","b","c"] 3 12 4 7"#]);
    assert_eq!(put(r#"{"id":"b","parentId":"p","x":3}"#), [r#"parents/p ["a","b"] 2 4 2 3"#]);
    assert_eq!(kept_after(&bench, &Act::Delete("b")), [r#"parents/p ["a"] 1 1 1 1"#]);
}

#[test]
fn a_source_that_moves_is_taken_off_one_target_and_added_to_the_other() {
    let bench = kept();
    let moved = kept_after(&bench, &Act::Put(r#"{"id":"b","parentId":"q","x":4}"#));
    assert_eq!(moved, [r#"parents/p ["a"] 1 1 1 1"#, r#"parents/q ["b"] 1 4 4 4"#]);
}

#[test]
fn a_change_that_no_aggregate_reads_writes_no_target() {
    let bench = kept();
    let same = kept_after(&bench, &Act::Put(r#"{"id":"b","parentId":"p","x":4,"other":1}"#));
    assert!(same.is_empty(), "{same:?}");
}

#[test]
fn a_stored_inverse_refuses_more_sources_than_it_may_list() {
    let bench = kept();
    bench.commit("children", &Act::Put(r#"{"id":"c","parentId":"p","x":7}"#));
    let more = Act::Put(r#"{"id":"d","parentId":"p","x":8}"#);
    let refused = bench.write_set("children", &more, false);
    assert!(matches!(&refused, Err(Error::ModelViolated(_))), "{refused:?}");
}

/// A post with these notes, in buckets of three.
fn blog(notes: &[&str]) -> Bench {
    let elements: Vec<String> = notes.iter().map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    let post = format!(r#"{{"id":"p","blog":"b","notes":[{}]}}"#, elements.join(","));
    Bench::new(BLOG).stored(&[("parents", &post)])
}

/// The write set of a patch of the post: the ids in each bucket, and what the post shows.
fn patched(bench: &Bench, operations: &str) -> Result<Vec<String>> {
    let ids = |list: &Value| {
        let ids = list.as_array().unwrap_or_default().iter().map(|note| note.get("id").to_json());
        ids.collect::<String>().replace('"', "")
    };
    let shown = |line: &String| {
        let Some((of, value)) = line.split_once(' ') else { return line.clone() };
        let value = json(value);
        match value.get("noteCount") {
            Value::Undefined => format!("{of} {}", ids(value.get("notes"))),
            count => format!("{of} shows {} of {}", ids(value.get("recent")), count.to_json()),
        }
    };
    let set = bench.write_set("parents", &Act::Patch("p", operations), true)?;
    Ok(set.iter().map(shown).collect())
}

const APPEND: &str = r#"[{"op":"add","path":"/notes/-","value":{"id":"NEW"}}]"#;

#[test]
fn an_append_writes_the_last_bucket_and_the_post_alone() {
    let append = APPEND.replace("NEW", "z");
    let done = patched(&blog(&["a", "b", "c", "d"]), &append).expect("an append");
    assert_eq!(done, ["parents/p shows dz of 5", "parents/p~01 dz"]);
    let done = patched(&blog(&["a", "b", "c"]), &append).expect("an append");
    assert_eq!(done, ["parents/p shows cz of 4", "parents/p~01 z"], "the last bucket was full");
}

#[test]
fn an_element_is_changed_and_removed_in_its_bucket() {
    let bench = blog(&["a", "b", "c", "d"]);
    let done = patched(&bench, r#"[{"op":"remove","path":"/notes/b"}]"#).expect("a removal");
    assert_eq!(done, ["parents/p shows cd of 3", "parents/p~00 ac"]);
    let done = patched(&bench, r#"[{"op":"remove","path":"/notes/d"}]"#).expect("a removal");
    assert_eq!(done, ["-parents/p~01", "parents/p shows bc of 3"], "an empty bucket goes");
    let set = r#"[{"op":"set","path":"/notes/a/text","value":"new"}]"#;
    let done = patched(&bench, set).expect("a change");
    assert_eq!(done, ["parents/p shows cd of 4", "parents/p~00 abc"]);
}

#[test]
fn a_whole_array_leaves_the_buckets_that_stay_the_same() {
    let bench = blog(&["a", "b", "c", "d", "e"]);
    let whole =
        r#"[{"op":"set","path":"/notes","value":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"x"}]}]"#;
    let done = patched(&bench, whole).expect("an array");
    assert_eq!(done, ["parents/p shows cx of 4", "parents/p~01 x"]);
}

#[test]
fn a_key_that_the_array_has_already_or_has_not_is_refused() {
    let bench = blog(&["a"]);
    let twice = patched(&bench, &APPEND.replace("NEW", "a"));
    assert!(matches!(&twice, Err(Error::ModelViolated(_))), "{twice:?}");
    let missing = patched(&bench, r#"[{"op":"remove","path":"/notes/nobody"}]"#);
    assert!(matches!(&missing, Err(Error::Invalid(_))), "{missing:?}");
}

#[test]
fn the_buckets_of_a_deleted_post_go_with_all_their_entries() {
    let bench = blog(&["a", "b", "c", "d"]);
    let done = bench.write_set("parents", &Act::Delete("p"), true).expect("a deletion");
    assert_eq!(done, ["-parents/p", "-parents/p~00", "-parents/p~01"]);
    let container = bench.0.containers().read(&name("d"), &name("parents")).expect("it");
    let key = PartitionKey::parse_header(r#"["b"]"#).expect("a key");
    bench
        .0
        .items()
        .delete(&container, Some(&key), &name("p"), &Preconditions::default())
        .expect("it is deleted");
    let shard = container.partitions[0].shard;
    let snapshot = bench.0.store.snapshot(shard, ReadAt::Latest).expect("a snapshot");
    let everything = Bounds { from: vec![], to: vec![u8::MAX; 9] };
    let left = snapshot.scan(&everything.scan(Space::Index, 10, usize::MAX)).expect("a scan");
    assert!(left.is_empty(), "no directory, element or index entry is left: {left:?}");
}
