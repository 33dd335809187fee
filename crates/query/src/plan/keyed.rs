//! Filters that name items by partition key and id, as a client does that reads many items at once.

use orrery_types::{KeyComponent, PartitionKey, PropertyPath, Value};

use crate::analysis::is_same;
use crate::bound::{BoundSelect, List, Node, Slot};

/// The keys of all items that the filter lets pass, sorted; `None` if it does not name them.
pub(super) fn keys(
    select: &BoundSelect,
    item: Slot,
    key_paths: &[PropertyPath],
) -> Option<Vec<(PartitionKey, String)>> {
    let filter = select.filter.as_ref()?;
    if key_paths.is_empty() {
        return None;
    }
    let parts = match filter {
        Node::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut keys = parts.iter().find_map(|part| named(part, item, key_paths))?;
    keys.sort_by(|a, b| (a.0.to_canonical(), &a.1).cmp(&(b.0.to_canonical(), &b.1)));
    keys.dedup();
    Some(keys)
}

fn named(
    node: &Node,
    item: Slot,
    key_paths: &[PropertyPath],
) -> Option<Vec<(PartitionKey, String)>> {
    let id = PropertyPath::parse("/id").ok()?;
    let is = |node: &Node, path: &PropertyPath| matches!(node, Node::Path(slot, steps) if *slot == item && is_same(steps, path));
    match node {
        Node::OneOf(one_of) => {
            let place = |path: &PropertyPath| one_of.paths.iter().position(|node| is(node, path));
            let id = place(&id)?;
            let places: Vec<usize> = key_paths.iter().map(place).collect::<Option<_>>()?;
            let key = |values: &std::sync::Arc<[Value]>| {
                let parts = places.iter().map(|at| component(values.get(*at)));
                // What is no string is nobody's id.
                Some((PartitionKey(parts.collect()), values.get(id)?.as_str()?.to_owned()))
            };
            Some(one_of.list.iter().filter_map(key).collect())
        }
        // The id may be the partition key.
        Node::In { needle, list: List::Set(set), negated: false }
            if is(needle, &id) && matches!(key_paths, [only] if *only == id) =>
        {
            let key = |value: &Value| {
                Some((PartitionKey(vec![component(Some(value))]), value.as_str()?.to_owned()))
            };
            Some(set.iter().filter_map(key).collect())
        }
        _ => None,
    }
}

/// Items with an array or an object there are kept where those without a key are.
fn component(value: Option<&Value>) -> KeyComponent {
    value.and_then(KeyComponent::from_value).unwrap_or(KeyComponent::Undefined)
}
