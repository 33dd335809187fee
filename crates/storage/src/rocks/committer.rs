//! The committer: the one thread that writes. It takes a group of commits from the queue, validates
//! them, writes one batch, syncs it once, publishes the LSNs and answers the callers. After a failed
//! write it refuses all further ones: the system may have dropped the pages of a sync that failed,
//! and a second sync would report success without them.

use std::sync::Arc;

use orrery_types::stopwatch::Stopwatch;
use orrery_types::{Epoch, Lsn, ShardId};
use rocksdb::{ErrorKind, WriteBatch, WriteOptions};

use super::commit_queue::{Answer, GroupWindow, Request, Work};
use super::layout::{self, Header};
use super::validation::{GroupValidator, ShardUpdate};
use super::write_sequence::WriteNumber;
use super::{Core, Shards, disk_space};
use crate::shard_head::ShardHead;
use crate::{Commit, Space, StorageError};

pub(super) fn run(core: &Core) {
    // However this thread ends, no caller may wait for it afterwards.
    let _guard = AbandonOnExit(core);
    let mut window = GroupWindow::default();
    while let Some(group) = core.queue.take(window) {
        let size = group.len();
        let watch = Stopwatch::start();
        process(core, group);
        window = GroupWindow::after(size + core.queue.len(), watch.elapsed());
    }
}

struct AbandonOnExit<'c>(&'c Core);

impl Drop for AbandonOnExit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            fail(self.0, "the committer panicked");
        }
        self.0.queue.abandon();
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
            Work::Fence(shard, epoch) => fence(core, shard, epoch),
            Work::Drop(shard) => drop_shard(core, shard, write_number),
            Work::Freeze(shard, frozen) => core.head(shard).map(|p| p.freeze(frozen)),
            Work::Advance(shard, lsn) => advance(core, shard, lsn, write_number),
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
    let answers = validate_and_write(core, &commits, size_bytes);
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

fn validate_and_write(core: &Core, commits: &[&Commit], size_bytes: usize) -> Vec<Answer> {
    if let Err(refused) = core.refuse_if_failed() {
        return commits.iter().map(|_| Err(refused.clone())).collect();
    }
    let mut validator = GroupValidator::new(core, commits, size_bytes);
    let mut answers: Vec<Answer> = commits.iter().map(|commit| validator.add(commit)).collect();
    if answers.iter().all(Result::is_err) {
        return answers;
    }
    let (batch, updates) = validator.finish();
    if updates.is_empty() {
        // Nothing to write: the preconditions were tested against what is durable already.
        return answers;
    }
    let accepted = commits.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    let write_number = core.sequence.start();
    core.row_cache.invalidate(write_number, accepted.map(|(commit, _)| *commit));
    // Validating the group again gives the same result: no other thread changes shards, and
    // validation changes nothing that it reads.
    let again = || {
        let mut validator = GroupValidator::new(core, commits, size_bytes);
        let mut pairs = commits.iter().zip(&answers);
        let same = pairs.all(|(commit, first)| validator.add(commit) == *first);
        same.then(|| validator.finish().0)
    };
    let written = write(core, batch, again);
    match written {
        Ok(()) => {
            updates.iter().for_each(ShardUpdate::publish);
            core.sequence.complete(write_number);
        }
        Err(failure) => {
            let accepted = answers.iter_mut().filter(|answer| answer.is_ok());
            accepted.for_each(|answer| *answer = Err(failure.clone()));
            if core.failed.get().is_none() {
                core.sequence.complete(write_number);
            }
        }
    }
    answers
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
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options.set_no_slowdown(true);
    loop {
        let Err(error) = core.db.write_opt(batch, &options) else { return Ok(()) };
        if error.kind() != ErrorKind::Incomplete {
            let reason = error.to_string();
            fail(core, &reason);
            return Err(StorageError::Unknown(reason.into()));
        }
        // A write that is only delayed waits inside the database, which keeps the account.
        options.set_no_slowdown(disk_space::is_stopped(core));
        disk_space::wait(core)?;
        let Some(next) = again() else {
            let reason = "a read failed while the database was stalled; nothing was written";
            return Err(StorageError::Io(reason.into()));
        };
        batch = next;
    }
}

fn fail(core: &Core, reason: &str) {
    tracing::error!(reason, "a write failed; the store refuses writes until it is reopened");
    let _ = core.failed.set(reason.into());
}

fn write_header(core: &Core, shard: ShardId, header: Header) -> Result<(), StorageError> {
    let batch = || {
        let mut batch = WriteBatch::default();
        batch.put_cf(core.cf(Space::Meta), layout::header_key(shard), header.encode());
        batch
    };
    write(core, batch(), || Some(batch()))
}

fn create(core: &Core, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
    if let Ok(existing) = core.head(shard) {
        let current = existing.epoch();
        let same = current == epoch;
        return if same { Ok(()) } else { Err(StorageError::Gone { epoch: Some(current) }) };
    }
    write_header(core, shard, Header { epoch, lsn: Lsn(0) })?;
    let head = Arc::new(ShardHead::new(epoch, Lsn(0)));
    change_shards(core, |shards| drop(shards.insert(shard, head)));
    Ok(())
}

fn change_shards(core: &Core, change: impl FnOnce(&mut Shards)) {
    let mut shards = Shards::clone(&core.shards.load());
    change(&mut shards);
    core.shards.store(Arc::new(shards));
}

fn fence(core: &Core, shard: ShardId, epoch: Epoch) -> Result<(), StorageError> {
    let head = core.head(shard)?;
    let current = head.epoch();
    if epoch <= current {
        let same = epoch == current;
        return if same { Ok(()) } else { Err(StorageError::Gone { epoch: Some(current) }) };
    }
    write_header(core, shard, Header { epoch, lsn: head.lsn() })?;
    head.fence(epoch);
    Ok(())
}

fn drop_shard(core: &Core, shard: ShardId, number: WriteNumber) -> Result<(), StorageError> {
    let Ok(head) = core.head(shard) else { return Ok(()) };
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

fn advance(core: &Core, shard: ShardId, lsn: Lsn, number: WriteNumber) -> Result<(), StorageError> {
    let head = core.head(shard)?;
    if head.lsn() > lsn {
        return Err(StorageError::NotEmpty);
    }
    core.row_cache.invalidate_all(number);
    // Written even if the LSN is current already: the caller waits for the sync.
    write_header(core, shard, Header { epoch: head.epoch(), lsn })?;
    if head.lsn() < lsn {
        head.advance(lsn);
    }
    Ok(())
}
