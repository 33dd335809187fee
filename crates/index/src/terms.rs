//! From an item to its index terms: for every path that is indexed, the path and the value there.
//! Pure; the numbers of paths come from whoever calls.

use orrery_storage::key::{CompositeId, PathId, PathStep, TermPrefix};
use orrery_storage::term::encode_term;
use orrery_types::{Object, Value};

use crate::rules::{Place, PolicySet, Rules};

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

    fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        let own = self.own.iter().map(|(name, value)| (&**name, value));
        let own = own.filter(|(name, _)| !self.reserved.contains(name));
        own.chain(self.system.iter().map(|(name, value)| (*name, value)))
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
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: usize,
    to: usize,
    policies: PolicySet,
}

impl Terms {
    /// The terms of an item under all policies in effect.
    pub fn extract<P: PathIds>(
        rules: &Rules,
        item: &IndexedItem<'_>,
        ids: &mut P,
    ) -> Result<Self, P::Error> {
        let mut terms = Self { bytes: Vec::with_capacity(1024), spans: Vec::with_capacity(48) };
        let (root, place) = (ids.root(), rules.root());
        for (name, value) in item.properties() {
            terms.property(ids, root, place, name, value)?;
        }
        for (index, policies) in rules.composites() {
            let id = ids.composite(index.text())?;
            let from = terms.bytes.len();
            TermPrefix::Composite(id).write(&mut terms.bytes);
            index.write_values(item, &mut terms.bytes);
            terms.spans.push(Span { from, to: terms.bytes.len(), policies: *policies });
        }
        terms.become_a_set();
        Ok(terms)
    }

    fn property<P: PathIds>(
        &mut self,
        ids: &mut P,
        node: P::Node,
        place: Place<'_>,
        name: &str,
        value: &Value,
    ) -> Result<(), P::Error> {
        let step = PathStep::Property(name);
        let place = place.step(step);
        if place.is_barren() {
            return Ok(());
        }
        let node = ids.child(node, step)?;
        self.value(ids, node, place, value)
    }

    fn value<P: PathIds>(
        &mut self,
        ids: &mut P,
        node: P::Node,
        place: Place<'_>,
        value: &Value,
    ) -> Result<(), P::Error> {
        let policies = place.included();
        if policies != 0 {
            let from = self.bytes.len();
            TermPrefix::Path(ids.id(node)).write(&mut self.bytes);
            encode_term(value, &mut self.bytes);
            self.spans.push(Span { from, to: self.bytes.len(), policies });
        }
        match value {
            Value::Object(object) => {
                for (name, value) in object.iter() {
                    self.property(ids, node, place, name, value)?;
                }
            }
            Value::Array(elements) if !elements.is_empty() => {
                let place = place.step(PathStep::Elements);
                if !place.is_barren() {
                    let node = ids.child(node, PathStep::Elements)?;
                    for element in elements.iter() {
                        self.value(ids, node, place, element)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Elements of an array may be equal, and such terms are one.
    fn become_a_set(&mut self) {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by_key(|span| &bytes[span.from..span.to]);
        self.spans.dedup_by_key(|span| &bytes[span.from..span.to]);
    }

    /// The terms in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], PolicySet)> {
        self.spans.iter().map(|span| (&self.bytes[span.from..span.to], span.policies))
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
