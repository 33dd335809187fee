//! `orrery import`. Items come in *rounds*: one is read while the last is written. A round is parsed
//! by all threads, then dealt out to lanes by id, so that versions of one item stay in their order.
//! The place in the file is noted before the first round and after each one, when all lanes are
//! done; so after an interruption at most one round may have been written in part.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use orrery_types::{Clock as _, Object, SystemClock, Value};

use super::offline::Offline;
use super::records::{InputRecord, MARK, Position, RecordLayout, Records, shape_of};
use super::resume::Note;
use super::sheet::{Cells, SheetReader};
use super::target::{Fate, Item, OnExisting, TransferTally, TransferTarget};
use super::{Bulk, ContainerArguments, Format, live};
use crate::account;
use crate::exit::{Exit, Failure, UNREAD};
use crate::interrupt;
use crate::progress::{ProgressLine, summary};
use crate::remote::RemoteArguments;

/// Items of a round, and bytes of their text.
const ROUND_ITEMS_MAX: usize = 8192;
const ROUND_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Connections to a server by default.
const CONNECTIONS: usize = 4;
/// Bad lines that are reported one by one.
const BAD_LINES_TOLD: u64 = 100;

/// Arguments of `import`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ImportArguments {
    /// File with items: JSON lines, one JSON array, or CSV; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "from_endpoint")]
    file: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArguments,
    #[command(flatten)]
    container: ContainerArguments,
    /// Write straight into a data folder that no server has open; the fastest way
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// What the file holds [default: as its name says]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Make the container if it is not there, partitioned by this path; several levels with commas
    #[arg(long, value_name = "PATH")]
    create: Option<String>,
    /// What to do with an item whose id is taken
    #[arg(long, value_enum, value_name = "WHAT", default_value = "keep")]
    existing: OnExisting,
    /// Take the id from this property
    #[arg(long, value_name = "PROPERTY")]
    id: Option<String>,
    /// Read all cells of a CSV file as texts
    #[arg(long)]
    texts: bool,
    /// Stop at the first bad line
    #[arg(long)]
    strict: bool,
    /// Begin at the start, whatever an interrupted import has done
    #[arg(long)]
    from_start: bool,
    /// Connections to the server
    #[arg(long, value_name = "NUMBER", default_value_t = CONNECTIONS)]
    connections: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    live: live::LiveArguments,
}

impl ImportArguments {
    /// What decides which items a file holds and what becomes of them: with other flags, what was
    /// done before is not what is asked for now.
    fn what_is_done(&self) -> String {
        let Self { existing, id, texts, format, .. } = self;
        format!("{existing:?} {id:?} {texts} {format:?}")
    }
}

pub(crate) fn run(arguments: &ImportArguments) -> Result<()> {
    let began_us = SystemClock.now_us();
    let place = &arguments.container;
    let tally = if arguments.live.from_endpoint.is_some() {
        let (connections, from_start) = (arguments.connections, arguments.from_start);
        live::run(&arguments.live, &arguments.remote, place, connections, from_start)?
    } else {
        let file = arguments.file.as_deref().context("name a file")?;
        from_file(arguments, file)?
    };
    #[expect(clippy::cast_precision_loss, reason = "an import takes less than a century")]
    let seconds = SystemClock.now_us().saturating_sub(began_us) as f64 / 1e6;
    let text = if arguments.json {
        let mut object = Object::new();
        for (name, number) in tally.to_pairs() {
            object.set(name, i64::try_from(number).unwrap_or(i64::MAX).into());
        }
        object.set("seconds", seconds.into());
        Value::object(object).to_json()
    } else {
        summary(tally, seconds)
    };
    let printed = writeln!(std::io::stdout(), "{text}").context(UNREAD);
    match tally.bad {
        0 => printed,
        bad => {
            let text = if arguments.live.from_endpoint.is_some() {
                format!(
                    "{bad} items were not taken; they are named above, and the next start tries them again"
                )
            } else {
                format!("{bad} items were not taken; their lines are listed above")
            };
            Err(Failure::new(Exit::Partly, text).into())
        }
    }
}

