//! Random operations against a model that is a map: on memory, on disk, and on a store whose
//! commits and reads fail now and then. `ORRERY_SEED` repeats a run, `ORRERY_STEPS` lengthens it.
//!
//! Every write carries a number of its own, so that after an answer was lost a look at the item
//! tells whether the write happened; whatever was acknowledged must have.

use std::collections::BTreeMap;
use std::mem::discriminant;

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::item::read::{Outcome, Written};
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_types::ids::Address;
use orrery_types::{Clock as _, Error, PartitionKey, Result, Value};

use crate::random::Random;
use crate::world::{World, json, name};

const CONTAINERS: [(&str, Option<i64>); 2] = [("one", None), ("three", Some(18_000))];
/// Partition keys as headers spell them.
const KEYS: [&str; 6] = [r#"["a"]"#, r#"["b"]"#, "[7]", "[null]", "[{}]", "[true]"];
const IDS: [&str; 6] = ["0", "1", "2", "3", "é\u{1f600}", "?#%20 x"];
/// Beyond so many they are merged.
const PARTITIONS_MAX: usize = 6;
const TTLS: [Option<i64>; 4] = [None, None, Some(-1), Some(3)];
const DEFAULTS: [Option<i64>; 4] = [None, Some(-1), Some(4), Some(9)];
/// What is indexed; the last goes with no time to live.
const POLICIES: [&str; 4] = [
    "{}",
    r#"{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}"#,
    r#"{"excludedPaths":[{"path":"/l/[]/?"}],"compositeIndexes":[[{"path":"/u"},{"path":"/o/v","order":"descending"}]]}"#,
    r#"{"indexingMode":"none"}"#,
];

#[test]
fn operations_on_memory_agree_with_the_model() {
    Run::new(World::memory(), Random::from_environment("model on memory")).run(4000);
}

#[test]
fn operations_on_three_nodes_agree_with_the_model() {
    Run::new(World::several(3), Random::from_environment("model on three nodes")).run(1500);
}

#[test]
fn operations_on_disk_agree_with_the_model() {
    Run::new(World::rocks(), Random::from_environment("model on disk")).run(1000);
}

#[test]
fn what_a_failing_store_acknowledged_agrees_with_the_model() {
    let mut random = Random::from_environment("model on a failing store");
    Run::new(World::faulty(random.next()), random).run(3000);
}

/// An item as the model knows it.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    /// The number of the write that made it so.
    n: i64,
    /// Its two unique keys; `u` may be absent, which is null.
    u: Option<i64>,
    v: i64,
    ttl: Option<i64>,
    ts: u64,
    etag: String,
}

impl Item {
    fn is_expired(&self, default: Option<i64>, now_s: u64) -> bool {
        let ttl = default.map(|default| self.ttl.unwrap_or(default));
        ttl.is_some_and(|ttl| ttl >= 0 && self.ts + ttl.unsigned_abs() <= now_s)
    }

    fn clashes(&self, other: &Self) -> bool {
        self.u == other.u || self.v == other.v
    }

