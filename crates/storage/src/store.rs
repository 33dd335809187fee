//! The contract every engine keeps. Data is an ordered map of bytes to bytes in *shards*; a shard
//! is one physical partition: the unit of LSN, fencing, placement and consistent snapshots.
//!
//! What keeps the contract portable: bytes in memcmp order; no snapshot held between client
//! requests; scans bounded by rows and bytes, and resumed from the last key, never from an engine
//! cursor; LSNs given inside the commit, so that the order of the feed is the order of commits.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orrery_types::{Epoch, Lsn, ShardId, limits};

use crate::commit_id::CommitId;
use crate::commit_log::Resolution;
use crate::copy_run::CopyRun;
use crate::journal::{Copied, Journal};
use crate::key;

/// Which of a shard's ordered maps a key lies in, by role: engines tune each differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Items by key, and rows by number. Point reads; every value has a version.
    Items,
    /// Unique keys and index terms. Range scans; values small or empty.
    Index,
    /// Changes and versions by LSN. Written by the commit itself from [`Part::feed`] and
    /// [`Part::versions`].
    Feed,
    /// Expiry times. Scanned from the front by the sweeper.
    Ttl,
    /// The catalog and counters. Every value has a version.
    Meta,
}

impl Space {
    /// All spaces, in the order of their bytes on disk.
    pub const ALL: [Self; 5] = [Self::Items, Self::Index, Self::Feed, Self::Ttl, Self::Meta];

    /// Whether values carry the LSN of the commit that wrote them.
    pub fn is_versioned(self) -> bool {
        matches!(self, Self::Items | Self::Meta)
    }
}

/// How fresh a snapshot must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// Everything acknowledged before the call.
    Latest,
    /// At least this LSN; [`StorageError::Behind`] if the shard has not reached it.
    AtLeast(Lsn),
    /// Whatever is cheapest; a single node has only the latest.
    Stale,
}

/// A stored value with the LSN of the commit that wrote it (zero in spaces without versions).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Value {
    pub version: Lsn,
    pub bytes: Bytes,
}

/// A key and its value, as scans return them. With `keys_only` the value's bytes are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Entry {
    pub key: Vec<u8>,
    pub value: Value,
}

/// A bounded range read: `from` inclusive, `to` exclusive, in either direction. It ends when the
/// range does, or after the entry with which one of the bounds is reached; the caller goes on
/// after the last key it got. At least one entry comes if the range has one, even where it alone
/// is over a bound.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Scan<'k> {
    pub space: Space,
    pub from: &'k [u8],
    pub to: &'k [u8],
    pub reverse: bool,
    pub max_rows: usize,
    pub max_bytes: usize,
    pub keys_only: bool,
}

/// A walk along keys in ascending order.
pub trait KeyCursor {
    /// The key where it stands; `None` behind the last.
    fn key(&self) -> Option<&[u8]>;
    /// What is stored under that key, in a space without versions.
    fn value(&self) -> Option<&[u8]>;
    /// Goes to the next key.
    fn next(&mut self) -> Result<(), StorageError>;
    /// Goes to the first key at or after this one.
    fn seek(&mut self, key: &[u8]) -> Result<(), StorageError>;
}

