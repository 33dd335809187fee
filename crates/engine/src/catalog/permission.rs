//! Permissions of a user: which resource, read or all, and for which partition key. The server
//! adds a token to every permission it hands out; the engine knows nothing of tokens.

use orrery_storage::key::RecordKind;
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Lsn, Object, PartitionKey, Result, Value};

use crate::Engine;
use crate::catalog::records::{self, Record};
use crate::catalog::resource::{Preconditions, Resource, object, require_object, resource_id};
use crate::catalog::user::permission_parent;

/// The user that owns permissions.
#[derive(Clone, Copy)]
struct Owner {
    database: u32,
    user: u32,
}

impl Owner {
    fn parent(self) -> u64 {
        permission_parent(u64::from(self.database), u64::from(self.user))
    }

    fn rid(self) -> Rid {
        Rid::User { database: self.database, user: self.user }
    }

    fn resource(self, record: &Record) -> Resource {
        let rid =
            Rid::Permission { database: self.database, user: self.user, permission: record.number };
        let mut body = object([("id", (&*record.id).into())]);
        for (name, value) in record.properties().iter() {
            body.set(name, value.clone());
        }
        let database = Rid::Database(self.database);
        let link = format!("dbs/{database}/users/{}/permissions/{rid}/", self.rid());
        Resource::new(rid, record.stamp, &link, body)
    }
}

/// The properties of a permission, checked, without its id.
fn permission_body(body: &Value) -> Result<Object> {
    require_object(body)?;
    let mode = match body.get("permissionMode").as_str() {
        // Echoed in the case it was sent in.
        Some(s) if s.eq_ignore_ascii_case("All") || s.eq_ignore_ascii_case("Read") => s,
        _ => {
            return Err(Error::invalid(format!(
                "permissionMode must be All or Read; it is {}.",
                or_missing(body.get("permissionMode"))
            )));
        }
    };
    let resource = body.get("resource").as_str().filter(|r| !r.trim_matches('/').is_empty());
    let resource = resource.ok_or_else(|| {
        Error::invalid(format!(
            "resource must be the link of a resource; it is {}.",
            or_missing(body.get("resource"))
        ))
    })?;
    let partition_key = match body.get("resourcePartitionKey") {
        Value::Undefined | Value::Null => Value::Undefined,
        key => {
            check_key(key)?;
            key.clone()
        }
    };
    Ok(object([
        ("permissionMode", mode.into()),
        ("resource", resource.into()),
        ("resourcePartitionKey", partition_key),
    ]))
}

/// A partition key that a permission may name: as the header has it, with one value at least. No value
/// would mean every key.
fn check_key(key: &Value) -> Result<()> {
    let parsed = PartitionKey::parse_header(&key.to_json());
    if parsed.is_ok_and(|key| !key.0.is_empty()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "resourcePartitionKey must be an array of one or more values of a partition key; it is {}. \
         Leave it out to permit every key.",
        key.to_json()
    )))
}

fn or_missing(value: &Value) -> String {
    if value.is_undefined() { "missing".to_owned() } else { value.to_json() }
}

/// Permissions of a user.
#[derive(Clone, Copy)]
pub struct PermissionCatalog<'e> {
    pub(crate) engine: &'e Engine,
}

