//! What clients did and saw, transaction by transaction. Every item is a list; a transaction
//! appends elements that nobody else ever appends, and reads whole lists. A list therefore tells
//! the order of all the transactions that wrote it.

use std::collections::BTreeMap;

/// The number of a list.
pub(crate) type Key = usize;
/// An element, appended by one step of one transaction.
pub(crate) type Element = u64;
/// The elements of a list, in order.
pub(crate) type List = Vec<Element>;

/// One thing that a transaction did, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Append(Key, Element),
    /// The whole list as it was seen, with what the transaction itself had appended before.
    Read(Key, List),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered with success.
    Committed,
    /// It was answered with a failure: nothing of it may ever be seen.
    Aborted,
    /// No answer came: it is there whole, or not at all.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    /// What kind of request it was.
    pub(crate) door: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) outcome: Outcome,
    /// Before it was sent, on a counter that all clients share.
    pub(crate) began: u64,
    /// After it was answered.
    pub(crate) ended: u64,
}

impl Transaction {
    pub(crate) fn appends(&self) -> impl Iterator<Item = (Key, Element)> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::Append(key, element) => Some((*key, *element)),
            Step::Read(..) => None,
        })
    }
}

/// Everything that happened to the lists of one logical partition, and what was there at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) last: BTreeMap<Key, List>,
}
