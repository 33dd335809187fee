//! Interleavings of two writers that the concurrency control must order: one is stopped at a chosen
//! read, the other runs to its end, and then the first goes on.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::query::QueryRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::transaction::Transaction;
use orrery_storage::{Space, Store, key};
use orrery_types::ids::{Address, Rid};
use orrery_types::{Clock, Error, ManualClock, Result};

use crate::commit_stop::let_others_run;
use crate::interposed::{Hook, Interposed, Read, Step};
use crate::rig::{Rig, pk, reads_item, scans_index_of};
use crate::stores::new_store;
use crate::world::{START_S, json, manual, name};

const PARENTS: &str = r#"{"id":"parents","partitionKey":{"paths":["/id"],"kind":"Hash"}}"#;
const CHILDREN: &str = r#"{"id":"children","partitionKey":{"paths":["/id"],"kind":"Hash"}}"#;
const THINGS: &str = r#"{"id":"things","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;

/// Children that refer to parents, in containers of several ranges.
fn family(relation: &str, aggregates: &str) -> Rig {
    let model = format!(
        r#"{{"version":1,"types":{{"parent":{{"container":"parents"}},"child":{{"container":"children"}}}},
        "relations":[{{"name":"of","from":"child","to":"parent",{relation}}}],"aggregates":[{aggregates}]}}"#
    );
    Rig::new(&[(PARENTS, None), (CHILDREN, Some(25_000))], Some(&model))
}

fn none() -> Preconditions {
    Preconditions::default()
}

fn patch(text: &str) -> Patch {
    Patch::parse(&json(text)).expect("a patch")
}

