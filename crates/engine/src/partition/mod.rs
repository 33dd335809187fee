//! Physical partitions: ranges of effective keys, each one shard of the store. Here a key finds
//! its partition, items get their numbers, and clients read the list of ranges.

mod automatic;
mod boundary;
mod copy;
mod cutover;
pub(crate) mod epoch;
pub mod layout;
mod merge;
mod path_ids;
mod row_ids;
mod row_sides;
pub mod scope;
pub mod session;
mod split;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orrery_index::Dictionary;
use orrery_storage::key::Row;
use orrery_storage::{HeadChange, ShardState, Store};
use orrery_types::ids::{ChildKind, Rid};
use orrery_types::{EffectiveKey, Epoch, Error, KeyRange, Lsn, Result, ShardId, Value};

use crate::Container;
use crate::catalog::Change;
use crate::catalog::resource::{Resource, object};
use crate::partition::layout::Layouts;
use crate::query::access::cardinality::TermSizes;
use crate::transaction::locks::PartitionLocks;
use crate::transaction::retry;
use row_ids::{Reservation, RowIds};

/// One range of a container and the shard that holds it.
#[derive(Clone, Debug)]
pub struct PhysicalPartition {
    /// Its number on the wire.
    pub id: u32,
    /// The keys it holds.
    pub range: KeyRange,
    /// Where they lie.
    pub shard: ShardId,
    /// The epoch under which this process writes to it.
    pub epoch: Epoch,
    /// The partitions whose place it took, and those whose place they took, oldest first.
    pub parents: Vec<u32>,
    /// The locks of its logical partitions.
    pub(crate) locks: Arc<PartitionLocks>,
    rows: Arc<RowIds>,
    /// Whether it is being split, which clients see.
    pub(crate) splitting: Arc<AtomicBool>,
    /// The numbers of paths in its index.
    pub(crate) dictionary: Arc<Dictionary>,
    /// How many items it had when somebody asked last, roughly, and as of when.
    items: Arc<Mutex<Option<(Lsn, u64)>>>,
    /// How many rows the terms of its index have, roughly.
    pub(crate) term_sizes: Arc<TermSizes>,
}

impl PhysicalPartition {
    pub(crate) fn new(id: u32, range: KeyRange, shard: ShardId, epoch: Epoch) -> Self {
        let (locks, rows, dictionary) = (Arc::default(), Arc::default(), Arc::default());
        let (parents, splitting) = (vec![], Arc::default());
        let (items, term_sizes) = (Arc::default(), Arc::default());
        Self {
            id,
            range,
            shard,
            epoch,
            parents,
            locks,
            rows,
            splitting,
            dictionary,
            items,
            term_sizes,
        }
    }

    /// Takes what this process has in memory of the partition, read again from the catalog.
    pub(crate) fn go_on_from(&mut self, known: &Self) {
        let Self { locks, rows, splitting, dictionary, items, term_sizes, .. } = known.clone();
        self.locks = locks;
        self.rows = rows;
        self.splitting = splitting;
        self.dictionary = dictionary;
        self.items = items;
        self.term_sizes = term_sizes;
    }

    pub(crate) fn to_value(&self) -> Value {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let parents = self.parents.iter().map(|p| number(u64::from(*p))).collect();
        Value::object(object([
            ("id", number(u64::from(self.id))),
            ("min", self.range.min.to_string().into()),
            ("max", self.range.max.to_string().into()),
            ("shard", number(u64::from(self.shard.0))),
            ("epoch", number(self.epoch.0)),
            ("parents", Value::array(parents)),
        ]))
    }

    pub(crate) fn from_value(value: &Value) -> Result<Self> {
        let corrupt = || Error::internal("a partition of the catalog is corrupt");
        let number = |v: &Value| v.as_i64().and_then(|i| u32::try_from(i).ok()).ok_or_else(corrupt);
        let place =
            |name: &str| value.get(name).as_str().and_then(EffectiveKey::parse).ok_or_else(corrupt);
        let range = KeyRange { min: place("min")?, max: place("max")? };
        let parents = value.get("parents").as_array().unwrap_or_default();
        let shard = ShardId(number(value.get("shard"))?);
        let epoch = Epoch(u64::from(number(value.get("epoch"))?));
        let mut partition = Self::new(number(value.get("id"))?, range, shard, epoch);
        partition.parents = parents.iter().map(number).collect::<Result<_>>()?;
        Ok(partition)
    }

    /// Whether it took the place of a partition, or one of its ancestors did.
    pub(crate) fn descends_from(&self, id: u32) -> bool {
        self.parents.contains(&id)
    }

    pub(crate) fn is_splitting(&self) -> bool {
        self.splitting.load(Ordering::SeqCst)
    }

    /// How many items it has, roughly: what `count` says, or has said a few commits ago.
    pub(crate) fn items_noted(&self, at: Lsn, count: impl Fn() -> Result<u64>) -> Result<u64> {
        let mut noted = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((lsn, items)) = *noted
            && at.0.abs_diff(lsn.0) <= items / COMMITS_PART
        {
            return Ok(items);
        }
        let items = count()?;
        *noted = Some((at, items));
        Ok(items)
    }

    /// Adds row numbers that the commit with this LSN has reserved.
    pub(crate) fn add_rows(&self, block: Range<u64>, version: Lsn) {
        self.rows.add(block, version);
    }

