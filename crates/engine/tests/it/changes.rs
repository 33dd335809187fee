//! The change feed against a model: random writes, and readers of both kinds over random parts that
//! read a page now and then, while partitions split and merge. The model keeps a log of what happened to each item, in the order in
//! which it was acknowledged; what a reader sees must be what the log says of its part.

use std::collections::{BTreeMap, BTreeSet};

use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::change_feed::{ChangePage, ChangesRequest, Mode, Shape};
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_types::ids::Address;
use orrery_types::{Clock as _, Error, KeyRange, PartitionKey, Result, Value};

use crate::random::Random;
use crate::world::{World, json, name};

const KEYS: [&str; 6] = [r#"["a"]"#, r#"["b"]"#, r#"["c"]"#, "[7]", "[null]", "[true]"];
const IDS: [&str; 5] = ["0", "1", "2", "3", "4"];

#[test]
fn readers_see_what_happened_on_memory() {
    let random = Random::from_environment("changes on memory");
    Run::new(World::memory(), random, Layouts::Split).run(3000);
}

#[test]
fn readers_see_what_happened_while_partitions_merge() {
    let random = Random::from_environment("changes while partitions merge");
    Run::new(World::memory(), random, Layouts::SplitAndMerge).run(3000);
}

#[test]
fn readers_see_what_happened_on_disk() {
    let random = Random::from_environment("changes on disk");
    Run::new(World::rocks(), random, Layouts::SplitAndMerge).run(800);
}

/// How the layout changes. Without merges all changes of a partition come in the order in which they
/// happened; with them those of each logical partition do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layouts {
    Split,
    SplitAndMerge,
}

const PARTITIONS_MAX: usize = 7;

/// An item's key and id.
type Place = (usize, usize);

/// One change, as the log has it: of which item, what, and the number of the write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    place: Place,
    operation: &'static str,
    n: i64,
    expired: bool,
}

/// An item of the model.
#[derive(Clone, Debug)]
struct Item {
    n: i64,
    expires_s: Option<u64>,
    /// Rises with every item that is made; the sweeper goes by it.
    born: u64,
    /// Its key was erased after it was written.
    erased: bool,
}

struct Reader {
    mode: Mode,
    scope: ScopeRequest,
    /// The keys of its part.
    range: KeyRange,
    places: Vec<Place>,
    etag: Option<String>,
    /// How long the log was when it began.
    since: usize,
    seen: Vec<Event>,
    latest: BTreeMap<Place, i64>,
}

struct Run {
    world: World,
    random: Random,
    items: BTreeMap<Place, Item>,
    log: Vec<Event>,
    readers: Vec<Reader>,
    n: i64,
    born: u64,
    /// Keys that are being erased, in the order in which the engine goes about it.
    erasures: Vec<usize>,
    layouts: Layouts,
}

