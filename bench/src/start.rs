//! `start`: from starting the process to the first good answer of `/readyz`, on an empty folder, on
//! one with many items, and on the same one after the server was killed; and what a server takes
//! while nobody asks it anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::client::Client;
use crate::load::{self, Until, Work};
use crate::message::Signer;
use crate::process::Process;
use crate::sample::median;
use crate::stopwatch::Stopwatch;
use crate::{disk, machine};

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
    /// Items in the large folder
    #[arg(long, default_value_t = 100_000)]
    items: u64,
    /// Starts on each folder; the median counts
    #[arg(long, default_value_t = 9)]
    runs: usize,
}

const LOADERS: u64 = 64;
/// Items written after the load and before the kill, so that the log has something to replay: near
/// the most that it ever holds.
const UNFLUSHED: u64 = 10_000;
const REST: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(20);

/// What an idle server takes.
struct Idle {
    processor_percent: f64,
    resident_mb: f64,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let (server, runs) = (&options.server, options.runs);
    let syncs = disk::run(folder.path(), Duration::from_secs(2))?.rate();

    let empty = (0..runs).map(|run| {
        let data = folder.path().join(format!("empty-{run}"));
        started(server, &data)
    });
    let empty_ms = empty.collect::<Result<Vec<_>>>()?;
    let empty_idle = idle(&Process::serve(server, &folder.path().join("empty-0"))?.0)?;

    let data = folder.path().join("large");
    let (process, _) = Process::serve(server, &data)?;
    let load_s = fill(&process, 0, options.items, true)?;
    process.stop()?;
    let clean = (0..runs).map(|_| started(server, &data));
    let clean_ms = clean.collect::<Result<Vec<_>>>()?;
    let clean_idle = idle(&Process::serve(server, &data)?.0)?;

    let (process, _) = Process::serve(server, &data)?;
    fill(&process, LOADERS * load::CLIENT_NUMBERS, UNFLUSHED, false)?;
    drop(process);
    let log_mb = log_bytes(&data)? / 1e6;
    let mut killed_ms = Vec::new();
    for run in 0..runs {
        // Each start replays the same log: opening the folder writes the log's content out.
        let copy = folder.path().join(format!("killed-{run}"));
        copy_folder(&data, &copy)?;
        killed_ms.push(started(server, &copy)?);
        std::fs::remove_dir_all(&copy)?;
    }
    let killed_idle = idle(&Process::serve(server, &data)?.0)?;

    machine::describe(&options.root);
    println!("- disk: {syncs:.0} syncs/s by one writer");
    println!(
        "- {} items loaded in {load_s:.0} s; {log_mb:.1} MB of log at the kill",
        options.items
    );
    println!("- {runs} starts each; the median, and the slowest in parentheses");
    println!();
    println!("| folder | ready after ms | idle processor % | idle memory MB |");
    println!("|---|---:|---:|---:|");
    row("target", "< 200", "< 1", "< 100");
    let large = format!("{} items of 1 KB", options.items);
    let killed = format!("{large}, after kill -9");
    for (name, ms, idle) in [
        ("empty", empty_ms, empty_idle),
        (&large, clean_ms, clean_idle),
        (&killed, killed_ms, killed_idle),
    ] {
        let slowest = ms.iter().copied().fold(0.0, f64::max);
        row(
            name,
            &format!("{:.0} ({slowest:.0})", median(ms.into_iter())),
            &format!("{:.2}", idle.processor_percent),
            &format!("{:.1}", idle.resident_mb),
        );
    }
    Ok(())
}

fn row(name: &str, ready: &str, processor: &str, memory: &str) {
    println!("| {name} | {ready} | {processor} | {memory} |");
}

/// Starts a server and kills it once it is ready; gives the time between.
fn started(server: &Path, data: &Path) -> Result<f64> {
    let (_, took) = Process::serve(server, data)?;
    Ok(took.as_secs_f64() * 1000.0)
}

fn idle(process: &Process) -> Result<Idle> {
    std::thread::sleep(REST);
    let before = process.processor()?;
    let watch = Stopwatch::start();
    std::thread::sleep(IDLE);
    let took = process.processor()?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "memory is far below the limit")]
    let resident_mb = process.resident_kb()? as f64 * 1024.0 / 1e6;
    let processor_percent = 100.0 * took.as_secs_f64() / watch.elapsed().as_secs_f64();
    Ok(Idle { processor_percent, resident_mb })
}

/// Creates items through the server; gives the seconds that took.
fn fill(process: &Process, from: u64, items: u64, fresh: bool) -> Result<f64> {
    let signer = Signer::now();
    if fresh {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut client = Client::connect(process.address).await?;
            for request in signer.setup() {
                client.expect(&request, 201).await?;
            }
            anyhow::Ok(())
        })?;
    }
    let work = Work::Creates { create: signer.create(), from };
    let sample = load::run(process.address, LOADERS, &work, Until::Count(items.div_ceil(LOADERS)))?;
    Ok(sample.took.as_secs_f64())
}

/// Bytes of the store's write-ahead log.
#[expect(clippy::cast_precision_loss, reason = "logs are far below the limit")]
fn log_bytes(data: &Path) -> Result<f64> {
    let mut bytes = 0;
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|extension| extension == "log") {
                bytes += entry.metadata()?.len();
            }
        }
    }
    Ok(bytes as f64)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
