//! `orrery serve`: settings, keys, certificate, socket, store and engine, in this order, then
//! requests until a signal. The socket comes before the store so that a port in use costs no
//! wait, and so that `/healthz` answers while a large store opens.
//!
//! Where a database is the store, keys and certificate are records of it ([`AccountPlace`]), and a node that
//! another one has replaced ends.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use orrery_engine::Engine;
use orrery_engine::background::Background;
use orrery_engine::nodes::NodeDescription;
use orrery_engine::partition::layout::LayoutPolicy;
use orrery_engine::script::Bounds;
use orrery_postgres::PostgresStore;
use orrery_server::api::Api;
use orrery_server::auth::Authenticator;
use orrery_server::auth::entra::TokenVerifier;
use orrery_server::auth::entra::key_set::KeySets;
use orrery_server::auth::keys::{AccountKeys, KeyError, WellKnownKey};
use orrery_server::auth::records::AccountRecords as _;
use orrery_server::backups::Backups;
use orrery_server::config::Settings;
use orrery_server::net::cors::CorsPolicy;
use orrery_server::net::tls::{Tls, TlsError, TlsSource};
use orrery_server::statistics::Statistics;
use orrery_server::telemetry::{
    Metrics, record_failing_work, record_model_lag, record_secondary_index_lag, start_log,
};
use orrery_server::{DrainOutcome, Limits, ListenError, ListenerConfig, Server, Service};
use orrery_storage::rocks::memory::available_bytes;
use orrery_storage::{MemoryStore, OnLogDamage, RocksOptions, RocksStore, Store};
use orrery_types::limits::SPLIT_ANNOUNCED_MS;
use orrery_types::{Clock, SystemClock, limits};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::data_folder::{self, STORE};
use crate::emulator::Emulator;
use crate::exit::{Exit, Failure, usage};
use crate::postgres::{self, StoreRecords};
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
    if let Some(emulator) = &arguments.emulator {
        emulator.log_notices();
    }
    let stop_at_eof = arguments.stop_at_eof;
    let extras = Extras { on_log_damage, stop_at_eof, emulator: arguments.emulator };
    runtime.block_on(serve(settings, extras))
}

/// What the command line says beside the settings.
struct Extras {
    on_log_damage: OnLogDamage,
    stop_at_eof: bool,
    emulator: Option<Emulator>,
}

async fn serve(settings: Settings, extras: Extras) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    if let Some(folder) = &settings.data {
        orrery_files::create_folders(folder)
            .map_err(|error| data_folder::not_created(folder, &error))?;
    }
    let well_known = WellKnownKey::decide(settings.widest_address(), settings.allow_well_known_key);
    let (place, keys, tls) = {
        let (settings, clock) = (settings.clone(), clock.clone());
        tokio::task::spawn_blocking(move || open_account(&settings, well_known, &*clock)).await??
    };
    let directory = open_directory(&settings)?;
    // Before the socket: a signal must not find the process without a handler.
    let stop = stop_signal(extras.stop_at_eof)?;
    let server = listen(&settings, tls).await?;
    let store = {
        let (settings, on_log_damage) = (settings.clone(), extras.on_log_damage);
        tokio::task::spawn_blocking(move || open_store(&settings, on_log_damage)).await??
    };
    let store_place = store.postgres.as_ref().map(|store| store.place().to_owned());
    let outdated = outdated(store.postgres.clone());
    let engine = open_engine(&settings, store.store, clock.clone()).await?;
    // That of the store, if several processes serve it.
    let clock = engine.clock();
    engine.nodes().describe(description(&settings));
    let background = Background::start(engine.clone()).context("Cannot start a thread")?;
    let lag = tokio::spawn(watch_background(engine.clone()));
    let mut authenticator = Authenticator::new(keys.clone(), clock.clone());
    let following =
        directory.map(|(verifier, keys)| (tokio::spawn(verifier.clone().follow(keys)), verifier));
    if let Some((_, verifier)) = &following {
        authenticator = authenticator.with_directory(verifier.clone());
    }
    let (endpoint, consistency) = (settings.endpoint.clone(), settings.consistency);
    let backups = Arc::new(Backups::new(backup_folder(&settings)));
    let blocking = Handle::current();
    let api = Api::new(engine, authenticator, clock.clone(), endpoint, consistency, blocking);
    let api = api.with_statistics(Statistics::new(settings.statistics));
    let api = api.with_direct(settings.is_direct);
    let api = Arc::new(api.with_backups(backups.clone()));
    server.serve(api.clone());
    let watch = KeyWatch { place, settings: settings.clone(), well_known };
    let upkeep = tokio::spawn(keep_up(watch, api, backups, clock));
    let announced = announce::ready(&settings, server.address(), &keys, store_place.as_deref());
    let announced = announced.and_then(|()| match &extras.emulator {
        Some(emulator) => emulator.announce(&settings),
        None => Ok(()),
    });
    announced.context("Cannot write to standard output")?;
    let ended = tokio::select! {
        () = stop => Ok(()),
        () = outdated => {
            let reason = "another release has changed the tables of the store; this node has stopped";
            Err(Failure::new(Exit::Refused, reason).into())
        }
    };
    tracing::info!("stopping; requests in flight complete first");
    end_in_time(settings.drain_ms.map_or(Limits::default().drain_time, Duration::from_millis));
    match server.stop().await {
        DrainOutcome::Complete => tracing::info!("stopped"),
        DrainOutcome::Aborted(connections) => {
            tracing::warn!(connections, "stopped; some requests took too long and were cut");
        }
    }
    if let Some((following, _)) = following {
        following.abort();
    }
    upkeep.abort();
    lag.abort();
    drop(background);
    ended
}

