//! A parent with more children than one commit may change. What may follow later follows in bounded
//! steps, across restarts; what may not is refused with what to declare.

use std::cell::Cell;

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::operation::ItemBody;
use orrery_engine::item::read::Written;
use orrery_engine::transaction::bulk_load::{Existing, Loaded};
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use crate::world::{World, json, name};

const CHILDREN: usize = limits::MODEL_ITEMS_MAX + 1;

/// Where the children of the parent lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// All in the logical partition of the parent.
    OwnPartition,
    /// Two thirds there, the others in other logical partitions, over several physical ones.
    Several,
}

struct Family {
    world: World,
    layout: Layout,
    children: usize,
}

impl Family {
    /// A parent `o` with its children under a relation with these properties.
    fn new(layout: Layout, relation: &str, children: usize) -> Self {
        let mut world = World::memory();
        world.database();
        let body = r#"{"id":"shop","partitionKey":{"paths":["/tenant"],"kind":"Hash"},
            "indexingPolicy":{"includedPaths":[{"path":"/day/?"}],"excludedPaths":[{"path":"/*"}]}}"#;
        world.create_container(body, (layout == Layout::Several).then_some(25_000));
        // A key that stands in the parent's own place makes it a relation within a partition.
        let tenant = if layout == Layout::OwnPartition { "tenant" } else { "orderTenant" };
        let model = format!(
            r#"{{"version":1,"types":{{"order":{{"container":"shop","where":"c.type = 'order'"}},
              "line":{{"container":"shop","where":"c.type = 'line'"}}}},
              "relations":[{{"name":"order","from":"line","path":"/orderId","to":"order",
                "partitionKey":["/{tenant}"],"copies":{{"day":"t.day"}},{relation}}}]}}"#
        );
        let none = Preconditions::default();
        world.engine().models().store(&name("d"), &json(&model), &none).expect("a model");
        let family = Self { world, layout, children };
        family.put_order(1).expect("an order");
        let bodies: Vec<String> = (0..children).map(|n| family.line(n)).collect();
        for bodies in bodies.chunks(2000) {
            family.load(bodies);
        }
        family
    }

    fn tenant(&self, n: usize) -> String {
        match self.layout {
            Layout::Several if n % 3 == 2 => format!("t{}", n % 100),
            Layout::OwnPartition | Layout::Several => "t".to_owned(),
        }
    }

    fn line(&self, n: usize) -> String {
        let tenant = self.tenant(n);
        format!(
            r#"{{"id":"l{n}","tenant":"{tenant}","orderTenant":"t","type":"line","orderId":"o"}}"#
        )
    }

    fn load(&self, texts: &[String]) {
        let shop = self.world.container("shop");
        let parse = |text: &String| ItemBody::parse(&shop, text.as_bytes()).expect("an item");
        let bodies = texts.iter().map(parse).collect();
        let done = self.world.engine().transactions().load_items(&shop, bodies, Existing::Refuse);
        assert!(done.expect("it loads").iter().all(|loaded| *loaded == Ok(Loaded::Created)));
    }

    fn put_order(&self, day: usize) -> Result<Written> {
        let text = format!(r#"{{"id":"o","tenant":"t","type":"order","day":{day}}}"#);
        let shop = self.world.container("shop");
        let none = Preconditions::default();
        self.world.engine().items().upsert(&shop, None, text.as_bytes(), &none)
    }

    fn delete_order(&self) -> Result<Written> {
        let shop = self.world.container("shop");
        let none = Preconditions::default();
        self.world.engine().items().delete(&shop, Some(&key("t")), &name("o"), &none)
    }

    /// A property of a child; `None` if it is gone.
    fn child(&self, n: usize, property: &str) -> Option<String> {
        let shop = self.world.container("shop");
        let tenant = key(&self.tenant(n));
        let item = self.world.engine().items().read(&shop, Some(&tenant), &name(&format!("l{n}")));
        let item = Value::parse(&item.ok()?.body).expect("JSON");
        Some(item.get(property).to_json())
    }

    /// How many children have a value.
    fn count(&self, property: &str, value: &str) -> usize {
        let has = |n: &usize| self.child(*n, property).as_deref() == Some(value);
        (0..self.children).filter(has).count()
    }

    fn left(&self) -> usize {
        (0..self.children).filter(|n| self.child(*n, "id").is_some()).count()
    }

    /// Lets a part of what is to follow do so, and then opens the store anew.
    fn follow_some_and_reopen(&mut self) {
        let steps = Cell::new(0);
        let stop = || {
            steps.set(steps.get() + 1);
            steps.get() > 3
        };
        self.world.engine().deferred_effects().propagate(&stop).expect("it follows");
        self.world.reopen();
    }

    #[track_caller]
    fn check(&self) {
        assert_eq!(self.world.engine().model_verification().verify(&name("d")), Ok(vec![]));
        assert_eq!(self.world.engine().models().lag_ms(), Ok(0), "nothing is left to follow");
        let faults = self.world.engine().insight().verify(&self.world.container("shop"));
        assert_eq!(faults, Ok(vec![]));
    }
}

