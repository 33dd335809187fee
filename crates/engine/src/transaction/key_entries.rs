//! Small entries that a model keeps beside items, in the index space of their shard: as they are
//! stored, with what the transaction writes over them. They carry no version; whoever relies on them
//! reads something that does: the item that they belong to, or its guard.

use orrery_storage::key::Bounds;
use orrery_storage::{Scan, Space};
use orrery_types::{Result, limits};

use crate::item::address::ItemAddress;
use crate::transaction::state::TransactionState;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Entries looked at in one go for the first or last of a range.
const ENDS_PER_SCAN: usize = 8;

/// Puts an entry beside an item, or takes it away.
pub(crate) fn set_entry<'e>(
    tx: &mut TransactionState<'e>,
    address: &ItemAddress<'e>,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
) {
    let shard = tx.shard_of(address);
    tx.writes.set_key(shard, Space::Index, key, value);
}

/// One entry.
pub(crate) fn key_entry<'e>(
    tx: &mut TransactionState<'e>,
    address: &ItemAddress<'e>,
    key: &[u8],
) -> Result<Option<Vec<u8>>> {
    let shard = tx.shard_of(address);
    if let Some(own) = tx.writes.shard(shard).key(Space::Index, key) {
        return Ok(own.value().map(<[u8]>::to_vec));
    }
    let found = tx.view().get(address.at.partition.shard, Space::Index, key)?;
    Ok(found.map(|value| value.bytes.into()))
}

/// The first or the last entry of a range.
pub(crate) fn end_entry<'e>(
    tx: &mut TransactionState<'e>,
    address: &ItemAddress<'e>,
    bounds: &Bounds,
    last: bool,
) -> Result<Option<Pair>> {
    let shard = tx.shard_of(address);
    let own = tx.writes.shard(shard);
    let (mut rest, mut found) = (bounds.clone(), None);
    while found.is_none() {
        let entries = stored_entries(tx, address, &rest, last, ENDS_PER_SCAN)?;
        let Some(end) = entries.last().map(|(key, _)| key.clone()) else { break };
        let is_stored = |(key, _): &Pair| own.key(Space::Index, key).is_none();
        found = entries.into_iter().find(is_stored);
        rest = if last { Bounds { to: end, ..rest } } else { rest.after(&end) };
    }
    let mut added = own.keys_in(Space::Index, &bounds.from, &bounds.to);
    let added = std::iter::from_fn(|| if last { added.next_back() } else { added.next() });
    let mut added = added.filter_map(|(key, value)| Some((key.to_vec(), value?.to_vec())));
    let both = found.into_iter().chain(added.next());
    Ok(if last { both.max() } else { both.min() })
}

/// All entries of a range, in their order; the range should be small.
pub(crate) fn entries<'e>(
    tx: &mut TransactionState<'e>,
    address: &ItemAddress<'e>,
    bounds: &Bounds,
) -> Result<Vec<Pair>> {
    let shard = tx.shard_of(address);
    let (mut rest, mut all) = (bounds.clone(), std::collections::BTreeMap::new());
    loop {
        let entries = stored_entries(tx, address, &rest, false, limits::PAGE_ITEMS_MAX)?;
        let Some((end, _)) = entries.last() else { break };
        rest = rest.after(end);
        all.extend(entries);
    }
    let own = tx.writes.shard(shard);
    for (key, value) in own.keys_in(Space::Index, &bounds.from, &bounds.to) {
        match value {
            Some(value) => drop(all.insert(key.to_vec(), value.to_vec())),
            None => drop(all.remove(key)),
        }
    }
    Ok(all.into_iter().collect())
}

/// The first entries of a range as they are stored.
pub(crate) fn stored_entries<'e>(
    tx: &TransactionState<'e>,
    address: &ItemAddress<'e>,
    bounds: &Bounds,
    reverse: bool,
    max_rows: usize,
) -> Result<Vec<Pair>> {
    let scan = Scan {
        space: Space::Index,
        from: &bounds.from,
        to: &bounds.to,
        reverse,
        max_rows,
        max_bytes: usize::MAX,
        keys_only: false,
    };
    let entries = tx.view().scan(address.at.partition.shard, &scan)?;
    Ok(entries.into_iter().map(|entry| (entry.key, entry.value.bytes.into())).collect())
}
