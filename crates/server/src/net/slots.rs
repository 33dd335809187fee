//! Connection slots: a bounded number, of which some are reserved for clients on this machine, so that an
//! administrator can always connect. When none is free, the oldest connection that has not
//! authenticated is evicted, unless the service works on a request of it: to open a connection and to
//! send part of a request cost nothing, so that alone must not keep others out. `listener` acquires a
//! slot, `connection` ends when its own is evicted.
//!
//! Sockets that wait for a slot are bounded for other machines and for this one apart, so that the
//! former never keep the latter waiting in the backlog.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::net::listener::Limits;

/// How often a waiting connection looks for another one to evict.
const EVICT_AGAIN: Duration = Duration::from_millis(100);

/// All slots.
#[derive(Debug)]
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    /// The slots that clients of other machines may hold.
    remote: Arc<Semaphore>,
    /// The sockets of other machines that may wait for one.
    remote_waiting: Arc<Semaphore>,
    /// Clients that hold a slot and have not authenticated, oldest first.
    unauthenticated: Mutex<BTreeMap<u64, Arc<Client>>>,
    next_number: AtomicU64,
}

/// What is known of the client of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    is_remote: bool,
    is_authenticated: AtomicBool,
    /// Requests that the service works on.
    busy: AtomicUsize,
    evicted: Notify,
}

impl Client {
    /// Whether a request on the connection was authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }

    pub(crate) fn set_authenticated(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }

    /// Whether the service works on a request.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// Completes when the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// A socket that waits for a slot.
#[derive(Debug)]
pub(crate) struct Waiting {
    slots: Arc<Slots>,
    is_remote: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Waiting {
    /// The slot, once there is one.
    pub(crate) async fn slot(self) -> ConnectionSlot {
        self.slots.acquire(self.is_remote).await
    }
}

/// Counts a request of a client that the service works on, until dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Client>);

impl Busy {
    pub(crate) fn begin(client: &Arc<Client>) -> Self {
        client.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(client))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A slot, held until dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    pub(crate) client: Arc<Client>,
    slots: Arc<Slots>,
    number: u64,
    _all: OwnedSemaphorePermit,
    _remote: Option<OwnedSemaphorePermit>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.number);
    }
}