fn from_file(arguments: &ImportArguments, path: &Path) -> Result<TransferTally> {
    let place = &arguments.container;
    let definition = arguments.create.as_deref().map(|paths| definition(&place.container, paths));
    let (target, whereto): (Box<dyn TransferTarget>, [String; 2]) =
        if let Some(folder) = &arguments.data {
            let target = Offline::open(folder, place, definition.as_ref())?;
            let whole = folder.canonicalize().context("cannot find the data folder")?;
            let identity = target.identity()?;
            (Box::new(target), [whole.display().to_string(), identity])
        } else {
            let mut remote = arguments.remote.connect()?;
            prepare(&mut remote, place, definition.as_ref())?;
            let model = format!("/dbs/{}/_model", place.database);
            let modelled = account::send(&mut remote, "GET", &model, &[], b"")?.status == 200;
            // Items of a model may refer to earlier ones, so all of them go one way.
            let lanes = if modelled { 1 } else { arguments.connections };
            let target = Bulk::open(&arguments.remote, &place.path(), lanes)?;
            let identity = place.identity(&mut remote)?;
            (Box::new(target), [arguments.remote.endpoint.clone(), identity])
        };
    let source = Source::open(path, arguments)?;
    let [whereto, identity] = &whereto;
    let note = Note::new(&[
        "import",
        &source.name,
        whereto,
        &place.path(),
        identity,
        &arguments.what_is_done(),
    ]);
    if arguments.from_start {
        note.remove();
    }
    let job = Job {
        target: &*target,
        existing: arguments.existing,
        id: arguments.id.as_deref(),
        strict: arguments.strict,
        note: source.can_resume.then_some(&note),
    };
    job.run(source)
}

/// The definition of a container that is partitioned by these paths.
pub(crate) fn definition(name: &str, paths: &str) -> Value {
    let paths: Vec<Value> = paths
        .split(',')
        .map(|path| {
            let path = path.trim();
            if path.starts_with('/') { path.into() } else { format!("/{path}").into() }
        })
        .collect();
    let mut key = Object::new();
    key.set("kind", if paths.len() > 1 { "MultiHash".into() } else { "Hash".into() });
    key.set("version", 2_i64.into());
    key.set("paths", Value::array(paths));
    let mut object = Object::new();
    object.set("id", name.into());
    object.set("partitionKey", Value::object(key));
    Value::object(object)
}

/// Makes sure that a server has the container.
pub(crate) fn prepare(
    remote: &mut crate::remote::Remote,
    place: &ContainerArguments,
    definition: Option<&Value>,
) -> Result<()> {
    let found = account::send(remote, "GET", &place.path(), &[], b"")?;
    let Some(definition) = definition.filter(|_| found.status == 404) else {
        if found.status == 404 {
            let text = format!(
                "there is no container {}/{}; --create /PATH makes one that is partitioned by a path",
                place.database, place.container
            );
            return Err(Failure::new(Exit::Refused, text).into());
        }
        return if found.status < 400 {
            Ok(())
        } else {
            Err(account::refusal(&place.path(), &found))
        };
    };
    let mut database = Object::new();
    database.set("id", place.database.as_str().into());
    let json = [("content-type", "application/json")];
    let body = Value::object(database).to_json();
    let made = account::send(remote, "POST", "/dbs", &json, body.as_bytes())?;
    if made.status >= 400 && made.status != 409 {
        return Err(account::refusal("/dbs", &made));
    }
    let path = format!("/dbs/{}/colls", place.database);
    account::must(remote, "POST", &path, &json, definition.to_json().as_bytes()).map(drop)
}

/// Refuses an object that is spread over lines: as lines, each of them would be bad.
fn check_not_spread(input: &mut Input) -> Result<()> {
    let start = input.fill_buf().context("cannot read")?;
    let start = start.strip_prefix(MARK).unwrap_or(start).trim_ascii_start();
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    if let [b'{'] | [b'{', .., b'{' | b'[' | b','] = line {
        bail!(
            "an object is spread over several lines; put the items into an array, [ … , … ], or each on a line of its own"
        );
    }
    Ok(())
}

/// Records of a file, in whatever format.
enum Reader {
    Json(Records<Input>),
    Sheet(Box<SheetReader<Input>>),
}

