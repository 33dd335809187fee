//! Ordered queries resumed by hand-written requests. A client that merges ranges sends a rewritten query
//! with a `resumeFilter`: the keys of a row (`value`), the item (`rid`) in the range where it stopped, and
//! whether to begin behind them (`exclude`). Here it does so at every row of every range, over one range,
//! over three, and after the range of the row was split.

use std::cmp::Ordering;
use std::fmt::Write as _;

use orrery_types::Value;
use orrery_types::json::write_json_string;

use crate::client::Client;
use crate::process::Running;

const CONTAINER: &str = "/dbs/d/colls/c";
const ITEMS: &str = "/dbs/d/colls/c/docs";
const COUNT: usize = 30;

/// Values of every type in ascending order, without duplicates. The first stands for a missing property.
const VALUES: [&str; 13] = [
    "",
    "null",
    "false",
    "true",
    "-1.5",
    "7",
    "9007199254740991",
    "\"\"",
    "\"a\"",
    "\"it's \\\"so\\\"\"",
    "\"\\u00e9\"",
    "[null]",
    "{\"prop\":1234}",
];

/// The last two as a client names them: by the halves of the hash that the .NET SDK computes.
const ARRAY: &str = r#"{"type":"array","low":3422993424334941761,"high":4507694720966932533}"#;
const OBJECT: &str = r#"{"type":"object","low":-2772937414114091862,"high":-7242688885192856661}"#;

/// A query, and by which of the numbers in `k` its rows are ordered.
struct Ordered {
    text: &'static str,
    keys: &'static [(&'static str, Direction)],
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Up,
    Down,
}

use Direction::{Down, Up};

const QUERIES: [Ordered; 17] = [
    Ordered { text: "SELECT c.id, c.k FROM c ORDER BY c.v", keys: &[("v", Up)] },
    Ordered { text: "SELECT c.id, c.k FROM c ORDER BY c.v DESC", keys: &[("v", Down)] },
    Ordered { text: "SELECT c.id, c.k FROM c WHERE c.n > 0 ORDER BY c.v", keys: &[("v", Up)] },
    Ordered { text: "SELECT c.id, c.k FROM c ORDER BY c.same", keys: &[("same", Up)] },
    Ordered { text: "SELECT c.id, c.k FROM c ORDER BY c.same DESC", keys: &[("same", Down)] },
    Ordered {
        text: "SELECT c.id, c.k FROM c ORDER BY c.n, c.s DESC",
        keys: &[("n", Up), ("s", Down)],
    },
    Ordered {
        text: "SELECT c.id, c.k FROM c ORDER BY c.n DESC, c.s",
        keys: &[("n", Down), ("s", Up)],
    },
    Ordered { text: "SELECT c.id, c.k FROM c ORDER BY c.n, c.s", keys: &[("n", Up), ("s", Up)] },
    Ordered { text: "SELECT c.id, c.k FROM c ORDER BY c.v, c.n", keys: &[("v", Up), ("n", Up)] },
    Ordered {
        text: "SELECT c.id, c.k FROM c ORDER BY c.v DESC, c.n DESC",
        keys: &[("v", Down), ("n", Down)],
    },
    Ordered {
        text: "SELECT c.id, c.k, t FROM c JOIN t IN c.tags ORDER BY c.n",
        keys: &[("n", Up)],
    },
    Ordered {
        text: "SELECT c.id, c.k, t FROM c JOIN t IN c.tags ORDER BY c.v DESC",
        keys: &[("v", Down)],
    },
    Ordered { text: "SELECT TOP 17 c.id, c.k FROM c ORDER BY c.v", keys: &[("v", Up)] },
    Ordered {
        text: "SELECT c.id, c.k FROM c ORDER BY c.v DESC OFFSET 3 LIMIT 9",
        keys: &[("v", Down)],
    },
    Ordered { text: "SELECT c.id, c.k FROM c ORDER BY c.id OFFSET 5 LIMIT 20", keys: &[("i", Up)] },
    Ordered { text: "SELECT DISTINCT c.n, c.k.n AS k FROM c ORDER BY c.n", keys: &[("", Up)] },
    Ordered {
        text: "SELECT DISTINCT VALUE {\"k\": c.n} FROM c ORDER BY c.n DESC",
        keys: &[("", Down)],
    },
];

