//! Roles of directory principals: definitions, assignments, and the table that requests are checked
//! against. The records lie in the system shard like the rest of the catalog; the table is part of the
//! catalog's picture in memory, so a check takes no lock and reads nothing.

mod action;
mod assignment;
mod definition;
mod document;
mod scope;

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use orrery_storage::Snapshot;
use orrery_storage::key::RecordKind;
use orrery_types::{Error, Lsn, Object, Result, Value, limits};

pub use action::{ActionSet, DataAction};
pub use assignment::RoleAssignment;
pub use definition::{DATA_CONTRIBUTOR, DATA_READER, RoleDefinition};
pub use scope::RoleScope;

use crate::Engine;
use crate::catalog::Change;
use crate::catalog::records::{self, Record};
use crate::catalog::resource::{Preconditions, Stamp, object, seconds};
use crate::item::read::Outcome;

/// Roles have no parent.
const PARENT: u64 = 0;

/// A role or an assignment as a client sees it.
#[derive(Clone, Debug)]
pub struct RoleResource {
    /// Its version.
    pub stamp: Stamp,
    /// The whole body.
    pub body: Value,
}

impl RoleResource {
    fn new(id: &str, stamp: Stamp, properties: &Object) -> Self {
        let mut body = object([("id", id.into())]);
        for (name, value) in properties.iter() {
            body.set(name, value.clone());
        }
        body.set("_etag", stamp.etag.to_string().into());
        body.set("_ts", seconds(stamp.ts));
        Self { stamp, body: Value::object(body) }
    }

    fn of_definition(role: &RoleDefinition) -> Self {
        Self::new(&role.id, role.stamp, &role.properties())
    }

    fn of_assignment(assignment: &RoleAssignment) -> Self {
        Self::new(&assignment.id, assignment.stamp, &assignment.properties())
    }
}

/// Every role and assignment at one moment.
#[derive(Clone, Default)]
pub struct RoleTable {
    definitions: BTreeMap<Box<str>, Arc<RoleDefinition>>,
    assignments: BTreeMap<Box<str>, Arc<RoleAssignment>>,
    /// What each principal may do, and where.
    granted: HashMap<Box<str>, Vec<(RoleScope, ActionSet)>>,
}

impl RoleTable {
    pub(crate) fn load(snapshot: &dyn Snapshot) -> Result<Self> {
        let corrupt = |_| Error::internal("a record of a role is corrupt");
        let mut table = Self::default();
        for record in records::list_in(snapshot, RecordKind::RoleDefinition, PARENT)? {
            let Record { id, number, stamp, body, .. } = &record;
            let role = RoleDefinition::parse(id, *number, *stamp, body).map_err(corrupt)?;
            table.definitions.insert(role.id.clone(), Arc::new(role));
        }
        for record in records::list_in(snapshot, RecordKind::RoleAssignment, PARENT)? {
            let Record { id, number, stamp, body, .. } = &record;
            let found = RoleAssignment::parse(id, *number, *stamp, body).map_err(corrupt)?;
            table.assignments.insert(found.id.clone(), Arc::new(found));
        }
        Ok(table.completed())
    }

    /// The same with the built-in roles and with what follows from the assignments.
    fn completed(mut self) -> Self {
        for role in RoleDefinition::built_in() {
            self.definitions.insert(role.id.clone(), Arc::new(role));
        }
        self.granted.clear();
        for assignment in self.assignments.values() {
            // Without its definition an assignment grants nothing.
            if let Some(role) = self.definitions.get(&assignment.role) {
                let granted = self.granted.entry(assignment.principal.clone()).or_default();
                granted.push((assignment.scope.clone(), role.actions));
            }
        }
        self
    }

