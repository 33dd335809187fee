//! `cargo xtask conformance`: official SDKs, unpatched, against a running server. Python and `go-own`
//! run the SDK's own tests; the others run our end-to-end tests through the SDK.

mod entra;
pub(crate) mod go;
mod go_own;
mod issuer;
pub(crate) mod java;
pub(crate) mod javascript;
mod known;
pub(crate) mod python;
mod rust;

pub(crate) use rust::target as rust_target;

use crate::server::{self, Announced, Profile as Build, Server, StoreKind};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use entra::EntraServer;
use known::KnownFailures;
use regex::Regex;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Options {
    /// Which SDK.
    suite: Suite,
    /// A server that runs already, such as `https://localhost:8081/`; otherwise one is started.
    #[arg(long, requires = "key")]
    endpoint: Option<String>,
    /// The account key of that server.
    #[arg(long, requires = "endpoint")]
    key: Option<String>,
    /// Which tests of the Python suite.
    #[arg(long, default_value = "core")]
    profile: Profile,
    /// Only test files whose name matches this regular expression.
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// Physical partitions of every new container, on the server that is started.
    #[arg(long, default_value_t = 1, conflicts_with = "endpoint")]
    ranges: u16,
    /// Where the server that is started keeps its data.
    #[arg(long, default_value = "memory", conflicts_with = "endpoint")]
    store: StoreKind,
    /// Only this mode of the Java SDK; otherwise both.
    #[arg(long)]
    mode: Option<ConnectionMode>,
    /// How many test files run at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Start a release build of the server.
    #[arg(long)]
    release: bool,
    /// Write all Python results here as JSON; without it they are kept in the user's cache.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Find the Python tests that pass without a server and write conformance/python/unit-tests.txt.
    #[arg(long, conflicts_with = "endpoint")]
    classify: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    Python,
    Js,
    Rust,
    Go,
    GoOwn,
    Java,
    All,
}

impl Suite {
    fn signs_in_with_tokens(self) -> bool {
        matches!(self, Self::Python | Self::Js | Self::Go | Self::Java | Self::All)
    }
}

/// How an SDK reaches items.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConnectionMode {
    /// Over HTTP.
    Gateway,
    /// By binary frames.
    Direct,
}

/// Selections of the Python suite by the marks its authors gave the tests.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// What one region with several partitions can serve.
    Core,
    /// The files of core named in conformance/python/short.txt; a few minutes.
    Short,
    /// Tests that make a container split and wait for it; slow.
    Split,
    /// Core, split, and the tests without a mark.
    All,
}

/// Where a suite finds its server.
struct Target {
    /// The server speaks both schemes at one port; a given endpoint is used as it is.
    endpoints: Vec<String>,
    key: String,
    /// Where tokens are accepted and keys are not; a given endpoint has none beside it.
    entra: Option<EntraServer>,
}

impl Target {
    /// The address that suites use which run once: the safer scheme where there is a choice.
    fn endpoint(&self) -> &str {
        self.endpoints.last().expect("a target has at least one endpoint")
    }

    /// The server for tests with tokens, in a run against an address: SDKs send tokens over TLS only.
    fn entra(&self, endpoint: &str) -> Option<&EntraServer> {
        self.entra.as_ref().filter(|_| endpoint.starts_with("https:"))
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.classify {
        return python::classify(options);
    }
    let wants = |suite| options.suite == suite || options.suite == Suite::All;
    let mut red = Vec::new();
    let (target, _server) = target(options)?;
    for (suite, name, run) in [
        (Suite::Js, "js", javascript::run as fn(&Options, &Target) -> Result<()>),
        (Suite::Rust, "rust", rust::run),
        (Suite::Go, "go", go::run),
        (Suite::GoOwn, "go-own", go_own::run),
        (Suite::Java, "java", java::run),
        (Suite::Python, "python", python::run),
    ] {
        if wants(suite) {
            println!("\n== {name} against {}", target.endpoints.join(" and "));
            if let Err(error) = run(options, &target) {
                println!("{name}: {error:#}");
                red.push(name);
            }
        }
    }
    if !red.is_empty() {
        bail!("conformance is red: {}", red.join(", "));
    }
    Ok(())
}

/// The given server, or one of our own that lives as long as the second value.
fn target(options: &Options) -> Result<(Target, Option<Server>)> {
    if let (Some(endpoint), Some(key)) = (&options.endpoint, &options.key) {
        let endpoint = format!("{}/", endpoint.trim_end_matches('/'));
        println!("conformance: tests with tokens need a server of their own, and are left out");
        let target = Target { endpoints: vec![endpoint], key: key.clone(), entra: None };
        return Ok((target, None));
    }
    let server = options.start_server(Announced::AsAsked)?;
    let endpoints = ["http", "https"].map(|scheme| server.endpoint(scheme)).to_vec();
    let entra = options.suite.signs_in_with_tokens().then(|| EntraServer::start(options));
    Ok((Target { endpoints, key: server::key(), entra: entra.transpose()? }, Some(server)))
}

impl Options {
    fn start_server(&self, announced: Announced) -> Result<Server> {
        self.start_server_with(announced, &[])
    }

    /// The same, with further arguments of `orrery serve`.
    fn start_server_with(&self, announced: Announced, more: &[&str]) -> Result<Server> {
        let build = if self.release { Build::Release } else { Build::Dev };
        let ranges = self.ranges.to_string();
        let arguments = [&["--ranges", &ranges], more].concat();
        Server::start_on(build, announced, self.store, &arguments)
    }

    /// A server that announces what an emulator does, unless one was given: SDKs' own suites take
    /// `localhost` and `127.0.0.1` for two regions, and expect to be told of the second.
    fn emulator_like(&self) -> Result<Option<(Target, Server)>> {
        if self.endpoint.is_some() {
            return Ok(None);
        }
        let server = self.start_server(Announced::Address)?;
        let endpoints = vec![server.endpoint("https")];
        let target = Target { endpoints, key: server::key(), entra: None };
        Ok(Some((target, server)))
    }

    /// The known failures of a suite; a container of several ranges may have more.
    fn known_failures(&self, folder: &Path) -> Result<KnownFailures> {
        let known = KnownFailures::read(&folder.join("known-failures.txt"))?;
        let more = folder.join("known-failures-ranges.txt");
        if self.ranges > 1 && more.exists() {
            return known.and(KnownFailures::read(&more)?);
        }
        Ok(known)
    }
}
