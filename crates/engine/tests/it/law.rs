//! The law of the index: whatever the items, the policy, the partitions and the query, a plan that
//! uses the index gives the rows that a scan gives, whole and in pages.
//!
//! `ORRERY_LAW_QUERIES` sets how many queries run, `ORRERY_LAW_SEED` where they begin.

use orrery_engine::Container;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::{Scope, ScopeRequest};
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{Result, Value};

use crate::law_queries::{Case, Checked, item, policy};
use crate::random::Random;
use crate::world::{World, json, name};

const QUERIES: u64 = 20_000;
const QUERIES_PER_DATA: u64 = 500;
const WHOLE: usize = 1_000_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn the_index_answers_as_a_scan_does() {
    let queries = setting("ORRERY_LAW_QUERIES", QUERIES);
    let first = setting("ORRERY_LAW_SEED", 1);
    let mut indexed = 0;
    for round in 0..queries.div_ceil(QUERIES_PER_DATA) {
        indexed += check_data(first + round, queries.min(QUERIES_PER_DATA));
    }
    assert!(indexed * 4 > queries, "only {indexed} of {queries} queries used the index");
}

/// Checks queries over one set of items; says how many used the index.
fn check_data(seed: u64, queries: u64) -> u64 {
    let mut random = Random::new(seed);
    let data = Data::new(&mut random);
    let mut indexed = 0;
    for number in 0..queries {
        let case = Case::random(&mut random);
        let rows = 1 + random.below(30);
        match data.check(&case, rows) {
            Ok(used) => indexed += u64::from(used),
            Err(why) => panic!(
                "seed {seed}, query {number}, pages of {rows}, policy {}\n{}\n{why}",
                data.policy, case.text
            ),
        }
    }
    indexed
}

fn definition(policy: &str) -> String {
    format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/pk"],"kind":"Hash"}},"indexingPolicy":{policy}}}"#
    )
}

/// Writes the item with a number, new or over its last version.
fn write(world: &World, random: &mut Random, number: usize) {
    let item = item(random, number);
    let container = world.container("c");
    let written =
        world.engine().items().upsert(&container, None, item.as_bytes(), &Preconditions::default());
    written.expect(&item);
}

/// Gives the container another policy; the index is rebuilt, or not yet.
fn change_policy(world: &mut World, random: &mut Random) -> String {
    let policy = policy(random);
    let body = json(&definition(&policy));
    let (database, id) = (name("d"), name("c"));
    let replaced =
        world.engine().containers().replace(&database, &id, &body, &Preconditions::default());
    replaced.expect(&policy);
    if random.one_in(2) {
        world.run_tasks();
    }
    policy
}

/// Splits a partition or merges two: no answer depends on it.
fn change_layout(world: &World, random: &mut Random) {
    let (database, id) = (name("d"), name("c"));
    if world.container("c").partitions.len() > 1 && random.one_in(2) {
        world.engine().layouts().merge_partitions(&database, &id, None).expect("a merge");
    } else {
        world.engine().layouts().split_partition(&database, &id, None, None).expect("a split");
    }
}

struct Data {
    world: World,
    policy: String,
}

impl Data {
    fn new(random: &mut Random) -> Self {
        let mut world = World::memory();
        world.database();
        let mut policy = policy(random);
        let throughput = [None, Some(18_000), Some(30_000)][random.below(3)];
        world.create_container(&definition(&policy), throughput);
        let items = 10 + random.below(90);
        let changes_at = random.one_in(3).then(|| random.below(items));
        for number in 0..items {
            if changes_at == Some(number) {
                policy = change_policy(&mut world, random);
            }
            write(&world, random, number);
        }
        // Holes in the rows, and terms that came and went.
        for _ in 0..items / 5 {
            let number = random.below(items);
            write(&world, random, number);
        }
        for _ in 0..random.below(3) {
            change_layout(&world, random);
        }
        Self { world, policy }
    }

