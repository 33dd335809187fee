//! Random items, policies and queries for the law of the index. Few names and few values, so that
//! queries find something and values meet at every edge: types side by side, strings at the length
//! where terms are cut, numbers beyond those that doubles tell apart.

use orrery_types::{KeyComponent, PartitionKey};

use crate::random::Random;

/// How rows are compared with those of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    InOrder,
    AsSet,
    /// TOP and LIMIT without an order may take any rows.
    Count,
}

pub(crate) struct Case {
    pub(crate) text: String,
    pub(crate) key: Option<PartitionKey>,
    pub(crate) checked: Checked,
}

fn pick<'a>(random: &mut Random, list: &[&'a str]) -> &'a str {
    list[random.below(list.len())]
}

const NAMES: [&str; 6] = ["a", "b", "n", "s", "flag", "id"];
const KEYS: [&str; 4] = ["p0", "p1", "p2", "p3"];

fn scalar(random: &mut Random) -> String {
    let long = |length: usize, tail: &str| format!("\"{}{tail}\"", "m".repeat(length));
    match random.below(16) {
        0 => "null".into(),
        1 => "true".into(),
        2 => "false".into(),
        3..=6 => format!("{}", random.below(6)),
        7 => format!("{}.5", random.below(4)),
        8 => pick(random, &["-3", "-0.5", "9007199254740992", "9007199254740993"]).into(),
        9..=12 => format!("\"{}\"", pick(random, &["", "a", "ab", "abc", "b", "ba", "é"])),
        13 => format!("\"{}\"", pick(random, &["A", "aB", "a%", "[x"])),
        14 => long(250 + random.below(6), pick(random, &["", "x", "y"])),
        _ => long(300, pick(random, &["", "x", "y"])),
    }
}

fn value(random: &mut Random, depth: u32) -> String {
    match random.below(12) {
        0 if depth > 0 => {
            let count = random.below(4);
            let list: Vec<String> = (0..count).map(|_| value(random, depth - 1)).collect();
            format!("[{}]", list.join(","))
        }
        1 if depth > 0 => format!("{{\"x\":{}}}", value(random, depth - 1)),
        _ => scalar(random),
    }
}

/// An item with a number for its id; most properties may be missing.
pub(crate) fn item(random: &mut Random, number: usize) -> String {
    // The logical partition follows from the number, so that a later version replaces an earlier.
    let mut parts = vec![format!("\"id\":\"i{number}\",\"pk\":\"p{}\"", number % 4)];
    for name in ["a", "b"] {
        if random.below(8) > 0 {
            parts.push(format!("\"{name}\":{}", value(random, 2)));
        }
    }
    if random.below(10) > 0 {
        parts.push(match random.below(8) {
            // Numbers whose sum depends on the order in which doubles are added.
            0 => format!("\"n\":{}", pick(random, &["1e16", "-1e16", "0.1", "1e308", "-1e308"])),
            _ => format!("\"n\":{}", random.below(20)),
        });
    }
    if random.below(10) > 0 {
        parts.push(format!("\"s\":\"{}\"", pick(random, &["red", "green", "blue", "redder", ""])));
    }
    if random.below(3) > 0 {
        parts.push(format!("\"flag\":{}", random.below(2) == 0));
    }
    if random.below(3) > 0 {
        let count = random.below(4);
        let tags: Vec<String> = (0..count).map(|_| scalar(random)).collect();
        parts.push(format!("\"tags\":[{}]", tags.join(",")));
    }
    if random.below(3) > 0 {
        let count = random.below(3);
        let element = |random: &mut Random| match random.below(6) {
            0 => scalar(random),
            _ => format!("{{\"x\":{},\"y\":{}}}", scalar(random), random.below(4)),
        };
        let list: Vec<String> = (0..count).map(|_| element(random)).collect();
        parts.push(format!("\"list\":[{}]", list.join(",")));
    }
    if random.below(2) > 0 {
        parts.push(format!("\"o\":{{\"x\":{},\"d\":{}}}", scalar(random), random.below(5)));
    }
    format!("{{{}}}", parts.join(","))
}

pub(crate) fn policy(random: &mut Random) -> String {
    let composites = r#""compositeIndexes":[[{"path":"/n"},{"path":"/s","order":"descending"}],
        [{"path":"/a"},{"path":"/b"}],[{"path":"/s"},{"path":"/n"},{"path":"/a","order":"descending"}],
        [{"path":"/o/d","order":"descending"},{"path":"/n","order":"descending"}]]"#;
    match random.below(5) {
        0 => "{}".into(),
        1 => format!(
            r#"{{"includedPaths":[{{"path":"/*"}}],"excludedPaths":[{{"path":"/a/?"}},{{"path":"/tags/*"}}],{composites}}}"#
        ),
        2 => format!(
            r#"{{"includedPaths":[{{"path":"/n/?"}},{{"path":"/s/?"}},{{"path":"/list/[]/x/?"}}],"excludedPaths":[{{"path":"/*"}}],{composites}}}"#
        ),
        _ => format!("{{{composites}}}"),
    }
}

