//! Commits that go to the server together. Those of a group have one part each, of the same shard and epoch, and
//! do not overlap: no key or stripe that one writes is checked or written by another. So the server validates
//! each against what was there before the group.

use std::collections::{HashMap, HashSet};

use orrery_storage::{CommitId, Part, Precondition, Space, key};
use orrery_types::limits::{POSTGRES_GROUP_BYTES_MAX, POSTGRES_GROUP_MAX};
use postgres::Row;
use postgres::types::ToSql;

use crate::connection::{ServerConnection, Uuid};
use crate::folded_key::{StoredKey, plain};
use crate::heads::shard_number;

const COMMIT: &str = "SELECT member, lsn, failed FROM kv_commit($1, $2, $3, $4, $5, $6, $7, $8, \
    $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)";

/// What the members of a group check and write.
#[derive(Default)]
pub(crate) struct Overlap<'c> {
    written: HashSet<(Space, &'c [u8])>,
    checked: HashSet<(Space, &'c [u8])>,
    stripes_written: HashSet<u8>,
    stripes_checked: HashSet<u8>,
    members: usize,
    size_bytes: usize,
}

fn writes(part: &Part) -> impl Iterator<Item = (Space, &[u8])> {
    let deletes = part.deletes.iter().map(|(space, key)| (*space, &key[..]));
    deletes.chain(part.puts.iter().map(|put| (put.space, &put.key[..])))
}

impl<'c> Overlap<'c> {
    /// Adds a part, if it overlaps with none so far and there is room for it.
    pub(crate) fn admit(&mut self, part: &'c Part, size_bytes: usize) -> bool {
        let has_room = self.members == 0
            || (self.members < POSTGRES_GROUP_MAX
                && self.size_bytes + size_bytes <= POSTGRES_GROUP_BYTES_MAX);
        if !has_room || self.overlaps(part) {
            return false;
        }
        self.members += 1;
        self.size_bytes += size_bytes;
        self.written.extend(writes(part));
        self.stripes_written.extend(&part.stripes);
        for precondition in &part.preconditions {
            match precondition {
                Precondition::StripeUnchanged { stripe, .. } => {
                    self.stripes_checked.insert(*stripe);
                }
                keyed => self.checked.extend(keyed.key()),
            }
        }
        true
    }

    fn overlaps(&self, part: &Part) -> bool {
        let fails = |precondition: &Precondition| match precondition {
            Precondition::StripeUnchanged { stripe, .. } => self.stripes_written.contains(stripe),
            keyed => keyed.key().is_some_and(|key| self.written.contains(&key)),
        };
        part.preconditions.iter().any(fails)
            || part.stripes.iter().any(|stripe| self.stripes_checked.contains(stripe))
            || writes(part).any(|key| self.written.contains(&key) || self.checked.contains(&key))
    }
}

/// A column of keys or values.
type Column = Vec<Vec<u8>>;
/// The tails of keys; only folded ones have one.
type Tails = Vec<Option<Vec<u8>>>;

/// The parameters of the function that commits.
#[derive(Default)]
pub(crate) struct Arrays {
    ids: Vec<Uuid>,
    touched: Vec<Vec<u8>>,
    is_control: bool,
    checks: (Vec<i32>, Vec<i32>, Column, Vec<i64>),
    ranges: (Vec<i32>, Vec<i32>, Column, Vec<i64>),
    deletes: (Vec<i32>, Column, Tails),
    puts: (Vec<i32>, Column, Tails, Column, Vec<bool>),
    feed: (Vec<i32>, Column, Vec<i32>, Column),
}

/// A number of ours as the server's signed one.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn place(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Arrays {
    /// Adds a member, whose number is that of those before it and one.
    pub(crate) fn add(&mut self, id: CommitId, part: &Part) {
        self.ids.push(Uuid(id));
        // A part without writes changes no stripe, whatever it names.
        let touches = part.takes_lsn();
        self.touched.push(if touches { part.stripes.clone() } else { Vec::new() });
        self.is_control |= part.sets_control;
        let member = place(self.ids.len());
        for (nth, precondition) in part.preconditions.iter().enumerate() {
            let (key, version) = match precondition {
                Precondition::StripeUnchanged { stripe, since } => {
                    self.ranges.0.push(member);
                    self.ranges.1.push(place(nth));
                    self.ranges.2.push(vec![*stripe]);
                    self.ranges.3.push(signed(since.0));
                    continue;
                }
                Precondition::Absent { space, key } => (StoredKey::new(*space, key), -1),
                Precondition::Version { space, key, lsn } => {
                    (StoredKey::new(*space, key), signed(lsn.0))
                }
            };
            self.checks.0.push(member);
            self.checks.1.push(place(nth));
            self.checks.2.push(key.key);
            self.checks.3.push(version);
        }
        for (space, key) in &part.deletes {
            let StoredKey { key, tail } = StoredKey::new(*space, key);
            self.deletes.0.push(member);
            self.deletes.1.push(key);
            self.deletes.2.push(tail);
        }
        self.add_puts(member, part);
        self.add_feed(member, &[], &part.feed);
        self.add_feed(member, &[key::VERSION], &part.versions);
    }

    /// Of two puts of one key the last counts; the server refuses to write a row twice.
    fn add_puts(&mut self, member: i32, part: &Part) {
        let mut last = HashMap::with_capacity(part.puts.len());
        for (nth, put) in part.puts.iter().enumerate() {
            last.insert((put.space, &put.key[..]), nth);
        }
        for (nth, put) in part.puts.iter().enumerate() {
            if last.get(&(put.space, &put.key[..])) != Some(&nth) {
                continue;
            }
            let StoredKey { key, tail } = StoredKey::new(put.space, &put.key);
            self.puts.0.push(member);
            self.puts.1.push(key);
            self.puts.2.push(tail);
            self.puts.3.push(put.value.clone());
            self.puts.4.push(put.space.is_versioned());
        }
    }

    fn add_feed(&mut self, member: i32, prefix: &[u8], entries: &[Vec<u8>]) {
        let prefix = plain(Space::Feed, prefix);
        for (nth, entry) in entries.iter().enumerate() {
            self.feed.0.push(member);
            self.feed.1.push(prefix.clone());
            self.feed.2.push(place(nth));
            self.feed.3.push(entry.clone());
        }
    }

    /// Sends the members to their shard. `is_logged` is false for a commit that only validates.
    pub(crate) fn send(
        &self,
        connection: &mut ServerConnection,
        part: &Part,
        is_logged: bool,
    ) -> Result<Vec<Row>, postgres::Error> {
        let epoch = part.head.map_or(part.epoch, |change| change.epoch);
        let (shard, epoch) = (shard_number(part.shard), signed(epoch.0));
        let advances = part.takes_lsn();
        let parameters: &[&(dyn ToSql + Sync)] = &[
            &shard,
            &epoch,
            &advances,
            &is_logged,
            &self.is_control,
            &self.ids,
            &self.touched,
            &self.checks.0,
            &self.checks.1,
            &self.checks.2,
            &self.checks.3,
            &self.ranges.0,
            &self.ranges.1,
            &self.ranges.2,
            &self.ranges.3,
            &self.deletes.0,
            &self.deletes.1,
            &self.deletes.2,
            &self.puts.0,
            &self.puts.1,
            &self.puts.2,
            &self.puts.3,
            &self.puts.4,
            &self.feed.0,
            &self.feed.1,
            &self.feed.2,
            &self.feed.3,
        ];
        connection.query(COMMIT, parameters)
    }
}
