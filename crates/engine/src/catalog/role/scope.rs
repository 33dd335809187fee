//! The scope of a role: the account, a database or a container, by name. A container that is created
//! again under its name is in the scope again, as with the service.

use std::fmt;

use orrery_types::{Error, Result};

/// Where a role applies, and where an action takes place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RoleScope {
    Account,
    Database(Box<str>),
    Container(Box<str>, Box<str>),
}

/// What stands before the name of the account in a scope of the service's management plane.
const ACCOUNTS: &str = "/databaseAccounts/";

impl RoleScope {
    /// Reads `/`, `/dbs/{db}` or `/dbs/{db}/colls/{container}`, also behind the resource id of an account.
    pub fn parse(text: &str) -> Result<Self> {
        let path = match text.split_once(ACCOUNTS) {
            Some((subscription, rest)) if subscription.starts_with("/subscriptions/") => {
                rest.split_once('/').map_or("", |(_, path)| path)
            }
            _ => text.strip_prefix('/').ok_or_else(|| malformed(text))?,
        };
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<&str> = if path.is_empty() { vec![] } else { path.split('/').collect() };
        match segments[..] {
            [] => Ok(Self::Account),
            ["dbs", db] if !db.is_empty() => Ok(Self::Database(db.into())),
            ["dbs", db, "colls", container] if !db.is_empty() && !container.is_empty() => {
                Ok(Self::Container(db.into(), container.into()))
            }
            _ => Err(malformed(text)),
        }
    }

    /// Whether what happens in `place` happens in this scope.
    pub fn covers(&self, place: &Self) -> bool {
        match (self, place) {
            (Self::Account, _) => true,
            (Self::Database(own), Self::Database(db) | Self::Container(db, _)) => own == db,
            (Self::Container(..), _) => self == place,
            (Self::Database(_), Self::Account) => false,
        }
    }
}

fn malformed(text: &str) -> Error {
    Error::invalid(format!(
        "The scope '{text}' is not one: it must be '/', '/dbs/{{database}}' or \
         '/dbs/{{database}}/colls/{{container}}'."
    ))
}

impl fmt::Display for RoleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account => f.write_str("/"),
            Self::Database(db) => write!(f, "/dbs/{db}"),
            Self::Container(db, container) => write!(f, "/dbs/{db}/colls/{container}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_with_and_without_the_account_in_front() {
        let arm =
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.DocumentDB/databaseAccounts/a";
        for (tail, shown) in [("", "/"), ("/dbs/d", "/dbs/d"), ("/dbs/d/colls/c", "/dbs/d/colls/c")]
        {
            for text in [format!("{arm}{tail}"), if tail.is_empty() { "/" } else { tail }.into()] {
                assert_eq!(RoleScope::parse(&text).unwrap().to_string(), shown, "{text}");
            }
        }
        for wrong in ["", "dbs/d", "/dbs", "/dbs/", "/dbs//colls/c", "/colls/c", "/dbs/d/docs/c"] {
            assert!(RoleScope::parse(wrong).is_err(), "{wrong}");
        }
        assert!(RoleScope::parse("/dbs/d/colls/c/docs/x").is_err());
    }

    #[test]
    fn a_scope_covers_itself_and_what_lies_below() {
        let scope = |text: &str| RoleScope::parse(text).unwrap();
        let all = ["/", "/dbs/d", "/dbs/d/colls/c", "/dbs/dd", "/dbs/d/colls/cc"];
        let covered = |text: &str| -> Vec<&str> {
            all.into_iter().filter(|place| scope(text).covers(&scope(place))).collect()
        };
        assert_eq!(covered("/"), all);
        assert_eq!(covered("/dbs/d"), ["/dbs/d", "/dbs/d/colls/c", "/dbs/d/colls/cc"]);
        assert_eq!(covered("/dbs/d/colls/c"), ["/dbs/d/colls/c"]);
    }
}
