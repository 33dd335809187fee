//! The threads that write, each with a connection and a queue of its own. The commits of this node to a shard go
//! through one of them, which sends those that wait in groups: while one group is on its way the next collects. Other
//! nodes write beside it; the lock of the head orders all.
//!
//! An answer that is lost with the connection is resolved by the id of the commit before anybody is answered. A
//! commit that did not happen is sent again under another id.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_storage::{
    Commit, CommitId, FailedPrecondition, HeadChange, OnCommitted, Part, Resolution, ShardState,
    StorageError,
};
use orrery_types::limits::{
    POSTGRES_LOCKED_MS_MAX, POSTGRES_RESOLVE_MS_MAX, POSTGRES_TRIM_COMMITS, POSTGRES_WAIT_MS_MAX,
};
use orrery_types::stopwatch::Stopwatch;
use orrery_types::{Lsn, ShardId};
use postgres::types::ToSql;

use crate::connection::ServerConnection;
use crate::failure::StatementFailure;
use crate::group::{Arrays, Overlap, signed};
use crate::heads::{shard_number, state_number};
use crate::store::{Core, head_epoch};

pub(crate) type CommitAnswer = Result<Vec<Lsn>, StorageError>;

/// Pauses between attempts, while the server cannot be reached or asks to come back.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// How often a commit that was lost with its connection is sent again.
const RESENDS_MAX: usize = 5;
/// Attempts at once after a deadlock or a lock that was not granted in time.
const ATTEMPTS_MAX: usize = 5;

/// A commit that waits. If it is dropped without an answer, as when its thread panics, its outcome is unknown.
pub(crate) struct CommitRequest {
    commit: Commit,
    size_bytes: usize,
    done: Option<OnCommitted>,
}

impl CommitRequest {
    pub(crate) fn new(commit: Commit, size_bytes: usize, done: OnCommitted) -> Self {
        Self { commit, size_bytes, done: Some(done) }
    }

    fn answer(mut self, answer: CommitAnswer) {
        if let Some(done) = self.done.take() {
            done(answer.map(|lsns| orrery_storage::Committed { lsns }));
        }
    }

    /// Whether it may share a group: it has one part, which writes and leaves the head as it is.
    fn groups(&self) -> Option<&Part> {
        match &self.commit.parts[..] {
            [part] if part.head.is_none() && part.takes_lsn() => Some(part),
            _ => None,
        }
    }
}

impl Drop for CommitRequest {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            done(Err(StorageError::unknown(Some(self.commit.id), "the committer ended")));
        }
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<CommitRequest>,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, request: CommitRequest) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return request.answer(Err(StorageError::ReadOnly("the store is closed".into())));
        }
        state.waiting.push_back(request);
        drop(state);
        self.arrived.notify_one();
    }

    /// All that waits; `None` when the queue is closed and empty.
    fn take(&self) -> Option<VecDeque<CommitRequest>> {
        let mut state = self.lock();
        while state.waiting.is_empty() && !state.closed {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let waiting = std::mem::take(&mut state.waiting);
        if waiting.is_empty() { None } else { Some(waiting) }
    }

    /// Refuses new work; what waits is still done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }
}

/// Starts a thread that serves a queue.
pub(crate) fn start(core: &Arc<Core>, queue: &Arc<Queue>) -> std::io::Result<JoinHandle<()>> {
    let (core, queue) = (core.clone(), queue.clone());
    std::thread::Builder::new().name("committer".into()).spawn(move || {
        let _close = CloseOnExit(&queue);
        let mut committer = Committer { core: &core, connection: None };
        while let Some(waiting) = queue.take() {
            committer.process(waiting);
        }
    })
}

/// However a committer ends, nobody may wait for it afterwards.
struct CloseOnExit<'q>(&'q Queue);

impl Drop for CloseOnExit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}

struct Committer<'c> {
    core: &'c Core,
    connection: Option<ServerConnection>,
}

