//! Places for connections. There are so many at once; some are kept for clients on this machine, so
//! that whoever runs the server can always reach it. When none is free, the connection that has
//! waited longest without having shown a key or token, and that no request is served on, is closed:
//! opening connections costs nothing, so those alone must not keep anybody out. `listener` asks for
//! a place, `connection` gives up its own when it is told to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::net::listener::Limits;

/// How often somebody who waits looks for a connection that has become idle.
const EVICT_AGAIN: Duration = Duration::from_millis(100);

/// All places.
#[derive(Debug)]
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    /// Those that clients of other machines may have.
    remote: Arc<Semaphore>,
    /// Who has a place and has not proven anything, oldest first.
    unproven: Mutex<BTreeMap<u64, Arc<Visitor>>>,
    visitors: AtomicU64,
}

/// What is known of the client of a connection.
#[derive(Debug)]
pub(crate) struct Visitor {
    is_remote: bool,
    is_proven: AtomicBool,
    is_busy: AtomicBool,
    evicted: Notify,
}

impl Visitor {
    /// Whether a request on the connection was authenticated.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    pub(crate) fn prove(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    /// Whether a request is being served.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }

    /// Completes when the connection is to make room.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// A place that is taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) visitor: Arc<Visitor>,
    slots: Arc<Slots>,
    number: u64,
    _all: OwnedSemaphorePermit,
    _remote: Option<OwnedSemaphorePermit>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.number);
    }
}

impl Slots {
    pub(crate) fn new(limits: &Limits) -> Self {
        let all = limits.connections_max;
        // Few places are shared out evenly.
        let remote = all - limits.loopback_connections_min.min(all / 2);
        Self {
            all: Arc::new(Semaphore::new(all)),
            remote: Arc::new(Semaphore::new(remote)),
            unproven: Mutex::default(),
            visitors: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Visitor>>> {
        self.unproven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub(crate) async fn enter(self: &Arc<Self>, peer: IpAddr) -> Slot {
        let is_remote = !peer.to_canonical().is_loopback();
        let remote = if is_remote {
            Some(self.acquire(&self.remote, |visitor| visitor.is_remote).await)
        } else {
            None
        };
        let all = self.acquire(&self.all, |_| true).await;
        let visitor = Arc::new(Visitor {
            is_remote,
            is_proven: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            evicted: Notify::new(),
        });
        let number = self.visitors.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Arc::clone(&visitor));
        Slot { visitor, slots: Arc::clone(self), number, _all: all, _remote: remote }
    }

    async fn acquire(
        &self,
        places: &Arc<Semaphore>,
        would_free: impl Fn(&Visitor) -> bool,
    ) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(places).try_acquire_owned() {
            return permit;
        }
        let mut waiting = pin!(Arc::clone(places).acquire_owned());
        loop {
            self.evict_oldest(&would_free);
            tokio::select! {
                permit = &mut waiting => return permit.expect("the semaphore is never closed"),
                () = tokio::time::sleep(EVICT_AGAIN) => {}
            }
        }
    }

    /// Tells the oldest idle connection without credentials to close, if there is one.
    fn evict_oldest(&self, would_free: impl Fn(&Visitor) -> bool) {
        let mut unproven = self.lock();
        unproven.retain(|_, visitor| !visitor.is_proven());
        let oldest = unproven.iter().find(|(_, v)| !v.is_busy() && would_free(v));
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(visitor) = unproven.remove(&number)
        {
            visitor.evicted.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const HERE: &str = "127.0.0.1";
    const MAPPED: &str = "::ffff:127.0.0.1";
    const THERE: &str = "192.0.2.1";

    fn slots(connections_max: usize, loopback_connections_min: usize) -> Arc<Slots> {
        let limits = Limits { connections_max, loopback_connections_min, ..Limits::default() };
        Arc::new(Slots::new(&limits))
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn enter(slots: &Arc<Slots>, peer: &str) -> Option<Slot> {
        now(slots.enter(peer.parse().unwrap()))
    }

    fn is_evicted(slot: &Slot) -> bool {
        now(slot.visitor.evicted()).is_some()
    }

    #[tokio::test]
    async fn some_places_are_kept_for_this_machine() {
        let slots = slots(3, 1);
        let there: Vec<Slot> = (0..2).map(|_| enter(&slots, THERE).unwrap()).collect();
        for slot in &there {
            slot.visitor.prove();
        }
        assert!(enter(&slots, THERE).is_none());
        let here = enter(&slots, MAPPED).unwrap();
        assert!(enter(&slots, HERE).is_none());
        drop(here);
        assert!(enter(&slots, THERE).is_none());
        assert!(enter(&slots, HERE).is_some());
        drop(there);
        assert!(enter(&slots, THERE).is_some());
    }

    #[tokio::test]
    async fn the_oldest_idle_connection_without_credentials_makes_room() {
        let slots = slots(3, 0);
        let [proven, busy, idle] = [(); 3].map(|()| enter(&slots, THERE).unwrap());
        proven.visitor.prove();
        busy.visitor.set_busy(true);
        assert!(enter(&slots, THERE).is_none());
        assert!(!is_evicted(&proven) && !is_evicted(&busy) && is_evicted(&idle));
        drop(idle);
        let newer = enter(&slots, THERE).unwrap();
        busy.visitor.set_busy(false);
        assert!(enter(&slots, THERE).is_none());
        assert!(is_evicted(&busy) && !is_evicted(&newer));
    }

    #[tokio::test]
    async fn a_remote_client_does_not_push_out_one_of_this_machine_where_it_would_gain_nothing() {
        let slots = slots(2, 1);
        let here = enter(&slots, HERE).unwrap();
        let there = enter(&slots, THERE).unwrap();
        assert!(enter(&slots, THERE).is_none());
        assert!(!is_evicted(&here) && is_evicted(&there));
    }

    #[tokio::test]
    async fn a_place_that_is_given_up_is_forgotten() {
        let slots = slots(2, 0);
        for _ in 0..10 {
            drop(enter(&slots, THERE).unwrap());
        }
        assert!(slots.lock().is_empty());
    }
}
