//! M01 unbounded array, M02 item size, M03 hot duplicate.

use orrery_types::{Value, limits};

use super::finding::{Cost, Finding, Severity, count, object};
use super::growth::{Growth, iso_date};
use super::links::Link;
use super::report::type_patch;
use super::tree::PathNode;
use super::{ITEMS_MIN, TypeStats};
use crate::path::ModelStep;

/// M01: from this length on an array counts as long, and from this share of growth as growing.
const LENGTH_LONG: u64 = 100;
const GROWING: f64 = 0.8;
/// M02: sizes at which an item is noted, warned of and critical.
const SIZES: [(u64, Severity); 3] =
    [(1_572_864, Severity::Critical), (1_048_576, Severity::Warning), (102_400, Severity::Info)];
/// M03: items that hold the same object, and different contents of one object.
const DUPLICATES_MIN: u64 = 20;
const CONTENTS_MIN: usize = 3;

#[expect(clippy::cast_precision_loss, reason = "a share is a rough number")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// M01. Arrays of ids that belong on the other side are left to M08.
pub(crate) fn unbounded(
    stats: &TypeStats,
    moved: &[&Link],
    findings: &mut Vec<Finding>,
    lacking: &mut Vec<String>,
) {
    for (at, node) in stats.tree.nodes.iter().enumerate() {
        let plain = node.path.is_plain();
        if !plain || node.lengths.count() < ITEMS_MIN || node.lengths.quantile(0.99) < LENGTH_LONG {
            continue;
        }
        let elements = stats.tree.nodes.iter().filter(|n| n.parent == at);
        let is_moved = elements.clone().any(|_| moved.iter().any(|link| link.array == Some(at)));
        if is_moved {
            continue;
        }
        let Some((grown, evidence, growth)) = growing(stats, node) else {
            lacking.push(format!(
                "M01 {}{}: arrays are long (99 % have up to {} elements), but the data has one \
                 version of each item and no dates in the elements, so whether they grow is unknown",
                stats.name,
                node.path,
                node.lengths.quantile(0.99)
            ));
            continue;
        };
        if grown >= GROWING {
            findings.push(unbounded_finding(stats, node, grown, &evidence, growth));
        }
    }
}

/// The share of arrays that grow, how that is known, and what is known of it.
fn growing<'s>(stats: &'s TypeStats, node: &PathNode) -> Option<(f64, String, &'s Growth)> {
    let growth = stats.growths.of(&node.path)?;
    if growth.touched >= ITEMS_MIN {
        let grown = share(growth.grown, growth.touched);
        let evidence =
            format!("{} of {} later versions had a longer array", growth.grown, growth.touched);
        return Some((grown, evidence, growth));
    }
    if growth.dated >= ITEMS_MIN / 2 {
        let evidence = format!(
            "in {} of {} arrays the dates rise from the first element to the last",
            growth.rising, growth.dated
        );
        return Some((share(growth.rising, growth.dated), evidence, growth));
    }
    None
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "an estimate is a rough number"
)]
fn unbounded_finding(
    stats: &TypeStats,
    node: &PathNode,
    grown: f64,
    evidence: &str,
    growth: &Growth,
) -> Finding {
    let elements = node.lengths.mean().max(1);
    let element_bytes = node.bytes / node.count().max(1) / elements;
    let size = stats.sizes.quantile(0.99);
    let left = (limits::ITEM_SIZE_BYTES_MAX as u64).saturating_sub(size);
    let days = left as f64 / (growth.per_day * element_bytes.max(1) as f64);
    let full = (growth.per_day > 0.0 && days < 36_500.0)
        .then(|| iso_date(growth.last_s + (days * 86_400.0) as i64));
    let until = full.as_ref().map_or_else(String::new, |date| {
        format!(" At this rate the largest reaches 2 MB about {date}.")
    });
    let name = node.path.last_name().unwrap_or("elements");
    let singular = name.strip_suffix('s').unwrap_or(name);
    let capital = |s: &str| {
        let mut chars = s.chars();
        chars
            .next()
            .map_or_else(String::new, |c| c.to_ascii_uppercase().to_string() + chars.as_str())
    };
    let bucket = object([
        ("on", (&*stats.name).into()),
        ("array", node.path.to_string().into()),
        ("elementKey", "id".into()),
        (
            "recent",
            object([("path", format!("/recent{}", capital(name)).into()), ("keep", 3.into())]),
        ),
        ("count", format!("/{singular}Count").into()),
        (
            "bucket",
            object([
                ("items", 100.into()),
                ("maxBytes", 262_144.into()),
                ("link", format!("/{}Id", stats.name).into()),
                ("idFormat", "{id}~c{seq:06}".into()),
            ]),
        ),
    ]);
    Finding {
        rule: "M01",
        severity: Severity::Warning,
        item_type: stats.name.clone(),
        path: node.path.to_string().into(),
        reason: format!(
            "The array has up to {} elements and grows ({evidence}): every append writes the whole \
             item, and the item has a limit.{until}",
            node.lengths.max()
        ),
        counts: vec![
            ("arrays", count(node.lengths.count())),
            ("lengthP99", count(node.lengths.quantile(0.99))),
            ("lengthMax", count(node.lengths.max())),
            ("growingShare", grown.into()),
            ("reaches2MB", full.map_or(Value::Undefined, Value::from)),
        ],
        samples: vec![node.longest.1.clone()],
        cost: Some(Cost {
            of: "one append",
            bytes_now: size,
            bytes_after: (element_bytes * 50).max(1024) + 1024,
        }),
        confidence: if growth.touched >= ITEMS_MIN { 0.95 } else { 0.8 },
        patch: object([
            ("types", type_patch(stats, vec![])),
            ("buckets", Value::array(vec![bucket])),
        ]),
    }
}

