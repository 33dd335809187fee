//! How far a reader of the change feed is: for every effective key of its scope, the last LSN it has
//! seen there. Nothing of a physical partition is in it, so a position stays valid when partitions
//! split or merge: children go on counting where their parents ended, and a merged partition holds
//! the entries of both parents, each measured against its own part of the position.
//!
//! ```text
//! state: key(min) | key(turn) | count | count × ( key(until) | lsn )
//! key:   length | bytes
//! ```
//! Numbers have seven bits a byte, the lowest first, and the top bit where more follows.
//!
//! The intervals follow one another without gap from `min`. `turn` is where the next page begins to
//! look, so that a busy partition does not keep a reader of several from the others.
//!
//! A reader of one partition gets the LSN alone, as from the service: some clients compute with it and
//! write one themselves. It holds for all keys of whatever part it is sent back for.

use orrery_types::{EffectiveKey, Error, KeyRange, Lsn, Result};

use super::digits;
use crate::query::continuation::{self, invalid};

/// A place in the feed of a range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedPosition {
    min: EffectiveKey,
    intervals: Vec<Interval>,
    pub(super) turn: EffectiveKey,
}

/// Digits of an LSN. What is sealed has more: nine bytes beside its state.
const LSN_DIGITS_MAX: usize = 20;

/// Keys up to `until`, exclusive, have been seen up to `lsn`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interval {
    until: EffectiveKey,
    lsn: Lsn,
}

impl FeedPosition {
    /// The same LSN for a whole range.
    pub(crate) fn at(range: &KeyRange, lsn: Lsn) -> Self {
        let intervals = vec![Interval { until: range.max.clone(), lsn }];
        Self { min: range.min.clone(), intervals, turn: EffectiveKey::min() }
    }

    /// Reads what a client sends back for a range: an LSN, or what [`FeedPosition::to_etag`] wrote; then
    /// `owner` names the feed that it must belong to.
    pub(super) fn parse(owner: &str, etag: &str, range: &KeyRange) -> Result<Self> {
        let text = etag.trim().trim_matches('"');
        let is_lsn = text.len() <= LSN_DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
        if is_lsn && let Ok(lsn) = text.parse() {
            return Ok(Self::at(range, Lsn(lsn)));
        }
        let sealed = digits::decode(text).ok_or_else(invalid)?;
        let state = continuation::unseal(owner, &sealed)?;
        Self::from_state(&state).ok_or_else(invalid)?.within(range)
    }

    /// As clients keep it: the LSN alone if that says it all, to a reader of one partition.
    pub(super) fn to_etag(&self, owner: &str, reads_one: bool) -> String {
        match &self.intervals[..] {
            [Interval { lsn, .. }] if reads_one => format!("\"{}\"", lsn.0),
            _ => format!("\"{}\"", digits::encode(&continuation::seal(owner, &self.to_state()))),
        }
    }

    pub(crate) fn to_state(&self) -> Vec<u8> {
        let mut state = Vec::with_capacity(64);
        write_key(&self.min, &mut state);
        write_key(&self.turn, &mut state);
        write_number(self.intervals.len() as u64, &mut state);
        for interval in &self.intervals {
            write_key(&interval.until, &mut state);
            write_number(interval.lsn.0, &mut state);
        }
        state
    }

    pub(crate) fn from_state(mut state: &[u8]) -> Option<Self> {
        let state = &mut state;
        let (min, turn) = (read_key(state)?, read_key(state)?);
        let mut intervals: Vec<Interval> = Vec::new();
        for _ in 0..read_number(state)? {
            let until = read_key(state)?;
            let lsn = Lsn(read_number(state)?);
            intervals.push(Interval { until, lsn });
        }
        (state.is_empty() && !intervals.is_empty()).then_some(Self { min, intervals, turn })
    }

    /// The part for a smaller range: what a reader holds after its range was split.
    pub(crate) fn within(&self, range: &KeyRange) -> Result<Self> {
        let max = self.intervals.last().map(|i| &i.until).ok_or_else(invalid)?;
        if range.min < self.min || range.max > *max {
            return Err(Error::invalid(
                "Invalid Continuation Token: the position was given for other keys than the \
                 request reads.",
            ));
        }
        let mut intervals: Vec<Interval> = Vec::new();
        for interval in self.intervals.iter().filter(|i| i.until > range.min) {
            let until = interval.until.clone().min(range.max.clone());
            intervals.push(Interval { until, lsn: interval.lsn });
            if interval.until >= range.max {
                break;
            }
        }
        Ok(Self { min: range.min.clone(), intervals, turn: self.turn.clone() })
    }

    /// This one, and that of the range behind it.
    pub(crate) fn joined(mut self, behind: Self) -> Self {
        self.intervals.extend(behind.intervals);
        self
    }

    /// The least and the greatest LSN that keys of a range have been seen up to.
    pub(crate) fn bounds(&self, range: &KeyRange) -> (Lsn, Lsn) {
        let mut from = &self.min;
        let mut bounds: Option<(Lsn, Lsn)> = None;
        for interval in &self.intervals {
            if *from < range.max && interval.until > range.min {
                let (least, most) = bounds.unwrap_or((interval.lsn, interval.lsn));
                bounds = Some((least.min(interval.lsn), most.max(interval.lsn)));
            }
            from = &interval.until;
        }
        bounds.unwrap_or_default()
    }

