//! What the catalog knows of indexes: a source lists those that are kept from it, and an index says whether
//! its initial build is done. Both containers change in one commit of the catalog, which raises the
//! epoch of the source: so a writer that deletes an item knows every index that must follow.

use orrery_storage::key::RecordKind;
use orrery_types::ids::{Address, Rid};
use orrery_types::{Error, Result, Value, limits};

use super::SecondaryIndexes;
use crate::catalog::Change;
use crate::catalog::container::definition::ContainerDef;
use crate::catalog::resource::object;
use crate::{Container, Database};

/// What a container has to do with indexes, as its record has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecondaryIndexLinks {
    /// The indexes that are kept from it, by number, with their ids.
    pub(crate) indexes: Vec<(u32, Box<str>)>,
    /// Deleted indexes whose keys are still to be removed from its shards.
    pub(crate) former: Vec<u32>,
    /// Whether its own initial build is done, if it is an index.
    pub(crate) is_built: bool,
}

impl SecondaryIndexLinks {
    pub(crate) fn to_value(&self) -> Value {
        if *self == Self::default() {
            return Value::Undefined;
        }
        let number = |number: u32| Value::from(i64::from(number));
        let index =
            |(index, id): &(u32, Box<str>)| Value::array(vec![number(*index), Value::from(&**id)]);
        Value::object(object([
            ("indexes", Value::array(self.indexes.iter().map(index).collect())),
            ("former", Value::array(self.former.iter().map(|index| number(*index)).collect())),
            ("built", self.is_built.into()),
        ]))
    }

    /// Reads them back; `None` if that is not possible.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        if value.is_undefined() {
            return Some(Self::default());
        }
        let number = |value: &Value| value.as_i64().and_then(|n| u32::try_from(n).ok());
        let index = |value: &Value| Some((number(value.at(0))?, value.at(1).as_str()?.into()));
        let list = |name: &str| value.get(name).as_array();
        Some(Self {
            indexes: list("indexes")?.iter().map(index).collect::<Option<_>>()?,
            former: list("former")?.iter().map(number).collect::<Option<_>>()?,
            is_built: value.get("built").is_true(),
        })
    }

    /// The indexes as clients see them at their source; undefined if there are none.
    pub(crate) fn indexes_to_value(&self, database: u32) -> Value {
        if self.indexes.is_empty() {
            return Value::Undefined;
        }
        let shown = |(number, id): &(u32, Box<str>)| {
            let rid = Rid::Container { database, container: *number };
            Value::object(object([("id", (&**id).into()), ("_rid", rid.to_string().into())]))
        };
        Value::array(self.indexes.iter().map(shown).collect())
    }

    /// Refuses to delete a container that indexes are kept from.
    pub(crate) fn check_deletable(&self, id: &str) -> Result<()> {
        if self.indexes.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.indexes.iter().map(|(_, id)| format!("'{id}'")).collect();
        Err(Error::invalid(format!(
            "The container '{id}' is the source of the global secondary indexes {}. Delete them first.",
            names.join(", ")
        )))
    }
}

impl Container {
    /// The definition with the status that the index has now; `None` if it is no index.
    pub(crate) fn secondary_definition(&self) -> Option<Value> {
        let mut definition = self.definition.secondary_index.as_ref()?.to_object();
        let status = match (self.secondary.is_built, self.feeding.is_started()) {
            (true, _) => "Active",
            (false, true) => "InitialBuildAfterCreate",
            (false, false) => "Initializing",
        };
        definition.set("status", status.into());
        Some(Value::object(definition))
    }

    /// Whether it is a global secondary index, which clients only read.
    pub fn is_secondary_index(&self) -> bool {
        self.definition.secondary_index.is_some()
    }

    /// Refuses writes of clients to a global secondary index.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let Some(definition) = &self.definition.secondary_index else { return Ok(()) };
        Err(Error::Denied(
            format!(
                "The container '{}' is a global secondary index and is read-only. Write to its source, \
                 the container '{}'.",
                self.id, definition.source_id
            )
            .into(),
        ))
    }
}

