//! Small entries that a model keeps beside items, in the index space of their shard: as they are
//! stored, with what the draft changes over them. They carry no version; whoever relies on them
//! checks something that does: the item that they belong to, or its guard.

use orrery_storage::key::Bounds;
use orrery_storage::{Scan, Space};
use orrery_types::{Result, limits};

use crate::item::address::ItemAddress;
use crate::transaction::write_buffer::Draft;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Entries looked at in one go for the first or last of a range.
const ENDS_PER_SCAN: usize = 8;

impl<'e> Draft<'e> {
    /// Puts an entry beside an item, or takes it away.
    pub(crate) fn set_entry(
        &mut self,
        address: &ItemAddress<'e>,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) {
        let draft = self.beside(address.container, address.at.partition);
        draft.model.kept.entries.insert(key, value);
    }

    /// One entry.
    pub(crate) fn entry(
        &mut self,
        address: &ItemAddress<'e>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let draft = self.beside(address.container, address.at.partition);
        if let Some(own) = draft.model.kept.entries.get(key) {
            return Ok(own.clone());
        }
        let found = draft.stored(draft.partition.shard, Space::Index, key)?;
        Ok(found.map(|value| value.bytes.into()))
    }

    /// The first or the last entry of a range.
    pub(crate) fn end_entry(
        &mut self,
        address: &ItemAddress<'e>,
        bounds: &Bounds,
        last: bool,
    ) -> Result<Option<Pair>> {
        let draft = self.beside(address.container, address.at.partition);
        let own = &draft.model.kept.entries;
        let (mut rest, mut found) = (bounds.clone(), None);
        while found.is_none() {
            let entries = draft.stored_entries(&rest, last, ENDS_PER_SCAN)?;
            let Some(end) = entries.last().map(|(key, _)| key.clone()) else { break };
            found = entries.into_iter().find(|(key, _)| !own.contains_key(key));
            rest = if last { Bounds { to: end, ..rest } } else { rest.after(&end) };
        }
        let mut added = own.range(bounds.from.clone()..bounds.to.clone());
        let added = std::iter::from_fn(|| if last { added.next_back() } else { added.next() });
        let mut added = added.filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        let both = found.into_iter().chain(added.next());
        Ok(if last { both.max() } else { both.min() })
    }

    /// All entries of a range, in their order; the range should be small.
    pub(crate) fn entries(
        &mut self,
        address: &ItemAddress<'e>,
        bounds: &Bounds,
    ) -> Result<Vec<Pair>> {
        let draft = self.beside(address.container, address.at.partition);
        let (mut rest, mut all) = (bounds.clone(), std::collections::BTreeMap::new());
        loop {
            let entries = draft.stored_entries(&rest, false, limits::PAGE_ITEMS_MAX)?;
            let Some((end, _)) = entries.last() else { break };
            rest = rest.after(end);
            all.extend(entries);
        }
        for (key, value) in draft.model.kept.entries.range(bounds.from.clone()..bounds.to.clone()) {
            match value {
                Some(value) => drop(all.insert(key.clone(), value.clone())),
                None => drop(all.remove(key)),
            }
        }
        Ok(all.into_iter().collect())
    }

    /// The first entries of a range as they are stored.
    pub(crate) fn first_entries(
        &mut self,
        address: &ItemAddress<'e>,
        bounds: &Bounds,
        max: usize,
    ) -> Result<Vec<Pair>> {
        let draft = self.beside(address.container, address.at.partition);
        draft.stored_entries(bounds, false, max)
    }

    fn stored_entries(&self, bounds: &Bounds, reverse: bool, max_rows: usize) -> Result<Vec<Pair>> {
        let scan = Scan {
            space: Space::Index,
            from: &bounds.from,
            to: &bounds.to,
            reverse,
            max_rows,
            max_bytes: usize::MAX,
            keys_only: false,
        };
        let entries = self.scanned(self.partition.shard, &scan)?;
        Ok(entries.into_iter().map(|entry| (entry.key, entry.value.bytes.into())).collect())
    }
}
