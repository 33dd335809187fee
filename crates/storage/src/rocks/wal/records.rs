//! Reads `RocksDB`'s log format: the write-ahead log and the MANIFEST are written in it.
//!
//! ```text
//! file      blocks of 32 KiB; the end of a block that has no room for a header is zero
//! fragment  crc u32 | length u16 | type u8 |               payload      types 1 to 4
//!           crc u32 | length u16 | type u8 | log number u32 | payload   types 5 to 8: recycled files
//! record    one full fragment, or a first, any number of middle and a last one
//! batch     sequence u64 | count u32 | …                   the payload of a record of the log
//! ```
//!
//! Integers are little-endian. The checksum is CRC-32C over all behind the length, rotated and shifted
//! by a constant. A recycled file holds fragments of its earlier use behind its end; they carry
//! the number of the log that the file was then.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

pub(super) const BLOCK_BYTES: usize = 32 * 1024;
const HEADER_BYTES: usize = 7;
const RECYCLED_HEADER_BYTES: usize = 11;
/// Read ahead, so that a log of many megabytes takes few calls.
const BUFFER_BYTES: usize = 1024 * 1024;
const MASK_DELTA: u32 = 0xa282_ead8;

/// Which part of a record a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Full,
    First,
    Middle,
    Last,
    /// Something about the file, of which there may be several kinds.
    Note,
}

/// A fragment whose checksum is right.
struct Fragment {
    kind: Kind,
    /// Within the block.
    from: usize,
    to: usize,
    /// It was written when the file was another log.
    is_old: bool,
    /// It carries the number of its log.
    is_recyclable: bool,
}

/// Reads the fragment at a place of a block; `None` if there is none.
fn fragment(block: &[u8], at: usize, log: u32) -> Option<Fragment> {
    let header = block.get(at..)?.first_chunk::<HEADER_BYTES>()?;
    let [c0, c1, c2, c3, l0, l1, kind] = *header;
    let is_recyclable = matches!(kind, 5..=8 | 11 | 131);
    let kind = match kind {
        1 | 5 => Kind::Full,
        2 | 6 => Kind::First,
        3 | 7 => Kind::Middle,
        4 | 8 => Kind::Last,
        9 | 10 | 11 | 130 | 131 => Kind::Note,
        _ => return None,
    };
    let header_bytes = if is_recyclable { RECYCLED_HEADER_BYTES } else { HEADER_BYTES };
    let from = at + header_bytes;
    let to = from + usize::from(u16::from_le_bytes([l0, l1]));
    let summed = block.get(at + HEADER_BYTES - 1..to)?;
    let stored = u32::from_le_bytes([c0, c1, c2, c3]).wrapping_sub(MASK_DELTA).rotate_left(15);
    if crc32c::crc32c(summed) != stored {
        return None;
    }
    let number =
        block.get(at + HEADER_BYTES..)?.first_chunk::<4>().copied().map(u32::from_le_bytes);
    let is_old = is_recyclable && number != Some(log);
    Some(Fragment { kind, from, to, is_old, is_recyclable })
}

/// A whole record: where it begins in its file, and what it holds.
pub(super) struct Record<'r> {
    pub(super) at: u64,
    pub(super) payload: &'r [u8],
}

impl Record<'_> {
    /// The sequence number of a batch and how many entries it has.
    pub(super) fn batch(&self) -> Option<(u64, u32)> {
        let (sequence, rest) = self.payload.split_first_chunk::<8>()?;
        let count = rest.first_chunk::<4>()?;
        Some((u64::from_le_bytes(*sequence), u32::from_le_bytes(*count)))
    }
}

/// How a record came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Everything before it in the file is whole.
    InOrder,
    /// Something before it does not read.
    BehindDamage,
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// Offset of the first bytes that are not a whole record; `None` if all are.
    pub(super) damage: Option<u64>,
    /// The length of the file.
    pub(super) file_bytes: u64,
    /// Whether the file is in the format of recycled files, so that anything may stand behind its
    /// last record.
    pub(super) is_recyclable: bool,
}

