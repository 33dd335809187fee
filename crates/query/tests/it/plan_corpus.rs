//! Our plans beside those of the service's own planner: `golden/plan_corpus/corpus.jsonl.zst` holds
//! queries with the plan or the refusal that it gives. What differs stands in `differences.txt` beside
//! it, under its reason, and nothing else does. `plan_texts` in the tests of the command line sends the texts
//! of the plans to a server.
//!
//! `PLAN_CORPUS_REPORT=file` writes every difference in detail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use orrery_query::{ContainerFacts, Metric, PlanTarget, Query, QueryError, VectorPath, query_plan};
use orrery_types::{PartitionKey, PartitionKeyDef, PartitionKeyKind, PropertyPath, Value};

use crate::plan_text::tokens;

/// What a change may raise and never lower.
const SAME_MIN: usize = 6540;
const ALIKE_MIN: usize = 6570;
const CODES_MIN: usize = 2288;
const PLACES_MIN: usize = 2288;

/// One query of the corpus.
pub(crate) struct Case {
    pub(crate) number: usize,
    pub(crate) body: Value,
}

impl Case {
    pub(crate) fn text(&self) -> &str {
        self.body.get("query").as_str().expect("a query")
    }

    pub(crate) fn parameters(&self) -> Vec<(String, Value)> {
        let list = self.body.get("parameters").as_array().unwrap_or_default();
        let name = |p: &Value| p.get("name").as_str().unwrap_or_default().to_owned();
        list.iter().map(|p| (name(p), p.get("value").clone())).collect()
    }

    fn error(&self) -> Option<&str> {
        self.body.get("error").as_str()
    }

    fn definition(&self) -> PartitionKeyDef {
        let key = self.body.get("partitionKey");
        let paths = key.get("paths").as_array().expect("paths");
        let path = |p: &Value| PropertyPath::parse(p.as_str().expect("a path")).expect("a path");
        let hash = key.get("kind").as_str() == Some("Hash");
        PartitionKeyDef {
            paths: paths.iter().map(path).collect(),
            kind: if hash { PartitionKeyKind::Hash } else { PartitionKeyKind::MultiHash },
            version: if key.get("version").as_i64() == Some(1) { 1 } else { 2 },
            system_key: false,
        }
    }

    fn names_key(&self) -> bool {
        self.body.get("logicalPartitionKey").is_true()
    }

    fn plan(&self) -> Result<Value, QueryError> {
        let definition = self.definition();
        let levels: Vec<&str> = definition.paths.iter().map(|_| "\"v\"").collect();
        let key = PartitionKey::parse_header(&format!("[{}]", levels.join(","))).expect("a key");
        let target = PlanTarget {
            definition: &definition,
            key: self.names_key().then_some(&key),
            range: None,
            skip_order_by_rewrite: self.body.get("skipOrderByRewrite").is_true(),
        };
        let vectors = vectors();
        let facts = ContainerFacts { vectors: &vectors, ..ContainerFacts::default() };
        let query = Query::parse(self.text())?;
        let plan = query_plan(&query, &self.parameters(), &facts, &target)?;
        Ok(Value::parse(plan.as_bytes()).expect("a plan is JSON"))
    }
}

/// The vectors of every container of the corpus.
pub(crate) fn vectors() -> Vec<VectorPath> {
    let vector = |path, metric| VectorPath {
        path: PropertyPath::parse(path).expect("a path"),
        metric: Metric::parse(metric).expect("a metric"),
    };
    vec![vector("/v", "cosine"), vector("/ve", "euclidean")]
}

/// All queries of the corpus.
pub(crate) fn cases() -> Vec<Case> {
    let packed = std::fs::read("../../golden/plan_corpus/corpus.jsonl.zst").expect("the corpus");
    let text = zstd::decode_all(packed.as_slice()).expect("a zstd file");
    let text = String::from_utf8(text).expect("UTF-8");
    let parse = |(number, line): (usize, &str)| {
        let body = Value::parse(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"));
        Case { number, body }
    };
    text.lines().enumerate().skip(1).map(parse).collect()
}

const FIELDS: [&str; 14] = [
    "distinctType",
    "top",
    "offset",
    "limit",
    "orderBy",
    "orderByExpressions",
    "groupByExpressions",
    "groupByAliases",
    "aggregates",
    "groupByAliasToAggregateType",
    "rewrittenQuery",
    "hasSelectValue",
    "dCountInfo",
    "hasNonStreamingOrderBy",
];

/// Whether a value says nothing, as an empty list does.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Undefined | Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn same(wanted: &Value, got: &Value) -> bool {
    (says_nothing(wanted) && says_nothing(got)) || wanted == got
}

fn same_texts(wanted: &Value, got: &Value) -> bool {
    let texts = |value: &Value| -> Vec<Vec<String>> {
        let list = value.as_array().unwrap_or_default();
        list.iter().map(|text| tokens(text.as_str().unwrap_or_default())).collect()
    };
    texts(wanted) == texts(got)
}

