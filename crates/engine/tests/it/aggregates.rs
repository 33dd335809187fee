//! Aggregates that a model keeps, beside the same computed from all items by the test itself: after
//! random writes, in transactions and among writers, they are equal to the last bit.

use std::collections::BTreeMap;

use orrery_engine::catalog::resource::Preconditions;
use orrery_modeling::{AggregateKind, Tally};
use orrery_types::{Error, KeyComponent, PartitionKey, Value};

use crate::random::Random;
use crate::world::{World, json, name};

const SHOP: &str = r#"{"version":1,"types":{
    "customer":{"container":"customers"},"order":{"container":"orders"}},
  "relations":[{"name":"customer","from":"order","path":"/customerIds/*","to":"customer",
    "onDelete":"keep","propagate":"sync","inverse":{"name":"orders"}}],
  "aggregates":[
    {"on":"customer","path":"/orderCount","of":"orders","value":"COUNT(1)","propagate":"sync"},
    {"on":"customer","path":"/sum","of":"orders","value":"SUM(c.amount)","propagate":"sync"},
    {"on":"customer","path":"/stats/mean","of":"orders","value":"AVG(c.amount)","propagate":"sync"},
    {"on":"customer","path":"/stats/least","of":"orders","value":"MIN(c.amount)","propagate":"sync"},
    {"on":"customer","path":"/stats/most","of":"orders","value":"MAX(c.amount)","propagate":"sync"}]}"#;

/// Values that try every corner of a sum and of an order.
const AMOUNTS: [&str; 16] = [
    "1",
    "2",
    "2.5",
    "0.1",
    "0.2",
    "-0.3",
    "1e300",
    "-1e300",
    "5e-324",
    "9007199254740993",
    "-7",
    "null",
    "true",
    r#""text""#,
    "[1]",
    "",
];

pub(crate) fn shop(mut world: World, model: &str) -> World {
    world.database();
    for id in ["customers", "orders"] {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash"}}}}"#);
        world.create_container(&body, Some(18_000));
    }
    let none = Preconditions::default();
    world.engine().models().store(&name("d"), &json(model), &none).expect("the model is taken");
    world
}

fn key(id: &str) -> PartitionKey {
    PartitionKey(vec![KeyComponent::String(id.into())])
}

