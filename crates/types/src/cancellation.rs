//! Cancellation of work whose result is no longer needed. Whoever waits for the result holds a
//! [`CancelOnDrop`]; the work asks its [`CancellationToken`] from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells work that its result is no longer needed. Copies share one state.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken {
    is_cancelled: Arc<AtomicBool>,
}

/// Cancels its token when dropped.
#[derive(Debug)]
pub struct CancelOnDrop(CancellationToken);

impl CancellationToken {
    /// Cancels the work; it cannot be undone.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// A guard that cancels the token when dropped.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_guard_cancels_every_copy_of_its_token() {
        let token = CancellationToken::default();
        let copy = token.clone();
        let guard = token.cancel_on_drop();
        assert!(!token.is_cancelled() && !copy.is_cancelled());
        drop(guard);
        assert!(token.is_cancelled() && copy.is_cancelled());
    }
}
