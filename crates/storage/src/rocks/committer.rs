//! The committer: a thread that takes a group of commits from the queue, validates them, writes one
//! batch, syncs it once, publishes the LSNs and answers the callers. A commit that finds no other under
//! way is written by its own thread in the same manner, which saves two changes of threads. One thread
//! writes at a time, under the [`CommitLock`]. After a failed write all further ones are refused: the
//! system may have dropped the pages of a sync that failed, and a second sync would report success
//! without them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orrery_types::stopwatch::Stopwatch;
use orrery_types::{Epoch, Lsn, ShardId};
use rocksdb::{ErrorKind, WriteBatch, WriteOptions};

use super::commit_queue::{Answer, GroupWindow, Request, WindowEnd, Work};
use super::layout::{self, Header};
use super::row_cache::WriteNumber;
use super::validation::{GroupValidator, ShardUpdate};
use super::{Core, Shards, disk_space};
use crate::commit_log::CommitLog;
use crate::shard_head::ShardHead;
use crate::{Commit, Part, ShardState, Space, StorageError};

/// Held by the one thread that writes, from validation to the answers. It guards the window of the next
/// group.
#[derive(Debug, Default)]
pub(super) struct CommitLock(Mutex<GroupWindow>);

impl CommitLock {
    fn lock(&self) -> MutexGuard<'_, GroupWindow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, unless another thread writes or other writers are expected to come.
    fn try_alone(&self) -> Option<MutexGuard<'_, GroupWindow>> {
        self.0.try_lock().ok().filter(|window| window.writers <= 1)
    }
}

pub(super) fn run(core: &Core) {
    // However this thread ends, no caller may wait for it afterwards.
    let _abandon = AbandonOnExit(core);
    let _fail = FailOnPanic(core);
    while core.queue.wait() {
        let mut window = core.commit_lock.lock();
        let (group, end) = core.queue.take(*window);
        let size = group.len();
        let watch = Stopwatch::start();
        process(core, group);
        *window = window.after(end, size + core.queue.len(), watch.elapsed());
    }
}

/// Commits on the calling thread; the commit comes back, and nothing was written, if another one is
/// under way or the database delays writes. So the caller waits for one write and its sync, and
/// for no other writer.
pub(super) fn try_commit(core: &Core, commit: Commit, size_bytes: usize) -> Result<Answer, Commit> {
    let Some(mut window) = core.commit_lock.try_alone() else { return Err(commit) };
    if !core.queue.is_idle() {
        return Err(commit);
    }
    let _fail = FailOnPanic(core);
    let watch = Stopwatch::start();
    let Some(mut answers) = validate_and_write(core, &[&commit], size_bytes, OnStall::GiveUp)
    else {
        return Err(commit);
    };
    let answer = answers.pop().expect("one commit has one answer");
    if let Ok(lsns) = &answer {
        record(core, &commit, lsns);
    }
    *window = window.after(WindowEnd::NotOpened, 1 + core.queue.len(), watch.elapsed());
    Ok(answer)
}

struct AbandonOnExit<'c>(&'c Core);

impl Drop for AbandonOnExit<'_> {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}

/// Ends all writing if the thread that writes panics: what it has written is unknown.
struct FailOnPanic<'c>(&'c Core);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            fail(self.0, "the committer panicked");
            self.0.queue.abandon();
        }
    }
}

/// Adjacent commits share a batch; an operation on a whole shard has a batch of its own.
fn process(core: &Core, group: Vec<Request>) {
    let mut commits: Vec<Request> = Vec::with_capacity(group.len());
    for request in group {
        if matches!(request.work, Work::Commit(_)) {
            commits.push(request);
            continue;
        }
        commit_all(core, std::mem::take(&mut commits));
        let write_number = core.sequence.start();
        let answer = match request.work {
            Work::Create(shard, epoch) => create(core, shard, epoch),
            Work::Drop(shard) => drop_shard(core, shard, write_number),
            Work::Commit(_) => unreachable!("commits were collected above"),
        };
        if core.failed.get().is_none() {
            core.sequence.complete(write_number);
        }
        request.answer(answer.map(|()| Vec::new()));
    }
    commit_all(core, commits);
}

fn commit_all(core: &Core, requests: Vec<Request>) {
    if requests.is_empty() {
        return;
    }
    let size_bytes = requests.iter().map(Request::size_bytes).sum();
    let commits: Vec<&Commit> = requests.iter().map(commit_of).collect();
    let answers = validate_and_write(core, &commits, size_bytes, OnStall::Wait);
    let answers = answers.expect("it has waited for the end of a stall");
    for (request, answer) in requests.into_iter().zip(answers) {
        if let Ok(lsns) = &answer {
            record(core, commit_of(&request), lsns);
        }
        request.answer(answer);
    }
}

