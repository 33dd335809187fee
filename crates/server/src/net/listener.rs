//! Accepts connections and gives each to `connection` on one of the `serving_threads`, as soon as `slots`
//! has a slot for it. Some wait for one; more wait in the system's backlog, which slows clients down.
//!
//! [`Server::start`] listens before the service exists, so that `/healthz` answers while a large store
//! opens; [`Server::serve`] sets the service; [`Server::stop`] lets requests in flight complete.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use orrery_types::{Clock as _, SystemClock, limits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::metrics_history::READING_S;
use crate::net::connection;
use crate::net::cors::CorsPolicy;
use crate::net::front::Front;
use crate::net::serving_threads::ServingThreads;
use crate::net::slots::{Slots, Waiting};
use crate::net::tls::Tls;
use crate::service::Service;
use crate::telemetry::Metrics;

/// Pause after `accept` fails, for instance for lack of file descriptors.
const ACCEPT_PAUSE_MS: u64 = 50;
/// How long aborted connections may take to end.
const ABORT_TIME: Duration = Duration::from_secs(1);
/// How often samples are folded into histograms, which bounds the memory that they take.
const UPKEEP_S: u64 = 5;

/// What a connection may use. The defaults are those of [`limits`]; tests make them small.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each is the limit of its name")]
pub struct Limits {
    pub connections_max: usize,
    pub loopback_connections_min: usize,
    pub waiting_connections_max: usize,
    pub head_bytes_max: usize,
    pub headers_max: usize,
    pub head_time: Duration,
    pub body_bytes_max: usize,
    pub body_time: Duration,
    pub bodies_bytes_max: usize,
    pub discard_bytes_max: usize,
    pub tls_time: Duration,
    pub idle_time: Duration,
    pub unauthenticated_idle_time: Duration,
    pub half_closed_time: Duration,
    pub streams_max: u32,
    pub direct_requests_max: usize,
    pub direct_idle_time: Duration,
    pub direct_unauthenticated_idle_time: Duration,
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: limits::CONNECTIONS_MAX,
            loopback_connections_min: limits::LOOPBACK_CONNECTIONS_MIN,
            waiting_connections_max: limits::WAITING_CONNECTIONS_MAX,
            head_bytes_max: limits::REQUEST_HEAD_BYTES_MAX,
            headers_max: limits::REQUEST_HEADERS_MAX,
            head_time: Duration::from_millis(limits::REQUEST_HEAD_MS_MAX),
            body_bytes_max: limits::REQUEST_BODY_BYTES_MAX,
            body_time: Duration::from_millis(limits::REQUEST_BODY_MS_MAX),
            bodies_bytes_max: limits::BODIES_BYTES_MAX,
            discard_bytes_max: limits::DISCARD_BYTES_MAX,
            tls_time: Duration::from_millis(limits::TLS_HANDSHAKE_MS_MAX),
            idle_time: Duration::from_millis(limits::CONNECTION_IDLE_MS_MAX),
            unauthenticated_idle_time: Duration::from_millis(limits::UNAUTHENTICATED_IDLE_MS_MAX),
            half_closed_time: Duration::from_millis(limits::HALF_CLOSED_MS_MAX),
            streams_max: limits::HTTP2_STREAMS_MAX,
            direct_requests_max: limits::DIRECT_REQUESTS_MAX,
            direct_idle_time: Duration::from_millis(limits::DIRECT_IDLE_MS_MAX),
            direct_unauthenticated_idle_time: Duration::from_millis(
                limits::DIRECT_UNAUTHENTICATED_IDLE_MS_MAX,
            ),
            drain_time: Duration::from_millis(limits::DRAIN_MS_MAX),
        }
    }
}

/// What the listener needs to know.
#[derive(Debug)]
pub struct ListenerConfig {
    /// Further addresses; all of them serve the same.
    pub also_listen: Vec<SocketAddr>,
    /// The certificate; without one the port speaks plain HTTP only.
    pub tls: Option<Tls>,
    /// Whether clients may speak Direct mode behind TLS.
    pub is_direct: bool,
    /// The limits.
    pub limits: Limits,
    /// Which web pages may call the server.
    pub cors: CorsPolicy,
    /// Where `/metrics` reads.
    pub metrics: Metrics,
}

/// An address on which the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("Cannot listen on {address}: {source}")]
#[expect(missing_docs, reason = "the message says it")]
pub struct ListenError {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// How a stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainOutcome {
    /// Every request completed.
    Complete,
    /// The time limit was exceeded and this many connections were aborted.
    Aborted(usize),
}

/// A listening server.
#[derive(Debug)]
pub struct Server<S> {
    front: Arc<Front<S>>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<DrainOutcome>,
    upkeep: JoinHandle<()>,
}

