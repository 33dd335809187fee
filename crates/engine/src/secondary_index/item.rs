//! The items of an index: which id each has, and what it is to be.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_storage::record;
use orrery_types::{Error, Result, Value, limits};
use sha2::{Digest, Sha256};

use crate::Container;
use crate::error::storage;
use crate::item::image::stored_value;
use crate::item::operation::ItemBody;

/// Bytes of the hash that an id is made of: 192 bits, so that nobody finds two source items with one id.
const ID_BYTES: usize = 24;

/// The id of the item that an index has for a source item. It follows from the key of the source item alone: no
/// two source items ever share one, and a rebuilt index has the same ids.
pub(crate) fn index_item_id(source_key: &[u8]) -> String {
    let hash = Sha256::digest(source_key);
    URL_SAFE_NO_PAD.encode(&hash[..ID_BYTES])
}

/// The item that an index is to have for a source item, as it is stored.
pub(crate) fn index_item(index: &Container, source_key: &[u8], stored: &[u8]) -> Result<ItemBody> {
    let (_, text) = record::decode(stored).map_err(storage)?;
    let definition = index.definition.secondary_index.as_ref();
    let definition =
        definition.ok_or_else(|| Error::internal(format!("'{}' is no index", index.id)))?;
    let source: Value = stored_value(text)?;
    let value = definition.projection.apply(&source, &index_item_id(source_key));
    // Items of an index have no time to live of their own: they go when those of the source do.
    ItemBody::with_ttl(index, value, None)
}

/// Whether an error says that an index cannot hold an item, rather than that something failed.
pub(super) fn is_unfit(error: &Error) -> bool {
    matches!(error, Error::Invalid(_) | Error::TooLarge { .. })
}

/// The reason why an index cannot hold an item, as it is kept.
pub(super) fn held_reason(error: &Error) -> Vec<u8> {
    let mut reason = error.to_string();
    while reason.len() > limits::SECONDARY_INDEX_REASON_BYTES_MAX {
        reason.pop();
    }
    reason.into_bytes()
}