/// A consistent view of one shard.
pub trait Snapshot: Send {
    /// The shard's head at that instant.
    fn head(&self) -> Head;
    /// The last commit that the view shows.
    fn lsn(&self) -> Lsn {
        self.head().lsn
    }
    /// The shard's epoch at that instant.
    fn epoch(&self) -> Epoch {
        self.head().epoch
    }
    /// One value.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, StorageError>;
    /// Several values, in the order of the keys; one round trip.
    fn get_many(&self, space: Space, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, StorageError>;
    /// A bounded range.
    fn scan(&self, scan: &Scan<'_>) -> Result<Vec<Entry>, StorageError>;
    /// A walk along the keys of a range, which begins at its first key.
    fn keys(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
    ) -> Result<Box<dyn KeyCursor + '_>, StorageError>;
    /// How many entries the range has, roughly, in little time whatever the number: a few hundred
    /// are counted, more are guessed from what the engine knows of its files.
    fn estimate(&self, space: Space, from: &[u8], to: &[u8]) -> Result<u64, StorageError>;
    /// The same for a range that is known to have so many entries at least.
    fn estimate_beyond(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        counted: u64,
    ) -> Result<u64, StorageError>;
}

/// A condition of a commit, tested against the state just before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The key does not exist.
    #[expect(missing_docs, reason = "the summary says it")]
    Absent { space: Space, key: Vec<u8> },
    /// The key exists and was last written by the commit with this LSN (versioned spaces only).
    #[expect(missing_docs, reason = "the summary says it")]
    Version { space: Space, key: Vec<u8>, lsn: Lsn },
    /// No commit after this LSN has changed the stripe. It protects a range against phantoms, which the
    /// preconditions of single keys cannot: the keys do not exist yet.
    StripeUnchanged {
        /// One of the stripes that commits name in [`Part::stripes`].
        stripe: u8,
        /// The LSN of the snapshot that the range was read from.
        since: Lsn,
    },
}

impl Precondition {
    /// A key is as it was read: it has this version, or does not exist.
    pub fn unchanged(space: Space, key: Vec<u8>, version: Option<Lsn>) -> Self {
        match version {
            Some(lsn) => Self::Version { space, key, lsn },
            None => Self::Absent { space, key },
        }
    }

    /// The key that it is about, if it is about one.
    pub fn key(&self) -> Option<(Space, &[u8])> {
        match self {
            Self::Absent { space, key } | Self::Version { space, key, .. } => Some((*space, key)),
            Self::StripeUnchanged { .. } => None,
        }
    }
}

/// The precondition that did not hold, and in which shard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct FailedPrecondition {
    pub shard: ShardId,
    pub precondition: Precondition,
}

impl FailedPrecondition {
    pub(crate) fn in_shard(shard: ShardId, precondition: &Precondition) -> StorageError {
        StorageError::Conflict(Box::new(Self { shard, precondition: precondition.clone() }))
    }
}

/// A value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Put {
    pub space: Space,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// What a commit does in one shard. Preconditions are tested first; then deletes are applied, then puts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The shard.
    pub shard: ShardId,
    /// The epoch under which the writes were prepared; [`StorageError::Gone`] if it is over.
    pub epoch: Epoch,
    /// What must hold just before this commit.
    pub preconditions: Vec<Precondition>,
    /// Keys to remove; a key that is not there is no error.
    pub deletes: Vec<(Space, Vec<u8>)>,
    /// Values to write, each stamped with this part's LSN if its space is versioned.
    pub puts: Vec<Put>,
    /// Feed entries in order; the key of the n-th becomes `key::feed(lsn, n)`.
    pub feed: Vec<Vec<u8>>,
    /// Versions in order; the key of the n-th becomes `key::version(lsn, n)`.
    pub versions: Vec<Vec<u8>>,
    /// The stripes that this part changes, for [`Precondition::StripeUnchanged`]. Kept in memory only:
    /// no snapshot outlives the store that it was taken from.
    pub stripes: Vec<u8>,
    /// Whether it changes what processes may cache of the shard beside items, as the catalog or the
    /// partition keys that were erased: [`Head::control`] becomes its LSN.
    pub sets_control: bool,
    /// What it does to the head of the shard. Without it the shard must be open, and stays as it is.
    pub head: Option<HeadChange>,
}

