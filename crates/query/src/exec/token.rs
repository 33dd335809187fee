//! Continuation tokens: where a query stopped, as a short text that a client carries. A token
//! bears a version, the fingerprint of the query it belongs to and a checksum, so that one that
//! was edited or belongs to another query is refused and not misread. It also says in which order
//! the items came: whoever goes on must bring them in the same one, whatever the index looks like
//! by then.
//!
//! ```text
//! version(1) kind(1) order(1) fingerprint(8) seen(8) rows(8) chosen order, place checksum(8)
//! ```
//! as base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_index::IndexStep;
use orrery_types::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::QueryError;
use crate::plan::access::SourceOrder;
use crate::plan::condition::ItemPath;
use crate::query::BoundQuery;

const VERSION: u8 = 2;
/// Bytes of an ordered place beyond which a token counts rows instead.
const PLACE_BYTES_MAX: usize = 600;

/// A place in a query's result, read from a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    pub(super) continuation: Continuation,
    pub(super) chosen: Option<ItemPath>,
}

/// Where to go on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Continuation {
    /// A query that streams, over items in the order of keys or rows.
    Stream {
        /// Which of the two.
        order: SourceOrder,
        /// The item to go on with.
        position: Box<[u8]>,
        /// How many rows of that item are done; all of them at [`ALL_ROWS`].
        rows: u64,
        /// Rows seen in all, those before OFFSET included.
        seen: u64,
    },
    /// A query with an order.
    Ordered {
        /// The keys of the item to go on with.
        keys: Vec<Value>,
        /// Its row.
        row: u64,
        /// As above.
        rows: u64,
        /// As above.
        seen: u64,
    },
    /// A query whose result is computed whole: how many rows are done.
    Whole {
        /// The order of the items, which decides on the order of groups.
        order: SourceOrder,
        /// Rows done.
        rows: u64,
    },
}

/// The item is done.
pub(super) const ALL_ROWS: u64 = u64::MAX;

impl Resume {
    /// Reads a token of this query.
    pub fn parse(text: &str, query: &BoundQuery) -> Result<Self, QueryError> {
        Self::read(text, query.fingerprint())
    }

    /// The order in which the items must come; `None` if any will do.
    pub fn source_order(&self) -> Option<SourceOrder> {
        match &self.continuation {
            Continuation::Stream { order, .. } | Continuation::Whole { order, .. } => {
                Some(*order).filter(|order| *order != SourceOrder::Values)
            }
            Continuation::Ordered { .. } => None,
        }
    }

    /// The path by which a query without ORDER BY had been ordered.
    pub fn chosen_order(&self) -> Option<ItemPath> {
        self.chosen.clone()
    }

    /// Whether rows are counted in the order of their values.
    pub(crate) fn counts_by_value(&self) -> bool {
        matches!(self.continuation, Continuation::Whole { order: SourceOrder::Values, .. })
    }

    pub(super) fn new(continuation: Continuation, chosen: Option<ItemPath>) -> Self {
        Self { continuation, chosen }
    }

    pub(super) fn to_text(&self, fingerprint: u64) -> String {
        let (kind, order, seen, rows) = match &self.continuation {
            Continuation::Stream { order, rows, seen, .. } => (1, *order, *seen, *rows),
            Continuation::Ordered { rows, seen, .. } => (2, SourceOrder::Values, *seen, *rows),
            Continuation::Whole { order, rows } => (3, *order, 0, *rows),
        };
        let mut bytes = vec![VERSION, kind, order_code(order)];
        bytes.extend(fingerprint.to_le_bytes());
        bytes.extend(seen.to_le_bytes());
        bytes.extend(rows.to_le_bytes());
        write_path(self.chosen.as_ref(), &mut bytes);
        match &self.continuation {
            Continuation::Stream { position, .. } => bytes.extend_from_slice(position),
            Continuation::Ordered { keys, row, .. } => {
                bytes.extend(row.to_le_bytes());
                write_keys(keys, &mut bytes);
            }
            Continuation::Whole { .. } => {}
        }
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn read(text: &str, fingerprint: u64) -> Result<Self, QueryError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| QueryError::Token)?;
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(QueryError::Token)?;
        if u64::from_le_bytes(*checksum) != xxh3_64(content) {
            return Err(QueryError::Token);
        }
        Self::parts(content, fingerprint).ok_or(QueryError::Token)
    }

    fn parts(content: &[u8], fingerprint: u64) -> Option<Self> {
        let mut rest = content;
        let [version, kind, order] = take::<3>(&mut rest)?;
        let own = u64::from_le_bytes(take(&mut rest)?);
        if version != VERSION || own != fingerprint {
            return None;
        }
        let order = order_of(order)?;
        let seen = u64::from_le_bytes(take(&mut rest)?);
        let rows = u64::from_le_bytes(take(&mut rest)?);
        let chosen = Some(read_path(&mut rest)?).filter(|path| !path.is_empty());
        let continuation = match kind {
            1 => Continuation::Stream { order, position: rest.into(), rows, seen },
            2 => {
                let row = u64::from_le_bytes(take(&mut rest)?);
                Continuation::Ordered { keys: read_keys(rest)?, row, rows, seen }
            }
            3 => Continuation::Whole { order, rows },
            _ => return None,
        };
        Some(Self { continuation, chosen })
    }
}