    /// Whether one of the principals has a role that permits the action in a place.
    pub fn permits<'p>(
        &self,
        principals: impl IntoIterator<Item = &'p str>,
        action: DataAction,
        place: &RoleScope,
    ) -> bool {
        principals
            .into_iter()
            .filter_map(|principal| self.granted.get(principal))
            .flatten()
            .any(|(scope, actions)| actions.contains(action) && scope.covers(place))
    }

    /// Whether one of the principals has a role that permits the action anywhere.
    pub fn permits_somewhere<'p>(
        &self,
        principals: impl IntoIterator<Item = &'p str>,
        action: DataAction,
    ) -> bool {
        principals
            .into_iter()
            .filter_map(|principal| self.granted.get(principal))
            .flatten()
            .any(|(_, actions)| actions.contains(action))
    }

    /// Every role.
    pub fn definitions(&self) -> impl Iterator<Item = &RoleDefinition> {
        self.definitions.values().map(|role| &**role)
    }
}

/// A principal of a token in the form in which assignments are compared with it.
pub fn principal_id(text: &str) -> Result<Box<str>> {
    document::principal(text)
}

/// Roles and assignments of the account.
#[derive(Clone, Copy)]
pub struct RoleCatalog<'e> {
    pub(crate) engine: &'e Engine,
}

impl RoleCatalog<'_> {
    /// The table of now.
    pub fn table(self) -> Arc<RoleTable> {
        self.engine.catalog.state().roles.clone()
    }

    /// Every role, the built-in ones first.
    pub fn list_definitions(self) -> Vec<RoleResource> {
        self.table().definitions().map(RoleResource::of_definition).collect()
    }

    /// Every assignment.
    pub fn list_assignments(self) -> Vec<RoleResource> {
        let table = self.table();
        table.assignments.values().map(|one| RoleResource::of_assignment(one)).collect()
    }

    /// One role.
    pub fn read_definition(self, id: &str) -> Result<RoleResource> {
        let id = document::guid(id)?;
        let table = self.table();
        let role = table.definitions.get(&id).ok_or(Error::NotFound)?;
        Ok(RoleResource::of_definition(role))
    }

    /// One assignment.
    pub fn read_assignment(self, id: &str) -> Result<RoleResource> {
        let id = document::guid(id)?;
        let table = self.table();
        let assignment = table.assignments.get(&id).ok_or(Error::NotFound)?;
        Ok(RoleResource::of_assignment(assignment))
    }

    /// Creates a role, or replaces the one with its id. What its assignments permit changes with it.
    pub fn store_definition(
        self,
        id: &str,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<(Outcome, RoleResource)> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let mut table = (*change.state.roles).clone();
            let stamp = self.engine.stamper.next();
            let mut role = RoleDefinition::parse(id, 1, stamp, body)?;
            let current = table.definitions.get(&role.id).cloned();
            if current.as_ref().is_some_and(|role| role.is_built_in()) {
                return Err(built_in());
            }
            conditions.check_upsert(current.as_ref().map(|role| role.stamp))?;
            let has_name = |other: &RoleDefinition| other.name == role.name && other.id != role.id;
            if table.definitions().any(has_name) {
                return Err(Error::AlreadyExists);
            }
            let custom = table.definitions().filter(|role| !role.is_built_in()).count();
            if current.is_none() && custom >= limits::ROLE_DEFINITIONS_MAX {
                return Err(too_many("role definitions", limits::ROLE_DEFINITIONS_MAX));
            }
            for assignment in table.assignments.values().filter(|one| one.role == role.id) {
                check_assignable(&role, &assignment.scope)?;
            }
            let kind = RecordKind::RoleDefinition;
            role.number = number(&mut change, current.map(|role| role.number))?;
            let body = Value::object(role.properties());
            let outcome = put(&mut change, kind, role.number, &role.id, stamp, body)?;
            let answer = RoleResource::of_definition(&role);
            table.definitions.insert(role.id.clone(), Arc::new(role));
            change.state.roles = Arc::new(table.completed());
            change.commit()?;
            Ok((outcome, answer))
        })
    }

    /// Deletes a role that nobody has.
    pub fn delete_definition(self, id: &str, conditions: &Preconditions) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let id = document::guid(id)?;
            let mut change = self.engine.catalog.change()?;
            let mut table = (*change.state.roles).clone();
            let role = table.definitions.get(&id).cloned().ok_or(Error::NotFound)?;
            if role.is_built_in() {
                return Err(built_in());
            }
            conditions.check_write(Some(role.stamp))?;
            let assigned = table.assignments.values().filter(|one| one.role == id).count();
            if assigned > 0 {
                return Err(Error::invalid(format!(
                    "The role definition '{id}' has {assigned} assignments. Delete them first."
                )));
            }
            change.remove(RecordKind::RoleDefinition, PARENT, role.number, &id);
            table.definitions.remove(&id);
            change.state.roles = Arc::new(table.completed());
            change.commit()
        })
    }

    /// Gives a principal a role, or replaces the assignment with its id.
    pub fn store_assignment(
        self,
        id: &str,
        body: &Value,
        conditions: &Preconditions,
    ) -> Result<(Outcome, RoleResource)> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let mut table = (*change.state.roles).clone();
            let stamp = self.engine.stamper.next();
            let mut assignment = RoleAssignment::parse(id, 0, stamp, body)?;
            let role = table.definitions.get(&assignment.role).ok_or_else(|| {
                Error::invalid(format!("There is no role definition '{}'.", assignment.role))
            })?;
            check_assignable(role, &assignment.scope)?;
            let current = table.assignments.get(&assignment.id).cloned();
            conditions.check_upsert(current.as_ref().map(|one| one.stamp))?;
            let is_twice = |other: &Arc<RoleAssignment>| {
                other.is_same(&assignment) && other.id != assignment.id
            };
            if table.assignments.values().any(is_twice) {
                return Err(Error::AlreadyExists);
            }
            if current.is_none() && table.assignments.len() >= limits::ROLE_ASSIGNMENTS_MAX {
                return Err(too_many("role assignments", limits::ROLE_ASSIGNMENTS_MAX));
            }
            let kind = RecordKind::RoleAssignment;
            assignment.number = number(&mut change, current.map(|one| one.number))?;
            let body = Value::object(assignment.properties());
            let outcome = put(&mut change, kind, assignment.number, &assignment.id, stamp, body)?;
            let answer = RoleResource::of_assignment(&assignment);
            table.assignments.insert(assignment.id.clone(), Arc::new(assignment));
            change.state.roles = Arc::new(table.completed());
            change.commit()?;
            Ok((outcome, answer))
        })
    }

    /// Takes a role from a principal.
    pub fn delete_assignment(self, id: &str, conditions: &Preconditions) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let id = document::guid(id)?;
            let mut change = self.engine.catalog.change()?;
            let mut table = (*change.state.roles).clone();
            let assignment = table.assignments.remove(&id).ok_or(Error::NotFound)?;
            conditions.check_write(Some(assignment.stamp))?;
            change.remove(RecordKind::RoleAssignment, PARENT, assignment.number, &id);
            change.state.roles = Arc::new(table.completed());
            change.commit()
        })
    }
}

