//! The stream around the rows: a segment first, then records with their checksums.

use super::VERSION;
use super::cursor::Cursor;
use super::error::{HybridRowError, HybridRowFault};

const SEGMENT: u32 = 2_147_473_648;
const RECORD: u32 = 2_147_473_649;

/// Version, schema, presence bits and length: what a segment has at least.
const SEGMENT_BYTES: usize = 10;

/// Reads every row of a stream; `read` gets the row's bytes and their offset.
pub(super) fn rows<T>(
    stream: &[u8],
    read: impl Fn(&[u8], usize) -> Result<T, HybridRowError>,
) -> Result<Vec<T>, HybridRowError> {
    let mut cursor = Cursor::new(stream, 0);
    let mut rows = Vec::new();
    skip_segment(&mut cursor)?;
    while !cursor.is_at_end() {
        let at = cursor.at();
        match cursor.row_head()? {
            RECORD => {
                let bytes = record(&mut cursor)?;
                rows.push(read(bytes, cursor.at() - bytes.len())?);
            }
            SEGMENT => skip_segment_rest(&mut cursor, at)?,
            other => return Err(HybridRowFault::Schema(other).at(at)),
        }
    }
    Ok(rows)
}

fn skip_segment(cursor: &mut Cursor<'_>) -> Result<(), HybridRowError> {
    let at = cursor.at();
    match cursor.row_head()? {
        SEGMENT => skip_segment_rest(cursor, at),
        other => Err(HybridRowFault::Schema(other).at(at)),
    }
}

/// A segment says how long it is; what it may say besides is for people.
fn skip_segment_rest(cursor: &mut Cursor<'_>, at: usize) -> Result<(), HybridRowError> {
    cursor.byte()?;
    let length = i32::from_le_bytes(cursor.array()?);
    let rest = usize::try_from(length).ok().and_then(|l| l.checked_sub(SEGMENT_BYTES));
    let rest = rest.ok_or_else(|| HybridRowFault::Length(length.into()).at(at))?;
    cursor.take(rest).map(|_| ())
}

fn record<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], HybridRowError> {
    let at = cursor.at();
    let length = i32::from_le_bytes(cursor.array()?);
    let told = u32::from_le_bytes(cursor.array()?);
    let length =
        usize::try_from(length).map_err(|_| HybridRowFault::Length(length.into()).at(at))?;
    let bytes = cursor.take(length)?;
    let found = crc32fast::hash(bytes);
    if told == found { Ok(bytes) } else { Err(HybridRowFault::Checksum { told, found }.at(at)) }
}

/// Writes a stream with a row for each value.
pub(super) fn stream<T>(values: &[T], write: impl Fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    head(SEGMENT, &mut out);
    out.push(1);
    out.extend(length(SEGMENT_BYTES));
    let mut row = Vec::new();
    for value in values {
        row.clear();
        write(value, &mut row);
        head(RECORD, &mut out);
        out.extend(length(row.len()));
        out.extend(crc32fast::hash(&row).to_le_bytes());
        out.extend_from_slice(&row);
    }
    out
}

fn head(schema: u32, out: &mut Vec<u8>) {
    out.push(VERSION);
    out.extend(schema.to_le_bytes());
}

fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).expect("bodies are bounded far below 2 GB").to_le_bytes()
}
