//! Transactions of one logical partition: all or nothing, their own writes visible, and as if one
//! ran after the other.

use std::thread;

use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::query::QueryRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::transaction::Transaction;
use orrery_types::{Error, PartitionKey, Result, Value};

use crate::world::{World, json, name};

const PLAIN: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;
const UNIQUE: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"},"defaultTtl":-1,
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;

fn world(mut world: World, container: &str) -> World {
    world.database();
    world.create_container(container, None);
    world
}

fn key() -> PartitionKey {
    PartitionKey::parse_header(r#"["k"]"#).expect("a key")
}

fn any() -> Preconditions {
    Preconditions::default()
}

fn transact<T>(
    world: &World,
    container: &Container,
    mut work: impl FnMut(&mut Transaction<'_>) -> Result<T>,
) -> Result<T> {
    Ok(world.engine().transactions().transact(container, &key(), &mut work)?.value)
}

fn number(transaction: &mut Transaction<'_>, id: &str) -> Result<i64> {
    let item = transaction.read(&name(id))?;
    Ok(Value::parse(&item.body).expect("JSON").get("n").as_i64().expect("a number"))
}

fn put(transaction: &mut Transaction<'_>, id: &str, n: i64) -> Result<()> {
    let body = format!(r#"{{"id":"{id}","p":"k","n":{n}}}"#);
    transaction.upsert(body.as_bytes(), &any()).map(drop)
}

fn count(transaction: &mut Transaction<'_>) -> Result<i64> {
    let query = QueryRequest::parse(&json(r#"{"query":"SELECT VALUE COUNT(1) FROM c"}"#))?;
    let page = transaction.query(&query, PageSize { items: 10 }, None)?;
    Ok(page.rows[0].parse().expect("a number"))
}

#[test]
fn a_transaction_sees_its_own_writes_and_nobody_else_does_before_the_end() {
    for world in [world(World::memory(), PLAIN), world(World::rocks(), PLAIN)] {
        let container = world.container("c");
        transact(&world, &container, |t| put(t, "a", 1)).expect("a commit");
        transact(&world, &container, |t| {
            put(t, "a", 2)?;
            put(t, "b", 3)?;
            assert_eq!((number(t, "a")?, number(t, "b")?), (2, 3));
            let outside = world.engine().items().read(&container, Some(&key()), &name("b"));
            assert_eq!(outside.map(drop), Err(Error::NotFound));
            t.delete(&name("a"), &any())?;
            assert_eq!(t.read(&name("a")).map(drop), Err(Error::NotFound));
            Ok(())
        })
        .expect("a commit");
        transact(&world, &container, |t| {
            assert_eq!(t.read(&name("a")).map(drop), Err(Error::NotFound));
            assert_eq!(number(t, "b")?, 3);
            Ok(())
        })
        .expect("a read");
        assert_eq!(world.engine().insight().verify(&container).expect("verify"), []);
    }
}

#[test]
fn an_error_undoes_everything() {
    let world = world(World::memory(), PLAIN);
    let container = world.container("c");
    let failed = transact(&world, &container, |t| {
        put(t, "a", 1)?;
        t.delete(&name("missing"), &any()).map(drop)
    });
    assert_eq!(failed, Err(Error::NotFound));
    assert_eq!(transact(&world, &container, count), Ok(0));
}

#[test]
fn a_query_and_a_feed_show_own_writes_in_place_of_what_is_stored() {
    let world = world(World::memory(), PLAIN);
    let container = world.container("c");
    transact(&world, &container, |t| (0..10).try_for_each(|n| put(t, &format!("i{n}"), n)))
        .expect("a commit");
    transact(&world, &container, |t| {
        t.delete(&name("i0"), &any())?;
        put(t, "i5", 500)?;
        put(t, "z", 11)?;
        assert_eq!(count(t)?, 10);
        let (mut seen, mut token) = (Vec::new(), None);
        loop {
            let page = t.read_items(PageSize { items: 3 }, token.as_deref())?;
            seen.extend(
                page.items.iter().map(|i| Value::parse(i).expect("JSON").get("n").as_i64()),
            );
            token = page.continuation;
            if token.is_none() {
                break;
            }
        }
        let expected = [1, 2, 3, 4, 500, 6, 7, 8, 9, 11].map(Some);
        assert_eq!(seen, expected);
        Ok(())
    })
    .expect("a commit");
}

#[test]
fn unique_keys_may_change_hands_inside_a_transaction_and_not_be_shared() {
    let world = world(World::memory(), UNIQUE);
    let container = world.container("c");
    let body = |id: &str, u: i64| format!(r#"{{"id":"{id}","p":"k","u":{u}}}"#);
    transact(&world, &container, |t| {
        t.create(body("a", 1).as_bytes())?;
        t.create(body("b", 2).as_bytes())?;
        let taken = t.create(body("c", 2).as_bytes());
        assert_eq!(taken.map(drop), Err(Error::UniqueKeyViolation), "by the same transaction");
        Ok(())
    })
    .expect("a commit");
    transact(&world, &container, |t| {
        let taken = t.upsert(body("c", 1).as_bytes(), &any());
        assert_eq!(taken.map(drop), Err(Error::UniqueKeyViolation), "by what is stored");
        t.upsert(body("a", 3).as_bytes(), &any())?;
        t.upsert(body("b", 1).as_bytes(), &any())?;
        t.upsert(body("a", 2).as_bytes(), &any())?;
        t.replace(&name("a"), body("renamed", 2).as_bytes(), &any()).map(drop)
    })
    .expect("the two have swapped");
    assert_eq!(world.engine().insight().verify(&container).expect("verify"), []);
    assert_eq!(transact(&world, &container, count), Ok(2));
}

#[test]
fn an_expired_item_keeps_no_unique_key_from_a_transaction() {
    let world = world(World::memory(), UNIQUE);
    let container = world.container("c");
    transact(&world, &container, |t| t.create(br#"{"id":"a","p":"k","u":1,"ttl":5}"#).map(drop))
        .expect("a commit");
    world.clock.advance_s(5);
    transact(&world, &container, |t| t.create(br#"{"id":"b","p":"k","u":1}"#).map(drop))
        .expect("the holder has expired");
    assert_eq!(world.engine().insight().verify(&container).expect("verify"), []);
}

#[test]
fn increments_of_many_threads_are_all_counted() {
    for world in [world(World::memory(), PLAIN), world(World::rocks(), PLAIN)] {
        let container = world.container("c");
        transact(&world, &container, |t| put(t, "a", 0)).expect("a commit");
        let (threads, rounds) = (8, 20);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        transact(&world, &container, |t| {
                            let n = number(t, "a")?;
                            put(t, "a", n + 1)
                        })
                        .expect("everybody gets there");
                    }
                });
            }
        });
        let total = transact(&world, &container, |t| number(t, "a")).expect("a read");
        assert_eq!(total, threads * rounds);
    }
}

/// Each transaction counts the items and adds one that says how many it saw: no two may have seen
/// the same, whether or not the others write by transactions.
#[test]
fn what_a_query_saw_is_still_true_at_the_commit() {
    for world in [world(World::memory(), PLAIN), world(World::rocks(), PLAIN)] {
        let container = world.container("c");
        let (threads, rounds) = (6, 15);
        let seen: Vec<i64> = thread::scope(|scope| {
            let run = |_| {
                let (world, container) = (&world, &container);
                scope.spawn(move || -> Vec<i64> {
                    let step = |t: &mut Transaction<'_>| {
                        let seen = count(t)?;
                        put(t, &format!("n{seen}"), seen)?;
                        Ok(seen)
                    };
                    (0..rounds).map(|_| transact(world, container, step).expect("done")).collect()
                })
            };
            let handles: Vec<_> = (0..threads).map(run).collect();
            handles.into_iter().flat_map(|h| h.join().expect("it ends")).collect()
        });
        let mut sorted = seen;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..threads * rounds).collect::<Vec<_>>());
    }
}