/// Where the account keeps its keys and its certificate.
enum AccountPlace {
    /// In the data folder, or nowhere if there is none.
    Folder(Option<PathBuf>),
    Store(Box<StoreRecords>),
}

impl AccountPlace {
    fn keys(&self, settings: &Settings, well_known: WellKnownKey) -> Result<AccountKeys, KeyError> {
        match self {
            Self::Folder(data) => AccountKeys::open(data.as_deref(), &settings.keys, well_known),
            Self::Store(records) => {
                AccountKeys::open_records(&**records, &settings.keys, well_known)
            }
        }
    }

    /// Something that changes with the keys; `None` if it cannot be read at this time.
    fn version(&self) -> Option<KeyVersion> {
        match self {
            Self::Folder(data) => {
                let about = std::fs::metadata(AccountKeys::file(data.as_deref()?));
                about.and_then(|about| about.modified()).ok().map(KeyVersion::Time)
            }
            Self::Store(records) => records.read("keys").ok().flatten().map(KeyVersion::Text),
        }
    }
}

#[derive(PartialEq, Eq)]
enum KeyVersion {
    Time(std::time::SystemTime),
    Text(String),
}

/// Opens what the account keeps beside its data.
fn open_account(
    settings: &Settings,
    well_known: WellKnownKey,
    clock: &dyn Clock,
) -> Result<(AccountPlace, AccountKeys, Option<Tls>)> {
    let place = match &settings.store {
        Some(store) => AccountPlace::Store(Box::new(StoreRecords::open(store)?)),
        None => AccountPlace::Folder(settings.data.clone()),
    };
    let keys = place.keys(settings, well_known).map_err(|error| match error {
        KeyError::Malformed(_) => usage(error.to_string()),
        KeyError::Io { source, .. } if settings.data.is_some() => {
            let folder = settings.data.as_deref().unwrap_or(Path::new(""));
            data_folder::not_created(folder, &source)
        }
        other => other.into(),
    })?;
    let tls = match (&settings.tls, &place) {
        (None, _) => None,
        (Some(TlsSource::SelfSigned { names, .. }), AccountPlace::Store(records)) => {
            Some(Tls::load_record(&**records, names, clock)?)
        }
        (Some(source), _) => {
            Some(Tls::load(source, clock).map_err(|error| no_certificate(source, error))?)
        }
    };
    Ok((place, keys, tls))
}

/// Resolves when another release has changed the tables of the store.
async fn outdated(store: Option<Arc<PostgresStore>>) {
    let Some(store) = store else { return std::future::pending().await };
    while !store.is_outdated() {
        tokio::time::sleep(UPKEEP_PAUSE).await;
    }
}

