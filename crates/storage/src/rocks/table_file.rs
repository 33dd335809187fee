//! Table-file ingestion: sorted entries are written to a table file, which the database then adopts.
//! That bypasses memtables, log and compaction. The files are written in a folder beside the
//! database's, which is emptied when a store is opened.

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

/// Where table files are written, and with which options.
pub(super) struct TableFiles {
    folder: PathBuf,
    options: [Options; Space::ALL.len()],
    next: AtomicU64,
}

impl TableFiles {
    /// Removes what an earlier process left behind.
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

/// A file that is removed unless the database has adopted it.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) struct TableFileWriter<'s> {
    core: &'s Core,
    shard: ShardId,
    space: Space,
    /// Created with the first entry: a table file without entries is invalid.
    file: Option<(SstFileWriter<'s>, TemporaryFile)>,
    /// Buffers of the stored forms.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'s> TableFileWriter<'s> {
    pub(super) fn new(core: &'s Core, shard: ShardId, space: Space) -> Self {
        Self { core, shard, space, file: None, key: Vec::new(), value: Vec::new() }
    }

    fn create(&self) -> Result<(SstFileWriter<'s>, TemporaryFile), StorageError> {
        let files = &self.core.table_files;
        orrery_files::create_folders(&files.folder)
            .map_err(|e| StorageError::Io(format!("{}: {e}", files.folder.display()).into()))?;
        let name = format!("{}.sst", files.next.fetch_add(1, Ordering::Relaxed));
        let file = TemporaryFile(files.folder.join(name));
        let writer = SstFileWriter::create(&files.options[self.space as usize]);
        writer.open(&file.0).map_err(failed)?;
        Ok((writer, file))
    }
}

impl CopyRun for TableFileWriter<'_> {
    fn add(&mut self, key: &[u8], value: &Value) -> Result<(), StorageError> {
        layout::write_key(self.shard, key, &mut self.key);
        layout::write_value(self.space, value.version, &value.bytes, &mut self.value);
        if self.file.is_none() {
            self.file = Some(self.create()?);
        }
        let (writer, _) = self.file.as_mut().expect("it was created");
        writer.put(&self.key, &self.value).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        let Some((mut writer, file)) = self.file.take() else { return Ok(()) };
        writer.finish().map_err(failed)?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        // No snapshot reads the shard yet. So the file needs no sequence number of its own, and those of
        // the log stay consecutive.
        options.set_snapshot_consistency(false);
        let family = self.core.cf(self.space);
        let ingested = self.core.db.ingest_external_file_cf_opts(family, &options, vec![&file.0]);
        ingested.map_err(failed)
    }
}

/// Nothing was ingested: the copy fails, and the store goes on.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn failed(error: rocksdb::Error) -> StorageError {
    tracing::warn!(%error, "a table file could not be written or ingested");
    StorageError::Io(error.to_string().into())
}
