//! Items without a value at the path of an order. They come first, or last in descending order. No term of
//! the path leads to them. Shapes do; for items whose shape is not known, all rows are read except those that
//! have a term.

use orrery_index::postings::{CollectedRows, Difference, Postings, RowList, Rows, Union};
use orrery_index::{IndexStep, shapes};
use orrery_storage::key::{self, Row, ShapeId};
use orrery_types::Result;

use crate::error::{read, storage};
use crate::query::access::{Shard, Shards};

/// Rows by ascending number.
pub(super) struct MissingRows<'s> {
    rows: Rows<'s>,
    next: Row,
}

impl<'s> MissingRows<'s> {
    /// Those without a value at the path, from a row on.
    pub(super) fn open<'e>(
        shards: &'s Shards<'e>,
        shard: &'s Shard<'e>,
        path: &[IndexStep],
        from: Row,
    ) -> Result<Self> {
        Ok(Self { rows: rows_without(shards, shard, path)?, next: from })
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        let row = self.rows.seek(self.next).map_err(read)?;
        if let Some(row) = row {
            self.next = Row(row.0.saturating_add(1));
        }
        Ok(row)
    }

    /// Entries read from the store so far.
    pub(super) fn entries_read(&self) -> u64 {
        self.rows.entries_read()
    }
}

fn rows_without<'s, 'e>(
    shards: &'s Shards<'e>,
    shard: &'s Shard<'e>,
    path: &[IndexStep],
) -> Result<Rows<'s>> {
    let (snapshot, budget) = (&*shard.snapshot, shard.budget);
    let id = shard.partition.path_id(&*shards.engine.store, path)?;
    let Some(id) = id else { return Ok(Box::new(Postings::all(snapshot, budget))) };
    let with_path = || -> Result<Rows<'s>> {
        let mut rows = CollectedRows::new(budget);
        rows.add_range(snapshot, &key::terms_of(id), usize::MAX, budget).map_err(read)?;
        Ok(Box::new(RowList::new(rows)))
    };
    if !shards.container.index.has_shapes() {
        let all = Box::new(Postings::all(snapshot, budget));
        return Ok(Box::new(Difference::new(all, with_path()?, budget)));
    }
    let mut lists: Vec<Rows<'s>> = Vec::new();
    for shape in shapes::without(snapshot, id).map_err(storage)? {
        let prefix = key::shapes_of(shape).from;
        let mut rows: Rows<'s> = Box::new(Postings::of(snapshot, prefix, budget));
        // Items whose shape is not recorded may have the path all the same.
        if shape == ShapeId::ANY {
            if rows.seek(Row(0)).map_err(read)?.is_none() {
                continue;
            }
            rows = Box::new(Difference::new(rows, with_path()?, budget));
        }
        lists.push(rows);
    }
    Ok(Box::new(Union::new(lists)))
}
