//! How often the disk syncs: a small write and a sync, over and over, as a log does with one
//! writer. Durable creates cannot be understood without it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::sample::Sample;
use crate::stopwatch::Stopwatch;

const WRITE_BYTES: usize = 2048;

/// Syncs a file in the folder for so long.
pub(crate) fn run(folder: &Path, time: Duration) -> Result<Sample> {
    let path = folder.join("sync-probe");
    let mut file = File::create(&path)?;
    let mut latencies_ns = Sample::histogram();
    let watch = Stopwatch::start();
    while watch.elapsed() < time {
        let call = Stopwatch::start();
        file.write_all(&[0x5a; WRITE_BYTES])?;
        file.sync_data()?;
        latencies_ns.record(call.nanoseconds())?;
    }
    let took = watch.elapsed();
    std::fs::remove_file(&path)?;
    Ok(Sample { latencies_ns, took, processor: None })
}
