//! What a script asks for, done in the transaction of its call. A script sees one logical partition,
//! its own writes included, and nothing is kept unless all of it is.

use bytes::Bytes;
use orrery_script::{HostAnswer, HostOutcome, PageRequest, ScriptHost};
use orrery_types::ids::Address;
use orrery_types::{Result, Value};

use crate::Engine;
use crate::catalog::resource::Preconditions;
use crate::item::operation::ItemBody;
use crate::item::operation::ItemWrite;
use crate::item::read::{self as items, Written};
use crate::query::QueryRequest;
use crate::query::read_feed::PageSize;
use crate::transaction::Transaction;

/// A transaction as a script's host.
pub(crate) struct TransactionHost<'h, 't> {
    pub(crate) engine: &'h Engine,
    pub(crate) transaction: &'h mut Transaction<'t>,
}

impl TransactionHost<'_, '_> {
    /// The script runner has seen to it that the item is not too large.
    fn checked(&self, item: Value) -> Result<ItemBody> {
        ItemBody::check(self.transaction.container(), item)
    }

    fn write(&mut self, write: &ItemWrite) -> Result<HostAnswer> {
        Ok(wrote(&self.transaction.write(write)?))
    }
}

fn if_match(etag: Option<&str>) -> Preconditions {
    Preconditions { if_match: etag.map(Into::into), ..Preconditions::default() }
}

fn wrote(written: &Written) -> HostAnswer {
    let outcome = match written.outcome {
        items::Outcome::Created => HostOutcome::Created,
        items::Outcome::Replaced => HostOutcome::Replaced,
        items::Outcome::Deleted => HostOutcome::Deleted,
    };
    HostAnswer { outcome, body: written.body.to_vec(), continuation: None }
}

/// The texts of a page as one JSON array.
fn array<'t>(texts: impl Iterator<Item = &'t [u8]>, continuation: Option<String>) -> HostAnswer {
    let mut body = vec![b'['];
    for (i, text) in texts.enumerate() {
        if i > 0 {
            body.push(b',');
        }
        body.extend_from_slice(text);
    }
    body.push(b']');
    HostAnswer { outcome: HostOutcome::Read, body, continuation }
}

impl ScriptHost for TransactionHost<'_, '_> {
    fn create(&mut self, item: Value) -> Result<HostAnswer> {
        let body = self.checked(item)?;
        self.write(&ItemWrite::Create(body))
    }

    fn upsert(&mut self, item: Value, etag: Option<&str>) -> Result<HostAnswer> {
        let body = self.checked(item)?;
        self.write(&ItemWrite::Upsert(body, if_match(etag)))
    }

    fn read(&mut self, item: &Address, if_none_match: Option<&str>) -> Result<HostAnswer> {
        let read = self.transaction.read(item)?;
        let if_none_match = if_none_match.map(Into::into);
        let conditions = Preconditions { if_none_match, ..Preconditions::default() };
        let outcome = if conditions.unmodified(read.stamp) {
            HostOutcome::NotModified
        } else {
            HostOutcome::Read
        };
        Ok(HostAnswer { outcome, body: read.body.to_vec(), continuation: None })
    }

    fn replace(&mut self, at: &Address, item: Value, etag: Option<&str>) -> Result<HostAnswer> {
        let body = self.checked(item)?;
        self.write(&ItemWrite::Replace(at.clone(), body, if_match(etag)))
    }

    fn delete(&mut self, item: &Address, etag: Option<&str>) -> Result<HostAnswer> {
        Ok(wrote(&self.transaction.delete(item, &if_match(etag))?))
    }

    fn list(&mut self, page: &PageRequest) -> Result<HostAnswer> {
        let size = PageSize::from_header(Some(page.size))?;
        let items = self.transaction.read_items(size, page.continuation.as_deref())?;
        Ok(array(items.items.iter().map(Bytes::as_ref), items.continuation))
    }

    fn query(&mut self, query: &Value, page: &PageRequest) -> Result<HostAnswer> {
        let request = QueryRequest::parse(query)?;
        let size = PageSize::from_header(Some(page.size))?;
        let rows = self.transaction.query(&request, size, page.continuation.as_deref())?;
        Ok(array(rows.rows.iter().map(String::as_bytes), rows.continuation))
    }

    /// A stamp is never given twice, and has the form of the ids that people expect.
    fn new_id(&mut self) -> String {
        self.engine.stamper.next().etag.to_string().trim_matches('"').to_owned()
    }
}
