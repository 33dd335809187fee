//! Role definitions: a name, the actions that the role permits, and the scopes in which it may be
//! assigned. Two are built in, with the ids of the service's.

use orrery_types::{Error, Etag, Object, Result, Value, limits};

use super::action::{ActionSet, DataAction};
use super::document::{self, Document};
use super::scope::RoleScope;
use crate::catalog::resource::{Stamp, object};

/// The built-in role that reads.
pub const DATA_READER: &str = "00000000-0000-0000-0000-000000000001";
/// The built-in role that reads and writes.
pub const DATA_CONTRIBUTOR: &str = "00000000-0000-0000-0000-000000000002";

/// A role.
#[derive(Clone, Debug)]
pub struct RoleDefinition {
    /// A GUID.
    pub id: Box<str>,
    /// What people call it.
    pub name: Box<str>,
    /// Zero for a built-in one.
    pub(super) number: u64,
    pub(super) stamp: Stamp,
    /// Names of actions, as they were given.
    action_names: Vec<Box<str>>,
    /// What they stand for.
    pub(super) actions: ActionSet,
    assignable: Vec<RoleScope>,
}

impl RoleDefinition {
    /// The roles that every account has.
    pub(super) fn built_in() -> [Self; 2] {
        let make = |id: &str, name: &str, actions: &[&str]| {
            let prefix = "Microsoft.DocumentDB/databaseAccounts/";
            let action_names: Vec<Box<str>> =
                actions.iter().map(|action| format!("{prefix}{action}").into()).collect();
            let sets = action_names.iter().filter_map(|name| ActionSet::parse(name));
            Self {
                id: id.into(),
                name: name.into(),
                number: 0,
                stamp: Stamp { etag: Etag { node: 0, stamp: 0 }, ts: 0 },
                actions: sets.fold(ActionSet::default(), ActionSet::union),
                action_names,
                assignable: vec![RoleScope::Account],
            }
        };
        [
            make(
                DATA_READER,
                "Cosmos DB Built-in Data Reader",
                &[
                    "readMetadata",
                    "sqlDatabases/containers/executeQuery",
                    "sqlDatabases/containers/readChangeFeed",
                    "sqlDatabases/containers/items/read",
                ],
            ),
            make(
                DATA_CONTRIBUTOR,
                "Cosmos DB Built-in Data Contributor",
                &["readMetadata", "sqlDatabases/containers/*", "sqlDatabases/containers/items/*"],
            ),
        ]
    }

    /// Reads what a client sends, or what is stored.
    pub(super) fn parse(id: &str, number: u64, stamp: Stamp, body: &Value) -> Result<Self> {
        let document = Document::new(body)?;
        let name = document.text("roleName", limits::ROLE_NAME_CHARS_MAX)?;
        match document.get("type") {
            Value::Undefined | Value::Null => {}
            Value::String(kind) if kind.eq_ignore_ascii_case("CustomRole") => {}
            other => {
                return Err(Error::invalid(format!(
                    "The type of a role definition must be 'CustomRole'; it is {}.",
                    other.to_json()
                )));
            }
        }
        let scopes = document.list("assignableScopes", limits::ROLE_SCOPES_MAX)?;
        let assignable = scopes
            .iter()
            .map(|scope| RoleScope::parse(document::string(scope, "assignableScopes")?))
            .collect::<Result<Vec<_>>>()?;
        let (mut action_names, mut actions) = (Vec::new(), ActionSet::default());
        for permission in document.list("permissions", limits::ROLE_SCOPES_MAX)? {
            let permission = Document::new(permission)?;
            if permission.get("notDataActions").as_array().is_some_and(|list| !list.is_empty()) {
                return Err(Error::invalid(
                    "notDataActions must be empty: name the dataActions that the role permits.",
                ));
            }
            for action in permission.list("dataActions", limits::ROLE_ACTIONS_MAX)? {
                let name = document::string(action, "dataActions")?;
                let found = ActionSet::parse(name).ok_or_else(|| {
                    Error::invalid(format!(
                        "The provided data action string [{name}] does not correspond to any valid \
                         SQL data action."
                    ))
                })?;
                actions = actions.union(found);
                action_names.push(name.into());
            }
        }
        Ok(Self {
            id: document::guid(id)?,
            name: name.into(),
            number,
            stamp,
            action_names,
            actions,
            assignable,
        })
    }

    /// Whether it comes with the server.
    pub fn is_built_in(&self) -> bool {
        self.number == 0
    }

    /// Whether the role permits an action.
    pub fn permits(&self, action: DataAction) -> bool {
        self.actions.contains(action)
    }

    /// Whether it may be assigned at a scope.
    pub(super) fn is_assignable_at(&self, scope: &RoleScope) -> bool {
        self.assignable.iter().any(|own| own.covers(scope))
    }

    /// The properties that are stored.
    pub(super) fn properties(&self) -> Object {
        let texts = |list: &[Box<str>]| {
            Value::array(list.iter().map(|text| Value::from(&**text)).collect())
        };
        let scopes: Vec<Box<str>> =
            self.assignable.iter().map(|scope| scope.to_string().into()).collect();
        let permission = object([
            ("dataActions", texts(&self.action_names)),
            ("notDataActions", Value::array(vec![])),
        ]);
        let kind = if self.is_built_in() { "BuiltInRole" } else { "CustomRole" };
        object([
            ("roleName", (&*self.name).into()),
            ("type", kind.into()),
            ("assignableScopes", texts(&scopes)),
            ("permissions", Value::array(vec![Value::object(permission)])),
        ])
    }
}