fn path(random: &mut Random) -> String {
    match random.below(10) {
        0 => "c.o.x".into(),
        1 => "c.o.d".into(),
        2 => "c.tags[0]".into(),
        3 => "c.a.x".into(),
        4 => "c.missing".into(),
        _ => format!("c.{}", pick(random, &NAMES)),
    }
}

/// A constant that is likely to be there.
fn constant(random: &mut Random) -> String {
    match random.below(12) {
        0 => "undefined".into(),
        1 => format!("[{}]", scalar(random)),
        2 => format!("{{\"x\":{}}}", scalar(random)),
        3..=5 => format!("\"{}\"", pick(random, &["red", "green", "blue", "re", "i3", "i10"])),
        6..=8 => format!("{}", random.below(20)),
        _ => scalar(random),
    }
}

fn condition(random: &mut Random, depth: u32) -> String {
    if depth > 0 {
        match random.below(10) {
            0..=2 => {
                let (a, b) = (condition(random, depth - 1), condition(random, depth - 1));
                return format!("({a} AND {b})");
            }
            3 | 4 => {
                let (a, b) = (condition(random, depth - 1), condition(random, depth - 1));
                return format!("({a} OR {b})");
            }
            5 => return format!("NOT ({})", condition(random, depth - 1)),
            _ => {}
        }
    }
    let path = path(random);
    atom(random, &path)
}

fn atom(random: &mut Random, path: &str) -> String {
    let comparison = |random: &mut Random| pick(random, &["=", "!=", "<", "<=", ">", ">="]);
    match random.below(20) {
        0..=3 => format!("{path} = {}", constant(random)),
        4..=6 => format!("{path} {} {}", comparison(random), constant(random)),
        7 => format!("{} {} {path}", constant(random), comparison(random)),
        8 => {
            let count = 1 + random.below(5);
            let list: Vec<String> = (0..count).map(|_| constant(random)).collect();
            format!("{path} {}IN ({})", pick(random, &["", "", "NOT "]), list.join(", "))
        }
        9 => {
            let negated = pick(random, &["", "", "NOT "]);
            // Brackets, for it takes neither AND nor OR beside it.
            format!("({path} {negated}BETWEEN {} AND {})", constant(random), constant(random))
        }
        10 => {
            let pattern =
                pick(random, &["a%", "re%", "%e%", "r_d", "red", "[a-b]%", "mmm%", "a!%%"]);
            let negated = pick(random, &["", "", "NOT "]);
            format!("{path} {negated}LIKE '{pattern}' ESCAPE '!'")
        }
        11 => {
            let more = pick(random, &["", "", ", false", ", true"]);
            format!("STARTSWITH({path}, \"{}\"{more})", pick(random, &["", "a", "re", "mmmm", "A"]))
        }
        12 => {
            let name = pick(
                random,
                &[
                    "IS_DEFINED",
                    "IS_NULL",
                    "IS_BOOL",
                    "IS_NUMBER",
                    "IS_STRING",
                    "IS_ARRAY",
                    "IS_OBJECT",
                    "IS_PRIMITIVE",
                    "IS_INTEGER",
                ],
            );
            format!("{name}({path})")
        }
        13 => {
            let name = pick(random, &["CONTAINS", "ENDSWITH", "StringEquals", "RegexMatch"]);
            format!("{name}({path}, \"{}\")", pick(random, &["red", "e", "a"]))
        }
        14 => {
            let more = pick(random, &["", ", false", ", true"]);
            let needle = match random.below(3) {
                0 => format!("{{\"y\":{}}}", random.below(4)),
                _ => scalar(random),
            };
            format!("ARRAY_CONTAINS(c.{}, {needle}{more})", pick(random, &["tags", "list", "a"]))
        }
        15 => {
            let inner = atom_of_element(random, "e");
            format!("EXISTS(SELECT VALUE e FROM e IN c.list WHERE {inner})")
        }
        16 => {
            // An alias of the query around cannot be taken again, and atoms are nested.
            let alias = format!("e{}", path.len());
            let inner = atom(random, &alias);
            format!("EXISTS(SELECT VALUE 1 FROM {alias} IN c.tags WHERE {inner})")
        }
        17 => path.to_owned(),
        18 => format!("{path} {} {}", comparison(random), self::path(random)),
        _ => format!("LOWER({path}) = \"a\""),
    }
}

fn atom_of_element(random: &mut Random, alias: &str) -> String {
    let path = format!("{alias}.{}", pick(random, &["x", "y"]));
    match random.below(3) {
        0 => format!("{path} = {} AND {alias}.y > {}", scalar(random), random.below(4)),
        1 => format!("{alias}.y = {}", random.below(4)),
        _ => atom(random, &path),
    }
}

