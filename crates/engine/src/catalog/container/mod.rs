//! Containers: what they are ([`definition`]), and create, read, list, replace, delete.

pub mod definition;
pub mod policies;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use orrery_index::{IndexState, IndexingPolicy};
use orrery_storage::key::RecordKind;
use orrery_storage::{HeadChange, Part, ShardState};
use orrery_types::ids::{Address, Rid};
use orrery_types::{Epoch, Error, Lsn, Result, ShardId, Value};

use crate::background::erasure::Erasures;
use crate::catalog::offer::{Throughput, ThroughputRequest};
use crate::catalog::records::Record;
use crate::catalog::resource::Stamp;
use crate::catalog::resource::{Preconditions, Resource, object, resource_id};
use crate::catalog::{Change, WriteFailed};
use crate::error::storage;
use crate::partition::{PhysicalPartition, open_with_first_rows};
use crate::script::remove_scripts;
use crate::secondary_index::definition::DEFINITION_NAMES;
use crate::secondary_index::{IndexFeeding, SecondaryIndexLinks, SecondaryIndexes};
use crate::{Database, Engine};
use definition::ContainerDef;

/// A container at one moment: its definition and where its data lies.
#[derive(Clone)]
pub struct Container {
    pub(crate) database: u32,
    pub(crate) number: u32,
    /// The `id` of its database.
    pub database_id: Box<str>,
    /// The `id`.
    pub id: Box<str>,
    /// The version of the definition.
    pub stamp: Stamp,
    /// What the creator declared.
    pub definition: ContainerDef,
    /// The physical partitions, in the order of their keys, without gap.
    pub partitions: Vec<PhysicalPartition>,
    /// Whether expiry entries of an earlier default are still to be replaced.
    pub(crate) ttl_backfill_pending: bool,
    /// Partition keys whose items are being deleted.
    pub(crate) erasures: Arc<Erasures>,
    /// What the index holds, and which paths may be relied upon.
    pub index: Arc<IndexState>,
    /// The global secondary indexes that are kept from it, or its own state if it is one.
    pub(crate) secondary: SecondaryIndexLinks,
    /// How far an index is behind its source, as far as this process knows.
    pub(crate) feeding: Arc<IndexFeeding>,
    links: OnceLock<Links>,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Container").field(&self.database_id).field(&self.id).finish()
    }
}

/// The texts that answers name a container by.
#[derive(Clone)]
struct Links {
    rid: Box<str>,
    alt_link: Box<str>,
    self_link: Box<str>,
}

/// The state of an index under a definition and the policies before it.
pub(crate) fn index_state(
    definition: &ContainerDef,
    older: Vec<IndexingPolicy>,
) -> Arc<IndexState> {
    let computed = definition.computed.iter().map(|property| property.name.clone()).collect();
    Arc::new(IndexState::new(&definition.indexing, older, computed))
}

impl Container {
    pub(crate) fn from_record(database: &Database, record: &Record) -> Result<Self> {
        let corrupt = |_| Error::internal(format!("container '{}' is corrupt", record.id));
        let partitions = record.body.get("partitions").as_array().unwrap_or_default();
        let partitions = partitions.iter().map(PhysicalPartition::from_value);
        let definition = ContainerDef::parse(record.body.get("definition"))
            .map_err(|e| corrupt(e.to_string()))?;
        let older = IndexState::older_from_value(record.body.get("indexed"))
            .map_err(|e| corrupt(e.to_string()))?;
        Ok(Self {
            database: database.number,
            database_id: database.id.clone(),
            number: u32::try_from(record.number).map_err(|e| corrupt(e.to_string()))?,
            id: record.id.clone(),
            stamp: record.stamp,
            index: index_state(&definition, older),
            definition,
            partitions: partitions.collect::<Result<_>>()?,
            ttl_backfill_pending: record.body.get("retime").is_true(),
            secondary: SecondaryIndexLinks::from_value(record.body.get("secondary"))
                .ok_or_else(|| corrupt("its global secondary indexes".into()))?,
            feeding: Arc::default(),
            links: OnceLock::new(),
            erasures: Arc::default(),
        })
    }