    /// A number for a new item: unique in the container, never given twice. [`Error::RetryWith`] if
    /// none is reserved and the caller may not wait for a commit.
    pub(crate) fn next_row(&self, store: &dyn Store, may_wait: bool) -> Result<Row> {
        let number = if may_wait {
            self.rows.next(store, self.shard, self.epoch)?
        } else {
            self.rows.try_next(store, self.shard, self.epoch).ok_or_else(retry::needs_waiting)?
        };
        Ok(Row(u64::from(self.id) << ROW_BITS | number))
    }
}

/// Commits for so many items leave the number of items what it is, roughly.
const COMMITS_PART: u64 = 1024;

/// Row numbers of one partition lie in the low bits; the partition's id is above them, so that a
/// container's items stay distinct when partitions split and merge.
pub(crate) const ROW_BITS: u32 = 40;

/// Adds to a change that it opens new partitions and reserves their first row numbers, which are returned in
/// their order. So a new range is at LSN 1, as the service's are: some clients take LSN 0 for no LSN.
pub(crate) fn open_with_first_rows(
    store: &dyn Store,
    change: &mut Change<'_>,
    partitions: &[PhysicalPartition],
) -> Result<Vec<Range<u64>>> {
    let mut blocks = Vec::with_capacity(partitions.len());
    for PhysicalPartition { shard, epoch, .. } in partitions {
        let Reservation { mut part, block } = Reservation::read(store, *shard, *epoch)?;
        part.head = Some(HeadChange::state(ShardState::Building, ShardState::Open, *epoch));
        change.add(part);
        blocks.push(block);
    }
    Ok(blocks)
}

impl Container {
    /// The partition that a shard holds, unless it was split or merged.
    pub(crate) fn partition_with(&self, shard: ShardId) -> Result<&PhysicalPartition> {
        self.partitions.iter().find(|p| p.shard == shard).ok_or(Error::PartitionGone)
    }

    /// The partition that holds a key.
    pub fn partition_of(&self, key: &EffectiveKey) -> Result<&PhysicalPartition> {
        let at = self.partitions.partition_point(|p| p.range.max <= *key);
        self.partitions.get(at).filter(|p| p.range.contains(key)).ok_or(Error::PartitionGone)
    }

    /// The numbers of its partitions, in the order of their keys.
    pub fn range_ids(&self) -> impl ExactSizeIterator<Item = u32> {
        self.partitions.iter().map(|partition| partition.id)
    }

    /// The partition with a number, as clients name it: `0`, or `<container rid>,0`.
    pub fn partition_by_id(&self, text: &str) -> Result<&PhysicalPartition> {
        let id = match text.split_once(',') {
            Some((rid, id)) if rid == self.rid_text() => id,
            Some(_) => return Err(Error::PartitionGone),
            None => text,
        };
        let id: u32 = id.trim().parse().map_err(|_| Error::PartitionGone)?;
        self.partitions.iter().find(|p| p.id == id).ok_or(Error::PartitionGone)
    }
}

impl Layouts<'_> {
    /// Changes whenever the list of ranges does, or what it says of one.
    pub fn ranges_etag(self, container: &Container) -> Result<String> {
        let partitions = &container.partitions;
        let elsewhere = self.engine.nodes().split_elsewhere(container)?;
        let last = partitions.iter().map(|p| p.id).max().unwrap_or_default();
        let splitting = partitions.iter().filter(|p| p.is_splitting() || elsewhere == Some(p.id));
        let splitting: Vec<String> = splitting.map(|p| format!("-{}", p.id)).collect();
        Ok(format!("\"{}-{last}{}\"", partitions.len(), splitting.concat()))
    }

    /// The ranges of a container as clients see them.
    pub fn list_ranges(self, container: &Container) -> Result<Vec<Resource>> {
        self.engine.epochs().retry_on_gone_shard(container, &mut |now| {
            let elsewhere = self.engine.nodes().split_elsewhere(now)?;
            let resource = |p: &PhysicalPartition| {
                self.range_resource(now, p, p.is_splitting() || elsewhere == Some(p.id))
            };
            now.partitions.iter().map(resource).collect()
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "containers have few partitions")]
    fn range_resource(
        self,
        container: &Container,
        partition: &PhysicalPartition,
        is_splitting: bool,
    ) -> Result<Resource> {
        let rid = Rid::Child {
            database: container.database,
            container: container.number,
            kind: ChildKind::Range,
            number: u64::from(partition.id) + 2,
        };
        let lsn = self.engine.sessions().shard_lsn(partition)?;
        let parents = partition.parents.iter().map(|p| p.to_string().into()).collect();
        let body = object([
            ("id", partition.id.to_string().into()),
            ("minInclusive", partition.range.min.to_string().into()),
            ("maxExclusive", partition.range.max.to_string().into()),
            ("ridPrefix", Value::from(i64::from(partition.id))),
            ("throughputFraction", Value::from(1.0 / container.partitions.len() as f64)),
            ("status", if is_splitting { "splitting" } else { "online" }.into()),
            ("parents", Value::array(parents)),
            ("_lsn", Value::from(i64::try_from(lsn.0).unwrap_or(i64::MAX))),
        ]);
        let self_link = format!("{}pkranges/{rid}/", container.self_link());
        Ok(Resource::new(rid, container.stamp, &self_link, body))
    }
}
