//! The range of index entries that an ordered cursor reads: entries of a path or of a composite index,
//! restricted by the filter, from the position where a page begins.

use std::ops::Range;

use orrery_index::{CompositeIndex, IndexStep, ValueRange};
use orrery_query::SortValue;
use orrery_query::ast::Direction;
use orrery_query::plan::access::{OrderedAccess, OrderedIndex};
use orrery_query::plan::condition::ItemPath;
use orrery_storage::key::{self, Bounds};
use orrery_storage::term::{encode_component, is_whole};
use orrery_types::{Error, Result, Value};

use super::{SortOrder, SortPosition};
use crate::Container;
use crate::query::access::{Shard, Shards, within};

/// The entries of one partition: what each begins with, and where they lie. `None` if there are none.
pub(super) fn entries(
    shards: &Shards<'_>,
    shard: &Shard<'_>,
    access: &OrderedAccess,
) -> Result<Option<(Vec<u8>, Bounds)>> {
    let store = &*shards.engine.store;
    match &access.index {
        OrderedIndex::Path { path, range } => {
            let Some(head) = shard.head(store, path)? else { return Ok(None) };
            let bounds = within(&head, range);
            Ok(Some((head, bounds)))
        }
        OrderedIndex::Composite { components, fixed, range, .. } => {
            let text = composite_text(shards.container, components)
                .ok_or_else(|| Error::internal("a planned composite index does not exist"))?;
            let Some(id) = shard.partition.composite_id(store, &text)? else { return Ok(None) };
            let head = key::composite_prefix(id);
            let bounds = composite_bounds(&head, components, fixed, range.as_ref());
            Ok(Some((head, bounds)))
        }
    }
}

/// Whether each component of an entry's code descends.
pub(super) fn directions(access: &OrderedAccess) -> Vec<bool> {
    match &access.index {
        OrderedIndex::Path { .. } => vec![false],
        OrderedIndex::Composite { components, .. } => {
            components.iter().map(|(_, d)| *d == Direction::Descending).collect()
        }
    }
}

/// Which components are the keys of the order.
pub(super) fn key_range(access: &OrderedAccess) -> Range<usize> {
    match &access.index {
        OrderedIndex::Path { .. } => 0..1,
        OrderedIndex::Composite { keys, .. } => keys.clone(),
    }
}

/// Whether entries of equal keys lie in the other order of rows than items come.
pub(super) fn ties_are_reversed(access: &OrderedAccess, order: &SortOrder) -> bool {
    access.reverse != order.rows_descend
}

/// The part of the entries that lies at or behind a place.
pub(super) fn behind(
    place: &SortPosition,
    access: &OrderedAccess,
    order: &SortOrder,
    head: &[u8],
    bounds: Bounds,
) -> Bounds {
    let fixed: &[Value] = match &access.index {
        OrderedIndex::Path { .. } => &[],
        OrderedIndex::Composite { fixed, .. } => fixed,
    };
    let keys = key_range(access);
    let mut code = head.to_vec();
    let mut exact = true;
    for (at, descending) in directions(access).iter().enumerate() {
        let value = if at < keys.start {
            fixed.get(at).cloned()
        } else {
            place.keys.get(at - keys.start).map(SortValue::in_index)
        };
        let Some(value) = value else { break };
        encode_component(&value, *descending, &mut code);
        // Behind a fixed value all entries belong together, whatever it was cut from.
        exact &= is_whole(&value) || at < keys.start;
        if !exact {
            break;
        }
    }
    let end = match (exact && !ties_are_reversed(access, order), access.reverse) {
        (true, _) => {
            code.extend(place.row.0.to_be_bytes());
            if access.reverse { key::after(&code) } else { code }
        }
        (false, true) => key::prefix_end(&code),
        (false, false) => code,
    };
    if access.reverse {
        Bounds { to: bounds.to.min(end), from: bounds.from }
    } else {
        Bounds { from: bounds.from.max(end), to: bounds.to }
    }
}

/// The canonical text of the composite index with these components.
fn composite_text(container: &Container, components: &[(ItemPath, Direction)]) -> Option<String> {
    let same = |index: &&CompositeIndex| {
        let own = index.components();
        own.len() == components.len()
            && own.iter().zip(components).all(|(own, (path, direction))| {
                let names = path.iter().map(|step| match step {
                    IndexStep::Property(name) => Some(name),
                    IndexStep::Elements | IndexStep::Tuple(_) => None,
                });
                own.descending == (*direction == Direction::Descending)
                    && names.eq(own.names.iter().map(Some))
            })
    };
    container.index.usable_composites().find(same).map(|index| index.text().to_owned())
}

/// The keys of a composite index with these values first, and then one in the range.
fn composite_bounds(
    head: &[u8],
    components: &[(ItemPath, Direction)],
    fixed: &[Value],
    range: Option<&ValueRange>,
) -> Bounds {
    let mut prefix = head.to_vec();
    for (value, (_, direction)) in fixed.iter().zip(components) {
        encode_component(value, *direction == Direction::Descending, &mut prefix);
    }
    let (Some(range), Some((_, direction))) = (range, components.get(fixed.len())) else {
        return Bounds::prefix(prefix);
    };
    let Bounds { from, to } = range.codes().bounds;
    let (from, to) = match direction {
        Direction::Ascending => (from, to),
        // Inverted bytes order the other way; a code that begins like the first one comes last.
        Direction::Descending => (inverted(&to), key::prefix_end(&inverted(&from))),
    };
    Bounds { from: [&prefix[..], &from].concat(), to: [&prefix[..], &to].concat() }
}

fn inverted(code: &[u8]) -> Vec<u8> {
    code.iter().map(|byte| !byte).collect()
}
