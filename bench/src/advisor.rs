//! `advisor`: how long `orrery advise --items` takes over a large export that looks like a shop's, how
//! much memory it takes, and whether it finds the faults that were planted and no others.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orrery_types::Value;

use crate::machine;
use crate::stopwatch::Stopwatch;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary
    #[arg(long)]
    server: PathBuf,
    /// The checkout, for the commit's name
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Folder for the export [default: the system's for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Items in the export
    #[arg(long, default_value_t = 1_000_000)]
    items: u64,
}

/// The promise.
const SECONDS_MAX: f64 = 30.0;
const MEGABYTES_MAX: f64 = 500.0;
const PAUSE: Duration = Duration::from_millis(20);
/// Planted: orders that name customers and products without a relation, prices of two types, and
/// customers' logs that grow.
const PLANTED: [&str; 4] = [
    "M01 customer /log",
    "M07 order /customerId",
    "M07 order /lines/*/productId",
    "M13 product /price",
];

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let file = folder.path().join("shop.jsonl");
    let bytes = export(&file, options.items)?;
    let mut command = Command::new(&options.server);
    command.args(["advise", "--json", "--items"]).arg(&file).stdout(Stdio::piped());
    let watch = Stopwatch::start();
    let mut child = command.spawn().context("cannot start the binary")?;
    let mut output = child.stdout.take().context("no standard output")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).map(|_| text)
    });
    let mut peak_kb = 0;
    while child.try_wait()?.is_none() {
        peak_kb = peak_kb.max(peak(child.id()).unwrap_or(0));
        std::thread::sleep(PAUSE);
    }
    let seconds = watch.elapsed().as_secs_f64();
    let text = reader.join().ok().context("the output was not read")??;
    let report = Value::parse(text.as_bytes()).context("the report is not JSON")?;
    let findings = report.get("findings").as_array().context("no findings")?;
    let word = |finding: &Value, name: &str| finding.get(name).as_str().unwrap_or("").to_owned();
    let mut found: Vec<String> = findings
        .iter()
        .map(|f| format!("{} {} {}", word(f, "rule"), word(f, "type"), word(f, "path")))
        .collect();
    found.sort();
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let (megabytes, peak_mb) = (bytes as f64 / 1e6, f64::from(peak_kb) / 1024.0);
    machine::describe(&options.root);
    println!(
        "advisor: {} items, {megabytes:.0} MB: {seconds:.1} s (at most {SECONDS_MAX}), {peak_mb:.0} MB \
         of memory (at most {MEGABYTES_MAX})",
        options.items
    );
    println!("advisor: found {}", found.join(", "));
    ensure!(found == PLANTED, "it should have found {}", PLANTED.join(", "));
    ensure!(seconds <= SECONDS_MAX && peak_mb <= MEGABYTES_MAX, "that is more than was promised");
    Ok(())
}

/// The most memory that a process has had, in kilobytes.
fn peak(id: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn noise(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

/// Writes the export; gives its size. A tenth are customers and products, the rest orders.
fn export(file: &Path, items: u64) -> Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let (customers, products) = (items / 20, items / 20);
    for n in 0..customers {
        write!(
            out,
            r#"{{"id":"customer-{n:07}","type":"customer","name":"Name {}","since":"2021-{:02}-{:02}","vip":{},"address":{{"street":"{} Main Street","city":"City {}","zip":{}}}"#,
            noise(n) % 90_000,
            1 + n % 12,
            1 + n % 28,
            n % 7 == 0,
            n % 300,
            n % 500,
            10_000 + n % 80_000
        )?;
        if n % 500 == 0 {
            let entry = |i: u64| {
                let (month, day) = (1 + i / 28 % 12, 1 + i % 28);
                format!(r#"{{"at":"2024-{month:02}-{day:02}T08:00:00Z","what":"seen {i}"}}"#)
            };
            let log: Vec<String> = (0..200 + n % 40).map(entry).collect();
            write!(out, r#","log":[{}]"#, log.join(","))?;
        }
        writeln!(out, "}}")?;
    }
    for n in 0..products {
        let price = noise(n) % 100_000;
        let price = if n % 25 == 0 { format!("\"{price}\"") } else { price.to_string() };
        writeln!(
            out,
            r#"{{"id":"product-{n:07}","type":"product","title":"Product {n}","price":{price},"tags":["t{}","u{}"],"dimensions":{{"w":{},"h":{},"d":{}}},"rating":{}.5}}"#,
            n % 97,
            n % 13,
            n % 40,
            n % 30,
            n % 20,
            n % 5
        )?;
    }
    for n in 0..items - customers - products {
        let line = |i: u64| {
            let product = noise(n * 5 + i) % products.max(1);
            let (quantity, cents) = (1 + noise(n + i) % 9, noise(n * 11 + i) % 9_999);
            format!(
                r#"{{"productId":"product-{product:07}","quantity":{quantity},"cents":{cents}}}"#
            )
        };
        let lines: Vec<String> = (0..=(n % 4)).map(line).collect();
        writeln!(
            out,
            r#"{{"id":"order-{n:08}","type":"order","customerId":"customer-{:07}","placed":"2025-{:02}-{:02}T10:{:02}:00Z","status":"{}","total":{},"lines":[{}]}}"#,
            noise(n) % customers.max(1),
            1 + n % 12,
            1 + n % 28,
            n % 60,
            ["open", "paid", "sent", "done"][usize::try_from(n % 4)?],
            noise(n * 3) % 500_000,
            lines.join(",")
        )?;
    }
    out.flush()?;
    Ok(file.metadata()?.len())
}
