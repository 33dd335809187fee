//! Files that hold secrets: written whole or not at all, readable by their owner only. Used by
//! `keys`, `tls` and the history of queries.

use std::fs;
use std::io;
use std::path::Path;

use orrery_files::FileAccess;

/// A crash or a power cut leaves the old file or the new one, and after this returns the new one.
pub fn write(path: &Path, content: &str) -> io::Result<()> {
    orrery_files::replace(path, content.as_bytes(), FileAccess::Owner)
}

/// The file's text, or none where there is no such file.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