/// The verifier of the directory's tokens with the keys that files hold, if there is a directory.
fn open_directory(settings: &Settings) -> Result<Option<(Arc<TokenVerifier>, KeySets)>> {
    let Some(directory) = &settings.directory else { return Ok(None) };
    let keys = KeySets::open(directory).map_err(|error| usage(error.to_string()))?;
    let verifier = TokenVerifier::new(directory.clone());
    verifier.use_keys(&keys);
    Ok(Some((Arc::new(verifier), keys)))
}

/// Why there is no certificate. One that the server makes lies in the data folder, which may be full.
fn no_certificate(source: &TlsSource, error: TlsError) -> anyhow::Error {
    match (source, &error) {
        (TlsSource::SelfSigned { folder: Some(_), .. }, TlsError::File { .. }) => anyhow::anyhow!(
            "{error}; check the space and the rights of the data folder, or choose another with --data"
        ),
        _ => error.into(),
    }
}

/// How long the store may take to close, after requests had their time.
const CLOSE_TIME: Duration = Duration::from_secs(20);

/// Ends the process even if something keeps it from closing, as a disk that does not answer may: what
/// was acknowledged is durable.
fn end_in_time(drain_time: Duration) {
    let watch = std::thread::Builder::new().name("end-in-time".into());
    let watched = watch.spawn(move || {
        std::thread::sleep(drain_time + CLOSE_TIME);
        tracing::error!("the store was not closed in time; the process exits without closing it");
        std::process::exit(1);
    });
    if let Err(error) = watched {
        tracing::warn!(%error, "cannot start the thread that bounds the time to close");
    }
}

/// Where backups are copied to: beside the store, so that its files can be linked.
fn backup_folder(settings: &Settings) -> PathBuf {
    match &settings.data {
        Some(folder) => folder.join("backups-in-progress"),
        None => std::env::temp_dir().join(format!("orrery-backups-{}", std::process::id())),
    }
}

/// What is looked at for new keys.
struct KeyWatch {
    place: AccountPlace,
    settings: Settings,
    well_known: WellKnownKey,
}

impl KeyWatch {
    /// The keys, if they are not those that were seen.
    fn look(&self, seen: &mut Option<KeyVersion>) -> Option<Result<AccountKeys, KeyError>> {
        let now = self.place.version()?;
        let is_first = seen.is_none();
        if seen.as_ref() == Some(&now) {
            return None;
        }
        *seen = Some(now);
        (!is_first).then(|| self.place.keys(&self.settings, self.well_known))
    }
}

/// Takes new keys when they change, and ends backups that are not read.
async fn keep_up(watch: KeyWatch, api: Arc<Api>, backups: Arc<Backups>, clock: Arc<dyn Clock>) {
    let watch = Arc::new(watch);
    let mut seen = None;
    loop {
        let looking = watch.clone();
        let looked = tokio::task::spawn_blocking(move || (looking.look(&mut seen), seen)).await;
        let Ok((changed, now)) = looked else { return };
        seen = now;
        match changed {
            None => {}
            Some(Ok(keys)) => {
                api.authenticator().replace_keys(keys);
                tracing::info!("account keys reloaded");
            }
            Some(Err(error)) => {
                tracing::error!(%error, "cannot read the account keys; the previous keys stay in use");
            }
        }
        tokio::time::sleep(UPKEEP_PAUSE).await;
        backups.expire(clock.now_s());
        let (expiring, now_s) = (api.clone(), clock.now_s());
        // It may write to the store, which may be reached over a network.
        let _ = tokio::task::spawn_blocking(move || expiring.expire_copies(now_s)).await;
    }
}

/// How often the background work is looked at.
const LAG_PERIOD: Duration = Duration::from_secs(5);

/// Shows the lag of models and indexes, and the background work that fails, among the metrics.
async fn watch_background(engine: Arc<Engine>) {
    loop {
        let failing = engine.background().failing_units();
        record_failing_work(failing.retrying, failing.quarantined);
        record_secondary_index_lag(Duration::from_secs(engine.secondary_indexes().lag_s()));
        let engine = engine.clone();
        let lag = tokio::task::spawn_blocking(move || engine.models().lag_ms()).await;
        if let Ok(Ok(lag_ms)) = lag {
            record_model_lag(Duration::from_millis(lag_ms));
        }
        tokio::time::sleep(LAG_PERIOD).await;
    }
}

