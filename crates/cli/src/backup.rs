//! `orrery backup` and `orrery restore`, into a data folder or a store in `PostgreSQL`. A backup is the store as of one moment, read from a server
//! that goes on serving, or from a folder that no server has open.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use orrery_server::config::StoreSettings;
use orrery_storage::{RocksOptions, RocksStore};
use orrery_types::{Clock as _, SystemClock, Value, limits};

use crate::archive::{self, ArchiveWriter, Contents};
use crate::copy::target::CopyTarget;
use crate::data_folder::{self, STORE};
use crate::exit::{Exit, Failure, UNREAD, is_interrupted, usage};
use crate::interrupt::{self, Unfinished};
use crate::progress::ProgressLine;
use crate::remote::{Remote, RemoteArguments};
use crate::store::StoreArguments;
use crate::{account, copy, inspect, table};

/// Arguments of `backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// File to write; it must not be there yet
    file: PathBuf,
    #[command(flatten)]
    remote: RemoteArguments,
    /// Back up a data folder that no server has open
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Do not read the backup again when it is written
    #[arg(long)]
    no_check: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The backup
    file: PathBuf,
    /// Folder to restore into; it must not hold data
    #[arg(long, value_name = "FOLDER", required_unless_present = "store")]
    data: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArguments,
    /// Check the files, but not every item in them
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn backup(arguments: &BackupArguments) -> Result<()> {
    let path = &arguments.file;
    if path.exists() {
        let text = format!("{} is there already; choose another name", path.display());
        return Err(Failure::new(Exit::Refused, text).into());
    }
    let _cooperation = interrupt::cooperate();
    // Whatever ends it before the file has its name leaves nothing behind.
    let beside = Unfinished::new(&with_suffix(path, ".part"));
    let contents = written(arguments, beside.path()).map_err(|error| {
        if is_interrupted(&error) {
            let text = format!("interrupted; {} was not written", path.display());
            return interrupt::failure(text);
        }
        if let Some(full) = data_folder::full_disk(&error) {
            let path = path.display();
            return anyhow!("cannot write {path}: {full}; free some space, or name another place");
        }
        error
    })?;
    orrery_files::rename(beside.path(), path)
        .with_context(|| format!("cannot name {}", path.display()))?;
    drop(beside);
    let size = std::fs::metadata(path).map_or(0, |about| about.len());
    if arguments.json {
        let text = format!(
            r#"{{"files":{},"bytes":{},"size":{size},"checked":{}}}"#,
            contents.files, contents.bytes, !arguments.no_check
        );
        return print(&text);
    }
    let checked = if arguments.no_check { "not checked" } else { "checked" };
    print(&format!(
        "{} in {} files, {} compressed, {checked}: {}",
        table::size(contents.bytes),
        contents.files,
        table::size(size),
        path.display()
    ))
}

/// Writes the backup, and reads it once more.
fn written(arguments: &BackupArguments, path: &Path) -> Result<Contents> {
    let contents = write(arguments, path)?;
    if !arguments.no_check {
        let again = check(path)?;
        anyhow::ensure!(again == contents, "the backup does not read as it was written");
    }
    Ok(contents)
}

fn print(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context(UNREAD)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Reads a backup without using it.
fn check(path: &Path) -> Result<Contents> {
    let (input, _progress) = opened(path, "checking")?;
    archive::read(input, &mut |_, _| interrupt::check())
}

/// A backup that is read, with a bar over its bytes.
fn opened(path: &Path, step: &str) -> Result<(impl Read + use<>, ProgressLine)> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let progress = ProgressLine::of_bytes(file.metadata().ok().map(|about| about.len()));
    progress.set_step(0, step);
    Ok((BufReader::with_capacity(1 << 20, progress.wrap(file)), progress))
}

fn write(arguments: &BackupArguments, path: &Path) -> Result<Contents> {
    let shown = path.display().to_string();
    let file = orrery_files::create(path).with_context(|| format!("cannot write {shown}"))?;
    let out = BufWriter::with_capacity(1 << 20, file);
    let archive = ArchiveWriter::new(out, SystemClock.now_s())?;
    let (out, contents) = match &arguments.data {
        Some(folder) => from_folder(folder, archive)?,
        None => from_server(&mut arguments.remote.connect()?, archive)?,
    };
    let file = out.into_inner().map_err(std::io::IntoInnerError::into_error);
    let file = file.with_context(|| format!("cannot write {shown}"))?;
    file.sync_all().with_context(|| format!("cannot write {shown}"))?;
    Ok(contents)
}

type Archive = ArchiveWriter<BufWriter<File>>;

