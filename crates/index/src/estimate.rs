//! How many entries a part of the index has, roughly: exact where there are few, else from how
//! densely they lie at some places. Rows are given out one after the other, and values of one path
//! are mostly spread without great holes; where many items share a value, its rows are the measure.

use orrery_storage::encode::encoded;
use orrery_storage::key::{self, Bounds};
use orrery_storage::term::{TermValue, decode_term};
use orrery_storage::{Entry, Scan, Snapshot, Space, StorageError};
use orrery_types::{Number, Value};

type Result<T> = std::result::Result<T, StorageError>;

/// Entries read at once.
const SAMPLE: usize = 32;
/// Places in a list of rows.
const PLACES: u32 = 3;
/// Values looked at from each of two places of a range.
const HOPS: usize = 6;
/// Tag and number in front of a code.
const HEAD_BYTES: usize = 5;

fn scan(
    snapshot: &dyn Snapshot,
    space: Space,
    bounds: &Bounds,
    reverse: bool,
    max_rows: usize,
) -> Result<Vec<Entry>> {
    snapshot.scan(&Scan {
        space,
        from: &bounds.from,
        to: &bounds.to,
        reverse,
        max_rows,
        max_bytes: usize::MAX,
        keys_only: true,
    })
}

/// Entries that consist of a prefix and a row.
pub fn estimate_rows(snapshot: &dyn Snapshot, space: Space, prefix: &[u8]) -> Result<u64> {
    let all = Bounds::prefix(prefix.to_vec());
    let first = scan(snapshot, space, &all, false, SAMPLE)?;
    if first.len() < SAMPLE {
        return Ok(first.len() as u64);
    }
    let last = scan(snapshot, space, &all, true, 1)?;
    let row = |entry: Option<&Entry>| {
        entry.and_then(|e| e.key.last_chunk::<8>()).map_or(0, |row| u64::from_be_bytes(*row))
    };
    let (start, end) = (row(first.first()), row(last.first()));
    let mut density = 0.0;
    for number in 0..PLACES {
        let at = start + (end - start) / u64::from(PLACES) * u64::from(number);
        let mut from = prefix.to_vec();
        from.extend(at.to_be_bytes());
        let sample = scan(snapshot, space, &Bounds { from, to: all.to.clone() }, false, SAMPLE)?;
        let width = row(sample.last()).saturating_sub(at) + 1;
        density += float(sample.len() as u64) / float(width);
    }
    Ok(whole(density / f64::from(PLACES) * float(end - start + 1)).max(SAMPLE as u64))
}

/// Entries in a range of one path's terms or of one composite index.
pub fn estimate_values(snapshot: &dyn Snapshot, bounds: &Bounds) -> Result<u64> {
    let first = scan(snapshot, Space::Index, bounds, false, SAMPLE)?;
    if first.len() < SAMPLE {
        return Ok(first.len() as u64);
    }
    let last = scan(snapshot, Space::Index, bounds, true, 1)?;
    let (Some(low), Some(high)) = (first.first(), last.first()) else { return Ok(0) };
    let ruler = Ruler::between(code(&low.key), code(&high.key));
    let (start, end) = (ruler.place(code(&low.key)), ruler.place(code(&high.key)));
    let (counted, reached) = hop(snapshot, bounds, &ruler)?;
    if reached >= end || end <= start {
        return Ok(counted);
    }
    let mut density = float(counted) / (reached - start).max(f64::MIN_POSITIVE);
    let middle = f64::midpoint(start, end);
    if middle > reached {
        let mut from = low.key.get(..HEAD_BYTES).unwrap_or_default().to_vec();
        from.extend(ruler.code_at(middle));
        let rest = Bounds { from, to: bounds.to.clone() };
        let (counted, reached) = hop(snapshot, &rest, &ruler)?;
        let width = (reached - middle).max(f64::MIN_POSITIVE);
        density = f64::midpoint(density, float(counted) / width);
    }
    Ok(whole(density * (end - start)).max(counted))
}