    /// The LSN up to which a key has been seen.
    pub(crate) fn lsn_at(&self, key: &EffectiveKey) -> Lsn {
        let interval = self.intervals.iter().find(|i| *key < i.until);
        interval.or(self.intervals.last()).map_or(Lsn(0), |i| i.lsn)
    }

    /// Moves a range forward: its keys have now been seen up to `lsn` at least.
    pub(crate) fn advance(&mut self, range: &KeyRange, lsn: Lsn) {
        let mut moved: Vec<Interval> = Vec::with_capacity(self.intervals.len() + 2);
        let mut push = |until: &EffectiveKey, lsn: Lsn, from: &EffectiveKey| {
            if from >= until {
                return;
            }
            match moved.last_mut().filter(|last| last.lsn == lsn) {
                Some(last) => last.until = until.clone(),
                None => moved.push(Interval { until: until.clone(), lsn }),
            }
        };
        let mut from = self.min.clone();
        for interval in &self.intervals {
            let until = &interval.until;
            let start = from.clone().max(range.min.clone()).min(until.clone());
            let end = range.max.clone().max(from.clone()).min(until.clone());
            push(&start, interval.lsn, &from);
            push(&end, interval.lsn.max(lsn), &start);
            push(until, interval.lsn, &end.max(start));
            from = until.clone();
        }
        self.intervals = moved;
    }
}

fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn read_number(state: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = state.split_first()?;
        *state = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn write_key(key: &EffectiveKey, out: &mut Vec<u8>) {
    write_number(key.0.len() as u64, out);
    out.extend_from_slice(&key.0);
}

fn read_key(state: &mut &[u8]) -> Option<EffectiveKey> {
    let length = usize::try_from(read_number(state)?).ok()?;
    let (key, rest) = state.split_at_checked(length)?;
    *state = rest;
    Some(EffectiveKey(key.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hex: &str) -> EffectiveKey {
        EffectiveKey::parse(hex).expect("hex")
    }

    fn range(min: &str, max: &str) -> KeyRange {
        KeyRange { min: key(min), max: key(max) }
    }

    /// The intervals as text: `until=lsn`.
    fn shown(position: &FeedPosition) -> String {
        let one = |i: &Interval| format!("{}={}", i.until, i.lsn.0);
        position.intervals.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_position_reads_back_what_it_wrote() {
        let mut position = FeedPosition::at(&range("", "FF"), Lsn(7));
        position.advance(&range("10", "20"), Lsn(9));
        position.turn = key("20");
        let all = range("", "FF");
        for reads_one in [false, true] {
            let etag = position.to_etag("feed", reads_one);
            assert_eq!(FeedPosition::parse("feed", &etag, &all), Ok(position.clone()));
            assert!(FeedPosition::parse("another", &etag, &all).is_err());
        }
        assert!(FeedPosition::parse("feed", "\"1234567890123456789012345\"", &all).is_err());
    }

    #[test]
    fn a_reader_of_one_partition_gets_an_lsn_and_any_lsn_is_read() {
        let part = range("10", "20");
        let position = FeedPosition::at(&part, Lsn(7));
        assert_eq!(position.to_etag("feed", true), "\"7\"");
        assert!(position.to_etag("feed", false).len() > LSN_DIGITS_MAX + 2);
        for lsn in [0, 7, u64::MAX] {
            for text in [format!("\"{lsn}\""), lsn.to_string()] {
                let read = FeedPosition::parse("whatever", &text, &part);
                assert_eq!(read, Ok(FeedPosition::at(&part, Lsn(lsn))), "{text}");
            }
        }
        for bad in ["", "\"\"", "-1", "1.5", "99999999999999999999", "1a"] {
            assert!(FeedPosition::parse("feed", bad, &part).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_move_forward_by_themselves_and_join_when_they_are_level() {
        let mut position = FeedPosition::at(&range("", "FF"), Lsn(5));
        position.advance(&range("10", "20"), Lsn(8));
        assert_eq!(shown(&position), "10=5 20=8 FF=5");
        position.advance(&range("15", "30"), Lsn(6));
        assert_eq!(shown(&position), "10=5 20=8 30=6 FF=5");
        assert_eq!(position.bounds(&range("12", "25")), (Lsn(6), Lsn(8)));
        assert_eq!(position.lsn_at(&key("20")), Lsn(6));
        assert_eq!(position.lsn_at(&key("1F")), Lsn(8));
        position.advance(&range("", "FF"), Lsn(9));
        assert_eq!(shown(&position), "FF=9");
    }

    #[test]
    fn two_positions_side_by_side_become_one() {
        let joined = FeedPosition::at(&range("10", "20"), Lsn(5)).joined({
            let mut behind = FeedPosition::at(&range("20", "40"), Lsn(7));
            behind.advance(&range("30", "40"), Lsn(9));
            behind
        });
        assert_eq!(shown(&joined), "20=5 30=7 40=9");
        assert_eq!(FeedPosition::from_state(&joined.to_state()), Some(joined));
    }

    #[test]
    fn a_child_takes_its_part_of_the_parent_and_nothing_beyond() {
        let mut position = FeedPosition::at(&range("10", "40"), Lsn(5));
        position.advance(&range("20", "30"), Lsn(8));
        let child = position.within(&range("18", "30")).expect("it lies within");
        assert_eq!(shown(&child), "20=5 30=8");
        assert!(position.within(&range("10", "41")).is_err());
        assert!(position.within(&range("0F", "20")).is_err());
    }
}