fn from_folder(folder: &Path, mut archive: Archive) -> Result<(BufWriter<File>, Contents)> {
    let engine = data_folder::open(folder)?;
    let copy = folder.join("backup-in-progress");
    let _ = std::fs::remove_dir_all(&copy);
    let copy = Unfinished::new(&copy);
    engine.checkpoint(copy.path()).map_err(|error| anyhow!("cannot copy the data: {error}"))?;
    drop(engine);
    let mut contents = Contents::default();
    let progress = ProgressLine::of_bytes(Some(inspect::size_of(copy.path())));
    pack(copy.path(), STORE, &mut archive, &mut contents, &progress)?;
    Ok((archive.end()?, contents))
}

fn pack(
    folder: &Path,
    name: &str,
    archive: &mut Archive,
    contents: &mut Contents,
    progress: &ProgressLine,
) -> Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            pack(&entry.path(), &name, archive, contents, progress)?;
            continue;
        }
        interrupt::check()?;
        let size = entry.metadata()?.len();
        archive.file(&name, size, progress.wrap(File::open(entry.path())?))?;
        contents.files += 1;
        contents.bytes += size;
    }
    Ok(())
}

fn from_server(remote: &mut Remote, mut archive: Archive) -> Result<(BufWriter<File>, Contents)> {
    let begun = account::must(remote, "POST", "/_backups", &[], b"")?;
    let begun = Value::parse(&begun.body).map_err(|_| account::not_an_account())?;
    let id = begun.get("id").as_str().ok_or_else(account::not_an_account)?.to_owned();
    let files = begun.get("files").as_array().unwrap_or_default();
    let path = format!("/_backups/{id}");
    let copied = copy(remote, &path, files, &mut archive);
    // The server would end it by itself, later.
    let ended = account::must(remote, "DELETE", &path, &[], b"");
    let contents = copied?;
    ended?;
    Ok((archive.end()?, contents))
}

fn copy(
    remote: &mut Remote,
    path: &str,
    files: &[Value],
    archive: &mut Archive,
) -> Result<Contents> {
    let mut contents = Contents::default();
    let size_of = |file: &Value| file.get("size").as_i64().and_then(|n| u64::try_from(n).ok());
    let total = files.iter().filter_map(size_of).sum();
    let progress = ProgressLine::of_bytes(Some(total));
    for (number, file) in files.iter().enumerate() {
        let (Some(name), Some(size)) = (file.get("name").as_str(), size_of(file)) else {
            return Err(account::not_an_account());
        };
        let path = format!("{path}/files/{number}");
        let mut failure = None;
        let content = Pieces {
            remote,
            path,
            size,
            at: 0,
            piece: Vec::new(),
            taken: 0,
            progress: &progress,
            failure: &mut failure,
        };
        let added = archive.file(&format!("{STORE}/{name}"), size, content);
        if let Some(failure) = failure {
            return Err(failure);
        }
        added?;
        contents.files += 1;
        contents.bytes += size;
    }
    Ok(contents)
}

/// A file of a backup, read from the server piece by piece.
struct Pieces<'p> {
    remote: &'p mut Remote,
    path: String,
    size: u64,
    /// Where the next piece begins.
    at: u64,
    piece: Vec<u8>,
    taken: usize,
    progress: &'p ProgressLine,
    /// What went wrong, in full.
    failure: &'p mut Option<anyhow::Error>,
}