    fn text(&self, place: Place) -> String {
        let property = |name: &str, value: String| format!(r#""{name}":{value}"#);
        let number = |name: &str, n: Option<i64>| n.map(|n| property(name, n.to_string()));
        let key = KEYS[place.key].trim_matches(['[', ']']);
        let properties = [
            Some(property("id", format!(r#""{}""#, place.id))),
            number("n", Some(self.n)),
            number("v", Some(self.v)),
            (key != "{}").then(|| property("p", key.to_owned())),
            number("u", self.u),
            number("ttl", self.ttl),
            Some(property("o", format!(r#"{{"v":{},"w":[]}}"#, self.v % 3))),
            Some(property("l", format!(r#"[{0},{0},"{1}"]"#, self.n % 5, self.v))),
            // What a client sends under the names of the server must not count.
            number("_ts", Some(1)),
        ];
        let properties: Vec<String> = properties.into_iter().flatten().collect();
        format!("{{{}}}", properties.join(","))
    }

    fn read(body: &[u8]) -> Self {
        let body = Value::parse(body).expect("stored JSON");
        let number = |name: &str| body.get(name).as_i64();
        Self {
            n: number("n").expect("a number"),
            u: number("u"),
            v: number("v").expect("a number"),
            ttl: number("ttl"),
            ts: number("_ts").expect("a time").unsigned_abs(),
            etag: body.get("_etag").as_str().expect("an etag").to_owned(),
        }
    }
}

/// An item's key: container, partition key, id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    container: usize,
    key: usize,
    id: &'static str,
}

impl Place {
    fn partition_key(self) -> PartitionKey {
        PartitionKey::parse_header(KEYS[self.key]).expect("a key")
    }
}

#[derive(Clone, Debug)]
enum Change {
    Create(Item),
    Upsert(Item),
    Replace(Item),
    /// Replaces, and gives the item another id.
    Rename(Item, &'static str),
    /// Sets `n`, and `u` or `ttl` as the item says.
    Patch(Item),
    Delete,
}

impl Change {
    fn item(&self) -> Option<&Item> {
        match self {
            Self::Create(item)
            | Self::Upsert(item)
            | Self::Replace(item)
            | Self::Rename(item, _)
            | Self::Patch(item) => Some(item),
            Self::Delete => None,
        }
    }

    /// Where the item stands afterwards.
    fn target(&self, at: Place) -> Place {
        match self {
            Self::Rename(_, id) => Place { id, ..at },
            _ => at,
        }
    }

    fn run(&self, engine: &Engine, world: &World, at: Place, if_match: &Preconditions) -> Done {
        let container = world.container(CONTAINERS[at.container].0);
        let (key, address) = (at.partition_key(), name(at.id));
        let key = Some(&key);
        let text = self.item().map(|item| item.text(self.target(at))).unwrap_or_default();
        match self {
            Self::Create(_) => engine.items().create(&container, key, text.as_bytes()),
            Self::Upsert(_) => engine.items().upsert(&container, key, text.as_bytes(), if_match),
            Self::Replace(_) | Self::Rename(..) => {
                engine.items().replace(&container, key, &address, text.as_bytes(), if_match)
            }
            Self::Patch(item) => {
                let patch = Patch::parse(&json(&patch_text(item))).expect("a patch");
                engine.items().patch(&container, key, &address, &patch, if_match)
            }
            Self::Delete => engine.items().delete(&container, key, &address, if_match),
        }
    }
}

type Done = Result<Written>;

fn patch_text(item: &Item) -> String {
    let mut operations = vec![format!(r#"{{"op":"set","path":"/n","value":{}}}"#, item.n)];
    if let Some(u) = item.u {
        operations.push(format!(r#"{{"op":"set","path":"/u","value":{u}}}"#));
    }
    if let Some(ttl) = item.ttl {
        operations.push(format!(r#"{{"op":"add","path":"/ttl","value":{ttl}}}"#));
    }
    format!(r#"{{"operations":[{}]}}"#, operations.join(","))
}

struct Run {
    world: World,
    random: Random,
    /// Everything stored, expired items too until they are removed.
    items: BTreeMap<Place, Item>,
    defaults: [Option<i64>; 2],
    writes: i64,
    acknowledged: usize,
    unknown: usize,
}

impl Run {
    fn new(mut world: World, random: Random) -> Self {
        world.database();
        for (id, throughput) in CONTAINERS {
            world.create_container(&definition(id, None, POLICIES[0]), throughput);
        }
        let items = BTreeMap::new();
        Self { world, random, items, defaults: [None; 2], writes: 0, acknowledged: 0, unknown: 0 }
    }

    fn run(mut self, steps: usize) {
        let steps = std::env::var("ORRERY_STEPS")
            .map_or(steps, |text| text.parse().expect("ORRERY_STEPS is a number"));
        for _ in 0..steps {
            self.step();
        }
        for container in 0..CONTAINERS.len() {
            self.check_feed(container);
        }
        self.world.reopen();
        self.world.run_tasks();
        for (id, _) in CONTAINERS {
            let faults = self.world.insist(|engine| {
                let container = engine.containers().read(&name("d"), &name(id))?;
                engine.insight().verify(&container)
            });
            assert!(faults.is_empty(), "{id}: {faults:#?}");
        }
        let (acknowledged, unknown) = (self.acknowledged, self.unknown);
        eprintln!("{acknowledged} acknowledged writes, {unknown} of unknown outcome");
        assert!(acknowledged > steps / 10, "most operations should do something");
    }

    fn step(&mut self) {
        self.world.turn();
        let container = self.random.below(CONTAINERS.len());
        match self.random.below(100) {
            0..70 => self.change(container),
            70..80 => self.check_read(container),
            80..88 => self.world.clock.advance_s(self.random.next() % 3),
            88..91 => self.sweep(),
            91..93 => self.change_default(container),
            93 => self.world.reopen(),
            94 => self.change_layout(container),
            _ => self.check_feed(container),
        }
    }

    /// Splits or merges partitions; where the store fails, some that were asked for once are there
    /// twice.
    fn change_layout(&mut self, container: usize) {
        let (id, merges) = (CONTAINERS[container].0, self.random.one_in(2));
        self.world.insist(|engine| {
            // Another node may have changed the layout.
            engine.refresh_catalog()?;
            let found = engine.containers().read(&name("d"), &name(id))?;
            match found.partitions.len() {
                count if count > 1 && (merges || count >= PARTITIONS_MAX) => {
                    engine.layouts().merge_partitions(&name("d"), &name(id), None).map(drop)
                }
                _ => engine.layouts().split_partition(&name("d"), &name(id), None, None).map(drop),
            }
        });
    }

    fn place(&mut self, container: usize) -> Place {
        let (key, id) = (self.random.below(KEYS.len()), IDS[self.random.below(IDS.len())]);
        Place { container, key, id }
    }

    fn is_expired(&self, at: Place, item: &Item) -> bool {
        item.is_expired(self.defaults[at.container], self.world.clock.now_s())
    }

    fn visible(&self, at: Place) -> Option<&Item> {
        self.items.get(&at).filter(|item| !self.is_expired(at, item))
    }

    fn random_change(&mut self) -> Change {
        self.writes += 1;
        let u = i64::try_from(self.random.below(9)).expect("small");
        let item = Item {
            n: self.writes,
            u: Some(u).filter(|u| *u > 0),
            v: i64::try_from(self.random.below(12)).expect("small"),
            ttl: TTLS[self.random.below(TTLS.len())],
            ts: 0,
            etag: String::new(),
        };
        match self.random.below(10) {
            0..4 => Change::Create(item),
            4..6 => Change::Upsert(item),
            6 => Change::Replace(item),
            7 => match IDS[self.random.below(IDS.len())] {
                id if self.random.one_in(2) => Change::Rename(item, id),
                _ => Change::Replace(item),
            },
            8 => Change::Patch(item),
            _ => Change::Delete,
        }
    }

    /// A condition: none, the right etag, or a stale one.
    fn condition(&mut self, current: Option<&Item>) -> Preconditions {
        let stale = "\"00000000-0000-0000-0000-000000000000\"".to_owned();
        let if_match = match (self.random.below(6), current) {
            (0, Some(item)) => Some(item.etag.clone()),
            (1, _) => Some(stale),
            _ => None,
        };
        Preconditions { if_match: if_match.map(Into::into), ..Preconditions::default() }
    }

    fn change(&mut self, container: usize) {
        let at = self.place(container);
        let change = self.random_change();
        let before = self.visible(at).cloned();
        let condition = self.condition(before.as_ref());
        let expected = self.expect(at, &change, before.as_ref(), &condition);
        let done = change.run(self.world.engine(), &self.world, at, &condition);
        if self.world.is_faulty() && matches!(done, Err(Error::Unavailable(_) | Error::Internal(_)))
        {
            // What was to be refused must have left the item alone.
            let meant = expected.unwrap_or_else(|_| before.clone());
            return self.settle(at, change.target(at), before.as_ref(), meant.as_ref());
        }
        match (done, expected) {
            (Ok(written), Ok(after)) => {
                self.acknowledged += 1;
                let outcome = match (&before, &after) {
                    (_, None) => Outcome::Deleted,
                    (None, Some(_)) => Outcome::Created,
                    (Some(_), Some(_)) => Outcome::Replaced,
                };
                assert_eq!(written.outcome, outcome, "{at:?} {change:?}");
                let written = after.map(|after| (after, Item::read(&written.body)));
                self.items.remove(&at);
                self.adopt(change.target(at), written);
            }
            (Err(done), Err(expected)) => {
                assert_eq!(discriminant(&done), discriminant(&expected), "{at:?} {done}");
            }
            (done, expected) => panic!(
                "{at:?} {change:?} gave {:?}; expected {expected:?}",
                done.map(|written| written.outcome)
            ),
        }
    }

    /// Keeps what was written, after a look at whether it is what was meant.
    fn adopt(&mut self, at: Place, written: Option<(Item, Item)>) {
        let Some((meant, found)) = written else { return };
        let content = |item: &Item| (item.n, item.u, item.v, item.ttl);
        assert_eq!(content(&meant), content(&found), "{at:?}");
        assert_eq!(found.ts, self.world.clock.now_s());
        assert!(self.items.values().all(|item| item.etag != found.etag), "etags are unique");
        self.items.insert(at, found);
    }

    /// What a change should do: the item after it, or an error. Items that have expired and stand in
    /// the way of a unique key are removed on the way, in the model as in the engine.
    fn expect(
        &mut self,
        at: Place,
        change: &Change,
        before: Option<&Item>,
        condition: &Preconditions,
    ) -> Result<Option<Item>> {
        let needs_item = !matches!(change, Change::Create(_) | Change::Upsert(_));
        match before {
            None if needs_item => return Err(Error::NotFound),
            Some(_) if matches!(change, Change::Create(_)) => return Err(Error::AlreadyExists),
            Some(item) if condition.if_match.as_ref().is_some_and(|m| **m != *item.etag) => {
                return Err(Error::PreconditionFailed);
            }
            _ => {}
        }
        let after = match (change, before) {
            (Change::Delete, _) => return Ok(None),
            (Change::Patch(set), Some(before)) => {
                let mut after = Item { n: set.n, ..before.clone() };
                after.u = set.u.or(after.u);
                after.ttl = set.ttl.or(after.ttl);
                after
            }
            (change, _) => change.item().expect("a write has an item").clone(),
        };
        let to = change.target(at);
        if to != at && self.visible(to).is_some() {
            return Err(Error::AlreadyExists);
        }
        if to != at {
            self.items.remove(&to);
        }
        let others: Vec<(Place, Item)> = self
            .items
            .iter()
            .filter(|(other, _)| {
                (other.container, other.key) == (at.container, at.key) && other.id != at.id
            })
            .map(|(place, item)| (*place, item.clone()))
            .collect();
        // The engine asks for the keys in the order of the policy: a live holder of the first ends
        // the write before an expired holder of the second is removed.
        let holds: [fn(&Item, &Item) -> bool; 2] = [|a, b| a.u == b.u, |a, b| a.v == b.v];
        for holds in holds {
            let holder = others.iter().find(|(_, other)| holds(other, &after));
            let Some((place, holder)) = holder else { continue };
            // A key that the item itself keeps is not asked for again.
            if !self.is_expired(*place, holder) {
                return Err(Error::UniqueKeyViolation);
            }
            self.items.remove(place);
        }
        debug_assert!(
            !others
                .iter()
                .any(|(place, other)| { self.items.contains_key(place) && other.clashes(&after) })
        );
        Ok(Some(after))
    }

    /// After an answer that says nothing: the item is as before or as meant, and nothing else.
    fn settle(&mut self, at: Place, to: Place, before: Option<&Item>, meant: Option<&Item>) {
        self.unknown += 1;
        self.world.reopen();
        let found = self.look(at);
        if to != at {
            let renamed = self.look(to).filter(|item| Some(item.n) == meant.map(|m| m.n));
            if let Some(renamed) = renamed {
                assert_eq!(found, None, "{at:?} is there under both its ids");
                self.items.remove(&at);
                self.items.insert(to, renamed);
            } else {
                assert_eq!(found.as_ref(), before, "{at:?}");
            }
            return;
        }
        if let Some(found) = found {
            let known = [before, meant].into_iter().flatten().any(|item| item.n == found.n);
            assert!(known, "{at:?} is {found:?}, was {before:?}, should be {meant:?}");
            self.items.insert(at, found);
            return;
        }
        // Gone, or hidden and perhaps removed: the same to every reader until the default changes,
        // before which everything hidden is removed.
        let may_be_gone = before.is_none() || meant.is_none();
        assert!(may_be_gone, "{at:?} is gone, was {before:?}, should be {meant:?}");
        if self.visible(at).is_some() {
            self.items.remove(&at);
        }
    }

    /// The item that is there, however often the disk fails.
    fn look(&mut self, at: Place) -> Option<Item> {
        let id = CONTAINERS[at.container].0;
        self.world.insist(|engine| {
            let container = engine.containers().read(&name("d"), &name(id))?;
            match engine.items().read(&container, Some(&at.partition_key()), &name(at.id)) {
                Ok(read) => Ok(Some(Item::read(&read.body))),
                Err(Error::NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn check_read(&mut self, container: usize) {
        let at = self.place(container);
        let id = CONTAINERS[container].0;
        let read = |address: Address| {
            move |engine: &Engine| {
                let container = engine.containers().read(&name("d"), &name(id))?;
                match engine.items().read(&container, Some(&at.partition_key()), &address) {
                    Ok(read) => Ok(Some(read)),
                    Err(Error::NotFound) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let found = self.world.insist(read(name(at.id)));
        let item = found.as_ref().map(|found| Item::read(&found.body));
        assert_eq!(item.as_ref(), self.visible(at), "{at:?}");
        if let Some(found) = found {
            assert_eq!(found.stamp.etag.to_string(), item.expect("it was read").etag);
            let rid = Value::parse(&found.body).expect("JSON").get("_rid").clone();
            let rid = rid.as_str().expect("a rid").parse().expect("a rid");
            let again = self.world.insist(read(Address::Rid(rid)));
            assert_eq!(again.expect("by rid").body, found.body);
        }
    }

    /// Background work until it succeeds: what has expired is removed.
    fn sweep(&mut self) {
        self.world.run_tasks();
        let now_s = self.world.clock.now_s();
        let defaults = self.defaults;
        self.items.retain(|at, item| !item.is_expired(defaults[at.container], now_s));
    }

    fn change_default(&mut self, container: usize) {
        if self.world.is_faulty() || self.random.one_in(2) {
            self.sweep();
        }
        let default = DEFAULTS[self.random.below(DEFAULTS.len())];
        let id = CONTAINERS[container].0;
        let policies = if default.is_none() { POLICIES.len() } else { POLICIES.len() - 1 };
        let policy = POLICIES[self.random.below(policies)];
        let body = json(&definition(id, default, policy));
        self.world.insist(|engine| {
            let conditions = Preconditions::default();
            engine.containers().replace(&name("d"), &name(id), &body, &conditions)
        });
        self.defaults[container] = default;
    }

    /// Reads everything page by page: all of it, one logical partition, or partition by partition.
    fn check_feed(&mut self, container: usize) {
        let key = self.random.below(KEYS.len());
        let size = [Some(1), Some(3), Some(7), None, Some(-1)][self.random.below(5)];
        let whole = ScopeRequest::default();
        let (scopes, key) = match self.random.below(3) {
            0 => (vec![whole], None),
            1 => {
                let partition_key = PartitionKey::parse_header(KEYS[key]).ok();
                (vec![ScopeRequest { partition_key, ..whole }], Some(key))
            }
            _ => {
                let found = self.world.container(CONTAINERS[container].0);
                let range = |id: u32| Some(id.to_string().into());
                let scope = |id| ScopeRequest { range_id: range(id), ..ScopeRequest::default() };
                (found.partitions.iter().map(|p| scope(p.id)).collect(), None)
            }
        };
        let mut found = Vec::new();
        for scope in &scopes {
            found.extend(self.pages(container, scope, size));
        }
        let wanted = |at: &Place| at.container == container && key.is_none_or(|key| at.key == key);
        let items =
            self.items.iter().filter(|(at, item)| wanted(at) && !self.is_expired(**at, item));
        let mut expected: Vec<Item> = items.map(|(_, item)| item.clone()).collect();
        expected.sort_by_key(|item| item.n);
        found.sort_by_key(|item| item.n);
        assert_eq!(found, expected);
    }

    fn pages(&mut self, container: usize, scope: &ScopeRequest, size: Option<i64>) -> Vec<Item> {
        let id = CONTAINERS[container].0;
        let mut found = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let page = self.world.insist(|engine| {
                // A range that another node has made is looked for in the newest layout.
                engine.refresh_catalog()?;
                let container = engine.containers().read(&name("d"), &name(id))?;
                let scope = container.scope(scope)?;
                let size = PageSize::from_header(size)?;
                engine.queries().read_items(&container, &scope, size, continuation.as_deref())
            });
            if let Some(size) = size.filter(|size| *size > 0) {
                let count = page.items.len();
                assert!(count <= usize::try_from(size).expect("small"), "a page of {count}");
            }
            found.extend(page.items.iter().map(|body| Item::read(body)));
            continuation = page.continuation;
            if continuation.is_none() {
                return found;
            }
        }
    }
}

fn definition(id: &str, default_ttl: Option<i64>, policy: &str) -> String {
    let ttl = default_ttl.map_or(String::new(), |ttl| format!(r#","defaultTtl":{ttl}"#));
    format!(
        r#"{{"id":"{id}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}},
        "uniqueKeyPolicy":{{"uniqueKeys":[{{"paths":["/u"]}},{{"paths":["/v"]}}]}},
        "indexingPolicy":{policy}{ttl}}}"#
    )
}