fn same_text(wanted: &Value, got: &Value) -> bool {
    tokens(wanted.as_str().unwrap_or_default()) == tokens(got.as_str().unwrap_or_default())
}

/// The names of what differs between two `queryInfo`s.
fn differing_info(wanted: &Value, got: &Value, place: &str, out: &mut Vec<String>) {
    for field in FIELDS {
        let (a, b) = (wanted.get(field), got.get(field));
        let is_same = match field {
            "rewrittenQuery" => same_text(a, b),
            "orderByExpressions" | "groupByExpressions" => same_texts(a, b),
            "top" | "offset" | "limit" => a == b || (a.type_rank() < 2 && b.type_rank() < 2),
            _ => same(a, b),
        };
        if !is_same {
            out.push(format!("{place}{field}"));
        }
    }
}

fn differing_hybrid(wanted: &Value, got: &Value, out: &mut Vec<String>) {
    let names: BTreeSet<&str> = [wanted, got]
        .iter()
        .filter_map(|v| v.as_object())
        .flat_map(|o| o.iter().map(|(name, _)| &**name))
        .collect();
    for name in names {
        let (a, b) = (wanted.get(name), got.get(name));
        let place = format!("hybrid.{name}");
        match name {
            "globalStatisticsQuery" if same_text(a, b) => {}
            "componentQueryInfos" | "componentWithoutPayloadQueryInfos" => {
                let (a, b) = (a.as_array().unwrap_or_default(), b.as_array().unwrap_or_default());
                if a.len() != b.len() {
                    out.push(place.clone());
                }
                for (a, b) in a.iter().zip(b) {
                    differing_info(a, b, &format!("{place}."), out);
                }
            }
            "projectionQueryInfo" if says_nothing(a) == says_nothing(b) => {
                differing_info(a, b, &format!("{place}."), out);
            }
            "scoreCombinationKind" => {
                let kind = |v: &Value| v.as_str().unwrap_or("Rrf").to_owned();
                if kind(a) != kind(b) {
                    out.push(place);
                }
            }
            _ if same(a, b) => {}
            _ => out.push(place),
        }
    }
}

type Range = (String, String, bool, bool);

fn ranges(plan: &Value) -> Vec<Range> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let range = |r: &Value| {
        let inclusive = (r.get("isMinInclusive").is_true(), r.get("isMaxInclusive").is_true());
        (text(r.get("min")), text(r.get("max")), inclusive.0, inclusive.1)
    };
    plan.get("queryRanges").as_array().unwrap_or_default().iter().map(range).collect()
}

fn range(min: &str, max: &str, max_inclusive: bool) -> Range {
    (min.to_owned(), max.to_owned(), true, max_inclusive)
}

/// Whether every range of `inner` lies within one of `outer`; otherwise rows are lost.
fn covers(outer: &[Range], inner: &[Range]) -> bool {
    let low = |r: &Range| (r.0.clone(), u8::from(!r.2));
    let high = |r: &Range| (r.1.clone(), u8::from(r.3));
    inner.iter().all(|x| {
        *x == range("", "", true) || outer.iter().any(|o| low(o) <= low(x) && high(x) <= high(o))
    })
}

fn differing_ranges(wanted: &Value, got: &Value) -> Option<&'static str> {
    let (wanted, got) = (ranges(wanted), ranges(got));
    // What "nothing" becomes where a hierarchical key is cut short and FF appended.
    let is_none = wanted == [range("", "FF", true)];
    let as_good = [vec![range("", "", true)], vec![range("", "FF", false)]];
    if wanted == got || (is_none && as_good.contains(&got)) {
        return None;
    }
    Some(match () {
        () if !is_none && !covers(&got, &wanted) => TOO_NARROW,
        () if is_none || !covers(&wanted, &got) => "queryRanges too wide",
        () => "queryRanges with other ends",
    })
}

const TOO_NARROW: &str = "queryRanges TOO NARROW";

/// What differs between two plans.
fn differing(case: &Case, got: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let wanted = case.body.get("plan");
    let (a, b) = (wanted.get("queryInfo"), got.get("queryInfo"));
    if says_nothing(a) == says_nothing(b) {
        differing_info(a, b, "", &mut out);
    } else {
        out.push("queryInfo".to_owned());
    }
    let (a, b) = (wanted.get("hybridSearchQueryInfo"), got.get("hybridSearchQueryInfo"));
    if says_nothing(a) == says_nothing(b) {
        differing_hybrid(a, b, &mut out);
    } else {
        out.push("hybridSearchQueryInfo".to_owned());
    }
    // With a key given nobody looks at the plan's ranges.
    if !case.names_key() {
        out.extend(differing_ranges(wanted, got).map(str::to_owned));
    }
    out.sort();
    out.dedup();
    out
}