impl Part {
    /// What the commit writes under its own LSN: feed entries and versions.
    pub(crate) fn numbered(&self, lsn: Lsn) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        let place = |seq| u16::try_from(seq).expect("a commit is validated before it is applied");
        let feed = self.feed.iter().enumerate();
        let feed = feed.map(move |(seq, entry)| (key::feed(lsn, place(seq)).to_vec(), &entry[..]));
        let versions = self.versions.iter().enumerate();
        let key = move |seq| key::version(lsn, place(seq)).to_vec();
        feed.chain(versions.map(move |(seq, version)| (key(seq), &version[..])))
    }

    /// A part that does nothing yet.
    pub fn new(shard: ShardId, epoch: Epoch) -> Self {
        let (deletes, puts, feed, versions) = (vec![], vec![], vec![], vec![]);
        let (preconditions, stripes, sets_control, head) = (vec![], vec![], false, None);
        Self {
            shard,
            epoch,
            preconditions,
            deletes,
            puts,
            feed,
            versions,
            stripes,
            sets_control,
            head,
        }
    }

    /// A part that changes the head of a shard and nothing else.
    pub fn of_head(shard: ShardId, epoch: Epoch, head: HeadChange) -> Self {
        Self { head: Some(head), ..Self::new(shard, epoch) }
    }

    /// The state that the shard must have.
    pub fn expected_state(&self) -> ShardState {
        self.head.map_or(ShardState::Open, |change| change.from)
    }

    /// Whether it writes something, and so gets an LSN of its own.
    pub fn takes_lsn(&self) -> bool {
        !(self.deletes.is_empty()
            && self.puts.is_empty()
            && self.feed.is_empty()
            && self.versions.is_empty())
    }

    /// Whether it changes nothing: its preconditions are validated.
    pub fn only_validates(&self) -> bool {
        self.head.is_none() && !self.takes_lsn()
    }

    /// The LSN of the shard after the part, by the one before.
    pub fn next_lsn(&self, before: Lsn) -> Lsn {
        let next = Lsn(before.0 + u64::from(self.takes_lsn()));
        self.head.map_or(next, |change| next.max(change.least_lsn))
    }
}

/// A change of a shard's head, in the same commit as whatever else depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadChange {
    /// The state that the shard must have; otherwise the commit gets [`StorageError::Gone`].
    pub from: ShardState,
    /// The state from then on.
    pub to: ShardState,
    /// The epoch from then on, which is not lower than that of the part.
    pub epoch: Epoch,
    /// The LSN is this one at least from then on: a copy goes on counting where its original was.
    pub least_lsn: Lsn,
}

impl HeadChange {
    /// From one state to another, at the epoch of the part or a later one.
    pub fn state(from: ShardState, to: ShardState, epoch: Epoch) -> Self {
        Self { from, to, epoch, least_lsn: Lsn(0) }
    }

    /// Raises the epoch of an open shard: commits prepared under an older one get [`StorageError::Gone`].
    pub fn epoch(epoch: Epoch) -> Self {
        Self::state(ShardState::Open, ShardState::Open, epoch)
    }

    /// Whether it leads forward: nothing returns to being made, and nothing that was dropped is used again.
    fn is_allowed(&self) -> bool {
        use ShardState::{Building, Closed, Dropped, Open};
        match self.from {
            Building => matches!(self.to, Open | Dropped),
            Open => self.to != Building,
            Closed => matches!(self.to, Open | Dropped),
            Dropped => false,
        }
    }
}

/// One or more parts (each of another shard) that happen together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name, by which [`Store::resolve`] finds out what became of it.
    pub id: CommitId,
    /// What it does in each shard.
    pub parts: Vec<Part>,
}

/// No shard has this number: engines keep their own records under it.
pub const SHARD_RESERVED: ShardId = ShardId(u32::MAX);

