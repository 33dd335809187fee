//! A copy of the whole store that a client makes while the server serves; at most one at a time. Once the client has
//! closed it, the server refuses writes: for good if the client finishes the copy, because the data is then used
//! elsewhere, or until the copy is given up.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use orrery_engine::Engine;
use orrery_engine::store_copy::StoreCopy;
use orrery_types::{Error, Object, Result, Value, limits};
use uuid::Uuid;

/// What clients are told whose writes are refused.
const MOVED: &str = "Writes are refused: the data is being moved to another store, or was moved. Use the server \
                     that has it now; if the move was given up, restart this one.";

/// The copy in progress, if there is one.
#[derive(Default)]
pub(crate) struct StoreCopies {
    open: Mutex<Option<OpenCopy>>,
    refuses_writes: AtomicBool,
}

struct OpenCopy {
    id: String,
    copy: StoreCopy,
    used_s: u64,
    /// The client has all, and uses it from now on.
    is_finished: bool,
}

/// What a client asks of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// Entries of a space from a key on.
    Entries,
    /// Changes, by number.
    Changes(u64),
    /// The values of keys.
    Values,
    /// No more writes.
    Close,
    /// The copy is used from now on.
    Finish,
}

impl CopyStep {
    /// By its name in a path.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "entries" => Self::Entries,
            "values" => Self::Values,
            "close" => Self::Close,
            "finish" => Self::Finish,
            number => Self::Changes(number.strip_prefix("changes-")?.parse().ok()?),
        })
    }
}

impl StoreCopies {
    fn lock(&self) -> MutexGuard<'_, Option<OpenCopy>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a write once the data is used elsewhere.
    pub(crate) fn allow_write(&self) -> Result<()> {
        if self.refuses_writes.load(SeqCst) {
            return Err(Error::Unavailable(MOVED.into()));
        }
        Ok(())
    }

    /// Begins a copy; returns its id.
    pub(crate) fn begin(&self, engine: &Engine, now_s: u64) -> Result<Value> {
        self.expire(now_s);
        let mut open = self.lock();
        if open.is_some() {
            return Err(Error::RateLimited { retry_after_ms: 10_000 });
        }
        let copy = StoreCopy::begin(engine)?;
        let id = Uuid::new_v4().simple().to_string();
        let mut answer = Object::new();
        answer.set("id", id.as_str().into());
        answer.set("version", env!("CARGO_PKG_VERSION").into());
        *open = Some(OpenCopy { id, copy, used_s: now_s, is_finished: false });
        Ok(Value::object(answer))
    }

    /// Does a step.
    pub(crate) fn step(
        &self,
        (id, step): (&str, CopyStep),
        body: &[u8],
        now_s: u64,
    ) -> Result<Bytes> {
        let mut open = self.lock();
        let found = open.as_mut().filter(|open| open.id == id).ok_or(Error::NotFound)?;
        found.used_s = now_s;
        match step {
            CopyStep::Entries => found.copy.entries(body),
            CopyStep::Changes(number) => found.copy.changes(number),
            CopyStep::Values => found.copy.values(body),
            CopyStep::Close => {
                // First, so that clients get the reason rather than what a closed shard answers.
                self.refuses_writes.store(true, SeqCst);
                if let Err(error) = found.copy.close() {
                    self.give_up(found);
                    return Err(error);
                }
                Ok(Bytes::new())
            }
            CopyStep::Finish if !self.refuses_writes.load(SeqCst) => {
                Err(Error::invalid("The copy is not closed yet."))
            }
            CopyStep::Finish => {
                found.is_finished = true;
                tracing::warn!("the data was copied to another store; this server takes no writes");
                Ok(Bytes::new())
            }
        }
    }

    /// Ends a copy. One that was not finished leaves no trace.
    pub(crate) fn end(&self, id: &str) -> Result<()> {
        let mut open = self.lock();
        let mut ended = open.take_if(|open| open.id == id).ok_or(Error::NotFound)?;
        self.give_up(&mut ended);
        Ok(())
    }

    /// Ends a copy that has not been read for long.
    pub(crate) fn expire(&self, now_s: u64) {
        let is_idle =
            |open: &mut OpenCopy| now_s.saturating_sub(open.used_s) > limits::STORE_COPY_IDLE_S_MAX;
        if let Some(mut idle) = self.lock().take_if(is_idle)
            && !idle.is_finished
        {
            tracing::warn!("a copy of the store was not read any more, and is given up");
            self.give_up(&mut idle);
        }
    }

    /// Takes writes again, unless the copy was finished.
    fn give_up(&self, copy: &mut OpenCopy) {
        if copy.is_finished {
            return;
        }
        match copy.copy.reopen() {
            Ok(()) => self.refuses_writes.store(false, SeqCst),
            Err(error) => {
                tracing::error!(%error, "the store cannot take writes again; restart the server");
            }
        }
    }
}