fn codes(text: &str) -> BTreeSet<String> {
    let value = Value::parse(text.as_bytes()).unwrap_or_default();
    let list = value.get("errors").as_array().unwrap_or_default();
    list.iter()
        .filter_map(|e| match e.get("code") {
            Value::String(code) => Some(code.to_string()),
            Value::Number(code) => Some(code.to_string()),
            _ => None,
        })
        .collect()
}

fn places(text: &str) -> Vec<String> {
    let value = Value::parse(text.as_bytes()).unwrap_or_default();
    let list = value.get("errors").as_array().unwrap_or_default();
    list.iter().map(|e| e.get("location").to_json()).collect()
}

#[derive(Default)]
struct Tally {
    same: usize,
    alike: usize,
    narrow: usize,
    coded: usize,
    same_code: usize,
    same_place: usize,
    differing: BTreeMap<usize, String>,
    report: String,
}

impl Tally {
    fn count(&mut self, case: &Case) {
        let got = case.plan();
        let difference = match (case.error(), &got) {
            (Some(error), Err(own)) => {
                self.alike += 1;
                self.count_code(case, error, &own.to_json());
                None
            }
            (Some(_), Ok(_)) => Some("refused, we accept".to_owned()),
            (None, Err(_)) => Some("planned, we refuse".to_owned()),
            (None, Ok(plan)) => {
                self.alike += 1;
                let list = differing(case, plan);
                self.narrow += usize::from(list.iter().any(|d| d == TOO_NARROW));
                (!list.is_empty()).then(|| list.join(", "))
            }
        };
        let Some(difference) = difference else {
            self.same += 1;
            return;
        };
        let answer = match &got {
            Ok(plan) => plan.to_json(),
            Err(error) => error.to_json(),
        };
        let (number, text) = (case.number, Value::from(case.text()).to_json());
        let _ = writeln!(
            self.report,
            r#"{{"i":{number},"kind":"{difference}","query":{text},"case":{},"got":{answer}}}"#,
            case.body.to_json()
        );
        self.differing.insert(case.number, format!("{number} {text}"));
    }

    fn count_code(&mut self, case: &Case, wanted: &str, got: &str) {
        if codes(wanted).is_empty() {
            return;
        }
        self.coded += 1;
        if codes(wanted).is_disjoint(&codes(got)) {
            let _ = writeln!(
                self.report,
                r#"{{"i":{},"kind":"code","query":{},"case":{wanted},"got":{got}}}"#,
                case.number,
                Value::from(case.text()).to_json(),
            );
            return;
        }
        self.same_code += 1;
        if places(got).iter().any(|place| places(wanted).contains(place)) {
            self.same_place += 1;
        } else {
            let _ = writeln!(
                self.report,
                r#"{{"i":{},"kind":"place","query":{},"case":{wanted},"got":{got}}}"#,
                case.number,
                Value::from(case.text()).to_json(),
            );
        }
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the numbers are what the test is for")]
fn plans_are_those_of_the_corpus() {
    let cases = cases();
    let mut tally = Tally::default();
    for case in &cases {
        tally.count(case);
    }
    if let Some(file) = std::env::var_os("PLAN_CORPUS_REPORT") {
        std::fs::write(file, &tally.report).expect("the report can be written");
    }
    println!("plans: {} the same of {}", tally.same, cases.len());
    println!("accepted or refused alike: {}", tally.alike);
    println!("ranges too narrow: {}", tally.narrow);
    println!("the same code: {} of {}", tally.same_code, tally.coded);
    println!("the same place: {} of those", tally.same_place);
    assert_eq!(tally.narrow, 0, "rows are lost");
    assert!(tally.same >= SAME_MIN && tally.alike >= ALIKE_MIN);
    assert!(tally.same_code >= CODES_MIN && tally.same_place >= PLACES_MIN);
}

const DIFFERENCES: &str = "../../golden/plan_corpus/differences.txt";

/// The cases that are known to differ: lines of a number and the query, under `# reason` lines.
fn known_differences() -> BTreeMap<usize, String> {
    let text = std::fs::read_to_string(DIFFERENCES).expect("the list of differences");
    let mut known = BTreeMap::new();
    let mut has_reason = false;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("# ") {
            has_reason = true;
            continue;
        }
        assert!(has_reason, "no reason stands over {line}");
        let (number, _) = line.split_once(' ').expect("a number and a query");
        known.insert(number.parse().expect("a number"), line.to_owned());
    }
    known
}

#[test]
fn every_difference_is_listed_with_its_reason() {
    let mut tally = Tally::default();
    for case in cases() {
        tally.count(&case);
    }
    let known = known_differences();
    for (number, line) in &tally.differing {
        assert!(known.get(number) == Some(line), "differs and is not listed: {line}");
    }
    for (number, line) in &known {
        assert!(tally.differing.contains_key(number), "listed and the same by now: {line}");
    }
}
