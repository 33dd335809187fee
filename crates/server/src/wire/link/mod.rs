//! A URL path becomes a [`ResourceLink`]: what it addresses, and the two strings a client signs
//! for it. `auth` and `dispatch` read the same link, so what was signed is what is served.
//!
//! Segments are told apart by position, never by keyword: a database may be called `colls`. A
//! path is by rids when its second segment is a database rid, and then all of it is; offers
//! always are. The old wire words (`colls`, `docs`, …) live here and in `wire.rs` only.

mod addresses;
mod frame;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
pub use orrery_engine::script::ScriptKind;
pub use orrery_types::ids::Address;
use orrery_types::ids::{ChildKind, Rid};
use orrery_types::{Error, Result};
use percent_encoding::percent_decode_str;

use crate::copies::CopyStep;

pub use addresses::AddressesOf;

/// A container within its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerAddress {
    /// The database that holds the container.
    pub database: Address,
    /// The container itself.
    pub container: Address,
}

/// A user within its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAddress {
    /// The database that holds the user.
    pub database: Address,
    /// The user itself.
    pub user: Address,
}

/// Everything a path can address. A plural is the feed, a singular one resource of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is one row of the table of paths, named as in the code")]
pub enum Target {
    Account,
    /// Where the replicas of a partition are.
    Addresses(AddressesOf),
    /// Transactions over partitions and containers.
    Transactions,
    Databases,
    Database(Address),
    Containers(Address),
    Container(ContainerAddress),
    Items(ContainerAddress),
    Item(ContainerAddress, Address),
    Ranges(ContainerAddress),
    Scripts(ContainerAddress, ScriptKind),
    Script(ContainerAddress, ScriptKind, Address),
    Conflicts(ContainerAddress),
    Conflict(ContainerAddress, Address),
    PartitionKeyDelete(ContainerAddress),
    /// A range becomes two.
    Split(ContainerAddress),
    /// Two ranges become one.
    Merge(ContainerAddress),
    Attachments(ContainerAddress, Address),
    Attachment(ContainerAddress, Address, String),
    Users(Address),
    User(UserAddress),
    Permissions(UserAddress),
    Permission(UserAddress, Address),
    EncryptionKeys(Address),
    EncryptionKey(Address, Address),
    Offers,
    Offer(Rid),
    /// Backups of the account: ours.
    Backups,
    Backup(String),
    BackupFile(String, usize),
    /// Copies of the whole store: ours.
    Copies,
    Copy(String),
    CopyStep(String, CopyStep),
    /// Roles of directory principals: ours, as the service has them beside the protocol.
    RoleDefinitions,
    RoleDefinition(String),
    RoleAssignments,
    RoleAssignment(String),
    /// The declared model of a database.
    Model(Address),
    /// Ours: what requests did.
    Statistics,
    /// Background work that fails.
    Tasks,
    /// Ours: the nodes of the store.
    Nodes,
    /// Reserved: suggestions about a database.
    Advisor(Address),
}

impl Target {
    /// The container that the target is or lies in.
    pub fn container(&self) -> Option<&ContainerAddress> {
        match self {
            Self::Container(at)
            | Self::Items(at)
            | Self::Item(at, _)
            | Self::Ranges(at)
            | Self::Scripts(at, _)
            | Self::Script(at, ..)
            | Self::Conflicts(at)
            | Self::Conflict(at, _)
            | Self::PartitionKeyDelete(at)
            | Self::Split(at)
            | Self::Merge(at)
            | Self::Attachments(at, _)
            | Self::Attachment(at, ..)
            | Self::Addresses(AddressesOf::Container(at, _)) => Some(at),
            Self::Account
            | Self::Addresses(AddressesOf::Master)
            | Self::Transactions
            | Self::Databases
            | Self::Database(_)
            | Self::Containers(_)
            | Self::Users(_)
            | Self::User(_)
            | Self::Permissions(_)
            | Self::Permission(..)
            | Self::EncryptionKeys(_)
            | Self::EncryptionKey(..)
            | Self::Offers
            | Self::Offer(_)
            | Self::Backups
            | Self::Backup(_)
            | Self::BackupFile(..)
            | Self::Copies
            | Self::Copy(_)
            | Self::CopyStep(..)
            | Self::RoleDefinitions
            | Self::RoleDefinition(_)
            | Self::RoleAssignments
            | Self::RoleAssignment(_)
            | Self::Model(_)
            | Self::Statistics
            | Self::Tasks
            | Self::Nodes
            | Self::Advisor(_) => None,
        }
    }