impl Ordered {
    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        for (n, (_, direction)) in self.keys.iter().enumerate() {
            let order = a.ranks[n].cmp(&b.ranks[n]);
            let order = if *direction == Down { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    /// Whether the server ends the rows of a range itself.
    fn is_cut(&self) -> bool {
        self.text.contains("TOP") || self.text.contains("LIMIT")
    }
}

/// A row of a rewritten query.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    rid: String,
    /// The keys as a `resumeFilter` has them.
    value: String,
    ranks: Vec<i64>,
    payload: String,
}

impl Row {
    fn read(query: &Ordered, row: &Value) -> Self {
        let items = row.get("orderByItems").as_array().unwrap();
        let value: Vec<String> = items.iter().map(|item| resume_value(item.get("item"))).collect();
        let payload = row.get("payload");
        let rank = |name: &str| {
            let numbers = payload.get("k");
            let number = if name.is_empty() { numbers } else { numbers.get(name) };
            number.as_i64().unwrap_or_else(|| panic!("{name} of {}", payload.to_json()))
        };
        Self {
            rid: row.get("_rid").as_str().unwrap_or_default().to_owned(),
            value: format!("[{}]", value.join(",")),
            ranks: query.keys.iter().map(|(name, _)| rank(name)).collect(),
            payload: payload.to_json(),
        }
    }
}

/// A key as the .NET SDK writes it: an empty array is a missing one.
fn resume_value(value: &Value) -> String {
    match value {
        Value::Undefined => "[]".to_owned(),
        Value::Array(_) => ARRAY.to_owned(),
        Value::Object(_) => OBJECT.to_owned(),
        scalar => scalar.to_json(),
    }
}

/// Where a query is resumed.
struct Position<'r> {
    row: &'r Row,
    with_rid: bool,
    exclude: bool,
}

impl Position<'_> {
    fn filter(&self) -> String {
        let rid =
            if self.with_rid { format!(r#","rid":"{}""#, self.row.rid) } else { String::new() };
        format!(r#"{{"value":{}{rid},"exclude":{}}}"#, self.row.value, self.exclude)
    }

    /// The rows that follow, of all rows of a range in their order. A position with a `rid` is that of a
    /// row of this range.
    fn rest<'a>(&self, query: &Ordered, all: &'a [Row]) -> &'a [Row] {
        let start = if self.with_rid {
            let same = |row: &Row| row.rid == self.row.rid;
            if self.exclude {
                all.iter().rposition(same).map(|last| last + 1)
            } else {
                all.iter().position(same)
            }
        } else {
            let least = if self.exclude { Ordering::Greater } else { Ordering::Equal };
            all.iter().position(|row| query.compare(row, self.row) >= least)
        };
        &all[start.unwrap_or(all.len())..]
    }
}

struct Server {
    _process: Running,
    client: Client,
}

impl Server {
    fn start(ranges: &str) -> Self {
        let plain = ["--listen", "127.0.0.1:0", "--no-tls", "--log", "error"];
        let process = Running::start(&[&["--memory", "--ranges", ranges], &plain[..]].concat());
        let client = Client::open(process.address(), &process.key()).unwrap();
        let mut server = Self { _process: process, client };
        server.fill();
        server
    }