type Input = Box<dyn BufRead + Send>;

fn buffered(input: impl Read + Send + 'static) -> Input {
    Box::new(BufReader::with_capacity(1 << 20, input))
}

struct Source {
    reader: Reader,
    /// Says what it is so that another version of the file is another source.
    name: String,
    can_resume: bool,
    length: Option<u64>,
    path: Option<PathBuf>,
    shape: Option<RecordLayout>,
}

impl Source {
    fn open(path: &Path, arguments: &ImportArguments) -> Result<Self> {
        let cells = if arguments.texts { Cells::Texts } else { Cells::Typed };
        let format = arguments.format.or(Format::of(path));
        if path == Path::new("-") {
            let mut input = buffered(std::io::stdin());
            let reader = if format == Some(Format::Csv) {
                Reader::Sheet(Box::new(SheetReader::new(input, cells)?))
            } else {
                check_not_spread(&mut input)?;
                let shape = shape_of(&mut input)?;
                Reader::Json(Records::new(input, shape, Position::default()))
            };
            let name = "-".to_owned();
            return Ok(Self {
                reader,
                name,
                can_resume: false,
                length: None,
                path: None,
                shape: None,
            });
        }
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        let about = file.metadata().with_context(|| format!("cannot read {shown}"))?;
        if about.is_dir() {
            bail!("{shown} is a folder; name a file");
        }
        let changed = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let changed_ns = changed.map_or(0, |time| time.as_nanos());
        let whole = path.canonicalize().with_context(|| format!("cannot find {shown}"))?;
        let name = format!("{} {} {changed_ns}", whole.display(), about.len());
        let (reader, shape) = if format == Some(Format::Csv) {
            (Reader::Sheet(Box::new(SheetReader::new(buffered(file), cells)?)), None)
        } else {
            let mut input = buffered(file);
            let shape = if format == Some(Format::Lines) {
                RecordLayout::Lines
            } else {
                check_not_spread(&mut input).with_context(|| shown.to_string())?;
                shape_of(&mut input)?
            };
            (Reader::Json(Records::new(input, shape, Position::default())), Some(shape))
        };
        let (length, path) = (Some(about.len()), Some(path.to_owned()));
        Ok(Self { reader, name, can_resume: about.is_file(), length, path, shape })
    }