impl Committer<'_> {
    fn process(&mut self, mut waiting: VecDeque<CommitRequest>) {
        while let Some(first) = waiting.pop_front() {
            let group = match first.groups() {
                Some(_) => take_group(first, &mut waiting),
                None => vec![first],
            };
            let answers = match &group[..] {
                [alone] => vec![self.commit_one(&alone.commit, 0)],
                many => self.commit_group(&many.iter().map(|r| &r.commit).collect::<Vec<_>>()),
            };
            let home = group.first().and_then(|request| request.groups()).map(|part| part.shard);
            for (request, answer) in group.into_iter().zip(answers) {
                request.answer(answer);
            }
            if let Some(shard) = home {
                self.trim(shard);
            }
        }
    }

    /// Commits a group.
    fn commit_group(&mut self, commits: &[&Commit]) -> Vec<CommitAnswer> {
        let Some(part) = commits.first().and_then(|commit| commit.parts.first()) else {
            return vec![];
        };
        let mut arrays = Arrays::default();
        for commit in commits {
            commit.parts.iter().for_each(|part| arrays.add(commit.id, part));
        }
        let sent = self.with_connection(|connection| arrays.send(connection, part, true));
        match sent {
            Ok(rows) => {
                let answers = commits.iter().zip(&rows).map(|(commit, row)| member(commit, row));
                let answers: Vec<CommitAnswer> = answers.collect();
                commits
                    .iter()
                    .zip(&answers)
                    .for_each(|(commit, answer)| self.heard(commit, answer));
                answers
            }
            // Each is looked at by itself: it may have happened, or another one may be the reason.
            Err(StatementFailure::Connection(reason)) => {
                let resolved = commits.iter().map(|commit| self.resolve_lost(commit, &reason));
                let resolved: Vec<_> = resolved.collect();
                let again = commits.iter().zip(resolved);
                let answers = again.map(|(commit, answer)| {
                    let answer = answer.unwrap_or_else(|| self.again(commit, 0));
                    self.heard(commit, &answer);
                    answer
                });
                answers.collect()
            }
            Err(StatementFailure::Late { .. }) => {
                commits.iter().map(|commit| self.commit_one(commit, 0)).collect()
            }
            Err(failure) => commits.iter().map(|_| Err(failure.clone().into_error())).collect(),
        }
    }

    /// Commits by itself what does not share a group. `resends` counts how often it was sent before.
    fn commit_one(&mut self, commit: &Commit, resends: usize) -> CommitAnswer {
        let answer = match self.with_connection(|connection| send_parts(connection, commit)) {
            Ok(outcome) => outcome,
            Err(StatementFailure::Connection(reason)) => {
                let Some(answer) = self.resolve_lost(commit, &reason) else {
                    return self.again(commit, resends);
                };
                answer
            }
            Err(StatementFailure::Late { forgotten }) => {
                // Another node gives higher ids, because its clock or the server's was wrong.
                forgotten.into_iter().for_each(CommitId::raise);
                Err(StorageError::refused(commit.id))
            }
            Err(failure) => Err(failure.into_error()),
        };
        self.heard(commit, &answer);
        answer
    }

    /// Wakes who watches the shards of a commit, before it is answered.
    fn heard(&self, commit: &Commit, answer: &CommitAnswer) {
        for (part, lsn) in commit.parts.iter().zip(answer.iter().flatten()) {
            self.core.known.saw(part.shard, *lsn);
        }
    }

    /// Sends a commit that did not happen again, under another id.
    fn again(&mut self, commit: &Commit, resends: usize) -> CommitAnswer {
        if resends >= RESENDS_MAX {
            let reason = "the connection to PostgreSQL was lost several times";
            return Err(StorageError::NotCommitted(reason.into()));
        }
        let commit = Commit { id: CommitId::new(), parts: commit.parts.clone() };
        self.commit_one(&commit, resends + 1)
    }

    /// What became of a commit whose answer was lost; `None` if it did not happen.
    fn resolve_lost(&mut self, commit: &Commit, reason: &str) -> Option<CommitAnswer> {
        tracing::warn!(reason, id = %commit.id, "the answer to a commit was lost");
        let shards: Vec<ShardId> = commit.parts.iter().map(|part| part.shard).collect();
        if commit.parts.iter().all(Part::only_validates) {
            return None;
        }
        let watch = Stopwatch::start();
        let mut pause = PAUSE_FIRST;
        loop {
            match self.core.resolve_now(&shards, commit.id) {
                Ok(Resolution::Committed(lsns)) => return Some(Ok(lsns)),
                Ok(Resolution::Never) => return None,
                Err(_) if watch.elapsed() < Duration::from_millis(POSTGRES_RESOLVE_MS_MAX) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Ok(Resolution::NotKnown) | Err(_) => break,
            }
        }
        Some(Err(StorageError::unknown(Some(commit.id), reason)))
    }

    /// Runs a statement, again if it certainly had no effect and may have one.
    fn with_connection<T>(
        &mut self,
        mut work: impl FnMut(&mut ServerConnection) -> Result<T, postgres::Error>,
    ) -> Result<T, StatementFailure> {
        let watch = Stopwatch::start();
        let (mut pause, mut attempts) = (PAUSE_FIRST, 0);
        loop {
            let sent = match self.connected() {
                Ok(connection) => work(connection).map_err(|error| StatementFailure::of(&error)),
                // Nothing was sent.
                Err(error) => Err(StatementFailure::Later(
                    StatementFailure::of(&error).into_error().to_string().into(),
                )),
            };
            let has_time = watch.elapsed() < Duration::from_millis(POSTGRES_WAIT_MS_MAX);
            match sent {
                Err(StatementFailure::Again(_)) if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    std::thread::sleep(jittered(pause));
                }
                Err(StatementFailure::Later(_)) if has_time => {
                    self.connection = None;
                    std::thread::sleep(jittered(pause));
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                other => {
                    if matches!(other, Err(StatementFailure::Connection(_))) {
                        self.connection = None;
                    }
                    return other;
                }
            }
        }
    }

    fn connected(&mut self) -> Result<&mut ServerConnection, postgres::Error> {
        if self.connection.as_ref().is_none_or(|connection| !connection.is_usable()) {
            self.connection = Some(self.core.connector.connect()?);
        }
        Ok(self.connection.as_mut().expect("it was made above"))
    }

    /// Trims the commit log of a shard, every so many commits. If that fails, the next ones try again.
    fn trim(&mut self, id: ShardId) {
        let Some(shard) = self.core.known.find(id) else { return };
        let lsn = shard.lsn().0;
        if lsn / POSTGRES_TRIM_COMMITS == shard.trimmed_at(lsn) / POSTGRES_TRIM_COMMITS {
            return;
        }
        let (number, kept) = (shard_number(id), signed(self.core.log_commits));
        let trimmed = self.with_connection(|connection| {
            connection.query("SELECT kv_trim($1, $2)", &[&number, &kept])
        });
        if let Err(failure) = trimmed {
            tracing::warn!(error = %failure.into_error(), shard = id.0, "a commit log was not trimmed");
        }
    }
}