impl Commit {
    /// A commit with an id of its own.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { id: CommitId::new(), parts }
    }

    /// Bytes of all keys and values, or [`StorageError::TooLarge`]; engines call it before they
    /// do anything. Panics if the caller broke the contract: two parts for one shard, a
    /// version required of a space that has none, a precondition on the feed, or a change of a head that
    /// leads back.
    pub fn validate(&self) -> Result<usize, StorageError> {
        let mut size_bytes = 0_usize;
        for (i, part) in self.parts.iter().enumerate() {
            let distinct = self.parts.iter().take(i).all(|other| other.shard != part.shard);
            assert!(distinct, "a commit has one part for each shard");
            if let Some(change) = &part.head {
                assert!(change.is_allowed() && change.epoch >= part.epoch, "{change:?}");
            }
            for precondition in &part.preconditions {
                if let Some((space, _)) = precondition.key() {
                    assert!(space != Space::Feed, "the feed is written by commits themselves");
                    let is_version = matches!(precondition, Precondition::Version { .. });
                    assert!(space.is_versioned() || !is_version, "{space:?} has no versions");
                }
            }
            if part.feed.len().max(part.versions.len()) > limits::COMMIT_FEED_ENTRIES_MAX {
                return Err(StorageError::TooLarge);
            }
            let sizes = part.deletes.iter().map(|(_, key)| key.len());
            let sizes = sizes.chain(part.puts.iter().map(|put| put.key.len() + put.value.len()));
            let numbered = part.feed.iter().chain(&part.versions).map(Vec::len);
            size_bytes += sizes.chain(numbered).sum::<usize>();
        }
        if size_bytes > limits::COMMIT_BYTES_MAX {
            Err(StorageError::TooLarge)
        } else {
            Ok(size_bytes)
        }
    }
}

/// Where a shard is in its life. Reads are possible in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// It is being made: [`Store::copy_into`] writes to it, and the commit that names it opens it.
    Building,
    /// It takes commits.
    Open,
    /// It takes none: a split or merge is about to replace the shard.
    Closed,
    /// It takes none, and nothing names it any more: it may be dropped.
    Dropped,
}

impl ShardState {
    /// The state in a store of which no other process can be using the shard: what was being made has
    /// nobody who would finish it, and what was closed is in force again.
    #[must_use]
    pub fn recovered(self) -> Self {
        match self {
            Self::Building => Self::Dropped,
            Self::Closed => Self::Open,
            Self::Open | Self::Dropped => self,
        }
    }

    /// Whether [`Store::drop_shard`] may remove the shard.
    pub fn may_be_dropped(self) -> bool {
        matches!(self, Self::Building | Self::Dropped)
    }
}

/// The published state of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last commit that is visible.
    pub lsn: Lsn,
    /// Commits prepared under another epoch are refused.
    pub epoch: Epoch,
    /// The last commit that changed what may be cached of the shard ([`Part::sets_control`]), or a later
    /// one: what was read of the shard at or after it is current.
    pub control: Lsn,
    /// Whether commits are accepted, and which.
    pub state: ShardState,
}

impl Head {
    /// The same with an LSN that is not lower than this one.
    #[must_use]
    pub fn at_least(self, lsn: Lsn) -> Self {
        Self { lsn: self.lsn.max(lsn), ..self }
    }
}

/// The LSN that each part got, in the order of the parts; of a part that only validates, the LSN that
/// its shard had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Committed {
    pub lsns: Vec<Lsn>,
}