impl Slots {
    pub(crate) fn new(limits: &Limits) -> Self {
        let all = limits.connections_max;
        // At most half of the slots are reserved.
        let remote = all - limits.loopback_connections_min.min(all / 2);
        Self {
            all: Arc::new(Semaphore::new(all)),
            remote: Arc::new(Semaphore::new(remote)),
            remote_waiting: Arc::new(Semaphore::new(limits.waiting_connections_max)),
            unauthenticated: Mutex::default(),
            next_number: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a socket wait for a slot; `None` if too many of other machines wait already.
    pub(crate) fn queue(self: &Arc<Self>, peer: IpAddr) -> Option<Waiting> {
        let is_remote = !peer.to_canonical().is_loopback();
        let permit = if is_remote {
            Some(Arc::clone(&self.remote_waiting).try_acquire_owned().ok()?)
        } else {
            None
        };
        Some(Waiting { slots: Arc::clone(self), is_remote, _permit: permit })
    }

    async fn acquire(self: &Arc<Self>, is_remote: bool) -> ConnectionSlot {
        let remote = if is_remote {
            Some(self.acquire_permit(&self.remote, |client| client.is_remote).await)
        } else {
            None
        };
        let all = self.acquire_permit(&self.all, |_| true).await;
        let client = Arc::new(Client {
            is_remote,
            is_authenticated: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            evicted: Notify::new(),
        });
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Arc::clone(&client));
        ConnectionSlot { client, slots: Arc::clone(self), number, _all: all, _remote: remote }
    }

    async fn acquire_permit(
        &self,
        permits: &Arc<Semaphore>,
        would_free: impl Fn(&Client) -> bool,
    ) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            return permit;
        }
        let mut waiting = pin!(Arc::clone(permits).acquire_owned());
        loop {
            self.evict_oldest(&would_free);
            tokio::select! {
                permit = &mut waiting => return permit.expect("the semaphore is never closed"),
                () = tokio::time::sleep(EVICT_AGAIN) => {}
            }
        }
    }

    /// Evicts the oldest connection that has not authenticated and that the service does not work for.
    fn evict_oldest(&self, would_free: impl Fn(&Client) -> bool) {
        let mut unauthenticated = self.lock();
        unauthenticated.retain(|_, client| !client.is_authenticated());
        let oldest = unauthenticated.iter().find(|(_, v)| !v.is_busy() && would_free(v));
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(client) = unauthenticated.remove(&number)
        {
            client.evicted.notify_one();
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

    fn acquire(slots: &Arc<Slots>, peer: &str) -> Option<ConnectionSlot> {
        now(slots.queue(peer.parse().unwrap()).unwrap().slot())
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        now(slot.client.evicted()).is_some()
    }

    #[tokio::test]
    async fn some_slots_are_reserved_for_this_machine() {
        let slots = slots(3, 1);
        let there: Vec<ConnectionSlot> = (0..2).map(|_| acquire(&slots, THERE).unwrap()).collect();
        for slot in &there {
            slot.client.set_authenticated();
        }
        assert!(acquire(&slots, THERE).is_none());
        let here = acquire(&slots, MAPPED).unwrap();
        assert!(acquire(&slots, HERE).is_none());
        drop(here);
        assert!(acquire(&slots, THERE).is_none());
        assert!(acquire(&slots, HERE).is_some());
        drop(there);
        assert!(acquire(&slots, THERE).is_some());
    }

    #[tokio::test]
    async fn waiting_sockets_of_other_machines_are_bounded_and_keep_no_local_one_waiting() {
        let limits = Limits {
            connections_max: 2,
            loopback_connections_min: 1,
            waiting_connections_max: 3,
            ..Limits::default()
        };
        let slots = Arc::new(Slots::new(&limits));
        let there = acquire(&slots, THERE).unwrap();
        there.client.set_authenticated();
        let queue = |peer: &str| slots.queue(peer.parse().unwrap());
        let mut waiting: Vec<Waiting> = (0..3).map(|_| queue(THERE).unwrap()).collect();
        assert!(queue(THERE).is_none());
        assert!(acquire(&slots, HERE).is_some());
        waiting.pop();
        let next = queue(THERE).unwrap();
        drop(there);
        let slot = now(next.slot()).unwrap();
        assert!(queue(THERE).is_some(), "one that has its slot waits no longer");
        drop(slot);
    }

    #[tokio::test]
    async fn the_oldest_idle_connection_without_credentials_is_evicted() {
        let slots = slots(3, 0);
        let [authenticated, busy, idle] = [(); 3].map(|()| acquire(&slots, THERE).unwrap());
        authenticated.client.set_authenticated();
        let work = Busy::begin(&busy.client);
        assert!(acquire(&slots, THERE).is_none());
        assert!(!is_evicted(&authenticated) && !is_evicted(&busy) && is_evicted(&idle));
        drop(idle);
        let newer = acquire(&slots, THERE).unwrap();
        drop(work);
        assert!(acquire(&slots, THERE).is_none());
        assert!(is_evicted(&busy) && !is_evicted(&newer));
    }

    #[tokio::test]
    async fn a_remote_client_does_not_evict_one_of_this_machine_where_that_frees_no_slot_for_it() {
        let slots = slots(2, 1);
        let here = acquire(&slots, HERE).unwrap();
        let there = acquire(&slots, THERE).unwrap();
        assert!(acquire(&slots, THERE).is_none());
        assert!(!is_evicted(&here) && is_evicted(&there));
    }

    #[tokio::test]
    async fn a_released_slot_is_forgotten() {
        let slots = slots(2, 0);
        for _ in 0..10 {
            drop(acquire(&slots, THERE).unwrap());
        }
        assert!(slots.lock().is_empty());
    }
}
