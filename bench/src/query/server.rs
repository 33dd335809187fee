//! Our side: a server with the items, asked over HTTP by one client.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orrery_storage::{RocksOptions, RocksStore, Space};
use orrery_types::Value;
use tokio::runtime::Runtime;

use super::cases::{Case, Found, PAGE};
use super::goods::{self, PARTITION_ITEMS};
use crate::client::Client;
use crate::message::Signer;
use crate::process::Process;
use crate::stopwatch::Stopwatch;

pub(crate) struct Server {
    process: Process,
    data: PathBuf,
    runtime: Runtime,
    client: Client,
}

/// Clients that load at once, so that their commits share syncs.
const LOADERS: usize = 16;
/// How often an idle server is looked for, and for how long at most.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// It begins to tidy up when nobody has written for a second or two.
const QUIET_LOOKS: usize = 4;
const REST_LIMIT: Duration = Duration::from_secs(300);
/// Rows that a query may bring back in one page; more than any of them has.
const ROWS_MAX: usize = 1000;

impl Server {
    pub(crate) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let data = folder.join("data");
        let (process, _) = Process::serve(binary, &data)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let mut client = Client::connect(process.address).await?;
            for request in Signer::now().setup() {
                client.expect(&request, 201).await?;
            }
            anyhow::Ok(client)
        })?;
        Ok(Self { process, data, runtime, client })
    }

    /// Stops and starts it anew, so that nothing is in its own memory.
    pub(crate) fn restart(self, binary: &Path) -> Result<Self> {
        let Self { process, data, runtime, client } = self;
        drop(client);
        process.stop()?;
        let (process, _) = Process::serve(binary, &data)?;
        let client = runtime.block_on(Client::connect(process.address))?;
        Ok(Self { process, data, runtime, client })
    }

    /// Creates items, a logical partition in each batch.
    pub(crate) fn load(&self, numbers: Range<u64>) -> Result<()> {
        let next = Arc::new(AtomicU64::new(numbers.start / PARTITION_ITEMS));
        let end = numbers.end / PARTITION_ITEMS;
        let address = self.process.address;
        self.runtime.block_on(async {
            let load = || {
                let next = next.clone();
                tokio::spawn(async move {
                    let mut client = Client::connect(address).await?;
                    loop {
                        let partition = next.fetch_add(1, Ordering::Relaxed);
                        if partition >= end {
                            return anyhow::Ok(());
                        }
                        let first = partition * PARTITION_ITEMS;
                        let request = batch(first..first + PARTITION_ITEMS);
                        client.expect(&request, 200).await?;
                    }
                })
            };
            let tasks: Vec<_> = (0..LOADERS).map(|_| load()).collect();
            for task in tasks {
                task.await.context("a client panicked")??;
            }
            Ok(())
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address
    }

    /// Memory in use, in megabytes.
    pub(crate) fn resident_mb(&self) -> Result<u64> {
        Ok(self.process.resident_kb()? / 1024)
    }

    /// Bytes in the files of its data folder.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        folder_bytes(&self.data)
    }

    /// Waits until the work that a load leaves behind is done, and says how long that took.
    pub(crate) fn rest(&self) -> Result<Duration> {
        let watch = Stopwatch::start();
        let (mut before, mut quiet) = (self.process.processor()?, 0);
        loop {
            std::thread::sleep(LOOK_PAUSE);
            let now = self.process.processor()?;
            let is_quiet = now.saturating_sub(before) <= LOOK_PAUSE / 50;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet >= QUIET_LOOKS {
                return Ok(watch.elapsed());
            }
            ensure!(watch.elapsed() < REST_LIMIT, "the server does not come to rest");
            before = now;
        }
    }

    /// Asks, and says how long the answer took. Of a query by pages it is the second one.
    pub(super) fn ask(&mut self, case: Case, number: u64) -> Result<(Found, u64)> {
        let (runtime, client) = (&self.runtime, &mut self.client);
        let signer = Signer::now();
        let body = case.query(number);
        let key = (case == Case::SinglePartition).then(|| goods::partition(number));
        let paged = case == Case::PageByContinuation;
        let size = if paged { PAGE } else { ROWS_MAX };
        runtime.block_on(async {
            let mut token = None;
            if paged {
                let first = client.expect(&signer.query(&body, None, size, None), 200).await?;
                token = Some(header(first.head, "x-ms-continuation").context("there is no next")?);
            }
            let request = signer.query(&body, key.as_deref(), size, token.as_deref());
            let watch = Stopwatch::start();
            let answer = client.expect(&request, 200).await?;
            let took_ns = watch.nanoseconds();
            let more = header(answer.head, "x-ms-continuation").is_some();
            ensure!(paged || !more, "{case:?} has more than one page");
            let answer = Value::parse(answer.body).context("the answer is not JSON")?;
            let rows = answer.get("Documents").as_array().unwrap_or_default();
            let found = match (case.is_value(), rows) {
                (true, [value]) => {
                    Found::Value(value.as_number().context("not a number")?.as_f64())
                }
                (true, _) => anyhow::bail!("{case:?} did not answer with one value"),
                (false, rows) => Found::Rows(rows.len()),
            };
            Ok((found, took_ns))
        })
    }

    /// Stops the server, settles its data folder, and says what the items and their index take.
    pub(super) fn settle(self) -> Result<Settled> {
        drop(self.client);
        self.process.stop()?;
        let store = RocksStore::open(&self.data.join("store"), &RocksOptions::default())?;
        let sizes = store.compact_and_measure()?;
        let of = |space| sizes.iter().filter(|s| s.space == space).map(|s| s.disk_bytes).sum();
        let all = sizes.iter().map(|size| size.disk_bytes).sum();
        Ok(Settled { items: of(Space::Items), index: of(Space::Index), all })
    }
}

/// Bytes that lie on the disk.
pub(super) struct Settled {
    pub(super) items: u64,
    pub(super) index: u64,
    pub(super) all: u64,
}

fn batch(numbers: Range<u64>) -> Vec<u8> {
    let partition = goods::partition(numbers.start);
    let operation =
        |number| format!(r#"{{"operationType":"Create","resourceBody":{}}}"#, goods::text(number));
    let operations: Vec<String> = numbers.map(operation).collect();
    let wishes = [("prefer", "return=minimal")];
    Signer::now().batch(&partition, &format!("[{}]", operations.join(",")), &wishes)
}

fn header(head: &[u8], name: &str) -> Option<String> {
    let head = std::str::from_utf8(head).ok()?;
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be gone by now: the server deletes what it has compacted.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
