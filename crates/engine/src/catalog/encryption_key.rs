//! Client encryption keys: wrapped keys that clients share through the database. The server keeps
//! them and can read nothing that they protect.

use orrery_storage::key::RecordKind;
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Lsn, Object, Result, Value};

use crate::Engine;
use crate::catalog::records::{self, Record};
use crate::catalog::resource::{Preconditions, Resource, object, require_object, resource_id};

/// When a key was created, in seconds since 1970.
const CREATED: &str = "_cts";

fn key_resource(database: u32, record: &Record) -> Result<Resource> {
    let key = u32::try_from(record.number).map_err(|_| Error::internal("a key is corrupt"))?;
    let rid = Rid::EncryptionKey { database, key };
    let mut body = object([("id", (&*record.id).into())]);
    for (name, value) in record.properties().iter() {
        body.set(name, value.clone());
    }
    let link = format!("dbs/{}/clientencryptionkeys/{rid}/", Rid::Database(database));
    Ok(Resource::new(rid, record.stamp, &link, body))
}

fn key_body(body: &Value) -> Result<Object> {
    require_object(body)?;
    let text = |member: &str| match body.get(member) {
        Value::String(s) if !s.is_empty() => Ok(Value::String(s.clone())),
        _ => Err(Error::invalid(format!("The client encryption key has no '{member}'."))),
    };
    let metadata = body.get("keyWrapMetadata");
    if metadata.as_object().is_none() {
        return Err(Error::invalid("The client encryption key has no 'keyWrapMetadata'."));
    }
    Ok(object([
        ("encryptionAlgorithm", text("encryptionAlgorithm")?),
        ("wrappedDataEncryptionKey", text("wrappedDataEncryptionKey")?),
        ("keyWrapMetadata", metadata.clone()),
    ]))
}

/// Client encryption keys of a database.
#[derive(Clone, Copy)]
pub struct EncryptionKeyCatalog<'e> {
    pub(crate) engine: &'e Engine,
}

impl EncryptionKeyCatalog<'_> {
    fn record(self, database: u32, key: &Address) -> Result<Record> {
        let (kind, parent) = (RecordKind::EncryptionKey, u64::from(database));
        let record = match key {
            Address::Name(name) => records::by_name(&*self.engine.store, kind, parent, name)?,
            Address::Rid(Rid::EncryptionKey { database: of, key }) if *of == database => {
                records::by_number(&*self.engine.store, kind, parent, u64::from(*key))?
            }
            Address::Rid(_) => None,
        };
        record.ok_or(Error::NotFound)
    }

    pub(crate) fn exists(self, database: u32, id: &str) -> Result<bool> {
        let (kind, parent) = (RecordKind::EncryptionKey, u64::from(database));
        Ok(records::by_name(&*self.engine.store, kind, parent, id)?.is_some())
    }

    /// Keeps a new key.
    pub fn create(self, database: &Address, body: &Value) -> Result<Resource> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let mut properties = key_body(body)?;
            let mut change = self.engine.catalog.change()?;
            let database = self.engine.users().database_number(database)?;
            let (kind, parent) = (RecordKind::EncryptionKey, u64::from(database));
            if records::by_name(&*self.engine.store, kind, parent, &id)?.is_some() {
                return Err(Error::AlreadyExists);
            }
            let number = u64::from(change.next_number("encryption key")?);
            let stamp = self.engine.stamper.next();
            properties.set(CREATED, i64::try_from(stamp.ts).unwrap_or(i64::MAX).into());
            let body = Value::object(properties);
            let record = Record { number, version: Lsn(0), id, stamp, body };
            change.insert(kind, parent, &record)?;
            change.commit()?;
            key_resource(database, &record)
        })
    }

    /// One key.
    pub fn read(self, database: &Address, key: &Address) -> Result<Resource> {
        let database = self.engine.users().database_number(database)?;
        key_resource(database, &self.record(database, key)?)
    }

    /// The keys of a database, behind the database's rid.
    pub fn list(self, database: &Address) -> Result<(Rid, Vec<Resource>)> {
        let database = self.engine.users().database_number(database)?;
        let keys =
            records::list(&*self.engine.store, RecordKind::EncryptionKey, u64::from(database))?;
        let keys = keys.iter().map(|k| key_resource(database, k)).collect::<Result<_>>()?;
        Ok((Rid::Database(database), keys))
    }

    /// Replaces a key, when it was wrapped anew.
    pub fn replace(
        self,
        database: &Address,
        key: &Address,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let mut properties = key_body(body)?;
            let mut change = self.engine.catalog.change()?;
            let database = self.engine.users().database_number(database)?;
            let mut record = self.record(database, key)?;
            conditions.check_write(Some(record.stamp))?;
            if id != record.id {
                return Err(Error::invalid("The id of a client encryption key cannot be changed."));
            }
            record.stamp = self.engine.stamper.next();
            properties.set(CREATED, record.body.get(CREATED).clone());
            record.body = Value::object(properties);
            change.replace(RecordKind::EncryptionKey, u64::from(database), &record)?;
            change.commit()?;
            key_resource(database, &record)
        })
    }

    /// Deletes a key.
    pub fn delete(
        self,
        database: &Address,
        key: &Address,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let database = self.engine.users().database_number(database)?;
            let record = self.record(database, key)?;
            conditions.check_write(Some(record.stamp))?;
            let parent = u64::from(database);
            change.remove(RecordKind::EncryptionKey, parent, record.number, &record.id);
            change.commit()
        })
    }
}
