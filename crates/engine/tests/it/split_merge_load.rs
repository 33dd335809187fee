//! Splits and merges under load: eight writers, four readers of the change feed and two clients that
//! query, while the layout changes all the time. Nothing is lost, doubled or out of order: a feed of all
//! versions has every single write once, each logical partition's in the order of LSNs; a query has
//! every item that stays once; and the feed, replayed, is the container byte for byte. `ORRERY_LAYOUT_CHANGES` sets how often the layout changes,
//! `ORRERY_SEED` repeats the choices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::change_feed::{ChangesRequest, Mode, Shape};
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{EffectiveKey, Error, KeyRange, PartitionKey, Value};

use crate::random::Random;
use crate::world::{World, json, name};

const WRITERS: usize = 8;
const KEYS: usize = 40;
const IDS_PER_WRITER: usize = 50;
/// Of those, these are there before the first query and are never deleted.
const STAYING_PER_WRITER: usize = 10;
const LAYOUT_CHANGES: usize = 8;
const PARTITIONS_MAX: usize = 5;
const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},
    "changeFeedPolicy":{"retentionDuration":600}}"#;

#[test]
fn nothing_is_lost_under_load_on_memory() {
    run(World::memory(), "splits and merges under load on memory");
}

#[test]
fn nothing_is_lost_under_load_on_disk() {
    run(World::rocks(), "splits and merges under load on disk");
}

/// What everybody shares.
struct Load<'w> {
    engine: &'w Engine,
    /// The layout changes no more.
    done: AtomicBool,
    /// Nobody writes any more.
    quiet: AtomicBool,
    acknowledged: AtomicUsize,
    /// Queries that were read to their end.
    queries: AtomicUsize,
}

/// An item's last text, by its id; ids are of one writer each.
type Items = BTreeMap<String, String>;

fn run(mut world: World, test: &str) {
    let layout_changes = std::env::var("ORRERY_LAYOUT_CHANGES")
        .map_or(LAYOUT_CHANGES, |text| text.parse().expect("ORRERY_LAYOUT_CHANGES is a number"));
    let mut random = Random::from_environment(test);
    world.database();
    world.create_container(DEFINITION, None);
    let load = &Load {
        engine: world.engine(),
        done: AtomicBool::new(false),
        quiet: AtomicBool::new(false),
        acknowledged: AtomicUsize::new(0),
        queries: AtomicUsize::new(0),
    };
    // Who reads all versions begins before anything is written.
    let readers = [
        (Mode::Latest(Shape::Bare), Split::ByRange),
        (Mode::Latest(Shape::Bare), Split::Whole),
        (Mode::AllVersions, Split::ByRange),
        (Mode::AllVersions, Split::Whole),
    ];
    let readers = readers.map(|(mode, split)| Reader::new(load, mode, split));
    let first: Vec<Items> = (0..WRITERS).map(|writer| load.begin(writer)).collect();
    let seeds = first.into_iter().map(|items| (items, random.next())).collect::<Vec<_>>();
    let (written, feeds) = std::thread::scope(|scope| {
        let writers: Vec<_> = seeds
            .into_iter()
            .enumerate()
            .map(|(number, (items, seed))| {
                scope.spawn(move || load.write(number, items, Random::new(seed)))
            })
            .collect();
        let readers: Vec<_> =
            readers.into_iter().map(|reader| scope.spawn(move || reader.follow(load))).collect();
        let queries = [
            // By a value that no write changes: along an index, what moves may come twice.
            ("SELECT VALUE c.id FROM c WHERE c.writer >= 0", 0..WRITERS),
            ("SELECT VALUE c.id FROM c WHERE c.writer = 3", 3..4),
        ];
        for (query, writers) in queries {
            scope.spawn(move || load.query(query, writers));
        }
        for _ in 0..layout_changes {
            load.change_layout(&mut random);
        }
        load.done.store(true, Ordering::SeqCst);
        let mut written = Items::new();
        for writer in writers {
            written.extend(writer.join().expect("a writer"));
        }
        load.quiet.store(true, Ordering::SeqCst);
        let feeds: Vec<Reader> =
            readers.into_iter().map(|reader| reader.join().expect("a reader")).collect();
        (written, feeds)
    });
    let stored = stored(world.engine());
    assert_eq!(stored.len(), written.len());
    assert!(stored == written, "what is stored is what was acknowledged");
    let acknowledged = load.acknowledged.load(Ordering::SeqCst);
    for mut reader in feeds {
        if reader.mode == Mode::AllVersions {
            assert_eq!(reader.changes, acknowledged, "every write is in the feed once");
        } else {
            // It does not tell of deletes.
            reader.items.retain(|id, _| written.contains_key(id));
        }
        assert!(reader.items == written, "a replayed feed is the container");
    }
    let container = world.container("c");
    assert_eq!(world.engine().insight().verify(&container), Ok(vec![]));
    let queries = load.queries.load(Ordering::SeqCst);
    assert!(queries > 0, "somebody has queried");
    eprintln!(
        "{acknowledged} writes and {queries} queries while the layout changed {layout_changes} times"
    );
    world.reopen();
    assert!(self::stored(world.engine()) == written, "after a restart");
}