/// Adds a commit to the journals of its shards.
fn record(core: &Core, commit: &Commit, lsns: &[Lsn]) {
    for (part, lsn) in commit.parts.iter().zip(lsns) {
        if let Ok(head) = core.head(part.shard) {
            head.record(part, *lsn);
        }
    }
}

fn commit_of(request: &Request) -> &Commit {
    match &request.work {
        Work::Commit(commit) => commit,
        _ => unreachable!("only commits are gathered"),
    }
}

/// Validates commits and writes those that pass, as one batch. `None` if the database delays writes and
/// the caller does not wait: nothing was written.
fn validate_and_write(
    core: &Core,
    commits: &[&Commit],
    size_bytes: usize,
    on_stall: OnStall,
) -> Option<Vec<Answer>> {
    if let Err(refused) = core.refuse_if_failed() {
        return Some(commits.iter().map(|_| Err(refused.clone())).collect());
    }
    let mut log = core.log();
    let mut validator = GroupValidator::new(core, commits, size_bytes);
    let mut answers: Vec<Answer> =
        commits.iter().map(|commit| add(&mut validator, &log, commit)).collect();
    if answers.iter().all(Result::is_err) {
        return Some(answers);
    }
    let (batch, updates) = validator.finish();
    if updates.is_empty() {
        // Nothing to write: the preconditions were tested against what is durable already.
        return Some(answers);
    }
    let accepted = commits.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    let write_number = core.sequence.start();
    if updates.iter().any(ShardUpdate::ends_copy) {
        // What was copied into the shard went past the cache.
        core.row_cache.invalidate_all(write_number);
    }
    core.row_cache.invalidate(write_number, accepted.map(|(commit, _)| *commit));
    // Validating the group again gives the same result: no other thread changes shards, and
    // validation changes nothing that it reads.
    let again = || {
        let mut validator = GroupValidator::new(core, commits, size_bytes);
        let mut pairs = commits.iter().zip(&answers);
        let same = pairs.all(|(commit, first)| add(&mut validator, &log, commit) == *first);
        same.then(|| validator.finish().0)
    };
    // Heads are changed on a full disk too: what was closed can be opened again.
    let has_writes = commits.iter().flat_map(|commit| &commit.parts).any(Part::takes_lsn);
    let room = if has_writes { disk_space::check(core) } else { Ok(()) };
    let written = room.and_then(|()| match on_stall {
        OnStall::Wait => write_anyway(core, batch, again).map(|()| Written::All),
        OnStall::GiveUp => write_once(core, batch, true),
    });
    match written {
        Ok(Written::All) => {
            updates.iter().for_each(ShardUpdate::publish);
            core.sequence.complete(write_number);
            for (commit, answer) in commits.iter().zip(&answers) {
                if let Ok(lsns) = answer {
                    log.record(commit.id, lsns);
                }
            }
        }
        Ok(Written::Nothing) => {
            core.sequence.complete(write_number);
            return None;
        }
        Err(failure) => {
            let pairs = commits.iter().zip(&mut answers).filter(|(_, answer)| answer.is_ok());
            pairs.for_each(|(commit, answer)| *answer = Err(of_commit(&failure, commit)));
            if core.failed.get().is_none() {
                core.sequence.complete(write_number);
            }
        }
    }
    Some(answers)
}

/// What to do while the database stops or delays writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnStall {
    Wait,
    GiveUp,
}

/// How much of a batch was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    /// The database stops or delays writes.
    Nothing,
}

/// Adds a commit to a group, unless it was resolved as one that never happens.
fn add<'g>(validator: &mut GroupValidator<'g>, log: &CommitLog, commit: &'g Commit) -> Answer {
    if log.is_refused(commit.id) {
        return Err(StorageError::refused(commit.id));
    }
    validator.add(commit)
}

/// The failure of a group as the answer to one of its commits.
fn of_commit(failure: &StorageError, commit: &Commit) -> StorageError {
    match failure {
        StorageError::Unknown(lost) => StorageError::unknown(Some(commit.id), lost.reason.clone()),
        other => other.clone(),
    }
}

/// Writes and syncs a batch; a failure ends all writing. While the database has stopped writes,
/// nothing is written; `again` builds the batch again once it accepts them.
fn write(
    core: &Core,
    batch: WriteBatch,
    again: impl Fn() -> Option<WriteBatch>,
) -> Result<(), StorageError> {
    core.refuse_if_failed()?;
    disk_space::check(core)?;
    write_anyway(core, batch, again)
}

