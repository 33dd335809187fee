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
fn rounded(charge: f64) -> f64 {
    (charge * 100.0).round() / 100.0
}

/// A point read.
pub(crate) fn read(bytes: usize) -> f64 {
    rounded(kilobytes(bytes).mul_add(0.5, 0.5))
}

/// A write of one item.
pub(crate) fn write(outcome: Outcome, bytes: usize) -> f64 {
    let base = match outcome {
        Outcome::Created | Outcome::Deleted => 5.29,
        Outcome::Replaced => 10.29,
    };
    rounded((kilobytes(bytes) - 1.0).mul_add(2.5, base))
}

/// A page of a feed: what was loaded, and what was sent.
pub(crate) fn page(loaded: usize, bytes: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "pages are small")]
    let items = loaded as f64;
    rounded(items.mul_add(0.03, (kilobytes(bytes) - 1.0).mul_add(0.25, 2.0)))
}

/// An operation on the catalog.
pub fn catalog_read() -> f64 {
    1.0
}

/// A change of the catalog.
pub fn catalog_write() -> f64 {
    4.95
}