/// A child leaves its parent between the scan of the parent's references and the look at the child:
/// whatever the relation does to children, it does nothing to this one.
#[test]
fn a_child_that_has_just_left_does_not_share_its_old_parents_end() {
    for (on_delete, path, old, new) in [
        ("cascade", "/parentId", r#""parentId":"p1""#, r#""parentId":"p2""#),
        ("unset", "/parentId", r#""parentId":"p1""#, r#""parentId":"p2""#),
        ("restrict", "/parentId", r#""parentId":"p1""#, r#""parentId":"p2""#),
        ("pull", "/all/*", r#""all":["p1","p2"]"#, r#""all":["p2"]"#),
    ] {
        let relation =
            format!(r#""path":"{path}","onDelete":"{on_delete}","propagate":"sync","maxFanout":9"#);
        let rig = family(&relation, "");
        rig.put("parents", r#"{"id":"p1"}"#).expect("a parent");
        rig.put("parents", r#"{"id":"p2"}"#).expect("a parent");
        rig.put("children", &format!(r#"{{"id":"c1",{old}}}"#)).expect("a child");
        let moved = Mutex::new(None);
        let deleted = rig.between(
            scans_index_of("p1"),
            || rig.delete("parents", "p1", "p1"),
            || {
                let item = format!(r#"{{"id":"c1",{new}}}"#);
                let written = rig.put("children", &item).expect("it moves");
                *moved.lock().expect("a lock") = Some(written.stamp.etag.to_string());
            },
        );
        deleted.unwrap_or_else(|error| panic!("{on_delete}: {error}"));
        let etag =
            rig.get("children", "c1", "c1").map(|c| c.get("_etag").as_str().map(String::from));
        let moved = moved.into_inner().expect("a lock");
        assert_eq!(etag, Ok(moved), "{on_delete}: it is as the move has left it");
        rig.check();
    }
}

/// The same in the background, after the parent is gone.
#[test]
fn a_child_that_has_just_left_is_passed_over_by_what_follows_later() {
    let rig = family(r#""path":"/parentId","onDelete":"cascade","propagate":"async""#, "");
    rig.put("parents", r#"{"id":"p1"}"#).expect("a parent");
    rig.put("parents", r#"{"id":"p2"}"#).expect("a parent");
    rig.put("children", r#"{"id":"c1","parentId":"p1"}"#).expect("a child");
    rig.put("children", r#"{"id":"c2","parentId":"p1"}"#).expect("a child");
    rig.delete("parents", "p1", "p1").expect("it goes");
    let followed = rig.between(
        scans_index_of("p1"),
        || rig.engine.deferred_effects().propagate(&|| false),
        || drop(rig.put("children", r#"{"id":"c1","parentId":"p2"}"#).expect("it moves")),
    );
    assert_eq!(followed, Ok(()));
    assert_eq!(rig.engine.background().failing_work(), orrery_types::Value::array(vec![]));
    assert_eq!(rig.at("children", "c1", "c1", "parentId"), r#""p2""#);
    assert_eq!(rig.get("children", "c2", "c2"), Err(Error::NotFound), "it shares the end");
    rig.check();
}

/// A target that comes later counts and lists those that refer to it then.
#[test]
fn a_new_parent_neither_counts_nor_lists_a_child_that_has_just_left() {
    let relation = r#""path":"/parentId","propagate":"sync",
        "inverse":{"name":"children","store":"/childIds","maxItems":9}"#;
    let count =
        r#"{"on":"parent","path":"/count","of":"children","value":"COUNT(1)","propagate":"sync"}"#;
    let rig = family(relation, count);
    rig.put("parents", r#"{"id":"p2"}"#).expect("a parent");
    rig.put("children", r#"{"id":"c1","parentId":"p1"}"#).expect("a child");
    rig.put("children", r#"{"id":"c2","parentId":"p1"}"#).expect("a child");
    rig.between(
        scans_index_of("p1"),
        || rig.put("parents", r#"{"id":"p1"}"#),
        || drop(rig.put("children", r#"{"id":"c1","parentId":"p2"}"#).expect("it moves")),
    )
    .expect("a parent");
    assert_eq!(rig.at("parents", "p1", "p1", "count"), "1");
    assert_eq!(rig.at("parents", "p1", "p1", "childIds"), r#"["c2"]"#);
    rig.check();
}

const BLOG: &str = r#"{"version":1,"types":{"post":{"container":"things","where":"c.type = 'post'"}},
  "buckets":[{"on":"post","array":"/comments","elementKey":"id",
    "bucket":{"items":2,"link":"/postId","idFormat":"{id}~c{seq:06}"}}]}"#;

fn blog() -> Rig {
    let rig = Rig::new(&[(THINGS, None)], Some(BLOG));
    let comments: Vec<String> = (0..4).map(|n| format!(r#"{{"id":"k{n}"}}"#)).collect();
    let comments = comments.join(",");
    rig.put("things", &format!(r#"{{"id":"p","p":"b","type":"post","comments":[{comments}]}}"#))
        .expect("a post");
    rig
}

/// Takes an element out of its bucket and puts it behind the last.
fn move_element(rig: &Rig) {
    for text in [
        r#"[{"op":"remove","path":"/comments/k0"}]"#,
        r#"[{"op":"add","path":"/comments/-","value":{"id":"k0"}}]"#,
    ] {
        let things = rig.container("things");
        let done =
            rig.engine.items().patch(&things, Some(&pk("b")), &name("p"), &patch(text), &none());
        done.expect("a patch");
    }
}

/// An element moves to another bucket while somebody looks for it.
#[test]
fn an_element_that_moves_is_found_where_it_is() {
    const SET: &str = r#"[{"op":"set","path":"/comments/k0/text","value":"new"}]"#;
    // A transaction, right after its snapshot; a single write, after it has found the bucket.
    let by_transaction = |rig: &Rig| {
        let mut work = |t: &mut Transaction<'_>| t.patch(&name("p"), &patch(SET), &none());
        rig.engine.transactions().transact(&rig.container("things"), &pk("b"), &mut work).map(drop)
    };
    let by_write = |rig: &Rig| {
        let things = rig.container("things");
        rig.engine
            .items()
            .patch(&things, Some(&pk("b")), &name("p"), &patch(SET), &none())
            .map(drop)
    };
    let element = |read: &Read<'_>| match read {
        Read::Key { space: Space::Index, key, .. } => key.windows(2).any(|bytes| bytes == b"k0"),
        _ => false,
    };
    for stage in 0..3 {
        let rig = blog();
        let done = match stage {
            0 => rig.between(
                |read| matches!(read, Read::Snapshot { .. }),
                || by_transaction(&rig),
                || move_element(&rig),
            ),
            1 => rig.between(element, || by_transaction(&rig), || move_element(&rig)),
            _ => rig.between(element, || by_write(&rig), || move_element(&rig)),
        };
        assert_eq!(done, Ok(()), "stage {stage}");
        let last = rig.at("things", "b", "p~c000002", "comments");
        assert!(last.contains(r#"{"id":"k0","text":"new"}"#), "{last}");
        rig.check();
    }
}

/// A refusal is justified by one moment: here the item has another etag as soon as the reference leads
/// nowhere.
#[test]
fn a_refusal_rests_on_one_moment() {
    let relation = r#""path":"/parentId","onMissing":"reject""#;
    for by_batch in [false, true] {
        let rig = family(relation, "");
        rig.put("parents", r#"{"id":"p1"}"#).expect("a parent");
        let first = rig.put("children", r#"{"id":"c1"}"#).expect("a child");
        let conditions =
            Preconditions { if_match: Some(first.stamp.etag.to_string().into()), ..none() };
        let text = br#"{"id":"c1","parentId":"p1"}"#;
        let children = rig.container("children");
        let refused = rig.between(
            reads_item("c1"),
            || {
                if by_batch {
                    let mut work =
                        |t: &mut Transaction<'_>| t.replace(&name("c1"), text, &conditions);
                    return rig
                        .engine
                        .transactions()
                        .transact(&children, &pk("c1"), &mut work)
                        .map(drop);
                }
                let (key, name) = (pk("c1"), name("c1"));
                rig.engine
                    .items()
                    .replace(&children, Some(&key), &name, text, &conditions)
                    .map(drop)
            },
            || {
                rig.put("children", r#"{"id":"c1","n":2}"#).expect("another version");
                rig.delete("parents", "p1", "p1").expect("it goes");
            },
        );
        assert_eq!(refused, Err(Error::PreconditionFailed), "by batch: {by_batch}");
    }
}

/// A transaction reads a range and decides by it; a write elsewhere changes an item of the range, by what
/// follows from it, and relies on an item that the transaction then deletes. One must see the other.
#[test]
fn a_range_read_and_a_derived_write_into_the_range_see_each_other() {
    let model = r#"{"version":1,"types":{
        "base":{"container":"things","where":"c.type = 'base'"},
        "counter":{"container":"things","where":"c.type = 'counter'"},
        "order":{"container":"children"}},
      "relations":[
        {"name":"base","from":"order","path":"/baseId","to":"base","partitionKey":["/at"],
         "onMissing":"reject"},
        {"name":"counter","from":"order","path":"/counterId","to":"counter","partitionKey":["/at"],
         "propagate":"sync","inverse":{"name":"orders"}}],
      "aggregates":[{"on":"counter","path":"/count","of":"orders","value":"COUNT(1)",
        "propagate":"sync"}]}"#;
    for feed in [false, true] {
        let rig = Rig::new(&[(THINGS, None), (CHILDREN, Some(25_000))], Some(model));
        rig.put("things", r#"{"id":"x","p":"P","type":"base"}"#).expect("a base");
        rig.put("things", r#"{"id":"y","p":"P","type":"counter"}"#).expect("a counter");
        let things = rig.container("things");
        let mut runs = 0;
        let sum = QueryRequest::parse(&json(r#"{"query":"SELECT VALUE SUM(c.count) FROM c"}"#));
        let sum = sum.expect("a query");
        let done = rig.engine.transactions().transact(&things, &pk("P"), &mut |t| {
            runs += 1;
            let size = PageSize { items: 10 };
            let unused = if feed {
                let page = t.read_items(size, None)?;
                page.items.iter().all(|item| !item.windows(9).any(|w| w == b"\"count\":1"))
            } else {
                t.query(&sum, size, None)?.rows[0] == "0"
            };
            if runs == 1 {
                let order = r#"{"id":"o","at":"P","baseId":"x","counterId":"y"}"#;
                rig.put("children", order).expect("the base is there");
            }
            if unused { t.delete(&name("x"), &none()).map(drop) } else { Ok(()) }
        });
        assert_eq!(done.map(drop), Ok(()));
        assert_eq!(rig.at("things", "P", "y", "count"), "1");
        assert!(rig.get("things", "P", "x").is_ok(), "feed {feed}: the base of an order is gone");
        rig.check();
    }
}

const UNIQUE: &str = r#"{"id":"things","partitionKey":{"paths":["/p"],"kind":"Hash"},"defaultTtl":-1,
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;

/// Whoever handles the refusal of a unique key relies on its holder.
#[test]
fn a_refused_unique_key_is_still_taken_when_the_transaction_commits() {
    let rig = Rig::new(&[(UNIQUE, None)], None);
    rig.put("things", r#"{"id":"holder","p":"k","u":1}"#).expect("an item");
    let things = rig.container("things");
    let mut runs = 0;
    rig.engine
        .transactions()
        .transact(&things, &pk("k"), &mut |t| {
            runs += 1;
            let made = t.create(br#"{"id":"new","p":"k","u":1}"#);
            if runs == 1 {
                // It looks for the way out of the other, and frees the key because it is not there.
                rig.engine.transactions().transact(&things, &pk("k"), &mut |other| {
                    assert_eq!(other.read(&name("fallback")).map(drop), Err(Error::NotFound));
                    other.delete(&name("holder"), &none())
                })?;
            }
            match made {
                Err(Error::UniqueKeyViolation) => t.create(br#"{"id":"fallback","p":"k","u":2}"#),
                other => other,
            }
        })
        .expect("it commits");
    assert_eq!(rig.get("things", "k", "fallback"), Err(Error::NotFound), "the key was free");
    assert!(rig.get("things", "k", "new").is_ok());
    rig.check();
}

/// A clock that jumps by twenty seconds when it has been asked so often.
struct JumpingClock {
    inner: Arc<ManualClock>,
    left: AtomicI64,
}

impl Clock for JumpingClock {
    fn now_us(&self) -> u64 {
        if self.left.fetch_sub(1, SeqCst) == 0 {
            self.inner.advance_s(20);
        }
        self.inner.now_us()
    }
}

/// An item expires at every possible look at the clock while it is deleted, renamed or replaced.
#[test]
fn an_item_that_expires_during_a_write_takes_its_effects_with_it() {
    let children =
        r#"{"id":"children","partitionKey":{"paths":["/p"],"kind":"Hash"},"defaultTtl":-1}"#;
    let model = r#"{"version":1,"types":{"parent":{"container":"parents"},"child":{"container":"children"}},
        "relations":[{"name":"of","from":"child","to":"parent","path":"/parentId","propagate":"sync",
            "inverse":{"name":"children","store":"/childIds","maxItems":9}}],
        "aggregates":[{"on":"parent","path":"/count","of":"children","value":"COUNT(1)","propagate":"sync"}]}"#;
    for looks in 0..16 {
        for what in ["delete", "rename", "replace", "batch"] {
            let inner = Arc::new(ManualClock::at_s(START_S));
            let clock = Arc::new(JumpingClock { inner: inner.clone(), left: AtomicI64::new(-1) });
            let rig = Rig::with_clock(
                &[(PARENTS, None), (children, None)],
                Some(model),
                inner,
                clock.clone(),
            );
            rig.put("parents", r#"{"id":"p1"}"#).expect("a parent");
            let child = r#"{"id":"c1","p":"k","parentId":"p1","ttl":10}"#;
            rig.put("children", child).expect("a child");
            let of = rig.container("children");
            clock.left.store(looks, SeqCst);
            let (key, id) = (pk("k"), name("c1"));
            let done = match what {
                "delete" => rig.delete("children", "k", "c1").map(drop),
                "batch" => {
                    let mut work = |t: &mut Transaction<'_>| t.delete(&name("c1"), &none());
                    rig.engine.transactions().transact(&of, &key, &mut work).map(drop)
                }
                _ => {
                    let text = if what == "rename" {
                        br#"{"id":"c2","p":"k","parentId":"p1"}"#
                    } else {
                        br#"{"id":"c1","p":"k","parentId":"p9"}"#
                    };
                    rig.engine.items().replace(&of, Some(&key), &id, text, &none()).map(drop)
                }
            };
            clock.left.store(-1, SeqCst);
            assert!(matches!(done, Ok(()) | Err(Error::NotFound)), "{what}: {done:?}");
            rig.check();
        }
    }
}

/// Two writers that have lost four times take turns. The one that waits for its turn reads after it
/// has come, and so does not lose again.
#[test]
fn a_transaction_that_waited_for_its_turn_does_not_lose_again() {
    let model = r#"{"version":1,"types":{
        "counter":{"container":"things","where":"c.type = 'counter'"},
        "order":{"container":"things","where":"c.type = 'order'"}},
      "relations":[{"name":"counter","from":"order","path":"/counterId","to":"counter",
         "partitionKey":["/at"],"propagate":"sync","inverse":{"name":"orders"}}],
      "aggregates":[{"on":"counter","path":"/count","of":"orders","value":"COUNT(1)",
        "propagate":"sync"}]}"#;
    let rig = Rig::new(&[(THINGS, None)], Some(model));
    rig.put("things", r#"{"id":"x","p":"P1","type":"counter"}"#).expect("a counter");
    let things = rig.container("things");
    let snapshots = Arc::new(AtomicUsize::new(0));
    let (holds, holding) = channel::<()>();
    let (lost, losing) = channel::<()>();
    let waiting = Arc::new(AtomicBool::new(false));
    let runs = std::thread::scope(|threads| {
        let (rig, things) = (&rig, &things);
        let (taken, waits) = (snapshots.clone(), waiting.clone());
        threads.spawn(move || {
            let mut runs = 0;
            let done = rig.engine.transactions().transact(things, &pk("P2"), &mut |t| {
                runs += 1;
                let _ = t.read(&name("own"));
                if runs <= 4 {
                    rig.put("things", r#"{"id":"own","p":"P2"}"#).expect("somebody is faster");
                } else if runs == 5 {
                    holds.send(()).expect("somebody waits");
                    losing.recv().expect("the other has lost");
                    // Long enough for the other to take its snapshot, if it takes one now.
                    let before = taken.load(SeqCst);
                    for _ in 0..20_000 {
                        if taken.load(SeqCst) > before {
                            break;
                        }
                        std::thread::yield_now();
                    }
                    waits.store(false, SeqCst);
                }
                t.upsert(
                    br#"{"id":"o","p":"P2","type":"order","at":"P1","counterId":"x"}"#,
                    &none(),
                )
            });
            done.expect("it commits");
        });
        holding.recv().expect("the other holds its turn");
        waiting.store(true, SeqCst);
        let (taken, waits) = (snapshots.clone(), waiting.clone());
        rig.breakpoint.arm(move |read| {
            if matches!(read, Read::Snapshot { .. }) && waits.load(SeqCst) {
                taken.fetch_add(1, SeqCst);
            }
            false
        });
        let mut runs = 0;
        let done = rig.engine.transactions().transact(things, &pk("P1"), &mut |t| {
            runs += 1;
            t.read(&name("x"))?;
            let _ = t.read(&name("own"));
            if runs <= 4 {
                rig.put("things", r#"{"id":"own","p":"P1"}"#).expect("somebody is faster");
            }
            if runs == 4 {
                lost.send(()).expect("somebody waits");
            }
            t.upsert(br#"{"id":"mine","p":"P1"}"#, &none())
        });
        done.expect("it commits");
        runs
    });
    assert_eq!(runs, 5, "its fifth attempt was the last");
    rig.check();
}

/// The row of an item is read.
fn reads_row(address: &Address) -> impl Fn(&Read<'_>) -> bool + Send + 'static {
    let Address::Rid(Rid::Child { number, .. }) = address else { panic!("an item's rid") };
    let row = key::row(key::Row(*number));
    move |read| matches!(read, Read::Key { space: Space::Items, key, .. } if **key == row)
}

/// An item is renamed, or replaced by another with its id, while somebody reaches for it by its rid.
#[test]
fn a_rid_leads_to_its_item_whatever_happens_to_its_id() {
    let rig = Rig::new(&[(THINGS, Some(25_000))], None);
    let things = rig.container("things");
    let set = patch(r#"[{"op":"set","path":"/n","value":1}]"#);
    let rename = |from: &str, to: &str| {
        let text = format!(r#"{{"id":"{to}","p":"k"}}"#);
        let renamed = rig.engine.items().replace(
            &things,
            Some(&pk("k")),
            &name(from),
            text.as_bytes(),
            &none(),
        );
        renamed.expect("it is renamed");
    };
    let read = |rid: &Address| {
        let read = rig.engine.items().read(&things, Some(&pk("k")), rid)?;
        Ok::<_, Error>(String::from_utf8_lossy(&read.body).into_owned())
    };
    let patched =
        |rid: &Address| rig.engine.items().patch(&things, Some(&pk("k")), rid, &set, &none());
    let within = |rid: &Address| {
        let mut work = |t: &mut Transaction<'_>| t.patch(rid, &set, &none());
        rig.engine.transactions().transact(&things, &pk("k"), &mut work).map(|done| done.value)
    };
    rig.put("things", r#"{"id":"a","p":"k"}"#).expect("an item");
    let rid = rig.by_rid("things", "k", "a");

    let found = rig.between(reads_row(&rid), || read(&rid), || rename("a", "b"));
    assert!(found.is_ok_and(|body| body.contains(r#""id":"b""#)), "a read");
    let done = rig.between(reads_row(&rid), || patched(&rid), || rename("b", "c"));
    assert_eq!(done.map(drop), Ok(()), "a write");
    // Not at the row, but when the item itself is read for the write.
    let nth = AtomicUsize::new(0);
    let second = move |read: &Read<'_>| reads_item("c")(read) && nth.fetch_add(1, SeqCst) == 1;
    let done = rig.between(second, || patched(&rid), || rename("c", "d"));
    assert_eq!(done.map(drop), Ok(()), "a write that had found its item");
    let done = rig.between(reads_row(&rid), || within(&rid), || rename("d", "e"));
    assert_eq!(done.map(drop), Ok(()), "a transaction");
    assert_eq!(rig.at("things", "k", "e", "n"), "1");

    // Another item with the same id is not what the rid names.
    let replaced = || {
        rig.delete("things", "k", "e").expect("it goes");
        rig.put("things", r#"{"id":"e","p":"k"}"#).expect("another one");
    };
    let done = rig.between(reads_row(&rid), || patched(&rid), replaced);
    assert_eq!(done.map(drop), Err(Error::NotFound));
    assert!(rig.get("things", "k", "e").expect("another one").get("n").is_undefined());
    assert_eq!(read(&rid), Err(Error::NotFound));
    rig.check();
}

/// The policy of a target's container changes: the store has it, the catalog in memory does not yet. Writes that
/// reach it through the model go on.
#[test]
fn a_model_write_reaches_a_container_whose_policy_has_just_changed() {
    let blocked = Arc::new(AtomicBool::new(false));
    let (reached, at_answer) = channel::<()>();
    let (go_on, released) = channel::<()>();
    let released = Mutex::new(released);
    let armed = blocked.clone();
    let hook: Hook = Box::new(move |step| {
        if step == Step::Commit && armed.swap(false, SeqCst) {
            reached.send(()).expect("somebody waits");
            released.lock().expect("a lock").recv().expect("somebody lets it go on");
        }
        Ok(())
    });
    let store: Arc<dyn Store> = Arc::new(Interposed::answers(new_store(), hook));
    let clock = Arc::new(ManualClock::at_s(START_S));
    let engine = Engine::open(store, clock, 1).expect("it opens");
    engine.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    for body in [PARENTS, CHILDREN] {
        engine.containers().create(&name("d"), &json(body), &manual(None)).expect("a container");
    }
    let model = r#"{"version":1,"types":{"parent":{"container":"parents"},"child":{"container":"children"}},
        "relations":[{"name":"of","from":"child","to":"parent","path":"/parentId","propagate":"sync",
            "inverse":{"name":"children"}}],
        "aggregates":[{"on":"parent","path":"/count","of":"children","value":"COUNT(1)","propagate":"sync"}]}"#;
    engine.models().store(&name("d"), &json(model), &none()).expect("the model is taken");
    let put = |container: &str, item: &str| -> Result<()> {
        let container = engine.containers().read(&name("d"), &name(container))?;
        engine.items().upsert(&container, None, item.as_bytes(), &none()).map(drop)
    };
    put("parents", r#"{"id":"p1"}"#).expect("a parent");
    blocked.store(true, SeqCst);
    std::thread::scope(|threads| {
        let changed = threads.spawn(|| {
            let body = PARENTS.replace(
                r#""id":"parents""#,
                r#""id":"parents","indexingPolicy":{"excludedPaths":[{"path":"/*"}]}"#,
            );
            engine.containers().replace(&name("d"), &name("parents"), &json(&body), &none())
        });
        at_answer.recv().expect("the epoch is raised");
        // Both are refused by the store, and wait for the change.
        let single = threads.spawn(|| put("children", r#"{"id":"c1","parentId":"p1"}"#));
        let transaction = threads.spawn(|| {
            let children = engine.containers().read(&name("d"), &name("children"))?;
            let mut work =
                |t: &mut Transaction<'_>| t.upsert(br#"{"id":"c2","parentId":"p1"}"#, &none());
            engine.transactions().transact(&children, &pk("c2"), &mut work).map(drop)
        });
        let_others_run(|| single.is_finished() && transaction.is_finished());
        go_on.send(()).expect("it waits");
        changed.join().expect("no panic").expect("it is changed");
        let written = [single, transaction].map(|thread| thread.join().expect("no panic"));
        assert_eq!(written, [Ok(()), Ok(())]);
    });
    let drift = engine.model_verification().verify(&name("d")).expect("it is verified");
    assert!(drift.is_empty(), "{drift:#?}");
}
