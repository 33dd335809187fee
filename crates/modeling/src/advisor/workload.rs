//! What a server has seen of its requests, and what follows from it: M04 N+1 reads, M05 worth
//! copying, M06 copy turned hot, M10 repeated aggregate, M11 partition, M12 index waste; `other_key` has M14.
//! The server samples; numbers here are already scaled up.

use std::collections::BTreeMap;

use orrery_types::{Object, Value};

use super::finding::{Finding, Severity, count, object};
use super::other_key;
use super::report::Report;
use crate::document::Model;

/// What was seen since a moment.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Workload {
    pub from_s: i64,
    pub to_s: i64,
    pub requests: u64,
    /// What an index term adds to the charge of a write.
    pub term_charge: f64,
    /// What a query is charged for each physical partition that it goes to.
    pub visit_charge: f64,
    pub containers: Vec<ContainerWork>,
}

/// What was seen of one container.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ContainerWork {
    pub name: Box<str>,
    /// Paths of its partition key.
    pub key_paths: Vec<String>,
    /// How many physical partitions it has.
    pub ranges: u64,
    /// Whether it is a global secondary index itself.
    pub is_index: bool,
    /// Paths of the partition keys of the global secondary indexes that are kept from it.
    pub index_paths: Vec<String>,
    pub reads: u64,
    pub queries: u64,
    pub writes: u64,
    pub read_charge: f64,
    pub write_charge: f64,
    /// The part of the write charge that followed from others' writes by the model.
    pub derived_charge: f64,
    /// Partition keys with the greatest charges, as text.
    pub keys: Vec<(String, f64)>,
    /// The greatest logical partition: its key, its bytes.
    pub largest_key: Option<(String, u64)>,
    /// Paths that filters and orders named, as the indexing policy writes them.
    pub queried: Vec<String>,
    /// Top-level paths that are indexed, with the terms that an item has below them on average.
    pub terms: Vec<(String, f64)>,
    pub queries_seen: Vec<QueryWork>,
    pub chains: Vec<Chain>,
}

/// Queries with the same text.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct QueryWork {
    pub text: String,
    pub count: u64,
    pub charge: f64,
    /// Relations that it follows: the path of the name, and the properties that it reads there, if it
    /// does not read the whole.
    pub expands: Vec<(String, Vec<String>)>,
    /// The path whose value the filter fixes, if the query aggregates.
    pub aggregates_by: Option<String>,
    /// Paths without arrays whose values the filter fixes, if neither it nor the request fixes the partition key.
    pub fixes: Vec<String>,
    /// How many began: first pages, and of what SDKs ask of one physical partition after the other that of the first.
    pub begun: u64,
}

/// Point reads that take their ids out of an answer.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Chain {
    /// Where in the answered items the ids stood.
    pub path: String,
    /// The container that was read.
    pub to: String,
    /// Answers that were followed by five such reads or more.
    pub times: u64,
    /// Answers after which ids out of them were read at all.
    pub watched: u64,
    pub reads: u64,
    pub charge: f64,
    pub samples: Vec<String>,
}

/// M04: answers with a chain behind them before it counts as a habit.
const CHAINS_MIN: u64 = 3;
/// And one answer in so many has one.
const CHAINS_SHARE: u64 = 3;
/// M05: properties, times, and reads for each write of the target.
const FIELDS_MAX: usize = 3;
pub(super) const TIMES_MIN: u64 = 100;
const READS_PER_WRITE: u64 = 10;
/// M06: the share of what followed from copies.
const DERIVED_MAX: f64 = 0.2;
/// M11: the share of one key, and the bytes of one logical partition.
const KEY_SHARE_MAX: f64 = 0.3;
const KEY_BYTES_MAX: u64 = 10 << 30;
/// M12: the share of the terms below one path.
const TERMS_SHARE_MAX: f64 = 0.2;
/// Less than this says nothing about a container.
const CHARGE_MIN: f64 = 500.0;
const WRITES_MIN: u64 = 100;

