//! `orrery serve`: settings, keys, certificate, socket, store and engine, in this order, then
//! requests until a signal. The socket comes before the store so that a port in use costs no
//! wait, and so that `/healthz` answers while a large store opens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use orrery_engine::Engine;
use orrery_engine::partition::layout::LayoutPolicy;
use orrery_engine::script::Bounds;
use orrery_engine::tasks::Background;
use orrery_server::api::Api;
use orrery_server::auth::Authenticator;
use orrery_server::auth::keys::{AccountKeys, KeyError, WellKnownKey};
use orrery_server::backups::Backups;
use orrery_server::config::Settings;
use orrery_server::net::cors::CorsPolicy;
use orrery_server::net::tls::Tls;
use orrery_server::statistics::Statistics;
use orrery_server::telemetry::{Metrics, record_failing_work, record_model_lag, start_log};
use orrery_server::{DrainOutcome, Limits, ListenerConfig, Server, Service};
use orrery_storage::rocks::memory::available_bytes;
use orrery_storage::{MemoryStore, OnLogDamage, RocksOptions, RocksStore, Store};
use orrery_types::limits::SPLIT_ANNOUNCED_MS;
use orrery_types::{Clock, SystemClock, limits};
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::data_folder::{self, STORE};
use crate::exit::usage;
use crate::{ServeArguments, announce};

/// How often the files that may change are looked at.
const UPKEEP_PAUSE: Duration = Duration::from_secs(1);

/// Serves until a signal says to stop.
pub(crate) fn run(arguments: ServeArguments) -> Result<()> {
    let settings = Settings::resolve(arguments.choices, arguments.config.as_deref());
    let settings = settings.map_err(|error| usage(error.to_string()))?;
    let on_log_damage =
        if arguments.accept_log_damage { OnLogDamage::Accept } else { OnLogDamage::Refuse };
    start_log(&settings.log, settings.log_format).map_err(|error| usage(error.to_string()))?;
    // For the socket, for upkeep and for what blocks: connections have threads of their own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("orrery")
        .worker_threads(1)
        .max_blocking_threads(orrery_types::limits::BLOCKING_OPERATIONS_MAX)
        .build()
        .context("The threads of the server cannot be started")?;
    runtime.block_on(serve(settings, on_log_damage))
}

async fn serve(settings: Settings, on_log_damage: OnLogDamage) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    if let Some(folder) = &settings.data {
        orrery_files::create_folders(folder)
            .map_err(|error| data_folder::not_created(folder, &error))?;
    }
    let well_known = WellKnownKey::decide(settings.listen, settings.allow_well_known_key);
    let keys = AccountKeys::open(settings.data.as_deref(), &settings.keys, well_known);
    let keys = keys.map_err(|error| match error {
        KeyError::Malformed(_) => usage(error.to_string()),
        KeyError::Io { source, .. } if settings.data.is_some() => {
            let folder = settings.data.as_deref().unwrap_or(Path::new(""));
            data_folder::not_created(folder, &source)
        }
        other => other.into(),
    })?;
    let tls = settings.tls.as_ref().map(|source| Tls::load(source, &*clock)).transpose()?;
    // Before the socket: a signal must not find the process without a handler.
    let stop = stop_signal()?;
    let server = listen(&settings, tls).await?;
    let engine = open_engine(&settings, on_log_damage, clock.clone()).await?;
    let background = Background::start(engine.clone()).context("Cannot start a thread")?;
    let lag = tokio::spawn(watch_background(engine.clone()));
    let authenticator = Authenticator::new(keys.clone(), clock.clone());
    let (endpoint, consistency) = (settings.endpoint.clone(), settings.consistency);
    let backups = Arc::new(Backups::new(backup_folder(&settings)));
    let blocking = Handle::current();
    let api = Api::new(engine, authenticator, clock.clone(), endpoint, consistency, blocking);
    let api = api.with_statistics(Statistics::new(settings.statistics));
    let api = api.with_direct(settings.is_direct);
    let api = Arc::new(api.with_backups(backups.clone()));
    server.serve(api.clone());
    let upkeep = tokio::spawn(keep_up(settings.clone(), api, backups, clock, well_known));
    let announced = announce::ready(&settings, server.address(), &keys);
    announced.context("Cannot write to standard output")?;
    stop.await;
    tracing::info!("stopping; requests in flight complete first");
    end_in_time(settings.drain_ms.map_or(Limits::default().drain_time, Duration::from_millis));
    match server.stop().await {
        DrainOutcome::Complete => tracing::info!("stopped"),
        DrainOutcome::Aborted(connections) => {
            tracing::warn!(connections, "stopped; some requests took too long and were cut");
        }
    }
    upkeep.abort();
    lag.abort();
    drop(background);
    Ok(())
}

/// How long the store may take to close, after requests had their time.
const CLOSE_TIME: Duration = Duration::from_secs(20);

/// Ends the process even if something keeps it from closing, as a disk that does not answer may: what
/// was acknowledged is durable.
fn end_in_time(drain_time: Duration) {
    let watch = std::thread::Builder::new().name("end-in-time".into());
    let watched = watch.spawn(move || {
        std::thread::sleep(drain_time + CLOSE_TIME);
        tracing::error!("the store does not close; the process ends without that");
        std::process::exit(1);
    });
    if let Err(error) = watched {
        tracing::warn!(%error, "the end of the process is not watched");
    }
}