impl Ending {
    /// Where the records end that can be replayed.
    pub(super) fn content_bytes(&self) -> u64 {
        self.damage.unwrap_or(self.file_bytes)
    }
}

/// Reads all whole records of a file in their order; `each` gets every one.
pub(super) fn read(
    path: &Path,
    log: u32,
    mut each: impl FnMut(Place, Record<'_>),
) -> io::Result<Ending> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let mut scan =
        Scan { log, damage: None, open: None, payload: Vec::new(), is_recyclable: false };
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    loop {
        let length = fill(&mut input, &mut block)?;
        let Some(content) = block.get(..length).filter(|content| !content.is_empty()) else {
            break;
        };
        scan.block(at, content, &mut each);
        at += content.len() as u64;
        if length < BLOCK_BYTES {
            break;
        }
    }
    scan.give_up();
    let Scan { damage, is_recyclable, .. } = scan;
    Ok(Ending { damage, file_bytes: at, is_recyclable })
}

/// Reads until the buffer is full or the file ends.
fn fill(input: &mut impl io::Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

struct Scan {
    log: u32,
    damage: Option<u64>,
    /// Where the record begins whose last fragment is still to come.
    open: Option<u64>,
    payload: Vec<u8>,
    is_recyclable: bool,
}

impl Scan {
    fn block(&mut self, base: u64, block: &[u8], each: &mut impl FnMut(Place, Record<'_>)) {
        let mut at = 0;
        while block.len() - at >= HEADER_BYTES {
            let here = base + at as u64;
            match fragment(block, at, self.log) {
                Some(found) if !found.is_old => {
                    self.is_recyclable |= found.is_recyclable;
                    let payload = block.get(found.from..found.to).unwrap_or_default();
                    self.take(here, found.kind, payload, each);
                    at = found.to;
                }
                Some(old) => {
                    self.is_recyclable = true;
                    self.damaged(here);
                    at = old.to;
                }
                // The header of a recycled file's fragment may not fit where a plain one would.
                None if is_filler(block, at) => break,
                None => {
                    self.damaged(here);
                    // As behind the records of a log that was preallocated.
                    if block.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0)) {
                        return;
                    }
                    // The length may be what is wrong, so the next fragment may be anywhere.
                    let later = at + 1..block.len();
                    match later.into_iter().find(|at| fragment(block, *at, self.log).is_some()) {
                        Some(next) => at = next,
                        None => return,
                    }
                }
            }
        }
        let is_cut = block.len() < BLOCK_BYTES && at < block.len();
        if is_cut && !is_filler(block, at) {
            self.damaged(base + at as u64);
        }
    }

    fn take(
        &mut self,
        at: u64,
        kind: Kind,
        payload: &[u8],
        each: &mut impl FnMut(Place, Record<'_>),
    ) {
        match kind {
            Kind::Note => {}
            Kind::Full => {
                self.give_up();
                each(self.place(), Record { at, payload });
            }
            Kind::First => {
                self.give_up();
                self.open = Some(at);
                self.payload.extend_from_slice(payload);
            }
            Kind::Middle | Kind::Last => {
                let Some(from) = self.open else { return self.damaged(at) };
                self.payload.extend_from_slice(payload);
                if kind == Kind::Last {
                    each(self.place(), Record { at: from, payload: &self.payload });
                    self.open = None;
                    self.payload.clear();
                }
            }
        }
    }

    fn place(&self) -> Place {
        if self.damage.is_some() { Place::BehindDamage } else { Place::InOrder }
    }

    fn damaged(&mut self, at: u64) {
        self.give_up();
        self.damage = self.damage.or(Some(at));
    }

    /// The record that was begun has no end.
    fn give_up(&mut self) {
        if let Some(from) = self.open.take() {
            self.damage = self.damage.or(Some(from));
        }
        self.payload.clear();
    }
}

/// Whether nothing but the filler at the end of a block is left.
fn is_filler(block: &[u8], at: usize) -> bool {
    let rest = block.get(at..).unwrap_or_default();
    block.len() == BLOCK_BYTES
        && rest.len() < RECYCLED_HEADER_BYTES
        && rest.iter().all(|byte| *byte == 0)
}
