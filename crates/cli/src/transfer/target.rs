//! Where items go, and what may become of them.

use anyhow::Result;
use clap::ValueEnum;
use orrery_types::Value;

/// An item, and the line it came from.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) line: u64,
    pub(crate) value: Value,
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Created,
    Replaced,
    /// One with its id was there, and stays.
    Kept,
    /// Not taken, and why.
    Refused(String),
}

/// What to do with an item whose id is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnExisting {
    /// Keep the existing item
    Keep,
    /// Put the new one in its place
    Replace,
    /// Report it as a bad line
    Refuse,
}

/// Takes items. Lanes work side by side; items of one lane are taken in their order.
pub(crate) trait TransferTarget: Sync {
    /// How many lanes there are.
    fn lanes(&self) -> usize;

    /// Takes items; returns when they are durable, with a fate for each in their order.
    fn load(&self, lane: usize, items: Vec<Item>, existing: OnExisting) -> Result<Vec<Fate>>;
}

/// How many items became what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransferTally {
    pub(crate) created: u64,
    pub(crate) replaced: u64,
    pub(crate) kept: u64,
    pub(crate) bad: u64,
}

impl TransferTally {
    pub(crate) fn add(&mut self, fate: &Fate) {
        match fate {
            Fate::Created => self.created += 1,
            Fate::Replaced => self.replaced += 1,
            Fate::Kept => self.kept += 1,
            Fate::Refused(_) => self.bad += 1,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.created + self.replaced + self.kept + self.bad
    }

    /// For people.
    pub(crate) fn to_text(self) -> String {
        use crate::table::count;
        let mut text = format!("{} created", count(self.created));
        let more =
            [(self.replaced, "replaced"), (self.kept, "already there"), (self.bad, "not taken")];
        for (number, what) in more.into_iter().filter(|(number, _)| *number > 0) {
            text.extend([", ", &count(number), " ", what]);
        }
        text
    }

    /// For programs, and for the next start.
    pub(crate) fn to_pairs(self) -> [(&'static str, u64); 4] {
        let Self { created, replaced, kept, bad } = self;
        [("created", created), ("replaced", replaced), ("kept", kept), ("bad", bad)]
    }

    pub(crate) fn from_value(value: &Value) -> Self {
        let number = |name| value.get(name).as_i64().and_then(|n| u64::try_from(n).ok());
        let number = |name| number(name).unwrap_or(0);
        let (created, replaced) = (number("created"), number("replaced"));
        Self { created, replaced, kept: number("kept"), bad: number("bad") }
    }
}