fn key(tenant: &str) -> PartitionKey {
    PartitionKey::parse_header(&format!("[\"{tenant}\"]")).expect("a key")
}

/// The parent changes and goes; the children follow in steps, with a restart within each.
fn changes_and_goes(layout: Layout, relation: &str, cascades: bool) {
    let mut family = Family::new(layout, relation, CHILDREN);
    let written = family.put_order(2).expect("it changes");
    assert!(written.charge < 50.0, "{} RU for what follows later", written.charge);
    assert_eq!(family.count("day", "2"), 0, "they follow later");
    family.follow_some_and_reopen();
    let followed = family.count("day", "2");
    assert!(followed > 0 && followed < CHILDREN, "{followed} have followed");
    family.world.run_tasks();
    assert_eq!(family.count("day", "2"), CHILDREN);
    family.check();
    let written = family.delete_order().expect("it goes");
    assert!(written.charge < 50.0, "{} RU for what follows later", written.charge);
    family.follow_some_and_reopen();
    let touched = |family: &Family| {
        if cascades { CHILDREN - family.left() } else { family.count("orderId", "") }
    };
    let some = touched(&family);
    assert!(some > 0 && some < CHILDREN, "{some} have followed");
    family.world.run_tasks();
    assert_eq!(touched(&family), CHILDREN);
    assert_eq!(family.left(), if cascades { 0 } else { CHILDREN });
    family.check();
}

#[test]
fn children_in_the_parents_partition_follow_a_cascade_in_steps() {
    changes_and_goes(Layout::OwnPartition, r#""onDelete":"cascade","propagate":"async""#, true);
}

#[test]
fn children_in_the_parents_partition_lose_their_reference_in_steps() {
    let relation = r#""onDelete":"unset","propagate":"sync","onOverflow":"async""#;
    changes_and_goes(Layout::OwnPartition, relation, false);
}

#[test]
fn children_in_several_partitions_follow_a_cascade_in_steps() {
    let relation = r#""onDelete":"cascade","propagate":"sync","onOverflow":"async""#;
    changes_and_goes(Layout::Several, relation, true);
}

#[test]
fn children_in_several_partitions_lose_their_reference_in_steps() {
    changes_and_goes(Layout::Several, r#""onDelete":"unset""#, false);
}

#[test]
fn more_children_than_a_commit_may_change_are_refused_where_they_may_not_follow_later() {
    let relation = r#""onDelete":"cascade","propagate":"sync""#;
    let family = Family::new(Layout::OwnPartition, relation, CHILDREN);
    for refused in [family.put_order(2), family.delete_order()] {
        let Err(Error::ModelViolated(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("10000") && text.contains(r#""onOverflow":"async""#), "{text}");
    }
    assert_eq!(family.count("day", "1"), CHILDREN, "nothing was written");
    family.check();
    let relation = r#""onDelete":"restrict","propagate":"sync""#;
    let family = Family::new(Layout::OwnPartition, relation, CHILDREN);
    let refused = family.delete_order();
    assert!(matches!(refused, Err(Error::StillReferenced(_))), "{refused:?}");
}

#[test]
fn few_children_beside_their_parent_change_in_its_commit_and_many_do_not() {
    let relation = r#""onDelete":"cascade","propagate":"async""#;
    // The commit has the parent too.
    let most = limits::MODEL_EFFECTS_BESIDE_MAX - 1;
    let family = Family::new(Layout::OwnPartition, relation, most);
    family.put_order(2).expect("it changes");
    assert_eq!(family.count("day", "2"), most, "at the limit they are in the commit");
    let mut family = Family::new(Layout::OwnPartition, relation, most + 1);
    family.put_order(2).expect("it changes");
    assert_eq!(family.count("day", "2"), 0, "past it all of them follow later");
    family.world.run_tasks();
    assert_eq!(family.count("day", "2"), most + 1);
    family.delete_order().expect("it goes");
    family.world.run_tasks();
    assert_eq!(family.left(), 0);
    family.check();
}