impl Case {
    pub(crate) fn random(random: &mut Random) -> Self {
        let key = (random.below(4) == 0).then(|| {
            let key = pick(random, &KEYS);
            PartitionKey(vec![KeyComponent::String(key.into())])
        });
        let filter = match random.below(8) {
            0 => String::new(),
            1 => format!(" WHERE c.pk = \"{}\" AND {}", pick(random, &KEYS), condition(random, 1)),
            2 => format!(" WHERE c.pk = 'p1' AND c.id = 'i{}'", random.below(40)),
            _ => format!(" WHERE {}", condition(random, 2)),
        };
        let (text, checked) = match random.below(12) {
            0..=3 => (format!("SELECT * FROM c{filter}"), Checked::AsSet),
            4 => (format!("SELECT VALUE c.id FROM c{filter}"), Checked::AsSet),
            5 => aggregate(random, &filter),
            6 => distinct(random, &filter),
            7 => joined(random, &filter),
            8 => limited(random, &filter),
            _ => ordered(random, &filter),
        };
        Self { text, key, checked }
    }
}

fn aggregate(random: &mut Random, filter: &str) -> (String, Checked) {
    let path = path(random);
    let text = match random.below(8) {
        6 => format!("SELECT VALUE {}({path}) FROM c{filter}", pick(random, &["SUM", "AVG"])),
        7 => format!("SELECT SUM(c.n) AS a, AVG(c.n) AS b, COUNT(1) AS c FROM c{filter}"),
        0 | 1 => format!("SELECT VALUE COUNT(1) FROM c{filter}"),
        2 => format!("SELECT VALUE COUNT({path}) FROM c{filter}"),
        3 => format!("SELECT VALUE {}({path}) FROM c{filter}", pick(random, &["MIN", "MAX"])),
        4 => format!("SELECT MIN({path}) AS a, COUNT({path}) AS b, SUM(c.n) AS d FROM c{filter}"),
        _ => format!("SELECT c.s, COUNT(1) AS n, MAX(c.n) AS m FROM c{filter} GROUP BY c.s"),
    };
    (text, Checked::AsSet)
}

fn distinct(random: &mut Random, filter: &str) -> (String, Checked) {
    let path = path(random);
    let text = match random.below(4) {
        0 => format!("SELECT DISTINCT VALUE {path} FROM c{filter}"),
        1 => format!("SELECT DISTINCT c.s, c.flag FROM c{filter}"),
        2 => format!("SELECT DISTINCT VALUE c.s FROM c{filter} ORDER BY c.s"),
        _ => format!("SELECT DISTINCT {path} AS v FROM c{filter}"),
    };
    (text, Checked::AsSet)
}

fn joined(random: &mut Random, filter: &str) -> (String, Checked) {
    let also = |inner: String| match filter.strip_prefix(" WHERE ") {
        Some(outer) => format!("({outer}) AND ({inner})"),
        None => inner,
    };
    let inner = atom_of_element(random, "t");
    let text = match random.below(4) {
        0 => format!("SELECT c.id, t AS tag FROM c JOIN t IN c.tags{filter}"),
        1 => format!("SELECT VALUE t.x FROM t IN c.list WHERE {inner}"),
        2 => {
            let filter = also(inner);
            format!("SELECT c.id, t.x FROM c JOIN t IN c.list WHERE {filter}")
        }
        _ => format!(
            "SELECT c.id, t FROM c JOIN (SELECT VALUE t FROM t IN c.list WHERE {inner}) t{filter}"
        ),
    };
    (text, Checked::AsSet)
}

fn limited(random: &mut Random, filter: &str) -> (String, Checked) {
    let count = random.below(12);
    let text = match random.below(2) {
        0 => format!("SELECT TOP {count} * FROM c{filter}"),
        _ => format!("SELECT * FROM c{filter} OFFSET {} LIMIT {count}", random.below(8)),
    };
    (text, Checked::Count)
}

fn ordered(random: &mut Random, filter: &str) -> (String, Checked) {
    let way = |random: &mut Random| pick(random, &["", " ASC", " DESC"]);
    let keys = match random.below(8) {
        0 => format!("c.n{}, c.s{}", way(random), way(random)),
        1 => format!("c.a{0}, c.b{0}", way(random)),
        2 => pick(random, &["c.s ASC, c.n ASC, c.a DESC", "c.s DESC, c.n DESC, c.a ASC"]).into(),
        3 => format!("c.o.d{0}, c.n{0}", way(random)),
        _ => format!("{}{}", path(random), way(random)),
    };
    let (top, limit) = match random.below(4) {
        0 => (format!("TOP {} ", random.below(12)), String::new()),
        1 => (String::new(), format!(" OFFSET {} LIMIT {}", random.below(6), random.below(12))),
        _ => (String::new(), String::new()),
    };
    let text = match random.below(4) {
        0 => format!("SELECT {top}c.id, t FROM c JOIN t IN c.tags{filter} ORDER BY {keys}{limit}"),
        _ => format!("SELECT {top}* FROM c{filter} ORDER BY {keys}{limit}"),
    };
    (text, Checked::InOrder)
}
