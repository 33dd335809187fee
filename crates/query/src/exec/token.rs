//! Continuation tokens: where a query stopped, as a short text that a client carries. A token
//! bears a version, the fingerprint of the query it belongs to and a checksum, so that one that
//! was edited or belongs to another query is refused and not misread. A place in the order of
//! ORDER BY means the same whatever the filter is, so the fingerprint of such a token leaves the
//! filter out: clients that merge ranges resume with a narrower one. It also records the order in
//! which the items came: the next page must read them in the same order, even if the index has
//! changed.
//!
//! ```text
//! version(1) kind(1) order(1) fingerprint(8) seen(8) rows(8) chosen order, place checksum(8)
//! ```
//! as base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_index::IndexStep;
use orrery_types::{Number, Value};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::QueryError;
use crate::plan::access::SourceOrder;
use crate::plan::condition::ItemPath;
use crate::query::BoundQuery;
use crate::sort_value::SortValue;

const VERSION: u8 = 3;

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
        keys: Vec<SortValue>,
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

/// The kinds of places.
const STREAM: u8 = 1;
const ORDERED: u8 = 2;
const WHOLE: u8 = 3;

/// What tells a query from others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fingerprints {
    /// Its text and its parameters.
    pub(crate) whole: u64,
    /// What a place in its order depends on; all of it, where it has no ORDER BY on paths.
    pub(crate) order: u64,
}

impl Fingerprints {
    fn of_kind(self, kind: u8) -> u64 {
        if kind == ORDERED { self.order } else { self.whole }
    }
}

impl Resume {
    /// Reads a token of this query.
    pub fn parse(text: &str, query: &BoundQuery) -> Result<Self, QueryError> {
        Self::read(text, query.fingerprints())
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

    pub(super) fn to_text(&self, fingerprints: Fingerprints) -> String {
        let (kind, order, seen, rows) = match &self.continuation {
            Continuation::Stream { order, rows, seen, .. } => (STREAM, *order, *seen, *rows),
            Continuation::Ordered { rows, seen, .. } => {
                (ORDERED, SourceOrder::Values, *seen, *rows)
            }
            Continuation::Whole { order, rows } => (WHOLE, *order, 0, *rows),
        };
        let mut bytes = vec![VERSION, kind, order_code(order)];
        bytes.extend(fingerprints.of_kind(kind).to_le_bytes());
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

    fn read(text: &str, fingerprints: Fingerprints) -> Result<Self, QueryError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| QueryError::Token)?;
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(QueryError::Token)?;
        if u64::from_le_bytes(*checksum) != xxh3_64(content) {
            return Err(QueryError::Token);
        }
        Self::parts(content, fingerprints).ok_or(QueryError::Token)
    }

    fn parts(content: &[u8], fingerprints: Fingerprints) -> Option<Self> {
        let mut rest = content;
        let [version, kind, order] = take::<3>(&mut rest)?;
        let own = u64::from_le_bytes(take(&mut rest)?);
        if version != VERSION || own != fingerprints.of_kind(kind) {
            return None;
        }
        let order = order_of(order)?;
        let seen = u64::from_le_bytes(take(&mut rest)?);
        let rows = u64::from_le_bytes(take(&mut rest)?);
        let chosen = Some(read_path(&mut rest)?).filter(|path| !path.is_empty());
        let continuation = match kind {
            STREAM => Continuation::Stream { order, position: rest.into(), rows, seen },
            ORDERED => {
                let row = u64::from_le_bytes(take(&mut rest)?);
                Continuation::Ordered { keys: read_keys(rest)?, row, rows, seen }
            }
            WHOLE => Continuation::Whole { order, rows },
            _ => return None,
        };
        Some(Self { continuation, chosen })
    }
}

/// Whether a token can name the place of an item by its keys.
pub(super) fn is_short(keys: &[SortValue], bytes_max: usize) -> bool {
    let is_finite = |key: &SortValue| match key {
        SortValue::Scalar(value) => value.as_number().is_none_or(Number::is_finite),
        SortValue::Array(_) | SortValue::Object(_) => true,
    };
    // Bounded before it is written out.
    let size: usize = keys.iter().map(SortValue::size_bytes).sum();
    let mut bytes = Vec::new();
    if size < 2 * bytes_max {
        write_keys(keys, &mut bytes);
    }
    !bytes.is_empty() && bytes.len() < bytes_max && keys.iter().all(is_finite)
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

/// Each key behind its length: nothing for undefined, JSON, or a letter and a hash.
fn write_keys(keys: &[SortValue], out: &mut Vec<u8>) {
    let hashed = |kind: u8, hash: &[u8; 16]| [&[kind], &hash[..]].concat();
    for key in keys {
        let text = match key {
            SortValue::Scalar(Value::Undefined) => Vec::new(),
            SortValue::Scalar(value) => value.to_json().into_bytes(),
            SortValue::Array(hash) => hashed(b'A', hash),
            SortValue::Object(hash) => hashed(b'O', hash),
        };
        write_text(&text, out);
    }
}

fn read_keys(bytes: &[u8]) -> Option<Vec<SortValue>> {
    let mut rest = bytes;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        keys.push(match read_text(&mut rest)? {
            [] => SortValue::Scalar(Value::Undefined),
            [b'A', hash @ ..] => SortValue::Array(hash.try_into().ok()?),
            [b'O', hash @ ..] => SortValue::Object(hash.try_into().ok()?),
            text => SortValue::Scalar(Value::parse(text).ok()?),
        });
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
        let values = [b"[1]".as_slice(), b"{}", b"1.5", b"\"A\"", b"null"];
        let mut keys: Vec<SortValue> =
            values.iter().map(|text| SortValue::of(&Value::parse(text).unwrap())).collect();
        keys.push(SortValue::of(&Value::Undefined));
        let ordered = Continuation::Ordered { keys, row: 5, rows: ALL_ROWS, seen: 1 };
        let whole = Continuation::Whole { order: SourceOrder::Values, rows: 5 };
        let path: ItemPath = ["a", "b"].map(|n| IndexStep::Property(n.into())).into();
        let tokens =
            [(stream, None), (ordered.clone(), Some(path)), (ordered, None), (whole, None)];
        for (continuation, chosen) in tokens {
            let token = Resume { continuation, chosen };
            let own = Fingerprints { whole: 42, order: 7 };
            let text = token.to_text(own);
            assert_eq!(Resume::read(&text, own).unwrap(), token);
            // A place in an order is bound to the order, the others to the whole query.
            let is_ordered = matches!(token.continuation, Continuation::Ordered { .. });
            for (other, taken) in [((43, 7), is_ordered), ((42, 8), !is_ordered), ((43, 8), false)]
            {
                let other = Fingerprints { whole: other.0, order: other.1 };
                assert_eq!(Resume::read(&text, other).is_ok(), taken);
            }
            for at in 0..text.len() {
                let mut edited = text.clone().into_bytes();
                edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
                let edited = String::from_utf8(edited).unwrap();
                assert_eq!(Resume::read(&edited, own), Err(QueryError::Token), "{at}");
            }
        }
        for text in ["", "x", "é", "AAAA", &"A".repeat(200)] {
            assert_eq!(Resume::read(text, Fingerprints::default()), Err(QueryError::Token));
        }
    }
}