/// What this process says of itself among the nodes of a shared store.
fn description(settings: &Settings) -> NodeDescription {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let listening = std::iter::once(&settings.listen).chain(&settings.also_listen);
    let listening = listening.map(ToString::to_string);
    let addresses = settings.endpoint.iter().cloned().chain(listening).collect();
    NodeDescription {
        host: host.trim().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        addresses,
    }
}

/// Reads the catalog, off the threads that answer `/healthz` meanwhile.
async fn open_engine(
    settings: &Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Engine>> {
    let node = u32::from_be_bytes(*Uuid::new_v4().as_bytes().first_chunk().expect("16 bytes"));
    let engine = tokio::task::spawn_blocking(move || Engine::open(store, clock, node)).await?;
    let engine = engine.context("Cannot read the catalog")?;
    let mut bounds = Bounds::default();
    if let Some(run_ms) = settings.script_ms {
        bounds.run_ms = run_ms;
    }
    engine.insight().keep_statistics(settings.statistics);
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
    let (also_listen, metrics) = (settings.also_listen.clone(), Metrics::install());
    let config = ListenerConfig { also_listen, tls, is_direct, limits, cors, metrics };
    Server::start(settings.listen, config).await.map_err(|error| not_listening(&error))
}

/// Why the server cannot listen, and what to do about it.
fn not_listening(ListenError { address, source }: &ListenError) -> anyhow::Error {
    let advice = match source.kind() {
        ErrorKind::AddrInUse => {
            return anyhow!(
                "The address {address} is in use by another program; stop that one, or choose another \
                 with --listen"
            );
        }
        ErrorKind::PermissionDenied => {
            "ports below 1024 are for administrators; choose another with --listen"
        }
        ErrorKind::AddrNotAvailable => {
            "this machine has no such address; choose one of its own with --listen, or 0.0.0.0 for all"
        }
        _ => "choose another address with --listen",
    };
    anyhow!("Cannot listen on {address}: {source}; {advice}")
}

/// An open store, and the same as what it is if it is a database.
struct OpenedStore {
    store: Arc<dyn Store>,
    postgres: Option<Arc<PostgresStore>>,
}

/// The store of the settings: a database, a folder, or memory.
fn open_store(settings: &Settings, on_log_damage: OnLogDamage) -> Result<OpenedStore> {
    if let Some(store) = &settings.store {
        let opened = PostgresStore::open(&store.address, &postgres::options(store));
        let opened = Arc::new(opened.map_err(postgres::failure)?);
        return Ok(OpenedStore { store: opened.clone(), postgres: Some(opened) });
    }
    let store: Arc<dyn Store> = match &settings.data {
        None => Arc::new(MemoryStore::new()),
        Some(folder) => {
            let options = RocksOptions { on_log_damage, ..RocksOptions::default() };
            let store = RocksStore::open(&folder.join(STORE), &options);
            Arc::new(store.map_err(data_folder::unopened)?)
        }
    };
    Ok(OpenedStore { store, postgres: None })
}

/// Resolves at the first SIGTERM or Ctrl-C, or at the end of standard input if that is asked for.
fn stop_signal(at_eof: bool) -> Result<impl Future<Output = ()>> {
    let ended = if at_eof { Some(input_end()?) } else { None };
    let ended = async move {
        match ended {
            // The sender is dropped at the end.
            Some(ended) => drop(ended.await),
            None => std::future::pending().await,
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).context("Cannot watch for signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("Cannot watch for signals")?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = ended => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        // Without a handler the process ends at once, which loses nothing that was acknowledged.
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            () = ended => {}
        }
    })
}

/// Resolves when standard input ends. A thread of its own reads it, since such a read cannot be cancelled.
fn input_end() -> Result<oneshot::Receiver<()>> {
    let (sender, receiver) = oneshot::channel();
    let reader = std::thread::Builder::new().name("input-end".into());
    let reading = reader.spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(sender);
    });
    reading.context("Cannot start a thread")?;
    Ok(receiver)
}