/// What a shard holds, roughly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ShardStats {
    pub lsn: Lsn,
    pub items_bytes: u64,
    pub index_bytes: u64,
}

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// A precondition did not hold. Nothing was written.
    #[error("a precondition of a commit to shard {} does not hold", .0.shard.0)]
    Conflict(Box<FailedPrecondition>),
    /// The shard is in use, and the operation requires one that is being made. Nothing was written.
    #[error("the shard is in use already")]
    NotEmpty,
    /// Another journal of the shard is in use.
    #[error("the shard has a journal already")]
    JournalInUse,
    /// The shard is gone, or it has another epoch or state. Nothing was written.
    #[error("the shard's epoch is {epoch:?}")]
    #[expect(missing_docs, reason = "the summary says it")]
    Gone { epoch: Option<Epoch> },
    /// The shard has not reached the LSN that was asked for.
    #[error("the shard is at {0:?}")]
    Behind(Lsn),
    /// The commit is larger than the engine takes at once. Nothing was written.
    #[error("the commit is too large")]
    TooLarge,
    /// Nothing was written, and the store refuses writes until it is opened again: a disk is full
    /// or a sync failed. Reads go on. The commits whose own write failed got
    /// [`StorageError::Unknown`]: what of them reached the disk shows when the store is reopened.
    #[error("the store takes no writes: {0}")]
    ReadOnly(Box<str>),
    /// Nothing was written, because the disk has too little room; once it has, writes are taken again.
    /// Reads go on.
    #[error("there is no room: {0}")]
    NoRoom(Box<str>),
    /// The answer was lost: the commit is there whole, or not at all. Nothing else may be assumed
    /// before [`Store::resolve`] has said which.
    #[error("it is not known whether the commit happened: {}", .0.reason)]
    Unknown(Box<LostAnswer>),
    /// The answer was lost, and the commit did not happen and will not. Nothing was written.
    #[error("the commit did not happen: {0}")]
    NotCommitted(Box<str>),
    /// The store cannot be reached at this time, or has no connection to spare. Nothing was written.
    #[error("the store cannot be reached: {0}")]
    Unavailable(Box<str>),
    /// Stored bytes are not what was written.
    #[error("corrupt data: {0}")]
    Corrupt(Box<str>),
    /// A read failed; trying again may help.
    #[error("storage failed: {0}")]
    Io(Box<str>),
}

/// An operation whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostAnswer {
    /// The commit; `None` for an operation on a whole shard, which may be repeated.
    pub commit: Option<CommitId>,
    /// What went wrong.
    pub reason: Box<str>,
}

/// Keys are shown up to this length.
const SHOWN_KEY_BYTES: usize = 64;

impl StorageError {
    /// The answer to a commit was lost, or, without an id, to an operation on a whole shard.
    pub fn unknown(commit: Option<CommitId>, reason: impl Into<Box<str>>) -> Self {
        Self::Unknown(Box::new(LostAnswer { commit, reason: reason.into() }))
    }

    /// A commit arrived after it was resolved as one that never happens.
    pub fn refused(id: CommitId) -> Self {
        Self::NotCommitted(format!("{id} was resolved as not committed before it arrived").into())
    }

    /// Adds to a failed read where it was: shard, space, and the key in hexadecimal digits.
    #[must_use]
    pub fn at(self, shard: ShardId, space: Space, key: &[u8]) -> Self {
        let shown = key.iter().take(SHOWN_KEY_BYTES).map(|byte| format!("{byte:02x}"));
        let more = if key.len() > SHOWN_KEY_BYTES { "…" } else { "" };
        let place = || {
            let key = shown.collect::<String>();
            format!("(shard {}, {space:?}, key {key}{more})", shard.0)
        };
        let (wrapped, what): (fn(Box<str>) -> Self, _) = match self {
            Self::Corrupt(what) => (Self::Corrupt, what),
            Self::Io(what) => (Self::Io, what),
            other => return other,
        };
        let text = format!("{what} {}", place());
        tracing::error!(error = text, "a read failed");
        wrapped(text.into())
    }
}

/// The callback that takes the answer of a submitted commit.
pub type OnCommitted = Box<dyn FnOnce(Result<Committed, StorageError>) + Send>;

/// An engine. All calls block, unless they say otherwise; none needs a runtime.
pub trait Store: Send + Sync {
    /// A consistent view of one shard.
    fn snapshot(&self, shard: ShardId, at: ReadAt) -> Result<Box<dyn Snapshot + '_>, StorageError>;

    /// Views of several shards as of one instant: a commit over some of them shows in all or in none.
    /// A shard may be named twice.
    fn snapshots(&self, shards: &[ShardId]) -> Result<Vec<Box<dyn Snapshot + '_>>, StorageError>;