/// M02.
pub(crate) fn size(stats: &TypeStats, findings: &mut Vec<Finding>) {
    let p99 = stats.sizes.quantile(0.99);
    let Some((_, severity)) = SIZES.iter().find(|(size, _)| p99 > *size) else { return };
    let heaviest = stats.tree.nodes.iter().filter(|n| n.path.steps().len() == 1);
    let heaviest = heaviest.max_by_key(|node| node.bytes);
    let path = heaviest.map_or_else(String::new, |node| node.path.to_string());
    let of = heaviest.map_or(0.0, |node| share(node.bytes, stats.tree.nodes[0].bytes));
    let after = stats.sizes.mean()
        - heaviest.map_or(0, |n| n.bytes / stats.sizes.count().max(1)).min(stats.sizes.mean());
    let limit = object([("warnBytes", 102_400.into()), ("maxBytes", 1_048_576.into())]);
    findings.push(Finding {
        rule: "M02",
        severity: *severity,
        item_type: stats.name.clone(),
        path: path.as_str().into(),
        reason: format!(
            "Items are large: 99 % have up to {p99} bytes, the largest has {}. '{path}' makes up {:.0} \
             % of it. Every read and write carries all of it; move what is seldom used into an item \
             of its own, or into buckets if it is an array.",
            stats.largest.0,
            of * 100.0
        ),
        counts: vec![
            ("items", count(stats.items)),
            ("bytesP50", count(stats.sizes.quantile(0.5))),
            ("bytesP99", count(p99)),
            ("bytesMax", count(stats.sizes.max())),
            ("heaviestShare", of.into()),
        ],
        samples: vec![stats.largest.1.clone()],
        cost: Some(Cost { of: "one write", bytes_now: stats.sizes.mean(), bytes_after: after }),
        confidence: 0.9,
        patch: object([(
            "types",
            type_patch(stats, vec![
                ("limits", limit),
                ("validation", object([("level", "moderate".into()), ("action", "warn".into())])),
            ]),
        )]),
    });
}

/// M03. How often the copies are read does not show in the data.
pub(crate) fn duplicates(stats: &TypeStats, findings: &mut Vec<Finding>) {
    for embedded in stats.duplicates.paths.values() {
        let many: Vec<_> = embedded
            .copies
            .iter()
            .map(|(_, copies)| copies)
            .filter(|copies| copies.occurrences >= DUPLICATES_MIN)
            .collect();
        let changing: Vec<_> = many.iter().filter(|c| c.contents.len() >= CONTENTS_MIN).collect();
        let Some(worst) = changing.iter().max_by_key(|c| c.contents.len()) else { continue };
        if changing.len() * 5 < many.len() {
            continue;
        }
        let bytes = worst.bytes / worst.occurrences.max(1);
        let mut name = embedded.path.last_name().unwrap_or("").to_owned();
        if name.is_empty() {
            let mut steps = embedded.path.steps().iter().rev();
            let named = steps.find_map(|s| if let ModelStep::Name(n) = s { Some(n) } else { None });
            name = named.map_or_else(|| "part".to_owned(), |n| n.trim_end_matches('s').to_owned());
        }
        let relation = object([
            ("name", format!("{name}Item").into()),
            ("from", (&*stats.name).into()),
            ("path", format!("{}/{}", embedded.path, embedded.key).into()),
            ("to", name.as_str().into()),
            ("onMissing", "reject".into()),
            ("onDelete", "restrict".into()),
        ]);
        findings.push(Finding {
            rule: "M03",
            severity: Severity::Warning,
            item_type: stats.name.clone(),
            path: embedded.path.to_string().into(),
            reason: format!(
                "The object with {} '{}' is embedded {} times with {} different contents: it \
                 changes, and each change has to be written into every copy, or the copies differ as \
                 they do now. Keep it once, in an item of its own, and refer to it. How often the \
                 copies are read is not in the data.",
                embedded.key,
                worst.key,
                worst.occurrences,
                worst.contents.len()
            ),
            counts: vec![
                ("embeddedOften", count(many.len() as u64)),
                ("changing", count(changing.len() as u64)),
                ("occurrences", count(worst.occurrences)),
                ("contents", count(worst.contents.len() as u64)),
            ],
            samples: worst.samples.clone(),
            cost: Some(Cost {
                of: "one change of the object",
                bytes_now: stats.sizes.mean() * worst.occurrences,
                bytes_after: bytes,
            }),
            confidence: 0.7,
            patch: object([
                (
                    "types",
                    merged(type_patch(stats, vec![]), &name, object([("container", format!("{name}s").into())])),
                ),
                ("relations", Value::array(vec![relation])),
            ]),
        });
    }
}

fn merged(mut types: Value, name: &str, value: Value) -> Value {
    if let Some(types) = types.as_object_mut() {
        types.set(name, value);
    }
    types
}
