//! Keys of the nodes of a shared store and of their leases, all in the system shard: so one scan shows who is
//! there and who does what.

use super::Bounds;

const NODE: u8 = 0x28;
const LEASE: u8 = 0x29;
const VERIFICATION: u8 = 0x2a;

const ACCOUNT: u8 = 1;
const DATABASE: u8 = 2;
const CONTAINER: u8 = 3;
const LAYOUT: u8 = 4;

/// What a node does alone while it holds the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Job {
    /// Background work that is about no database.
    Account,
    /// Background work of the model of a database.
    Database(u32),
    /// Background work of a container.
    Container {
        /// Its database.
        database: u32,
        /// Its own number.
        container: u32,
    },
    /// A split or merge of a container.
    Layout {
        /// Its database.
        database: u32,
        /// Its own number.
        container: u32,
    },
}

/// Key of the record of a node.
pub fn node(number: u32) -> Vec<u8> {
    let mut key = vec![NODE];
    key.extend(number.to_be_bytes());
    key
}

/// The number in the key of a node; `None` if it is not one.
pub fn parse_node(key: &[u8]) -> Option<u32> {
    key.strip_prefix(&[NODE])?.try_into().ok().map(u32::from_be_bytes)
}

/// The keys of all nodes.
pub fn nodes() -> Bounds {
    Bounds::prefix(vec![NODE])
}

/// Key of the lease of a job.
pub fn lease(job: Job) -> Vec<u8> {
    let (kind, database, container) = match job {
        Job::Account => (ACCOUNT, 0, 0),
        Job::Database(database) => (DATABASE, database, 0),
        Job::Container { database, container } => (CONTAINER, database, container),
        Job::Layout { database, container } => (LAYOUT, database, container),
    };
    let mut key = vec![LEASE, kind];
    key.extend(database.to_be_bytes());
    key.extend(container.to_be_bytes());
    key
}

/// The job in the key of a lease; `None` if it is not one.
pub fn parse_lease(key: &[u8]) -> Option<Job> {
    let (kind, rest) = key.strip_prefix(&[LEASE])?.split_first()?;
    let (database, container) = rest.split_first_chunk::<4>()?;
    let database = u32::from_be_bytes(*database);
    let container = container.try_into().ok().map(u32::from_be_bytes)?;
    match *kind {
        ACCOUNT => Some(Job::Account),
        DATABASE => Some(Job::Database(database)),
        CONTAINER => Some(Job::Container { database, container }),
        LAYOUT => Some(Job::Layout { database, container }),
        _ => None,
    }
}

/// Key of the last verification of a database.
pub fn verification(database: u32) -> Vec<u8> {
    let mut key = vec![VERIFICATION];
    key.extend(database.to_be_bytes());
    key
}

/// The keys of all leases.
pub fn leases() -> Bounds {
    Bounds::prefix(vec![LEASE])
}
