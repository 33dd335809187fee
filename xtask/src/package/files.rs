//! Files at their places under a root, compressed where a package requires it, and the time that they get.

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Copies a file of the checkout, or the program, to its place under a root.
pub(super) fn place(from: &Path, root: &Path, to: &str, mode: u32) -> Result<()> {
    let target = target(root, to)?;
    fs::copy(from, &target)
        .with_context(|| format!("cannot copy {} to {}", from.display(), target.display()))?;
    fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// The same, compressed.
pub(super) fn place_compressed(from: &Path, root: &Path, to: &str) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let target = target(root, to)?;
    fs::write(&target, gzip(&bytes)?)?;
    fs::set_permissions(&target, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

fn target(root: &Path, to: &str) -> Result<PathBuf> {
    let target = root.join(to.trim_start_matches('/'));
    let parent = target.parent().context("a file lies in a folder")?;
    fs::create_dir_all(parent)?;
    Ok(target)
}

/// Compresses without name and time, so that the same content gives the same bytes.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// All files below a folder by their path from it, with their sizes.
pub(super) fn files_under(root: &Path) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(root)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(root)?.display().to_string();
                found.push((format!("/{path}"), entry.metadata()?.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        let text = b"a manual page ".repeat(100);
        let compressed = gzip(&text).unwrap();
        assert_eq!(compressed, gzip(&text).unwrap());
        assert!(compressed.len() < text.len() / 4);
        // Time and name are empty.
        assert_eq!(&compressed[..8], &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    }
}