    /// One value as of now, with a head of the shard that is not older than it: the point read,
    /// which needs no snapshot.
    fn get(
        &self,
        shard: ShardId,
        space: Space,
        key: &[u8],
    ) -> Result<(Head, Option<Value>), StorageError>;

    /// Writes all parts or none; when it returns `Ok`, the writes are durable. Commits that wait
    /// at the same time share one sync. A commit without writes validates its preconditions, all of them
    /// at one instant. A lost answer is resolved by the commit's id; [`StorageError::Unknown`] is returned
    /// only if the store cannot tell.
    fn commit(&self, commit: Commit) -> Result<Committed, StorageError> {
        let shards: Vec<ShardId> = commit.parts.iter().map(|part| part.shard).collect();
        let id = commit.id;
        match self.commit_once(commit) {
            Err(StorageError::Unknown(lost)) => match self.resolve(&shards, id) {
                Ok(Resolution::Committed(lsns)) => Ok(Committed { lsns }),
                Ok(Resolution::Never) => Err(StorageError::NotCommitted(lost.reason)),
                Ok(Resolution::NotKnown) | Err(_) => Err(StorageError::Unknown(lost)),
            },
            answer => answer,
        }
    }

    /// The same, where a lost answer stays lost: callers use [`Store::commit`].
    fn commit_once(&self, commit: Commit) -> Result<Committed, StorageError>;

    /// What became of a commit whose answer was lost, by its id and the shards of its parts. It waits for
    /// the commit if it is in progress. After [`Resolution::Never`] the store refuses the commit should it
    /// arrive late, with [`StorageError::NotCommitted`], so that another attempt cannot be a second one.
    fn resolve(&self, shards: &[ShardId], id: CommitId) -> Result<Resolution, StorageError>;

    /// The same if it does not have to wait for other commits; else the commit comes back, and nothing
    /// was written.
    fn try_commit(&self, commit: Commit) -> Result<Result<Committed, StorageError>, Commit> {
        Err(commit)
    }

    /// The same without waiting: `done` is called once with the answer, perhaps before this
    /// returns, perhaps on the engine's own thread, which it must not hold up.
    fn submit(&self, commit: Commit, done: OnCommitted) {
        done(self.commit(commit));
    }

    /// Whether a read takes so little time that a thread which serves connections may make it. Reads of a store
    /// that is reached over a network wait for it, and must not be made on a thread of an async runtime.
    fn reads_inline(&self) -> bool {
        true
    }

    /// Whether other processes may read and write the store at the same time. What this process caches of it is
    /// then compared with the heads that come with every read.
    fn is_shared(&self) -> bool {
        false
    }

    /// The time of the store in microseconds since 1970, where several processes must agree on it; `None` if
    /// the clock of this process is the only one.
    fn now_us(&self) -> Result<Option<u64>, StorageError> {
        Ok(None)
    }

