//! `import`: how fast items get in, beside `RocksDB` taking the very keys and values that they become,
//! item by item in the order in which they came. The files are read from the page cache, as those are.
//!
//! - *import into a folder*: `orrery import --data`, the whole process, from JSON lines
//! - *import into a server*: `orrery import --endpoint`, the whole process
//! - *raw, in order*: the keys in batches of about 1 MB, each synced, without preconditions
//! - *raw, durable*: the keys in batches of as many items as the import commits at once, each synced

use std::collections::HashMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use orrery_storage::key::{self, Bounds};
use orrery_storage::{
    Commit, Copied, HeadChange, Part, Put, ReadAt, RocksOptions, RocksStore, Scan, ShardState,
    Space, Store as _, Value, record,
};
use orrery_types::{Epoch, Lsn, ShardId};

use crate::process::Process;
use crate::sample::median;
use crate::stopwatch::Stopwatch;
use crate::{disk, machine, message};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long)]
    server: PathBuf,
    /// The checkout, for the commit's name
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Folder for the data, on the disk to be measured [default: the system's for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Items of 1 KB
    #[arg(long, default_value_t = 1_000_000)]
    items: u64,
    /// Items that go into a running server
    #[arg(long, default_value_t = 100_000)]
    online: u64,
    /// Rounds in which all take their turn; the medians count
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

/// Items of one durable batch: what the import commits at once on two lanes.
const BATCH_ITEMS: usize = 4096;
/// Entries that are copied at once: about 1 MB.
const LOAD_ENTRIES: usize = 16_384;
const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(1);

/// As the import opens the store.
fn options() -> RocksOptions {
    RocksOptions {
        write_buffer_bytes: 256 * 1024 * 1024,
        log_bytes_max: 256 * 1024 * 1024,
        ..RocksOptions::default()
    }
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let syncs = disk::run(folder.path(), Duration::from_secs(2))?.rate();
    let file = folder.path().join("items.jsonl");
    write_items(&file, options.items)?;
    let few = folder.path().join("few.jsonl");
    write_items(&few, options.online)?;
    let (mut offline, mut online, mut loaded, mut durable) = (vec![], vec![], vec![], vec![]);
    let mut writes = 0;
    for round in 0..options.rounds.max(1) {
        let data = folder.path().join(format!("data-{round}"));
        offline.push(rate(options.items, import_into_folder(options, &file, &data)?));
        let pairs = Pairs::read(&data.join("store"))?;
        writes = pairs.places.len();
        std::fs::remove_dir_all(&data)?;
        let raw = folder.path().join(format!("raw-{round}"));
        loaded.push(rate(options.items, load(&raw, &pairs)?));
        std::fs::remove_dir_all(&raw)?;
        durable.push(rate(options.items, commit(&raw, &pairs)?));
        std::fs::remove_dir_all(&raw)?;
        drop(pairs);
        let served = folder.path().join(format!("served-{round}"));
        online.push(rate(options.online, import_into_server(options, &few, &served)?));
        std::fs::remove_dir_all(&served)?;
    }
    machine::describe(&options.root);
    println!("- disk: {syncs:.0} syncs/s by one writer");
    println!(
        "- {} items of 1 KB, {writes} keys; {} items into the server",
        options.items, options.online
    );
    println!();
    println!("| who | items/s | part of raw, in order | part of raw, durable |");
    println!("|---|---:|---:|---:|");
    let middle = |list: &[f64]| median(list.iter().copied());
    let (raw, safe) = (middle(&loaded), middle(&durable));
    for (who, rate) in [
        ("import into a folder", middle(&offline)),
        ("import into a server", middle(&online)),
        ("raw, in order", raw),
        ("raw, durable", safe),
    ] {
        println!("| {who} | {rate:.0} | {:.2} | {:.2} |", rate / raw, rate / safe);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rate has few digits")]
fn rate(items: u64, took: Duration) -> f64 {
    items as f64 / took.as_secs_f64()
}

fn write_items(path: &Path, count: u64) -> Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    for number in 0..count {
        writeln!(out, "{}", message::body(number))?;
    }
    out.flush().context("the items cannot be written")
}

fn import(options: &Options, file: &Path, state: &Path) -> Command {
    let mut command = Command::new(&options.server);
    command.arg("import").arg(file).args(["--database", "bench", "--container", "items"]);
    command.args(["--create", "/pk"]).env("XDG_STATE_HOME", state);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn timed(mut command: Command) -> Result<Duration> {
    let watch = Stopwatch::start();
    let status = command.status().context("the import does not start")?;
    ensure!(status.success(), "the import ended with {status}");
    Ok(watch.elapsed())
}

fn import_into_folder(options: &Options, file: &Path, data: &Path) -> Result<Duration> {
    let mut command = import(options, file, &data.with_extension("state"));
    command.arg("--data").arg(data);
    timed(command)
}

fn import_into_server(options: &Options, file: &Path, data: &Path) -> Result<Duration> {
    let (process, _) = Process::serve(&options.server, data)?;
    let mut command = import(options, file, &data.with_extension("state"));
    let endpoint = format!("http://{}", process.address);
    command.args(["--endpoint", &endpoint, "--key", &message::key()]);
    timed(command)
}

/// Everything that an import has written, item by item. The bytes lie in one piece: millions of small
/// ones would cost more than they hold.
struct Pairs {
    bytes: Vec<u8>,
    /// Row, and where the pair lies.
    places: Vec<(u64, Place)>,
}

#[derive(Clone, Copy)]
struct Place {
    space: Space,
    at: usize,
    key: usize,
    value: usize,
}

impl Pairs {
    /// Reads the store of an import.
    fn read(store: &Path) -> Result<Self> {
        let store = RocksStore::open(store, &options()).context("the imported folder")?;
        let mut pairs = Self { bytes: Vec::new(), places: Vec::new() };
        let mut rows = HashMap::new();
        let shards = store.shards().map_err(|error| anyhow!("{error}"))?;
        // The catalog lies in shard 0.
        for (shard, _) in shards.into_iter().filter(|(shard, _)| *shard != ShardId(0)) {
            for space in [Space::Items, Space::Index, Space::Feed] {
                pairs.read_space(&store, shard, space, &mut rows)?;
            }
        }
        // Pairs of an item stay in the order in which they were read, item before index.
        pairs.places.sort_by_key(|(row, _)| *row);
        Ok(pairs)
    }

    fn read_space(
        &mut self,
        store: &RocksStore,
        shard: ShardId,
        space: Space,
        rows: &mut HashMap<Vec<u8>, u64>,
    ) -> Result<()> {
        let snapshot = store.snapshot(shard, ReadAt::Latest).map_err(|error| anyhow!("{error}"))?;
        let mut bounds = Bounds { from: Vec::new(), to: key::END.to_vec() };
        loop {
            let (from, to) = (&*bounds.from, &*bounds.to);
            let (max_rows, max_bytes) = (10_000, 64 << 20);
            let scan =
                Scan { space, from, to, reverse: false, max_rows, max_bytes, keys_only: false };
            let entries = snapshot.scan(&scan).map_err(|error| anyhow!("{error}"))?;
            for entry in &entries {
                let row = row_of(space, &entry.key, &entry.value.bytes, rows)?;
                let place = Place {
                    space,
                    at: self.bytes.len(),
                    key: entry.key.len(),
                    value: entry.value.bytes.len(),
                };
                self.bytes.extend_from_slice(&entry.key);
                self.bytes.extend_from_slice(&entry.value.bytes);
                self.places.push((row, place));
            }
            let Some(last) = entries.last() else { return Ok(()) };
            bounds = bounds.after(&last.key);
        }
    }

    fn put(&self, place: Place) -> Put {
        let bytes = &self.bytes[place.at..place.at + place.key + place.value];
        let (key, value) = bytes.split_at(place.key);
        Put { space: place.space, key: key.to_vec(), value: value.to_vec() }
    }
}

/// The item that a pair belongs to.
fn row_of(space: Space, key: &[u8], value: &[u8], rows: &mut HashMap<Vec<u8>, u64>) -> Result<u64> {
    let last = key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    match space {
        Space::Items if key::parse_row(key).is_some() => last.context("a row key"),
        Space::Items => {
            let (header, _) = record::decode(value).map_err(|error| anyhow!("{error}"))?;
            rows.insert(key.to_vec(), header.row.0);
            Ok(header.row.0)
        }
        Space::Feed => rows.get(value).copied().context("a change of an item that is not there"),
        _ => last.context("an index key ends with its row"),
    }
}

fn raw_store(folder: &Path) -> Result<RocksStore> {
    let store = RocksStore::open(folder, &options())?;
    store.create_shard(SHARD, EPOCH).map_err(|error| anyhow!("{error}"))?;
    Ok(store)
}

/// Writes all pairs in order, without preconditions.
fn load(folder: &Path, pairs: &Pairs) -> Result<Duration> {
    let watch = Stopwatch::start();
    let store = raw_store(folder)?;
    let storage = |error| anyhow!("{error}");
    let mut entries = Vec::new();
    for (_, place) in &pairs.places {
        let Put { space, key, value } = pairs.put(*place);
        let value = Some(Value { version: Lsn(1), bytes: value.into() });
        entries.push(Copied { space, key, value });
        if entries.len() == LOAD_ENTRIES {
            store.copy_into(SHARD, &entries).map_err(storage)?;
            entries.clear();
        }
    }
    store.copy_into(SHARD, &entries).map_err(storage)?;
    let open = HeadChange::state(ShardState::Building, ShardState::Open, EPOCH);
    let open = HeadChange { least_lsn: Lsn(1), ..open };
    store.commit(Commit::new(vec![Part::of_head(SHARD, EPOCH, open)])).map_err(storage)?;
    drop(store);
    Ok(watch.elapsed())
}

/// Commits all pairs in synced batches, without checks.
fn commit(folder: &Path, pairs: &Pairs) -> Result<Duration> {
    let watch = Stopwatch::start();
    let store = raw_store(folder)?;
    store.create_open_shard(SHARD, EPOCH).map_err(|error| anyhow!("{error}"))?;
    let mut rest = &pairs.places[..];
    while !rest.is_empty() {
        let mut part = Part::new(SHARD, EPOCH);
        let (mut items, mut count) = (0, 0);
        let mut last = None;
        for (row, _) in rest {
            if last != Some(*row) {
                items += 1;
                last = Some(*row);
            }
            if items > BATCH_ITEMS {
                break;
            }
            count += 1;
        }
        let (batch, others) = rest.split_at(count);
        for (_, place) in batch {
            let put = pairs.put(*place);
            // The feed is written by commits themselves.
            if put.space == Space::Feed { part.feed.push(put.value) } else { part.puts.push(put) }
        }
        store.commit(Commit::new(vec![part])).map_err(|error| anyhow!("{error}"))?;
        rest = others;
    }
    drop(store);
    Ok(watch.elapsed())
}
