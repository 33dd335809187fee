//! The systems that are compared, each started on loopback with a folder and a port of its own.
//!
//! | System | Writes are durable before they are answered |
//! |---|---|
//! | Orrery | yes |
//! | `PostgreSQL`, `jsonb` with a GIN index, `fastupdate` on or off | yes |
//! | `@vercel/cosmosdb-server` | no: it keeps everything in memory |

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::Options;
use super::session::{self, Session};
use crate::client::Client;
use crate::process::Process;
use crate::query::postgres::Postgres;
use crate::stopwatch::Stopwatch;

const COSMOSDB_SERVER: &str = "@vercel/cosmosdb-server@1.0.1";
const START_LIMIT: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_millis(20);

/// A system that runs; dropping it ends it.
pub(super) struct System {
    name: &'static str,
    kind: Kind,
}

enum Kind {
    Orrery(Process),
    /// A server that somebody else has started.
    Address(SocketAddr),
    /// Two tables of one server.
    Postgres {
        server: Rc<Postgres>,
        table: &'static str,
    },
    CosmosdbServer(NodeProcess),
}

impl System {
    /// Starts all of them; those from npm only if there is a folder for packages.
    pub(super) fn start_all(options: &Options, folder: &Path) -> Result<Vec<Self>> {
        let (orrery, _) = Process::serve(&options.server, &folder.join("data"))?;
        let mut systems = vec![Self { name: "Orrery", kind: Kind::Orrery(orrery) }];
        if let Some(before) = &options.before {
            let (orrery, _) = Process::serve(before, &folder.join("before"))?;
            systems.push(Self { name: "Orrery before", kind: Kind::Orrery(orrery) });
        }
        if options.no_others {
            return Ok(systems);
        }
        let postgres = Rc::new(Postgres::start_with_tables(
            folder,
            &[("items_fast", "on"), ("items_slow", "off")],
        )?);
        let table = |table, name| Self {
            name,
            kind: Kind::Postgres { server: Rc::clone(&postgres), table },
        };
        systems.push(table("items_fast", "PostgreSQL"));
        systems.push(table("items_slow", "PostgreSQL, fastupdate off"));
        if let Some(packages) = &options.packages {
            let kind = Kind::CosmosdbServer(NodeProcess::start(packages)?);
            systems.push(Self { name: "cosmosdb-server, not durable", kind });
        }
        Ok(systems)
    }

    /// A server of Orrery that runs already.
    pub(super) fn at(address: SocketAddr) -> Self {
        Self { name: "Orrery", kind: Kind::Address(address) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether an answered write is on the disk.
    pub(super) fn is_durable(&self) -> bool {
        !matches!(self.kind, Kind::CosmosdbServer(_))
    }

    pub(super) fn version(&self) -> Result<String> {
        Ok(match &self.kind {
            Kind::Orrery(_) | Kind::Address(_) => env!("CARGO_PKG_VERSION").to_owned(),
            Kind::Postgres { server, .. } => server.version()?,
            Kind::CosmosdbServer(_) => COSMOSDB_SERVER.to_owned(),
        })
    }

    pub(super) async fn connect(&self) -> Result<Session> {
        match &self.kind {
            Kind::Orrery(process) => Ok(session::http(Client::connect(process.address).await?)),
            Kind::Postgres { server, table } => session::postgres(server.address(), table).await,
            Kind::Address(address) => Ok(session::http(Client::connect(*address).await?)),
            Kind::CosmosdbServer(node) => Ok(session::http(Client::connect(node.address).await?)),
        }
    }
}

/// A server of Node.js.
struct NodeProcess {
    child: Child,
    address: SocketAddr,
}

impl NodeProcess {
    /// Installs the package if it is not there, and starts it with connections that are kept.
    fn start(packages: &Path) -> Result<Self> {
        if !packages.join("node_modules/@vercel/cosmosdb-server").exists() {
            std::fs::create_dir_all(packages)?;
            let mut install = Command::new("npm");
            install.args(["install", "--silent", "--prefix"]).arg(packages).arg(COSMOSDB_SERVER);
            let status = install.status().context("npm is missing")?;
            ensure!(status.success(), "npm cannot install {COSMOSDB_SERVER}");
        }
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let script = format!(
            "require('@vercel/cosmosdb-server').createHttpServer({{ keepAlive: true }}).listen({}, '127.0.0.1')",
            address.port()
        );
        let mut node = Command::new("node");
        node.current_dir(packages).args(["-e", &script]).stdin(Stdio::null());
        node.stdout(Stdio::null()).stderr(Stdio::null());
        let child = node.spawn().context("node is missing")?;
        let (process, watch) = (Self { child, address }, Stopwatch::start());
        while TcpStream::connect(address).is_err() {
            ensure!(watch.elapsed() < START_LIMIT, "{COSMOSDB_SERVER} does not start");
            std::thread::sleep(START_PAUSE);
        }
        Ok(process)
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // A failed kill means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
