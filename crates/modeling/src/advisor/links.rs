//! References that nobody declared: fields whose values are ids of other items. M07 weak link, M08
//! wrong side, M09 join items, M10 stored counter.

use std::fmt::Write as _;

use orrery_types::Value;

use super::counter::{counts, is_counter};
use super::finding::{Cost, Finding, Severity, count, object};
use super::report::type_patch;
use super::sketch::SampledValue;
use super::tree::PathNode;
use super::{Advisor, ITEMS_MIN, TypeStats};
use crate::document::Model;
use crate::path::{ModelPath, ModelStep};

/// M07: the share of values that are ids.
const MATCHED: f64 = 0.95;
/// M08: from this length on an array of ids is on the wrong side.
const LENGTH_LONG: u64 = 100;
/// Without a telling name, that many different values of this length must match.
const UNNAMED_VALUES: usize = 10;
const UNNAMED_BYTES: usize = 6;

/// A field that refers.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) node: usize,
    /// The array that holds the references, if they stand in one.
    pub(crate) array: Option<usize>,
    pub(crate) values: u64,
    pub(crate) matched: u64,
    /// Values that lead nowhere, each with an item that has it.
    pub(crate) dangling: Vec<(Box<str>, Box<str>)>,
    /// Values that are numbers, where ids are strings.
    pub(crate) numbers: u64,
    pub(crate) declared: bool,
}

impl Link {
    #[expect(clippy::cast_precision_loss, reason = "a share is a rough number")]
    pub(crate) fn rate(&self) -> f64 {
        if self.values == 0 { 0.0 } else { self.matched as f64 / self.values as f64 }
    }
}

/// All links of all types.
pub(crate) fn find(advisor: &Advisor, model: Option<&Model>) -> Vec<Link> {
    let mut links = Vec::new();
    for (from, stats) in advisor.stats.iter().enumerate() {
        for (at, node) in stats.tree.nodes.iter().enumerate() {
            if let Some(link) = link(advisor, model, from, at, node) {
                links.push(link);
            }
        }
    }
    links
}

fn link(
    advisor: &Advisor,
    model: Option<&Model>,
    from: usize,
    at: usize,
    node: &PathNode,
) -> Option<Link> {
    let scalars = node.scalars();
    // A field that repeats the item's own id, such as a partition key, refers to nothing.
    if scalars < ITEMS_MIN || node.own_id * 20 >= scalars {
        return None;
    }
    let stats = &advisor.stats[from];
    let mut by_type = vec![0_u64; advisor.stats.len()];
    let (mut values, mut matched, mut dangling, mut known) = (0, 0, vec![], vec![]);
    for (hash, sampled) in node.values.values() {
        let Some(holders) = advisor.holders(hash) else { continue };
        values += sampled.count;
        let mut any = false;
        for holder in holders {
            by_type[holder] += sampled.count;
            any = true;
        }
        if any {
            matched += sampled.count;
            known.push(sampled);
        } else if dangling.len() < 10 {
            dangling.push((sampled.text.clone(), sampled.item.clone()));
        }
    }
    let to = (0..by_type.len()).max_by_key(|index| by_type[*index])?;
    let matched = matched.min(by_type[to]);
    let numbers = node.kinds[2];
    let array = array_of(stats, node);
    let declared = model.is_some_and(|model| {
        let is = |r: &&crate::document::Relation| {
            r.path == node.path
                && model
                    .item_type(&r.from)
                    .is_some_and(|t| t.container == stats.container || t.name == stats.name)
        };
        model.relations.iter().any(|r| is(&r))
    });
    let link = Link { from, to, node: at, array, values, matched, dangling, numbers, declared };
    let convincing = named(&node.path, &advisor.stats[to].name) || is_telling(&known, numbers);
    (link.rate() >= MATCHED && convincing && advisor.stats[to].items >= 2).then_some(link)
}

/// The array nearest to the reference.
fn array_of(stats: &TypeStats, node: &PathNode) -> Option<usize> {
    let last = node.path.steps().iter().rposition(|step| *step == ModelStep::Each)?;
    stats.tree.find(&ModelPath::of(node.path.steps()[..last].to_vec()))
}