/// The same on a disk that is nearly full, for writes that free space.
fn write_anyway(
    core: &Core,
    mut batch: WriteBatch,
    again: impl Fn() -> Option<WriteBatch>,
) -> Result<(), StorageError> {
    core.refuse_if_failed()?;
    let mut no_slowdown = true;
    while write_once(core, batch, no_slowdown)? == Written::Nothing {
        // A write that is only delayed waits inside the database, which keeps the account.
        no_slowdown = disk_space::is_stopped(core);
        disk_space::wait(core)?;
        let Some(next) = again() else {
            let reason = "a read failed while the database was stalled; nothing was written";
            return Err(StorageError::Io(reason.into()));
        };
        batch = next;
    }
    Ok(())
}

/// Writes and syncs a batch. With `no_slowdown` it does not wait where the database stops or delays
/// writes.
fn write_once(core: &Core, batch: WriteBatch, no_slowdown: bool) -> Result<Written, StorageError> {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options.set_no_slowdown(no_slowdown);
    match core.write(batch, &options) {
        Ok(()) => Ok(Written::All),
        Err(error) if error.kind() == ErrorKind::Incomplete => Ok(Written::Nothing),
        Err(error) => {
            let reason = error.to_string();
            fail(core, &reason);
            Err(StorageError::unknown(None, reason))
        }
    }
}

fn fail(core: &Core, reason: &str) {
    tracing::error!(reason, "a write failed; the store refuses writes until it is reopened");
    let _ = core.failed.set(reason.into());
}

fn create(core: &Core, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
    if let Ok(existing) = core.head(shard) {
        let current = existing.epoch();
        let same = current == epoch;
        return if same { Ok(()) } else { Err(StorageError::Gone { epoch: Some(current) }) };
    }
    let (lsn, state) = (Lsn(0), ShardState::Building);
    let batch = || {
        let mut batch = WriteBatch::default();
        let header = Header { epoch, lsn, state }.encode();
        batch.put_cf(core.cf(Space::Meta), layout::header_key(shard), header);
        batch
    };
    write(core, batch(), || Some(batch()))?;
    let head = Arc::new(ShardHead::new(epoch, lsn, state));
    change_shards(core, |shards| drop(shards.insert(shard, head)));
    Ok(())
}

fn change_shards(core: &Core, change: impl FnOnce(&mut Shards)) {
    let mut shards = Shards::clone(&core.shards.load());
    change(&mut shards);
    core.shards.store(Arc::new(shards));
}

