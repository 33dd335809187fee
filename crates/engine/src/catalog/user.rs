//! Users of a database: names under which permissions are kept.

use orrery_storage::key::RecordKind;
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Lsn, Result, Value};

use crate::Engine;
use crate::catalog::records::{self, Record};
use crate::catalog::resource::{Preconditions, Resource, object, resource_id};

/// Parent of the permissions of a user.
pub(crate) fn permission_parent(database: u64, user: u64) -> u64 {
    database << 32 | user
}

fn user_resource(database: u32, record: &Record) -> Result<Resource> {
    let user = u32::try_from(record.number).map_err(|_| Error::internal("a user is corrupt"))?;
    let rid = Rid::User { database, user };
    let body = object([("id", (&*record.id).into())]);
    let link = format!("dbs/{}/users/{rid}/", Rid::Database(database));
    Ok(Resource::new(rid, record.stamp, &link, body).with("_permissions", "permissions/"))
}

/// Users of a database.
#[derive(Clone, Copy)]
pub struct UserCatalog<'e> {
    pub(crate) engine: &'e Engine,
}

impl UserCatalog<'_> {
    pub(crate) fn record(self, database: u32, user: &Address) -> Result<Record> {
        let parent = u64::from(database);
        let record = match user {
            Address::Name(name) => {
                records::by_name(&*self.engine.store, RecordKind::User, parent, name)?
            }
            Address::Rid(Rid::User { database: of, user }) if *of == database => {
                records::by_number(&*self.engine.store, RecordKind::User, parent, u64::from(*user))?
            }
            Address::Rid(_) => None,
        };
        record.ok_or(Error::NotFound)
    }

    pub(crate) fn database_number(self, database: &Address) -> Result<u32> {
        let database = self.engine.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        Ok(database.number)
    }

    /// Makes a user; with `upsert`, replaces the one that has the id. Tells whether it was made.
    pub fn create(
        self,
        database: &Address,
        body: &Value,
        upsert: bool,
    ) -> Result<(Resource, bool)> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let mut change = self.engine.catalog.change()?;
            let database = self.database_number(database)?;
            let parent = u64::from(database);
            let old = records::by_name(&*self.engine.store, RecordKind::User, parent, &id)?;
            let created = old.is_none();
            let mut record = match old {
                Some(_) if !upsert => return Err(Error::AlreadyExists),
                Some(old) => old,
                None => Record {
                    number: u64::from(change.next_number("user")?),
                    version: Lsn(0),
                    id,
                    stamp: self.engine.stamper.next(),
                    body: Value::Null,
                },
            };
            record.stamp = self.engine.stamper.next();
            if created {
                change.insert(RecordKind::User, parent, &record)?;
            } else {
                change.replace(RecordKind::User, parent, &record)?;
            }
            change.commit()?;
            Ok((user_resource(database, &record)?, created))
        })
    }

    /// One user.
    pub fn read(self, database: &Address, user: &Address) -> Result<Resource> {
        let database = self.database_number(database)?;
        user_resource(database, &self.record(database, user)?)
    }

    /// The users of a database, behind the database's rid.
    pub fn list(self, database: &Address) -> Result<(Rid, Vec<Resource>)> {
        let database = self.database_number(database)?;
        let users = records::list(&*self.engine.store, RecordKind::User, u64::from(database))?;
        let users = users.iter().map(|u| user_resource(database, u)).collect::<Result<_>>()?;
        Ok((Rid::Database(database), users))
    }

    /// Replaces a user; its id may change.
    pub fn replace(
        self,
        database: &Address,
        user: &Address,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let mut change = self.engine.catalog.change()?;
            let database = self.database_number(database)?;
            let parent = u64::from(database);
            let mut record = self.record(database, user)?;
            conditions.check_write(Some(record.stamp))?;
            record.stamp = self.engine.stamper.next();
            if id == record.id {
                change.replace(RecordKind::User, parent, &record)?;
            } else {
                if records::by_name(&*self.engine.store, RecordKind::User, parent, &id)?.is_some() {
                    return Err(Error::AlreadyExists);
                }
                change.remove(RecordKind::User, parent, record.number, &record.id);
                record.id = id;
                change.insert(RecordKind::User, parent, &record)?;
            }
            change.commit()?;
            user_resource(database, &record)
        })
    }

    /// Deletes a user with its permissions.
    pub fn delete(
        self,
        database: &Address,
        user: &Address,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let database = self.database_number(database)?;
            let parent = u64::from(database);
            let record = self.record(database, user)?;
            conditions.check_write(Some(record.stamp))?;
            change.remove_all(RecordKind::Permission, permission_parent(parent, record.number))?;
            change.remove(RecordKind::User, parent, record.number, &record.id);
            change.commit()
        })
    }
}