    /// Items of many keys, with each of the values at `v` twice or more, and under `k` the place of each
    /// of the item's values in its order.
    fn fill(&mut self) {
        self.client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
        let composite = |paths: &[(&str, &str)]| {
            let path =
                |(path, order): &(&str, &str)| format!(r#"{{"path":"{path}","order":"{order}"}}"#);
            format!("[{}]", paths.iter().map(path).collect::<Vec<_>>().join(","))
        };
        let (up, down) = ("ascending", "descending");
        let composites = [
            composite(&[("/n", up), ("/s", down)]),
            composite(&[("/n", up), ("/s", up)]),
            composite(&[("/v", up), ("/n", up)]),
        ];
        let definition = format!(
            r#"{{"id":"c","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}},
            "indexingPolicy":{{"compositeIndexes":[{}]}}}}"#,
            composites.join(",")
        );
        self.client.must("POST", "/dbs/d/colls", &[], &definition);
        for i in 0..COUNT {
            let (p, n, s, v) = (i % 9, i % 4, i % 5, i * 5 % VALUES.len());
            let value = if v == 0 { String::new() } else { format!(",\"v\":{}", VALUES[v]) };
            let tags = ["[]", "[1]", "[1,2,3]"][i % 3];
            let body = format!(
                r#"{{"id":"{i:02}","p":{p},"n":{n},"s":"s{s}","same":"x","tags":{tags}{value},
                "k":{{"i":{i},"v":{v},"n":{n},"s":{s},"same":0}}}}"#
            );
            let key = format!("[{p}]");
            self.client.must("POST", ITEMS, &[("x-ms-documentdb-partitionkey", &key)], &body);
        }
    }

    fn ranges(&mut self) -> Vec<String> {
        let ranges = self.client.feed(&format!("{CONTAINER}/pkranges"), "PartitionKeyRanges");
        ranges.iter().map(|range| range.get("id").as_str().unwrap().to_owned()).collect()
    }

    /// The query that a client sends to each range.
    fn rewritten(&mut self, query: &Ordered) -> String {
        let mut body = r#"{"query":"#.to_owned();
        write_json_string(query.text, &mut body);
        let headers = [
            ("x-ms-cosmos-is-query-plan-request", "True"),
            ("x-ms-documentdb-isquery", "true"),
            ("content-type", "application/query+json"),
            (
                "x-ms-cosmos-supported-query-features",
                "OrderBy, MultipleOrderBy, OffsetAndLimit, Top, Distinct",
            ),
        ];
        let plan = self.client.must("POST", ITEMS, &headers, &format!("{body}}}"));
        let plan = Value::parse(plan.body.as_bytes()).unwrap();
        let text = plan.get("queryInfo").get("rewrittenQuery").as_str().unwrap().to_owned();
        text.replace("{documentdb-formattableorderbyquery-filter}", "true")
    }

    /// One page of a range, and the token of the next.
    fn page(
        &mut self,
        asked: &Asked<'_>,
        filter: Option<&str>,
        token: Option<&str>,
        size: usize,
    ) -> (Vec<Row>, Option<String>) {
        let mut body = r#"{"query":"#.to_owned();
        write_json_string(asked.rewritten, &mut body);
        if let Some(filter) = filter {
            let _ = write!(body, r#","resumeFilter":{filter}"#);
        }
        let size = size.to_string();
        let mut headers = vec![
            ("x-ms-documentdb-isquery", "true"),
            ("content-type", "application/query+json"),
            ("x-ms-documentdb-query-enablecrosspartition", "true"),
            ("x-ms-documentdb-partitionkeyrangeid", asked.range),
            ("x-ms-max-item-count", &size),
        ];
        headers.extend(token.map(|token| ("x-ms-continuation", token)));
        let answer = self.client.must("POST", ITEMS, &headers, &format!("{body}}}"));
        let rows = Value::parse(answer.body.as_bytes()).unwrap();
        let rows = rows.get("Documents").as_array().unwrap().iter();
        let rows = rows.map(|row| Row::read(asked.query, row)).collect();
        (rows, answer.header("x-ms-continuation").map(str::to_owned))
    }

    /// All rows of a range from a position on. The position goes with every page.
    fn rows(&mut self, asked: &Asked<'_>, filter: Option<&str>, size: usize) -> Vec<Row> {
        let (mut rows, mut token) = (Vec::new(), None);
        for _ in 0..200 {
            let (page, next) = self.page(asked, filter, token.as_deref(), size);
            rows.extend(page);
            token = next;
            if token.is_none() {
                return rows;
            }
        }
        panic!("a query without end: {} {filter:?}", asked.rewritten);
    }
}

/// What is asked of which range.
struct Asked<'a> {
    query: &'a Ordered,
    rewritten: &'a str,
    range: &'a str,
}

/// All positions that a row of this range gives, and those that go to the others.
fn positions(row: &Row, own: bool) -> impl Iterator<Item = Position<'_>> {
    let has_rid = own && !row.rid.is_empty();
    let kinds = [(false, false), (false, true), (true, false), (true, true)];
    let kinds = kinds.into_iter().filter(move |(with_rid, _)| has_rid || !with_rid);
    kinds.map(move |(with_rid, exclude)| Position { row, with_rid, exclude })
}