fn drop_shard(core: &Core, shard: ShardId, number: WriteNumber) -> Result<(), StorageError> {
    let Ok(head) = core.head(shard) else { return Ok(()) };
    head.may_be_dropped()?;
    let (from, to) = layout::shard_bounds(shard);
    let batch = || {
        let mut batch = WriteBatch::default();
        for space in Space::ALL {
            batch.delete_range_cf(core.cf(space), from, to);
        }
        batch.delete_cf(core.cf(Space::Meta), layout::header_key(shard));
        batch
    };
    core.row_cache.invalidate_all(number);
    write_anyway(core, batch(), || Some(batch()))?;
    change_shards(core, |shards| drop(shards.remove(&shard)));
    head.end();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::super::commit_queue::CommitQueue;
    use super::super::{RocksOptions, RocksStore};
    use super::*;
    use crate::{HeadChange, Precondition, Put, Store as _};

    const SHARD: ShardId = ShardId(1);
    const EPOCH: Epoch = Epoch(1);

    /// A store whose own committer has nothing to do, so that a test can process groups itself.
    fn store() -> (tempfile::TempDir, RocksStore) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        store.create_open_shard(SHARD, EPOCH).expect("a shard");
        (folder, store)
    }

    /// Creates an item.
    fn create(key: &str, epoch: Epoch) -> Work {
        let mut part = Part::new(SHARD, epoch);
        let (space, key) = (Space::Items, key.as_bytes().to_vec());
        part.preconditions = vec![Precondition::Absent { space, key: key.clone() }];
        part.puts = vec![Put { space, key, value: b"value".to_vec() }];
        Work::Commit(Commit::new(vec![part]))
    }

    /// Processes work as one group; the answers in the order of arrival.
    fn answers(core: &Core, group: Vec<Work>) -> Vec<Answer> {
        let queue = CommitQueue::default();
        let enqueue = |work| -> Receiver<Answer> {
            let (sender, receiver) = channel();
            queue.enqueue(work, 1, Box::new(move |a| sender.send(a).expect("the test listens")));
            receiver
        };
        let receivers: Vec<_> = group.into_iter().map(enqueue).collect();
        process(core, queue.take(GroupWindow::default()).0);
        receivers.into_iter().map(|answer| answer.recv().expect("an answer")).collect()
    }

    #[test]
    fn a_commit_sees_those_before_it_in_its_group() {
        let (_folder, store) = store();
        let group = vec![create("a", EPOCH), create("a", EPOCH), create("b", EPOCH)];
        let answers = answers(&store.core, group);
        assert_eq!(answers[0], Ok(vec![Lsn(1)]));
        assert!(matches!(answers[1], Err(StorageError::Conflict(_))), "{answers:?}");
        assert_eq!(answers[2], Ok(vec![Lsn(2)]), "a conflict takes no LSN");
        assert_eq!(store.core.head(SHARD).expect("a head").lsn(), Lsn(2));
    }

    #[test]
    fn a_group_of_conflicts_writes_nothing() {
        let (_folder, store) = store();
        answers(&store.core, vec![create("a", EPOCH)]);
        let sequence = store.core.db.latest_sequence_number();
        let answers = answers(&store.core, vec![create("a", EPOCH), create("a", EPOCH)]);
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        assert_eq!(store.core.db.latest_sequence_number(), sequence);
        assert_eq!(store.core.head(SHARD).expect("a head").lsn(), Lsn(1));
    }

    fn change(epoch: Epoch, change: HeadChange) -> Work {
        Work::Commit(Commit::new(vec![Part::of_head(SHARD, epoch, change)]))
    }

    #[test]
    fn an_epoch_separates_the_commits_before_it_from_those_after_it() {
        let (folder, store) = store();
        let next = Epoch(2);
        let raise = change(EPOCH, HeadChange::epoch(next));
        let group = vec![create("a", EPOCH), raise, create("b", EPOCH), create("c", next)];
        let answers = answers(&store.core, group);
        assert_eq!(answers[0], Ok(vec![Lsn(1)]));
        assert_eq!(answers[1], Ok(vec![Lsn(1)]), "it has no LSN of its own");
        assert_eq!(answers[2], Err(StorageError::Gone { epoch: Some(next) }));
        assert_eq!(answers[3], Ok(vec![Lsn(2)]));
        drop(store);
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).expect("a store");
        assert_eq!(store.core.head(SHARD).expect("a head").epoch(), next);
    }

    #[test]
    fn a_group_goes_through_the_states_of_a_shard_in_their_order() {
        let (_folder, store) = store();
        let (closed, open) = (ShardState::Closed, ShardState::Open);
        let close = change(EPOCH, HeadChange::state(open, closed, EPOCH));
        let reopen = change(
            EPOCH,
            HeadChange { least_lsn: Lsn(9), ..HeadChange::state(closed, open, EPOCH) },
        );
        let group = vec![create("a", EPOCH), close, create("b", EPOCH), reopen, create("c", EPOCH)];
        let answers = answers(&store.core, group);
        let gone = Err(StorageError::Gone { epoch: Some(EPOCH) });
        let lsn = |lsn| Ok(vec![Lsn(lsn)]);
        assert_eq!(answers, [lsn(1), lsn(1), gone, lsn(9), lsn(10)]);
    }

    #[test]
    fn a_dropped_shard_takes_no_commit_of_its_group() {
        let (_folder, store) = store();
        let retire = change(EPOCH, HeadChange::state(ShardState::Open, ShardState::Dropped, EPOCH));
        let group = vec![Work::Drop(SHARD), retire, Work::Drop(SHARD), create("a", EPOCH)];
        let answers = answers(&store.core, group);
        assert_eq!(answers[0], Err(StorageError::Gone { epoch: Some(EPOCH) }), "it is in use");
        assert_eq!(answers[2], Ok(vec![]));
        assert_eq!(answers[3], Err(StorageError::Gone { epoch: None }));
    }

    #[test]
    fn a_thread_that_panics_while_it_writes_ends_all_writing() {
        let (_folder, store) = store();
        let panicked = std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                let _window = store.core.commit_lock.lock();
                let _fail = FailOnPanic(&store.core);
                panic!("while it writes");
            });
            writes.join()
        });
        assert!(panicked.is_err());
        let Work::Commit(commit) = create("a", EPOCH) else { unreachable!("it is a commit") };
        let refused = |answer: Result<crate::Committed, StorageError>| {
            assert!(matches!(answer, Err(StorageError::ReadOnly(_))), "{answer:?}");
        };
        refused(store.commit(commit.clone()));
        refused(store.try_commit(commit).expect("a failed store answers at once"));
        assert!(store.core.queue.submit(create("b", EPOCH), 1).is_err(), "the queue is closed");
    }

    #[test]
    fn after_a_failed_write_every_request_is_refused() {
        let (_folder, store) = store();
        fail(&store.core, "the disk failed");
        let raise = change(EPOCH, HeadChange::epoch(Epoch(2)));
        let answers = answers(&store.core, vec![create("a", EPOCH), raise]);
        for answer in answers {
            assert!(matches!(answer, Err(StorageError::ReadOnly(_))), "{answer:?}");
        }
        assert_eq!(store.core.head(SHARD).expect("a head").epoch(), EPOCH);
    }
}
