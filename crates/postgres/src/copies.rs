//! Entries that are copied into a shard that is being made.

use std::collections::BTreeMap;

use orrery_storage::Copied;

use crate::connection::ServerConnection;
use crate::folded_key::StoredKey;
use crate::group::signed;

/// Writes copied entries. Of several with one key the last counts: what is read again while it is written comes twice,
/// and the server refuses to write a row twice.
pub(crate) fn copy(
    connection: &mut ServerConnection,
    shard: i32,
    entries: &[Copied],
) -> Result<(), postgres::Error> {
    let (mut gone, mut keys, mut tails) = (vec![], vec![], vec![]);
    let (mut versions, mut values) = (vec![], vec![]);
    let mut last = BTreeMap::new();
    for Copied { space, key, value } in entries {
        last.insert((*space, &key[..]), value);
    }
    for ((space, key), value) in last {
        let stored = StoredKey::new(space, key);
        match value {
            Some(value) => {
                keys.push(stored.key);
                tails.push(stored.tail);
                versions.push(signed(value.version.0));
                values.push(&value.bytes[..]);
            }
            None => gone.push(stored.key),
        }
    }
    if !gone.is_empty() {
        connection.query("DELETE FROM kv WHERE shard = $1 AND key = ANY ($2)", &[&shard, &gone])?;
    }
    let text = "INSERT INTO kv SELECT $1, k, v, b, t FROM unnest($2::bytea[], $3::bigint[], \
        $4::bytea[], $5::bytea[]) u(k, v, b, t) ON CONFLICT (shard, key) \
        DO UPDATE SET ver = excluded.ver, value = excluded.value, tail = excluded.tail";
    if !keys.is_empty() {
        connection.query(text, &[&shard, &keys, &versions, &values, &tails])?;
    }
    Ok(())
}
