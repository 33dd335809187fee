//! Logs and metrics. `cli` starts the log once; `front` opens a span for each request and counts it when
//! it ends. Nothing is sent anywhere: logs go to standard error, metrics are scraped.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde::Deserialize;
use tracing::Span;
use tracing_subscriber::EnvFilter;
use uuid::Uuid;

use crate::metrics_history::MetricsHistory;
use crate::net::side::SideRoute;
use crate::service::Answer;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why the log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter does not parse.
    #[error("The log filter '{0}' is wrong: {1}")]
    Filter(String, String),
    /// Another log is installed already.
    #[error("The log is set up already.")]
    Twice,
}

/// Starts the log of the process, on standard error.
pub fn start_log(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let parsed = EnvFilter::try_new(filter)
        .map_err(|error| LogError::Filter(filter.to_owned(), error.to_string()))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    }
    .map_err(|_| LogError::Twice)
}

/// Bounds of the latency histogram, in seconds.
const BUCKETS_S: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0,
];

/// The process's metrics. Copies share them.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
    history: Arc<MetricsHistory>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// The metrics of this process, installed by the first call. They stay empty if another recorder is
    /// installed already.
    pub fn install() -> Self {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
        let handle = HANDLE.get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets(BUCKETS_S)
                .expect("there are buckets")
                .build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("another metrics recorder is installed; /metrics stays empty");
            }
            metrics::describe_counter!(REQUESTS, "Requests answered");
            metrics::describe_counter!(REQUEST_CHARGE, "Request units charged");
            metrics::describe_gauge!(
                MODEL_LAG_SECONDS,
                metrics::Unit::Seconds,
                "Age of the oldest write from which something is still to follow by a model"
            );
            metrics::describe_gauge!(
                SECONDARY_INDEX_LAG_SECONDS,
                metrics::Unit::Seconds,
                "Age of the oldest change that is still to be applied to a global secondary index"
            );
            metrics::describe_gauge!(
                BACKGROUND_FAILING,
                "Units of background work that failed the last time, by what becomes of them"
            );
            metrics::describe_histogram!(
                REQUEST_SECONDS,
                metrics::Unit::Seconds,
                "Time from a request's head to its answer"
            );
            handle
        });
        Self { handle: handle.clone(), history: Arc::default() }
    }

    /// All metrics as text for Prometheus.
    pub fn render(&self) -> String {
        flush_all();
        self.handle.render()
    }

    /// Folds samples into their buckets.
    pub(crate) fn fold(&self) {
        flush_all();
        self.handle.run_upkeep();
    }

    /// Adds what the metrics are now to the last hour.
    pub(crate) fn remember(&self, at_ms: u64) {
        self.history.add(at_ms, &self.render());
    }

    /// The last hour as JSON.
    pub(crate) fn history(&self) -> String {
        self.history.to_json()
    }
}

/// Records the lag of the deferred effects of models.
pub fn record_model_lag(lag: Duration) {
    metrics::gauge!(MODEL_LAG_SECONDS).set(lag.as_secs_f64());
}

/// Records the lag of the global secondary index that is furthest behind its source.
pub fn record_secondary_index_lag(lag: Duration) {
    metrics::gauge!(SECONDARY_INDEX_LAG_SECONDS).set(lag.as_secs_f64());
}

/// Records how many units of background work fail: those that are retried, and those in quarantine.
pub fn record_failing_work(retrying: usize, quarantined: usize) {
    for (state, count) in [("retrying", retrying), ("quarantined", quarantined)] {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        metrics::gauge!(BACKGROUND_FAILING, "state" => state).set(f64::from(count));
    }
}

const BACKGROUND_FAILING: &str = "orrery_background_failing";
const MODEL_LAG_SECONDS: &str = "orrery_model_lag_seconds";
const SECONDARY_INDEX_LAG_SECONDS: &str = "orrery_secondary_index_lag_seconds";
const REQUESTS: &str = "orrery_requests_total";
const REQUEST_CHARGE: &str = "orrery_request_charge_total";
const REQUEST_SECONDS: &str = "orrery_request_seconds";

/// The span of one request, at debug level only: a span for every request would cost more than a point
/// read does.
pub(crate) fn request_span(activity_id: Uuid, method: &Method) -> Span {
    tracing::debug_span!("request", %activity_id, %method)
}

