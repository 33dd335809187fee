//! Indexing policies as a tree that is walked along with an item. While an index is rebuilt several policies are
//! in effect: the current one, by which terms are written, and older ones, whose terms may still exist. One
//! walk evaluates all of them: each has a bit.

use foldhash::HashMap;

use orrery_storage::key::PathStep;
use orrery_types::limits;

use crate::composite::CompositeIndex;
use crate::path::{IndexPath, IndexStep, PathEnd};
use crate::policy::{IndexingMode, IndexingPolicy};

/// A set of policies, a bit each.
pub type PolicySet = u16;
/// The policy of now, by which terms are written.
pub const NOW: PolicySet = 1;

/// Indexed by every policy but `none`, as the service does, whatever the paths say.
const ALWAYS: [&str; 2] = ["id", "_ts"];
/// Never indexed: they follow from the item's row, and few ask for them.
const NEVER: [&str; 3] = ["_rid", "_self", "_attachments"];

/// What the policies in effect say of every path.
#[derive(Clone, Debug)]
pub struct IndexRules {
    root: Node,
    all: PolicySet,
    /// The policies that index anything.
    indexing: PolicySet,
    composites: Vec<(CompositeIndex, PolicySet)>,
}

/// What some policies say: of those that speak, which include.
#[derive(Clone, Copy, Debug, Default)]
struct Ruling {
    spoken: PolicySet,
    included: PolicySet,
}

impl Ruling {
    fn set(&mut self, policies: PolicySet, include: bool) {
        self.spoken |= policies;
        self.included &= !policies;
        if include {
            self.included |= policies;
        }
    }

    fn over(self, inherited: PolicySet) -> PolicySet {
        inherited & !self.spoken | self.included
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    properties: HashMap<Box<str>, Node>,
    elements: Option<Box<Node>>,
    /// `/?`: the value here.
    value: Ruling,
    /// `/*`: the value here and everything below.
    subtree: Ruling,
}

impl Node {
    /// The node at the end of the steps, made if it is not there; `None` for a tuple, which is no
    /// path of an item.
    fn reach(&mut self, steps: &[IndexStep]) -> Option<&mut Self> {
        let Some((first, rest)) = steps.split_first() else { return Some(self) };
        match first {
            IndexStep::Property(name) => {
                self.properties.entry(name.clone()).or_default().reach(rest)
            }
            IndexStep::Elements => self.elements.get_or_insert_default().reach(rest),
            IndexStep::Tuple(_) => None,
        }
    }
}

impl IndexRules {
    /// Rules of the policy of now and of older ones that are still in effect.
    pub fn new(now: &IndexingPolicy, older: &[IndexingPolicy]) -> Self {
        let count = older.len() + 1;
        assert!(count <= limits::INDEX_POLICIES_MAX, "the engine bounds the policies in effect");
        let (root, all) = (Node::default(), (1 << count) - 1);
        let mut rules = Self { root, all, indexing: 0, composites: vec![] };
        for (bit, policy) in [now].into_iter().chain(older).enumerate() {
            rules.add(policy, 1 << bit);
        }
        for name in NEVER {
            let node = rules.root.properties.entry(name.into()).or_default();
            node.value.set(rules.all, false);
            node.subtree.set(rules.all, false);
        }
        rules
    }

    fn add(&mut self, policy: &IndexingPolicy, bit: PolicySet) {
        if policy.mode == IndexingMode::None {
            return;
        }
        self.indexing |= bit;
        // Included paths come last: where both lists name one path, it is indexed.
        let excluded = policy.excluded.iter().map(|path| (path, false));
        for (path, include) in excluded.chain(policy.included.iter().map(|path| (path, true))) {
            let Some(node) = self.root.reach(&path.steps) else { continue };
            match path.end {
                PathEnd::Scalar => node.value.set(bit, include),
                PathEnd::Subtree => node.subtree.set(bit, include),
            }
        }
        for name in ALWAYS {
            self.root.properties.entry(name.into()).or_default().value.set(bit, true);
        }
        for paths in &policy.composite {
            let Some(index) = CompositeIndex::new(paths) else { continue };
            match self.composites.iter_mut().find(|(known, _)| known.text() == index.text()) {
                Some((_, policies)) => *policies |= bit,
                None => self.composites.push((index, bit)),
            }
        }
    }

    /// All policies in effect.
    pub fn all(&self) -> PolicySet {
        self.all
    }

    /// Where a walk begins: the item itself, which has no term.
    pub fn root(&self) -> RulePosition<'_> {
        RulePosition { node: Some(&self.root), below: self.root.subtree.over(0) }
    }

    /// The policies that index a path.
    pub fn policies_of(&self, steps: &[IndexStep]) -> PolicySet {
        let mut place = self.root();
        for step in steps {
            place = match step {
                IndexStep::Property(name) => place.step(PathStep::Property(name)),
                IndexStep::Elements => place.step(PathStep::Elements),
                IndexStep::Tuple(_) => return 0,
            };
        }
        if steps.is_empty() { 0 } else { place.included() }
    }

    /// Whether any policy indexes a property of the item itself.
    pub fn includes_property(&self, name: &str) -> bool {
        self.root().step(PathStep::Property(name)).included() != 0
    }

    /// Composite indexes with the policies that have them.
    pub fn composites(&self) -> &[(CompositeIndex, PolicySet)] {
        &self.composites
    }

    /// The policies that index anything.
    pub fn indexing(&self) -> PolicySet {
        self.indexing
    }
}