/// Adds to a report what the requests say.
pub fn add_workload(report: &mut Report, workload: &Workload, model: Option<&Model>) {
    let mut findings = Vec::new();
    for work in &workload.containers {
        let look = Look { report, workload, model, work };
        findings.extend(work.chains.iter().filter_map(|chain| look.chain(chain)));
        findings.extend(look.copies());
        findings.extend(look.hot_copies());
        findings.extend(look.aggregates());
        findings.extend(look.partition());
        findings.extend(look.index_waste());
        let (name, _) = look.type_of(&work.name, None);
        findings.extend(other_key::find(work, &name, workload.visit_charge));
        if work.read_charge + work.write_charge < CHARGE_MIN {
            report.too_little_data.push(format!(
                "container '{}': {:.0} request units were seen; fewer than {CHARGE_MIN} say nothing \
                 about its use",
                work.name,
                work.read_charge + work.write_charge
            ));
        }
    }
    report.findings.extend(findings);
    report.findings.sort_by(|a, b| {
        (b.severity, a.rule, &a.item_type, &a.path).cmp(&(
            a.severity,
            b.rule,
            &b.item_type,
            &b.path,
        ))
    });
}

struct Look<'a> {
    report: &'a Report,
    workload: &'a Workload,
    model: Option<&'a Model>,
    work: &'a ContainerWork,
}

/// What one of something costs, measured and estimated.
pub(super) fn units(of: &'static str, now: f64, after: f64) -> Vec<(&'static str, Value)> {
    vec![
        ("costOf", of.into()),
        ("requestUnitsNow", round(now)),
        ("requestUnitsAfter", round(after)),
    ]
}

pub(super) fn round(value: f64) -> Value {
    Value::from((value * 100.0).round() / 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "a cost is a rough number")]
pub(super) fn number(n: u64) -> f64 {
    n as f64
}

