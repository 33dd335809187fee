//! What an operation costs in request units, after the published model: a point read of 1 KB is
//! 1, a write about five times as much, both growing with size. The same request always costs the
//! same.

use crate::items::Outcome;

const KB: f64 = 1024.0;

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn kilobytes(bytes: usize) -> f64 {
    (bytes as f64 / KB).max(1.0)
}

/// Two decimals, as the service rounds.
pub(crate) fn rounded(charge: f64) -> f64 {
    (charge * 100.0).round() / 100.0
}

/// A point read.
pub(crate) fn read(bytes: usize) -> f64 {
    rounded(kilobytes(bytes).mul_add(0.5, 0.5))
}

/// What a write is charged for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The larger of the item before and the item after.
    pub(crate) bytes: usize,
    /// Index terms of the item that is written or removed.
    pub(crate) terms: usize,
}

/// Terms that the base charge of a write pays for.
const TERMS_INCLUDED: usize = 10;

/// A write of one item.
pub(crate) fn write(outcome: Outcome, size: Size) -> f64 {
    let base = match outcome {
        Outcome::Created | Outcome::Deleted => 5.29,
        Outcome::Replaced => 10.29,
    };
    #[expect(clippy::cast_precision_loss, reason = "an item has far fewer than 2^52 terms")]
    let further_terms = size.terms.saturating_sub(TERMS_INCLUDED) as f64;
    rounded((kilobytes(size.bytes) - 1.0).mul_add(2.5, further_terms.mul_add(0.05, base)))
}

/// A page of a feed: what was loaded, and what was sent.
pub(crate) fn page(loaded: usize, bytes: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "pages are small")]
    let items = loaded as f64;
    rounded(items.mul_add(0.03, (kilobytes(bytes) - 1.0).mul_add(0.25, 2.0)))
}

/// Items that relations lead to: each is looked up and read.
pub(crate) fn expanded(loaded: u64, bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a page loads few")]
    let (items, bytes) = (loaded as f64, bytes as f64);
    rounded(items.mul_add(0.03, bytes / KB * 0.25))
}

/// A page of a query: what was loaded, index entries that were read, and what was sent.
pub(crate) fn query(loaded: usize, entries: u64, bytes: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "pages are small")]
    let entries = entries as f64;
    rounded(entries.mul_add(0.0005, page(loaded, bytes)))
}

/// An operation on the catalog.
pub fn catalog_read() -> f64 {
    1.0
}

/// A change of the catalog.
pub fn catalog_write() -> f64 {
    4.95
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_costs_by_its_size_and_its_terms() {
        let check = |outcome, bytes, terms, expected: f64| {
            let charge = write(outcome, Size { bytes, terms });
            assert!((charge - expected).abs() < 1e-9, "{charge}");
        };
        check(Outcome::Created, 100, 0, 5.29);
        check(Outcome::Created, 1024, 10, 5.29);
        check(Outcome::Created, 1024, 30, 6.29);
        check(Outcome::Deleted, 2048, 30, 8.79);
        check(Outcome::Replaced, 1024, 11, 10.34);
    }
}