impl Pieces<'_> {
    fn fetch(&mut self) -> Result<()> {
        interrupt::check()?;
        let last = (self.at + limits::BACKUP_PIECE_BYTES_MAX).min(self.size) - 1;
        let range = format!("bytes={}-{last}", self.at);
        let answer = account::must(self.remote, "GET", &self.path, &[("range", &range)], b"")?;
        anyhow::ensure!(!answer.body.is_empty(), "a file of the backup ends early");
        self.at += answer.body.len() as u64;
        self.progress.add(answer.body.len() as u64);
        self.piece = answer.body.into();
        self.taken = 0;
        Ok(())
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.taken == self.piece.len() {
            if self.at >= self.size {
                return Ok(0);
            }
            if let Err(error) = self.fetch() {
                let text = error.to_string();
                *self.failure = Some(error);
                return Err(std::io::Error::other(text));
            }
        }
        let rest = &self.piece[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<()> {
    match (&arguments.data, arguments.store.settings()?) {
        (Some(_), Some(_)) => Err(usage("A store and a data folder were both named. Choose one.")),
        (Some(folder), None) => restore_folder(arguments, folder),
        (None, Some(settings)) => restore_store(arguments, settings),
        (None, None) => Err(usage("name where to restore to: --data FOLDER or --store ADDRESS")),
    }
}

/// Restores into a new store in `PostgreSQL`, by way of a folder of temporary files.
fn restore_store(arguments: &RestoreArguments, settings: StoreSettings) -> Result<()> {
    let _cooperation = interrupt::cooperate();
    let target = CopyTarget::postgres(settings)?;
    let place = target.place();
    let beside = std::env::temp_dir().join(format!("orrery-restore-{}", std::process::id()));
    let beside = Unfinished::new(&beside);
    let restored = unpacked(arguments, beside.path());
    let contents = match restored {
        Ok((contents, _)) => contents,
        Err(error) => {
            target.discard();
            return Err(explained(error, beside.path()));
        }
    };
    let store = RocksStore::open(&beside.path().join(STORE), &RocksOptions::default());
    let store = Arc::new(store.map_err(data_folder::unopened)?);
    let seen = copy::copy_local(store, target)?;
    report(arguments, contents, seen, &place)
}

/// Why nothing was restored.
fn explained(error: anyhow::Error, folder: &Path) -> anyhow::Error {
    if is_interrupted(&error) {
        return interrupt::failure("interrupted; nothing was restored");
    }
    match data_folder::full_disk(&error) {
        Some(full) => data_folder::not_created(folder, full),
        None => error,
    }
}

fn restore_folder(arguments: &RestoreArguments, folder: &Path) -> Result<()> {
    let store = folder.join(STORE);
    if store.exists() {
        let text = format!(
            "{} holds data already; stop its server, rename {} and restore again, or restore into \
             another folder",
            folder.display(),
            store.display()
        );
        return Err(Failure::new(Exit::Refused, text).into());
    }
    let _cooperation = interrupt::cooperate();
    let is_new = !folder.exists();
    let restored = restore_into(arguments, folder, &store);
    if restored.is_err() && is_new {
        // It is empty again; if not, what is in it is not ours.
        let _ = std::fs::remove_dir(folder);
    }
    let (contents, seen) = restored.map_err(|error| explained(error, folder))?;
    report(arguments, contents, seen, &folder.display().to_string())
}

/// Says what was restored.
fn report(
    arguments: &RestoreArguments,
    contents: Contents,
    seen: inspect::Seen,
    place: &str,
) -> Result<()> {
    if arguments.json {
        let text = format!(
            r#"{{"files":{},"bytes":{},"items":{},"verified":{}}}"#,
            contents.files, contents.bytes, seen.items, !arguments.quick
        );
        return print(&text);
    }
    let verified = if arguments.quick { "not verified" } else { "verified" };
    print(&format!(
        "{} with {} restored into {}, {verified}",
        table::counted(seen.containers, "container"),
        table::counted(seen.items, "item"),
        place
    ))
}

/// Unpacks and checks beside the place of the data, and puts it there when it is found whole.
fn restore_into(
    arguments: &RestoreArguments,
    folder: &Path,
    store: &Path,
) -> Result<(Contents, inspect::Seen)> {
    // One that was left behind by a kill is of no use.
    let beside = folder.join("restore-in-progress");
    let _ = std::fs::remove_dir_all(&beside);
    let beside = Unfinished::new(&beside);
    let found = unpacked(arguments, beside.path())?;
    orrery_files::rename(&beside.path().join(STORE), store)
        .context("cannot put the data in its place")?;
    Ok(found)
}

/// Unpacks a backup into a new folder, and checks it.
fn unpacked(arguments: &RestoreArguments, into: &Path) -> Result<(Contents, inspect::Seen)> {
    let (input, progress) = opened(&arguments.file, "unpacking")?;
    orrery_files::create_folders(into)
        .with_context(|| format!("cannot create {}", into.display()))?;
    let found = unpack(input, &progress, into, arguments.quick)?;
    interrupt::check()?;
    Ok(found)
}

fn unpack(
    input: impl Read,
    progress: &ProgressLine,
    into: &Path,
    quick: bool,
) -> Result<(Contents, inspect::Seen)> {
    let contents = archive::read(input, &mut |name, content| {
        interrupt::check()?;
        let path = into.join(name);
        let parent = path.parent().context("a file of the backup has no folder")?;
        orrery_files::create_folders(parent)?;
        let mut file = orrery_files::create(&path)?;
        std::io::copy(content, &mut file)?;
        file.sync_all().with_context(|| format!("cannot write {}", path.display()))
    })?;
    progress.end();
    let store = into.join(STORE);
    if !store.join("FORMAT").exists() {
        let text = "the backup is whole, and holds no data of Orrery; use another one";
        return Err(Failure::new(Exit::Damaged, text).into());
    }
    let engine = data_folder::open_store(&store, &RocksOptions::default())?;
    let seen = if quick { inspect::count(&engine)? } else { inspect::verify(&engine)? };
    Ok((contents, seen))
}