impl PermissionCatalog<'_> {
    fn owner(self, database: &Address, user: &Address) -> Result<Owner> {
        let database = self.engine.users().database_number(database)?;
        let record =
            self.engine.users().record(database, user).map_err(|_| Error::OwnerNotFound)?;
        let user =
            u32::try_from(record.number).map_err(|_| Error::internal("a user is corrupt"))?;
        Ok(Owner { database, user })
    }

    fn record(self, owner: Owner, permission: &Address) -> Result<Record> {
        let (kind, parent) = (RecordKind::Permission, owner.parent());
        let record = match permission {
            Address::Name(name) => records::by_name(&*self.engine.store, kind, parent, name)?,
            Address::Rid(Rid::Permission { database, user, permission })
                if (*database, *user) == (owner.database, owner.user) =>
            {
                records::by_number(&*self.engine.store, kind, parent, *permission)?
            }
            Address::Rid(_) => None,
        };
        record.ok_or(Error::NotFound)
    }

    /// A user has one permission for a resource and partition key.
    fn check_is_alone(self, owner: Owner, body: &Object, except: Option<u64>) -> Result<()> {
        let same = |record: &Record| {
            let of = |name: &str| body.get(name).cloned().unwrap_or_default();
            *record.body.get("resource") == of("resource")
                && *record.body.get("resourcePartitionKey") == of("resourcePartitionKey")
        };
        let all = records::list(&*self.engine.store, RecordKind::Permission, owner.parent())?;
        if all.iter().any(|r| Some(r.number) != except && same(r)) {
            return Err(Error::AlreadyExists);
        }
        Ok(())
    }

    /// Makes a permission; with `upsert`, replaces the one that has the id. Tells whether it was
    /// made.
    pub fn create(
        self,
        database: &Address,
        user: &Address,
        body: &Value,
        upsert: bool,
    ) -> Result<(Resource, bool)> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let properties = permission_body(body)?;
            let mut change = self.engine.catalog.change()?;
            let owner = self.owner(database, user)?;
            let old =
                records::by_name(&*self.engine.store, RecordKind::Permission, owner.parent(), &id)?;
            if old.is_some() && !upsert {
                return Err(Error::AlreadyExists);
            }
            self.check_is_alone(owner, &properties, old.as_ref().map(|r| r.number))?;
            let created = old.is_none();
            let (number, version) = match &old {
                Some(old) => (old.number, old.version),
                None => (u64::from(change.next_number("permission")?), Lsn(0)),
            };
            let stamp = self.engine.stamper.next();
            let record = Record { number, version, id, stamp, body: Value::object(properties) };
            if created {
                change.insert(RecordKind::Permission, owner.parent(), &record)?;
            } else {
                change.replace(RecordKind::Permission, owner.parent(), &record)?;
            }
            change.commit()?;
            Ok((owner.resource(&record), created))
        })
    }

    /// One permission.
    pub fn read(
        self,
        database: &Address,
        user: &Address,
        permission: &Address,
    ) -> Result<Resource> {
        let owner = self.owner(database, user)?;
        Ok(owner.resource(&self.record(owner, permission)?))
    }

    /// The permission with a rid, if it and its user are still there.
    pub fn by_rid(self, rid: Rid) -> Result<Option<Resource>> {
        let Rid::Permission { database, user, permission } = rid else { return Ok(None) };
        let owner = Owner { database, user };
        let kind = RecordKind::Permission;
        let record = records::by_number(&*self.engine.store, kind, owner.parent(), permission)?;
        Ok(record.map(|record| owner.resource(&record)))
    }

    /// The permissions of a user, behind the user's rid.
    pub fn list(self, database: &Address, user: &Address) -> Result<(Rid, Vec<Resource>)> {
        let owner = self.owner(database, user)?;
        let all = records::list(&*self.engine.store, RecordKind::Permission, owner.parent())?;
        Ok((owner.rid(), all.iter().map(|r| owner.resource(r)).collect()))
    }

    /// Replaces a permission; its id may change.
    pub fn replace(
        self,
        database: &Address,
        user: &Address,
        permission: &Address,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        self.engine.epochs().redo(&mut || {
            let id = resource_id(body)?;
            let properties = permission_body(body)?;
            let mut change = self.engine.catalog.change()?;
            let owner = self.owner(database, user)?;
            let mut record = self.record(owner, permission)?;
            conditions.check_write(Some(record.stamp))?;
            self.check_is_alone(owner, &properties, Some(record.number))?;
            record.stamp = self.engine.stamper.next();
            record.body = Value::object(properties);
            let (kind, parent) = (RecordKind::Permission, owner.parent());
            if id == record.id {
                change.replace(kind, parent, &record)?;
            } else {
                if records::by_name(&*self.engine.store, kind, parent, &id)?.is_some() {
                    return Err(Error::AlreadyExists);
                }
                change.remove(kind, parent, record.number, &record.id);
                record.id = id;
                change.insert(kind, parent, &record)?;
            }
            change.commit()?;
            Ok(owner.resource(&record))
        })
    }

    /// Deletes a permission. Tokens that were issued for it open nothing from then on.
    pub fn delete(
        self,
        database: &Address,
        user: &Address,
        permission: &Address,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let owner = self.owner(database, user)?;
            let record = self.record(owner, permission)?;
            conditions.check_write(Some(record.stamp))?;
            change.remove(RecordKind::Permission, owner.parent(), record.number, &record.id);
            change.commit()
        })
    }
}
