//! Files and folders that survive a power cut. A file system may keep the bytes of a synced file and
//! still lose its name: a created or renamed file is durable only when the folder that names it is
//! synced, too. Everything that creates or renames does so here; `cargo xtask tidy` refuses the
//! functions of the standard library elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Whoever the system's defaults allow.
    Default,
    /// Its owner alone: it holds secrets.
    Owner,
}

/// Syncs the names that a folder holds.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    match File::open(path)?.sync_all() {
        // File systems without this operation have nothing to sync.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
    #[cfg(not(unix))]
    {
        // Folders cannot be opened as files here; the system keeps names by itself.
        let _ = path;
        Ok(())
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    sync_folder(&parent(path))
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        // The root is its own parent.
        None => path.to_owned(),
        Some(_) => PathBuf::from("."),
    }
}

/// Creates a folder whose parent exists; an error if it exists itself.
pub fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    sync_parent(path)
}

/// Creates a folder and the parents that it lacks; no error if it exists.
pub fn create_folders(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    if path.is_dir() {
        // A process that was killed may have created it without syncing. Whoever may not open the
        // parent did not create it.
        return match sync_parent(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        };
    }
    create_folders(&parent(path))?;
    match create_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Opens a file for reading and writing, empty; its name is durable, its content once the caller syncs it.
pub fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    sync_parent(path)?;
    Ok(file)
}

/// Opens a file for reading and writing, with what it holds; it is created if it does not exist.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let exists = path.exists();
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if !exists {
        sync_parent(path)?;
    }
    Ok(file)
}

/// Gives a file or folder another name, over a file that has it. What the file holds is synced
/// before, the folders of both names after.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let renamed = fs::symlink_metadata(from)?;
    if renamed.is_file() {
        File::open(from)?.sync_all()?;
    }
    fs::rename(from, to)?;
    sync_parent(to)?;
    if parent(from) == parent(to) { Ok(()) } else { sync_parent(from) }
}

/// Writes a file so that a crash at any time leaves what it held before, or all of the new content:
/// into a file beside it, which then takes its name.
pub fn replace(path: &Path, content: &[u8], access: FileAccess) -> io::Result<()> {
    let beside = path.with_extension("new");
    // A leftover of an interrupted write may have other permissions.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if access == FileAccess::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = access;
    options.open(&beside)?.write_all(content)?;
    rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_created_with_their_parents() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a/b/c");
        create_folders(&deep).unwrap();
        create_folders(&deep).unwrap();
        assert!(deep.is_dir());
        let refused = create_folder(&deep).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let file = base.path().join("f");
        replace(&file, b"x", FileAccess::Default).unwrap();
        assert!(create_folders(&file.join("g")).is_err());
        create_folders(Path::new("")).unwrap();
        create_folders(Path::new("/")).unwrap();
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_stays_beside_it() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("keys.toml");
        std::fs::write(path.with_extension("new"), "left over").unwrap();
        for content in [&b"one"[..], b"", b"three"] {
            replace(&path, content, FileAccess::Owner).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(
                &fs::metadata(&path).unwrap().permissions(),
            );
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn files_and_folders_are_renamed_across_folders() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        create_folders(&at("a")).unwrap();
        create_folders(&at("b")).unwrap();
        create(&at("a/f")).unwrap().write_all(b"text").unwrap();
        rename(&at("a/f"), &at("b/g")).unwrap();
        assert_eq!(fs::read(at("b/g")).unwrap(), b"text");
        rename(&at("b"), &at("a/c")).unwrap();
        assert_eq!(fs::read(at("a/c/g")).unwrap(), b"text");
        assert!(rename(&at("none"), &at("x")).is_err());
    }

    #[test]
    fn an_opened_file_keeps_what_it_holds() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("f");
        open_or_create(&path).unwrap().write_all(b"kept").unwrap();
        open_or_create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