impl Run {
    fn new(mut world: World, random: Random, layouts: Layouts) -> Self {
        world.database();
        let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"version":2},"defaultTtl":-1,
            "changeFeedPolicy":{"retentionDuration":60}}"#;
        world.create_container(body, Some(18_000));
        let (items, log, readers) = (BTreeMap::new(), vec![], vec![]);
        Self { world, random, items, log, readers, n: 0, born: 0, erasures: vec![], layouts }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    fn run(mut self, steps: usize) {
        for _ in 0..steps {
            match self.below(100) {
                0..60 => self.write(),
                60..64 => self.delete(),
                64..67 => self.sweep(),
                67..70 => {
                    let s = self.below(3) as u64;
                    self.world.clock.advance_s(s);
                }
                70 => self.reopen(),
                71 => self.erase(),
                72..75 if self.readers.len() < 24 => self.add_reader(),
                75 => self.change_layout(),
                _ if !self.readers.is_empty() => {
                    let reader = self.below(self.readers.len());
                    self.read(reader);
                }
                _ => self.add_reader(),
            }
        }
        self.sweep();
        for reader in 0..self.readers.len() {
            while self.read(reader) {}
            self.check(reader);
        }
        let container = self.world.container("c");
        assert_eq!(self.world.engine().insight().verify(&container), Ok(vec![]));
    }

    fn now_s(&self) -> u64 {
        self.world.clock.now_s()
    }

    fn is_expired(&self, item: &Item) -> bool {
        item.expires_s.is_some_and(|at| at <= self.now_s())
    }

    fn is_hidden(&self, item: &Item) -> bool {
        item.erased || self.is_expired(item)
    }

    fn reopen(&mut self) {
        self.world.reopen();
        if self.world.is_several() {
            // Each of them goes by the order in which they were stored.
            return;
        }
        // A new process finds what is left to do in the order of keys.
        let container = self.world.container("c");
        let definition = &container.definition.partition_key;
        self.erasures.sort_by_key(|key| definition.effective(&key_of((*key, 0))));
    }

    fn change_layout(&mut self) {
        let partitions = self.world.container("c").partitions.len();
        let (database, container) = (name("d"), name("c"));
        let id = self.world.container("c").partitions[self.random.below(partitions)].id;
        let engine = self.world.engine();
        if self.layouts == Layouts::SplitAndMerge && partitions > 1 && self.random.one_in(2) {
            engine.layouts().merge_partitions(&database, &container, None).expect("a merge");
        } else if partitions < PARTITIONS_MAX {
            let id = id.to_string();
            engine
                .layouts()
                .split_partition(&database, &container, Some(&id), None)
                .expect("a split");
        }
    }

    fn erase(&mut self) {
        let key = self.below(KEYS.len());
        let container = self.world.container("c");
        let erased =
            self.world.engine().erasure().erase_partition_key(&container, &key_of((key, 0)));
        erased.expect("it is accepted");
        for (_, item) in self.items.iter_mut().filter(|(place, _)| place.0 == key) {
            item.erased = true;
        }
        self.erasures.retain(|erasing| *erasing != key);
        self.erasures.push(key);
    }

    fn note(&mut self, place: Place, operation: &'static str, n: i64, expired: bool) {
        self.log.push(Event { place, operation, n, expired });
    }

    fn write(&mut self) {
        let place = (self.below(KEYS.len()), self.below(IDS.len()));
        self.n += 1;
        let n = self.n;
        let ttl = (self.below(5) == 0).then_some(2_u64);
        let p = KEYS[place.0].trim_matches(['[', ']']);
        let ttl_text = ttl.map_or(String::new(), |ttl| format!(r#","ttl":{ttl}"#));
        let text = format!(r#"{{"id":"{}","p":{p},"n":{n}{ttl_text}}}"#, IDS[place.1]);
        let container = self.world.container("c");
        let none = Preconditions::default();
        let engine = self.world.engine();
        engine.items().upsert(&container, None, text.as_bytes(), &none).expect("an upsert");
        let expires_s = ttl.map(|ttl| self.now_s() + ttl);
        match self.items.get(&place).cloned() {
            Some(old) if !self.is_hidden(&old) => {
                self.note(place, "replace", n, false);
                self.items.insert(place, Item { n, expires_s, ..old });
                return;
            }
            Some(old) => self.note(place, "delete", old.n, self.is_expired(&old)),
            None => {}
        }
        self.note(place, "create", n, false);
        self.born += 1;
        self.items.insert(place, Item { n, expires_s, born: self.born, erased: false });
    }

    fn delete(&mut self) {
        let place = (self.below(KEYS.len()), self.below(IDS.len()));
        let container = self.world.container("c");
        let none = Preconditions::default();
        let (key, id) = (key_of(place), Address::Name(IDS[place.1].into()));
        let deleted = self.world.engine().items().delete(&container, Some(&key), &id, &none);
        match self.items.get(&place).cloned() {
            Some(item) if !self.is_hidden(&item) => {
                deleted.expect("it is there");
                self.items.remove(&place);
                self.note(place, "delete", item.n, false);
            }
            _ => assert_eq!(deleted.map(drop), Err(Error::NotFound)),
        }
    }

    fn sweep(&mut self) {
        self.world.run_tasks();
        for key in std::mem::take(&mut self.erasures) {
            let erased = self.items.iter().filter(|(place, item)| place.0 == key && item.erased);
            let erased: Vec<Place> = erased.map(|(place, _)| *place).collect();
            for place in erased {
                let item = self.items.remove(&place).expect("it was there");
                self.note(place, "delete", item.n, self.is_expired(&item));
            }
        }
        let container = self.world.container("c");
        let mut expired: Vec<(u32, u64, u64, Place)> = Vec::new();
        for (place, item) in &self.items {
            if self.is_expired(item) {
                let at = item.expires_s.expect("it expires");
                expired.push((partition_of(&container, *place), at, item.born, *place));
            }
        }
        expired.sort_unstable();
        for (.., place) in expired {
            let item = self.items.remove(&place).expect("it was there");
            self.note(place, "delete", item.n, true);
        }
    }

    /// A reader of a random part, from the beginning or from now.
    fn add_reader(&mut self) {
        let container = self.world.container("c");
        let mut scope = ScopeRequest::default();
        match self.below(4) {
            0 => {}
            1 => {
                let partition = self.random.below(container.partitions.len());
                scope.range_id = Some(container.partitions[partition].id.to_string().into());
            }
            2 => scope.partition_key = Some(key_of((self.below(KEYS.len()), 0))),
            _ => {
                let places = ["", "08", "12", "1A", "20", "2B", "33", "FF"];
                let from = self.below(places.len() - 1);
                let to = from + 1 + self.below(places.len() - from - 1);
                scope.start = Some(places[from].into());
                scope.end = Some(places[to].into());
            }
        }
        let range = container.scope(&scope).expect("a scope").range.expect("keys");
        let places = (0..KEYS.len()).flat_map(|key| (0..IDS.len()).map(move |id| (key, id)));
        let inside = |place: &Place| {
            let effective = container.definition.partition_key.effective(&key_of(*place));
            range.contains(&effective)
        };
        let places = places.filter(inside).collect();
        let all = self.below(2) == 0;
        let mode = if all { Mode::AllVersions } else { Mode::Latest(Shape::Bare) };
        let etag = (all || self.below(2) == 0).then(|| "*".to_owned());
        let since = if etag.is_some() { self.log.len() } else { 0 };
        let (seen, latest) = (vec![], BTreeMap::new());
        let reader = Reader { mode, scope, range, places, etag, since, seen, latest };
        self.readers.push(reader);
        let last = self.readers.len() - 1;
        if self.readers[last].etag.is_some() {
            assert!(!self.read(last), "from now there is nothing yet");
        }
    }

    /// Reads one page; whether there was something on it.
    fn read(&mut self, reader: usize) -> bool {
        let size = self.below(6) + 1;
        let container = self.world.container("c");
        let reader = &mut self.readers[reader];
        let request = ChangesRequest {
            scope: reader.scope.clone(),
            mode: reader.mode,
            after: reader.etag.as_deref(),
            since_s: None,
            size: PageSize { items: size },
        };
        let page = match self.world.engine().change_feed().read_changes(&container, &request) {
            // As clients do: the range is gone, its keys are elsewhere.
            Err(Error::PartitionGone) if reader.scope.range_id.is_some() => {
                let KeyRange { min, max } = &reader.range;
                let (start, end) = (Some(min.to_string().into()), Some(max.to_string().into()));
                reader.scope = ScopeRequest { start, end, ..ScopeRequest::default() };
                return true;
            }
            page => page.expect("a page"),
        };
        reader.etag = Some(page.etag);
        for change in &page.changes {
            reader.take(&Value::parse(change).expect("JSON"));
        }
        !page.changes.is_empty() || !page.at_end
    }

    /// A reader that has read everything has seen what the log says.
    fn check(&self, reader: usize) {
        let reader = &self.readers[reader];
        let container = self.world.container("c");
        if reader.mode == Mode::AllVersions {
            let group = |place: Place| match self.layouts {
                Layouts::Split => partition_of(&container, place),
                Layouts::SplitAndMerge => u32::try_from(place.0).expect("few keys"),
            };
            let groups: BTreeSet<u32> = reader.places.iter().map(|place| group(*place)).collect();
            for one in groups {
                let of_partition = |event: &&Event| {
                    reader.places.contains(&event.place) && group(event.place) == one
                };
                let told: Vec<&Event> =
                    self.log[reader.since..].iter().filter(of_partition).collect();
                let seen: Vec<&Event> = reader.seen.iter().filter(of_partition).collect();
                let differs = seen.iter().zip(&told).position(|(seen, told)| seen != told);
                if let Some(at) = differs {
                    panic!("change {at}: saw {:?}, expected {:?}", seen[at], told[at]);
                }
                assert_eq!(seen.len(), told.len());
            }
            return;
        }
        let later = |place: &Place| {
            self.log[reader.since..].iter().rev().find(|e| e.place == *place).map(|e| e.n)
        };
        for place in &reader.places {
            if let (Some(item), Some(_)) = (self.items.get(place), later(place)) {
                assert_eq!(reader.latest.get(place), Some(&item.n), "{place:?}");
            }
        }
    }
}

impl Reader {
    fn take(&mut self, change: &Value) {
        if self.mode != Mode::AllVersions {
            let (place, n) = read_item(change);
            assert!(self.places.contains(&place), "outside its part");
            let before = self.latest.insert(place, n);
            assert!(before.is_none_or(|before| before < n), "an item goes back");
            return;
        }
        let metadata = change.get("metadata");
        let operation = match metadata.get("operationType").as_str() {
            Some("create") => "create",
            Some("replace") => "replace",
            Some("delete") => "delete",
            other => panic!("{other:?}"),
        };
        let deleted = operation == "delete";
        assert_eq!(*change.get("current") == json("{}"), deleted);
        assert_eq!(change.get("previous").is_undefined(), !deleted);
        assert_eq!(metadata.get("previousImageLSN").is_undefined(), operation == "create");
        let (place, n) = read_item(change.get(if deleted { "previous" } else { "current" }));
        let expired = metadata.get("timeToLiveExpired").is_true();
        self.seen.push(Event { place, operation, n, expired });
    }
}

fn read_item(item: &Value) -> (Place, i64) {
    let id = item.get("id").as_str().and_then(|id| IDS.iter().position(|i| *i == id));
    let key = format!("[{}]", item.get("p").to_json());
    let key = KEYS.iter().position(|k| *k == key).expect("a key");
    ((key, id.expect("an id")), item.get("n").as_i64().expect("a number"))
}

fn key_of(place: Place) -> PartitionKey {
    PartitionKey::parse_header(KEYS[place.0]).expect("a key")
}

fn partition_of(container: &Container, place: Place) -> u32 {
    let effective = container.definition.partition_key.effective(&key_of(place));
    container.partition_of(&effective).expect("a partition").id
}

/// Everything a feed has for a part, from a position; and the position behind it.
fn drain(world: &World, mode: Mode, after: Option<&str>) -> Result<(Vec<Value>, String)> {
    let (mut found, mut etag) = (Vec::new(), after.map(str::to_owned));
    loop {
        let page = read_page(world, mode, etag.as_deref())?;
        found.extend(page.changes.iter().map(|c| Value::parse(c).expect("JSON")));
        if page.changes.is_empty() && page.at_end {
            return Ok((found, page.etag));
        }
        etag = Some(page.etag);
    }
}

fn read_page(world: &World, mode: Mode, after: Option<&str>) -> Result<ChangePage> {
    let (scope, size) = (ScopeRequest::default(), PageSize { items: 7 });
    let request = ChangesRequest { scope, mode, after, since_s: None, size };
    world.engine().change_feed().read_changes(&world.container("c"), &request)
}

const LATEST: Mode = Mode::Latest(Shape::Bare);

fn world_with(definition: &str, throughput: Option<i64>) -> World {
    let mut world = World::memory();
    world.database();
    world.create_container(definition, throughput);
    world
}

fn upsert(world: &World, text: &str) {
    let none = Preconditions::default();
    let container = world.container("c");
    world.engine().items().upsert(&container, None, text.as_bytes(), &none).expect("an upsert");
}

#[test]
fn replaying_the_feed_rebuilds_the_container_byte_for_byte() {
    let world =
        world_with(r#"{"id":"c","partitionKey":{"paths":["/p"],"version":2}}"#, Some(18_000));
    let mut random = Random::from_environment("replay");
    for n in 0..300 {
        let (id, p) = (random.below(60), random.below(9));
        upsert(&world, &format!(r#"{{"id":"{id}","p":{p},"n":{n},"text":"é\u0000\\"}}"#));
    }
    let container = world.container("c");
    let (mut items, mut token) = (Vec::new(), None);
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    loop {
        let size = PageSize { items: 50 };
        let page = world.engine().queries().read_items(&container, &scope, size, token.as_deref());
        let page = page.expect("a page");
        items.extend(page.items);
        token = page.continuation;
        if token.is_none() {
            break;
        }
    }
    let (mut replayed, mut etag) = (Vec::new(), None);
    loop {
        let page = read_page(&world, LATEST, etag.as_deref()).expect("a page");
        if page.changes.is_empty() {
            break;
        }
        for change in &page.changes {
            let text = std::str::from_utf8(change).expect("UTF-8");
            let (item, _) = text.rsplit_once(",\"_lsn\":").expect("an LSN at the end");
            replayed.push(bytes::Bytes::from(format!("{item}}}")));
        }
        etag = Some(page.etag);
    }
    items.sort();
    replayed.sort();
    assert!(items.len() > 200 && items == replayed);
}

#[test]
fn an_expired_item_is_not_in_the_feed() {
    let world = world_with(r#"{"id":"c","defaultTtl":-1}"#, None);
    upsert(&world, r#"{"id":"a","ttl":5}"#);
    upsert(&world, r#"{"id":"b"}"#);
    let ids = || {
        let (found, _) = drain(&world, LATEST, None).expect("a feed");
        found.iter().map(|c| c.get("id").as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(), ["a", "b"]);
    world.clock.advance_s(5);
    assert_eq!(ids(), ["b"]);
}

const KEPT: &str = r#"{"id":"c","changeFeedPolicy":{"retentionDuration":10}}"#;

#[test]
fn versions_go_when_their_time_is_over_and_readers_behind_are_told() {
    let mut world = world_with(KEPT, None);
    let (_, start) = drain(&world, Mode::AllVersions, Some("*")).expect("a feed");
    upsert(&world, r#"{"id":"a"}"#);
    world.clock.advance_s(300);
    upsert(&world, r#"{"id":"b"}"#);
    let (found, later) = drain(&world, Mode::AllVersions, Some(&start)).expect("a feed");
    assert_eq!(found.len(), 2);
    world.run_tasks();
    let again = drain(&world, Mode::AllVersions, Some(&start)).expect("a feed").0;
    assert_eq!(again.len(), 2, "their time is not over");
    world.clock.advance_s(301);
    world.run_tasks();
    let refused = drain(&world, Mode::AllVersions, Some(&start));
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(drain(&world, Mode::AllVersions, Some(&later)).expect("a feed").0.len(), 0);
    world.reopen();
    assert!(drain(&world, Mode::AllVersions, Some(&start)).is_err());
    assert_eq!(drain(&world, LATEST, None).expect("a feed").0.len(), 2, "items stay");
}

#[test]
fn a_gap_in_the_history_refuses_positions_from_before() {
    let mut world = world_with(KEPT, None);
    upsert(&world, r#"{"id":"a"}"#);
    let (_, start) = drain(&world, Mode::AllVersions, Some("*")).expect("a feed");
    let policy = |world: &World, body: &str| {
        let none = Preconditions::default();
        let replaced =
            world.engine().containers().replace(&name("d"), &name("c"), &json(body), &none);
        replaced.expect("a replace");
    };
    policy(&world, r#"{"id":"c"}"#);
    let off = drain(&world, Mode::AllVersions, Some(&start));
    assert!(matches!(off, Err(Error::Invalid(_))), "{off:?}");
    upsert(&world, r#"{"id":"b"}"#);
    world.run_tasks();
    policy(&world, KEPT);
    let refused = drain(&world, Mode::AllVersions, Some(&start));
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let (_, now) = drain(&world, Mode::AllVersions, Some("*")).expect("a feed");
    upsert(&world, r#"{"id":"d"}"#);
    assert_eq!(drain(&world, Mode::AllVersions, Some(&now)).expect("a feed").0.len(), 1);
}

#[test]
fn all_versions_start_now_and_need_a_policy() {
    let world = world_with(r#"{"id":"c"}"#, None);
    assert!(matches!(read_page(&world, Mode::AllVersions, Some("*")), Err(Error::Invalid(_))));
    let world = world_with(KEPT, None);
    assert!(matches!(read_page(&world, Mode::AllVersions, None), Err(Error::Invalid(_))));
    let world = world_with(KEPT, Some(18_000));
    let latest = read_page(&world, LATEST, Some("*")).expect("a page").etag;
    let foreign = read_page(&world, Mode::AllVersions, Some(&latest));
    assert!(matches!(foreign, Err(Error::Invalid(_))), "a position of the other feed");
}

/// Everything that the feed of a part has after an LSN, by `_lsn`.
fn lsns_after(world: &World, part: &ScopeRequest, after: &str) -> Vec<i64> {
    let (mut found, mut etag) = (Vec::new(), format!("\"{after}\""));
    loop {
        let request = ChangesRequest {
            scope: part.clone(),
            mode: LATEST,
            after: Some(&etag),
            since_s: None,
            size: PageSize { items: 3 },
        };
        let page = world
            .engine()
            .change_feed()
            .read_changes(&world.container("c"), &request)
            .expect("a page");
        let lsn = |change: &bytes::Bytes| {
            Value::parse(change).expect("JSON").get("_lsn").as_i64().expect("an LSN")
        };
        found.extend(page.changes.iter().map(lsn));
        if page.changes.is_empty() {
            return found;
        }
        etag = page.etag;
    }
}

#[test]
fn a_position_in_one_range_is_an_lsn_whoever_wrote_it() {
    for throughput in [None, Some(18_000)] {
        let definition = r#"{"id":"c","partitionKey":{"paths":["/p"],"version":2}}"#;
        let world = world_with(definition, throughput);
        for n in 0..60 {
            upsert(&world, &format!(r#"{{"id":"{n}","p":{n}}}"#));
        }
        for range in world.container("c").partitions.clone() {
            let id = Some(range.id.to_string().into());
            let part = ScopeRequest { range_id: id, ..ScopeRequest::default() };
            let all = lsns_after(&world, &part, "0");
            assert!(all.len() > 5 && all.is_sorted(), "{all:?}");
            for (i, lsn) in all.iter().enumerate() {
                assert_eq!(lsns_after(&world, &part, &lsn.to_string()), all[i + 1..]);
            }
            // What the client wrote holds for those that take the range's place.
            let (half, rest) = (all[all.len() / 2], &all[all.len() / 2 + 1..]);
            let id = range.id.to_string();
            let split =
                world.engine().layouts().split_partition(&name("d"), &name("c"), Some(&id), None);
            let mut found = Vec::new();
            for child in split.expect("a split").children {
                let id = Some(child.to_string().into());
                let part = ScopeRequest { range_id: id, ..ScopeRequest::default() };
                found.extend(lsns_after(&world, &part, &half.to_string()));
            }
            found.sort_unstable();
            assert_eq!(found, rest);
        }
    }
}

#[test]
fn a_feed_from_a_time_gives_what_was_written_after_it() {
    let world = world_with(r#"{"id":"c"}"#, None);
    let start = world.clock.now_s();
    for n in 0..2000 {
        upsert(&world, &format!(r#"{{"id":"{n}"}}"#));
        world.clock.advance_s(1);
    }
    for (offset, expected) in [(0, 1999), (1, 1998), (1499, 500), (1998, 1), (1999, 0), (9999, 0)] {
        let (mut found, mut etag) = (0, None);
        loop {
            let request = ChangesRequest {
                scope: ScopeRequest::default(),
                mode: LATEST,
                after: etag.as_deref(),
                since_s: Some(start + offset),
                size: PageSize { items: 400 },
            };
            let page = world.engine().change_feed().read_changes(&world.container("c"), &request);
            let page = page.expect("a page");
            found += page.changes.len();
            if page.changes.is_empty() {
                break;
            }
            etag = Some(page.etag);
        }
        assert_eq!(found, expected, "from second {offset}");
    }
}
