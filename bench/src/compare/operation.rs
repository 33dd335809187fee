//! The operations that every system is asked for, and the items that they are about.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::query::cases::Case;
use crate::query::goods;

/// Items in every system before the first operation: one category.
pub(super) const LOADED_ITEMS: u64 = goods::CATEGORY_ITEMS;
/// Created items have numbers from here on, in other categories, so that queries find what they did before.
const CREATED_FROM: u64 = 100_000_000;
/// Numbers set aside for one client in one run.
const CLIENT_NUMBERS: u64 = 100_000;
/// Clients so far.
static CLIENTS: AtomicU64 = AtomicU64::new(0);
/// A step that visits every loaded item: it is prime, and no factor of their number.
const STRIDE: u64 = 7919;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    PointRead,
    Equality,
    InPartition,
    Upsert,
    Create,
}

impl Operation {
    pub(super) const ALL: [Self; 5] =
        [Self::PointRead, Self::Equality, Self::InPartition, Self::Upsert, Self::Create];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PointRead => "point read",
            Self::Equality => "two equalities, 10 rows",
            Self::InPartition => "25 rows of one logical partition",
            Self::Upsert => "upsert",
            Self::Create => "create",
        }
    }

    /// The query, if it is one, and how many rows it finds.
    pub(super) fn query(self) -> Option<(Case, usize)> {
        match self {
            Self::Equality => Some((Case::TwoEqualities, 10)),
            Self::InPartition => Some((Case::SinglePartition, 25)),
            Self::PointRead | Self::Upsert | Self::Create => None,
        }
    }
}

/// The items that one client of one run asks for, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    operation: Operation,
    /// Items that are loaded.
    items: u64,
    next: u64,
}

impl Numbers {
    pub(super) fn new(operation: Operation, items: u64) -> Self {
        let client = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let next = match operation {
            Operation::Create => CREATED_FROM + client * CLIENT_NUMBERS,
            _ => client * STRIDE * STRIDE,
        };
        Self { operation, items, next }
    }
}

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let number = self.next;
        if self.operation == Operation::Create {
            self.next += 1;
            return Some(number);
        }
        self.next += STRIDE;
        Some(number % self.items)
    }
}

/// An item that is written over another one of the same number: its stock differs.
pub(super) fn changed(number: u64, stamp: u64) -> String {
    let text = goods::text(number);
    let stock = format!("\"stock\":{},", number % 50);
    text.replacen(&stock, &format!("\"stock\":{},", 10 + stamp % 40), 1)
}