#[test]
fn every_row_of_every_ordered_query_is_a_position() {
    for ranges in ["1", "3"] {
        let mut server = Server::start(ranges);
        let ranges = server.ranges();
        for query in &QUERIES {
            let rewritten = server.rewritten(query);
            let asked = |range| Asked { query, rewritten: &rewritten, range };
            let all: Vec<Vec<Row>> =
                ranges.iter().map(|range| server.rows(&asked(range), None, 1000)).collect();
            let count: usize = all.iter().map(Vec::len).sum();
            assert!(count > 3, "{}", query.text);
            for rows in &all {
                let is_sorted = rows.is_sorted_by(|a, b| query.compare(a, b).is_le());
                assert!(is_sorted, "{}: {rows:?}", query.text);
            }
            for (at, range) in ranges.iter().enumerate() {
                for (of, row) in
                    all.iter().enumerate().flat_map(|(of, rows)| rows.iter().map(move |r| (of, r)))
                {
                    for position in positions(row, of == at) {
                        let filter = position.filter();
                        let expected = position.rest(query, &all[at]);
                        let context = || format!("{} in {range} from {filter}", query.text);
                        for size in [1000, 2] {
                            let found = server.rows(&asked(range), Some(&filter), size);
                            assert_eq!(found, expected, "{}", context());
                        }
                    }
                }
            }
        }
    }
}

/// Of a token and a position, the one that is further on counts.
#[test]
fn a_token_and_a_position_are_taken_together() {
    let mut server = Server::start("1");
    for query in &QUERIES {
        let rewritten = server.rewritten(query);
        let asked = Asked { query, rewritten: &rewritten, range: "0" };
        let all = server.rows(&asked, None, 1000);
        for read in [1, 4, 9] {
            let (page, token) = server.page(&asked, None, None, read);
            let Some(token) = token else { continue };
            for row in &all {
                for position in positions(row, true) {
                    let filter = position.filter();
                    let left = position.rest(query, &all).len().min(all.len() - page.len());
                    let expected = &all[all.len() - left..];
                    let (found, _) = server.page(&asked, Some(&filter), Some(&token), 1000);
                    let context = || format!("{} after {read} rows from {filter}", query.text);
                    assert_eq!(found, expected, "{}", context());
                }
            }
        }
    }
}

/// Both halves of a range that was split get the position of the whole, and together have what was left.
#[test]
fn a_position_outlives_the_split_of_its_range() {
    for (ranges, split) in [("1", "0"), ("3", "1")] {
        let mut server = Server::start(ranges);
        let rewritten: Vec<String> = QUERIES.iter().map(|query| server.rewritten(query)).collect();
        let asked = |n: usize, range| Asked { query: &QUERIES[n], rewritten: &rewritten[n], range };
        let all: Vec<Vec<Row>> =
            (0..QUERIES.len()).map(|n| server.rows(&asked(n, split), None, 1000)).collect();
        let before = server.ranges();
        let path = format!("{CONTAINER}/operations/split");
        server.client.must("POST", &path, &[], &format!(r#"{{"range":"{split}"}}"#));
        let halves: Vec<String> =
            server.ranges().into_iter().filter(|range| !before.contains(range)).collect();
        assert_eq!(halves.len(), 2, "{halves:?}");
        for (n, query) in QUERIES.iter().enumerate() {
            for row in &all[n] {
                for position in positions(row, true) {
                    let filter = position.filter();
                    let context = || format!("{} from {filter}", query.text);
                    let mut found = Vec::new();
                    for half in &halves {
                        let rows = server.rows(&asked(n, half), Some(&filter), 3);
                        let is_sorted = rows.is_sorted_by(|a, b| query.compare(a, b).is_le());
                        assert!(is_sorted, "{}: {rows:?}", context());
                        found.extend(rows.into_iter().map(|row| row.payload));
                    }
                    let expected = position.rest(query, &all[n]).iter();
                    let mut expected: Vec<String> =
                        expected.map(|row| row.payload.clone()).collect();
                    found.sort_unstable();
                    expected.sort_unstable();
                    if query.is_cut() {
                        // Each half counts for itself.
                        found.retain(|payload| expected.contains(payload));
                    }
                    assert_eq!(found, expected, "{}", context());
                }
            }
        }
    }
}
