//! Splits and merges: no answer changes, nothing is lost, and whatever a client holds (tokens of
//! feeds and queries, positions of the change feed, sessions) goes on working.

use std::collections::BTreeSet;

use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::change_feed::{ChangesRequest, Mode, Shape};
use orrery_engine::partition::layout::LayoutChangeResult;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{EffectiveKey, Error, PartitionKey, Result, Value};

use crate::world::{World, json, name, session_token};

const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":-1,
    "indexingPolicy":{"compositeIndexes":[[{"path":"/n"},{"path":"/s","order":"descending"}]]},
    "changeFeedPolicy":{"retentionDuration":60}}"#;

/// A change of the layout, by hand.
#[derive(Clone, Copy, Debug)]
enum Change {
    Split,
    SplitTwice,
    SplitAndMerge,
    Merge,
}

const CHANGES: [Change; 4] =
    [Change::Split, Change::SplitTwice, Change::SplitAndMerge, Change::Merge];

pub(crate) fn split(world: &World, id: Option<&str>) -> LayoutChangeResult {
    world.engine().layouts().split_partition(&name("d"), &name("c"), id, None).expect("a split")
}

pub(crate) fn merge(world: &World) -> LayoutChangeResult {
    world.engine().layouts().merge_partitions(&name("d"), &name("c"), None).expect("a merge")
}

impl Change {
    fn apply(self, world: &World) {
        match self {
            Self::Split => drop(split(world, None)),
            Self::SplitTwice => {
                let child = split(world, None).children[1].to_string();
                split(world, Some(&child));
            }
            Self::SplitAndMerge => {
                split(world, None);
                merge(world);
            }
            Self::Merge => drop(merge(world)),
        }
    }

    /// Throughput to begin with: as many partitions as it needs.
    fn throughput(self) -> Option<i64> {
        matches!(self, Self::Merge).then_some(18_000)
    }
}

/// A container with items of many keys and shapes.
fn filled(mut world: World, throughput: Option<i64>) -> World {
    world.database();
    world.create_container(DEFINITION, throughput);
    for n in 0..60 {
        put(&world, n);
    }
    world
}

