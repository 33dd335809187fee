//! Which orders an indexing policy serves, read straight from the policy document.

use orrery_types::Value;

use crate::ast::Direction;
use crate::facts::{OrderKey, OrderStep, OrderSupport};

/// The paths of an indexing policy that matter to ORDER BY.
#[derive(Clone, Debug, Default)]
pub struct IndexedOrder {
    none: bool,
    included: Vec<Pattern>,
    excluded: Vec<Pattern>,
    composites: Vec<Vec<(Vec<OrderStep>, Direction)>>,
}

/// A path of the policy: its steps, and whether everything below is meant (`/*`) or just the
/// value there (`/?`).
#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    steps: Vec<OrderStep>,
    below: bool,
}

impl IndexedOrder {
    /// Reads the members `indexingMode`, `includedPaths`, `excludedPaths`, `compositeIndexes`;
    /// what is malformed is passed over, since the catalogue has checked the policy.
    pub fn from_policy(policy: &Value) -> Self {
        let patterns = |member: &str| -> Vec<Pattern> {
            let list = policy.get(member).as_array().unwrap_or_default();
            list.iter().filter_map(|entry| Pattern::parse(entry.get("path").as_str()?)).collect()
        };
        let composite = |index: &Value| -> Option<Vec<(Vec<OrderStep>, Direction)>> {
            index.as_array()?.iter().map(composite_key).collect()
        };
        let composites = policy.get("compositeIndexes").as_array().unwrap_or_default();
        Self {
            none: policy
                .get("indexingMode")
                .as_str()
                .is_some_and(|m| m.eq_ignore_ascii_case("none")),
            included: patterns("includedPaths"),
            excluded: patterns("excludedPaths"),
            composites: composites.iter().filter_map(composite).collect(),
        }
    }
}

fn composite_key(entry: &Value) -> Option<(Vec<OrderStep>, Direction)> {
    let descending =
        entry.get("order").as_str().is_some_and(|o| o.eq_ignore_ascii_case("descending"));
    let direction = if descending { Direction::Descending } else { Direction::Ascending };
    Some((Pattern::parse(entry.get("path").as_str()?)?.steps, direction))
}

impl Pattern {
    fn parse(path: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut below = false;
        let mut rest = path;
        while let Some(after) = rest.strip_prefix('/') {
            if let Some(inner) = after.strip_prefix('"') {
                let end = inner.find('"')?;
                steps.push(OrderStep::Name(inner[..end].into()));
                rest = &inner[end + 1..];
                continue;
            }
            let (segment, tail) = after.split_at(after.find('/').unwrap_or(after.len()));
            match segment {
                "*" => below = true,
                "?" | "" => {}
                "[]" => steps.push(OrderStep::Element),
                name => steps.push(OrderStep::Name(name.into())),
            }
            rest = tail;
        }
        Some(Self { steps, below })
    }

    fn covers(&self, path: &[OrderStep]) -> bool {
        if self.below { path.starts_with(&self.steps) } else { path == self.steps.as_slice() }
    }

    /// More steps are more precise; at the same depth the value beats everything below.
    fn precision(&self) -> (usize, bool) {
        (self.steps.len(), !self.below)
    }
}

impl OrderSupport for IndexedOrder {
    fn is_indexed(&self, key: &OrderKey) -> bool {
        if self.none {
            return false;
        }
        let always = ["id", "_ts"].map(|name| OrderStep::Name(name.into()));
        if let [only] = key.path.as_slice()
            && always.contains(only)
        {
            return true;
        }
        let best = |patterns: &[Pattern]| {
            let explicit = |p: &&Pattern| !key.computed || !p.steps.is_empty();
            let covering = patterns.iter().filter(|p| p.covers(&key.path)).filter(explicit);
            covering.map(Pattern::precision).max()
        };
        let included = best(&self.included);
        included.is_some() && included >= best(&self.excluded)
    }

    fn has_composite(&self, keys: &[OrderKey]) -> bool {
        self.composites.iter().any(|index| {
            let same_paths = index.len() == keys.len()
                && index.iter().zip(keys).all(|((path, _), key)| *path == key.path);
            let same = index.iter().zip(keys).filter(|((_, d), key)| *d == key.direction).count();
            same_paths && (same == 0 || same == keys.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str, direction: Direction) -> OrderKey {
        let path = Pattern::parse(path).unwrap().steps;
        OrderKey { path, direction, computed: false }
    }

    fn policy(text: &str) -> IndexedOrder {
        IndexedOrder::from_policy(&Value::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn the_more_precise_path_wins() {
        let order = policy(
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a/b/?"}],
                "excludedPaths":[{"path":"/a/*"},{"path":"/\"c d\"/?"}]}"#,
        );
        let check = |path: &str, expected: bool| {
            assert_eq!(order.is_indexed(&key(path, Direction::Ascending)), expected, "{path}");
        };
        check("/x", true);
        check("/a", false);
        check("/a/c", false);
        check("/a/b", true);
        check("/\"c d\"", false);
        let nothing = policy(r#"{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}"#);
        assert!(nothing.is_indexed(&key("/id", Direction::Ascending)));
        assert!(!nothing.is_indexed(&key("/a", Direction::Ascending)));
    }

    #[test]
    fn a_composite_index_serves_its_own_order_and_the_inverse() {
        use Direction::{Ascending, Descending};
        let order =
            policy(r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]]}"#);
        let check = |keys: &[(&str, Direction)], expected: bool| {
            let keys: Vec<_> = keys.iter().map(|(p, d)| key(p, *d)).collect();
            assert_eq!(order.has_composite(&keys), expected, "{keys:?}");
        };
        check(&[("/a", Ascending), ("/b", Descending)], true);
        check(&[("/a", Descending), ("/b", Ascending)], true);
        check(&[("/a", Ascending), ("/b", Ascending)], false);
        check(&[("/b", Descending), ("/a", Ascending)], false);
        check(&[("/a", Ascending)], false);
    }
}