/// A path during a walk.
#[derive(Clone, Copy, Debug)]
pub struct RulePosition<'r> {
    /// `None` where no policy names a path any more.
    node: Option<&'r Node>,
    /// The policies that include everything from here on, unless a longer path says otherwise.
    below: PolicySet,
}

impl<'r> RulePosition<'r> {
    /// One step further.
    #[must_use]
    pub fn step(self, step: PathStep<'_>) -> Self {
        let node = match (self.node, step) {
            (_, PathStep::Property(name)) if name.len() > limits::INDEX_NAME_BYTES_MAX => {
                return Self { node: None, below: 0 };
            }
            (Some(node), PathStep::Property(name)) => node.properties.get(name),
            (Some(node), PathStep::Elements) => node.elements.as_deref(),
            (None, _) => None,
        };
        let below = node.map_or(self.below, |node: &'r Node| node.subtree.over(self.below));
        Self { node, below }
    }

    /// The policies that index the value here.
    pub fn included(self) -> PolicySet {
        self.node.map_or(self.below, |node| node.value.over(self.below))
    }

    /// Whether nothing here or below is indexed.
    pub fn is_barren(self) -> bool {
        self.below == 0 && self.node.is_none()
    }
}

/// Whether two policies index the same, however they are written: then the index is not rebuilt.
pub(crate) fn same_terms(a: &IndexingPolicy, b: &IndexingPolicy) -> bool {
    let indexes = |policy: &IndexingPolicy| policy.mode != IndexingMode::None;
    let key = |path: &IndexPath| (path.steps.clone(), path.end);
    let same = |a: &[IndexPath], b: &[IndexPath]| {
        a.len() == b.len() && a.iter().all(|p| b.iter().any(|q| key(p) == key(q)))
    };
    let texts = |policy: &IndexingPolicy| {
        let indexes = policy.composite.iter().filter_map(|paths| CompositeIndex::new(paths));
        let mut texts: Vec<Box<str>> = indexes.map(|index| index.text().into()).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    };
    indexes(a) == indexes(b)
        && same(&a.included, &b.included)
        && same(&a.excluded, &b.excluded)
        && texts(a) == texts(b)
}

#[cfg(test)]
mod tests {
    use orrery_types::Value;

    use super::*;

    fn policy(json: &str) -> IndexingPolicy {
        IndexingPolicy::parse(&Value::parse(json.as_bytes()).expect("JSON")).expect("a policy")
    }

    fn policies_of(rules: &IndexRules, path: &str) -> PolicySet {
        rules.policies_of(&IndexPath::parse(path, true).expect(path).steps)
    }

    #[test]
    fn the_longer_path_wins_and_the_value_beats_the_subtree() {
        let rules = IndexRules::new(
            &policy(
                r#"{"includedPaths":[{"path":"/*"},{"path":"/a/b/?"},{"path":"/l/[]/x/*"},{"path":"/t/?"}],
                "excludedPaths":[{"path":"/a/*"},{"path":"/l/*"},{"path":"/s/?"},{"path":"/t/?"}]}"#,
            ),
            &[],
        );
        let check = |path: &str, expected: bool| {
            assert_eq!(policies_of(&rules, path) == rules.all(), expected, "{path}");
        };
        for included in ["/x", "/x/y", "/a/b", "/l/[]/x", "/l/[]/x/[]/y", "/s/below", "/t", "/id"] {
            check(included, true);
        }
        for excluded in ["/a", "/a/c", "/a/b/c", "/l", "/l/[]", "/l/x", "/s", "/_etag", "/_self"] {
            check(excluded, false);
        }
        check(&format!("/{}", "n".repeat(limits::INDEX_NAME_BYTES_MAX + 1)), false);
    }

    #[test]
    fn each_policy_in_effect_has_its_say() {
        let none = policy(r#"{"indexingMode":"none"}"#);
        let bare = policy(r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#);
        let rules = IndexRules::new(&IndexingPolicy::default(), &[bare.clone(), none.clone()]);
        assert_eq!(rules.all(), 0b111);
        assert_eq!(policies_of(&rules, "/a"), 0b011);
        assert_eq!(policies_of(&rules, "/b"), 0b001);
        assert_eq!(policies_of(&rules, "/_ts"), 0b011);
        assert_eq!(rules.indexing(), 0b011);
        assert_eq!(IndexRules::new(&none, &[]).indexing(), 0);
    }

    #[test]
    fn policies_that_index_the_same_are_the_same() {
        let check = |a: &str, b: &str, expected: bool| {
            assert_eq!(same_terms(&policy(a), &policy(b)), expected, "{a} {b}");
        };
        check("{}", r#"{"indexingMode":"lazy"}"#, true);
        check("{}", r#"{"spatialIndexes":[{"path":"/l/*","types":["Point"]}]}"#, true);
        check("{}", r#"{"indexingMode":"none"}"#, false);
        check("{}", r#"{"excludedPaths":[{"path":"/a/?"}]}"#, false);
        check("{}", r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b"}]]}"#, false);
        let both = r#"[{"path":"/a"},{"path":"/b"}],[{"path":"/c"},{"path":"/d"}]"#;
        let turned = r#"[{"path":"/c"},{"path":"/d"}],[{"path":"/a"},{"path":"/b"}]"#;
        check(
            &format!(r#"{{"compositeIndexes":[{both}]}}"#),
            &format!(r#"{{"compositeIndexes":[{turned}]}}"#),
            true,
        );
    }
}