    /// Goes on at a place.
    fn seek(&mut self, at: Position) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = File::open(path).context("cannot open the file again")?;
        file.seek(SeekFrom::Start(at.offset)).context("cannot go on in the file")?;
        let input = buffered(file);
        match (&mut self.reader, self.shape) {
            (Reader::Sheet(sheet), _) => sheet.go_on(input, at),
            (reader, shape) => {
                *reader =
                    Reader::Json(Records::new(input, shape.unwrap_or(RecordLayout::Lines), at));
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<InputRecord>> {
        match &mut self.reader {
            Reader::Json(records) => records.next(),
            Reader::Sheet(sheet) => sheet.next(),
        }
    }

    fn lines(&self) -> u64 {
        match &self.reader {
            Reader::Json(records) => records.lines(),
            Reader::Sheet(sheet) => sheet.lines(),
        }
    }

    /// The next round; empty at the end.
    fn round(&mut self) -> Result<Round> {
        let mut round = Round::default();
        let mut bytes = 0;
        while round.records.len() < ROUND_ITEMS_MAX && bytes < ROUND_BYTES_MAX {
            let Some(record) = self.next()? else { break };
            bytes += record.text.as_ref().map_or(0, Vec::len);
            round.end.offset = record.end;
            round.records.push(record);
        }
        round.end.lines = self.lines();
        Ok(round)
    }
}

#[derive(Default)]
struct Round {
    records: Vec<InputRecord>,
    end: Position,
}

struct Job<'j> {
    target: &'j dyn TransferTarget,
    existing: OnExisting,
    id: Option<&'j str>,
    strict: bool,
    note: Option<&'j Note>,
}

impl Job<'_> {
    fn run(&self, mut source: Source) -> Result<TransferTally> {
        let _cooperation = interrupt::cooperate();
        let mut tally = TransferTally::default();
        let mut unsure = false;
        if let Some(noted) = self.note.and_then(Note::read) {
            let number = |name| noted.get(name).as_i64().and_then(|n| u64::try_from(n).ok());
            if let (Some(offset), Some(lines)) = (number("offset"), number("lines")) {
                tally = TransferTally::from_value(&noted);
                unsure = true;
                if offset > 0 {
                    source.seek(Position { offset, lines })?;
                    eprintln!("Continuing after line {lines}; --from-start starts over.");
                }
            }
        }
        let progress = ProgressLine::of_bytes(source.length);
        let (rounds, reading) = sync_channel(1);
        let done = std::thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    let round = source.round();
                    let last = round.as_ref().map_or(true, |round| round.records.is_empty());
                    if rounds.send(round).is_err() || last {
                        return;
                    }
                }
            });
            // The channel ends with this call, and with it the thread that reads.
            self.write(reading, &progress, &mut tally, unsure)
        });
        progress.end();
        done?;
        if let Some(note) = self.note {
            note.remove();
        }
        Ok(tally)
    }

    fn write(
        &self,
        rounds: Receiver<Result<Round>>,
        progress: &ProgressLine,
        tally: &mut TransferTally,
        mut unsure: bool,
    ) -> Result<()> {
        let (began_us, before) = (SystemClock.now_us(), tally.total());
        // What is durable, for the note of an interruption.
        let mut done: Option<Position> = None;
        let mut done_tally = *tally;
        for round in rounds {
            let Round { records, end } = round?;
            if records.is_empty() {
                break;
            }
            // After an interruption some of the first round may be there already.
            let existing = match self.existing {
                OnExisting::Refuse if unsure => OnExisting::Keep,
                asked => asked,
            };
            if let Some(note) = self.note.filter(|_| done.is_none() && !unsure) {
                note.write(position_note(Position::default(), *tally))?;
            }
            unsure = false;
            let stopped = match self.round(records, existing, progress, tally) {
                Err(_) if interrupt::is_requested() => {
                    return Err(self.interrupted(done, done_tally));
                }
                stopped => stopped?,
            };
            (done, done_tally) = (Some(end), *tally);
            let now_us = SystemClock.now_us();
            #[expect(clippy::cast_precision_loss, reason = "a rate is shown")]
            let rate = (tally.total() - before) as f64
                / (now_us.saturating_sub(began_us).max(1) as f64 / 1e6);
            progress.set(end.offset, tally.total(), rate);
            if let Some((line, reason)) = stopped {
                let text = format!("line {line}: {reason}; stopped, because of --strict");
                return Err(Failure::new(Exit::Partly, text).into());
            }
            if let Some(note) = self.note {
                note.write(position_note(end, *tally))?;
            }
            if interrupt::is_requested() {
                return Err(self.interrupted(done, done_tally));
            }
        }
        Ok(())
    }

    /// Notes how far it got, and says so.
    fn interrupted(&self, done: Option<Position>, tally: TransferTally) -> anyhow::Error {
        let text = format!("interrupted: {}", tally.to_text());
        interrupt::failure(match (self.note, done) {
            (Some(note), Some(at)) => match note.write(position_note(at, tally)) {
                Ok(()) => format!(
                    "{text}; the same command continues after line {}, --from-start starts over",
                    at.lines
                ),
                Err(error) => format!("{text}; {error:#}"),
            },
            _ => text,
        })
    }

    /// Writes one round. With `--strict`, the bad line that ends the import.
    fn round(
        &self,
        records: Vec<InputRecord>,
        existing: OnExisting,
        progress: &ProgressLine,
        tally: &mut TransferTally,
    ) -> Result<Option<(u64, String)>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut parsed = self.parse(records, threads);
        let mut bad: Vec<(u64, String)> = Vec::new();
        if self.strict
            && let Some(at) = parsed.iter().position(|(_, item)| item.is_err())
        {
            parsed.truncate(at + 1);
        }
        let mut lanes: Vec<Vec<Item>> = vec![Vec::new(); self.target.lanes()];
        for (line, item) in parsed {
            match item {
                Ok(value) => {
                    let lane = lane(&value, lanes.len());
                    lanes[lane].push(Item { line, value });
                }
                Err(reason) => bad.push((line, reason)),
            }
        }
        for (line, fate) in load(self.target, lanes, existing)? {
            tally.add(&fate);
            if let Fate::Refused(reason) = fate {
                bad.push((line, reason));
                tally.bad -= 1;
            }
        }
        bad.sort_unstable();
        if self.strict && !bad.is_empty() {
            tally.bad += 1;
            return Ok(Some(bad.swap_remove(0)));
        }
        for (line, reason) in bad {
            tally.bad += 1;
            match tally.bad {
                ..=BAD_LINES_TOLD => progress.say(&format!("line {line}: {reason}")),
                number if number == BAD_LINES_TOLD + 1 => {
                    progress.say("more bad lines follow and are only counted");
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Parses records side by side, in their order.
    fn parse(
        &self,
        records: Vec<InputRecord>,
        threads: usize,
    ) -> Vec<(u64, Result<Value, String>)> {
        let share = records.len().div_ceil(threads.max(1)).max(1);
        let mut shares: Vec<Vec<InputRecord>> = Vec::new();
        let mut records = records.into_iter();
        loop {
            let part: Vec<InputRecord> = records.by_ref().take(share).collect();
            if part.is_empty() {
                break;
            }
            shares.push(part);
        }
        let read =
            |record: InputRecord| (record.line, record.text.and_then(|text| self.item(&text)));
        let read = &read;
        std::thread::scope(|scope| {
            let run = |part: Vec<InputRecord>| {
                scope.spawn(move || part.into_iter().map(read).collect::<Vec<_>>())
            };
            let running: Vec<_> = shares.into_iter().map(run).collect();
            let joined = running.into_iter().map(|thread| thread.join().unwrap_or_default());
            joined.flatten().collect()
        })
    }

    fn item(&self, text: &[u8]) -> Result<Value, String> {
        let mut value = Value::parse(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let Some(object) = value.as_object_mut() else {
            return Err("it is not an object".to_owned());
        };
        if let Some(name) = self.id {
            let id = match object.get(name) {
                Some(Value::String(text)) => Value::String(text.clone()),
                Some(number @ Value::Number(_)) => number.to_json().into(),
                _ => return Err(format!("it has no '{name}' to take the id from")),
            };
            object.set("id", id);
        }
        match object.get("id") {
            Some(Value::String(_)) => Ok(value),
            Some(_) => Err("its id is not a text; --id id makes one of a number".to_owned()),
            None => Err("it has no id; --id PROPERTY takes it from another property".to_owned()),
        }
    }
}

fn position_note(at: Position, tally: TransferTally) -> Object {
    let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
    let mut note = Object::new();
    note.set("offset", number(at.offset));
    note.set("lines", number(at.lines));
    for (name, count) in tally.to_pairs() {
        note.set(name, number(count));
    }
    note
}

/// Versions of one item always go the same way.
pub(crate) fn lane(item: &Value, lanes: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    item.get("id").as_str().hash(&mut hasher);
    usize::try_from(hasher.finish() % lanes.max(1) as u64).unwrap_or(0)
}

/// Gives every lane its items, all at once; the fate of each by its line.
pub(crate) fn load(
    target: &dyn TransferTarget,
    lanes: Vec<Vec<Item>>,
    existing: OnExisting,
) -> Result<Vec<(u64, Fate)>> {
    std::thread::scope(|scope| {
        let run = |(lane, items): (usize, Vec<Item>)| {
            scope.spawn(move || {
                let lines: Vec<u64> = items.iter().map(|item| item.line).collect();
                let fates = target.load(lane, items, existing)?;
                anyhow::Ok(lines.into_iter().zip(fates).collect::<Vec<_>>())
            })
        };
        let busy = lanes.into_iter().enumerate().filter(|(_, items)| !items.is_empty());
        let running: Vec<_> = busy.map(run).collect();
        let mut all = Vec::new();
        for thread in running {
            let Ok(fates) = thread.join() else { bail!("a thread that writes items panicked") };
            all.extend(fates?);
        }
        Ok(all)
    })
}
