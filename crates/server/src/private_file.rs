//! Files that hold secrets: written whole or not at all, readable by their owner only. Used by
//! `keys`, `tls` and the history of queries.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes beside the file and renames, so that a crash leaves the old file or the new one.
pub fn write(path: &Path, content: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    // A leftover of an interrupted start may have been made with other permissions.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// The file's text, or none where there is no such file.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