/// Whether the path says that it refers: `pubId`, `author_id`, `authors/*/id`, or the target's name.
fn named(path: &ModelPath, target: &str) -> bool {
    let names: Vec<&str> = path
        .steps()
        .iter()
        .filter_map(|step| if let ModelStep::Name(name) = step { Some(&**name) } else { None })
        .collect();
    let Some(last) = names.last() else { return false };
    let lower = last.to_ascii_lowercase();
    let (single, target) = (lower.trim_end_matches('s'), target.to_ascii_lowercase());
    let suffix = ["id", "ref", "key"].iter().any(|end| {
        single.strip_suffix(end).is_some_and(|before| {
            let at = before.len();
            before.is_empty() && names.len() > 1
                || before.ends_with(['_', '-'])
                || last.as_bytes().get(at).is_some_and(u8::is_ascii_uppercase)
        })
    });
    suffix || (single.len() >= 3 && single == target.trim_end_matches('s'))
}

/// Whether so many long values match that it is no accident.
fn is_telling(matched: &[&SampledValue], numbers: u64) -> bool {
    let long = matched.iter().filter(|s| s.text.len() >= UNNAMED_BYTES).count();
    numbers == 0 && matched.len() >= UNNAMED_VALUES && long * 10 >= matched.len() * 9
}

fn relation_name(stats: &TypeStats, path: &ModelPath, target: &TypeStats) -> String {
    let clean: String = target.name.chars().filter(char::is_ascii_alphanumeric).collect();
    let taken = stats.tree.find(&path.sibling(&clean)).is_some();
    if taken { format!("{clean}Item") } else { clean }
}

fn relation_patch(advisor: &Advisor, link: &Link, inverse: Option<&str>) -> Value {
    let (from, to) = (&advisor.stats[link.from], &advisor.stats[link.to]);
    let path = &from.tree.nodes[link.node].path;
    let clean = link.dangling.is_empty();
    object([
        ("name", relation_name(from, path, to).into()),
        ("from", (&*from.name).into()),
        ("path", path.to_string().into()),
        ("to", (&*to.name).into()),
        ("coerce", if link.numbers > 0 { "string".into() } else { Value::Undefined }),
        ("onMissing", if clean { "reject" } else { "allow" }.into()),
        ("onDelete", if clean { "restrict" } else { "keep" }.into()),
        ("inverse", inverse.map_or(Value::Undefined, |name| object([("name", name.into())]))),
    ])
}

fn types_patch(advisor: &Advisor, link: &Link) -> Value {
    let mut types = type_patch(&advisor.stats[link.from], vec![]);
    let other = type_patch(&advisor.stats[link.to], vec![]);
    if let (Some(types), Some(other)) = (types.as_object_mut(), other.as_object()) {
        for (name, value) in other.iter() {
            types.set(name, value.clone());
        }
    }
    types
}

/// M07.
pub(crate) fn weak(advisor: &Advisor, link: &Link) -> Option<Finding> {
    if link.declared {
        return None;
    }
    let (from, to) = (&advisor.stats[link.from], &advisor.stats[link.to]);
    let node = &from.tree.nodes[link.node];
    let mut reason = format!(
        "{:.1} % of the values are ids of items of type '{}', and nothing keeps them true.",
        link.rate() * 100.0,
        to.name
    );
    if link.numbers > 0 {
        reason +=
            " They are numbers, and ids are strings, so a query that compares them finds nothing.";
    }
    if !link.dangling.is_empty() {
        let texts: Vec<&str> = link.dangling.iter().take(5).map(|(text, _)| &**text).collect();
        let _ = write!(reason, " Some lead nowhere: {}.", texts.join(", "));
    }
    let samples: Vec<Box<str>> = if link.dangling.is_empty() {
        node.values.values().take(3).map(|(_, s)| s.item.clone()).collect()
    } else {
        link.dangling.iter().take(5).map(|(_, item)| item.clone()).collect()
    };
    Some(Finding {
        rule: "M07",
        severity: if link.dangling.is_empty() { Severity::Info } else { Severity::Warning },
        item_type: from.name.clone(),
        path: node.path.to_string().into(),
        reason,
        counts: vec![
            ("values", count(node.scalars())),
            ("matchedShare", link.rate().into()),
            ("danglingValues", count(link.dangling.len() as u64)),
            ("numbers", count(link.numbers)),
        ],
        samples,
        cost: None,
        confidence: link.rate(),
        patch: object([
            ("types", types_patch(advisor, link)),
            ("relations", Value::array(vec![relation_patch(advisor, link, None)])),
        ]),
    })
}

