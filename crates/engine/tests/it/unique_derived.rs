//! Unique keys of items that follow from others: what a model copies into them counts like what a
//! client writes, in whichever logical partition, shard and container it lands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::transaction::Transaction;
use orrery_engine::transaction::batch::BatchAnswer;
use orrery_types::{Error, Result, Value};

use crate::random::Random;
use crate::rig::{Rig, pk, reads_item};
use crate::world::{json, name};

const CUSTOMERS: &str = r#"{"id":"customers","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;
/// Orders of one logical partition have different labels.
const ORDERS: &str = r#"{"id":"orders","partitionKey":{"paths":["/p"],"kind":"Hash"},"defaultTtl":-1,
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/label"]}]}}"#;

/// A customer's `x` is the label of its orders of kind a, its `y` of those of kind b. Of kind c a client
/// sets the label.
fn model(orders: &str, more: &str) -> String {
    format!(
        r#"{{"version":1,"types":{{
            "customer":{{"container":"customers","where":"c.type = 'customer'"}},
            "a":{{"container":"{orders}","where":"c.type = 'a'"}},
            "b":{{"container":"{orders}","where":"c.type = 'b'"}}}},
          "relations":[
            {{"name":"buyerA","from":"a","path":"/customerId","to":"customer",
              "partitionKey":["/customerKey"],"copies":{{"label":"t.x"}},"propagate":"sync"{more}}},
            {{"name":"buyerB","from":"b","path":"/customerId","to":"customer",
              "partitionKey":["/customerKey"],"copies":{{"label":"t.y"}},"propagate":"sync"{more}}}]}}"#
    )
}