fn put(world: &World, n: usize) {
    let extra = match n % 3 {
        0 => r#","tags":["a","b"]"#.to_owned(),
        1 => format!(r#","o":{{"deep":{n}}}"#),
        _ => String::new(),
    };
    let (p, s) = (n % 11, n % 7);
    let text = format!(r#"{{"id":"{n}","p":{p},"u":{n},"n":{s},"s":"{n}","ttl":1000{extra}}}"#);
    upsert(world, &text).expect("an upsert");
}

pub(crate) fn upsert(world: &World, text: &str) -> Result<()> {
    let none = Preconditions::default();
    world.engine().items().upsert(&world.container("c"), None, text.as_bytes(), &none).map(drop)
}

fn on_every_change(test: impl Fn(Change, &mut World)) {
    for change in CHANGES {
        for world in [World::memory(), World::rocks()] {
            let mut world = filled(world, change.throughput());
            test(change, &mut world);
            let container = world.container("c");
            assert_eq!(world.engine().insight().verify(&container), Ok(vec![]), "{change:?}");
        }
    }
}

fn key(n: usize) -> PartitionKey {
    PartitionKey::parse_header(&format!("[{n}]")).expect("a key")
}

/// All items in the order of the feed, in pages, of which `between` comes after the first.
pub(crate) fn items(world: &World, scope: &ScopeRequest, between: impl Fn()) -> Vec<String> {
    let (mut found, mut token): (Vec<String>, Option<String>) = (vec![], None);
    loop {
        let container = world.container("c");
        let scope = container.scope(scope).expect("a scope");
        let size = PageSize { items: 7 };
        let page = world.engine().queries().read_items(&container, &scope, size, token.as_deref());
        let page = page.expect("a page");
        let text = |item: &bytes::Bytes| String::from_utf8_lossy(item).into_owned();
        found.extend(page.items.iter().map(text));
        if token.is_none() {
            between();
        }
        token = page.continuation;
        if token.is_none() {
            return found;
        }
    }
}

/// The rows of a query in pages, for a client that merges partitions itself where it has to.
fn rows(world: &World, text: &str, between: impl Fn()) -> Vec<String> {
    rows_for(true, world, text, between)
}

fn rows_for(merges: bool, world: &World, text: &str, between: impl Fn()) -> Vec<String> {
    let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#))).expect("a query");
    let (mut found, mut token): (Vec<String>, Option<String>) = (vec![], None);
    loop {
        let container = world.container("c");
        let scope = container.scope(&ScopeRequest::default()).expect("a scope");
        let paging =
            Paging { continuation: token.as_deref(), crosses: true, merges, ..Paging::default() };
        let size = PageSize { items: 7 };
        let page =
            world.engine().queries().query_items(&container, &scope, &request, size, &paging);
        let page = page.expect("a page");
        found.extend(page.rows);
        if token.is_none() {
            between();
        }
        token = page.continuation;
        if token.is_none() {
            return found;
        }
    }
}

const QUERIES: [&str; 7] = [
    "SELECT VALUE c.id FROM c",
    "SELECT VALUE c.id FROM c WHERE c.n = 3",
    "SELECT VALUE c.id FROM c WHERE c.n > 2 AND c.tags[0] = 'a'",
    "SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.o)",
    "SELECT VALUE c.id FROM c WHERE c.p IN (1, 2, 3)",
    "SELECT c.id FROM c WHERE c.o.deep > 10",
    "SELECT VALUE c.s FROM c WHERE STARTSWITH(c.s, '1')",
];

#[test]
fn no_answer_changes() {
    on_every_change(|change, world| {
        let sorted = |mut rows: Vec<String>| {
            rows.sort();
            rows
        };
        let whole = ScopeRequest::default();
        // The order is that of each range; `insertion_order` looks at it.
        let before = sorted(items(world, &whole, || {}));
        let answers = QUERIES.map(|query| sorted(rows(world, query, || {})));
        let (latest, versions) = (feed(world, LATEST, None).0, feed(world, LATEST, None).0);
        change.apply(world);
        assert_eq!(sorted(items(world, &whole, || {})), before, "{change:?}");
        for (query, answer) in QUERIES.iter().zip(answers) {
            assert_eq!(sorted(rows(world, query, || {})), answer, "{change:?}: {query}");
        }
        let now = feed(world, LATEST, None).0;
        assert_eq!(sorted(now.clone()), sorted(latest), "{change:?}");
        assert_eq!(now.len(), versions.len());
        for n in 0..60 {
            let read = world.engine().items().read(
                &world.container("c"),
                Some(&key(n % 11)),
                &name(&n.to_string()),
            );
            assert!(
                before.contains(&String::from_utf8_lossy(&read.expect("it is there").body).into())
            );
        }
        world.reopen();
        assert_eq!(sorted(items(world, &whole, || {})), before, "{change:?} after a restart");
    });
}

#[test]
fn a_new_layout_is_written_to() {
    on_every_change(|change, world| {
        change.apply(world);
        let taken = r#"{"id":"other","p":5,"u":5}"#;
        assert_eq!(upsert(world, taken), Err(Error::UniqueKeyViolation), "{change:?}");
        for n in 40..120 {
            put(world, n);
        }
        world.reopen();
        let rids: BTreeSet<String> =
            rows(world, "SELECT VALUE c._rid FROM c", || {}).into_iter().collect();
        assert_eq!(rids.len(), 120, "{change:?}: numbers of items are given once");
        world.clock.advance_s(2000);
        world.run_tasks();
        assert_eq!(items(world, &ScopeRequest::default(), || {}).len(), 0, "{change:?}");
    });
}

#[test]
fn a_feed_or_query_that_has_begun_goes_on() {
    for query in QUERIES {
        on_every_change(|change, world| {
            let mut before = rows(world, query, || {});
            let mut across = rows(world, query, || change.apply(world));
            before.sort();
            across.sort();
            assert_eq!(across, before, "{change:?}: {query}");
        });
    }
    on_every_change(|change, world| {
        let whole = ScopeRequest::default();
        let before = items(world, &whole, || {});
        assert_eq!(items(world, &whole, || change.apply(world)), before, "{change:?}");
    });
}

#[test]
fn an_ordered_query_that_has_begun_goes_on() {
    let ordered = "SELECT VALUE c.id FROM c ORDER BY c.n ASC, c.s DESC";
    for world in [World::memory(), World::rocks()] {
        let world = filled(world, None);
        let whole = |between: &dyn Fn()| rows_for(false, &world, ordered, between);
        let before = whole(&|| {});
        assert_eq!(whole(&|| Change::Split.apply(&world)), before);
    }
}

/// As the original has it, whose SDKs test it with containers of one range.
#[test]
fn a_client_that_merges_is_told_to_however_many_ranges_there_are() {
    let world = filled(World::memory(), None);
    let ask = |text: &str, partition_key: Option<PartitionKey>| {
        let container = world.container("c");
        let scope = ScopeRequest { partition_key, ..ScopeRequest::default() };
        let scope = container.scope(&scope).expect("a scope");
        let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#)));
        let paging = Paging { crosses: true, merges: true, ..Paging::default() };
        let (request, size) = (request.expect("a query"), PageSize { items: 1000 });
        let page =
            world.engine().queries().query_items(&container, &scope, &request, size, &paging);
        page.map(|page| page.rows.len())
    };
    let key_has = rows(&world, "SELECT VALUE c.id FROM c WHERE c.p = 3", || {}).len();
    for ranges in [1, 2] {
        assert_eq!(world.container("c").partitions.len(), ranges);
        for text in [
            "SELECT VALUE c.id FROM c ORDER BY c.n",
            "SELECT VALUE c.id FROM c WHERE c.p IN (1, 2) ORDER BY c.n",
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT TOP 1 * FROM c",
            "SELECT DISTINCT VALUE c.n FROM c",
            "SELECT COUNT(1) FROM c WHERE c.p = 3",
        ] {
            let answer = ask(text, None);
            assert!(
                matches!(answer, Err(Error::CrossPartition(_))),
                "{ranges}: {text}: {answer:?}"
            );
        }
        let ordered = "SELECT VALUE c.id FROM c WHERE c.p = 3 ORDER BY c.n";
        assert_eq!(ask(ordered, None), Ok(key_has), "its filter names one key");
        assert_eq!(ask("SELECT VALUE COUNT(1) FROM c WHERE c.p = 3", None), Ok(1));
        assert_eq!(ask("SELECT VALUE c.id FROM c ORDER BY c.n", Some(key(3))), Ok(key_has));
        assert_eq!(ask("SELECT VALUE c.id FROM c", None).map(|rows| rows > 0), Ok(true));
        if ranges == 1 {
            split(&world, None);
        }
    }
}

/// A client that reads partition by partition takes its token to the children of a partition.
#[test]
fn a_token_of_a_range_serves_its_children() {
    for query in QUERIES {
        let world = filled(World::memory(), None);
        let request =
            QueryRequest::parse(&json(&format!(r#"{{"query":"{query}"}}"#))).expect("a query");
        let page = |range: &str, token: Option<&str>, size: usize| {
            let container = world.container("c");
            let scope = ScopeRequest { range_id: Some(range.into()), ..ScopeRequest::default() };
            let scope = container.scope(&scope)?;
            let paging = Paging { continuation: token, merges: true, ..Paging::default() };
            world.engine().queries().query_items(
                &container,
                &scope,
                &request,
                PageSize { items: size },
                &paging,
            )
        };
        let mut before = page("0", None, 1000).expect("a page").rows;
        let first = page("0", None, 3).expect("a page");
        let Some(token) = first.continuation else { continue };
        let children = split(&world, None).children;
        assert_eq!(page("0", Some(&token), 3).map(drop), Err(Error::PartitionGone));
        let mut across = first.rows;
        for child in children {
            across.extend(page(&child.to_string(), Some(&token), 1000).expect("a page").rows);
        }
        before.sort();
        across.sort();
        assert_eq!(across, before, "{query}");
    }
}

pub(crate) const LATEST: Mode = Mode::Latest(Shape::Bare);

/// Everything after a position, without LSNs, and the position behind it.
fn feed(world: &World, mode: Mode, after: Option<&str>) -> (Vec<String>, String) {
    feed_of(world, &ScopeRequest::default(), mode, after).expect("a feed")
}

pub(crate) fn feed_of(
    world: &World,
    scope: &ScopeRequest,
    mode: Mode,
    after: Option<&str>,
) -> Result<(Vec<String>, String)> {
    let (mut found, mut etag) = (vec![], after.map(str::to_owned));
    loop {
        let request = ChangesRequest {
            scope: scope.clone(),
            mode,
            after: etag.as_deref(),
            since_s: None,
            size: PageSize { items: 5 },
        };
        let page = world.engine().change_feed().read_changes(&world.container("c"), &request)?;
        for change in &page.changes {
            let value = Value::parse(change).expect("JSON");
            let item = match value.get("current") {
                Value::Undefined => &value,
                current if current.get("id").is_undefined() => value.get("previous"),
                current => current,
            };
            let operation = value.get("metadata").get("operationType").to_json();
            found.push(format!(
                "{operation} {} {}",
                item.get("id").to_json(),
                item.get("_etag").to_json()
            ));
        }
        let done = page.changes.is_empty() && page.at_end;
        etag = Some(page.etag);
        if done {
            return Ok((found, etag.unwrap_or_default()));
        }
    }
}

#[test]
fn positions_of_the_change_feed_go_on() {
    on_every_change(|change, world| {
        for mode in [LATEST, Mode::AllVersions] {
            let (_, start) = feed(world, mode, Some("*"));
            for n in 30..50 {
                put(world, n);
            }
            let (told, middle) = feed(world, mode, Some(&start));
            assert_eq!(told.len(), 20);
            for n in 20..40 {
                put(world, n);
            }
            change.apply(world);
            for n in 50..60 {
                put(world, n);
            }
            let (after, end) = feed(world, mode, Some(&middle));
            let unique: BTreeSet<&String> = after.iter().collect();
            assert_eq!((after.len(), unique.len()), (30, 30), "{change:?} {mode:?}");
            assert_eq!(feed(world, mode, Some(&end)).0.len(), 0);
            let (again, _) = feed(world, mode, Some(&start));
            let expected = if mode == LATEST { 40 } else { 50 };
            assert_eq!(again.len(), expected, "{change:?} {mode:?}");
        }
    });
}

#[test]
fn a_reader_of_a_range_reads_on_in_its_children() {
    let world = filled(World::memory(), None);
    let of_range =
        |id: u32| ScopeRequest { range_id: Some(id.to_string().into()), ..ScopeRequest::default() };
    let (told, etag) = feed_of(&world, &of_range(0), LATEST, None).expect("a feed");
    assert_eq!(told.len(), 60);
    let LayoutChangeResult { parents, children } = split(&world, None);
    assert_eq!((&parents[..], &children[..]), (&[0][..], &[1, 2][..]));
    for n in 0..60 {
        put(&world, n);
    }
    let gone = feed_of(&world, &of_range(0), LATEST, Some(&etag));
    assert_eq!(gone.map(drop), Err(Error::PartitionGone));
    let mut positions = vec![];
    let mut found = 0;
    for child in children {
        let (told, position) =
            feed_of(&world, &of_range(child), LATEST, Some(&etag)).expect("a feed");
        assert!(told.len() > 10, "{} of 60 in child {child}", told.len());
        found += told.len();
        positions.push((child, position));
    }
    assert_eq!(found, 60);
    // Two positions of ranges that are merged go on in the parts of the one.
    let ranges: Vec<_> = world.container("c").partitions.iter().map(|p| p.range.clone()).collect();
    let merged = merge(&world).children[0];
    for n in 0..60 {
        put(&world, n);
    }
    let mut found = 0;
    for ((_, position), range) in positions.iter().zip(ranges) {
        let part = ScopeRequest {
            start: Some(range.min.to_string().into()),
            end: Some(range.max.to_string().into()),
            ..of_range(merged)
        };
        found += feed_of(&world, &part, LATEST, Some(position)).expect("a feed").0.len();
    }
    assert_eq!(found, 60);
}

#[test]
fn sessions_go_on_and_none_comes_from_the_future() {
    on_every_change(|change, world| {
        let container = world.container("c");
        let before = session_token(world.engine(), &container);
        change.apply(world);
        let container = world.container("c");
        assert_eq!(world.engine().sessions().check(&container, &before), Ok(()), "{change:?}");
        let after = session_token(world.engine(), &container);
        assert_eq!(world.engine().sessions().check(&container, &after), Ok(()));
        // A client gives what it knows of a parent under the number of a child.
        for child in &container.partitions {
            for token in before.split(',') {
                let (parent, seen) = token.split_once(':').expect("a token");
                let parent: u32 = parent.parse().expect("a number");
                if child.parents.contains(&parent) {
                    let taken_over = format!("{}:{seen}", child.id);
                    let checked = world.engine().sessions().check(&container, &taken_over);
                    assert_eq!(checked, Ok(()), "{change:?}: {taken_over}");
                }
            }
        }
        let child = container.partitions.iter().find(|p| !p.parents.is_empty()).expect("a child");
        for id in [child.id, child.parents[0]] {
            let future = format!("{id}:-1#999999999999");
            let refused = world.engine().sessions().check(&container, &future);
            assert_eq!(refused, Err(Error::SessionNotAvailable), "{change:?}: {future}");
        }
    });
}

#[test]
fn clients_see_who_took_whose_place() {
    let world = filled(World::memory(), None);
    let shown = |container: &Container| {
        let ranges = world.engine().layouts().list_ranges(container).expect("ranges");
        let field = |range: &Value, name: &str| range.get(name).to_json();
        let one = |r: &orrery_engine::Resource| {
            format!("{} {}", field(&r.body, "id"), field(&r.body, "parents"))
        };
        let etag = world.engine().layouts().ranges_etag(container).expect("an etag");
        (etag, ranges.iter().map(one).collect::<Vec<_>>())
    };
    let (first, ranges) = shown(&world.container("c"));
    assert_eq!(ranges, [r#""0" []"#]);
    split(&world, Some("0"));
    let (second, ranges) = shown(&world.container("c"));
    assert_eq!(ranges, [r#""1" ["0"]"#, r#""2" ["0"]"#]);
    split(&world, Some("2"));
    let (third, ranges) = shown(&world.container("c"));
    assert_eq!(ranges, [r#""1" ["0"]"#, r#""3" ["0","2"]"#, r#""4" ["0","2"]"#]);
    let merged =
        world.engine().layouts().merge_partitions(&name("d"), &name("c"), Some(("3", "1")));
    assert_eq!(
        merged.expect("neighbours"),
        LayoutChangeResult { parents: vec![1, 3], children: vec![5] }
    );
    let (fourth, ranges) = shown(&world.container("c"));
    assert_eq!(ranges, [r#""5" ["0","1","2","3"]"#, r#""4" ["0","2"]"#]);
    let etags: BTreeSet<String> = [first, second, third, fourth].into();
    assert_eq!(etags.len(), 4);
    let container = world.container("c");
    let [one, two] = &container.partitions[..] else { panic!("two partitions") };
    assert_eq!(
        (one.range.min.clone(), two.range.max.clone()),
        (EffectiveKey::min(), EffectiveKey::max())
    );
    assert_eq!(one.range.max, two.range.min);
}

#[test]
fn what_cannot_be_split_or_merged_stays() {
    let world = filled(World::memory(), Some(18_000));
    let split = |id: Option<&str>, at: Option<&str>| {
        let at = at.map(|hex| EffectiveKey::parse(hex).expect("hex"));
        world.engine().layouts().split_partition(&name("d"), &name("c"), id, at.as_ref()).map(drop)
    };
    let merge = |a: &str, b: &str| {
        world.engine().layouts().merge_partitions(&name("d"), &name("c"), Some((a, b))).map(drop)
    };
    let container = world.container("c");
    let etag = |container: &Container| world.engine().layouts().ranges_etag(container);
    let before = etag(&container);
    for unknown in ["9", "-1", "x", ""] {
        assert_eq!(split(Some(unknown), None), Err(Error::PartitionGone), "{unknown}");
        assert_eq!(merge("0", unknown), Err(Error::PartitionGone), "{unknown}");
    }
    for outside in ["", "30", "FF"] {
        assert!(matches!(split(Some("0"), Some(outside)), Err(Error::Invalid(_))), "{outside}");
    }
    let start = container.partitions[1].range.min.to_string();
    assert!(matches!(split(Some("1"), Some(&start)), Err(Error::Invalid(_))), "where it begins");
    assert!(matches!(merge("0", "2"), Err(Error::Invalid(_))), "they are not side by side");
    assert!(matches!(merge("1", "1"), Err(Error::Invalid(_))), "one is not two");
    assert_eq!(etag(&world.container("c")), before);
    let nowhere = world.engine().layouts().split_partition(&name("d"), &name("none"), None, None);
    assert_eq!(nowhere, Err(Error::NotFound));
    let single = filled(World::memory(), None);
    let merged = single.engine().layouts().merge_partitions(&name("d"), &name("c"), None);
    assert!(matches!(merged, Err(Error::Invalid(_))), "there is one: {merged:?}");
}

#[test]
fn data_is_divided_and_logical_partitions_are_not() {
    let world = filled(World::memory(), None);
    split(&world, None);
    let counts: Vec<u64> = world
        .engine()
        .insight()
        .usage(&world.container("c"))
        .map(|_| {
            let container = world.container("c");
            let of = |id: u32| ScopeRequest {
                range_id: Some(id.to_string().into()),
                ..ScopeRequest::default()
            };
            container
                .partitions
                .iter()
                .map(|p| items(&world, &of(p.id), || {}).len() as u64)
                .collect()
        })
        .expect("a usage");
    assert!(counts.iter().all(|count| (20..=40).contains(count)), "{counts:?}");
    // One logical partition alone: its range is cut where it is empty.
    let mut world = World::memory();
    world.database();
    world.create_container(DEFINITION, None);
    for n in 0..20 {
        upsert(&world, &format!(r#"{{"id":"{n}","p":1,"u":{n}}}"#)).expect("an upsert");
    }
    split(&world, None);
    let container = world.container("c");
    assert_eq!(world.engine().insight().verify(&container), Ok(vec![]));
    assert_eq!(container.partitions.len(), 2);
}

#[test]
fn an_erasure_and_a_rebuilding_index_go_on() {
    for change in CHANGES {
        let mut world = filled(World::memory(), change.throughput());
        let policy = DEFINITION.replace(
            r#""compositeIndexes""#,
            r#""excludedPaths":[{"path":"/s/?"}],"compositeIndexes""#,
        );
        let none = Preconditions::default();
        world
            .engine()
            .containers()
            .replace(&name("d"), &name("c"), &json(&policy), &none)
            .expect("a replace");
        let erased = world.engine().erasure().erase_partition_key(&world.container("c"), &key(3));
        erased.expect("it is accepted");
        change.apply(&world);
        let left = items(&world, &ScopeRequest::default(), || {});
        assert_eq!(left.len(), 54, "{change:?}");
        world.reopen();
        assert_eq!(items(&world, &ScopeRequest::default(), || {}), left, "{change:?}");
        world.run_tasks();
        let container = world.container("c");
        assert_eq!(world.engine().index_build().index_progress(&container), Ok(100));
        assert_eq!(world.engine().insight().verify(&container), Ok(vec![]), "{change:?}");
        assert_eq!(items(&world, &ScopeRequest::default(), || {}), left);
    }
}

#[test]
fn the_space_of_parents_is_given_back_later() {
    let mut world = filled(World::memory(), None);
    let old = world.container("c");
    split(&world, None);
    world.run_tasks();
    // A read that began before still has what it began with.
    assert!(world.engine().items().read(&old, Some(&key(1)), &name("1")).is_ok());
    world.clock.advance_s(61);
    world.run_tasks();
    // And one that comes very late takes the new layout.
    assert!(world.engine().items().read(&old, Some(&key(1)), &name("1")).is_ok());
    let scope = old.scope(&ScopeRequest::default()).expect("a scope");
    let page = world.engine().queries().read_items(&old, &scope, PageSize { items: 100 }, None);
    assert_eq!(page.expect("a page").items.len(), 60);
    assert_eq!(upsert(&world, r#"{"id":"1","p":1,"u":1,"n":0}"#), Ok(()));
}

#[test]
fn throughput_and_size_split_by_themselves() {
    use orrery_engine::partition::layout::LayoutPolicy;
    use orrery_engine::throughput::Migration;

    let mut world = filled(World::one(), None);
    assert_eq!(world.engine().layouts().run_splits(&|| false), Ok(0), "nothing is due");
    let offer = |world: &World, units: i64| {
        let container = world.container("c");
        let offers = world.engine().offers().list().expect("offers");
        let is_own = |o: &&orrery_engine::Resource| {
            o.body.get("offerResourceId").as_str() == Some(container.rid_text())
        };
        let offer = offers.iter().find(is_own).expect("an offer").clone();
        let orrery_types::ids::Rid::Offer(number) = offer.rid else { panic!("an offer") };
        let body = json(&format!(r#"{{"content":{{"offerThroughput":{units}}}}}"#));
        let none = Preconditions::default();
        world.engine().offers().replace(number, &body, Migration::None, &none).expect("a replace")
    };
    let pending = |offer: &orrery_engine::Resource| {
        offer.body.get("content").get("isOfferReplacePending").is_true()
    };
    assert!(pending(&offer(&world, 35_000)));
    assert_eq!(world.engine().layouts().run_splits(&|| false), Ok(3));
    assert_eq!(world.container("c").partitions.len(), 4);
    assert!(!pending(&offer(&world, 400)), "less merges nothing");
    assert_eq!(world.engine().layouts().run_splits(&|| false), Ok(0));
    assert_eq!(world.container("c").partitions.len(), 4);
    world.reopen();
    assert_eq!(world.container("c").partitions.len(), 4);

    let policy = LayoutPolicy {
        partition_bytes_max: 20_000,
        partitions_first: 2,
        ..LayoutPolicy::default()
    };
    let mut world = World::memory().with_layout(policy);
    world.database();
    world.create_container(DEFINITION, None);
    assert_eq!(world.container("c").partitions.len(), 2, "as many as the policy says");
    for n in 0..200 {
        put(&world, n);
    }
    let splits = world.engine().layouts().run_splits(&|| false).expect("splits");
    assert!(splits >= 2, "{splits} splits");
    assert_eq!(
        world.engine().layouts().run_splits(&|| false),
        Ok(0),
        "until all are small, or one key's"
    );
    assert_eq!(items(&world, &ScopeRequest::default(), || {}).len(), 200);
    assert_eq!(world.engine().insight().verify(&world.container("c")), Ok(vec![]));
}