/// A pause that is not the same on two nodes, so that they do not meet again.
fn jittered(pause: Duration) -> Duration {
    let share = RandomState::new().hash_one(0) % 100;
    pause.mul_f64(0.5 + f64::from(u32::try_from(share).unwrap_or_default()) / 100.0)
}

/// The requests that share a group with the first, taken out of those that wait.
fn take_group(first: CommitRequest, waiting: &mut VecDeque<CommitRequest>) -> Vec<CommitRequest> {
    let mut overlap = Overlap::default();
    let Some(part) = first.groups() else { return vec![first] };
    let home = (part.shard, part.epoch);
    overlap.admit(part, first.size_bytes);
    let mut members = Vec::new();
    for (nth, request) in waiting.iter().enumerate() {
        let part = request.groups().filter(|part| (part.shard, part.epoch) == home);
        if part.is_some_and(|part| overlap.admit(part, request.size_bytes)) {
            members.push(nth);
        }
    }
    drop(overlap);
    let mut group = Vec::with_capacity(1 + members.len());
    group.push(first);
    let mut members = members.into_iter().peekable();
    for (nth, request) in std::mem::take(waiting).into_iter().enumerate() {
        match members.next_if_eq(&nth) {
            Some(_) => group.push(request),
            None => waiting.push_back(request),
        }
    }
    group
}

/// The answer to one member of a group.
fn member(commit: &Commit, row: &postgres::Row) -> CommitAnswer {
    answer_of(commit.parts.first(), row)
}

fn answer_of(part: Option<&Part>, row: &postgres::Row) -> CommitAnswer {
    let (lsn, failed): (Option<i64>, Option<i32>) = (row.get(1), row.get(2));
    if let Some(lsn) = lsn {
        return Ok(vec![Lsn(u64::try_from(lsn).unwrap_or_default())]);
    }
    let place = failed.and_then(|place| usize::try_from(place).ok());
    let broken = || StorageError::Io("the server named a precondition that was not sent".into());
    let part = part.ok_or_else(broken)?;
    let failed = place.and_then(|place| part.preconditions.get(place)).ok_or_else(broken)?;
    let (shard, precondition) = (part.shard, failed.clone());
    Err(StorageError::Conflict(Box::new(FailedPrecondition { shard, precondition })))
}