impl Look<'_> {
    /// A name and a definition for the items of a container: the type that the data shows, or the
    /// container itself.
    fn type_of(&self, container: &str, path: Option<&str>) -> (Box<str>, Value) {
        let declared = self.model.and_then(|model| {
            let mut types = model.types.iter().filter(|t| *t.container == *container);
            let of_link = path.and_then(|path| {
                let linked = self.report.links.iter().find(|l| *l.path == *path)?;
                model.types.iter().find(|t| t.name == linked.from && *t.container == *container)
            });
            of_link.or_else(|| types.next())
        });
        let inferred = self.report.types.iter().filter(|t| *t.container == *container);
        let linked = path.and_then(|path| self.report.links.iter().find(|l| *l.path == *path));
        let inferred = inferred
            .clone()
            .find(|t| linked.is_some_and(|l| l.from == t.name))
            .or_else(|| inferred.max_by_key(|t| t.items));
        let name = declared.map(|t| t.name.clone()).or_else(|| inferred.map(|t| t.name.clone()));
        let name = name.unwrap_or_else(|| container.into());
        let filter =
            declared.and_then(|t| t.filter.as_deref()).map_or(Value::Undefined, Value::from);
        (name, object([("container", container.into()), ("where", filter)]))
    }

    /// M04.
    fn chain(&self, chain: &Chain) -> Option<Finding> {
        if chain.times < CHAINS_MIN || chain.times * CHAINS_SHARE < chain.watched {
            return None;
        }
        let (from, from_type) = self.type_of(&self.work.name, Some(&chain.path));
        let (to, to_type) = self.type_of(&chain.to, None);
        let is_declared = self.model.is_some_and(|model| {
            model.relations.iter().any(|r| r.path.to_string() == chain.path && r.to == to)
        });
        let name = relation_name(&chain.path);
        let relation = object([
            ("name", name.as_str().into()),
            ("from", (&*from).into()),
            ("path", chain.path.as_str().into()),
            ("to", (&*to).into()),
            ("onMissing", "allow".into()),
        ]);
        let mut types = Object::new();
        types.set(&from, from_type);
        types.set(&to, to_type);
        let each = chain.charge / number(chain.reads.max(1));
        let per_answer = number(chain.reads) / number(chain.times.max(1));
        let after = 0.03_f64.mul_add(per_answer, 2.0);
        let how = if is_declared {
            format!("The relation is declared: name '{name}' in the query, or in x-model-expand.")
        } else {
            format!("As a relation, '{name}' brings them in the same answer.")
        };
        Some(Finding {
            rule: "M04",
            severity: Severity::Warning,
            item_type: from,
            path: chain.path.as_str().into(),
            reason: format!(
                "{} answers were each followed by {per_answer:.0} point reads of '{}' by ids that \
                 stood in them. {how}",
                chain.times, chain.to
            ),
            counts: [
                vec![("answers", count(chain.times)), ("reads", count(chain.reads))],
                units("one answer", each.mul_add(per_answer, 2.0), after),
            ]
            .concat(),
            samples: chain.samples.iter().map(|id| id.as_str().into()).collect(),
            cost: None,
            confidence: if chain.times >= 10 { 0.9 } else { 0.7 },
            patch: if is_declared {
                object([])
            } else {
                object([
                    ("types", Value::object(types)),
                    ("relations", Value::array(vec![relation])),
                ])
            },
        })
    }

    /// M05: of all queries that follow one relation together.
    fn copies(&self) -> Vec<Finding> {
        let Some(model) = self.model else { return vec![] };
        let mut by_path: BTreeMap<&str, (u64, f64, Vec<&str>, bool, &str)> = BTreeMap::new();
        for query in &self.work.queries_seen {
            for (path, fields) in &query.expands {
                let entry = by_path.entry(path).or_insert((0, 0.0, vec![], true, &query.text));
                entry.0 += query.count;
                entry.1 += query.charge;
                entry.3 &= !fields.is_empty();
                for field in fields {
                    if !entry.2.contains(&field.as_str()) {
                        entry.2.push(field);
                    }
                }
            }
        }
        let mut found = Vec::new();
        for (path, (times, charge, fields, named, text)) in by_path {
            let relation =
                model.relations.iter().find(|r| r.path.sibling(&r.name).to_string() == path);
            let Some(relation) = relation else { continue };
            let target = model.types.iter().find(|t| t.name == relation.to);
            let writes = target.map_or(0, |t| {
                let work = self.workload.containers.iter().find(|w| w.name == t.container);
                work.map_or(0, |work| work.writes)
            });
            let few = named && !fields.is_empty() && fields.len() <= FIELDS_MAX;
            let copied = |field: &&str| relation.copies.iter().any(|(name, _)| **name == **field);
            if times < TIMES_MIN
                || !few
                || times < writes.saturating_mul(READS_PER_WRITE)
                || fields.iter().all(copied)
            {
                continue;
            }
            let copies = fields.iter().map(|field| (*field, Value::from(format!("t.{field}"))));
            let patch = object([
                ("name", (&*relation.name).into()),
                ("from", (&*relation.from).into()),
                ("path", relation.path.to_string().into()),
                ("to", (&*relation.to).into()),
                ("copies", object(copies)),
            ]);
            let each = charge / number(times);
            found.push(Finding {
                rule: "M05",
                severity: Severity::Info,
                item_type: relation.from.clone(),
                path: path.into(),
                reason: format!(
                    "{times} queries followed the relation for {} alone, and its targets were \
                     written {writes} times: a copy beside the reference saves the look.",
                    fields.join(", ")
                ),
                counts: [
                    vec![("queries", count(times)), ("targetWrites", count(writes))],
                    units("one query", each, (each - 0.28).max(2.0)),
                ]
                .concat(),
                samples: vec![text.into()],
                cost: None,
                confidence: 0.7,
                patch: object([("relations", Value::array(vec![patch]))]),
            });
        }
        found
    }

    /// M06: what copies cost in the container that holds them.
    fn hot_copies(&self) -> Option<Finding> {
        let total = self.work.read_charge + self.work.write_charge;
        let share = self.work.derived_charge / total.max(1.0);
        if total < CHARGE_MIN || share <= DERIVED_MAX {
            return None;
        }
        let model = self.model?;
        let of_container = |name: &str| {
            model.types.iter().any(|t| *t.name == *name && t.container == self.work.name)
        };
        let relation =
            model.relations.iter().find(|r| !r.copies.is_empty() && of_container(&r.to))?;
        let patch = object([
            ("name", (&*relation.name).into()),
            ("from", (&*relation.from).into()),
            ("path", relation.path.to_string().into()),
            ("to", (&*relation.to).into()),
            ("copies", object([])),
        ]);
        Some(Finding {
            rule: "M06",
            severity: Severity::Warning,
            item_type: relation.from.clone(),
            path: relation.path.to_string().into(),
            reason: format!(
                "{:.0} % of the charge of '{}' is for keeping copies true, more than {:.0} %: refer, \
                 and read the target through the relation '{}'.",
                share * 100.0,
                self.work.name,
                DERIVED_MAX * 100.0,
                relation.name
            ),
            counts: [
                vec![("writes", count(self.work.writes)), ("derivedShare", round(share))],
                units(
                    "all writes",
                    self.work.write_charge,
                    self.work.write_charge - self.work.derived_charge,
                ),
            ]
            .concat(),
            samples: vec![],
            cost: None,
            confidence: 0.8,
            patch: object([("relations", Value::array(vec![patch]))]),
        })
    }

    /// M10: the same aggregate for one reference at a time.
    fn aggregates(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for query in &self.work.queries_seen {
            let Some(path) = &query.aggregates_by else { continue };
            let link = self.report.links.iter().find(|l| *l.path == **path);
            let often = query.count >= TIMES_MIN
                && query.count >= self.work.writes.saturating_mul(READS_PER_WRITE);
            let Some(link) = link.filter(|_| often) else { continue };
            let declared = self.model.and_then(|model| {
                model.relations.iter().find(|r| r.path.to_string() == **path && r.from == link.from)
            });
            let inverse = declared.and_then(|r| r.inverse.as_ref());
            if let (Some(model), Some(inverse)) = (self.model, inverse)
                && model.aggregates.iter().any(|a| a.on == link.to && a.of == inverse.name)
            {
                continue;
            }
            let inverse = inverse.map_or_else(|| format!("{}s", link.from), |i| i.name.to_string());
            let name = declared.map_or_else(|| relation_name(path), |r| r.name.to_string());
            let relation = object([
                ("name", name.as_str().into()),
                ("from", (&*link.from).into()),
                ("path", path.as_str().into()),
                ("to", (&*link.to).into()),
                ("inverse", object([("name", inverse.as_str().into())])),
            ]);
            let aggregate = object([
                ("on", (&*link.to).into()),
                ("path", format!("/{inverse}Count").into()),
                ("of", inverse.as_str().into()),
                ("value", "COUNT(1)".into()),
            ]);
            let each = query.charge / number(query.count.max(1));
            found.push(Finding {
                rule: "M10",
                severity: Severity::Info,
                item_type: link.to.clone(),
                path: path.as_str().into(),
                reason: format!(
                    "The same aggregate over '{path}' was asked {} times, and '{}' was written {} \
                     times: kept on the target it is a point read.",
                    query.count, self.work.name, self.work.writes
                ),
                counts: [
                    vec![("queries", count(query.count)), ("writes", count(self.work.writes))],
                    units("one query", each, 1.0),
                ]
                .concat(),
                samples: vec![query.text.as_str().into()],
                cost: None,
                confidence: 0.7,
                patch: object([
                    ("relations", Value::array(vec![relation])),
                    ("aggregates", Value::array(vec![aggregate])),
                ]),
            });
        }
        found
    }

    /// M11.
    fn partition(&self) -> Option<Finding> {
        let total = self.work.read_charge + self.work.write_charge;
        let hottest = self.work.keys.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let hot = hottest
            .filter(|(_, charge)| total >= CHARGE_MIN && charge / total > KEY_SHARE_MAX)
            .filter(|_| self.work.keys.len() > 1);
        let large = self.work.largest_key.as_ref().filter(|(_, bytes)| *bytes > KEY_BYTES_MAX);
        let (key, reason) = match (hot, large) {
            (_, Some((key, bytes))) => {
                let gigabytes = bytes >> 30;
                (key, format!("The logical partition {key} holds {gigabytes} GB; its limit is 20."))
            }
            (Some((key, charge)), None) => {
                let share = charge / total * 100.0;
                let limit = KEY_SHARE_MAX * 100.0;
                (
                    key,
                    format!(
                        "The partition key {key} takes {share:.0} % of the charge, more than {limit:.0} \
                     %: it cannot be served by more than one physical partition."
                    ),
                )
            }
            (None, None) => return None,
        };
        let mut paths = self.work.key_paths.clone();
        paths.push("/id".to_owned());
        let paths: Vec<Value> = paths.iter().map(|path| path.as_str().into()).collect();
        let key_patch = object([("paths", Value::array(paths)), ("kind", "MultiHash".into())]);
        let mut containers = Object::new();
        containers.set(&self.work.name, object([("partitionKey", key_patch)]));
        let (name, _) = self.type_of(&self.work.name, None);
        Some(Finding {
            rule: "M11",
            severity: Severity::Warning,
            item_type: name,
            path: self.work.key_paths.first().map_or("", String::as_str).into(),
            reason: format!("{reason} A further level of the key spreads it."),
            counts: vec![
                ("charge", round(total)),
                ("keyCharge", round(hottest.map_or(0.0, |(_, charge)| *charge))),
            ],
            samples: vec![key.as_str().into()],
            cost: None,
            confidence: 0.8,
            patch: object([("containers", Value::object(containers))]),
        })
    }

    /// M12.
    fn index_waste(&self) -> Vec<Finding> {
        if self.work.writes < WRITES_MIN || self.work.queries == 0 {
            return vec![];
        }
        let each = self.work.write_charge / number(self.work.writes);
        let mut found = Vec::new();
        for (path, terms) in &self.work.terms {
            let below = format!("{path}/");
            let is_queried = |q: &String| q.starts_with(&below) || *q == *path;
            let charge = terms * self.workload.term_charge;
            if charge / each <= TERMS_SHARE_MAX || self.work.queried.iter().any(is_queried) {
                continue;
            }
            let mut containers = Object::new();
            let excluded = object([("path", format!("{path}/*").into())]);
            let policy = object([("excludedPaths", Value::array(vec![excluded]))]);
            containers.set(&self.work.name, object([("indexingPolicy", policy)]));
            let (name, _) = self.type_of(&self.work.name, None);
            found.push(Finding {
                rule: "M12",
                severity: Severity::Info,
                item_type: name,
                path: path.as_str().into(),
                reason: format!(
                    "Of {} queries none looked at '{path}', and its {terms:.0} index terms are {:.0} \
                     % of what a write costs.",
                    self.work.queries,
                    charge / each * 100.0
                ),
                counts: [
                    vec![("writes", count(self.work.writes)), ("queries", count(self.work.queries))],
                    units("one write", each, each - charge),
                ]
                .concat(),
                samples: vec![],
                cost: None,
                confidence: if self.work.queries >= 1000 { 0.8 } else { 0.5 },
                patch: object([("containers", Value::object(containers))]),
            });
        }
        found
    }
}