/// M08: whether the ids had better stand in the other items.
pub(crate) fn is_wrong_side(advisor: &Advisor, links: &[Link], link: &Link) -> bool {
    let Some(array) = link.array.map(|at| &advisor.stats[link.from].tree.nodes[at]) else {
        return false;
    };
    let back = |l: &Link| l.from == link.to && l.to == link.from;
    array.lengths.quantile(0.99) > LENGTH_LONG && !links.iter().any(back)
}

/// M08.
pub(crate) fn wrong_side(advisor: &Advisor, link: &Link) -> Option<Finding> {
    let (from, to) = (&advisor.stats[link.from], &advisor.stats[link.to]);
    let array = &from.tree.nodes[link.array?];
    let clean: String = from.name.chars().filter(char::is_ascii_alphanumeric).collect();
    let inverse: String = array
        .path
        .last_name()
        .unwrap_or("items")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let relation = object([
        ("name", clean.as_str().into()),
        ("from", (&*to.name).into()),
        ("path", format!("/{clean}Id").into()),
        ("to", (&*from.name).into()),
        ("onMissing", "reject".into()),
        ("onDelete", "unset".into()),
        ("inverse", object([("name", format!("{inverse}Of").into())])),
    ]);
    Some(Finding {
        rule: "M08",
        severity: Severity::Warning,
        item_type: from.name.clone(),
        path: array.path.to_string().into(),
        reason: format!(
            "The array has up to {} ids of '{}', whose items do not refer back: it grows with every \
             one of them. Put the link into '{}' as '/{clean}Id'; the list is then its inverse, and \
             nothing grows.",
            array.lengths.max(),
            to.name,
            to.name
        ),
        counts: vec![
            ("arrays", count(array.lengths.count())),
            ("lengthP99", count(array.lengths.quantile(0.99))),
            ("lengthMax", count(array.lengths.max())),
        ],
        samples: vec![array.longest.1.clone()],
        cost: Some(Cost {
            of: "one more link",
            bytes_now: from.sizes.quantile(0.99),
            bytes_after: to.sizes.quantile(0.5),
        }),
        confidence: 0.9,
        patch: object([
            ("types", types_patch(advisor, link)),
            ("relations", Value::array(vec![relation])),
        ]),
    })
}

/// M09.
pub(crate) fn join(advisor: &Advisor, links: &[Link], of: usize) -> Option<Finding> {
    let stats = &advisor.stats[of];
    if stats.items < ITEMS_MIN {
        return None;
    }
    let discriminator = |node: &PathNode| {
        let name = node.path.last_name().unwrap_or_default();
        stats.filter.as_ref().is_some_and(|filter| filter.contains(&format!("c[\"{name}\"]")))
    };
    let own = |(_, node): &(usize, &PathNode)| {
        node.path.steps().len() == 1 && node.count() * 20 >= stats.items && !discriminator(node)
    };
    let fields: Vec<usize> =
        stats.tree.nodes.iter().enumerate().filter(own).map(|(at, _)| at).collect();
    let joined: Vec<&Link> =
        links.iter().filter(|link| link.from == of && fields.contains(&link.node)).collect();
    let [a, b] = joined.as_slice() else { return None };
    if fields.len() != 2 || a.to == b.to {
        return None;
    }
    let names = [a, b].map(|link| &advisor.stats[link.to].name);
    let side = |from: &str, to: &str| {
        object([
            ("name", to.into()),
            ("from", from.into()),
            ("path", format!("/{to}Ids/*").into()),
            ("to", to.into()),
            ("onDelete", "pull".into()),
        ])
    };
    Some(Finding {
        rule: "M09",
        severity: Severity::Info,
        item_type: stats.name.clone(),
        path: "".into(),
        reason: format!(
            "The items hold two ids and nothing else: they join '{}' and '{}', and each read of one \
             leads to another read. Keep arrays of ids on both sides instead.",
            names[0], names[1]
        ),
        counts: vec![("items", count(stats.items))],
        samples: stats.tree.nodes[fields[0]]
            .values
            .values()
            .take(3)
            .map(|(_, s)| s.item.clone())
            .collect(),
        cost: Some(Cost {
            of: "following one link",
            bytes_now: stats.sizes.mean() + advisor.stats[a.to].sizes.mean(),
            bytes_after: advisor.stats[a.to].sizes.mean(),
        }),
        confidence: 0.8,
        patch: object([
            ("types", {
                let mut types = types_patch(advisor, a);
                if let (Some(types), Some(more)) =
                    (types.as_object_mut(), type_patch(&advisor.stats[b.to], vec![]).as_object())
                {
                    more.iter().for_each(|(name, value)| types.set(name, value.clone()));
                    types.remove(&stats.name);
                }
                types
            }),
            ("relations", Value::array(vec![side(names[0], names[1]), side(names[1], names[0])])),
        ]),
    })
}

