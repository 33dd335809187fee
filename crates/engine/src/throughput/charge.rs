//! What an operation costs in request units, after the model that the service publishes: a point
//! read by the size of the item, a write by its size and by the index terms that change, a query by
//! the work it does. The same request on the same data always costs the same, so nothing that
//! depends on the time is counted. `docs/throughput.md` has the whole model and its sources.

use orrery_index::TermCount;

/// Bytes of the system properties in a stored item: the client has not sent them, and their length is
/// always the same.
const SYSTEM_BYTES: usize = 205;

/// Request units by size in kilobytes, as published; between two sizes they grow evenly.
type Curve = [(f64, f64); 12];

const READ: Curve = [
    (1.0, 1.0),
    (2.0, 1.04),
    (4.0, 1.14),
    (8.0, 1.33),
    (16.0, 1.67),
    (32.0, 2.19),
    (64.0, 4.76),
    (128.0, 9.95),
    (256.0, 20.28),
    (512.0, 40.95),
    (1024.0, 145.9),
    (2048.0, 291.8),
];

const WRITE: Curve = [
    (1.0, 4.95),
    (2.0, 6.29),
    (4.0, 6.67),
    (8.0, 7.04),
    (16.0, 9.52),
    (32.0, 11.23),
    (64.0, 22.67),
    (128.0, 48.19),
    (256.0, 98.29),
    (512.0, 184.57),
    (1024.0, 625.0),
    (2048.0, 1250.0),
];

/// An index term that is put or removed.
pub(crate) const TERM: f64 = 0.2;
/// An operation of a patch, on top of the replace that it is.
const PATCH_OPERATION: f64 = 0.4;

/// A query in one physical partition, before it has read anything.
pub(crate) const QUERY: f64 = 2.3;
const QUERY_ITEM: f64 = 0.05;
const QUERY_KILOBYTE_LOADED: f64 = 0.0026;
const QUERY_KILOBYTE_SENT: f64 = 0.025;
const QUERY_ENTRY: f64 = 0.0005;
const QUERY_STEP: f64 = 0.000_01;

/// An operation that was refused.
pub const REFUSED: f64 = 1.0;
/// Starting a script, on top of what it does.
pub(crate) const SCRIPT: f64 = 1.0;
/// A feed that has nothing to give.
const FEED_MIN: f64 = 1.0;

#[expect(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^52")]
fn units(count: u64, each: f64) -> f64 {
    count as f64 * each
}

fn kilobytes(bytes: usize) -> f64 {
    units(bytes as u64, 1.0 / 1024.0)
}

fn at(curve: &Curve, bytes: usize) -> f64 {
    let size = kilobytes(bytes);
    let above = curve.partition_point(|(known, _)| *known <= size);
    let (Some(low), Some(high)) = (curve.get(above.wrapping_sub(1)), curve.get(above)) else {
        // Smaller than the smallest costs as much as it; no item is larger than the largest.
        return if above == 0 { curve[0].1 } else { curve[curve.len() - 1].1 };
    };
    let share = (size - low.0) / (high.0 - low.0);
    share.mul_add(high.1 - low.1, low.1)
}

/// Two decimals, as the service rounds.
pub(crate) fn rounded(charge: f64) -> f64 {
    (charge * 100.0).round() / 100.0
}

/// A point read of an item by its stored text.
pub(crate) fn read(stored_bytes: usize) -> f64 {
    rounded(at(&READ, stored_bytes.saturating_sub(SYSTEM_BYTES)))
}

/// A page of a feed: as much as reading its items one by one.
pub(crate) fn feed(stored_bytes: impl Iterator<Item = usize>) -> f64 {
    rounded(stored_bytes.map(read).sum::<f64>().max(FEED_MIN))
}

/// One side of a write: an item that goes, or one that comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    /// Its stored text.
    pub(crate) bytes: usize,
    /// Its index terms that the other side does not have.
    pub(crate) terms: TermCount,
}

/// What a write of one item does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Write {
    pub(crate) removed: Option<Image>,
    pub(crate) added: Option<Image>,
    /// Operations, if it is a patch.
    pub(crate) patched: usize,
}

