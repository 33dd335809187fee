//! All that is measured, running: a server on a folder, `PostgreSQL` with servers on it, and the statements alone.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use postgres::{Client as PostgresClient, NoTls};

use super::statements::{self, Statements};
use super::{Contestant, Event, Measured, Task};
use crate::client::Client;
use crate::load::{self, CLIENT_NUMBERS, Until, Work};
use crate::message::{Numbered, Signer};
use crate::process::Process;
use crate::query::postgres::Postgres;
use crate::sample::Sample;

/// Items to read, loaded by so many clients.
const LOADED_EACH: u64 = 313;
const LOADERS: u64 = 32;
/// Partitions whose items batches change, one for each client, beyond all others; and how many items each has.
const GROUPS: std::ops::Range<u64> = 900_000_000..900_000_008;
const GROUP_ITEMS: u64 = 10;
/// Rows and changes of a page.
const PAGE: usize = 100;
/// Every item is a result: what a page costs does not depend on how many there are.
const QUERY: &str = r#"{"query":"SELECT * FROM c WHERE c.price > 100","parameters":[]}"#;
const SCHEMA: &str = "nodes";
/// Transactions that committed something since a given one, and what they committed.
const GROUP: &str = "SELECT count(*)::float8 / greatest(count(DISTINCT xmin::text), 1) FROM nodes.log \
    WHERE xmin::text::int8 >= $1";

pub(super) struct Arena {
    // Dropped before the server that they use.
    nodes: Vec<Process>,
    statements: Statements,
    client: PostgresClient,
    postgres: Postgres,
    folder_server: Process,
    binary: PathBuf,
    folder: PathBuf,
    signer: Signer,
    reads: Arc<[Vec<u8>]>,
    batches: Arc<[Numbered]>,
    next: u64,
    /// The size of one server's groups when it was last measured, by the number of clients.
    groups: HashMap<u64, f64>,
}

impl Arena {
    pub(super) fn open(binary: &Path, folder: &Path) -> Result<Self> {
        let postgres = Postgres::start_with_tables(folder, &[])?;
        let address = postgres.address();
        orrery_postgres::init(address, &statements::schema(SCHEMA))?;
        let statements = Statements::open(address, folder, LOADERS * LOADED_EACH)?;
        let client = PostgresClient::connect(address, NoTls)?;
        let (folder_server, _) = Process::serve(binary, &folder.join("data"))?;
        let node = serve_node(binary, address, folder, 0)?;
        let signer = Signer::now();
        for server in [&folder_server, &node] {
            fill(server.address, &signer)?;
        }
        let loaded = (0..LOADERS).map(|client| client * CLIENT_NUMBERS);
        let loaded = loaded.flat_map(|from| from..from + LOADED_EACH);
        let reads = loaded.map(|number| signer.read(number)).collect();
        let batches = GROUPS.map(|group| signer.group_batch(group, GROUP_ITEMS)).collect();
        Ok(Self {
            nodes: vec![node],
            statements,
            client,
            postgres,
            folder_server,
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            signer,
            reads,
            batches,
            next: LOADERS * CLIENT_NUMBERS,
            groups: HashMap::new(),
        })
    }

    /// Starts servers until so many run on `PostgreSQL`.
    pub(super) fn add_nodes(&mut self, count: usize) -> Result<()> {
        for nth in self.nodes.len()..count {
            let address = self.postgres.address();
            self.nodes.push(serve_node(&self.binary, address, &self.folder, nth)?);
        }
        Ok(())
    }

    pub(super) fn version(&self) -> Result<String> {
        self.postgres.version()
    }

    pub(super) fn sizes(&self) -> String {
        format!("{} items of 1 KB before anything is measured", self.reads.len())
    }

    pub(super) fn measure(&mut self, event: Event, time: Duration) -> Result<Measured> {
        let processes = match event.contestant {
            Contestant::Statements => return self.measure_statements(event.clients, time),
            Contestant::Folder => std::slice::from_ref(&self.folder_server),
            Contestant::Nodes(count) => self.nodes.get(..count).context("too few servers")?,
        };
        let work = work(self, event.task, self.next);
        self.next += event.clients * CLIENT_NUMBERS;
        let addresses: Vec<SocketAddr> = processes.iter().map(|process| process.address).collect();
        let first = self.client.query_one("SELECT txid_current()", &[])?.get::<_, i64>(0);
        let before = (processor(processes)?, self.postgres.processor()?);
        let mut servers = load::run_spread(&addresses, event.clients, &work, Until::Elapsed(time))?;
        let (own, other) = (processor(processes)?, self.postgres.processor()?);
        servers.processor = Some(own.saturating_sub(before.0));
        if event.contestant == Contestant::Folder {
            return Ok(Measured { servers, postgres: None, group: None });
        }
        let postgres = Some(with_processor(&servers, other.saturating_sub(before.1)));
        let group = if event.task == Task::Create {
            let group = self.client.query_one(GROUP, &[&first])?.get::<_, f64>(0);
            self.groups.insert(event.clients, group);
            Some(group)
        } else {
            None
        };
        Ok(Measured { servers, postgres, group })
    }

    fn measure_statements(&mut self, clients: u64, time: Duration) -> Result<Measured> {
        let group = self.groups.get(&clients).copied().context("no server was measured before")?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "64 at most")]
        let group = group.round().max(1.0) as u64;
        let before = self.postgres.processor()?;
        let servers = self.statements.run(group, time)?;
        let took = self.postgres.processor()?.saturating_sub(before);
        let postgres = Some(with_processor(&servers, took));
        #[expect(clippy::cast_precision_loss, reason = "64 at most")]
        let group = Some(group as f64);
        Ok(Measured { servers, postgres, group })
    }
}

fn work(arena: &Arena, task: Task, from: u64) -> Work {
    let own = |request| Work::Own([request].into());
    match task {
        Task::Create => Work::Creates { create: arena.signer.create(), from },
        Task::Read => Work::Reads(Arc::clone(&arena.reads)),
        Task::QueryPage => own(arena.signer.query(QUERY, None, PAGE, None)),
        Task::FeedPage => own(arena.signer.changes(PAGE, None)),
        Task::Batch => Work::Changes(Arc::clone(&arena.batches)),
    }
}

fn with_processor(sample: &Sample, processor: Duration) -> Sample {
    let latencies_ns = sample.latencies_ns.clone();
    Sample { latencies_ns, took: sample.took, processor: Some(processor) }
}

fn processor(processes: &[Process]) -> Result<Duration> {
    processes.iter().map(Process::processor).sum()
}

fn serve_node(binary: &Path, address: &str, folder: &Path, nth: usize) -> Result<Process> {
    Process::serve_store(binary, (address, SCHEMA), &folder.join(format!("node-{nth}.log")))
}

/// Makes the container, the items to read and those that batches change.
fn fill(address: SocketAddr, signer: &Signer) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::connect(address).await?;
        for request in signer.setup() {
            client.expect(&request, 201).await?;
        }
        for group in GROUPS {
            for number in 0..GROUP_ITEMS {
                client.expect(&signer.create_in(group, number), 201).await?;
            }
        }
        anyhow::Ok(())
    })?;
    let work = Work::Creates { create: signer.create(), from: 0 };
    load::run(address, LOADERS, &work, Until::Count(LOADED_EACH))?;
    Ok(())
}
