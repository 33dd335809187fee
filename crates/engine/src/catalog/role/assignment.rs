//! Role assignments: which principal has which role, and where.

use orrery_types::{Object, Result, Value, limits};

use super::document::{self, Document};
use super::scope::RoleScope;
use crate::catalog::resource::{Stamp, object};

/// A role that a principal has.
#[derive(Clone, Debug)]
pub struct RoleAssignment {
    /// A GUID.
    pub id: Box<str>,
    pub(super) number: u64,
    pub(super) stamp: Stamp,
    /// The id of the role.
    pub role: Box<str>,
    /// A user, an application or a group of the directory.
    pub principal: Box<str>,
    /// Where it has the role.
    pub scope: RoleScope,
}

impl RoleAssignment {
    /// Reads what a client sends, or what is stored.
    pub(super) fn parse(id: &str, number: u64, stamp: Stamp, body: &Value) -> Result<Self> {
        let document = Document::new(body)?;
        let role = document.text("roleDefinitionId", limits::ROLE_RESOURCE_ID_CHARS_MAX)?;
        let principal = document.text("principalId", limits::PRINCIPAL_ID_BYTES_MAX)?;
        let scope = document.text("scope", limits::ROLE_RESOURCE_ID_CHARS_MAX)?;
        Ok(Self {
            id: document::guid(id)?,
            number,
            stamp,
            role: document::guid(role)?,
            principal: document::principal(principal)?,
            scope: RoleScope::parse(scope)?,
        })
    }

    /// Whether it gives the same as another.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.role, &self.principal, &self.scope) == (&other.role, &other.principal, &other.scope)
    }

    /// The properties that are stored.
    pub(super) fn properties(&self) -> Object {
        object([
            ("roleDefinitionId", (&*self.role).into()),
            ("principalId", (&*self.principal).into()),
            ("scope", self.scope.to_string().into()),
        ])
    }
}
