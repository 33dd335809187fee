//! Databases: create, read, list, delete. A database may own throughput that its containers share.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use orrery_storage::key::RecordKind;
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Lsn, Result, Value};

use crate::Engine;
use crate::catalog::container::Container;
use crate::catalog::offer::ThroughputRequest;
use crate::catalog::records::Record;
use crate::catalog::resource::Stamp;
use crate::catalog::resource::{Preconditions, Resource, object, resource_id};
use crate::model::StoredModel;

/// A database with its containers, at one moment.
#[derive(Clone)]
pub struct Database {
    pub(crate) number: u32,
    /// The `id`.
    pub id: Box<str>,
    pub(crate) stamp: Stamp,
    containers: BTreeMap<u32, Arc<Container>>,
    names: HashMap<Box<str>, u32>,
    /// The model of its items, if it has one.
    pub(crate) model: Option<Arc<StoredModel>>,
}

impl Database {
    pub(crate) fn from_record(record: &Record) -> Result<Self> {
        let number = u32::try_from(record.number);
        Ok(Self {
            number: number.map_err(|_| Error::internal("a database number is corrupt"))?,
            id: record.id.clone(),
            stamp: record.stamp,
            containers: BTreeMap::new(),
            names: HashMap::default(),
            model: None,
        })
    }

    /// The `_rid`.
    pub fn rid(&self) -> Rid {
        Rid::Database(self.number)
    }

    /// `dbs/{rid}/`.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/", self.rid())
    }

    /// As a client sees it.
    pub fn to_resource(&self) -> Resource {
        let body = object([("id", (&*self.id).into())]);
        Resource::new(self.rid(), self.stamp, &self.self_link(), body)
            .with("_colls", "colls/")
            .with("_users", "users/")
    }

    pub(crate) fn container(&self, address: &Address) -> Option<&Arc<Container>> {
        let number = match address {
            Address::Name(name) => *self.names.get(name.as_str())?,
            Address::Rid(Rid::Container { database, container }) if *database == self.number => {
                *container
            }
            Address::Rid(_) => return None,
        };
        self.containers.get(&number)
    }

    /// All containers in the order of creation.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.containers.values()
    }

    /// Adds a container or replaces the one with its number.
    pub(crate) fn insert(&mut self, container: Container) {
        self.insert_shared(Arc::new(container));
    }

    /// The same with one that other pictures have too.
    pub(crate) fn insert_shared(&mut self, container: Arc<Container>) {
        self.names.insert(container.id.clone(), container.number);
        self.containers.insert(container.number, container);
    }

    pub(crate) fn remove(&mut self, container: &Container) {
        self.names.remove(&container.id);
        self.containers.remove(&container.number);
    }
}

/// Databases of the account.
#[derive(Clone, Copy)]
pub struct DatabaseCatalog<'e> {
    pub(crate) engine: &'e Engine,
}

impl DatabaseCatalog<'_> {
    /// Makes a database, with throughput of its own if asked for.
    pub fn create(self, body: &Value, throughput: &ThroughputRequest) -> Result<Resource> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let offer = throughput.for_database()?;
            let mut change = self.engine.catalog.change()?;
            if change.state.database(&Address::Name(id.to_string())).is_some() {
                return Err(Error::AlreadyExists);
            }
            let record = Record {
                number: u64::from(change.next_number("database")?),
                version: Lsn(0),
                id,
                stamp: self.engine.stamper.next(),
                body: Value::Null,
            };
            let database = Database::from_record(&record)?;
            change.insert(RecordKind::Database, 0, &record)?;
            if let Some(offer) = offer {
                self.engine.offers().insert(
                    &mut change,
                    &offer,
                    database.rid(),
                    &database.self_link(),
                )?;
            }
            let resource = database.to_resource();
            change.state.insert(database);
            change.commit()?;
            Ok(resource)
        })
    }

    /// One database, as this process knows it ([`Engine::refresh_catalog`]).
    pub fn read(self, address: &Address) -> Result<Arc<Database>> {
        self.engine.catalog.database(address)
    }

    /// All databases in the order of creation, as this process knows them.
    pub fn list(self) -> Vec<Resource> {
        self.engine.catalog.state().databases().map(|d| d.to_resource()).collect()
    }

    /// Replaces a database: it has no property that could change, so only its version does.
    pub fn replace(
        self,
        address: &Address,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let mut change = self.engine.catalog.change()?;
            let mut database = (**change.state.database(address).ok_or(Error::NotFound)?).clone();
            conditions.check_write(Some(database.stamp))?;
            if id != database.id {
                return Err(Error::invalid("The id of a database cannot be changed."));
            }
            let number = u64::from(database.number);
            let mut record = change.record(RecordKind::Database, 0, number)?;
            database.stamp = self.engine.stamper.next();
            record.stamp = database.stamp;
            change.replace(RecordKind::Database, 0, &record)?;
            let resource = database.to_resource();
            change.state.insert(database);
            change.commit()?;
            Ok(resource)
        })
    }

    /// Deletes a database with everything in it.
    pub fn delete(self, address: &Address, conditions: &Preconditions) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let database = change.state.database(address).cloned().ok_or(Error::NotFound)?;
            conditions.check_write(Some(database.stamp))?;
            let parent = u64::from(database.number);
            for container in database.containers() {
                self.engine.containers().remove(&mut change, container)?;
            }
            for user in change.remove_all(RecordKind::User, parent)? {
                change.remove_all(
                    RecordKind::Permission,
                    crate::catalog::user::permission_parent(parent, user.number),
                )?;
            }
            change.remove_all(RecordKind::EncryptionKey, parent)?;
            change.remove_all(RecordKind::Model, parent)?;
            self.engine.offers().remove(&mut change, &database.rid().to_string())?;
            change.remove(RecordKind::Database, 0, parent, &database.id);
            change.state.remove(&database);
            change.commit()?;
            for container in database.containers() {
                self.engine.containers().drop_shards(container);
            }
            Ok(())
        })
    }
}
