//! Cycles: a kept property that, through other kept properties, follows from itself would never come
//! to rest.

use crate::error::ModelError;
use crate::expression::PathRead;
use crate::path::{ModelPath, ModelStep};
use crate::rules::Rules;

pub(crate) fn check(rules: &Rules) -> Result<(), ModelError> {
    let depends: Vec<Vec<usize>> = (0..rules.owned.len()).map(|i| depends_on(rules, i)).collect();
    for start in 0..rules.owned.len() {
        let mut seen = vec![false; rules.owned.len()];
        if let Some(found) = find(&depends, start, &mut vec![start], &mut seen) {
            let names: Vec<String> = found
                .iter()
                .map(|i| {
                    let own = &rules.owned[*i];
                    format!("{}{}", rules.types[own.item_type].def.name, own.path)
                })
                .collect();
            let reason = format!(
                "copies and aggregates form a cycle: {}; each follows from the next, so none of them \
                 would ever come to rest. Compute one of them from properties that clients write",
                names.join(" ← ")
            );
            return Err(ModelError::new(&*rules.owned[start].rule, reason));
        }
    }
    Ok(())
}

/// A way from the last of `path` back to `start`. Each property is gone through once: where it does
/// not lead back the first time, it never does.
fn find(
    depends: &[Vec<usize>],
    start: usize,
    path: &mut Vec<usize>,
    seen: &mut [bool],
) -> Option<Vec<usize>> {
    for next in &depends[*path.last()?] {
        if *next == start {
            let mut cycle = path.clone();
            cycle.push(start);
            return Some(cycle);
        }
        if !std::mem::replace(&mut seen[*next], true) {
            path.push(*next);
            if let Some(cycle) = find(depends, start, path, seen) {
                return Some(cycle);
            }
            path.pop();
        }
    }
    None
}

/// The kept properties that a kept property is computed from.
fn depends_on(rules: &Rules, index: usize) -> Vec<usize> {
    let rule = &*rules.owned[index].rule;
    let (mut reads, mut of): (Vec<PathRead>, usize) = (vec![], usize::MAX);
    let own = &rules.owned[index];
    for (i, relation) in rules.relations.iter().enumerate() {
        if rule.starts_with(&format!("/relations/{i}/copies/")) {
            let copy = relation.copies.iter().find(|(path, _)| *path == own.path);
            reads = copy.map(|(_, value)| value.reads().to_vec()).unwrap_or_default();
            of = relation.to;
        }
    }
    for (i, aggregate) in rules.aggregates.iter().enumerate() {
        if rule == format!("/aggregates/{i}/path") {
            reads = aggregate.argument.reads().to_vec();
            of = rules.relations[aggregate.relation].from;
        }
    }
    let is_read = |path: &ModelPath| reads.iter().any(|read| touches(read, path));
    let owned = rules.owned.iter().enumerate();
    owned
        .filter(|(_, other)| other.item_type == of)
        .filter(|(_, other)| is_read(&other.path))
        .map(|(i, _)| i)
        .collect()
}

fn touches(read: &PathRead, path: &ModelPath) -> bool {
    read.iter().zip(path.steps()).all(|(name, step)| match step {
        ModelStep::Name(own) => own == name,
        // An expression reaches elements by index, which ends what is known of its path.
        ModelStep::Each => true,
    })
}