    /// The database that the target is or lies in.
    pub fn database(&self) -> Option<&Address> {
        match self {
            Self::Database(database)
            | Self::Containers(database)
            | Self::Users(database)
            | Self::EncryptionKeys(database)
            | Self::EncryptionKey(database, _)
            | Self::Model(database)
            | Self::Advisor(database) => Some(database),
            Self::User(at) | Self::Permissions(at) | Self::Permission(at, _) => Some(&at.database),
            other => other.container().map(|at| &at.database),
        }
    }

    /// The path of an item or a script below its container: `docs/x`.
    pub fn path_in_container(&self) -> Option<String> {
        let (word, address) = match self {
            Self::Item(_, id) => ("docs", id),
            Self::Script(_, ScriptKind::Procedure, id) => ("sprocs", id),
            Self::Script(_, ScriptKind::Trigger, id) => ("triggers", id),
            Self::Script(_, ScriptKind::Udf, id) => ("udfs", id),
            _ => return None,
        };
        Some(match address {
            Address::Name(name) => format!("{word}/{name}"),
            Address::Rid(rid) => format!("{word}/{rid}"),
        })
    }
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLink {
    /// What the path addresses.
    pub target: Target,
    /// The resource type a client signs, in lower case: `docs`.
    pub signed_type: String,
    /// The resource link a client signs: names with their case, or one rid in lower case.
    pub signed_link: String,
    /// The same before percent-decoding, where that differs: some clients sign it instead.
    pub signed_link_raw: Option<String>,
}

impl ResourceLink {
    /// Reads the path of a request, with or without a query string, with any number of trailing
    /// slashes.
    pub fn parse(path_and_query: &str) -> Result<Self> {
        let path = path_and_query.split_once('?').map_or(path_and_query, |(path, _)| path);
        let raw = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
        if raw.is_empty() {
            return Ok(Self {
                target: Target::Account,
                signed_type: String::new(),
                signed_link: String::new(),
                signed_link_raw: None,
            });
        }
        if raw == TRANSACTIONS {
            return Ok(Self {
                target: Target::Transactions,
                signed_type: "distributedtransactionbatch".to_owned(),
                signed_link: String::new(),
                signed_link_raw: Some(TRANSACTIONS.to_owned()),
            });
        }
        if raw.trim_start_matches('/') == addresses::WORD {
            return Self::of_addresses(path_and_query);
        }
        let mut split = [""; SEGMENTS_MAX];
        let mut count = 0;
        let mut from = 0;
        // By bytes: on pieces this short a search would take longer to set up than to do.
        let ends = raw.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
        for end in ends.chain([raw.len()]) {
            *split.get_mut(count).ok_or(Error::NotFound)? = &raw[from..end];
            count += 1;
            from = end + 1;
        }
        // The .NET SDK leaves a question mark in the id of an item as it is.
        if path.len() < path_and_query.len()
            && let ["dbs", _, "colls", _, "docs", id, "", ""] = &mut split
            && !path.ends_with('/')
        {
            *id = &path_and_query[path.len() - id.len()..];
        }
        let plain = &split[..count];
        if plain.iter().any(|segment| segment.is_empty()) {
            return Err(Error::NotFound);
        }
        if !path_and_query.contains('%') {
            return Self::of(plain, None);
        }
        let segments = plain.iter().map(|segment| decode(segment)).collect::<Result<Vec<_>>>()?;
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        Self::of(&segments, Some(plain))
    }