/// Whether a token can name the place of an item by its keys.
pub(super) fn is_short(keys: &[Value]) -> bool {
    let finite = |v: &Value| v.as_number().is_none_or(orrery_types::Number::is_finite);
    let mut bytes = Vec::new();
    let light = keys.iter().all(|v| v.as_str().is_none_or(|s| s.len() < PLACE_BYTES_MAX));
    if light {
        write_keys(keys, &mut bytes);
    }
    light && bytes.len() < PLACE_BYTES_MAX && keys.iter().all(finite)
}

fn order_code(order: SourceOrder) -> u8 {
    match order {
        SourceOrder::Keys => 0,
        SourceOrder::Rows => 1,
        SourceOrder::Values => 2,
    }
}

fn order_of(code: u8) -> Option<SourceOrder> {
    [SourceOrder::Keys, SourceOrder::Rows, SourceOrder::Values].get(usize::from(code)).copied()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(text.len()).expect("a text of a token is short");
    out.extend(length.to_le_bytes());
    out.extend_from_slice(text);
}

fn read_text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(u32::from_le_bytes(take(rest)?)).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(text)
}

/// The names of a path; none at all where no order was chosen.
fn write_path(path: Option<&ItemPath>, out: &mut Vec<u8>) {
    let names: Vec<&str> = path
        .iter()
        .flat_map(|path| path.iter())
        .filter_map(|step| match step {
            IndexStep::Property(name) => Some(&**name),
            IndexStep::Elements | IndexStep::Tuple(_) => None,
        })
        .collect();
    out.push(u8::try_from(names.len()).unwrap_or(u8::MAX));
    names.iter().take(usize::from(u8::MAX)).for_each(|name| write_text(name.as_bytes(), out));
}

fn read_path(rest: &mut &[u8]) -> Option<ItemPath> {
    let [count] = take::<1>(rest)?;
    let mut path = Vec::new();
    for _ in 0..count {
        let name = std::str::from_utf8(read_text(rest)?).ok()?;
        path.push(IndexStep::Property(name.into()));
    }
    Some(path.into())
}

fn write_keys(keys: &[Value], out: &mut Vec<u8>) {
    for key in keys {
        let text = if key.is_undefined() { String::new() } else { key.to_json() };
        write_text(text.as_bytes(), out);
    }
}

fn read_keys(bytes: &[u8]) -> Option<Vec<Value>> {
    let mut rest = bytes;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let text = read_text(&mut rest)?;
        keys.push(if text.is_empty() { Value::Undefined } else { Value::parse(text).ok()? });
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_forgeries_do_not() {
        let order = SourceOrder::Rows;
        let stream = Continuation::Stream { order, position: Box::new([1, 2]), rows: 7, seen: 9 };
        let keys = vec![Value::Undefined, 1.5.into(), "é".into(), Value::parse(b"[1]").unwrap()];
        let ordered = Continuation::Ordered { keys, row: 5, rows: ALL_ROWS, seen: 1 };
        let whole = Continuation::Whole { order: SourceOrder::Values, rows: 5 };
        let path: ItemPath = ["a", "b"].map(|n| IndexStep::Property(n.into())).into();
        let tokens =
            [(stream, None), (ordered.clone(), Some(path)), (ordered, None), (whole, None)];
        for (continuation, chosen) in tokens {
            let token = Resume { continuation, chosen };
            let text = token.to_text(42);
            assert_eq!(Resume::read(&text, 42).unwrap(), token);
            assert_eq!(Resume::read(&text, 43), Err(QueryError::Token));
            for at in 0..text.len() {
                let mut edited = text.clone().into_bytes();
                edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
                let edited = String::from_utf8(edited).unwrap();
                assert_eq!(Resume::read(&edited, 42), Err(QueryError::Token), "{at}");
            }
        }
        for text in ["", "x", "é", "AAAA", &"A".repeat(200)] {
            assert_eq!(Resume::read(text, 42), Err(QueryError::Token));
        }
    }
}
