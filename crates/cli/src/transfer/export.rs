//! `orrery export`: all items of a container into a file, page by page. After each page the place is
//! noted, in the container and in the file, so that an interrupted export goes on.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_server::wire::headers;
use orrery_types::{Clock as _, Object, SystemClock, Value};
use sha2::{Digest as _, Sha256};

use super::resume::Note;
use super::sheet::SheetWriter;
use super::{ContainerArguments, Format};
use crate::account;
use crate::exit::{Exit, Failure, UNREAD};
use crate::interrupt;
use crate::progress::ProgressLine;
use crate::query::partition_key;
use crate::remote::{Remote, RemoteArguments};
use crate::{archive, table};

/// Bytes before the noted place by which a file is known again.
const TAIL_BYTES: u64 = 64 * 1024;

/// Properties that the server writes into every item.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// Arguments of `export`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ExportArguments {
    /// File to write; `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    remote: RemoteArguments,
    #[command(flatten)]
    container: ContainerArguments,
    /// How items are written [default: as the file's name says, else lines]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// One logical partition only: a value, or a JSON list for a hierarchical key
    #[arg(long, short = 'k', value_name = "VALUE")]
    partition_key: Option<String>,
    /// Columns of a CSV file, with commas between [default: the properties of the first items]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    columns: Vec<String>,
    /// Keep the properties that the server writes
    #[arg(long)]
    system: bool,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    /// Begin at the start, whatever an interrupted export has done
    #[arg(long)]
    from_start: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ExportArguments) -> Result<()> {
    let _cooperation = interrupt::cooperate();
    let began_us = SystemClock.now_us();
    let mut remote = arguments.remote.connect()?;
    let to_file = arguments.file != Path::new("-");
    let format = arguments.format.or(Format::of(&arguments.file)).unwrap_or(Format::Lines);
    let total = count(&mut remote, &arguments.container.path())?;
    let mut export = if to_file {
        let identity = arguments.container.identity(&mut remote)?;
        Export::into_file(arguments, format, &identity)?
    } else {
        Export::into_stream(format)
    };
    let progress = ProgressLine::of_items(Some(total).filter(|_| to_file));
    let written = export.run(&mut remote, arguments, &progress);
    progress.end();
    written?;
    let items = export.items;
    #[expect(clippy::cast_precision_loss, reason = "an export takes less than a century")]
    let seconds = SystemClock.now_us().saturating_sub(began_us) as f64 / 1e6;
    if arguments.json {
        let mut object = Object::new();
        object.set("items", i64::try_from(items).unwrap_or(i64::MAX).into());
        object.set("seconds", seconds.into());
        eprintln!("{}", Value::object(object).to_json());
    } else {
        eprintln!("{} in {seconds:.1} s", table::counted(items, "item"));
    }
    if export.left_out.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = export.left_out.iter().map(String::as_str).collect();
    let text = format!(
        "properties without a column were left out: {}; name all with --columns",
        names.join(", ")
    );
    Err(Failure::new(Exit::Partly, text).into())
}

