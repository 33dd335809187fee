//! A server for the length of one suite: builds `orrery`, starts it in memory or on a private cluster of `PostgreSQL`, on a
//! free port of this machine, waits until it is ready, and kills it when dropped.

use crate::stopwatch::Stopwatch;
use crate::{cluster, process, project};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Starting takes well under a second; on a machine that is busy compiling it may take longer.
const START_LIMIT: Duration = Duration::from_secs(30);
const PROBE_LIMIT: Duration = Duration::from_secs(2);
const PROBE_PAUSE: Duration = Duration::from_millis(25);

/// Where a server gives its certificate away.
const CERTIFICATE: &str = "/_explorer/emulator.pem";

/// 64 bytes, as account keys have; it opens nothing but a server that lives for one test run.
const KEY_BYTES: &[u8; 64] = b"this key opens one throw-away server that a test run has started";

/// Which build of the server is started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
    /// Optimised without link-time optimisation, on the dependencies that tests use. It builds in minutes, and
    /// is good enough for comparing instructions of two commits.
    Counted,
}

/// Where a server keeps its data.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StoreKind {
    Memory,
    /// In a cluster of `PostgreSQL` that ends with this process.
    Postgres,
}

impl StoreKind {
    /// The arguments of `orrery serve` for a new store.
    fn arguments(self, binary: &Path) -> Result<Vec<String>> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        if self == Self::Memory {
            return Ok(vec!["--memory".into()]);
        }
        let address = cluster::address().context("PostgreSQL is not installed")?;
        let schema = format!("suite{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
        let store = ["--store".into(), address, "--store-schema".into(), schema].to_vec();
        process::run(Command::new(binary).args(["store", "init"]).args(&store))?;
        Ok(store)
    }
}

/// The endpoint that clients are told to use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announced {
    /// The one that they used.
    AsAsked,
    /// The address, as the vendor's emulator does, whatever name they used.
    Address,
}

/// How many servers this process has started: a suite may have a second one, which has a log of its own.
static STARTED: AtomicU32 = AtomicU32::new(1);

/// A running server; dropping it kills the process.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Builds and starts a server; returns when it answers `/readyz`.
    pub(crate) fn start(profile: Profile) -> Result<Self> {
        Self::start_announcing(profile, Announced::AsAsked)
    }

    /// The same, with a choice of the endpoint that clients are told to use.
    pub(crate) fn start_announcing(profile: Profile, announced: Announced) -> Result<Self> {
        Self::start_with(profile, announced, &[])
    }

    /// The same, with further arguments of `orrery serve`.
    pub(crate) fn start_with(
        profile: Profile,
        announced: Announced,
        arguments: &[&str],
    ) -> Result<Self> {
        Self::start_on(profile, announced, StoreKind::Memory, arguments)
    }

    /// The same, with a choice of the store.
    pub(crate) fn start_on(
        profile: Profile,
        announced: Announced,
        store: StoreKind,
        arguments: &[&str],
    ) -> Result<Self> {
        let binary = build("orrery", profile)?;
        let store = store.arguments(&binary)?;
        let address = free_address()?;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = project::cache("conformance")?.join(format!("server-{number}.log"));
        let output = std::fs::File::create(&log)
            .with_context(|| format!("cannot write the server's log {}", log.display()))?;
        let mut command = Command::new(&binary);
        if announced == Announced::Address {
            command.env("ORRERY_PUBLIC_ENDPOINT", format!("https://{address}/"));
        }
        let process = command
            .args(["serve", "--listen", &address.to_string(), "--key", &key()])
            .args(store)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut server = Self { process, address, log };
        server.wait_until_ready()?;
        println!("server: {address}, log in {}", server.log.display());
        Ok(server)
    }

    /// The address for a scheme; one port answers both `http` and `https`. The name `localhost`
    /// matters: SDKs accept a self-made certificate for it.
    pub(crate) fn endpoint(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}/", self.address.port())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let watch = Stopwatch::start();
        while !is_ready(self.address) {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server ended at once ({status}); it said:\n{}", self.last_words());
            }
            if watch.elapsed() > START_LIMIT {
                bail!("the server was not ready after {START_LIMIT:?}: {}", self.last_words());
            }
            std::thread::sleep(PROBE_PAUSE);
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let skip = log.lines().count().saturating_sub(20);
        log.lines().skip(skip).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing it holds is worth an orderly stop, and a failed kill means it is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The account key of every server started here.
pub(crate) fn key() -> String {
    BASE64.encode(KEY_BYTES)
}