/// An order as it was written: whose it is, and its amount as text.
type Orders = BTreeMap<String, (Vec<String>, &'static str)>;

fn order(id: &str, customers: &[String], amount: &str) -> String {
    let customers: Vec<String> = customers.iter().map(|c| format!("\"{c}\"")).collect();
    let amount = if amount.is_empty() { String::new() } else { format!(r#","amount":{amount}"#) };
    format!(r#"{{"id":"{id}","customerIds":[{}]{amount}}}"#, customers.join(","))
}

/// The aggregates of a customer over these orders.
fn expected(orders: &Orders, customer: &str) -> [String; 5] {
    let own = orders.values().filter(|(customers, _)| customers.iter().any(|c| c == customer));
    let amount = |text: &str| match text {
        "" => Value::Undefined,
        text => Value::parse(text.as_bytes()).expect(text),
    };
    let values: Vec<Value> = own.map(|(_, text)| amount(text)).collect();
    let tally = |kind: AggregateKind| {
        let mut tally = Tally::default();
        for value in &values {
            tally.merge(&Tally::of(kind, value));
        }
        tally.value(kind).to_json()
    };
    let known: Vec<&Value> = values.iter().filter(|v| !v.is_undefined()).collect();
    let spoilt = known.iter().any(|v| matches!(v, Value::Array(_)));
    let extreme = |v: Option<&&Value>| v.filter(|_| !spoilt).map_or(String::new(), |v| v.to_json());
    [
        values.len().to_string(),
        tally(AggregateKind::Sum),
        tally(AggregateKind::Avg),
        extreme(known.iter().min()),
        extreme(known.iter().max()),
    ]
}

fn check(world: &World, orders: &Orders, customers: usize) {
    let container = world.container("customers");
    for number in 0..customers {
        let id = format!("c{number}");
        let item = match world.engine().items().read(&container, Some(&key(&id)), &name(&id)) {
            Ok(item) => Value::parse(&item.body).expect("JSON"),
            Err(Error::NotFound) => continue,
            Err(error) => panic!("{error}"),
        };
        let stats = item.get("stats");
        let found = [
            item.get("orderCount"),
            item.get("sum"),
            stats.get("mean"),
            stats.get("least"),
            stats.get("most"),
        ];
        assert_eq!(found.map(Value::to_json), expected(orders, &id), "{id}");
    }
    let drift = world.engine().model_verification().verify(&name("d")).expect("it is verified");
    assert!(drift.is_empty(), "{drift:#?}");
}

/// Lets everything follow that is to follow, and checks.
fn settle(world: &mut World, orders: &Orders) {
    world.run_tasks();
    check(world, orders, 4);
    let state = world.engine().models().read(&name("d")).expect("a model").body;
    assert!(!state.get("_state").to_json().contains("pending"), "nothing waits");
}

fn run(mut world: World, seed: u64, steps: usize) {
    let (mut random, mut orders) = (Random::new(seed), Orders::new());
    let none = Preconditions::default();
    for step in 0..steps {
        let (c, o) = (format!("c{}", random.below(4)), format!("o{}", random.below(9)));
        let (customers, container) = (world.container("customers"), world.container("orders"));
        let engine = world.engine();
        match random.below(8) {
            // What a client sends for them does not count.
            0 => drop(engine.items().upsert(
                &customers,
                None,
                format!(r#"{{"id":"{c}","sum":5,"stats":{{"least":{step}}}}}"#).as_bytes(),
                &none,
            )),
            1 => drop(engine.items().delete(&customers, Some(&key(&c)), &name(&c), &none)),
            2 | 3 => {
                if engine.items().delete(&container, Some(&key(&o)), &name(&o), &none).is_ok() {
                    orders.remove(&o);
                }
            }
            _ => {
                let whose: Vec<String> =
                    (0..random.below(4)).map(|_| format!("c{}", random.below(4))).collect();
                let amount = AMOUNTS[random.below(AMOUNTS.len())];
                let text = order(&o, &whose, amount);
                engine.items().upsert(&container, None, text.as_bytes(), &none).expect("an order");
                orders.insert(o, (whose, amount));
            }
        }
        if step % 25 == 24 {
            settle(&mut world, &orders);
        }
        // A partition with one customer cannot be split, and the last one not be merged.
        let (database, customers) = (name("d"), name("customers"));
        match step % 100 {
            29 => drop(world.engine().layouts().split_partition(&database, &customers, None, None)),
            79 => drop(world.engine().layouts().merge_partitions(&database, &customers, None)),
            _ => {}
        }
        // Ends with things that wait, too.
        if step % 60 == 59 {
            world.reopen();
        }
    }
    settle(&mut world, &orders);
}

#[test]
fn aggregates_are_those_of_the_items_after_random_writes() {
    for seed in 1..=4 {
        run(shop(World::memory(), SHOP), seed, 300);
    }
    run(shop(World::rocks(), SHOP), 9, 150);
}

#[test]
fn aggregates_that_follow_later_are_those_of_the_items_when_they_have_followed() {
    let later = SHOP.replace(r#""propagate":"sync""#, r#""propagate":"async""#);
    for seed in 11..=13 {
        run(shop(World::memory(), &later), seed, 300);
    }
    run(shop(World::rocks(), &later), 19, 150);
    // Half of them at once, the rest when they overflow.
    let bound = r#""propagate":"sync","maxFanout":1,"onOverflow":"async""#;
    let overflow = SHOP.replace(r#""propagate":"sync""#, bound);
    for seed in 21..=23 {
        run(shop(World::memory(), &overflow), seed, 300);
    }
}

#[test]
fn what_waits_is_seen_in_the_state() {
    let later = SHOP.replace(r#""propagate":"sync""#, r#""propagate":"async""#);
    let mut world = shop(World::memory(), &later);
    let none = Preconditions::default();
    let put = |container: &str, text: &str| {
        let container = world.container(container);
        world.engine().items().upsert(&container, None, text.as_bytes(), &none).expect(text);
    };
    put("customers", r#"{"id":"c0"}"#);
    put("orders", r#"{"id":"o","customerIds":["c0"],"amount":3}"#);
    let sum = |world: &World| {
        let customers = world.container("customers");
        let item = world.engine().items().read(&customers, Some(&key("c0")), &name("c0"));
        Value::parse(&item.expect("it").body).expect("JSON").get("sum").to_json()
    };
    assert_eq!(sum(&world), "0", "it follows later");
    world.clock.advance_s(7);
    let state = world.engine().models().read(&name("d")).expect("a model").body;
    let of = state.get("_state").as_array().expect("a list").iter();
    let of = of.filter(|rule| rule.get("rule").as_str() == Some("/relations/0"));
    let found: Vec<(i64, i64)> = of
        .map(|rule| {
            (rule.get("pending").as_i64().expect("n"), rule.get("lagMs").as_i64().expect("ms"))
        })
        .collect();
    assert_eq!(found, [(1, 7000)]);
    assert_eq!(world.engine().models().lag_ms(), Ok(7000));
    world.run_tasks();
    assert_eq!(sum(&world), "3");
    assert_eq!(world.engine().models().lag_ms(), Ok(0));
}

#[test]
fn writes_of_one_transaction_count_together_and_refused_ones_not_at_all() {
    let mut world = World::memory();
    world.database();
    let body = r#"{"id":"shop","partitionKey":{"paths":["/tenant"],"kind":"Hash"}}"#;
    world.create_container(body, None);
    let model = r#"{"version":1,"types":{
        "bill":{"container":"shop","where":"c.type = 'bill'"},
        "line":{"container":"shop","where":"c.type = 'line'"}},
      "relations":[{"name":"bill","from":"line","path":"/billId","to":"bill",
        "partitionKey":["/tenant"],"onMissing":"reject","inverse":{"name":"lines"}}],
      "aggregates":[{"on":"bill","path":"/sum","of":"lines","value":"SUM(c.n)"},
        {"on":"bill","path":"/most","of":"lines","value":"MAX(c.n)"}]}"#;
    let none = Preconditions::default();
    world.engine().models().store(&name("d"), &json(model), &none).expect("a model");
    let (shop, tenant) = (world.container("shop"), key("t"));
    let line = |id: &str, bill: &str, n: i64| {
        format!(r#"{{"id":"{id}","tenant":"t","type":"line","billId":"{bill}","n":{n}}}"#)
    };
    let done = world.engine().transactions().transact(&shop, &tenant, &mut |transaction| {
        transaction.create(br#"{"id":"b","tenant":"t","type":"bill"}"#)?;
        transaction.create(line("1", "b", 5).as_bytes())?;
        transaction.create(line("2", "b", 7).as_bytes())?;
        // Refused after what it would change was noted.
        let bad = transaction.upsert(line("2", "nobody", 90).as_bytes(), &none);
        assert!(matches!(bad, Err(Error::ModelViolated(_))), "{bad:?}");
        let read = |t: &mut orrery_engine::transaction::Transaction<'_>| {
            let bill = Value::parse(&t.read(&name("b"))?.body).expect("JSON");
            Ok::<_, Error>((bill.get("sum").to_json(), bill.get("most").to_json()))
        };
        assert_eq!(read(transaction)?, ("12".into(), "7".into()));
        transaction.upsert(line("2", "b", 3).as_bytes(), &none)?;
        assert_eq!(read(transaction)?, ("8".into(), "5".into()));
        transaction.delete(&name("1"), &none)
    });
    done.expect("it commits");
    let bill = world.engine().items().read(&shop, Some(&tenant), &name("b")).expect("the bill");
    let bill = Value::parse(&bill.body).expect("JSON");
    assert_eq!((bill.get("sum").to_json(), bill.get("most").to_json()), ("3".into(), "3".into()));
    let drift = world.engine().model_verification().verify(&name("d")).expect("it is verified");
    assert!(drift.is_empty(), "{drift:#?}");
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let world = shop(World::memory(), SHOP);
    let none = Preconditions::default();
    let (customers, orders) = (world.container("customers"), world.container("orders"));
    for id in ["c0", "c1"] {
        let text = format!(r#"{{"id":"{id}"}}"#);
        world.engine().items().upsert(&customers, None, text.as_bytes(), &none).expect("it");
    }
    std::thread::scope(|threads| {
        for writer in 0..4 {
            let (world, orders, none) = (&world, &orders, &none);
            threads.spawn(move || {
                let mut random = Random::new(writer);
                for _ in 0..40 {
                    let id = format!("o{writer}-{}", random.below(4));
                    if random.below(3) == 0 {
                        let gone = world.engine().items().delete(
                            orders,
                            Some(&key(&id)),
                            &name(&id),
                            none,
                        );
                        assert!(matches!(gone, Ok(_) | Err(Error::NotFound)), "{gone:?}");
                    } else {
                        let whose = [format!("c{}", random.below(2))];
                        let text = order(&id, &whose, AMOUNTS[random.below(11)]);
                        let put =
                            world.engine().items().upsert(orders, None, text.as_bytes(), none);
                        put.expect("an order");
                    }
                }
            });
        }
    });
    let drift = world.engine().model_verification().verify(&name("d")).expect("it is verified");
    assert!(drift.is_empty(), "{drift:#?}");
}

#[test]
fn aggregates_are_built_over_data_that_is_there() {
    let world = shop(World::memory(), r#"{"version":1,"types":{}}"#);
    let none = Preconditions::default();
    let (customers, container) = (world.container("customers"), world.container("orders"));
    let mut orders = Orders::new();
    for n in 0..40_usize {
        let (id, whose) = (format!("o{n}"), vec![format!("c{}", n % 3)]);
        let amount = AMOUNTS[n % 11];
        let text = order(&id, &whose, amount);
        world.engine().items().upsert(&container, None, text.as_bytes(), &none).expect("an order");
        orders.insert(id, (whose, amount));
    }
    for n in 0..4 {
        let text = format!(r#"{{"id":"c{n}","sum":"old"}}"#);
        world.engine().items().upsert(&customers, None, text.as_bytes(), &none).expect("it");
    }
    world.engine().models().store(&name("d"), &json(SHOP), &none).expect("the model is taken");
    check(&world, &orders, 4);
    // What is kept now follows from what was built.
    world.engine().items().delete(&container, Some(&key("o6")), &name("o6"), &none).expect("it");
    orders.remove("o6");
    check(&world, &orders, 4);
}
