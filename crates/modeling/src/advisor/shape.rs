//! Which items are of one type: those with the same discriminator, or else of similar shape.

use std::collections::HashMap;

use orrery_types::Value;

/// Properties by which people tell types apart, the most usual first.
pub(super) const DISCRIMINATORS: [&str; 8] =
    ["type", "_type", "docType", "kind", "entityType", "itemType", "$type", "discriminator"];
/// Types that are distinguished; later ones join the last.
const TYPES_MAX: usize = 64;
/// How alike two shapes are that count as one: properties in common to properties in all.
const ALIKE: f64 = 0.5;

/// What makes a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TypeKey {
    /// A property with this value.
    Discriminator { container: Box<str>, property: &'static str, value: Box<str> },
    /// The n-th shape of a container.
    Shape { container: Box<str>, number: usize },
}

/// Finds the type of each item.
#[derive(Debug, Default)]
pub(crate) struct Types {
    keys: Vec<TypeKey>,
    by_value: HashMap<(Box<str>, &'static str, Box<str>), usize>,
    shapes: Vec<Shape>,
}

/// Items of similar shape.
#[derive(Debug)]
struct Shape {
    item_type: usize,
    container: Box<str>,
    /// How often each property was there, of how many times.
    properties: HashMap<Box<str>, u64>,
    count: u64,
}

impl Types {
    pub(crate) fn key(&self, index: usize) -> &TypeKey {
        &self.keys[index]
    }

    /// The type of an item by its place in the list; a new one may be made.
    pub(crate) fn of(&mut self, container: &str, item: &Value) -> usize {
        for property in DISCRIMINATORS {
            let Some(value) = item.get(property).as_str().filter(|v| v.len() <= 64) else {
                continue;
            };
            let entry = (container.into(), property, value.into());
            if let Some(index) = self.by_value.get(&entry) {
                return *index;
            }
            let (container, property, value) = entry.clone();
            let index = self.insert(TypeKey::Discriminator { container, property, value });
            self.by_value.insert(entry, index);
            return index;
        }
        self.by_shape(container, item)
    }

    fn insert(&mut self, key: TypeKey) -> usize {
        if self.keys.len() < TYPES_MAX {
            self.keys.push(key);
        }
        self.keys.len() - 1
    }

    fn by_shape(&mut self, container: &str, item: &Value) -> usize {
        let names: Vec<&str> = item.as_object().map_or_else(Vec::new, |object| {
            object.iter().map(|(n, _)| &**n).filter(|n| *n != "id" && !n.starts_with('_')).collect()
        });
        let mut best = (0.0, None);
        for (at, shape) in self.shapes.iter().enumerate() {
            if *shape.container == *container {
                let alike = similarity(&names, &shape.properties, shape.count);
                if alike > best.0 {
                    best = (alike, Some(at));
                }
            }
        }
        let at = match best {
            (alike, Some(at)) if alike >= ALIKE => at,
            _ => {
                let number =
                    self.shapes.iter().filter(|shape| *shape.container == *container).count() + 1;
                let key = TypeKey::Shape { container: container.into(), number };
                let (item_type, container) = (self.insert(key), container.into());
                self.shapes.push(Shape {
                    item_type,
                    container,
                    properties: HashMap::new(),
                    count: 0,
                });
                self.shapes.len() - 1
            }
        };
        let shape = &mut self.shapes[at];
        shape.count += 1;
        for name in names {
            if let Some(seen) = shape.properties.get_mut(name) {
                *seen += 1;
            } else if shape.properties.len() < 256 {
                shape.properties.insert(name.into(), 1);
            }
        }
        shape.item_type
    }
}

/// Of the properties that the item or most of the shape's items have, the share that both have.
#[expect(clippy::cast_precision_loss, reason = "a share is a rough number")]
fn similarity(names: &[&str], properties: &HashMap<Box<str>, u64>, count: u64) -> f64 {
    let usual = |seen: u64| seen * 2 >= count;
    let common = names.iter().filter(|n| properties.get(**n).is_some_and(|s| usual(*s))).count();
    let foreign = names.iter().filter(|n| !properties.contains_key(**n)).count();
    let missing = properties.values().filter(|s| usual(**s)).count() - common;
    let all = common + foreign + missing;
    if all == 0 { 1.0 } else { common as f64 / all as f64 }
}