/// Starts a program with a file of settings and waits until it is ready, as a package's user would;
/// address and data are not those of the file, which may be in use on this machine.
pub(crate) fn try_out(program: &Path, settings: &Path, data: &Path) -> Result<()> {
    let address = free_address()?;
    let mut process = Command::new(program)
        .arg("serve")
        .arg("--config")
        .arg(settings)
        .args(["--listen", &address.to_string()])
        .arg("--data")
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut ready = Command::new(program);
    ready.args(["ready", "--wait", "30", "--listen", &address.to_string()]);
    let outcome = process::run(&mut ready);
    process.kill()?;
    process.wait()?;
    outcome
}

/// Builds the binary of a package and asks cargo where it is: the target folder is the user's
/// choice.
pub(crate) fn build(package: &str, profile: Profile) -> Result<PathBuf> {
    let mut cargo = project::cargo();
    cargo.args(["build", "--quiet", "--package", package, "--bin", package]);
    cargo.arg("--message-format=json-render-diagnostics");
    match profile {
        Profile::Dev => {}
        Profile::Release => drop(cargo.arg("--release")),
        Profile::Counted => {
            cargo.args(counted_settings()?).env("CARGO_INCREMENTAL", "0");
        }
    }
    println!("server: building {package}");
    executable(&process::output(&mut cargo)?, package)
        .with_context(|| format!("cargo built the package {package} but named no binary"))
}

/// Settings that optimise the crates of this workspace and leave the dependencies as tests have them.
fn counted_settings() -> Result<Vec<String>> {
    const SETTINGS: [&str; 5] = [
        "opt-level=3",
        "debug-assertions=false",
        "overflow-checks=true",
        "codegen-units=4",
        "debug=false",
    ];
    let mut names = Vec::new();
    for entry in std::fs::read_dir(project::root().join("crates"))? {
        let folder = entry?.file_name().to_string_lossy().into_owned();
        names.push(if folder == "cli" { "orrery".to_owned() } else { format!("orrery-{folder}") });
    }
    names.sort();
    // The server embeds the explorer by a macro that must be compiled with the same assertions.
    let applies = |name: &str, setting: &str| {
        name != "orrery-server" || !setting.starts_with("debug-assertions")
    };
    let settings = names.iter().flat_map(|name| {
        SETTINGS
            .iter()
            .filter(move |setting| applies(name, setting))
            .map(move |setting| format!("--config=profile.dev.package.{name}.{setting}"))
    });
    Ok(settings.collect())
}

/// Finds a binary in the messages of `cargo build`.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(|path| Path::new(path).to_owned()))
}

/// A port nobody listens on. Another process could take it before the server does; then the
/// server says so and ends, which is better than talking to the other process.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}

fn is_ready(address: SocketAddr) -> bool {
    get(address, "/readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// The whole answer to a plain request without a key: head, empty line, body.
fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_LIMIT)?;
    stream.set_read_timeout(Some(PROBE_LIMIT))?;
    // In one piece: a server that answers after the first part would reset the connection for the rest.
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The certificate that the server at an endpoint serves for clients that trust it.
pub(crate) fn certificate(endpoint: &str) -> Result<String> {
    let authority = endpoint.split('/').nth(2).unwrap_or_default();
    let mut addresses = authority
        .to_socket_addrs()
        .with_context(|| format!("{endpoint} names no address with a port"))?;
    // The name may have an address of each family; the server listens on one of them.
    let answer = addresses.find_map(|address| get(address, CERTIFICATE).ok());
    let body = answer.as_deref().and_then(|answer| answer.split_once("\r\n\r\n"));
    let (_, pem) = body.with_context(|| format!("{authority} does not answer over plain HTTP"))?;
    ensure!(pem.contains("BEGIN CERTIFICATE"), "{authority}{CERTIFICATE} is not a certificate");
    Ok(pem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/x"}
{"reason":"compiler-artifact","target":{"name":"orrery"},"executable":"/t/debug/orrery"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "orrery"), Some(PathBuf::from("/t/debug/orrery")));
        assert_eq!(executable("", "orrery"), None);
    }

    #[test]
    fn only_a_server_that_answers_200_is_ready() {
        for (answer, expected) in [("HTTP/1.1 200 OK", true), ("HTTP/1.1 503 Starting", false)] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let responder = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 512];
                let _ = stream.read(&mut request).unwrap();
                write!(stream, "{answer}\r\nContent-Length: 0\r\n\r\n").unwrap();
            });
            assert_eq!(is_ready(address), expected, "{answer}");
            responder.join().unwrap();
        }
    }

    #[test]
    fn a_closed_port_is_not_ready() {
        assert!(!is_ready(free_address().unwrap()));
    }
}