/// M10: counters on the target of a link that are not the number of items that refer.
pub(crate) fn counters(advisor: &Advisor, links: &[Link], findings: &mut Vec<Finding>) {
    for link in links {
        let (from, to) = (&advisor.stats[link.from], &advisor.stats[link.to]);
        let tally = &from.tree.nodes[link.node].tally;
        for node in to.tree.nodes.iter().filter(|node| node.path.is_plain()) {
            let name = node.path.last_name().unwrap_or_default();
            let thing = from.name.trim_end_matches('s');
            if !is_counter(name) || !counts(name, thing) {
                continue;
            }
            let (mut checked, mut wrong, mut samples) = (0, 0, vec![]);
            for (hash, (stored, id)) in node.numbers.iter() {
                if !tally.covers(hash) {
                    continue;
                }
                checked += 1;
                let truth = i64::from(tally.get(hash).copied().unwrap_or(0));
                if *stored != truth {
                    wrong += 1;
                    if samples.len() < 5 {
                        samples.push(id.clone());
                    }
                }
            }
            if wrong > 0 && checked >= ITEMS_MIN / 2 {
                let aggregate = object([
                    ("on", (&*to.name).into()),
                    ("path", node.path.to_string().into()),
                    ("of", format!("{thing}sOf").into()),
                    ("value", "COUNT(1)".into()),
                    ("propagate", "sync".into()),
                ]);
                let relation = relation_patch(advisor, link, Some(&format!("{thing}sOf")));
                let patch = object([
                    ("types", types_patch(advisor, link)),
                    ("relations", Value::array(vec![relation])),
                    ("aggregates", Value::array(vec![aggregate])),
                ]);
                let what = format!("items of type '{}' that refer to it", from.name);
                let of = (to.name.clone(), node.path.to_string());
                findings.push(counter_finding(of, &what, (checked, wrong), samples, patch));
            }
        }
    }
}

/// M10: counters beside the array that they count.
pub(crate) fn array_counters(stats: &TypeStats, findings: &mut Vec<Finding>) {
    for ((name, array), agreement) in &stats.counters.pairs {
        if agreement.wrong == 0 || agreement.checked < ITEMS_MIN {
            continue;
        }
        // A counter that never agrees counts something else, or what was moved out of the array.
        if agreement.wrong == agreement.checked {
            continue;
        }
        let what = format!("elements in '/{array}'");
        let of = (stats.name.clone(), format!("/{name}"));
        let tally = (agreement.checked, agreement.wrong);
        let patch = object([("types", type_patch(stats, vec![]))]);
        findings.push(counter_finding(of, &what, tally, agreement.samples.clone(), patch));
    }
}

fn counter_finding(
    (item_type, path): (Box<str>, String),
    what: &str,
    (checked, wrong): (u64, u64),
    samples: Vec<Box<str>>,
    patch: Value,
) -> Finding {
    Finding {
        rule: "M10",
        severity: Severity::Warning,
        item_type,
        path: path.as_str().into(),
        reason: format!(
            "The stored counter is not the number of {what} in {wrong} of {checked} items looked at. \
             Declared as an aggregate it is kept true in the same commit."
        ),
        counts: vec![("checked", count(checked)), ("wrong", count(wrong))],
        samples,
        cost: None,
        confidence: 0.9,
        patch,
    }
}
