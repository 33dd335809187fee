//! A server in this process, on memory, at a time that stands still until the test moves it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use orrery_engine::Engine;
use orrery_server::api::Api;
use orrery_server::auth::Authenticator;
use orrery_server::auth::keys::{AccountKeys, GivenKeys, WellKnownKey};
use orrery_server::consistency::ConsistencyLevel;
use orrery_server::net::cors::CorsPolicy;
use orrery_server::net::tls::{Tls, TlsSource};
use orrery_server::telemetry::Metrics;
use orrery_server::{DrainOutcome, Limits, ListenerConfig, Server};
use orrery_storage::MemoryStore;
use orrery_types::{Clock, ManualClock, SystemClock};

use crate::client::{Answer, Connection, http_date, signature, signed};
use crate::issuer::TestIssuer;

const START_S: u64 = 1_700_000_000;
pub(crate) const PRIMARY: &str =
    "cHJpbWFyeS1rZXktb2YtdGhlLXRlc3RzLXdpdGgtZW5vdWdoLWJ5dGVzLWluLWl0LSEhIQ==";
pub(crate) const READ_ONLY: &str =
    "cmVhZG9ubHkta2V5LW9mLXRoZS10ZXN0cy13aXRoLWVub3VnaC1ieXRlcy1pbi1pdC0hISE=";
pub(crate) const SECONDARY: &str =
    "c2Vjb25kYXJ5LWtleS1vZi10aGUtdGVzdHMtd2l0aC1lbm91Z2gtYnl0ZXMtaW4taXQtISE=";
pub(crate) const SECONDARY_READ_ONLY: &str =
    "c2Vjb25kYXJ5LXJlYWRvbmx5LWtleS1vZi10aGUtdGVzdHMtd2l0aC1lbm91Z2gtYnl0ZXM=";

pub(crate) struct Local {
    runtime: tokio::runtime::Runtime,
    server: Server<Api>,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<ManualClock>,
    /// Its tokens are accepted.
    pub(crate) issuer: TestIssuer,
}

impl Local {
    pub(crate) fn start() -> Self {
        Self::start_with(ConsistencyLevel::default(), |engine| engine)
    }

    /// One with another level, and an engine that the test configures.
    pub(crate) fn start_with(
        consistency: ConsistencyLevel,
        made: impl FnOnce(Engine) -> Engine,
    ) -> Self {
        Self::start_as(consistency, made, None)
    }

    /// One that serves Direct mode too, behind TLS.
    pub(crate) fn start_direct(
        consistency: ConsistencyLevel,
        made: impl FnOnce(Engine) -> Engine,
    ) -> Self {
        let source = TlsSource::SelfSigned { folder: None, names: Vec::new() };
        Self::start_as(consistency, made, Some(Tls::load(&source, &SystemClock).unwrap()))
    }

    fn start_as(
        consistency: ConsistencyLevel,
        made: impl FnOnce(Engine) -> Engine,
        tls: Option<Tls>,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let clock = Arc::new(ManualClock::at_s(START_S));
        let as_clock: Arc<dyn Clock> = clock.clone();
        let engine = Engine::open(Arc::new(MemoryStore::new()), as_clock.clone(), 1).unwrap();
        let given = GivenKeys {
            primary: Some(PRIMARY.to_owned()),
            secondary: Some(SECONDARY.to_owned()),
            primary_readonly: Some(READ_ONLY.to_owned()),
            secondary_readonly: Some(SECONDARY_READ_ONLY.to_owned()),
        };
        let keys = AccountKeys::open(None, &given, WellKnownKey::Refused).unwrap();
        let issuer = TestIssuer::new();
        let authenticator = Authenticator::new(keys, as_clock.clone());
        let authenticator = authenticator.with_directory(Arc::new(issuer.verifier()));
        let (engine, blocking) = (Arc::new(made(engine)), runtime.handle().clone());
        let api = Api::new(engine, authenticator, as_clock, None, consistency, blocking);
        let api = api.with_direct(tls.is_some());
        let config = ListenerConfig {
            also_listen: Vec::new(),
            is_direct: tls.is_some(),
            tls,
            limits: Limits::default(),
            cors: CorsPolicy::default(),
            metrics: Metrics::install(),
        };
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = runtime.block_on(Server::start(listen, config)).unwrap();
        server.serve(Arc::new(api));
        let address = server.address();
        Self { runtime, server, address, clock, issuer }
    }

    /// Stops the server as a signal does.
    pub(crate) fn stop(self) -> DrainOutcome {
        self.runtime.block_on(self.server.stop())
    }

    /// Stops the server, and says whether all of its threads end in this time.
    pub(crate) fn ends_within(self, time: Duration) -> bool {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = self.runtime.block_on(self.server.stop());
            // Waits for blocking threads.
            drop(self.runtime);
            let _ = sender.send(());
        });
        receiver.recv_timeout(time).is_ok()
    }

    /// Sends a request that is signed as it should be.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let (kind, link) = signed(path);
        let date = http_date(self.clock.now_s());
        let authorization = signature(PRIMARY, method, &kind, &link, &date);
        let mut headers = vec![("authorization", &*authorization), ("x-ms-date", &*date)];
        headers.extend_from_slice(more);
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut connection = Connection::open(self.address).unwrap();
        connection.send(method, path, &headers, body.as_bytes()).unwrap()
    }

    /// Sends a request of the holder of a token.
    pub(crate) fn send_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let authorization = format!("type=aad&ver=1.0&sig={token}");
        let own = [("authorization", &*authorization)];
        let headers = own.iter().chain(more);
        let headers: Vec<(String, String)> =
            headers.map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut connection = Connection::open(self.address).unwrap();
        connection.send(method, path, &headers, body.as_bytes()).unwrap()
    }

    /// Sends a request that is right.
    #[track_caller]
    pub(crate) fn must(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let answer = self.send(method, path, more, body);
        assert!(answer.status < 400, "{method} {path}: {answer:?}");
        answer
    }
}