/// The number of the record: the one that it has, or a new one.
fn number(change: &mut Change<'_>, current: Option<u64>) -> Result<u64> {
    match current {
        Some(number) => Ok(number),
        None => Ok(u64::from(change.next_number("role")?)),
    }
}

/// Writes a record, new or anew.
fn put(
    change: &mut Change<'_>,
    kind: RecordKind,
    number: u64,
    id: &str,
    stamp: Stamp,
    body: Value,
) -> Result<Outcome> {
    let current = records::by_number(change.store(), kind, PARENT, number)?;
    let version = current.as_ref().map_or(Lsn(0), |record| record.version);
    let record = Record { number, version, id: id.into(), stamp, body };
    if current.is_some() {
        change.replace(kind, PARENT, &record)?;
        return Ok(Outcome::Replaced);
    }
    change.insert(kind, PARENT, &record)?;
    Ok(Outcome::Created)
}

fn check_assignable(role: &RoleDefinition, scope: &RoleScope) -> Result<()> {
    if role.is_assignable_at(scope) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "The role '{}' is assigned at '{scope}', which is not one of its assignable scopes.",
        role.name
    )))
}

fn built_in() -> Error {
    Error::invalid("Built-in role definitions can be neither changed nor deleted.")
}

fn too_many(what: &str, limit: usize) -> Error {
    Error::invalid(format!("The account has {limit} {what}, which is the limit."))
}
