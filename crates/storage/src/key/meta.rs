//! Keys of the Meta space: the catalog, which lives in the system shard, and the counters. The
//! layout stands at the head of `key`; the engine decides what the values hold.

use super::Bounds;

const DATABASE: u8 = 0x01;
const CONTAINER: u8 = 0x02;
const USER: u8 = 0x03;
const PERMISSION: u8 = 0x04;
const OFFER: u8 = 0x05;
const ENCRYPTION_KEY: u8 = 0x06;
const SCRIPT: u8 = 0x07;
const COUNTER: u8 = 0x10;
const ROWS_RESERVED: u8 = 0x11;

/// The three kinds of script, as keys spell them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ScriptKind {
    Procedure = 1,
    Trigger = 2,
    Udf = 3,
}

fn key(tag: u8, words: &[u32]) -> Vec<u8> {
    let mut key = Vec::with_capacity(18);
    key.push(tag);
    for word in words {
        key.extend(word.to_be_bytes());
    }
    key
}

/// Key of a database.
pub fn database(database: u32) -> Vec<u8> {
    key(DATABASE, &[database])
}

/// All databases.
pub fn databases() -> Bounds {
    Bounds::prefix(vec![DATABASE])
}

/// Key of a container.
pub fn container(database: u32, container: u32) -> Vec<u8> {
    key(CONTAINER, &[database, container])
}

/// All containers of a database.
pub fn containers_of(database: u32) -> Bounds {
    Bounds::prefix(key(CONTAINER, &[database]))
}

/// Key of a user.
pub fn user(database: u32, user: u32) -> Vec<u8> {
    key(USER, &[database, user])
}

/// All users of a database.
pub fn users_of(database: u32) -> Bounds {
    Bounds::prefix(key(USER, &[database]))
}

/// Key of a permission.
pub fn permission(database: u32, user: u32, permission: u64) -> Vec<u8> {
    let mut key = key(PERMISSION, &[database, user]);
    key.extend(permission.to_be_bytes());
    key
}

/// All permissions of a user.
pub fn permissions_of(database: u32, user: u32) -> Bounds {
    Bounds::prefix(key(PERMISSION, &[database, user]))
}

/// Key of an offer.
pub fn offer(offer: u32) -> Vec<u8> {
    key(OFFER, &[offer])
}

/// All offers.
pub fn offers() -> Bounds {
    Bounds::prefix(vec![OFFER])
}

/// Key of a client encryption key.
pub fn encryption_key(database: u32, number: u32) -> Vec<u8> {
    key(ENCRYPTION_KEY, &[database, number])
}

/// All client encryption keys of a database.
pub fn encryption_keys_of(database: u32) -> Bounds {
    Bounds::prefix(key(ENCRYPTION_KEY, &[database]))
}

/// Key of a script.
pub fn script(database: u32, container: u32, kind: ScriptKind, script: u64) -> Vec<u8> {
    let mut key = key(SCRIPT, &[database, container]);
    key.push(kind as u8);
    key.extend(script.to_be_bytes());
    key
}

/// All scripts of a container, by kind.
pub fn scripts_of(database: u32, container: u32) -> Bounds {
    Bounds::prefix(key(SCRIPT, &[database, container]))
}

/// Key of a named counter.
pub fn counter(name: &str) -> Vec<u8> {
    let mut key = vec![COUNTER];
    key.extend_from_slice(name.as_bytes());
    key
}

/// Key, in every shard, of how many row numbers have been handed out.
pub fn rows_reserved() -> Vec<u8> {
    vec![ROWS_RESERVED]
}
