//! Loading: many items in few commits, with everything that single writes check.

use orrery_engine::item::operation::ItemBody;
use orrery_engine::transaction::bulk_load::{Existing, Loaded};
use orrery_types::{Error, Result};

use crate::world::{World, name};

fn world() -> World {
    let mut world = World::rocks();
    world.database();
    let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
        "defaultTtl":-1,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    world.create_container(body, Some(18_000));
    world
}

fn load(world: &World, texts: &[String], existing: Existing) -> Vec<Result<Loaded>> {
    let container = world.container("c");
    let parse = |text: &String| ItemBody::parse(&container, text.as_bytes()).expect("an item");
    let bodies = texts.iter().map(parse).collect();
    world.engine().transactions().load_items(&container, bodies, existing).expect("the store works")
}

fn item(id: &str, p: usize, u: &str, n: usize) -> String {
    format!(r#"{{"id":"{id}","p":"p{p}","u":"{u}","n":{n}}}"#)
}

fn read_n(world: &World, id: &str, p: usize) -> String {
    let key = orrery_types::PartitionKey::parse_header(&format!("[\"p{p}\"]")).expect("a key");
    let item = world.engine().items().read(&world.container("c"), Some(&key), &name(id));
    let body = orrery_types::Value::parse(&item.expect("the item").body).expect("JSON");
    body.get("n").to_json()
}

#[test]
fn items_of_all_partitions_come_with_all_that_stands_beside_them() {
    let mut world = world();
    let texts: Vec<String> =
        (0..1000).map(|n| item(&format!("i{n}"), n % 17, &format!("u{n}"), n)).collect();
    assert!(load(&world, &texts, Existing::Refuse).iter().all(|a| *a == Ok(Loaded::Created)));
    let again = load(&world, &texts, Existing::Keep);
    assert!(again.iter().all(|answer| *answer == Ok(Loaded::Kept)));
    for _ in 0..2 {
        let container = world.container("c");
        assert_eq!(world.engine().insight().verify(&container).expect("it reads"), vec![]);
        assert_eq!(world.engine().insight().usage(&container).expect("it counts").items, 1000);
        world.reopen();
    }
    assert_eq!(read_n(&world, "i999", 999 % 17), "999");
}

#[test]
fn what_is_there_is_kept_replaced_or_refuses() {
    let world = world();
    load(&world, &[item("a", 1, "a", 1)], Existing::Refuse);
    let second = [item("a", 1, "a", 2), item("b", 1, "b", 2)];
    let answers = load(&world, &second, Existing::Keep);
    assert_eq!(answers, [Ok(Loaded::Kept), Ok(Loaded::Created)]);
    assert_eq!(read_n(&world, "a", 1), "1");
    let answers = load(&world, &second, Existing::Refuse);
    assert_eq!(answers, [Err(Error::AlreadyExists), Err(Error::AlreadyExists)]);
    let answers = load(&world, &second, Existing::Replace);
    assert_eq!(answers, [Ok(Loaded::Replaced), Ok(Loaded::Replaced)]);
    assert_eq!(read_n(&world, "a", 1), "2");
}

#[test]
fn one_that_breaks_a_rule_does_not_touch_the_others() {
    let world = world();
    // The same id twice, and the same unique key twice, within one commit.
    let texts = [
        item("a", 1, "x", 1),
        item("a", 1, "y", 2),
        item("b", 1, "x", 3),
        item("b", 2, "x", 4),
        item("c", 1, "z", 5),
    ];
    let answers = load(&world, &texts, Existing::Refuse);
    assert_eq!(
        answers,
        [
            Ok(Loaded::Created),
            Err(Error::AlreadyExists),
            Err(Error::UniqueKeyViolation),
            Ok(Loaded::Created),
            Ok(Loaded::Created)
        ]
    );
    assert_eq!(world.engine().insight().verify(&world.container("c")).expect("it reads"), vec![]);
}

#[test]
fn the_last_of_several_versions_wins() {
    let world = world();
    let texts: Vec<String> = (0..10).map(|n| item("a", 1, "a", n)).collect();
    let answers = load(&world, &texts, Existing::Replace);
    assert_eq!(answers[0], Ok(Loaded::Created));
    assert!(answers[1..].iter().all(|answer| *answer == Ok(Loaded::Replaced)));
    assert_eq!(read_n(&world, "a", 1), "9");
    assert_eq!(world.engine().insight().verify(&world.container("c")).expect("it reads"), vec![]);
}

#[test]
fn an_expired_item_is_in_nobodys_way() {
    let world = world();
    let dying = r#"{"id":"old","p":"p1","u":"x","ttl":5}"#.to_owned();
    load(&world, &[dying], Existing::Refuse);
    world.clock.advance_s(10);
    let answers = load(&world, &[item("new", 1, "x", 1)], Existing::Refuse);
    assert_eq!(answers, [Ok(Loaded::Created)]);
    assert_eq!(world.engine().insight().verify(&world.container("c")).expect("it reads"), vec![]);
}