/// A name for a relation out of the path of its reference: `/authors/*/id` is an author.
fn relation_name(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|n| !n.is_empty() && *n != "*").collect();
    let last = names.last().copied().unwrap_or("target");
    let name = if last.eq_ignore_ascii_case("id") && names.len() > 1 {
        names[names.len() - 2].trim_end_matches('s')
    } else {
        let ends = ["Ids", "Id", "ID", "_id", "-id", "_ids"];
        ends.iter().find_map(|end| last.strip_suffix(end)).unwrap_or(last)
    };
    if name.is_empty() || name == last { format!("{last}Target") } else { name.to_owned() }
}

impl Workload {
    /// The window as JSON.
    pub fn to_value(&self) -> Value {
        let containers = self.containers.iter().map(|work| {
            let queries = work.queries_seen.iter().map(|query| {
                object([
                    ("query", query.text.as_str().into()),
                    ("count", count(query.count)),
                    ("charge", round(query.charge)),
                ])
            });
            object([
                ("container", (&*work.name).into()),
                ("reads", count(work.reads)),
                ("queries", count(work.queries)),
                ("writes", count(work.writes)),
                ("readCharge", round(work.read_charge)),
                ("writeCharge", round(work.write_charge)),
                ("derivedCharge", round(work.derived_charge)),
                ("topQueries", Value::array(queries.collect())),
            ])
        });
        object([
            ("from", self.from_s.into()),
            ("to", self.to_s.into()),
            ("requests", count(self.requests)),
            ("containers", Value::array(containers.collect())),
        ])
    }
}