    /// The link of decoded segments, and what they were before if that differs.
    fn of(segments: &[&str], undecoded: Option<&[&str]>) -> Result<Self> {
        let by_rid = is_by_rid(segments);
        let target = target(segments, by_rid).ok_or(Error::NotFound)?;
        let (signed_type, signed_link) = signed(segments, by_rid);
        let undecoded = undecoded.map(|segments| signed(segments, by_rid).1);
        let signed_link_raw = undecoded.filter(|undecoded| *undecoded != signed_link);
        Ok(Self { target, signed_type, signed_link, signed_link_raw })
    }
}

/// The path of distributed transactions. Clients sign an empty link for it; the path is taken too.
const TRANSACTIONS: &str = "operations/dtc";

/// `/dbs/{db}/colls/{c}/docs/{id}/attachments/{aid}` is the longest path there is.
const SEGMENTS_MAX: usize = 8;

fn decode(segment: &str) -> Result<Cow<'_, str>> {
    let bytes = segment.as_bytes();
    let broken = bytes.iter().enumerate().any(|(at, byte)| {
        *byte == b'%'
            && !bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    });
    if broken {
        let message = format!("The path segment '{segment}' has a '%' without two hex digits.");
        return Err(Error::invalid(message));
    }
    percent_decode_str(segment).decode_utf8().map_err(|_| {
        Error::invalid(format!("The path segment '{segment}' is not UTF-8 once it is decoded."))
    })
}

/// By rids iff the second segment is eight characters that hold a four byte database id.
fn is_by_rid(segments: &[&str]) -> bool {
    match segments {
        ["offers", _] => true,
        ["dbs", id, ..] if id.len() == 8 && id.ends_with("==") => {
            BASE64.decode(id.replace('-', "/")).is_ok_and(|bytes| bytes.len() == 4)
        }
        _ => false,
    }
}

/// What a client signs: type and link by the number of segments alone.
fn signed(segments: &[&str], by_rid: bool) -> (String, String) {
    // What is done to a container as a whole is signed as an operation on it.
    let segments = match segments {
        [container @ .., "operations", "partitionkeydelete" | "split" | "merge"] => container,
        _ => segments,
    };
    let is_feed = segments.len() % 2 == 1;
    let (kind, path) = if is_feed {
        (segments[segments.len() - 1], &segments[..segments.len() - 1])
    } else {
        (segments[segments.len() - 2], segments)
    };
    let link = match path.last() {
        Some(rid) if by_rid => rid.to_lowercase(),
        _ => path.join("/"),
    };
    // Every word for a type that a path can have is in lower case.
    (kind.to_owned(), link)
}

fn target(segments: &[&str], by_rid: bool) -> Option<Target> {
    let database = |text: &str| address(text, by_rid, |rid| matches!(rid, Rid::Database(_)));
    Some(match *segments {
        ["dbs"] => Target::Databases,
        ["_backups"] => Target::Backups,
        ["_backups", id] => Target::Backup(id.to_owned()),
        ["_backups", id, "files", number] => {
            Target::BackupFile(id.to_owned(), number.parse().ok()?)
        }
        ["_copies"] => Target::Copies,
        ["_copies", id] => Target::Copy(id.to_owned()),
        ["_copies", id, "steps", step] => Target::CopyStep(id.to_owned(), CopyStep::parse(step)?),
        ["_roledefinitions"] => Target::RoleDefinitions,
        ["_roledefinitions", id] => Target::RoleDefinition(id.to_owned()),
        ["_roleassignments"] => Target::RoleAssignments,
        ["_roleassignments", id] => Target::RoleAssignment(id.to_owned()),
        ["offers"] => Target::Offers,
        ["_orrery", "statistics"] => Target::Statistics,
        ["_orrery", "tasks"] => Target::Tasks,
        ["_orrery", "nodes"] => Target::Nodes,
        ["offers", rid] => {
            let rid = rid.parse().ok()?;
            let Rid::Offer(_) = rid else { return None };
            Target::Offer(rid)
        }
        ["dbs", db] => Target::Database(database(db)?),
        ["dbs", db, "colls"] => Target::Containers(database(db)?),
        ["dbs", db, "users"] => Target::Users(database(db)?),
        ["dbs", db, "clientencryptionkeys"] => Target::EncryptionKeys(database(db)?),
        ["dbs", db, "_model"] => Target::Model(database(db)?),
        ["dbs", db, "_advisor"] => Target::Advisor(database(db)?),
        ["dbs", db, "clientencryptionkeys", key] => {
            let database = database(db)?;
            let key = child_of(&database, key, |rid| match rid {
                Rid::EncryptionKey { database, .. } => Some(database),
                _ => None,
            })?;
            Target::EncryptionKey(database, key)
        }
        ["dbs", db, "users", user, ref rest @ ..] => user_target(database(db)?, user, rest)?,
        ["dbs", db, "colls", container, ref rest @ ..] => {
            container_target(database(db)?, container, rest)?
        }
        _ => return None,
    })
}