    /// The same as its record was read again, with what this process has in memory of it.
    pub(crate) fn going_on_from(mut self, known: &Arc<Self>) -> Arc<Self> {
        if self.stamp == known.stamp && self.body().to_json() == known.body().to_json() {
            return known.clone();
        }
        self.erasures = known.erasures.clone();
        self.feeding = known.feeding.clone();
        for partition in &mut self.partitions {
            if let Some(before) = known.partitions.iter().find(|p| p.shard == partition.shard) {
                partition.go_on_from(before);
            }
        }
        Arc::new(self)
    }

    fn body(&self) -> Value {
        let partitions = self.partitions.iter().map(PhysicalPartition::to_value).collect();
        Value::object(object([
            ("definition", Value::object(self.definition.to_object())),
            ("partitions", Value::array(partitions)),
            ("retime", if self.ttl_backfill_pending { true.into() } else { Value::Undefined }),
            ("indexed", self.index.older_to_value()),
            ("secondary", self.secondary.to_value()),
        ]))
    }

    /// The `_rid`.
    pub fn rid(&self) -> Rid {
        Rid::Container { database: self.database, container: self.number }
    }

    /// The `_rid` of the database.
    pub fn database_rid(&self) -> Rid {
        Rid::Database(self.database)
    }

    fn links(&self) -> &Links {
        self.links.get_or_init(|| Links {
            rid: self.rid().to_string().into(),
            alt_link: format!("dbs/{}/colls/{}", self.database_id, self.id).into(),
            self_link: format!("dbs/{}/colls/{}/", self.database_rid(), self.rid()).into(),
        })
    }

    /// The `_rid` as text.
    pub fn rid_text(&self) -> &str {
        &self.links().rid
    }

    /// `dbs/{id}/colls/{id}`.
    pub fn alt_link(&self) -> &str {
        &self.links().alt_link
    }

    /// `dbs/{rid}/colls/{rid}/`.
    pub fn self_link(&self) -> &str {
        &self.links().self_link
    }

    /// As a client sees it.
    pub fn to_resource(&self) -> Resource {
        let mut body = object([("id", (&*self.id).into())]);
        for (name, value) in self.definition.to_object().iter() {
            body.set(name, value.clone());
        }
        if let Some(definition) = self.secondary_definition() {
            for name in DEFINITION_NAMES {
                body.set(name, definition.clone());
            }
        }
        let indexes = self.secondary.indexes_to_value(self.database);
        if !indexes.is_undefined() {
            body.set("materializedViews", indexes);
        }
        Resource::new(self.rid(), self.stamp, self.self_link(), body)
            .with("_docs", "docs/")
            .with("_sprocs", "sprocs/")
            .with("_triggers", "triggers/")
            .with("_udfs", "udfs/")
            .with("_conflicts", "conflicts/")
    }
}

impl Change<'_> {
    /// Replaces a container's record. Its shards get their next epochs in the same commit, so a write that
    /// was prepared under the old definition is refused, whichever part of the definition has changed.
    pub(crate) fn replace_definition(&mut self, container: &mut Container) -> Result<()> {
        let (kind, parent) = (RecordKind::Container, u64::from(container.database));
        let version = self.record(kind, parent, u64::from(container.number))?.version;
        for partition in &mut container.partitions {
            let before = partition.epoch;
            partition.epoch = Epoch(before.0 + 1);
            self.add(Part::of_head(partition.shard, before, HeadChange::epoch(partition.epoch)));
        }
        self.replace(kind, parent, &container.record(version))
    }

    /// The same for containers of a database whose own definitions stay as they are, because the model that
    /// their writers go by changes.
    pub(crate) fn replace_definitions(
        &mut self,
        database: &mut Database,
        containers: &[Arc<Container>],
    ) -> Result<()> {
        for container in containers {
            let mut next = (**container).clone();
            self.replace_definition(&mut next)?;
            database.insert(next);
        }
        Ok(())
    }
}

/// The database of a change, for changing it too.
fn owner(change: &Change<'_>, database: &Address) -> Result<Database> {
    change.state.database(database).map(|d| (**d).clone()).ok_or(Error::OwnerNotFound)
}

/// Containers of a database.
#[derive(Clone, Copy)]
pub struct ContainerCatalog<'e> {
    pub(crate) engine: &'e Engine,
}