/// Counts from one place on, value by value where items share them; also says how far it came.
fn hop(snapshot: &dyn Snapshot, bounds: &Bounds, ruler: &Ruler) -> Result<(u64, f64)> {
    let mut rest = bounds.clone();
    let mut counted = 0;
    let mut reached = f64::NEG_INFINITY;
    for _ in 0..HOPS {
        let sample = scan(snapshot, Space::Index, &rest, false, SAMPLE)?;
        let (Some(low), Some(high)) = (sample.first(), sample.last()) else {
            return Ok((counted, f64::INFINITY));
        };
        reached = ruler.place(code(&high.key));
        let prefix = high.key.get(..high.key.len().saturating_sub(8)).unwrap_or_default();
        if sample.len() == SAMPLE && code(&low.key) == code(&high.key) {
            counted += estimate_rows(snapshot, Space::Index, prefix)?;
            rest.from = key::prefix_end(prefix);
        } else {
            counted += sample.len() as u64;
            rest.from = key::after(&high.key);
        }
        if sample.len() < SAMPLE {
            return Ok((counted, f64::INFINITY));
        }
    }
    Ok((counted, reached))
}

/// The code in a key, without head and row.
fn code(key: &[u8]) -> &[u8] {
    key.get(HEAD_BYTES..key.len().saturating_sub(8)).unwrap_or_default()
}

/// Codes as numbers: by the numbers they stand for, or by the bytes after those they share.
enum Ruler {
    Numbers,
    Bytes(Vec<u8>),
}

impl Ruler {
    fn between(low: &[u8], high: &[u8]) -> Self {
        if number(low).is_some() && number(high).is_some() {
            return Self::Numbers;
        }
        let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
        Self::Bytes(low.get(..shared).unwrap_or_default().to_vec())
    }

    fn place(&self, code: &[u8]) -> f64 {
        match self {
            Self::Numbers => number(code).unwrap_or(f64::INFINITY),
            Self::Bytes(shared) => {
                let mut bytes = [0; 8];
                for (to, from) in bytes.iter_mut().zip(code.iter().skip(shared.len())) {
                    *to = *from;
                }
                float(u64::from_be_bytes(bytes))
            }
        }
    }

    fn code_at(&self, place: f64) -> Vec<u8> {
        match self {
            Self::Numbers => encoded(&Value::from(place)),
            Self::Bytes(shared) => [&shared[..], &whole(place).to_be_bytes()].concat(),
        }
    }
}

fn number(code: &[u8]) -> Option<f64> {
    match decode_term(code) {
        Ok((TermValue::Whole(Value::Number(n)), _)) => Some(Number::as_f64(n)),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn float(n: u64) -> f64 {
    n as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate")]
fn whole(n: f64) -> u64 {
    n as u64
}

#[cfg(test)]
mod tests {
    use orrery_storage::key::{self, PathId, Row};
    use orrery_storage::{Commit, MemoryStore, Part, Put, ReadAt, Store};
    use orrery_types::{Epoch, ShardId, Value};

    use super::*;

    #[test]
    fn few_entries_are_counted_and_many_are_guessed_within_reason() {
        let store = MemoryStore::new();
        store.create_shard(ShardId(1), Epoch(1)).unwrap();
        let mut part = Part::new(ShardId(1), Epoch(1));
        for row in 0..20_000_u64 {
            let n = i64::try_from(row).unwrap();
            let mut put = |path, value: Value| {
                let key = key::term(PathId(path), &value, Row(row));
                part.puts.push(Put { space: Space::Index, key, value: vec![] });
            };
            put(1, Value::from(n % 7));
            put(3, Value::from(n));
            put(4, Value::from(format!("{:08}", n * 17)));
            if row % 1000 == 0 {
                put(2, Value::from(n));
            }
        }
        store.commit(Commit { parts: vec![part] }).unwrap();
        let snapshot = store.snapshot(ShardId(1), ReadAt::Latest).unwrap();
        let check = |bounds: Bounds, least: u64, most: u64| {
            let got = estimate_values(&*snapshot, &bounds).unwrap();
            assert!((least..=most).contains(&got), "{got} is not in {least}..={most}");
        };
        check(key::terms_of(PathId(2)), 20, 20);
        check(key::terms_of(PathId(9)), 0, 0);
        check(key::terms_of(PathId(1)), 10_000, 40_000);
        check(key::terms_of(PathId(3)), 10_000, 40_000);
        check(key::terms_of(PathId(4)), 10_000, u64::MAX);
        let prefix = key::term_prefix(PathId(1), &Value::from(3));
        let got = estimate_rows(&*snapshot, Space::Index, &prefix).unwrap();
        assert!((2_500..=3_500).contains(&got), "{got}");
    }
}