fn user_target(database: Address, user: &str, rest: &[&str]) -> Option<Target> {
    let by_rid = matches!(database, Address::Rid(_));
    let user = child_of(&database, user, |rid| match rid {
        Rid::User { database, .. } => Some(database),
        _ => None,
    })?;
    let owner = UserAddress { database, user };
    Some(match *rest {
        [] => Target::User(owner),
        ["permissions"] => Target::Permissions(owner),
        ["permissions", permission] => {
            let kind = |rid| matches!(rid, Rid::Permission { .. });
            let permission = address(permission, by_rid, kind)?;
            Target::Permission(owner, permission)
        }
        _ => return None,
    })
}

fn container_target(database: Address, container: &str, rest: &[&str]) -> Option<Target> {
    let container = child_of(&database, container, |rid| match rid {
        Rid::Container { database, .. } => Some(database),
        _ => None,
    })?;
    let owner = ContainerAddress { database, container };
    let child = |text: &str, kind: ChildKind| {
        let by_rid = matches!(owner.container, Address::Rid(_));
        let child = address(
            text,
            by_rid,
            |rid| matches!(rid, Rid::Child { kind: found, .. } if found == kind),
        )?;
        is_within(&owner.container, &child).then_some(child)
    };
    Some(match *rest {
        [] => Target::Container(owner),
        ["docs"] => Target::Items(owner),
        ["docs", id] => {
            let item = child(id, ChildKind::Item)?;
            Target::Item(owner, item)
        }
        ["docs", id, "attachments"] => {
            let item = child(id, ChildKind::Item)?;
            Target::Attachments(owner, item)
        }
        ["docs", id, "attachments", attachment] => {
            let item = child(id, ChildKind::Item)?;
            Target::Attachment(owner, item, attachment.to_owned())
        }
        ["pkranges"] => Target::Ranges(owner),
        ["conflicts"] => Target::Conflicts(owner),
        ["conflicts", id] => {
            let conflict = child(id, ChildKind::Conflict)?;
            Target::Conflict(owner, conflict)
        }
        ["operations", "partitionkeydelete"] => Target::PartitionKeyDelete(owner),
        ["operations", "split"] => Target::Split(owner),
        ["operations", "merge"] => Target::Merge(owner),
        [word] => Target::Scripts(owner, script_kind(word)?.0),
        [word, id] => {
            let (script, kind) = script_kind(word)?;
            let id = child(id, kind)?;
            Target::Script(owner, script, id)
        }
        _ => return None,
    })
}

fn script_kind(word: &str) -> Option<(ScriptKind, ChildKind)> {
    match word {
        "sprocs" => Some((ScriptKind::Procedure, ChildKind::Procedure)),
        "triggers" => Some((ScriptKind::Trigger, ChildKind::Trigger)),
        "udfs" => Some((ScriptKind::Udf, ChildKind::Udf)),
        _ => None,
    }
}

/// Reads one level; a rid must be of the kind that its place asks for.
fn address(text: &str, by_rid: bool, kind: impl Fn(Rid) -> bool) -> Option<Address> {
    if !by_rid {
        return Some(Address::Name(text.to_owned()));
    }
    let rid = text.parse().ok()?;
    kind(rid).then_some(Address::Rid(rid))
}

/// Reads a level directly under a database; `owner_of` tells a rid's database if its kind fits.
fn child_of(
    database: &Address,
    text: &str,
    owner_of: impl Fn(Rid) -> Option<u32>,
) -> Option<Address> {
    match database {
        Address::Name(_) => Some(Address::Name(text.to_owned())),
        Address::Rid(parent) => {
            let rid: Rid = text.parse().ok()?;
            let owner = owner_of(rid)?;
            (*parent == Rid::Database(owner)).then_some(Address::Rid(rid))
        }
    }
}

fn is_within(parent: &Address, child: &Address) -> bool {
    let (Address::Rid(parent), Address::Rid(Rid::Child { database, container, .. })) =
        (parent, child)
    else {
        return true;
    };
    *parent == Rid::Container { database: *database, container: *container }
}

#[cfg(test)]
mod tests;