/// What is counted of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOutcome {
    pub(crate) operation: &'static str,
    pub(crate) status: StatusCode,
    pub(crate) charge: f64,
    pub(crate) took: Duration,
}

impl RequestOutcome {
    pub(crate) fn of(answer: &Answer, took: Duration) -> Self {
        let Answer { reply, operation, .. } = answer;
        Self { operation, status: reply.status, charge: reply.charge, took }
    }
}

/// Counts a request and logs it: every one at debug level, server errors as warnings.
pub(crate) fn request_ended(span: &Span, activity_id: Uuid, outcome: &RequestOutcome) {
    let RequestOutcome { operation, status, charge, took } = *outcome;
    count(operation, status, charge, took);
    let _in_span = span.enter();
    let (status_code, ms) = (status.as_u16(), took.as_secs_f64() * 1000.0);
    // Readiness is polled during the start, which is no fault.
    let is_not_yet = operation == SideRoute::Ready.name();
    if status.is_server_error() && !is_not_yet {
        // Without a span the line must identify the request itself.
        let status = status_code;
        tracing::warn!(%activity_id, operation, status, ms, "request failed");
    } else {
        tracing::debug!(operation, status = status_code, ms, "answered");
    }
}

/// Counts the requests of one operation and status on one thread. All threads share the metrics and
/// would contend for them, so counts are flushed every few dozen requests.
struct Meter {
    requests: metrics::Counter,
    charge: metrics::Counter,
    seconds: metrics::Histogram,
    pending: Mutex<Pending>,
}

/// Counts that are not flushed yet.
#[derive(Default)]
struct Pending {
    /// May keep a fraction of a request unit: counters are integers.
    charge: f64,
    seconds: Vec<f64>,
}

/// Requests between two flushes.
const FLUSH_REQUESTS: usize = 64;

/// The meters of all threads, flushed before metrics are read. A thread that ends leaves its meters here:
/// its thread-local storage is gone by then, so it cannot flush them itself.
static METERS: Mutex<Vec<Arc<Meter>>> = Mutex::new(Vec::new());

impl Meter {
    fn new(operation: &'static str, status: StatusCode) -> Arc<Self> {
        let labels = [("operation", operation.to_owned()), ("status", status.as_str().to_owned())];
        let requests = metrics::counter!(REQUESTS, &labels);
        let charge = metrics::counter!(REQUEST_CHARGE, "operation" => operation);
        let seconds = metrics::histogram!(REQUEST_SECONDS, "operation" => operation);
        let meter = Arc::new(Self { requests, charge, seconds, pending: Mutex::default() });
        METERS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&meter));
        meter
    }

    fn count(&self, charge: f64, took: Duration) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.charge += charge;
        pending.seconds.push(took.as_secs_f64());
        if pending.seconds.len() >= FLUSH_REQUESTS {
            self.flush(&mut pending);
        }
    }

    fn flush(&self, pending: &mut Pending) {
        self.requests.increment(pending.seconds.len() as u64);
        let whole = pending.charge.trunc();
        pending.charge -= whole;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole")]
        self.charge.increment(whole as u64);
        pending.seconds.drain(..).for_each(|seconds| self.seconds.record(seconds));
    }
}

/// Flushes all meters, and drops those of threads that ended.
fn flush_all() {
    let mut meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    meters.retain(|meter| {
        // Checked before the flush: a thread that counts and ends in between is flushed the next time.
        let is_in_use = Arc::strong_count(meter) > 1;
        let mut pending = meter.pending.lock().unwrap_or_else(PoisonError::into_inner);
        meter.flush(&mut pending);
        is_in_use
    });
}

fn count(operation: &'static str, status: StatusCode, charge: f64, took: Duration) {
    thread_local! {
        /// Looked up once per thread: finding a metric by its labels costs more than counting. There are
        /// few, so a linear search is fast.
        static OWN: RefCell<Vec<(&'static str, StatusCode, Arc<Meter>)>> =
            const { RefCell::new(Vec::new()) };
    }
    OWN.with_borrow_mut(|meters| {
        let known =
            |of: &&(&'static str, StatusCode, Arc<Meter>)| of.1 == status && of.0 == operation;
        if let Some((.., meter)) = meters.iter().find(known) {
            return meter.count(charge, took);
        }
        let meter = Meter::new(operation, status);
        meter.count(charge, took);
        meters.push((operation, status, meter));
    });
}