impl SecondaryIndexes<'_> {
    /// Checks the source that a new container names, if it names one, and notes its rid.
    pub(crate) fn resolve_source(
        database: &Database,
        id: &str,
        definition: &mut ContainerDef,
    ) -> Result<()> {
        let Some(index) = &mut definition.secondary_index else { return Ok(()) };
        let name = &index.source_id;
        let Some(source) = database.container(&Address::Name(name.to_string())) else {
            return Err(Error::invalid(format!(
                "The database has no container '{name}', the source of the global secondary index. Its \
                 source is a container of the same database."
            )));
        };
        if index.source_rid.is_some_and(|rid| rid != source.rid()) {
            return Err(Error::invalid(format!(
                "The sourceCollectionRid is not that of the container '{name}' of this database. Send \
                 '{}', or none.",
                source.rid()
            )));
        }
        if source.is_secondary_index() {
            return Err(Error::invalid(format!(
                "The container '{name}' is a global secondary index itself, and no source of others."
            )));
        }
        if source.secondary.indexes.len() >= limits::SECONDARY_INDEXES_MAX {
            return Err(Error::invalid(format!(
                "The container '{name}' has {} global secondary indexes; the limit is {}.",
                source.secondary.indexes.len(),
                limits::SECONDARY_INDEXES_MAX
            )));
        }
        if database.model.as_ref().is_some_and(|model| model.rules.concerns(id)) {
            return Err(Error::invalid(format!(
                "The model of the database names the container '{id}', so it cannot be a global secondary \
                 index."
            )));
        }
        index.check_partition_keys(&definition.partition_key, &source.definition.partition_key)?;
        index.source_rid = Some(source.rid());
        Ok(())
    }

    /// Adds a new index to its source, whose epoch rises in the same commit.
    pub(crate) fn join(
        change: &mut Change<'_>,
        database: &mut Database,
        index: &Container,
    ) -> Result<()> {
        let add = |links: &mut SecondaryIndexLinks| {
            links.indexes.push((index.number, index.id.clone()));
        };
        change_source(change, database, index, add)
    }

    /// Takes a deleted index off its source in the same way.
    pub(crate) fn leave(
        change: &mut Change<'_>,
        database: &mut Database,
        index: &Container,
    ) -> Result<()> {
        let remove = |links: &mut SecondaryIndexLinks| {
            links.indexes.retain(|(number, _)| *number != index.number);
            links.former.push(index.number);
        };
        change_source(change, database, index, remove)
    }

    /// Notes in the catalog that the initial build of an index is done.
    pub(super) fn set_built(self, index: &Container) -> Result<()> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let found = change.state.database(&Address::Rid(index.database_rid()));
            let Some(mut database) = found.map(|found| (**found).clone()) else { return Ok(()) };
            let Some(current) = database.container(&Address::Rid(index.rid())) else {
                return Ok(());
            };
            let mut current = (**current).clone();
            if current.secondary.is_built {
                return Ok(());
            }
            current.secondary.is_built = true;
            // Clients that read only what has changed see the new status.
            current.stamp = self.engine.stamper.next();
            replace(&mut change, &mut database, current)?;
            change.state.insert(database);
            change.commit()
        })
    }

    /// Notes in the catalog that nothing is left of a former index in the shards of its source; false if
    /// these are others by now.
    pub(super) fn forget_former(self, source: &Container, index: u32) -> Result<bool> {
        self.engine.epochs().redo(&mut || {
            let mut change = self.engine.catalog.change()?;
            let found = change.state.database(&Address::Rid(source.database_rid()));
            let Some(mut database) = found.map(|found| (**found).clone()) else { return Ok(true) };
            let Some(current) = database.container(&Address::Rid(source.rid())) else {
                return Ok(true);
            };
            if current.shards() != source.shards() {
                return Ok(false);
            }
            let mut current = (**current).clone();
            current.secondary.former.retain(|number| *number != index);
            replace(&mut change, &mut database, current)?;
            change.state.insert(database);
            change.commit()?;
            Ok(true)
        })
    }
}

/// Changes what the source of an index knows of its indexes, under a new epoch.
fn change_source(
    change: &mut Change<'_>,
    database: &mut Database,
    index: &Container,
    edit: impl FnOnce(&mut SecondaryIndexLinks),
) -> Result<()> {
    let definition = index.definition.secondary_index.as_ref();
    let Some(rid) = definition.and_then(|definition| definition.source_rid) else {
        return Ok(());
    };
    let found = database.container(&Address::Rid(rid));
    let mut source = (**found.ok_or(Error::NotFound)?).clone();
    edit(&mut source.secondary);
    change.replace_definition(&mut source)?;
    database.insert(source);
    Ok(())
}

/// Replaces the record of a container.
fn replace(change: &mut Change<'_>, database: &mut Database, container: Container) -> Result<()> {
    let (kind, parent) = (RecordKind::Container, u64::from(database.number));
    let version = change.record(kind, parent, u64::from(container.number))?.version;
    change.replace(kind, parent, &container.record(version))?;
    database.insert(container);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_read_back() {
        let links = SecondaryIndexLinks {
            indexes: vec![(7, "by customer".into())],
            former: vec![3, 4],
            is_built: true,
        };
        assert_eq!(SecondaryIndexLinks::from_value(&links.to_value()), Some(links));
        let none = SecondaryIndexLinks::default();
        assert!(none.to_value().is_undefined());
        assert_eq!(SecondaryIndexLinks::from_value(&Value::Undefined), Some(none));
        assert_eq!(SecondaryIndexLinks::from_value(&Value::from(1)), None);
    }
}