/// A write of one item. A replace is a delete and a create, but for the terms that stay.
pub(crate) fn write(write: &Write) -> f64 {
    let side = |image: Image| {
        let size = at(&WRITE, image.bytes.saturating_sub(SYSTEM_BYTES));
        units(image.terms.total() as u64, TERM) + size
    };
    let sides: f64 = [write.removed, write.added].into_iter().flatten().map(side).sum();
    rounded(units(write.patched as u64, PATCH_OPERATION) + sides)
}

/// What a page of a query did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChargedQuery {
    pub(crate) partitions: u64,
    pub(crate) items: u64,
    pub(crate) items_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) steps: u64,
    pub(crate) output_bytes: u64,
}

/// A page of a query.
pub(crate) fn query(work: &ChargedQuery) -> f64 {
    rounded(
        units(work.partitions.max(1), QUERY)
            + units(work.items, QUERY_ITEM)
            + units(work.items_bytes, QUERY_KILOBYTE_LOADED / 1024.0)
            + units(work.output_bytes, QUERY_KILOBYTE_SENT / 1024.0)
            + units(work.entries, QUERY_ENTRY)
            + units(work.steps, QUERY_STEP),
    )
}

/// Items that relations lead to: each is looked up, read and sent.
pub(crate) fn expanded(items: u64, bytes: u64) -> f64 {
    let kilobyte = QUERY_KILOBYTE_LOADED + QUERY_KILOBYTE_SENT;
    rounded(units(items, QUERY_ITEM) + units(bytes, kilobyte / 1024.0))
}

/// A read of the catalog: one resource, or a list.
pub fn catalog_read() -> f64 {
    1.0
}

/// A query over the catalog.
pub fn catalog_query() -> f64 {
    QUERY
}

/// A change of the catalog.
pub fn catalog_write() -> f64 {
    4.95
}

/// A read under strong consistency or bounded staleness asks two replicas.
pub fn doubled(charge: f64) -> f64 {
    rounded(charge * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1024;

    #[track_caller]
    fn check(charge: f64, expected: f64) {
        assert!((charge - expected).abs() < 1e-9, "{charge}, not {expected}");
    }

    fn image(kilobytes: usize, terms: usize) -> Image {
        let terms = TermCount { paths: terms, composites: 0 };
        Image { bytes: kilobytes * KB + SYSTEM_BYTES, terms }
    }

    #[test]
    fn a_read_costs_by_its_size_as_published() {
        check(read(0), 1.0);
        check(read(KB + SYSTEM_BYTES), 1.0);
        check(read(3 * KB + SYSTEM_BYTES), 1.09);
        check(read(64 * KB + SYSTEM_BYTES), 4.76);
        // 100 KB cost about ten, says another page.
        check(read(100 * KB + SYSTEM_BYTES), 7.68);
        check(read(2048 * KB + SYSTEM_BYTES), 291.8);
        check(read(4096 * KB), 291.8);
    }

    #[test]
    fn a_write_costs_by_its_size_and_the_terms_that_change_as_published() {
        let of = |removed, added, patched| write(&Write { removed, added, patched });
        check(of(None, Some(image(1, 10)), 0), 6.95);
        check(of(Some(image(1, 10)), None, 0), 6.95);
        check(of(Some(image(1, 2)), Some(image(1, 2)), 0), 10.7);
        check(of(Some(image(1, 2)), Some(image(1, 2)), 2), 11.5);
        check(of(None, Some(image(16, 0)), 0), 9.52);
    }

    #[test]
    fn a_feed_costs_what_its_items_cost() {
        check(feed([KB; 5].into_iter()), 5.0);
        check(feed(std::iter::empty()), 1.0);
    }

    #[test]
    fn a_query_costs_by_its_work() {
        check(query(&ChargedQuery::default()), 2.3);
        // A scan of 60,951 items of 400 MB in all is published as 4,059.95.
        let scan = ChargedQuery {
            partitions: 1,
            items: 60_951,
            items_bytes: 399_998_938,
            output_bytes: 510,
            ..ChargedQuery::default()
        };
        let published = 4059.95;
        assert!((query(&scan) / published - 1.0).abs() < 0.01, "{}", query(&scan));
        let index_only = ChargedQuery { partitions: 2, entries: 10_000, ..ChargedQuery::default() };
        check(query(&index_only), 9.6);
    }
}
