//! Several engines over one store that they take for shared: each sees at once what another one has changed. Every
//! protection between them has a test that fails when the store lacks it.

use std::collections::HashSet;
use std::sync::Arc;

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::query::read_feed::PageSize;
use orrery_storage::{Head, ShardState, Store};
use orrery_types::{Error, Result, Value};

use crate::nodes::{
    Meanwhile, Nodes, Weakened, Without, container, count, create, erase, get, open_node, people,
    pk, put, replace, shared_store,
};
use crate::several_engines::check_sound;
use crate::world::{json, manual, name};

fn none() -> Preconditions {
    Preconditions::default()
}

/// Two engines over a store that may lack a protection; the second one's next commit waits for what is armed.
fn two(without: Option<Without>, more: &str) -> (Arc<Engine>, Engine, Meanwhile) {
    two_over(shared_store(), without, more)
}

fn two_over(
    mut store: Arc<dyn Store>,
    without: Option<Without>,
    more: &str,
) -> (Arc<Engine>, Engine, Meanwhile) {
    if let Some(without) = without {
        store = Weakened::over(store, without);
    }
    let first = Nodes::with_people(&store, more).0.remove(0);
    let (stopped, meanwhile) = Meanwhile::over(&store);
    let second = open_node(stopped);
    get(&second, "p", "first").expect("it is known");
    (Arc::new(first), second, meanwhile)
}

