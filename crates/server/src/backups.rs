//! Backups in progress. A backup begins with a checkpoint of the store in a folder of its own, whose files
//! are hard links. The client reads the files piece by piece and ends the backup; one that is not read
//! for a while is removed, because the links keep disk space in use.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use orrery_engine::Engine;
use orrery_types::{Error, Object, Result, Value, limits};
use uuid::Uuid;

/// All backups of the account.
#[derive(Debug)]
pub struct Backups {
    root: PathBuf,
    open: Mutex<Vec<Backup>>,
}

#[derive(Debug)]
struct Backup {
    id: String,
    files: Vec<BackupFile>,
    used_s: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct BackupFile {
    /// Within the folder, with slashes.
    name: String,
    size_bytes: u64,
}

impl Backups {
    /// Backups in this folder, on the file system of the store. What an earlier process left there is
    /// removed.
    pub fn new(root: PathBuf) -> Self {
        let _ = std::fs::remove_dir_all(&root);
        Self { root, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Backup>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a checkpoint; returns the id of the backup and the list of its files.
    pub(crate) fn begin(&self, engine: &Engine, now_s: u64) -> Result<Value> {
        self.expire(now_s);
        if self.lock().len() >= limits::BACKUPS_MAX {
            return Err(Error::RateLimited { retry_after_ms: 10_000 });
        }
        orrery_files::create_folders(&self.root).map_err(|error| failed("made", &error))?;
        let id = Uuid::new_v4().simple().to_string();
        let folder = self.root.join(&id);
        engine.checkpoint(&folder)?;
        let mut files = Vec::new();
        if let Err(error) = list(&folder, "", &mut files) {
            let _ = std::fs::remove_dir_all(&folder);
            return Err(failed("listed", &error));
        }
        let mut backup = Object::new();
        backup.set("id", id.as_str().into());
        backup.set("version", env!("CARGO_PKG_VERSION").into());
        backup.set("files", Value::array(files.iter().map(BackupFile::to_value).collect()));
        self.lock().push(Backup { id, files, used_s: now_s });
        Ok(Value::object(backup))
    }

    /// A piece of a file from an offset on, at most the given length and the limit.
    pub(crate) fn read(
        &self,
        (id, file): (&str, usize),
        (from, length): (u64, u64),
        now_s: u64,
    ) -> Result<Bytes> {
        let file = {
            let mut open = self.lock();
            let backup = open.iter_mut().find(|b| b.id == id).ok_or(Error::NotFound)?;
            backup.used_s = now_s;
            backup.files.get(file).ok_or(Error::NotFound)?.clone()
        };
        let rest = file.size_bytes.saturating_sub(from);
        let length = length.min(rest).min(limits::BACKUP_PIECE_BYTES_MAX);
        let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = || -> std::io::Result<()> {
            let mut source = File::open(self.root.join(id).join(&file.name))?;
            source.seek(SeekFrom::Start(from))?;
            source.read_exact(&mut piece)
        };
        let mut read = read;
        read().map_err(|error| failed("read", &error))?;
        Ok(piece.into())
    }

    /// Ends a backup and removes its files.
    pub(crate) fn end(&self, id: &str) -> Result<()> {
        let mut open = self.lock();
        let at = open.iter().position(|backup| backup.id == id).ok_or(Error::NotFound)?;
        let backup = open.swap_remove(at);
        drop(open);
        self.remove(&backup);
        Ok(())
    }

    /// Ends backups that have not been read for long.
    pub fn expire(&self, now_s: u64) {
        let is_idle =
            |backup: &mut Backup| now_s.saturating_sub(backup.used_s) > limits::BACKUP_IDLE_S_MAX;
        let idle: Vec<Backup> = self.lock().extract_if(.., is_idle).collect();
        for backup in &idle {
            self.remove(backup);
        }
    }

    fn remove(&self, backup: &Backup) {
        if let Err(error) = std::fs::remove_dir_all(self.root.join(&backup.id)) {
            tracing::warn!(%error, "cannot remove the files of a backup");
        }
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl BackupFile {
    fn to_value(&self) -> Value {
        let mut object = Object::new();
        object.set("name", self.name.as_str().into());
        object.set("size", i64::try_from(self.size_bytes).unwrap_or(i64::MAX).into());
        Value::object(object)
    }
}

/// All files below a folder, by name.
fn list(folder: &Path, prefix: &str, files: &mut Vec<BackupFile>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.push(BackupFile { name, size_bytes: entry.metadata()?.len() });
        }
    }
    Ok(())
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::internal(format!("a backup cannot be {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orrery_storage::MemoryStore;
    use orrery_types::ManualClock;

    use super::*;

    fn backups() -> (tempfile::TempDir, Backups, Engine) {
        let folder = tempfile::tempdir().unwrap();
        let backups = Backups::new(folder.path().join("backups"));
        let clock = Arc::new(ManualClock::at_s(1));
        let engine = Engine::open(Arc::new(MemoryStore::new()), clock, 1).unwrap();
        (folder, backups, engine)
    }

    #[test]
    fn a_backup_is_read_piece_by_piece_until_it_ends() {
        let (_folder, backups, engine) = backups();
        let begun = backups.begin(&engine, 1).unwrap();
        let id = begun.get("id").as_str().unwrap();
        let files = begun.get("files").as_array().unwrap();
        let format = files.iter().position(|f| f.get("name").as_str() == Some("FORMAT")).unwrap();
        let read = |from, length| backups.read((id, format), (from, length), 2);
        assert_eq!(&read(0, 6).unwrap()[..], b"orrery");
        let rest = read(6, u64::MAX).unwrap();
        assert_eq!(
            6 + rest.len(),
            usize::try_from(files[format].get("size").as_i64().unwrap()).unwrap()
        );
        assert_eq!(read(1000, 1).unwrap().len(), 0, "there is nothing behind the end");
        assert_eq!(backups.read((id, 9999), (0, 1), 2), Err(Error::NotFound));
        backups.end(id).unwrap();
        assert_eq!(backups.end(id), Err(Error::NotFound));
        assert_eq!(read(0, 1), Err(Error::NotFound));
    }

    #[test]
    fn one_that_nobody_reads_goes_and_there_are_only_so_many() {
        let (folder, backups, engine) = backups();
        for _ in 0..limits::BACKUPS_MAX {
            backups.begin(&engine, 1).unwrap();
        }
        assert!(matches!(backups.begin(&engine, 2), Err(Error::RateLimited { .. })));
        let later = 2 + limits::BACKUP_IDLE_S_MAX;
        backups.expire(later);
        assert_eq!(std::fs::read_dir(folder.path().join("backups")).unwrap().count(), 0);
        backups.begin(&engine, later).unwrap();
        drop(backups);
        assert!(!folder.path().join("backups").exists(), "a process leaves none behind");
    }
}