    fn check(&self, case: &Case, page_rows: usize) -> std::result::Result<bool, String> {
        let container = self.world.container("c");
        let partition_key = case.key.clone();
        let scope = container.scope(&ScopeRequest { partition_key, ..Default::default() });
        let scope = scope.map_err(|e| e.to_string())?;
        let body = format!(r#"{{"query":{}}}"#, Value::from(case.text.as_str()).to_json());
        let request = QueryRequest::parse(&json(&body)).map_err(|e| e.to_string())?;
        let run = |without_index, page_rows| {
            self.all(&container, &scope, &request, without_index, page_rows)
        };
        let (scanned, (whole, plan)) = match (run(true, WHOLE), run(false, WHOLE)) {
            (Ok((scanned, _)), Ok(whole)) => (scanned, whole),
            // What is refused is refused either way.
            (Err(a), Err(b)) if a == b => return Ok(false),
            (a, b) => return Err(format!("{a:?}\n{b:?}")),
        };
        case.compare(&scanned, &whole).map_err(|e| format!("whole: {e}\n{plan}"))?;
        let paged = match page_rows % 4 {
            0 => run(true, page_rows).map(|(rows, _)| rows),
            1 => self.changing(&container, &scope, &request, page_rows),
            _ => run(false, page_rows).map(|(rows, _)| rows),
        };
        let paged = paged.map_err(|e| format!("in pages: {e}\n{plan}"))?;
        case.compare(&scanned, &paged).map_err(|e| format!("in pages: {e}\n{plan}"))?;
        Ok(!plan.contains("Scan"))
    }

    fn all(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        without_index: bool,
        page_rows: usize,
    ) -> Result<(Vec<Value>, String)> {
        let mut next = None;
        let mut rows = Vec::new();
        loop {
            let (page, plan) =
                self.page(container, scope, request, without_index, page_rows, next.as_deref())?;
            rows.extend(page.0);
            next = page.1;
            if next.is_none() {
                return Ok((rows, plan));
            }
        }
    }

    /// Every other page by a scan.
    fn changing(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        page_rows: usize,
    ) -> Result<Vec<Value>> {
        let (mut next, mut rows, mut without_index) = (None, Vec::new(), false);
        loop {
            let (page, _) =
                self.page(container, scope, request, without_index, page_rows, next.as_deref())?;
            rows.extend(page.0);
            next = page.1;
            without_index = !without_index;
            if next.is_none() {
                return Ok(rows);
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "rows, token and plan of one page")]
    fn page(
        &self,
        container: &Container,
        scope: &Scope,
        request: &QueryRequest,
        without_index: bool,
        page_rows: usize,
        continuation: Option<&str>,
    ) -> Result<((Vec<Value>, Option<String>), String)> {
        let paging = Paging {
            continuation,
            crosses: true,
            explains: true,
            without_index,
            ..Paging::default()
        };
        let size = PageSize { items: page_rows };
        let page =
            self.world.engine().queries().query_items(container, scope, request, size, &paging)?;
        let rows = page.rows.iter().map(|row| json(row)).collect();
        let plan = page.report.plan.map(|plan| plan.to_text()).unwrap_or_default();
        Ok(((rows, page.continuation), plan))
    }
}

impl Case {
    fn compare(&self, scanned: &[Value], found: &[Value]) -> std::result::Result<(), String> {
        let same = match self.checked {
            Checked::InOrder => scanned == found,
            Checked::AsSet => {
                let sorted = |rows: &[Value]| {
                    let mut rows = rows.to_vec();
                    rows.sort_unstable();
                    rows
                };
                sorted(scanned) == sorted(found)
            }
            Checked::Count => scanned.len() == found.len(),
        };
        if same {
            return Ok(());
        }
        let shown = |rows: &[Value]| Value::array(rows.to_vec()).to_json();
        Err(format!("a scan gives {}\nthe index {}", shown(scanned), shown(found)))
    }
}