/// The container page by page, as texts by id.
fn stored(engine: &Engine) -> Items {
    let container = engine.containers().read(&name("d"), &name("c")).expect("a container");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let (mut items, mut token) = (Items::new(), None::<String>);
    loop {
        let size = PageSize { items: 100 };
        let page = engine
            .queries()
            .read_items(&container, &scope, size, token.as_deref())
            .expect("a page");
        for item in &page.items {
            let (id, text) = entry(item);
            assert!(items.insert(id, text).is_none(), "an item twice");
        }
        token = page.continuation;
        if token.is_none() {
            return items;
        }
    }
}

fn entry(item: &[u8]) -> (String, String) {
    let id = Value::parse(item).expect("JSON").get("id").as_str().expect("an id").to_owned();
    (id, String::from_utf8_lossy(item).into_owned())
}

impl Load<'_> {
    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    fn container(&self) -> std::sync::Arc<orrery_engine::Container> {
        self.engine.containers().read(&name("d"), &name("c")).expect("a container")
    }

    /// Waits until so many writes were acknowledged, and changes the layout.
    fn change_layout(&self, random: &mut Random) {
        let until = self.acknowledged.load(Ordering::SeqCst) + 100;
        while self.acknowledged.load(Ordering::SeqCst) < until {
            std::thread::yield_now();
        }
        let count = self.container().partitions.len();
        let (database, container) = (name("d"), name("c"));
        if count >= PARTITIONS_MAX || (count > 1 && random.one_in(2)) {
            self.engine.layouts().merge_partitions(&database, &container, None).expect("a merge");
        } else {
            self.engine
                .layouts()
                .split_partition(&database, &container, None, None)
                .expect("a split");
        }
    }

    /// Writes the items that stay.
    fn begin(&self, writer: usize) -> Items {
        let mut items = Items::new();
        for number in 0..STAYING_PER_WRITER {
            self.upsert(&mut items, writer, number, 0);
        }
        items
    }

    /// Writes and deletes items of its own until the layout changes no more.
    fn write(&self, writer: usize, mut items: Items, mut random: Random) -> Items {
        let none = Preconditions::default();
        let mut n = 0;
        while !self.is_done() {
            let number = random.below(IDS_PER_WRITER);
            let id = id(writer, number);
            let stays = number < STAYING_PER_WRITER;
            if !stays && items.contains_key(&id) && random.one_in(5) {
                let (container, key) = (self.container(), key(number));
                let deleted = self.engine.items().delete(&container, Some(&key), &name(&id), &none);
                deleted.expect("it is there");
                items.remove(&id);
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
            } else {
                n += 1;
                self.upsert(&mut items, writer, number, n);
            }
        }
        items
    }

    fn upsert(&self, items: &mut Items, writer: usize, number: usize, n: usize) {
        let (container, id, p) = (self.container(), id(writer, number), number % KEYS);
        let extra = format!(r#""f{}":[{n},"x"]"#, n % 20);
        let text =
            format!(r#"{{"id":"{id}","p":{p},"u":"{id}","n":{n},"writer":{writer},{extra}}}"#);
        let none = Preconditions::default();
        let written = self.engine.items().upsert(&container, None, text.as_bytes(), &none);
        let written = written.expect("an upsert");
        items.insert(id.clone(), String::from_utf8_lossy(&written.body).into_owned());
        // A session that has just written reads what it wrote.
        let place = written.place;
        let token = container.token(place.partition, place.lsn);
        let container = self.container();
        self.engine.sessions().check(&container, &token).expect("its own session");
        let read = self.engine.items().read(&container, Some(&key(number)), &name(&id));
        assert_eq!(read.expect("its own write").body, written.body);
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    /// Queries in pages, over and over: every item that stays comes once.
    fn query(&self, text: &str, writers: std::ops::Range<usize>) {
        let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#)));
        let request = request.expect("a query");
        while !self.is_done() {
            let (mut seen, mut token) = (BTreeMap::<String, usize>::new(), None::<String>);
            loop {
                let container = self.container();
                let scope = container.scope(&ScopeRequest::default()).expect("a scope");
                let paging = Paging {
                    continuation: token.as_deref(),
                    crosses: true,
                    merges: true,
                    ..Paging::default()
                };
                let size = PageSize { items: 20 };
                let page =
                    self.engine.queries().query_items(&container, &scope, &request, size, &paging);
                let page = page.expect("a page");
                for row in page.rows {
                    *seen.entry(row).or_default() += 1;
                }
                token = page.continuation;
                if token.is_none() {
                    break;
                }
            }
            for (writer, number) in
                writers.clone().flat_map(|w| (0..STAYING_PER_WRITER).map(move |n| (w, n)))
            {
                let row = format!("\"{}\"", id(writer, number));
                assert_eq!(seen.get(&row), Some(&1), "{row} in {text}");
            }
            self.queries.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn id(writer: usize, number: usize) -> String {
    format!("{writer}-{number}")
}

fn key(number: usize) -> PartitionKey {
    PartitionKey::parse_header(&format!("[{}]", number % KEYS)).expect("a key")
}

/// How a reader divides its work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Split {
    Whole,
    /// Range by range, as clients do: when one is gone, its keys are read where they are now.
    ByRange,
}

struct Reader {
    mode: Mode,
    split: Split,
    /// Parts of the keys, each with its position.
    parts: Vec<(KeyRange, Option<String>)>,
    items: Items,
    /// The last write that was seen of each id.
    seen: BTreeMap<String, i64>,
    /// The last LSN that was seen of each logical partition.
    lsns: BTreeMap<i64, i64>,
    changes: usize,
}

impl Reader {
    fn new(load: &Load<'_>, mode: Mode, split: Split) -> Self {
        let whole = KeyRange { min: EffectiveKey::min(), max: EffectiveKey::max() };
        let mut reader = Self {
            mode,
            split,
            parts: vec![],
            items: Items::new(),
            seen: BTreeMap::new(),
            lsns: BTreeMap::new(),
            changes: 0,
        };
        let start = (mode == Mode::AllVersions).then(|| "*".to_owned());
        reader.parts.push((whole, start));
        if mode == Mode::AllVersions {
            reader.round(load);
        }
        reader
    }

    /// Reads until nothing is left after the writers have ended.
    fn follow(mut self, load: &Load<'_>) -> Self {
        loop {
            let quiet = load.quiet.load(Ordering::SeqCst);
            if !self.round(load) && quiet {
                return self;
            }
        }
    }

    /// A page of each part; whether there was anything.
    fn round(&mut self, load: &Load<'_>) -> bool {
        let mut any = false;
        for (range, etag) in std::mem::take(&mut self.parts) {
            any |= self.part(load, &range, etag.as_deref());
        }
        any
    }

    /// A page of a part. Where it lies in several ranges by now, it becomes several.
    fn part(&mut self, load: &Load<'_>, range: &KeyRange, etag: Option<&str>) -> bool {
        let container = load.container();
        let interval = |range: &KeyRange| ScopeRequest {
            start: Some(range.min.to_string().into()),
            end: Some(range.max.to_string().into()),
            ..ScopeRequest::default()
        };
        if self.split == Split::Whole {
            let scope = interval(range);
            return self.page(load, &container, scope, range, etag).expect("a page");
        }
        let mut any = false;
        for partition in &container.partitions {
            let Some(keys) = partition.range.intersect(range) else { continue };
            let range_id = Some(partition.id.to_string().into());
            let scope = ScopeRequest { range_id, ..interval(&keys) };
            match self.page(load, &load.container(), scope, &keys, etag) {
                Ok(found) => any |= found,
                Err(Error::PartitionGone) => {
                    self.parts.push((keys, etag.map(str::to_owned)));
                    any = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
        any
    }

    fn page(
        &mut self,
        load: &Load<'_>,
        container: &orrery_engine::Container,
        scope: ScopeRequest,
        range: &KeyRange,
        after: Option<&str>,
    ) -> orrery_types::Result<bool> {
        let size = PageSize { items: 50 };
        let request = ChangesRequest { scope, mode: self.mode, after, since_s: None, size };
        let page = load.engine.change_feed().read_changes(container, &request)?;
        for change in &page.changes {
            self.take(change);
        }
        let any = !page.changes.is_empty() || !page.at_end;
        self.parts.push((range.clone(), Some(page.etag)));
        Ok(any)
    }

    /// Replays a change.
    fn take(&mut self, change: &[u8]) {
        let value = Value::parse(change).expect("JSON");
        self.changes += 1;
        self.check_order(&value);
        if self.mode != Mode::AllVersions {
            let text = std::str::from_utf8(change).expect("UTF-8");
            let (item, _) = text.rsplit_once(",\"_lsn\":").expect("an LSN at the end");
            self.put(&format!("{item}}}"));
            return;
        }
        let text = std::str::from_utf8(change).expect("UTF-8");
        let body = text.rsplit_once(",\"metadata\":").expect("metadata").0;
        match value.get("metadata").get("operationType").as_str() {
            Some("create" | "replace") => {
                self.put(body.strip_prefix("{\"current\":").expect("an item"));
            }
            Some("delete") => {
                let id = value.get("previous").get("id").as_str().expect("an id").to_owned();
                let removed = self.items.remove(&id).expect("it was there");
                let previous = body.strip_prefix("{\"current\":{},\"previous\":").expect("an item");
                assert_eq!(removed, previous, "what is deleted is what was last");
            }
            other => panic!("{other:?}"),
        }
    }

    /// Changes of a logical partition come in the order in which they were committed.
    fn check_order(&mut self, change: &Value) {
        let (item, lsn) = match self.mode {
            Mode::AllVersions => {
                let metadata = change.get("metadata");
                let deleted = metadata.get("operationType").as_str() == Some("delete");
                let item = change.get(if deleted { "previous" } else { "current" });
                (item, metadata.get("lsn"))
            }
            Mode::Latest(_) => (change, change.get("_lsn")),
        };
        let (p, lsn) = (item.get("p").as_i64().expect("a key"), lsn.as_i64().expect("an LSN"));
        let before = self.lsns.insert(p, lsn);
        assert!(before.is_none_or(|before| before < lsn), "{p}: {lsn} comes after {before:?}");
    }

    fn put(&mut self, text: &str) {
        let (id, text) = entry(text.as_bytes());
        let n = Value::parse(text.as_bytes()).expect("JSON").get("n").as_i64().expect("a number");
        let before = self.seen.insert(id.clone(), n);
        assert!(before.is_none_or(|before| before < n), "{id} goes back from {before:?} to {n}");
        self.items.insert(id, text);
    }
}
