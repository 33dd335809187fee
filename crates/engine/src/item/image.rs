//! The images of an item: before a write, as it is stored; after it; and as a transaction sees it now.

use std::cell::OnceCell;

use bytes::Bytes;
use orrery_index::Terms;
use orrery_storage::Value as Stored;
use orrery_storage::key::Row;
use orrery_storage::record::{self, Header};
use orrery_types::{Error, Lsn, Result, Value};

use crate::catalog::resource::Stamp;
use crate::error::storage;
use crate::maintain::index_terms::Indexer;

/// A stored record, expired or not.
#[derive(Debug)]
pub(crate) struct BeforeImage {
    pub(crate) version: Lsn,
    pub(crate) header: Header,
    bytes: Bytes,
    value: OnceCell<Value>,
    terms: OnceCell<Terms>,
}

impl BeforeImage {
    pub(crate) fn read(stored: Stored) -> Result<Self> {
        let (header, _) = record::decode(&stored.bytes).map_err(storage)?;
        let (version, bytes) = (stored.version, stored.bytes);
        let (value, terms) = (OnceCell::new(), OnceCell::new());
        Ok(Self { version, header, bytes, value, terms })
    }

    pub(crate) fn text(&self) -> Bytes {
        self.bytes.slice(record::BODY_AT..)
    }

    /// Bytes of its text.
    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(record::BODY_AT)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { etag: self.header.etag, ts: self.header.ts_s }
    }

    /// The item, parsed once.
    pub(crate) fn value(&self) -> Result<&Value> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = stored_value(&self.bytes.slice(record::BODY_AT..))?;
        Ok(self.value.get_or_init(|| value))
    }

    /// Its index terms, found once.
    pub(crate) fn terms(&self, indexer: &Indexer<'_>) -> Result<&Terms> {
        if let Some(terms) = self.terms.get() {
            return Ok(terms);
        }
        let terms = indexer.terms(self.stamp(), || self.value())?;
        Ok(self.terms.get_or_init(|| terms))
    }
}

/// Parses what the server itself has written.
pub(crate) fn stored_value(text: &[u8]) -> Result<Value> {
    Value::parse(text).map_err(|e| Error::internal(format!("a stored item: {e}")))
}

/// What is to be written.
#[derive(Debug)]
pub(crate) struct AfterImage {
    /// As the client sent it; the system properties are in the text only.
    pub(crate) value: Value,
    pub(crate) text: Bytes,
    pub(crate) ttl: Option<i64>,
    pub(crate) row: Row,
    pub(crate) stamp: Stamp,
    pub(crate) terms: Terms,
    /// Whether no client wrote it: it follows from the change of another item.
    pub(crate) derived: bool,
}

/// An item as a write or a read finds it: in the store, or as the same transaction has written it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CurrentImage<'s> {
    Stored(&'s BeforeImage),
    Own(&'s AfterImage),
}

impl<'s> CurrentImage<'s> {
    pub(crate) fn stamp(self) -> Stamp {
        match self {
            Self::Stored(before) => before.stamp(),
            Self::Own(after) => after.stamp,
        }
    }

    pub(crate) fn row(self) -> Row {
        match self {
            Self::Stored(before) => before.header.row,
            Self::Own(after) => after.row,
        }
    }

    /// The time to live that it has itself.
    pub(crate) fn ttl(self) -> Option<i64> {
        match self {
            Self::Stored(before) => before.header.ttl_s,
            Self::Own(after) => after.ttl,
        }
    }

    /// Bytes of its text.
    pub(crate) fn size_bytes(self) -> usize {
        match self {
            Self::Stored(before) => before.size_bytes(),
            Self::Own(after) => after.text.len(),
        }
    }

    pub(crate) fn text(self) -> Bytes {
        match self {
            Self::Stored(before) => before.text(),
            Self::Own(after) => after.text.clone(),
        }
    }

    pub(crate) fn value(self) -> Result<&'s Value> {
        match self {
            Self::Stored(before) => before.value(),
            Self::Own(after) => Ok(&after.value),
        }
    }

    pub(crate) fn terms(self, indexer: &Indexer<'_>) -> Result<&'s Terms> {
        match self {
            Self::Stored(before) => before.terms(indexer),
            Self::Own(after) => Ok(&after.terms),
        }
    }
}
