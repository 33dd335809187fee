//! M14: queries that fix another path than the partition key come again and again. Each of them goes to every
//! physical partition; in a global secondary index under that path it goes to one.

use orrery_types::Value;

use super::finding::{Finding, Severity, count, object};
use super::shape::DISCRIMINATORS;
use super::workload::{ContainerWork, TIMES_MIN, number, round, units};

/// The queries of one container that fix a path.
#[derive(Default)]
struct Repeated<'a> {
    /// How many there were, one that went to several ranges counted once.
    asked: u64,
    charge: f64,
    sample: &'a str,
}

/// The finding with the greatest saving, if it pays: an index costs about what the writes of its source cost.
pub(super) fn find(work: &ContainerWork, item_type: &str, visit_charge: f64) -> Option<Finding> {
    if work.is_index || work.ranges < 2 {
        return None;
    }
    let (path, queries) = most_repeated(work)?;
    let others = number(work.ranges - 1);
    let saved = visit_charge * others * number(queries.asked);
    if queries.asked < TIMES_MIN || saved <= work.write_charge {
        return None;
    }
    let each = queries.charge / number(queries.asked);
    let after = visit_charge.mul_add(-others, each).max(visit_charge);
    Some(Finding {
        rule: "M14",
        severity: Severity::Info,
        item_type: item_type.into(),
        path: path.into(),
        reason: format!(
            "{} queries fixed '{path}' and not the partition key, so each asked all {} physical \
             partitions of '{}': a global secondary index under '{path}' answers them from one. It is \
             written as often as the container.",
            queries.asked, work.ranges, work.name
        ),
        counts: [
            vec![
                ("queries", count(queries.asked)),
                ("physicalPartitions", count(work.ranges)),
                ("writes", count(work.writes)),
                ("writeChargeOfTheIndex", round(work.write_charge)),
            ],
            units("one query", each, after),
        ]
        .concat(),
        samples: vec![queries.sample.into()],
        cost: None,
        confidence: 0.7,
        patch: object([(
            "containers",
            object([(&*index_name(work, path), definition(work, path))]),
        )]),
    })
}

/// The path that queries fixed and no index has, and these queries; the one that was asked for most.
fn most_repeated(work: &ContainerWork) -> Option<(&str, Repeated<'_>)> {
    let mut found: Vec<(&str, Repeated<'_>)> = Vec::new();
    for query in &work.queries_seen {
        // A discriminator beside another path says little; alone it would make a few huge partitions.
        let tells = |path: &&String| {
            let name = path.trim_start_matches('/');
            !name.starts_with('_') && !DISCRIMINATORS.contains(&name)
        };
        let mut paths = query.fixes.iter().filter(tells);
        let (Some(path), None) = (paths.next(), paths.next()) else { continue };
        let own = last_name(path_in_index(path));
        if work.index_paths.iter().any(|indexed| last_name(indexed) == own) {
            continue;
        }
        let at = found.iter().position(|(known, _)| known == path).unwrap_or_else(|| {
            found.push((path, Repeated { sample: &query.text, ..Repeated::default() }));
            found.len() - 1
        });
        found[at].1.asked += query.begun;
        found[at].1.charge += query.charge;
    }
    // Where two are as frequent, the first is of the heavier query.
    found.into_iter().rev().max_by_key(|(_, queries)| queries.asked)
}

fn definition(work: &ContainerWork, path: &str) -> Value {
    let paths = Value::array(vec![path_in_index(path).into()]);
    let key = object([("paths", paths), ("kind", "Hash".into()), ("version", Value::from(2_i64))]);
    let source = object([
        ("sourceCollectionId", (&*work.name).into()),
        ("definition", "SELECT * FROM c".into()),
    ]);
    object([("partitionKey", key), ("globalSecondaryIndexDefinition", source)])
}

fn index_name(work: &ContainerWork, path: &str) -> String {
    format!("{}_by_{}", work.name, last_name(path))
}

/// Items of an index have an id of their own, and that of their source item beside it.
fn path_in_index(path: &str) -> &str {
    if path == "/id" { "/_id" } else { path }
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
