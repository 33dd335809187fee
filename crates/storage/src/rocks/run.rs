//! Sorted entries written to a table file of their own, which then becomes one of the database's: no
//! memory, no log, no compaction. The files wait in a folder beside the database's, which is emptied
//! when a store is opened.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_types::ShardId;
use rocksdb::{IngestExternalFileOptions, Options, SstFileWriter};

use super::options::RocksOptions;
use super::{Core, layout};
use crate::copy_run::CopyRun;
use crate::{Space, StorageError, Value};

const FOLDER: &str = "runs";

/// Where runs are written, and how.
pub(super) struct Runs {
    folder: PathBuf,
    options: [Options; Space::ALL.len()],
    next: AtomicU64,
}

impl Runs {
    /// Removes what an earlier process has left.
    pub(super) fn new(store: &Path, options: &RocksOptions) -> std::io::Result<Self> {
        let folder = store.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let options = Space::ALL.map(|space| options.table(space));
        Ok(Self { folder, options, next: AtomicU64::new(0) })
    }
}

/// A file that is removed unless the database has taken it.
struct RunFile(PathBuf);

impl Drop for RunFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) struct RocksRun<'s> {
    core: &'s Core,
    shard: ShardId,
    space: Space,
    /// There from the first entry on: a file without entries is none.
    file: Option<(SstFileWriter<'s>, RunFile)>,
    /// Buffers of the stored forms.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'s> RocksRun<'s> {
    pub(super) fn new(core: &'s Core, shard: ShardId, space: Space) -> Self {
        Self { core, shard, space, file: None, key: Vec::new(), value: Vec::new() }
    }

    fn begin(&self) -> Result<(SstFileWriter<'s>, RunFile), StorageError> {
        let runs = &self.core.runs;
        orrery_files::create_folders(&runs.folder)
            .map_err(|e| StorageError::Io(format!("{}: {e}", runs.folder.display()).into()))?;
        let name = format!("{}.sst", runs.next.fetch_add(1, Ordering::Relaxed));
        let file = RunFile(runs.folder.join(name));
        let writer = SstFileWriter::create(&runs.options[self.space as usize]);
        writer.open(&file.0).map_err(failed)?;
        Ok((writer, file))
    }
}

impl CopyRun for RocksRun<'_> {
    fn add(&mut self, key: &[u8], value: &Value) -> Result<(), StorageError> {
        layout::write_key(self.shard, key, &mut self.key);
        layout::write_value(self.space, value.version, &value.bytes, &mut self.value);
        if self.file.is_none() {
            self.file = Some(self.begin()?);
        }
        let (writer, _) = self.file.as_mut().expect("it was begun");
        writer.put(&self.key, &self.value).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        let Some((mut writer, file)) = self.file.take() else { return Ok(()) };
        writer.finish().map_err(failed)?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let family = self.core.cf(self.space);
        let taken = self.core.db.ingest_external_file_cf_opts(family, &options, vec![&file.0]);
        taken.map_err(failed)
    }
}

/// What is not there yet is nobody's: the copy is given up, and the store goes on.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn failed(error: rocksdb::Error) -> StorageError {
    tracing::warn!(%error, "entries could not be copied");
    StorageError::Io(error.to_string().into())
}