fn customer(id: &str, x: &str, y: &str) -> String {
    format!(r#"{{"id":"{id}","p":"P","type":"customer","x":"{x}","y":"{y}"}}"#)
}

fn order(kind: &str, id: &str, customer: &str, label: &str) -> String {
    format!(
        r#"{{"id":"{id}","p":"R","type":"{kind}","customerKey":"P","customerId":"{customer}","label":"{label}"}}"#
    )
}

/// Orders in their own container, of one range or of several.
fn shop(throughput: Option<i64>) -> Rig {
    let rig =
        Rig::new(&[(CUSTOMERS, throughput), (ORDERS, throughput)], Some(&model("orders", "")));
    rig.put("customers", &customer("k1", "1", "2")).expect("a customer");
    rig.put("customers", &customer("k2", "3", "4")).expect("a customer");
    rig.put("orders", &order("a", "o1", "k1", "")).expect("an order");
    rig.put("orders", &order("b", "o2", "k1", "")).expect("an order");
    rig.put("orders", &order("a", "o3", "k2", "")).expect("an order");
    rig
}

#[track_caller]
fn is_taken(result: Result<()>) {
    match result {
        Err(error @ Error::DerivedKeyViolation(_)) => {
            let text = error.to_string();
            assert!(text.contains("'orders'") && text.contains("/label"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_items_that_follow_one_write_do_not_get_one_unique_key() {
    for throughput in [None, Some(25_000)] {
        let rig = shop(throughput);
        is_taken(rig.put("customers", &customer("k1", "9", "9")).map(drop));
        assert_eq!(rig.at("orders", "R", "o1", "label"), r#""1""#);
        rig.check();
        // They may change places.
        rig.put("customers", &customer("k1", "2", "1")).expect("each is held once");
        assert_eq!(rig.at("orders", "R", "o1", "label"), r#""2""#);
        rig.check();
    }
}

#[test]
fn two_operations_of_a_batch_do_not_give_one_unique_key_twice() {
    for throughput in [None, Some(25_000)] {
        let rig = shop(throughput);
        let (first, second) = (customer("k1", "9", "2"), customer("k2", "9", "4"));
        let answers = rig.batch("customers", "P", &[&first, &second]).expect("answers");
        assert!(matches!(answers[0], BatchAnswer::Dependent(_)), "{:?}", answers[0]);
        match &answers[1] {
            BatchAnswer::Failed(error) => is_taken(Err(error.clone())),
            other => panic!("{other:?}"),
        }
        assert_eq!(rig.at("customers", "P", "k1", "x"), r#""1""#);
        rig.check();
        // What the first frees the second may have.
        let (first, second) = (customer("k1", "9", "2"), customer("k2", "1", "4"));
        let answers = rig.batch("customers", "P", &[&first, &second]).expect("answers");
        assert!(answers.iter().all(BatchAnswer::is_success), "{answers:?}");
        rig.check();
    }
}

/// In a container of both: what follows from one operation, and what a client writes in the other.
#[test]
fn a_derived_unique_key_and_a_clients_exclude_each_other_in_a_batch() {
    const BOTH: &str = r#"{"id":"customers","partitionKey":{"paths":["/p"],"kind":"Hash"},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/label"]}]}}"#;
    let customer = |x: &str| {
        format!(r#"{{"id":"k1","p":"P","type":"customer","x":"{x}","y":"y","label":"k1"}}"#)
    };
    let order = r#"{"id":"o1","p":"P","type":"a","customerKey":"P","customerId":"k1"}"#;
    let own = r#"{"id":"o9","p":"P","type":"c","label":"9"}"#;
    let rig = Rig::new(&[(BOTH, None)], Some(&model("customers", "")));
    rig.put("customers", &customer("1")).expect("a customer");
    rig.put("customers", order).expect("an order");
    let failed = |items: &[&str]| match &rig.batch("customers", "P", items).expect("answers")[1] {
        BatchAnswer::Failed(error) => error.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(failed(&[&customer("9"), own]), Error::UniqueKeyViolation);
    assert!(matches!(failed(&[own, &customer("9")]), Error::DerivedKeyViolation(_)));
    rig.check();
    // A script that handles the refusal goes on, and its commit holds.
    let customers = rig.container("customers");
    let mut work = |t: &mut Transaction<'_>| {
        t.upsert(own.as_bytes(), &Preconditions::default())?;
        let taken = t.upsert(customer("9").as_bytes(), &Preconditions::default());
        assert!(matches!(taken, Err(Error::DerivedKeyViolation(_))), "{taken:?}");
        t.upsert(customer("8").as_bytes(), &Preconditions::default())
    };
    rig.engine.transactions().transact(&customers, &pk("P"), &mut work).expect("it commits");
    assert_eq!(rig.at("customers", "P", "o1", "label"), r#""8""#);
    rig.check();
}

/// The key is held by an item that has nothing to do with the write: one attempt, and 409.
#[test]
fn a_unique_key_that_is_taken_elsewhere_is_refused_at_once() {
    for throughput in [None, Some(25_000)] {
        let rig = shop(throughput);
        rig.put("orders", &order("c", "o9", "", "9")).expect("an order");
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = attempts.clone();
        rig.breakpoint.arm(move |read| {
            counted.fetch_add(usize::from(reads_item("k1")(read)), SeqCst);
            false
        });
        is_taken(rig.put("customers", &customer("k1", "9", "2")).map(drop));
        assert_eq!(attempts.swap(0, SeqCst), 1, "single writes");
        let write = customer("k1", "9", "2");
        match &rig.batch("customers", "P", &[&write]).expect("answers")[0] {
            BatchAnswer::Failed(error) => is_taken(Err(error.clone())),
            other => panic!("{other:?}"),
        }
        assert_eq!(attempts.load(SeqCst), 1, "transactions");
        rig.check();
        rig.delete("orders", "R", "o9").expect("it goes");
        rig.put("customers", &customer("k1", "9", "2")).expect("the key is free");
        rig.check();
    }
}

/// An expired holder is removed, unless the model keeps it: then it still holds its key.
#[test]
fn an_expired_holder_gives_way_to_a_derived_unique_key() {
    let rig = shop(None);
    let holder = order("c", "o9", "", "9").replace(r#""p":"R""#, r#""p":"R","ttl":5"#);
    rig.put("orders", &holder).expect("an order");
    rig.clock.advance_s(5);
    rig.put("customers", &customer("k1", "9", "2")).expect("the holder has expired");
    assert_eq!(rig.at("orders", "R", "o1", "label"), r#""9""#);
    rig.put("orders", &holder.replace('9', "8")).expect("an order");
    rig.clock.advance_s(5);
    let write = customer("k1", "8", "2");
    let answers = rig.batch("customers", "P", &[&write]).expect("answers");
    assert!(answers[0].is_success(), "{answers:?}");
    rig.check();
}

#[test]
fn an_expired_holder_that_the_model_keeps_still_holds_its_key() {
    let model = r#"{"version":1,"types":{"order":{"container":"orders","where":"c.type = 'c'"},
        "note":{"container":"customers"}},
      "relations":[{"name":"order","from":"note","path":"/orderId","to":"order",
        "partitionKey":["/orderKey"],"onDelete":"restrict"}]}"#;
    let rig = Rig::new(&[(CUSTOMERS, None), (ORDERS, None)], Some(model));
    let holder = order("c", "o9", "", "9").replace(r#""p":"R""#, r#""p":"R","ttl":5"#);
    rig.put("orders", &holder).expect("an order");
    let note = r#"{"id":"n","p":"P","orderKey":"R","orderId":"o9"}"#;
    rig.put("customers", note).expect("a note");
    rig.clock.advance_s(5);
    let write = order("c", "o8", "", "9");
    assert_eq!(rig.put("orders", &write).map(drop), Err(Error::UniqueKeyViolation));
    let answers = rig.batch("orders", "R", &[&write]).expect("answers");
    assert!(matches!(answers[0], BatchAnswer::Failed(Error::UniqueKeyViolation)), "{answers:?}");
}

/// Copies that a new model would put into items which are there: two of them may not get one key, and
/// neither may one that gets the key of an item that follows nobody.
#[test]
fn a_model_that_is_built_gives_no_unique_key_twice() {
    for throughput in [None, Some(25_000)] {
        let rig = Rig::new(&[(CUSTOMERS, throughput), (ORDERS, throughput)], None);
        rig.put("customers", &customer("k1", "9", "7")).expect("a customer");
        rig.put("customers", &customer("k2", "9", "8")).expect("a customer");
        rig.put("orders", &order("a", "o1", "k1", "1")).expect("an order");
        rig.put("orders", &order("a", "o2", "k2", "2")).expect("an order");
        rig.put("orders", &order("b", "o3", "k1", "3")).expect("an order");
        rig.put("orders", &order("c", "o4", "", "7")).expect("an order");
        let none = Preconditions::default();
        // Whether it is refused or waits for the items in its way, they keep what they have.
        let _ = rig.engine.models().store(&name("d"), &json(&model("orders", "")), &none);
        rig.engine.background().run_tasks(&|| false).expect("background work goes on");
        check_labels(&rig, "orders");
        rig.check();
        assert_eq!(rig.at("orders", "R", "o3", "label"), r#""3""#);
    }
}

/// The labels of all orders that are to be seen, by logical partition: none twice.
#[track_caller]
fn check_labels(rig: &Rig, container: &str) {
    let of = rig.container(container);
    for key in ["P", "Q", "R"] {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut work =
            |t: &mut Transaction<'_>| t.read_items(PageSize { items: 1000 }, None).map(|p| p.items);
        for item in
            rig.engine.transactions().transact(&of, &pk(key), &mut work).expect("a feed").value
        {
            let item = Value::parse(&item).expect("JSON");
            let id = item.get("id").to_json();
            let label = item.get("label").to_json();
            if let Some(other) = seen.insert(label.clone(), id.clone()) {
                panic!("{other} and {id} of {key} both have {label}");
            }
        }
    }
}

/// Random customers and orders by single writes and batches, under models that copy into unique keys: in
/// another container or in the same, of one range or of several, beside each other.
fn random_labels(random: &mut Random, same_container: bool, throughput: Option<i64>) {
    let orders = if same_container { "customers" } else { "orders" };
    let on_delete = ["", r#","onDelete":"cascade""#, r#","onDelete":"unset""#];
    let more = on_delete[random.below(3)];
    let unique = ORDERS.replace(r#""id":"orders""#, r#""id":"customers""#);
    let customers = if same_container { &unique } else { CUSTOMERS };
    let containers = [(customers, throughput), (ORDERS, throughput)];
    let rig = Rig::new(&containers, Some(&model(orders, more)));
    let write = |random: &mut Random, key: &str| {
        let (of, label) = (random.below(4), random.below(6));
        if random.one_in(2) {
            let other = random.below(6);
            let own =
                if same_container { format!(r#","label":"customer {of}""#) } else { String::new() };
            return (
                "customers",
                format!(
                    r#"{{"id":"k{of}","p":"{key}","type":"customer","x":"{label}","y":"{other}"{own}}}"#
                ),
            );
        }
        let kind = ["a", "b", "c"][random.below(3)];
        let customer_key = ["P", "Q"][random.below(2)];
        let id = random.below(8);
        (
            orders,
            format!(
                r#"{{"id":"o{id}","p":"{key}","type":"{kind}","customerKey":"{customer_key}","customerId":"k{of}","label":"{label}"}}"#
            ),
        )
    };
    let step = |random: &mut Random| {
        let key = ["P", "Q", "R"][random.below(3)];
        // Refusals are as good as successes here: only what is stored counts.
        let done = match random.below(4) {
            0 => {
                let id = format!("{}{}", ["k", "o"][random.below(2)], random.below(8));
                rig.delete(if id.starts_with('k') { "customers" } else { orders }, key, &id)
                    .map(drop)
            }
            1 => {
                let (container, item) = write(random, key);
                rig.put(container, &item).map(drop)
            }
            _ => {
                let container = write(random, key).0;
                let mut items = Vec::new();
                while items.len() < 1 + random.below(4) {
                    let (of, item) = write(random, key);
                    if of == container {
                        items.push(item);
                    }
                }
                let items: Vec<&str> = items.iter().map(|item| &**item).collect();
                rig.batch(container, key, &items).map(drop)
            }
        };
        let refused = matches!(
            done,
            Ok(())
                | Err(Error::NotFound | Error::UniqueKeyViolation | Error::DerivedKeyViolation(_))
        );
        assert!(refused, "{done:?}");
    };
    for _ in 0..60 {
        step(random);
        check_labels(&rig, orders);
        rig.check();
    }
    // Several at once. Whoever loses too often says so.
    let seeds: Vec<u64> = (0..3).map(|_| random.next()).collect();
    std::thread::scope(|threads| {
        for seed in seeds {
            let write = &write;
            let rig = &rig;
            threads.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..30 {
                    let key = ["P", "Q", "R"][random.below(3)];
                    let (container, item) = write(&mut random, key);
                    let _ = if random.one_in(2) {
                        rig.put(container, &item).map(drop)
                    } else {
                        rig.batch(container, key, &[&item]).map(drop)
                    };
                }
            });
        }
    });
    check_labels(&rig, orders);
    rig.check();
    assert!(rig.engine.models().read(&name("d")).is_ok());
}

#[test]
fn no_two_items_of_a_logical_partition_ever_share_a_unique_key() {
    let mut random = Random::from_environment("unique keys under models");
    for same_container in [false, true] {
        for throughput in [None, Some(25_000)] {
            random_labels(&mut random, same_container, throughput);
        }
    }
}
