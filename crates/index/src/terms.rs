//! From an item to its index terms: for every path that is indexed, the path and the value there.
//! Pure; the caller provides the ids of paths.

use orrery_storage::key::{CompositeId, PathId, PathStep, ShapeId, TermPrefix};
use orrery_storage::term::encode_term;
use orrery_types::{Object, Value, limits};

use crate::rules::{IndexRules, PolicySet, RulePosition};
use crate::stored_numbers;

/// Gives paths and composite indexes their numbers.
pub trait PathIds {
    /// A path during a walk.
    type Node: Copy;
    /// Why there is no number.
    type Error;

    /// The item itself.
    fn root(&self) -> Self::Node;
    /// One step further.
    fn child(&mut self, node: Self::Node, step: PathStep<'_>) -> Result<Self::Node, Self::Error>;
    /// The number of a path.
    fn id(&self, node: Self::Node) -> PathId;
    /// The number of a composite index.
    fn composite(&mut self, text: &str) -> Result<CompositeId, Self::Error>;
    /// The number of a set of paths, given in ascending order; [`ShapeId::ANY`] if there are too many.
    fn shape(&mut self, paths: &[PathId]) -> Result<ShapeId, Self::Error>;
}

/// An item as the index sees it: what the client sent, and the system properties as they are stored.
#[derive(Clone, Debug)]
pub struct IndexedItem<'v> {
    own: &'v Object,
    reserved: &'static [&'static str],
    system: Vec<(&'static str, Value)>,
}

impl<'v> IndexedItem<'v> {
    /// Puts `system` in the place of whatever stands under the `reserved` names.
    pub fn new(
        own: &'v Object,
        reserved: &'static [&'static str],
        system: Vec<(&'static str, Value)>,
    ) -> Self {
        Self { own, reserved, system }
    }

    fn own_properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        let own = self.own.iter().map(|(name, value)| (&**name, value));
        own.filter(|(name, _)| !self.reserved.contains(name))
    }

    /// The value of a property; undefined if it has none.
    pub fn get(&self, name: &str) -> &Value {
        let system = self.system.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let own = || self.own.get(name).filter(|_| !self.reserved.contains(&name));
        system.or_else(own).unwrap_or(&Value::Undefined)
    }
}

/// The terms of one item, as a sorted set: keys of the Index space without their row, each with the
/// policies that ask for it.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Paths that lead through no array, until they have become a shape.
    outline: Vec<(PathId, PolicySet)>,
    /// The numbers at those of them that the system does not write, until they stand beside it.
    numbers: Vec<(PathId, f64, PolicySet)>,
}

/// A term, and behind it what is stored under it.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: usize,
    to: usize,
    value_to: usize,
    policies: PolicySet,
}

impl Span {
    /// Of a term under which nothing is stored.
    fn empty(from: usize, to: usize, policies: PolicySet) -> Self {
        Self { from, to, value_to: to, policies }
    }
}

/// An entry of the index but for its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TermEntry<'t> {
    pub term: &'t [u8],
    pub value: &'t [u8],
    pub policies: PolicySet,
}

/// A path during the walk over an item.
#[derive(Clone, Copy)]
struct Walk<'r, N> {
    node: N,
    place: RulePosition<'r>,
    in_array: bool,
}

impl Terms {
    /// The terms of an item under all policies in effect.
    pub fn extract<P: PathIds>(
        rules: &IndexRules,
        item: &IndexedItem<'_>,
        ids: &mut P,
    ) -> Result<Self, P::Error> {
        let (bytes, spans) = (Vec::with_capacity(1024), Vec::with_capacity(48));
        let (outline, numbers) = (Vec::with_capacity(48), Vec::with_capacity(16));
        let mut terms = Self { bytes, spans, outline, numbers };
        let at = Walk { node: ids.root(), place: rules.root(), in_array: false };
        for (name, value) in item.own_properties() {
            terms.property(ids, at, name, value)?;
        }
        let own_numbers = terms.numbers.len();
        for (name, value) in &item.system {
            terms.property(ids, at, name, value)?;
        }
        terms.numbers.truncate(own_numbers);
        terms.shapes(rules, ids)?;
        for (index, policies) in rules.composites() {
            let id = ids.composite(index.text())?;
            let from = terms.bytes.len();
            TermPrefix::Composite(id).write(&mut terms.bytes);
            index.write_values(item, &mut terms.bytes);
            terms.spans.push(Span::empty(from, terms.bytes.len(), *policies));
        }
        terms.become_a_set();
        Ok(terms)
    }

