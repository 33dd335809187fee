//! M13: one path, two JSON types.

use orrery_types::Value;

use super::finding::{Finding, Severity, count, object};
use super::report::type_patch;
use super::tree::KINDS;
use super::{ITEMS_MIN, TypeStats};
use crate::path::ModelStep;

/// Each of the two types has at least this share.
const SHARE_MIN: f64 = 0.01;

/// Null is no type of its own here: it says that there is no value.
pub(crate) fn find(stats: &TypeStats, findings: &mut Vec<Finding>) {
    for node in stats.tree.nodes.iter().skip(1) {
        let total: u64 = node.kinds.iter().skip(1).sum();
        if total < ITEMS_MIN {
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share is a rough number")]
        let share = |kind: usize| node.kinds[kind] as f64 / total as f64;
        let mut present: Vec<usize> = (1..KINDS.len())
            .filter(|kind| node.kinds[*kind] > 1 && share(*kind) >= SHARE_MIN)
            .collect();
        if present.len() < 2 {
            continue;
        }
        present.sort_by_key(|kind| std::cmp::Reverse(node.kinds[*kind]));
        let says: Vec<String> = present
            .iter()
            .map(|kind| format!("{} in {:.1} %", KINDS[*kind], share(*kind) * 100.0))
            .collect();
        let usual = object([("type", KINDS[present[0]].into())]);
        let schema = node.path.steps().iter().rev().fold(usual, |inner, step| match step {
            ModelStep::Name(name) => object([("properties", object([(&**name, inner)]))]),
            ModelStep::Each => object([("items", inner)]),
        });
        findings.push(Finding {
            rule: "M13",
            severity: Severity::Info,
            item_type: stats.name.clone(),
            path: node.path.to_string().into(),
            reason: format!(
                "The values have more than one JSON type ({}): whoever reads them has to handle each, \
                 and a comparison finds only one.",
                says.join(", ")
            ),
            counts: present.iter().map(|kind| (KINDS[*kind], count(node.kinds[*kind]))).collect(),
            samples: present.iter().filter_map(|kind| node.kind_samples[*kind].clone()).collect(),
            cost: None,
            confidence: 0.9,
            patch: object([(
                "types",
                type_patch(stats, vec![
                    ("schema", schema),
                    ("validation", object([("level", "moderate".into()), ("action", Value::from("warn"))])),
                ]),
            )]),
        });
    }
}