impl<S: Service> Server<S> {
    /// Listens. Until [`Server::serve`], everything but the side routes answers 503.
    pub async fn start(listen: SocketAddr, config: ListenerConfig) -> Result<Self, ListenError> {
        let failed = |address| move |source| ListenError { address, source };
        let first = TcpListener::bind(listen).await.map_err(failed(listen))?;
        let address = first.local_addr().map_err(failed(listen))?;
        let mut listeners = vec![first];
        for &also in &config.also_listen {
            listeners.push(TcpListener::bind(also).await.map_err(failed(also))?);
        }
        let front = Arc::new(Front::new(config));
        let (stop, stopping) = watch::channel(false);
        let threads = ServingThreads::start().map_err(failed(listen))?;
        let accepting = tokio::spawn(accept(listeners, threads, Arc::clone(&front), stopping));
        let metrics = front.metrics();
        let upkeep = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(UPKEEP_S));
            for tick in 0_u64.. {
                ticks.tick().await;
                metrics.fold();
                if tick.is_multiple_of(READING_S / UPKEEP_S) {
                    metrics.remember(SystemClock.now_us() / 1000);
                }
            }
        });
        Ok(Self { front, address, stop, accepting, upkeep })
    }

    /// The address in use, with the real port where the settings said any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the service. The first one stays: it cannot be replaced.
    pub fn serve(&self, service: Arc<S>) {
        self.front.set_service(service);
    }

    /// Accepts no more connections and waits for the requests in flight, up to the time limit.
    pub async fn stop(self) -> DrainOutcome {
        self.front.set_stopping();
        self.upkeep.abort();
        // An error means that the accept loop has ended already.
        let _ = self.stop.send(true);
        self.accepting.await.unwrap_or(DrainOutcome::Aborted(0))
    }
}

/// The next connection to any of the addresses. One connection is accepted at a time, and a first address
/// that is always busy is slowed down by the limit on connections like every other.
async fn accept_any(listeners: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let mut accepted = listeners.iter().map(|listener| listener.poll_accept(context));
        accepted.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

async fn accept<S: Service>(
    listeners: Vec<TcpListener>,
    threads: ServingThreads,
    front: Arc<Front<S>>,
    mut stopping: watch::Receiver<bool>,
) -> DrainOutcome {
    let limits = *front.limits();
    let slots = Arc::new(Slots::new(&limits));
    // Sockets of other machines that wait are bounded by `slots`, so that there is always a permit for
    // one of this machine.
    let waiting = limits.waiting_connections_max.saturating_mul(2);
    let sockets = limits.connections_max.saturating_add(waiting);
    let permits = Arc::new(Semaphore::new(sockets.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        // The permit comes first: nothing is accepted without one.
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let permit = permit.expect("the semaphore is never closed");
        let accepted = tokio::select! {
            accepted = accept_any(&listeners) => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        while let Some(ended) = connections.try_join_next() {
            log_panic(ended);
        }
        // The stream is registered with the reactor of the thread that serves it.
        match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => {
                let Some(waiting) = slots.queue(peer.ip()) else {
                    tracing::debug!(%peer, "connection closed: too many wait for a slot");
                    continue;
                };
                let (front, stopping) = (Arc::clone(&front), stopping.clone());
                let (thread, load) = threads.least_loaded();
                let serving = async move {
                    serve_one(stream, peer, front, stopping, waiting).await;
                    drop((permit, load));
                };
                connections.spawn_on(serving, thread);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }
    drop(listeners);
    let drained = drain(connections, limits.drain_time).await;
    drop(threads);
    drained
}

async fn serve_one<S: Service>(
    stream: std::net::TcpStream,
    peer: SocketAddr,
    front: Arc<Front<S>>,
    stopping: watch::Receiver<bool>,
    waiting: Waiting,
) {
    let mut stop = stopping.clone();
    let slot = tokio::select! {
        slot = tokio::time::timeout(front.limits().head_time, waiting.slot()) => slot,
        _ = stop.wait_for(|stopping| *stopping) => return,
    };
    let Ok(slot) = slot else {
        return tracing::warn!(%peer, "connection closed: no slot became free in time");
    };
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%peer, %error, "cannot serve a connection"),
    };
    // Responses are small and written whole; waiting to fill a packet only adds delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    if let Err(error) = connection::serve(stream, peer, front, stopping, &slot.client).await {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

async fn drain(mut connections: JoinSet<()>, time: Duration) -> DrainOutcome {
    let all = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(time, all).await.is_ok() {
        return DrainOutcome::Complete;
    }
    let aborted = connections.len();
    connections.abort_all();
    // A thread that is busy cannot drop its connections; it is not waited for.
    let gone = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(ABORT_TIME, gone).await;
    DrainOutcome::Aborted(aborted)
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection panicked");
    }
}
