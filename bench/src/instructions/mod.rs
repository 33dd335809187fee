//! `instructions`: how many instructions the server executes for one request, on thirteen paths. Callgrind counts
//! them, so the figures do not depend on what else the machine does, and a change of a few percent shows. The
//! counts of all threads are taken, the committer's among them. `bench/instructions.txt` holds the figures of the
//! tree; a run compares with it, fails if a path has grown by more than 5 %, and names the functions that grew.
//!
//! It is no part of `make test`: it needs an optimised build of every crate beside that of the tests, and libraries
//! choose functions by the processor (`__memcpy_avx_unaligned_erms`), so that figures of two machines differ.

mod cases;
mod profile;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::client::Client;
use crate::message::{Signer, Target};
use crate::process::Process;
use crate::wire::{Connection, Trust, Wire};
use cases::{Case, Way, cases, prepare};
use profile::{Baseline, Profile};

/// What to measure, and what to compare it with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long)]
    server: PathBuf,
    /// The checkout, which holds the figures to compare with
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Folder for the data [default: the system's for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Figures to compare with [default: bench/instructions.txt]
    #[arg(long)]
    against: Option<PathBuf>,
    /// Write the figures to this file; compares only with `--against`
    #[arg(long)]
    write: Option<PathBuf>,
    /// Requests of each path
    #[arg(long, default_value_t = 200)]
    requests: u64,
}

/// A path may grow by this part of its instructions.
const GROWTH_MAX: f64 = 0.05;
/// Requests before the counted ones.
const WARM_UP: u64 = 20;

/// Measures, prints, and compares or writes.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let measured = measure(options, folder.path())?;
    if let Some(path) = &options.write {
        std::fs::write(path, Baseline::of(&measured).to_text())?;
        if options.against.is_none() {
            return Ok(());
        }
    }
    let kept = options.root.join("bench/instructions.txt");
    let against = options.against.as_ref().unwrap_or(&kept);
    let text = std::fs::read_to_string(against)
        .with_context(|| format!("no figures to compare with in {}", against.display()))?;
    let baseline = Baseline::parse(&text)?;
    println!("| path | before | now | change |");
    println!("|---|---:|---:|---:|");
    let mut grown = Vec::new();
    for (name, profile) in &measured {
        let now = profile.total();
        let Some(before) = baseline.total(name) else {
            println!("| {name} | | {now} | |");
            continue;
        };
        let change = relative(before, now);
        println!("| {name} | {before} | {now} | {:+.1} % |", change * 100.0);
        if change > GROWTH_MAX {
            grown.push((name, profile));
        }
    }
    for (name, profile) in &grown {
        println!("\n{name}: functions that grew, in instructions for one request");
        for (function, before, now) in baseline.growth(name, profile) {
            println!(
                "  {:+8} {function} ({before} before)",
                now.cast_signed() - before.cast_signed()
            );
        }
    }
    if !grown.is_empty() {
        bail!("{} paths grew by more than {} %", grown.len(), GROWTH_MAX * 100.0);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "instructions of a request are below 2^52")]
fn relative(before: u64, now: u64) -> f64 {
    now as f64 / (before as f64).max(1.0) - 1.0
}

fn measure(options: &Options, folder: &Path) -> Result<Vec<(&'static str, Profile)>> {
    let counts = folder.join("counts");
    let valgrind = Valgrind::new(folder, &counts)?;
    let binary = stripped(&options.server, folder)?;
    let data = folder.join("data");
    let server = Process::serve_under(&valgrind.command(), &binary, &data)?;
    let trust = Trust::of_server(&data)?;
    let signer = Signer::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let target = {
        let mut client = runtime.block_on(Client::connect(server.address))?;
        for request in prepare(&signer) {
            runtime.block_on(client.expect(&request, 201))?;
        }
        runtime.block_on(Target::find(&mut client, &signer))?
    };
    let mut way = Way::Plain;
    let mut client = runtime.block_on(Wire::Http1.connect(server.address))?;
    let create = |client: &mut Connection, requests: Vec<Vec<u8>>| {
        runtime.block_on(async {
            for request in requests {
                client.expect(&request, 201).await?;
            }
            anyhow::Ok(())
        })
    };
    let mut measured = Vec::new();
    for (at, case) in cases(&signer, &target).into_iter().enumerate() {
        let Case { name, status, setup, way: own_way, mut request } = case;
        if own_way != way {
            let wire = match own_way {
                Way::Plain => Wire::Http1,
                Way::Tls => Wire::Http1Tls(trust.clone()),
                Way::Direct => Wire::Direct(trust.clone()),
            };
            // One at a time: a thread with a single connection commits by itself.
            client = runtime.block_on(wire.connect(server.address))?;
            way = own_way;
        }
        create(&mut client, setup).context(name)?;
        let mut send = |client: &mut Connection, range: std::ops::Range<u64>| {
            runtime.block_on(async {
                for number in range {
                    client.expect(&request(number), status).await.context(name)?;
                }
                anyhow::Ok(())
            })
        };
        send(&mut client, 0..WARM_UP)?;
        valgrind.ask(&server, "instrumentation on")?;
        send(&mut client, WARM_UP..WARM_UP + options.requests)?;
        valgrind.ask(&server, "dump")?;
        valgrind.ask(&server, "instrumentation off")?;
        let text = std::fs::read_to_string(counts.with_extension((at + 1).to_string()))?;
        let profile = Profile::parse(&text)?.for_one_of(options.requests);
        println!("{name}: {} instructions", profile.total());
        measured.push((name, profile));
    }
    server.stop()?;
    Ok(measured)
}

/// A copy of the binary without debug information, which valgrind does not read in every version; the names of
/// functions stay.
fn stripped(binary: &Path, folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("server");
    let status =
        Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(binary).status();
    let status = status.context("strip, a part of binutils, cannot be started")?;
    ensure!(status.success(), "strip refuses {}", binary.display());
    Ok(copy)
}

/// Runs the server, and switches counting on and off.
struct Valgrind {
    counts: PathBuf,
    pipes: PathBuf,
}

impl Valgrind {
    fn new(folder: &Path, counts: &Path) -> Result<Self> {
        let found = Command::new("valgrind").arg("--version").output();
        ensure!(
            found.is_ok_and(|output| output.status.success()),
            "valgrind is missing; on Debian, `apt-get install valgrind` installs it"
        );
        Ok(Self { counts: counts.to_owned(), pipes: folder.join("vgdb") })
    }

    fn command(&self) -> Vec<String> {
        vec![
            "valgrind".to_owned(),
            "--tool=callgrind".to_owned(),
            "--instr-atstart=no".to_owned(),
            format!("--callgrind-out-file={}", self.counts.display()),
            format!("--vgdb-prefix={}", self.pipes.display()),
        ]
    }

    /// Sends a command of callgrind to the running server.
    fn ask(&self, server: &Process, question: &str) -> Result<()> {
        let mut vgdb = Command::new("vgdb");
        vgdb.arg(format!("--vgdb-prefix={}", self.pipes.display()));
        vgdb.arg(format!("--pid={}", server.id())).args(question.split(' '));
        let output = vgdb.output().context("vgdb, a part of valgrind, cannot be started")?;
        ensure!(
            output.status.success(),
            "valgrind refuses \"{question}\": {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