    /// Why the store refuses writes at this time, if it does; reads go on.
    fn writable(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// The heads of shards, in the order asked for; `None` for a shard that does not exist. They show
    /// every commit that was answered before the call.
    fn heads(&self, shards: &[ShardId]) -> Result<Vec<Option<Head>>, StorageError>;

    /// The last LSN of a shard.
    fn lsn(&self, shard: ShardId) -> Result<Lsn, StorageError> {
        let head = self.heads(&[shard])?.into_iter().next().flatten();
        head.map(|head| head.lsn).ok_or(StorageError::Gone { epoch: None })
    }

    /// The last LSN of a shard, or an earlier one that is not below `least`: whether a shard is as far as
    /// that, which a process may know without asking.
    fn lsn_at_least(&self, shard: ShardId, _least: Lsn) -> Result<Lsn, StorageError> {
        self.lsn(shard)
    }

    /// Waits until the shard has an LSN after `after` or the time is over, and returns the LSN it
    /// has then. A hint: callers also poll.
    fn watch(&self, shard: ShardId, after: Lsn, timeout_ms: u64) -> Result<Lsn, StorageError>;

    /// Makes a shard at the given epoch, [`ShardState::Building`]; no error if it exists at that epoch. The
    /// commit that names it opens it ([`Part::head`]). When a store is opened that no other process can be
    /// using, shards that were being made are [`ShardState::Dropped`], and closed ones are open.
    fn create_shard(&self, shard: ShardId, epoch: Epoch) -> Result<(), StorageError>;

    /// Makes a shard that takes commits at once, because nothing has to name it; no error if it exists at
    /// that epoch.
    fn create_open_shard(&self, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
        self.create_shard(shard, epoch)?;
        let change = HeadChange::state(ShardState::Building, ShardState::Open, epoch);
        let commit = Commit::new(vec![Part::of_head(shard, epoch, change)]);
        match self.heads(&[shard])?.first() {
            Some(Some(head)) if head.state == ShardState::Building => match self.commit(commit) {
                // Another process has opened it.
                Ok(_) | Err(StorageError::Gone { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            _ => Ok(()),
        }
    }

    /// Removes a shard with everything in it; no error if it is not there. [`StorageError::Gone`] if it is
    /// open or closed, and so may be in use: [`Store::retire_shard`] comes first.
    fn drop_shard(&self, shard: ShardId) -> Result<(), StorageError>;

    /// Takes a shard out of use, whatever its state: it takes no commits, and may be dropped.
    fn retire_shard(&self, shard: ShardId) -> Result<(), StorageError> {
        let Some(head) = self.heads(&[shard])?.into_iter().next().flatten() else { return Ok(()) };
        if head.state.may_be_dropped() {
            return Ok(());
        }
        let change = HeadChange::state(head.state, ShardState::Dropped, head.epoch);
        self.commit(Commit::new(vec![Part::of_head(shard, head.epoch, change)])).map(drop)
    }

    /// Every shard with its head.
    fn shards(&self) -> Result<Vec<(ShardId, Head)>, StorageError>;

    /// From now on, and as long as the journal is held, what commits do to a shard is added to it, those of
    /// other processes too. Whatever a snapshot taken later lacks, the journal has. [`StorageError::JournalInUse`] if
    /// another journal of the shard is in use.
    fn journal(&self, shard: ShardId, bytes_max: usize) -> Result<Arc<dyn Journal>, StorageError>;

    /// Writes entries, each with its version, into a shard that is being made, without preconditions;
    /// durable when it returns. [`StorageError::NotEmpty`] if the shard has another state.
    fn copy_into(&self, shard: ShardId, entries: &[Copied]) -> Result<(), StorageError>;

    /// Makes the sizes of ranges known that only memory holds. Nothing depends on it for durability.
    fn flush(&self) -> Result<(), StorageError>;

    /// Sizes, estimated.
    fn stats(&self, shard: ShardId) -> Result<ShardStats, StorageError>;

    /// What the engine can do because it runs in this process, on files of its own.
    fn embedded(&self) -> Option<&dyn EmbeddedStore> {
        None
    }
}

/// What only an engine in this process can do. For every operation there is a way that works on any
/// [`Store`]: [`copy_run`](crate::copy_run::copy_run) and [`checkpoint`](crate::checkpoint::checkpoint)
/// choose.
pub trait EmbeddedStore {
    /// Begins a run of sorted entries of one space into a shard that is being made;
    /// [`StorageError::NotEmpty`] if it has another state. Between the first and the last key of the run the
    /// shard has nothing, and gets nothing before the run is finished.
    fn copy_run(&self, shard: ShardId, space: Space)
    -> Result<Box<dyn CopyRun + '_>, StorageError>;

    /// Writes a consistent copy of the whole store into a folder that does not exist yet.
    fn checkpoint(&self, into: &Path) -> Result<(), StorageError>;
}
