//! Records of the system shard: a resource by kind, parent and number, and its number by name, so
//! that lists come in the order of creation and names are unique by the commit's own check.

use orrery_storage::key::{self, RecordKind};
use orrery_storage::{Part, Precondition, Put, Scan, Snapshot, Space, Store};
use orrery_types::{Error, Etag, Lsn, Object, Result, Value};

use super::SYSTEM_SHARD;
use crate::catalog::resource::Stamp;
use crate::catalog::resource::{object, seconds};
use crate::error::storage;

/// One stored resource. `version` is that of the record when it was read, zero for a new one.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) version: Lsn,
    pub(crate) id: Box<str>,
    pub(crate) stamp: Stamp,
    pub(crate) body: Value,
}

impl Record {
    /// The bytes that are stored, read back once: a record wraps what a client sent, and what nests
    /// up to the limit nests past it then. A catalog that does not read would keep the whole server
    /// from starting.
    fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = self.encode();
        match Self::from_bytes(self.version, &bytes) {
            Ok(_) => Ok(bytes),
            Err(_) => Err(Error::invalid("The request body nests too deep to be kept.")),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let etag = self.stamp.etag;
        let fields = object([
            ("number", integer(self.number)),
            ("id", (&*self.id).into()),
            ("node", integer(u64::from(etag.node))),
            ("stamp", Value::from(format!("{:x}", etag.stamp))),
            ("ts", seconds(self.stamp.ts)),
            ("body", self.body.clone()),
        ]);
        Value::object(fields).to_json().into_bytes()
    }

    fn from_bytes(version: Lsn, bytes: &[u8]) -> Result<Self> {
        let corrupt = || Error::internal("a record of the catalog is corrupt");
        let value = Value::parse(bytes).map_err(|_| corrupt())?;
        let number = |name: &str| {
            value.get(name).as_i64().and_then(|i| u64::try_from(i).ok()).ok_or_else(corrupt)
        };
        let text = |name: &str| value.get(name).as_str().ok_or_else(corrupt);
        let etag = Etag {
            node: u32::try_from(number("node")?).map_err(|_| corrupt())?,
            stamp: u64::from_str_radix(text("stamp")?, 16).map_err(|_| corrupt())?,
        };
        Ok(Self {
            number: number("number")?,
            version,
            id: text("id")?.into(),
            stamp: Stamp { etag, ts: number("ts")? },
            body: value.get("body").clone(),
        })
    }

    /// The body as an object; corrupt records have none.
    pub(crate) fn properties(&self) -> Object {
        self.body.as_object().cloned().unwrap_or_default()
    }
}

fn integer(number: u64) -> Value {
    Value::from(i64::try_from(number).unwrap_or(i64::MAX))
}

fn get(store: &dyn Store, key: &[u8]) -> Result<Option<(Lsn, Vec<u8>)>> {
    let (_, value) = store.get(SYSTEM_SHARD, Space::Meta, key).map_err(storage)?;
    Ok(value.map(|v| (v.version, v.bytes.into())))
}

/// One record by number.
pub(crate) fn by_number(
    store: &dyn Store,
    kind: RecordKind,
    parent: u64,
    number: u64,
) -> Result<Option<Record>> {
    let found = get(store, &key::record(kind, parent, number))?;
    found.map(|(version, bytes)| Record::from_bytes(version, &bytes)).transpose()
}

/// One record by name.
pub(crate) fn by_name(
    store: &dyn Store,
    kind: RecordKind,
    parent: u64,
    name: &str,
) -> Result<Option<Record>> {
    let Some((_, bytes)) = get(store, &key::record_name(kind, parent, name))? else {
        return Ok(None);
    };
    let number = bytes
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| Error::internal("a name of the catalog is corrupt"))?;
    by_number(store, kind, parent, number)
}

/// Every record of a kind under a parent, in the order of creation.
pub(crate) fn list(store: &dyn Store, kind: RecordKind, parent: u64) -> Result<Vec<Record>> {
    let snapshot = store.snapshot(SYSTEM_SHARD, orrery_storage::ReadAt::Latest).map_err(storage)?;
    list_in(&*snapshot, kind, parent)
}

/// The same from a snapshot of the system shard.
pub(crate) fn list_in(
    snapshot: &dyn Snapshot,
    kind: RecordKind,
    parent: u64,
) -> Result<Vec<Record>> {
    let prefix = key::records(kind, parent);
    let to = key::prefix_end(&prefix);
    let mut from = prefix;
    let mut all = Vec::new();
    loop {
        const ROWS: usize = 1000;
        let scan = Scan {
            space: Space::Meta,
            from: &from,
            to: &to,
            reverse: false,
            max_rows: ROWS,
            max_bytes: usize::MAX,
            keys_only: false,
        };
        let entries = snapshot.scan(&scan).map_err(storage)?;
        for entry in &entries {
            all.push(Record::from_bytes(entry.value.version, &entry.value.bytes)?);
        }
        match entries.last() {
            Some(last) if entries.len() == ROWS => from = key::after(&last.key),
            _ => return Ok(all),
        }
    }
}

pub(crate) fn insert(
    part: &mut Part,
    kind: RecordKind,
    parent: u64,
    record: &Record,
) -> Result<()> {
    let name = key::record_name(kind, parent, &record.id);
    part.preconditions.push(Precondition::Absent { space: Space::Meta, key: name.clone() });
    let number = record.number.to_be_bytes().to_vec();
    part.puts.push(Put { space: Space::Meta, key: name, value: number });
    let key = key::record(kind, parent, record.number);
    part.puts.push(Put { space: Space::Meta, key, value: record.to_bytes()? });
    Ok(())
}

/// Writes a record anew; its id has not changed.
pub(crate) fn replace(
    part: &mut Part,
    kind: RecordKind,
    parent: u64,
    record: &Record,
) -> Result<()> {
    let key = key::record(kind, parent, record.number);
    let (space, lsn) = (Space::Meta, record.version);
    part.preconditions.push(Precondition::Version { space, key: key.clone(), lsn });
    part.puts.push(Put { space: Space::Meta, key, value: record.to_bytes()? });
    Ok(())
}

pub(crate) fn remove(part: &mut Part, kind: RecordKind, parent: u64, number: u64, id: &str) {
    part.deletes.push((Space::Meta, key::record(kind, parent, number)));
    part.deletes.push((Space::Meta, key::record_name(kind, parent, id)));
}

/// Takes the next numbers of a counter, within the commit of `part`; returns the first.
pub(crate) fn next_numbers(
    store: &dyn Store,
    part: &mut Part,
    counter: &str,
    count: u32,
) -> Result<u32> {
    let key = key::counter(counter);
    let (version, last) = match get(store, &key)? {
        None => (None, 0),
        Some((version, bytes)) => {
            let last = bytes.try_into().map(u32::from_be_bytes);
            let last = last.map_err(|_| Error::internal("a counter of the catalog is corrupt"))?;
            (Some(version), last)
        }
    };
    let used_up = || Error::internal(format!("the counter '{counter}' is used up"));
    let end = last.checked_add(count).ok_or_else(used_up)?;
    part.preconditions.push(Precondition::unchanged(Space::Meta, key.clone(), version));
    part.puts.push(Put { space: Space::Meta, key, value: end.to_be_bytes().to_vec() });
    Ok(last + 1)
}