#[test]
fn every_engine_goes_on_under_what_another_one_has_changed() {
    let policy = r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#;
    let policy = format!(r#","indexingPolicy":{policy}"#);
    let computed = r#","computedProperties":[{"name":"b","query":"SELECT VALUE c.a FROM c"}]"#;
    for what in [
        "",
        r#","defaultTtl":5"#,
        &policy,
        r#","changeFeedPolicy":{"retentionDuration":10}"#,
        computed,
        "model",
        "split",
        "merge",
    ] {
        let nodes = Nodes::with_people(&shared_store(), "").0;
        // A split and a merge need two ranges.
        let split =
            |e: &Engine| e.layouts().split_partition(&name("d"), &name("people"), None, None);
        (0..40).try_for_each(|n| put(&nodes[0], &format!("{n}"), "x")).expect("items");
        split(&nodes[0]).expect("a split");
        (0..40).try_for_each(|n| get(&nodes[1], &format!("{n}"), "x")).expect(what);
        match what {
            "model" => {
                let model = json(r#"{"version":1,"types":{"person":{"container":"people"}}}"#);
                nodes[0].models().store(&name("d"), &model, &none()).map(drop).expect(what);
            }
            "split" => drop(split(&nodes[0]).expect(what)),
            "merge" => {
                let layouts = nodes[0].layouts();
                drop(layouts.merge_partitions(&name("d"), &name("people"), None).expect(what));
            }
            more => replace(&nodes[0], more).expect(what),
        }
        for node in &nodes {
            assert_eq!(count(node, "c.a = 1"), Ok(41), "{what}");
            (0..40).try_for_each(|n| get(node, &format!("{n}"), "x")).expect(what);
            (0..40).try_for_each(|n| put(node, &format!("{n}"), "x")).expect(what);
        }
        for node in &nodes {
            check_sound(node, what);
        }
    }
}

#[test]
fn what_one_engine_creates_every_other_finds() {
    let nodes = Nodes::over(&shared_store()).0;
    for n in 0..30 {
        let (database, container) = (format!("d{n}"), format!("c{n}"));
        let [a, b, c] = [n, n + 1, n + 2].map(|at| &nodes[at % 3]);
        let body = json(&format!(r#"{{"id":"{database}"}}"#));
        a.databases().create(&body, &manual(None)).expect("a database");
        assert_eq!(b.databases().create(&body, &manual(None)).err(), Some(Error::AlreadyExists));
        let body = json(&format!(r#"{{"id":"{container}","partitionKey":{{"paths":["/p"]}}}}"#));
        b.containers().create(&name(&database), &body, &manual(None)).expect("a container");
        let found = c.containers().read(&name(&database), &name(&container)).expect("it is found");
        c.items().create(&found, None, br#"{"id":"1","p":"p"}"#).expect("an item");
        let found = a.containers().read(&name(&database), &name(&container)).expect("it is found");
        a.items().read(&found, Some(&pk("p")), &name("1")).expect("the item is found");
    }
    for node in &nodes {
        node.refresh_catalog().expect("it reads");
        assert_eq!(node.databases().list().len(), 30);
    }
}

#[test]
fn a_container_that_was_deleted_and_made_again_is_the_new_one_everywhere() {
    let nodes = Nodes::with_people(&shared_store(), "").0;
    for round in 0..6 {
        let [a, b, c] = [round, round + 1, round + 2].map(|at| &nodes[at % 3]);
        a.containers().delete(&name("d"), &name("people"), &none()).expect("a delete");
        a.containers().create(&name("d"), &json(&people("")), &manual(None)).expect("another");
        // Who has the old one in memory finds out that it is gone, and never answers from it.
        assert_eq!(get(b, "p", "first"), Err(Error::OwnerNotFound));
        assert_eq!(get(b, "p", "first"), Err(Error::NotFound));
        assert_eq!(put(c, "p", "first"), Err(Error::OwnerNotFound));
        put(c, "p", "first").expect("it is written to the new one");
        get(b, "p", "first").expect("it was written");
    }
}

#[test]
fn an_index_is_not_relied_on_that_another_engine_has_given_up() {
    let nodes = Nodes::with_people(&shared_store(), "").0;
    let without =
        r#","indexingPolicy":{"includedPaths":[{"path":"/b/?"}],"excludedPaths":[{"path":"/*"}]}"#;
    for round in 0..6 {
        let [a, b, c] = [round, round + 1, round + 2].map(|at| &nodes[at % 3]);
        assert_eq!(count(b, "c.a = 1"), Ok(1 + round));
        replace(a, if round % 2 == 0 { without } else { "" }).expect("a policy");
        put(c, "p", &format!("{round}")).expect("an item");
        assert_eq!(count(b, "c.a = 1"), Ok(2 + round), "round {round}");
        a.background().run_tasks(&|| false).expect("the index is built");
    }
    for node in &nodes {
        check_sound(node, "policies");
    }
}

#[test]
fn a_time_to_live_that_was_switched_off_removes_nothing_on_any_engine() {
    let clocks = |n: u64| Arc::new(orrery_types::ManualClock::at_s(crate::world::START_S + n));
    let store = shared_store();
    Nodes::with_people(&store, r#","defaultTtl":5"#);
    let late: Arc<dyn orrery_types::Clock> = clocks(60);
    let sweeper = Engine::open(store.clone(), late, 7).expect("it opens");
    assert_eq!(get(&sweeper, "p", "first"), Err(Error::NotFound), "it has expired there");
    let other = open_node(store);
    replace(&other, "").expect("no time to live");
    sweeper.background().run_tasks(&|| false).expect("it sweeps");
    get(&sweeper, "p", "first").expect("it is there for good");
    get(&other, "p", "first").expect("it is there for good");
}

#[test]
fn what_one_engine_erases_is_gone_on_every_other() {
    let nodes = Nodes::with_people(&shared_store(), "").0;
    for round in 0..9 {
        let [a, b, c] = [round, round + 1, round + 2].map(|at| &nodes[at % 3]);
        put(a, "p", "second").expect("an item");
        put(a, "q", "kept").expect("an item");
        assert_eq!(count(c, "c.p = 'p'"), Ok(2));
        erase(a, "p").expect("an erasure");
        assert_eq!(get(b, "p", "first"), Err(Error::NotFound));
        assert_eq!(count(c, "c.p = 'p'"), Ok(0));
        create(b, "p", "first").expect("its id is free");
        get(c, "p", "first").expect("it was made after the erasure");
        assert_eq!(create(a, "p", "first"), Err(Error::AlreadyExists));
        if round % 3 == 2 {
            nodes[round % 2].background().run_tasks(&|| false).expect("it is done");
        }
        assert_eq!(count(a, "c.p = 'p'"), Ok(1));
    }
    for node in &nodes {
        check_sound(node, "erasures");
    }
}

/// A replacement that was prepared before the erasure of another engine, and is committed after it.
fn replaced_after_erasure(without: Option<Without>) -> Result<()> {
    let (first, second, meanwhile) = two(without, "");
    let found = container(&second).expect("it");
    meanwhile.arm(move || erase(&first, "p").expect("an erasure"));
    let text = br#"{"id":"first","p":"p","a":2}"#;
    let replaced =
        second.items().replace(&found, Some(&pk("p")), &name("first"), text, &none()).map(drop);
    assert!(meanwhile.has_happened());
    replaced
}

#[test]
fn an_item_does_not_come_back_that_another_engine_erases_during_its_replacement() {
    assert_eq!(replaced_after_erasure(None), Err(Error::NotFound));
    assert_eq!(replaced_after_erasure(Some(Without::ErasureKeys)), Ok(()), "the test shows it");
}

#[test]
fn an_erasure_is_unseen_where_heads_say_nothing_of_it() {
    let (first, second, _) = two(Some(Without::Control), "");
    erase(&first, "p").expect("an erasure");
    assert_eq!(get(&second, "p", "first"), Ok(()), "the test shows it");
    let (first, second, _) = two(None, "");
    erase(&first, "p").expect("an erasure");
    assert_eq!(get(&second, "p", "first"), Err(Error::NotFound));
}

/// Writes of an item that goes on during an erasure are before it or after it.
#[test]
fn an_erasure_takes_what_another_engine_wrote_before_it() {
    let (first, second, meanwhile) = two(None, "");
    meanwhile.arm(move || put(&first, "p", "late").expect("an item"));
    erase(&second, "p").expect("an erasure");
    assert!(meanwhile.has_happened());
    assert_eq!(count(&second, "c.p = 'p'"), Ok(0), "it was written before the erasure");
}

/// A write that was prepared under an index that another engine gives up before the commit.
fn written_under_an_old_policy(without: Option<Without>) -> usize {
    let (first, second, meanwhile) = two(without, "");
    let other = first.clone();
    meanwhile.arm(move || {
        let policy = r#"{"includedPaths":[{"path":"/b/?"}],"excludedPaths":[{"path":"/*"}]}"#;
        replace(&other, &format!(r#","indexingPolicy":{policy}"#)).expect("a policy");
        other.background().run_tasks(&|| false).expect("the index is built");
    });
    put(&second, "p", "second").expect("an item");
    assert!(meanwhile.has_happened());
    let found = container(&first).expect("it");
    first.insight().verify(&found).expect("it is verified").len()
}

#[test]
fn no_write_lands_under_a_definition_that_another_engine_has_replaced() {
    assert_eq!(written_under_an_old_policy(None), 0);
    assert!(written_under_an_old_policy(Some(Without::Epochs)) > 0, "the test shows it");
}

/// A transaction that counts a logical partition and adds an item if there is one, while another engine adds one.
fn items_after_a_phantom(without: Option<Without>) -> usize {
    let (first, second, meanwhile) = two(without, "");
    let found = container(&second).expect("it");
    meanwhile.arm(move || put(&first, "p", "phantom").expect("an item"));
    let added = second.transactions().transact(&found, &pk("p"), &mut |transaction| {
        let page = transaction.read_items(PageSize { items: 100 }, None)?;
        if page.items.len() == 1 {
            transaction.create(br#"{"id":"only","p":"p"}"#)?;
        }
        Ok(())
    });
    added.expect("a transaction");
    assert!(meanwhile.has_happened());
    count(&second, "c.p = 'p'").expect("a count")
}

#[test]
fn a_transaction_that_reads_a_range_sees_what_another_engine_adds_to_it() {
    assert_eq!(items_after_a_phantom(None), 2);
    assert_eq!(items_after_a_phantom(Some(Without::Stripes)), 3, "the test shows it");
}

/// A container is made in a database that another engine deletes before the commit; with the shards that are open
/// then.
fn made_in_a_deleted_database(without: Option<Without>) -> (Result<()>, usize) {
    let store = shared_store();
    let (first, second, meanwhile) = two_over(store.clone(), without, "");
    meanwhile.arm(move || first.databases().delete(&name("d"), &none()).expect("a delete"));
    // Its numbers are taken before.
    meanwhile.skip(1);
    let body = json(r#"{"id":"more","partitionKey":{"paths":["/p"]}}"#);
    let made = second.containers().create(&name("d"), &body, &manual(None)).map(drop);
    assert!(meanwhile.has_happened());
    let shards = store.shards().expect("a list");
    let is_open = |head: &Head| head.state == ShardState::Open;
    (made, shards.iter().filter(|(_, head)| is_open(head)).count())
}

#[test]
fn no_container_is_made_in_a_database_that_another_engine_deletes() {
    // The shard of the catalog is left.
    assert_eq!(made_in_a_deleted_database(None), (Err(Error::OwnerNotFound), 1));
    let without = made_in_a_deleted_database(Some(Without::CatalogHead));
    assert_eq!(without, (Ok(()), 2), "the test shows it");
}

/// The container that a model is about is deleted by another engine before the commit.
#[test]
fn no_model_names_a_container_that_another_engine_deletes() {
    let (first, second, meanwhile) = two(None, "");
    let other = first.clone();
    meanwhile.arm(move || {
        other.containers().delete(&name("d"), &name("people"), &none()).expect("a delete");
    });
    let model = json(r#"{"version":1,"types":{"person":{"container":"people"}}}"#);
    let stored = second.models().store(&name("d"), &model, &none()).map(drop);
    assert!(meanwhile.has_happened());
    assert!(matches!(stored, Err(Error::Invalid(_))), "{stored:?}");
    assert!(matches!(first.models().read(&name("d")), Err(Error::NotFound)));
}

#[test]
fn a_container_that_a_model_names_is_not_deleted_by_another_engine() {
    let (first, second, meanwhile) = two(None, "");
    let model = r#"{"version":1,"types":{"person":{"container":"people"}}}"#;
    meanwhile.arm(move || {
        first.models().store(&name("d"), &json(model), &none()).expect("a model");
    });
    let deleted = second.containers().delete(&name("d"), &name("people"), &none());
    assert!(meanwhile.has_happened());
    assert!(matches!(deleted, Err(Error::Invalid(_))), "{deleted:?}");
    put(&second, "p", "first").expect("the container is there");
}

#[test]
fn of_two_engines_that_create_one_name_one_is_refused() {
    let (first, second, meanwhile) = two(None, "");
    let create = |engine: &Engine| {
        engine.databases().create(&json(r#"{"id":"same"}"#), &manual(None)).map(drop)
    };
    meanwhile.arm(move || create(&first).expect("it is first"));
    assert_eq!(create(&second), Err(Error::AlreadyExists));
    let (first, second, meanwhile) = two(None, "");
    let create = |engine: &Engine| {
        let body = json(r#"{"id":"same","partitionKey":{"paths":["/p"]}}"#);
        engine.containers().create(&name("d"), &body, &manual(None)).map(drop)
    };
    meanwhile.arm(move || create(&first).expect("it is first"));
    assert_eq!(create(&second), Err(Error::AlreadyExists));
}

#[test]
fn a_condition_on_the_etag_of_a_container_holds_at_the_commit() {
    let (first, second, meanwhile) = two(None, "");
    let etag = container(&second).expect("it").stamp.etag.to_string();
    let conditions = Preconditions { if_match: Some(etag.into()), ..none() };
    meanwhile.arm(move || replace(&first, r#","defaultTtl":50"#).expect("a replacement"));
    let body = json(&people(r#","defaultTtl":60"#));
    let replaced = second.containers().replace(&name("d"), &name("people"), &body, &conditions);
    assert_eq!(replaced.map(drop), Err(Error::PreconditionFailed));
    assert_eq!(container(&second).expect("it").definition.default_ttl, Some(50));
}

#[test]
fn of_two_models_at_once_the_later_takes_the_place_of_the_earlier() {
    let (first, second, meanwhile) = two(None, "");
    let other = first.clone();
    let model = |more: &str| {
        let text = r#"{"version":1,"types":{"person":{"container":"people"MORE}}}"#;
        json(&text.replace("MORE", more))
    };
    let schema = model(r#","schema":{"required":["a"]}"#);
    meanwhile.arm(move || {
        other.models().store(&name("d"), &schema, &none()).expect("a model");
    });
    second.models().store(&name("d"), &model(""), &none()).expect("another model");
    assert!(meanwhile.has_happened());
    for node in [&first, &second] {
        let (found, none) = (container(node).expect("it"), none());
        let text = br#"{"id":"x","p":"p"}"#;
        node.items().upsert(&found, None, text, &none).expect("no property is required");
    }
}

#[test]
fn a_request_goes_on_that_began_before_its_process_has_loaded_a_change() {
    let (first, second, _) = two(None, "");
    let found = container(&second).expect("it");
    replace(&first, r#","defaultTtl":50"#).expect("a replacement");
    get(&second, "p", "first").expect("another request has loaded it");
    let text = br#"{"id":"first","p":"p"}"#;
    second.items().upsert(&found, None, text, &none()).expect("it is written");
    second.items().read(&found, Some(&pk("p")), &name("first")).expect("it is read");
}

/// Writers under a model that another engine has put in the place of theirs keep the new one.
#[test]
fn every_engine_keeps_the_model_that_another_one_has_stored() {
    let nodes = Nodes::with_people(&shared_store(), "").0;
    let model = json(
        r#"{"version":1,"types":{"person":{"container":"people","schema":{"required":["b"]}}}}"#,
    );
    for round in 0..6 {
        let [a, b, c] = [round, round + 1, round + 2].map(|at| &nodes[at % 3]);
        a.models().store(&name("d"), &model, &none()).expect("a model");
        assert!(matches!(put(b, "p", "x"), Err(Error::ModelViolated(_))), "round {round}");
        c.models().delete(&name("d"), &none()).expect("it goes");
        put(b, "p", "x").expect("nothing is required");
        put(a, "p", "x").expect("nothing is required");
    }
}

#[test]
fn no_two_engines_give_the_same_row_number_or_etag() {
    let nodes = Nodes::with_people(&shared_store(), "").0;
    let (rids, etags) = std::thread::scope(|threads| {
        let workers: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(number, node)| {
                threads.spawn(move || {
                    let (mut rids, mut etags) = (vec![], vec![]);
                    for n in 0..200 {
                        let (p, id) = (format!("{}", n % 7), format!("{number}-{n}"));
                        create(node, &p, &id).expect("an item");
                        let found = container(node).expect("it");
                        let read = node.items().read(&found, Some(&pk(&p)), &name(&id));
                        let body = Value::parse(&read.expect("it").body).expect("JSON");
                        rids.push(body.get("_rid").to_json());
                        etags.push(body.get("_etag").to_json());
                    }
                    (rids, etags)
                })
            })
            .collect();
        let all = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        all.fold((vec![], vec![]), |(mut rids, mut etags), (more, others)| {
            rids.extend(more);
            etags.extend(others);
            (rids, etags)
        })
    });
    assert_eq!(rids.iter().collect::<HashSet<_>>().len(), 600);
    assert_eq!(etags.iter().collect::<HashSet<_>>().len(), 600);
    for node in &nodes {
        check_sound(node, "creates");
    }
}

#[test]
fn a_role_that_one_engine_gives_or_takes_is_so_on_every_other() {
    let nodes = Nodes::over(&shared_store()).0;
    let id = "11111111-1111-1111-1111-111111111111";
    let body = json(
        r#"{"roleName":"r","assignableScopes":["/"],"permissions":[{"dataActions":
        ["Microsoft.DocumentDB/databaseAccounts/readMetadata"]}]}"#,
    );
    nodes[0].roles().store_definition(id, &body, &none()).expect("a role");
    nodes[1].refresh_catalog().expect("it reads");
    nodes[1].roles().read_definition(id).expect("it is there");
    nodes[2].roles().delete_definition(id, &none()).expect("it is deleted");
    nodes[1].refresh_catalog().expect("it reads");
    assert_eq!(nodes[1].roles().read_definition(id).map(drop), Err(Error::NotFound));
}