impl ContainerCatalog<'_> {
    /// Makes a container with as many physical partitions as its throughput asks for.
    pub fn create(
        self,
        database: &Address,
        body: &Value,
        throughput: &ThroughputRequest,
    ) -> Result<Resource> {
        self.engine.epochs().redo(&mut || self.create_once(database, body, throughput))
    }

    /// The same on one picture of the catalog.
    fn create_once(
        self,
        database: &Address,
        body: &Value,
        throughput: &ThroughputRequest,
    ) -> Result<Resource> {
        let id = resource_id(body)?;
        let mut definition = ContainerDef::accept(body)?;
        let mut change = self.engine.catalog.change()?;
        let mut database = owner(&change, database)?;
        if database.container(&Address::Name(id.to_string())).is_some() {
            return Err(Error::AlreadyExists);
        }
        for key in definition.encryption_keys() {
            if !self.engine.encryption_keys().exists(database.number, key)? {
                return Err(Error::invalid(format!(
                    "The clientEncryptionPolicy names the key '{key}', which the database does not \
                     have."
                )));
            }
        }
        SecondaryIndexes::resolve_source(&database, &id, &mut definition)?;
        let shared = self.engine.offers().exists(&database.rid().to_string())?;
        let offer = throughput.for_container(shared)?;
        let count =
            offer.map_or(1, Throughput::partitions_first).max(self.engine.layout.partitions_first);
        let first_shard = change.shard_numbers(count)?;
        let ranges = definition.partition_key.even_ranges(count);
        let partitions = (0..)
            .zip(ranges)
            .map(|(i, range)| PhysicalPartition::new(i, range, ShardId(first_shard + i), Epoch(1)));
        let partitions = partitions.collect();
        let container = Container {
            database: database.number,
            database_id: database.id.clone(),
            number: change.next_number("container")?,
            id,
            stamp: self.engine.stamper.next(),
            index: index_state(&definition, vec![]),
            definition,
            partitions,
            ttl_backfill_pending: false,
            secondary: SecondaryIndexLinks::default(),
            feeding: Arc::default(),
            links: OnceLock::new(),
            erasures: Arc::default(),
        };
        // They are opened by the commit that names them.
        for partition in &container.partitions {
            self.engine.store.create_shard(partition.shard, partition.epoch).map_err(storage)?;
        }
        let blocks = open_with_first_rows(&*self.engine.store, &mut change, &container.partitions)?;
        let parent = u64::from(database.number);
        change.insert(RecordKind::Container, parent, &container.record(Lsn(0)))?;
        if let Some(offer) = offer {
            self.engine.offers().insert(
                &mut change,
                &offer,
                container.rid(),
                container.self_link(),
            )?;
        }
        let resource = container.to_resource();
        SecondaryIndexes::join(&mut change, &mut database, &container)?;
        database.insert(container.clone());
        change.state.insert(database);
        self.commit_made(change, &container, blocks)?;
        self.engine.secondary_indexes().wake();
        Ok(resource)
    }

    /// Commits a change that makes a container, whose partitions get the row numbers that it reserves.
    fn commit_made(
        self,
        mut change: Change<'_>,
        container: &Container,
        blocks: Vec<Range<u64>>,
    ) -> Result<()> {
        match change.write() {
            Ok(committed) => {
                let lsns = committed.lsns.into_iter().skip(1);
                for ((partition, block), lsn) in container.partitions.iter().zip(blocks).zip(lsns) {
                    partition.add_rows(block, lsn);
                }
                change.publish();
                Ok(())
            }
            Err(WriteFailed { error, unknown }) => {
                if !unknown {
                    self.drop_shards(container);
                }
                Err(storage(error))
            }
        }
    }

    /// One container, as this process knows it: the store refuses reads and writes of items that go by an older
    /// definition than that of now.
    pub fn read(self, database: &Address, container: &Address) -> Result<Arc<Container>> {
        self.engine.catalog.container(database, container)
    }

    /// The containers of a database in the order of creation.
    pub fn list(self, database: &Address) -> Result<(Rid, Vec<Resource>)> {
        let database = self.engine.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        Ok((database.rid(), database.containers().map(|c| c.to_resource()).collect()))
    }

    /// Replaces a definition, within what may change after creation.
    pub fn replace(
        self,
        database: &Address,
        address: &Address,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        self.engine.epochs().redo(&mut || self.replace_once(database, address, body, conditions))
    }

    /// The same on one picture of the catalog.
    fn replace_once(
        self,
        database: &Address,
        address: &Address,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        let id = resource_id(body)?;
        let mut change = self.engine.catalog.change()?;
        let mut database = owner(&change, database)?;
        let old = database.container(address).cloned().ok_or(Error::NotFound)?;
        conditions.check_write(Some(old.stamp))?;
        if id != old.id {
            return Err(Error::invalid("The id of a container cannot be changed."));
        }
        let mut container = (*old).clone();
        container.definition = old.definition.replaced_by(body)?;
        container.stamp = self.engine.stamper.next();
        let terms_changed = container.change_index(&old)?;
        let timing_changed = container.definition.default_ttl != old.definition.default_ttl;
        container.ttl_backfill_pending |= timing_changed;
        let kept = |c: &Container| c.definition.versions_kept_s().is_some();
        let history_begins = kept(&container) && !kept(&old);
        if history_begins {
            // The shards still have the epoch of the old definition.
            match self.engine.change_feed().begin_history(&old) {
                // It is done once more below.
                Ok(()) | Err(Error::PartitionGone) => {}
                Err(error) => return Err(error),
            }
        }
        let history_ends = kept(&old) && !kept(&container);
        change.replace_definition(&mut container)?;
        let resource = container.to_resource();
        let container = Arc::new(container);
        database.insert((*container).clone());
        change.state.insert(database);
        change.commit()?;
        if terms_changed {
            self.engine.tasks.reindex(container.clone());
        }
        if history_begins {
            // Once more, for writes that came before the commit.
            self.engine.epochs().retry_on_stale_epoch(&container, &mut |now| {
                self.engine.change_feed().begin_history(now)
            })?;
        }
        if history_ends {
            self.engine.tasks.rebase_history(container.clone());
        }
        if timing_changed {
            self.engine.tasks.backfill_ttl(container);
        }
        Ok(resource)
    }

    /// Deletes a container with everything in it.
    pub fn delete(
        self,
        database: &Address,
        address: &Address,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let mut database = owner(&change, database)?;
            let container = database.container(address).cloned().ok_or(Error::NotFound)?;
            conditions.check_write(Some(container.stamp))?;
            if database.model.as_ref().is_some_and(|model| model.rules.concerns(&container.id)) {
                return Err(Error::invalid(format!(
                    "The model of the database names the container '{}'. Change or delete the model \
                     first.",
                    container.id
                )));
            }
            container.secondary.check_deletable(&container.id)?;
            self.remove(&mut change, &container)?;
            SecondaryIndexes::leave(&mut change, &mut database, &container)?;
            database.remove(&container);
            change.state.insert(database);
            change.commit()?;
            self.drop_shards(&container);
            Ok(())
        })
    }

    /// Gathers the removal of a container's records.
    pub(crate) fn remove(self, change: &mut Change<'_>, container: &Container) -> Result<()> {
        let parent = u64::from(container.database);
        change.remove(RecordKind::Container, parent, u64::from(container.number), &container.id);
        for PhysicalPartition { shard, epoch, .. } in &container.partitions {
            let dropped = HeadChange::state(ShardState::Open, ShardState::Dropped, *epoch);
            change.add(Part::of_head(*shard, *epoch, dropped));
        }
        remove_scripts(change, container)?;
        self.engine.offers().remove(change, container.rid_text())
    }

    /// Frees the data of a container that is no longer in the catalog. What cannot be freed now
    /// is freed at the next start.
    pub(crate) fn drop_shards(self, container: &Container) {
        for partition in &container.partitions {
            if let Err(error) = self.engine.store.drop_shard(partition.shard) {
                tracing::warn!(%error, shard = partition.shard.0, "cannot drop a shard; it is dropped at the next start");
            }
        }
    }
}

impl Container {
    pub(crate) fn record(&self, version: Lsn) -> Record {
        Record {
            number: u64::from(self.number),
            version,
            id: self.id.clone(),
            stamp: self.stamp,
            body: self.body(),
        }
    }
}
