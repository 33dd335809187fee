//! Log preallocation. A record that overwrites allocated blocks is synced without a change of the file's metadata,
//! which takes about half the time. Recycled logs have such blocks; the first logs after a start have none, so
//! a thread appends zeros to them, some distance ahead of the records.
//!
//! The file is opened for appending: the system finds the end of the file and writes there in one step, so zeros
//! never replace a record, even if `RocksDB` writes at that time, or has closed this log and begun another one. What
//! a crash leaves of them behind the last record is cut off like the remainder of a recycled file (`wal`).

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;

use super::{disk_space, wal};

/// The thread looks at the log each time that so many bytes were written.
const STEP_BYTES: u64 = 512 * 1024;
/// It appends to a log that has fewer bytes than this ahead of its records.
const AHEAD_BYTES: u64 = 1024 * 1024;
/// How much it appends at once: a commit that is synced meanwhile waits for these bytes too.
const EXTENSION_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct LogPreallocator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes written to logs since the start.
    written: AtomicU64,
    ended: AtomicBool,
}

impl LogPreallocator {
    /// Starts the thread for the logs in a folder, none of which gets much longer than `log_bytes_max`.
    pub(super) fn start(files: PathBuf, log_bytes_max: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("log-preallocation".into());
        let thread = thread.spawn(move || run(&files, log_bytes_max, &own))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Notes that so many bytes were written to the log.
    pub(super) fn wrote(&self, bytes: usize) {
        let bytes = bytes as u64;
        let before = self.shared.written.fetch_add(bytes, SeqCst);
        if before / STEP_BYTES != (before + bytes) / STEP_BYTES
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }
}

impl Drop for LogPreallocator {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn run(files: &Path, log_bytes_max: u64, shared: &Shared) {
    let mut log = CurrentLog::default();
    loop {
        std::thread::park();
        if shared.ended.load(SeqCst) {
            return;
        }
        if let Err(error) = log.extend(files, shared.written.load(SeqCst), log_bytes_max) {
            tracing::warn!(%error, "logs are no longer extended ahead of their records; syncs take longer");
            return;
        }
    }
}

/// The log that is being written.
#[derive(Debug, Default)]
struct CurrentLog {
    number: u64,
    /// What had been written, to any log, when this one was first seen.
    written_before: u64,
}

impl CurrentLog {
    /// Appends zeros to the newest log if few bytes are left ahead of its records. Where these end is
    /// estimated from what was written since the log was first seen; in a recycled log they end long before the file.
    fn extend(&mut self, files: &Path, written: u64, log_bytes_max: u64) -> io::Result<()> {
        let Some(number) = wal::newest(files)? else { return Ok(()) };
        if number != self.number {
            *self = Self { number, written_before: written };
        }
        let records_end = written - self.written_before + STEP_BYTES;
        let file = match File::options().append(true).open(files.join(wal::name(number))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let length = file.metadata()?.len();
        let is_enough = length >= (records_end + AHEAD_BYTES).min(log_bytes_max);
        if is_enough || disk_space::is_scarce(files) {
            return Ok(());
        }
        append_zeros(file)
    }
}

fn append_zeros(mut file: File) -> io::Result<()> {
    const ZEROS: &[u8] = &[0; 64 * 1024];
    for _ in 0..EXTENSION_BYTES / ZEROS.len() {
        file.write_all(ZEROS)?;
    }
    // Otherwise the next commit would have all of it to sync.
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
    const EXTENSION: u64 = EXTENSION_BYTES as u64;

    /// A folder with a log of so many bytes.
    fn log(number: u64, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(wal::name(number));
        fs::write(&path, bytes).expect("a log");
        (folder, path)
    }

    fn length(path: &Path) -> u64 {
        fs::metadata(path).expect("a log").len()
    }

    #[test]
    fn a_new_log_is_extended_as_it_is_written() {
        let (folder, path) = log(7, &[1; 1000]);
        let mut current = CurrentLog::default();
        let mut extend =
            |written| current.extend(folder.path(), written, LOG_BYTES_MAX).expect("it extends");
        extend(STEP_BYTES);
        assert_eq!(length(&path), 1000 + EXTENSION);
        extend(STEP_BYTES);
        assert_eq!(length(&path), 1000 + 2 * EXTENSION, "the records may end a step behind");
        extend(STEP_BYTES);
        assert_eq!(length(&path), 1000 + 2 * EXTENSION, "that is far enough ahead");
        extend(STEP_BYTES * 3);
        assert_eq!(length(&path), 1000 + 3 * EXTENSION);
        let content = fs::read(&path).expect("a log");
        let (records, zeros) = content.split_at(1000);
        assert!(records.iter().all(|byte| *byte == 1) && zeros.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_recycled_log_is_left_alone_and_none_grows_past_what_logs_have() {
        let (folder, path) = log(7, &vec![1; 8 * 1024 * 1024]);
        let mut current = CurrentLog::default();
        let mut extend = |written| current.extend(folder.path(), written, LOG_BYTES_MAX);
        extend(STEP_BYTES).expect("nothing to do");
        assert_eq!(length(&path), 8 * EXTENSION);
        for step in 2..1000 {
            extend(step * STEP_BYTES).expect("it extends");
        }
        assert_eq!(length(&path), LOG_BYTES_MAX);
    }

    #[test]
    fn a_log_that_is_gone_is_no_failure() {
        let (folder, path) = log(7, b"");
        fs::remove_file(path).expect("a log");
        CurrentLog::default().extend(folder.path(), 0, LOG_BYTES_MAX).expect("nothing to do");
    }

    #[test]
    fn zeros_never_replace_what_another_writer_writes_at_the_same_time() {
        const RECORDS: usize = 20_000;
        let (_folder, path) = log(7, b"");
        let mut writer = File::options().write(true).open(&path).expect("the log");
        std::thread::scope(|scope| {
            let extending = scope.spawn(|| {
                for _ in 0..8 {
                    append_zeros(File::options().append(true).open(&path).expect("the log"))
                        .expect("zeros");
                }
            });
            let mut number = 0;
            while number < RECORDS || !extending.is_finished() {
                writer.write_all(&record(number)).expect("a record");
                number += 1;
            }
            let content = fs::read(&path).expect("the log");
            for at in 0..number {
                let bytes = content.get(at * RECORD_BYTES..(at + 1) * RECORD_BYTES);
                assert_eq!(bytes, Some(&record(at)[..]), "record {at} of {number}");
            }
        });
    }

    const RECORD_BYTES: usize = 900;

    fn record(number: usize) -> [u8; RECORD_BYTES] {
        let mut record = [0xff; RECORD_BYTES];
        record[..8].copy_from_slice(&number.to_le_bytes());
        record
    }
}