/// Validates what a change requires of a head, and makes it such that the function that commits takes the part:
/// open and at its new epoch. Nobody sees it so, because the transaction goes on.
fn begin_head_change(
    connection: &mut ServerConnection,
    part: &Part,
    change: &HeadChange,
) -> Result<Result<(), StorageError>, postgres::Error> {
    let (number, from) = (shard_number(part.shard), state_number(change.from));
    let (before, after) = (signed(part.epoch.0), signed(change.epoch.0));
    // The function adds one if the part writes.
    let least = signed(change.least_lsn.0.saturating_sub(u64::from(part.takes_lsn())));
    let text = "UPDATE head SET epoch = $3, state = 1, lsn = greatest(lsn, $5) \
        WHERE shard = $1 AND epoch = $2 AND state = $4 RETURNING shard";
    let parameters: &[&(dyn ToSql + Sync)] = &[&number, &before, &after, &from, &least];
    if !connection.query(text, parameters)?.is_empty() {
        return Ok(Ok(()));
    }
    Ok(Err(StorageError::Gone { epoch: head_epoch(connection, number)? }))
}

/// Gives the head the state that it is to have, and the control LSN of a part that writes nothing.
fn end_head_change(
    connection: &mut ServerConnection,
    part: &Part,
    change: &HeadChange,
) -> Result<(), postgres::Error> {
    if change.to != ShardState::Open || part.sets_control {
        let (number, to) = (shard_number(part.shard), state_number(change.to));
        let text = "UPDATE head SET state = $2, control = CASE WHEN $3 THEN lsn ELSE control END \
            WHERE shard = $1";
        connection.query(text, &[&number, &to, &part.sets_control])?;
    }
    Ok(())
}

/// Sends a part with its changes of the head.
fn send_part(
    connection: &mut ServerConnection,
    commit: &Commit,
    part: &Part,
) -> Result<CommitAnswer, postgres::Error> {
    if let Some(change) = &part.head
        && let Err(error) = begin_head_change(connection, part, change)?
    {
        return Ok(Err(error));
    }
    let mut arrays = Arrays::default();
    arrays.add(commit.id, part);
    let writes = commit.parts.iter().any(|part| !part.only_validates());
    let rows = arrays.send(connection, part, writes)?;
    if let Some(change) = &part.head {
        end_head_change(connection, part, change)?;
    }
    Ok(rows.first().map_or_else(|| Ok(vec![]), |row| answer_of(Some(part), row)))
}

/// Sends the parts of a commit in one transaction. The heads are locked first, in ascending order: everybody does,
/// so nobody waits in a circle. A conflict rolls all of it back. The server ends the session of a node that stops in
/// the middle, because all others wait for the locks.
fn send_parts(
    connection: &mut ServerConnection,
    commit: &Commit,
) -> Result<CommitAnswer, postgres::Error> {
    if let [part] = &commit.parts[..]
        && part.head.is_none()
    {
        return send_part(connection, commit, part);
    }
    let mut shards: Vec<i32> = commit.parts.iter().map(|part| shard_number(part.shard)).collect();
    shards.sort_unstable();
    connection.execute(&format!(
        "BEGIN; SET LOCAL idle_in_transaction_session_timeout = {POSTGRES_LOCKED_MS_MAX}"
    ))?;
    let mut parts = || -> Result<CommitAnswer, postgres::Error> {
        let lock = "SELECT shard FROM head WHERE shard = ANY ($1) ORDER BY shard FOR NO KEY UPDATE";
        connection.query(lock, &[&shards])?;
        let mut lsns = Vec::with_capacity(commit.parts.len());
        for part in &commit.parts {
            match send_part(connection, commit, part)? {
                Ok(lsn) => lsns.extend(lsn),
                Err(conflict) => return Ok(Err(conflict)),
            }
        }
        Ok(Ok(lsns))
    };
    let answer = parts();
    match &answer {
        Ok(Ok(_)) => connection.execute("COMMIT")?,
        // If that fails, the connection is lost, and the server rolls back.
        Ok(Err(_)) | Err(_) => drop(connection.execute("ROLLBACK")),
    }
    answer
}