    fn property<P: PathIds>(
        &mut self,
        ids: &mut P,
        at: Walk<'_, P::Node>,
        name: &str,
        value: &Value,
    ) -> Result<(), P::Error> {
        let step = PathStep::Property(name);
        let place = at.place.step(step);
        if place.is_barren() {
            return Ok(());
        }
        let node = ids.child(at.node, step)?;
        self.value(ids, Walk { node, place, ..at }, value)
    }

    fn value<P: PathIds>(
        &mut self,
        ids: &mut P,
        at: Walk<'_, P::Node>,
        value: &Value,
    ) -> Result<(), P::Error> {
        let policies = at.place.included();
        if policies != 0 {
            let id = ids.id(at.node);
            let from = self.bytes.len();
            TermPrefix::Path(id).write(&mut self.bytes);
            encode_term(value, &mut self.bytes);
            self.spans.push(Span::empty(from, self.bytes.len(), policies));
            if !at.in_array {
                self.outline.push((id, policies));
                if let Value::Number(number) = value {
                    self.numbers.push((id, number.as_f64(), policies));
                }
            }
        }
        match value {
            Value::Object(object) => {
                for (name, value) in object.iter() {
                    self.property(ids, at, name, value)?;
                }
            }
            Value::Array(elements) if !elements.is_empty() => {
                let place = at.place.step(PathStep::Elements);
                if !place.is_barren() {
                    let node = ids.child(at.node, PathStep::Elements)?;
                    let at = Walk { node, place, in_array: true };
                    for element in elements.iter() {
                        self.value(ids, at, element)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The set of paths that the item has, as one more term: it leads to the rows that lack a path,
    /// and has the item's numbers beside it.
    fn shapes<P: PathIds>(&mut self, rules: &IndexRules, ids: &mut P) -> Result<(), P::Error> {
        let mut outline = std::mem::take(&mut self.outline);
        outline.sort_unstable();
        let mut found = std::mem::take(&mut self.numbers);
        found.sort_unstable_by_key(|(path, ..)| *path);
        for bit in (0..PolicySet::BITS).map(|n| 1 << n) {
            if rules.indexing() & bit == 0 {
                continue;
            }
            let paths = outline.iter().filter(|(_, policies)| policies & bit != 0);
            let paths: Vec<PathId> = paths.map(|(id, _)| *id).collect();
            let many = paths.len() > limits::INDEX_SHAPE_PATHS_MAX;
            let id = if many { ShapeId::ANY } else { ids.shape(&paths)? };
            let from = self.bytes.len();
            TermPrefix::Shape(id).write(&mut self.bytes);
            let to = self.bytes.len();
            if id != ShapeId::ANY {
                let kept = found.iter().filter(|(.., policies)| policies & bit != 0);
                let kept: Vec<(PathId, f64)> = kept.map(|(path, n, _)| (*path, *n)).collect();
                stored_numbers::write(kept.into_iter(), &mut self.bytes);
            }
            self.spans.push(Span { from, to, value_to: self.bytes.len(), policies: bit });
        }
        Ok(())
    }

    /// Elements of an array may be equal, and so may the shapes of two policies: equal terms are one.
    fn become_a_set(&mut self) {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by_key(|span| &bytes[span.from..span.to]);
        self.spans.dedup_by(|span, kept| {
            let equal = bytes[span.from..span.to] == bytes[kept.from..kept.to];
            if equal {
                kept.policies |= span.policies;
            }
            equal
        });
    }

    /// The terms in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], PolicySet)> {
        self.spans.iter().map(|span| (&self.bytes[span.from..span.to], span.policies))
    }

    /// The same with what is stored under them.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = TermEntry<'_>> {
        self.spans.iter().map(|span| TermEntry {
            term: &self.bytes[span.from..span.to],
            value: &self.bytes[span.to..span.value_to],
            policies: span.policies,
        })
    }

    /// Those that the given policies ask for.
    #[must_use]
    pub fn of(mut self, policies: PolicySet) -> Self {
        self.spans.retain(|span| span.policies & policies != 0);
        self
    }

    /// How many there are under the given policies.
    pub fn count(&self, policies: PolicySet) -> usize {
        self.spans.iter().filter(|span| span.policies & policies != 0).count()
    }
}
