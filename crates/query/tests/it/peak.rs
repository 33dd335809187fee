//! What an execution holds is what it counts: hostile queries run in a process of their own, whose
//! greatest size is compared with the memory that the query was given.

use std::process::Command;

use orrery_query::{ContainerFacts, PageLimits, Query};
use orrery_types::Value;

use crate::memory::{MemorySource, context, page};

/// What the queries are given.
const GIVEN_BYTES: usize = 64 << 20;
/// What the process may grow by beside it, for code that is run for the first time and for items.
const BESIDE_BYTES: usize = 40 << 20;
const NUMBER: &str = "ORRERY_HOSTILE_QUERY";

const JOINS: &str = "FROM c JOIN x IN c.l JOIN y IN c.l JOIN z IN c.l";

/// Each wants more than it is given.
fn hostile() -> Vec<String> {
    vec![
        format!("SELECT x, y, z, COUNT(1) AS n {JOINS} GROUP BY x, y, z"),
        format!(
            "SELECT x, y, SUM(x) AS a, AVG(y) AS b, MIN(x) AS d, MAX(y) AS e, COUNT(1) AS n {JOINS} \
             GROUP BY x, y, z"
        ),
        format!("SELECT CONCAT('k', ToString(x * 1000000 + y * 1000 + z)) AS k {JOINS} GROUP BY \
                 CONCAT('k', ToString(x * 1000000 + y * 1000 + z))"),
        format!("SELECT MAKESET(x + y * 1000) AS s {JOINS} GROUP BY x, y, z"),
        format!("SELECT VALUE MAKELIST([x, y, z]) {JOINS}"),
        format!("SELECT VALUE MAKESET([x, y, z]) {JOINS}"),
        format!("SELECT DISTINCT VALUE [x, y, z] {JOINS}"),
        format!("SELECT DISTINCT x, y, z {JOINS}"),
        format!("SELECT VALUE {{'a': x, 'b': [y, z]}} {JOINS} ORDER BY c.id"),
        "SELECT VALUE ARRAY(SELECT x, y, z FROM x IN c.l JOIN y IN c.l JOIN z IN c.l) FROM c".into(),
        "SELECT VALUE StringJoin(StringSplit(StringJoin(StringSplit(c.s, ','), c.s), ','), c.s) FROM c"
            .into(),
        "SELECT VALUE ARRAY_LENGTH(StringSplit(REPLACE(c.s, 'a', 'b,c,d,e,f,g,h'), ',')) FROM c".into(),
        "SELECT VALUE ARRAY_LENGTH(ARRAY_CONCAT(StringSplit(c.s, ','), StringSplit(c.s, ','), \
         StringSplit(c.s, ','), StringSplit(c.s, ','))) FROM c"
            .into(),
        "SELECT VALUE ARRAY_LENGTH(ARRAY_CONCAT(StringToArray(c.j), StringToArray(c.j), \
         StringToArray(c.j), StringToArray(c.j))) FROM c"
            .into(),
        "SELECT VALUE [StringSplit(c.s, ','), [StringSplit(c.s, ','), [StringSplit(c.s, ',')]]] FROM c"
            .into(),
        "SELECT VALUE ARRAY_LENGTH(a) + ARRAY_LENGTH(b) + ARRAY_LENGTH(d) FROM c JOIN (SELECT VALUE \
         StringSplit(c.s, ',')) a JOIN (SELECT VALUE StringSplit(c.s, ',')) b JOIN (SELECT VALUE \
         StringSplit(c.s, ',')) d"
            .into(),
        "SELECT VALUE COUNT(1) FROM c JOIN x IN (SELECT DISTINCT VALUE [t, u] FROM t IN c.l JOIN u IN \
         c.l JOIN v IN c.l) WHERE x[0] = 1"
            .into(),
        "SELECT VALUE LENGTH(CONCAT(c.s, c.s) || CONCAT(c.s, c.s)) FROM c JOIN x IN c.l".into(),
    ]
}

fn items() -> Vec<Value> {
    let numbers: Vec<String> = (0..220).map(|n| n.to_string()).collect();
    let (s, j) = ("a,".repeat(400_000), "\"\",".repeat(400_000));
    let text = format!(
        r#"[{{"id":"1","l":[{}],"s":"{s}","j":{}}}]"#,
        numbers.join(","),
        Value::from(format!("[{j}0]")).to_json(),
    );
    Value::parse(text.as_bytes()).expect("items").as_array().expect("a list").to_vec()
}

/// A line of the process's status, in bytes; `None` where the system has no such thing.
fn status_bytes(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

/// The process of one query: prints by how much it grew.
#[test]
#[expect(clippy::print_stdout, reason = "the other test reads it")]
fn runs_one_hostile_query_if_it_is_told_which() {
    let Ok(number) = std::env::var(NUMBER) else { return };
    let text = &hostile()[number.parse::<usize>().expect("a number")];
    let query = Query::parse(text).expect(text).bind(&[], &ContainerFacts::default()).expect(text);
    let mut given = context();
    (given.limits.bytes_max, given.limits.steps_max) = (GIVEN_BYTES, 100_000_000);
    let mut source = MemorySource::new(items());
    let before = status_bytes("VmRSS:").expect("a size");
    let answer = page(&query, &mut source, None, PageLimits::default(), &given);
    let grown = status_bytes("VmHWM:").expect("a size").saturating_sub(before);
    println!("\ngrown {grown} {}", answer.map_or_else(|e| e.to_string(), |_| "answered".into()));
}

#[test]
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn a_query_holds_no_more_than_it_counts() {
    if status_bytes("VmHWM:").is_none() {
        println!("skipped: the system does not tell how large a process was");
        return;
    }
    let program = std::env::current_exe().expect("this program");
    for (number, text) in hostile().iter().enumerate() {
        let mut child = Command::new(&program);
        child.args(["--exact", "peak::runs_one_hostile_query_if_it_is_told_which", "--nocapture"]);
        let output = child.env(NUMBER, number.to_string()).output().expect("a process");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = output.lines().find_map(|line| line.strip_prefix("grown ")).expect(&output);
        let (grown, answer) = line.split_once(' ').expect(line);
        let grown: usize = grown.parse().expect(line);
        // A list that grows is in memory twice for a moment.
        assert!(grown < 2 * GIVEN_BYTES + BESIDE_BYTES, "{text} grew by {grown}: {answer}");
    }
}