fn count(remote: &mut Remote, container: &str) -> Result<u64> {
    let sent = [(headers::POPULATE_QUOTA_INFO, "true")];
    let answer = account::must(remote, "GET", container, &sent, b"")?;
    let usage = answer.header(headers::RESOURCE_USAGE).unwrap_or_default();
    let count = usage.split(';').find_map(|pair| pair.strip_prefix("documentsCount="));
    Ok(count.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Where items go.
enum Out {
    Stream(BufWriter<std::io::Stdout>),
    File(File),
}

struct Export {
    out: Out,
    format: Format,
    note: Option<Note>,
    continuation: Option<String>,
    columns: Vec<String>,
    items: u64,
    left_out: BTreeSet<String>,
}

impl Export {
    fn into_stream(format: Format) -> Self {
        let out = Out::Stream(BufWriter::new(std::io::stdout()));
        let (columns, left_out) = (vec![], BTreeSet::new());
        Self { out, format, note: None, continuation: None, columns, items: 0, left_out }
    }

    /// Opens the file, and goes on in it if an export was interrupted and the file is as it was.
    fn into_file(arguments: &ExportArguments, format: Format, identity: &str) -> Result<Self> {
        let path = &arguments.file;
        let shown = path.display().to_string();
        let whole = std::path::absolute(path).with_context(|| format!("cannot find {shown}"))?;
        let key = arguments.partition_key.clone().unwrap_or_default();
        let form = format!("{format:?} {} {}", arguments.system, arguments.columns.join(","));
        let note = Note::new(&[
            "export",
            &whole.display().to_string(),
            &arguments.remote.endpoint,
            &arguments.container.path(),
            identity,
            &key,
            &form,
        ]);
        let noted = note.read().filter(|noted| is_as_noted(path, noted));
        if noted.is_none() && path.exists() && !arguments.force {
            let text = format!("{shown} is there already; --force writes over it");
            return Err(Failure::new(Exit::Refused, text).into());
        }
        let noted = noted.filter(|_| !arguments.from_start);
        if noted.is_none() {
            note.remove();
        }
        let open = match noted {
            None => orrery_files::create(path),
            Some(_) => orrery_files::open_or_create(path),
        };
        let mut file = open.with_context(|| format!("cannot write {shown}"))?;
        let mut export = Self {
            out: Out::Stream(BufWriter::new(std::io::stdout())),
            format,
            note: Some(note),
            continuation: None,
            columns: vec![],
            items: 0,
            left_out: BTreeSet::new(),
        };
        if let Some(noted) = noted {
            let number = |name| noted.get(name).as_i64().and_then(|n| u64::try_from(n).ok());
            let length = number("length").unwrap_or(0);
            file.set_len(length).with_context(|| format!("cannot write {shown}"))?;
            file.seek(SeekFrom::End(0)).with_context(|| format!("cannot write {shown}"))?;
            let texts = |name| {
                let list = noted.get(name).as_array().unwrap_or_default();
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            };
            export.items = number("items").unwrap_or(0);
            export.continuation = noted.get("continuation").as_str().map(str::to_owned);
            export.columns = texts("columns");
            export.left_out = texts("leftOut").into_iter().collect();
            eprintln!(
                "Continuing after {} items; --from-start starts over.",
                table::count(export.items)
            );
        }
        export.out = Out::File(file);
        Ok(export)
    }

    fn run(
        &mut self,
        remote: &mut Remote,
        arguments: &ExportArguments,
        progress: &ProgressLine,
    ) -> Result<()> {
        let path = format!("{}/docs", arguments.container.path());
        let key = arguments.partition_key.as_deref().map(partition_key);
        let began_us = SystemClock.now_us();
        let before = self.items;
        if self.items == 0 && self.format == Format::Json {
            self.write(b"[")?;
        }
        loop {
            let mut sent = vec![(headers::MAX_ITEM_COUNT, "-1")];
            sent.extend(key.as_deref().map(|key| (headers::PARTITION_KEY, key)));
            sent.extend(self.continuation.as_deref().map(|token| (headers::CONTINUATION, token)));
            let answer = account::must(remote, "GET", &path, &sent, b"")?;
            let body = Value::parse(&answer.body).map_err(|_| account::not_an_account())?;
            let Some(page) = body.get("Documents").as_array() else {
                return Err(account::not_an_account());
            };
            let items: Vec<Value> = page.iter().map(|item| own(item, arguments.system)).collect();
            self.page(&items, arguments)?;
            self.continuation = answer.header(headers::CONTINUATION).map(str::to_owned);
            #[expect(clippy::cast_precision_loss, reason = "a rate is shown")]
            let rate = (self.items - before) as f64 * 1e6
                / SystemClock.now_us().saturating_sub(began_us).max(1) as f64;
            progress.set(self.items, self.items, rate);
            if self.continuation.is_none() {
                break;
            }
            if interrupt::is_requested() {
                return Err(self.interrupted());
            }
            self.keep()?;
        }
        if self.format == Format::Json {
            self.write(if self.items == 0 { b"]\n" } else { b"\n]\n" })?;
        }
        match &mut self.out {
            Out::Stream(out) => out.flush().context(UNREAD)?,
            Out::File(file) => file.sync_all().context("the file cannot be written")?,
        }
        if let Some(note) = &self.note {
            note.remove();
        }
        Ok(())
    }

    /// Notes how far it got, and says so.
    fn interrupted(&mut self) -> anyhow::Error {
        let text = format!("interrupted after {} items", table::count(self.items));
        let kept = self.keep();
        interrupt::failure(match (&self.out, kept) {
            (_, Err(error)) => format!("{text}; {error:#}"),
            (Out::File(_), Ok(())) => {
                format!("{text}; the same command continues in the same file")
            }
            (Out::Stream(_), Ok(())) => text,
        })
    }

    fn page(&mut self, items: &[Value], arguments: &ExportArguments) -> Result<()> {
        let mut bytes = Vec::new();
        if self.format == Format::Csv {
            self.rows(items, arguments, &mut bytes)?;
        } else {
            let mut text = String::new();
            for item in items {
                if self.format == Format::Json {
                    text += if self.items == 0 { "\n" } else { ",\n" };
                }
                item.write_json(&mut text);
                if self.format == Format::Lines {
                    text.push('\n');
                }
                self.items += 1;
            }
            bytes = text.into_bytes();
        }
        self.write(&bytes)
    }

    fn rows(
        &mut self,
        items: &[Value],
        arguments: &ExportArguments,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let first = self.columns.is_empty();
        if first {
            self.columns.clone_from(&arguments.columns);
        }
        if self.columns.is_empty() {
            let mut names: Vec<String> = Vec::new();
            for (name, _) in items.iter().filter_map(Value::as_object).flat_map(Object::iter) {
                if !names.iter().any(|known| **known == **name) {
                    names.push(name.to_string());
                }
            }
            self.columns = names;
        }
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut sheet = if first {
            SheetWriter::new(&mut *out, self.columns.clone())?
        } else {
            SheetWriter::resume(&mut *out, self.columns.clone())
        };
        for item in items.iter().filter_map(Value::as_object) {
            let missing = sheet.row(item)?;
            // Columns that were named explicitly need no warning about others.
            if arguments.columns.is_empty() {
                self.left_out.extend(missing);
            }
            self.items += 1;
        }
        sheet.flush()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.out {
            Out::Stream(out) => out.write_all(bytes).context(UNREAD),
            Out::File(file) => file.write_all(bytes).context("the file cannot be written"),
        }
    }

    /// Notes the place, once what lies before it is on the disk.
    fn keep(&mut self) -> Result<()> {
        let (Some(note), Out::File(file)) = (&self.note, &mut self.out) else { return Ok(()) };
        file.sync_data().context("the file cannot be written")?;
        let length = file.stream_position().context("the file has no place")?;
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let texts = |list: &mut dyn Iterator<Item = &String>| {
            Value::array(list.map(|text| text.as_str().into()).collect())
        };
        let tail = tail_sum(file, length).context("the file cannot be read again")?;
        file.seek(SeekFrom::Start(length)).context("the file has no place")?;
        let mut object = Object::new();
        object.set("length", number(length));
        object.set("tail", tail.into());
        object.set("items", number(self.items));
        object.set("columns", texts(&mut self.columns.iter()));
        object.set("leftOut", texts(&mut self.left_out.iter()));
        if let Some(token) = &self.continuation {
            object.set("continuation", token.as_str().into());
        }
        note.write(object)
    }
}

/// Whether a file has the content that was written up to the noted position, and has not changed since.
fn is_as_noted(path: &Path, noted: &Value) -> bool {
    let length = noted.get("length").as_i64().and_then(|n| u64::try_from(n).ok());
    let (Some(length), Ok(mut file)) = (length, File::open(path)) else { return false };
    tail_sum(&mut file, length).is_ok_and(|sum| noted.get("tail").as_str() == Some(&sum))
}

/// The sum of the last bytes before a place; an error if the file does not reach it.
fn tail_sum(file: &mut File, length: u64) -> std::io::Result<String> {
    let first = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(first))?;
    let mut tail = vec![0; usize::try_from(length - first).unwrap_or(0)];
    file.read_exact(&mut tail)?;
    Ok(archive::hex(&Sha256::digest(&tail)))
}

/// An item as its owner wrote it.
fn own(item: &Value, with_system: bool) -> Value {
    let mut item = item.clone();
    if !with_system && let Some(object) = item.as_object_mut() {
        for name in SYSTEM {
            object.remove(name);
        }
    }
    item
}