/// Where backups are copied to: beside the store, so that its files can be linked.
fn backup_folder(settings: &Settings) -> PathBuf {
    match &settings.data {
        Some(folder) => folder.join("backups-in-progress"),
        None => std::env::temp_dir().join(format!("orrery-backups-{}", std::process::id())),
    }
}

/// Takes new keys when their file changes, and ends backups that nobody reads.
async fn keep_up(
    settings: Settings,
    api: Arc<Api>,
    backups: Arc<Backups>,
    clock: Arc<dyn Clock>,
    well_known: WellKnownKey,
) {
    let changed = |folder: &Path| {
        std::fs::metadata(AccountKeys::file(folder)).and_then(|about| about.modified()).ok()
    };
    let mut seen = settings.data.as_deref().and_then(changed);
    loop {
        tokio::time::sleep(UPKEEP_PAUSE).await;
        backups.expire(clock.now_s());
        let now = settings.data.as_deref().and_then(changed);
        if now == seen {
            continue;
        }
        seen = now;
        match AccountKeys::open(settings.data.as_deref(), &settings.keys, well_known) {
            Ok(keys) => {
                api.authenticator().replace_keys(keys);
                tracing::info!("the account has other keys from now on");
            }
            Err(error) => tracing::error!(%error, "the old keys stay in use"),
        }
    }
}

/// How often the background work is looked at.
const LAG_PERIOD: Duration = Duration::from_secs(5);

/// Shows the lag of models and the background work that fails among the metrics.
async fn watch_background(engine: Arc<Engine>) {
    loop {
        let failing = engine.failing_units();
        record_failing_work(failing.retrying, failing.quarantined);
        let engine = engine.clone();
        let lag = tokio::task::spawn_blocking(move || engine.model_lag_ms()).await;
        if let Ok(Ok(lag_ms)) = lag {
            record_model_lag(Duration::from_millis(lag_ms));
        }
        tokio::time::sleep(LAG_PERIOD).await;
    }
}

/// Opens the store and reads the catalog, off the threads that answer `/healthz` meanwhile.
async fn open_engine(
    settings: &Settings,
    on_log_damage: OnLogDamage,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Engine>> {
    let store = {
        let settings = settings.clone();
        tokio::task::spawn_blocking(move || open_store(&settings, on_log_damage)).await??
    };
    let node = u32::from_be_bytes(*Uuid::new_v4().as_bytes().first_chunk().expect("16 bytes"));
    let engine = tokio::task::spawn_blocking(move || Engine::open(store, clock, node)).await?;
    let engine = engine.context("Cannot read the catalog")?;
    let mut bounds = Bounds::default();
    if let Some(run_ms) = settings.script_ms {
        bounds.run_ms = run_ms;
    }
    engine.keep_statistics(settings.statistics);
    let mut layout = LayoutPolicy { announced_ms: SPLIT_ANNOUNCED_MS, ..LayoutPolicy::default() };
    if let Some(megabytes) = settings.range_mb_max {
        layout.partition_bytes_max = megabytes.saturating_mul(1024 * 1024);
    }
    layout.partitions_first = settings.ranges.unwrap_or(layout.partitions_first);
    let engine = engine.with_script_bounds(bounds).with_layout(layout);
    let engine = engine.with_query_memory(query_memory_bytes(settings));
    Ok(Arc::new(engine.with_enforced_throughput(settings.enforce_throughput)))
}

/// What the settings say, or a quarter of the memory that the process may use.
fn query_memory_bytes(settings: &Settings) -> usize {
    let said = settings.query_memory_mb.map(|megabytes| megabytes.saturating_mul(1024 * 1024));
    let bytes = said.or_else(|| Some(available_bytes()? / limits::QUERY_MEMORY_SHARE));
    bytes.map_or(limits::QUERY_MEMORY_TOTAL_BYTES_DEFAULT, |bytes| {
        usize::try_from(bytes).unwrap_or(usize::MAX)
    })
}

async fn listen<S: Service>(settings: &Settings, tls: Option<Tls>) -> Result<Server<S>> {
    let mut limits = Limits::default();
    if let Some(connections_max) = settings.connections_max {
        limits.connections_max = connections_max;
    }
    if let Some(drain_ms) = settings.drain_ms {
        limits.drain_time = Duration::from_millis(drain_ms);
    }
    let cors = CorsPolicy::new(settings.cors_origins.clone());
    let is_direct = settings.is_direct;
    let config = ListenerConfig { tls, is_direct, limits, cors, metrics: Metrics::install() };
    let listen = settings.listen;
    match Server::start(listen, config).await {
        Ok(server) => Ok(server),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
            "The address {listen} is in use: another server has it. Stop that one, or choose \
             another with --listen."
        ),
        Err(error) => Err(error).with_context(|| format!("Cannot listen on {listen}")),
    }
}

/// The store of the settings: a folder, or memory.
fn open_store(settings: &Settings, on_log_damage: OnLogDamage) -> Result<Arc<dyn Store>> {
    Ok(match &settings.data {
        None => Arc::new(MemoryStore::new()),
        Some(folder) => {
            let options = RocksOptions { on_log_damage, ..RocksOptions::default() };
            let store = RocksStore::open(&folder.join(STORE), &options);
            Arc::new(store.map_err(data_folder::unopened)?)
        }
    })
}

/// Resolves at the first SIGTERM or Ctrl-C.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).context("Cannot watch for signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("Cannot watch for signals")?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        // Without a handler the process ends at once, which loses nothing that was acknowledged.
        let _ = tokio::signal::ctrl_c().await;
    })
}
