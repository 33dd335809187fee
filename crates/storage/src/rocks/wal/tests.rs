//! Logs of a real store as a crash leaves them, damaged in every way that can be told from a crash and
//! in some that cannot.

use std::path::PathBuf;

use orrery_types::{Clock as _, Epoch, Lsn, ShardId, SystemClock};
use tempfile::TempDir;

use super::records::BLOCK_BYTES;
use super::*;
use crate::{Commit, OpenError, Part, Put, ReadAt, RocksOptions, RocksStore, Space, Store as _};

const SHARD: ShardId = ShardId(3);
const EPOCH: Epoch = Epoch(1);
const COMMITS: u64 = 40;

/// The `SplitMix64` generator, from a seed that is printed.
struct Random(u64);

impl Random {
    fn new(test: &str) -> Self {
        let given = std::env::var("ORRERY_SEED").ok();
        let seed = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| SystemClock.now_us());
        eprintln!("{test}: ORRERY_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }
}

/// What a crash leaves of a store: its folder, and the one log in it.
struct Image {
    folder: TempDir,
    log: u64,
    bytes: Vec<u8>,
    /// Where each record of the log begins; the last is the end of the log.
    bounds: Vec<usize>,
    payloads: Vec<Vec<u8>>,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn commit(store: &RocksStore, n: u64, size: usize) {
    let mut part = Part::new(SHARD, EPOCH);
    let key = n.to_be_bytes().to_vec();
    part.puts = vec![Put { space: Space::Items, key, value: vec![b'v'; size] }];
    store.commit(Commit::new(vec![part])).unwrap();
}

/// A store with one commit a record: small ones, and some that are longer than a block.
fn image() -> Image {
    let written = tempfile::tempdir().unwrap();
    let store = RocksStore::open(written.path(), &RocksOptions::default()).unwrap();
    store.create_open_shard(SHARD, EPOCH).unwrap();
    for n in 1..=COMMITS {
        commit(
            &store,
            n,
            if n % 13 == 0 { 70_000 } else { 100 + 150 * usize::try_from(n).unwrap() },
        );
    }
    let folder = tempfile::tempdir().unwrap();
    copy(written.path(), folder.path());
    let files = folder.path().join("lsm");
    let log = *list(&files).unwrap().last().unwrap();
    let path = files.join(name(log));
    let bytes = fs::read(&path).unwrap();
    let (mut bounds, mut payloads) = (Vec::new(), Vec::new());
    let ending = records::read(&path, u32::try_from(log).unwrap(), |place, record| {
        assert_eq!(place, Place::InOrder);
        bounds.push(usize::try_from(record.at).unwrap());
        payloads.push(record.payload.to_vec());
    });
    assert_eq!(ending.unwrap().damage, None);
    bounds.push(bytes.len());
    assert!(u64::try_from(payloads.len()).unwrap() > COMMITS);
    Image { folder, log, bytes, bounds, payloads }
}

impl Image {
    /// A copy of the folder with these logs in place of its own.
    fn with(&self, logs: &[(u64, &[u8])]) -> (TempDir, PathBuf) {
        let copied = tempfile::tempdir().unwrap();
        copy(self.folder.path(), copied.path());
        let files = copied.path().join("lsm");
        fs::remove_file(files.join(name(self.log))).unwrap();
        for (log, bytes) in logs {
            fs::write(files.join(name(*log)), bytes).unwrap();
        }
        let path = copied.path().to_owned();
        (copied, path)
    }

    fn with_log(&self, bytes: &[u8]) -> (TempDir, PathBuf) {
        self.with(&[(self.log, bytes)])
    }

    /// How many commits the first records hold: the others made the shard.
    fn commits(&self, records: usize) -> u64 {
        let others = self.payloads.len() as u64 - COMMITS;
        (records as u64).saturating_sub(others)
    }
}

fn open(path: &Path, on_log_damage: OnLogDamage) -> Result<RocksStore, OpenError> {
    RocksStore::open(path, &RocksOptions { on_log_damage, ..RocksOptions::default() })
}

/// The LSN of the shard once the folder is opened; 0 before there is a shard.
fn lsn(store: &RocksStore) -> u64 {
    store.snapshot(SHARD, ReadAt::Latest).map_or(0, |snapshot| snapshot.lsn().0)
}

/// Opens a folder that must not open, then accepts the damage: what lies before it is there, what lies
/// behind it is kept beside, and the folder is sound from then on.
#[track_caller]
fn check_refused(path: &Path, kept: u64, context: &str) {
    let logs = |path: &Path| {
        let files = path.join("lsm");
        let logs = list(&files).unwrap().into_iter();
        logs.map(|log| (log, fs::read(files.join(name(log))).unwrap())).collect::<Vec<_>>()
    };
    let before = logs(path);
    let error = open(path, OnLogDamage::Refuse).map(|store| lsn(&store));
    assert!(matches!(error, Err(OpenError::LogDamaged(_))), "{context}: {error:?}");
    assert!(before == logs(path), "{context}: a refusal changes nothing");
    let store = open(path, OnLogDamage::Accept).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(lsn(&store), kept, "{context}");
    for n in 1..=COMMITS {
        let found = store.get(SHARD, Space::Items, &n.to_be_bytes());
        let version = found.map_or(None, |(_, value)| value.map(|value| value.version));
        assert_eq!(version, (n <= kept).then_some(Lsn(n)), "{context}");
    }
    drop(store);
    let store = open(path, OnLogDamage::Refuse).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(lsn(&store), kept, "{context}");
    let aside = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let aside: Vec<_> =
        aside.filter(|name| name.to_string_lossy().starts_with("damaged")).collect();
    assert_eq!(aside.len(), 1, "{context}");
}

#[track_caller]
fn check_opens(path: &Path, expected: u64, context: &str) {
    let store = open(path, OnLogDamage::Refuse).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(lsn(&store), expected, "{context}");
}

#[test]
fn a_changed_byte_is_never_passed_over_in_silence() {
    let image = image();
    let mut random = Random::new("changed byte");
    let records = image.payloads.len();
    // Checksum, length, type and the first bytes of the payload of some records, then anything.
    let heads = [0, 1, records / 2, records - 2, records - 1];
    let heads = heads.into_iter().flat_map(|r| (0..9).map(move |i| (r, i)));
    let mut places: Vec<usize> = heads.map(|(record, i)| image.bounds[record] + i).collect();
    places.extend((0..60).map(|_| random.below(image.bytes.len())));
    for at in places {
        let mut bytes = image.bytes.clone();
        bytes[at] ^= 1 << random.below(8);
        let (_folder, path) = image.with_log(&bytes);
        let record = image.bounds.partition_point(|from| *from <= at) - 1;
        let context = format!("byte {at}, record {record} of {records}");
        let kept = image.commits(record);
        // What fills the end of a block means nothing.
        let is_filler = inspect(&path.join("lsm")).unwrap().damage.is_none() && {
            let next = image.bounds[record + 1];
            next.is_multiple_of(BLOCK_BYTES) && next - at < 11
        };
        if is_filler {
            check_opens(&path, COMMITS, &context);
        } else if record == records - 1 {
            // It cannot be told from a write that a crash cut off.
            check_opens(&path, kept, &context);
        } else {
            check_refused(&path, kept, &context);
        }
    }
}

#[test]
fn a_log_that_ends_anywhere_is_a_crash_and_opens() {
    let image = image();
    let mut random = Random::new("cut");
    let near = |at: usize| at.saturating_sub(8)..(at + 9).min(image.bytes.len());
    let mut cuts: Vec<usize> = image.bounds.iter().rev().take(4).flat_map(|at| near(*at)).collect();
    cuts.extend(near(BLOCK_BYTES).chain(near(2 * BLOCK_BYTES)).chain(0..3));
    cuts.extend((0..40).map(|_| random.below(image.bytes.len())));
    for cut in cuts {
        let (_folder, path) = image.with_log(&image.bytes[..cut]);
        let whole = image.bounds.partition_point(|from| *from <= cut) - 1;
        check_opens(&path, image.commits(whole), &format!("cut at {cut}"));
    }
    // Every other length: no log is opened, the check alone.
    let (_folder, path) = image.with_log(&image.bytes);
    let files = path.join("lsm");
    for cut in (0..image.bytes.len()).step_by(7).rev() {
        File::options()
            .write(true)
            .open(files.join(name(image.log)))
            .unwrap()
            .set_len(cut as u64)
            .unwrap();
        assert_eq!(inspect(&files).unwrap().damage, None, "cut at {cut}");
    }
}

#[test]
fn a_sector_that_is_zero_is_damage_unless_nothing_follows() {
    let image = image();
    let mut random = Random::new("zero sectors");
    for _ in 0..40 {
        let size = [512, 4096, BLOCK_BYTES][random.below(3)];
        let from = random.below(image.bytes.len()) / size * size;
        let to = (from + size * (1 + random.below(2))).min(image.bytes.len());
        let mut bytes = image.bytes.clone();
        bytes[from..to].fill(0);
        let (_folder, path) = image.with_log(&bytes);
        let first = image.bounds.partition_point(|at| *at <= from) - 1;
        let next = image.bounds.partition_point(|at| *at < to);
        let context = format!("zero from {from} to {to}");
        if next < image.payloads.len() {
            check_refused(&path, image.commits(first), &context);
        } else {
            check_opens(&path, image.commits(first), &context);
        }
    }
}

/// Writes payloads as a log.
fn write(payloads: &[Vec<u8>], recycled: Option<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = if recycled.is_some() { 11 } else { 7 };
    for payload in payloads {
        let (mut rest, mut is_first) = (&payload[..], true);
        loop {
            let left = BLOCK_BYTES - bytes.len() % BLOCK_BYTES;
            if left < head {
                bytes.resize(bytes.len() + left, 0);
                continue;
            }
            let (part, after) = rest.split_at(rest.len().min(left - head));
            let kind = match (is_first, after.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            let mut summed = vec![if recycled.is_some() { kind + 4 } else { kind }];
            summed.extend(recycled.into_iter().flat_map(u32::to_le_bytes));
            summed.extend_from_slice(part);
            let sum = crc32c::crc32c(&summed).rotate_right(15).wrapping_add(0xa282_ead8);
            bytes.extend(sum.to_le_bytes());
            bytes.extend(u16::try_from(part.len()).unwrap().to_le_bytes());
            bytes.extend(summed);
            (rest, is_first) = (after, false);
            if rest.is_empty() {
                break;
            }
        }
    }
    bytes
}

#[test]
fn what_a_recycled_file_holds_of_its_earlier_use_is_no_damage() {
    let image = image();
    let mut random = Random::new("recycled");
    let number = u32::try_from(image.log).unwrap();
    assert!(write(&image.payloads, Some(number)) == image.bytes, "as the database writes it");
    let old = write(&image.payloads, Some(number - 1));
    for _ in 0..12 {
        let count = 1 + random.below(image.payloads.len() - 1);
        let mut bytes = write(&image.payloads[..count], Some(number));
        let length = bytes.len();
        bytes.extend_from_slice(&old[length.min(old.len())..]);
        let (_folder, path) = image.with_log(&bytes);
        check_opens(&path, image.commits(count), &format!("{count} records, then older ones"));
        if count < 3 {
            continue;
        }
        let damaged = random.below(count - 1);
        let at = write(&image.payloads[..damaged], Some(number)).len() + 20;
        bytes[at] ^= 4;
        let (_folder, path) = image.with_log(&bytes);
        let context = format!("record {damaged} of {count} in a recycled file");
        check_refused(&path, image.commits(damaged), &context);
    }
}

#[test]
fn damage_shows_across_files() {
    let image = image();
    let (half, most) = (image.payloads.len() / 2, image.payloads.len() - 3);
    let [first, second, third] =
        [&image.payloads[..half], &image.payloads[half..most], &image.payloads[most..]]
            .map(|payloads| write(payloads, None));
    let numbers = [image.log, image.log + 1, image.log + 2];
    let logs = |parts: [&[u8]; 3]| image.with(&numbers.into_iter().zip(parts).collect::<Vec<_>>());
    let (_folder, path) = logs([&first, &second, &third]);
    check_opens(&path, COMMITS, "three whole files");
    // The middle file has lost its last record, and the next file does not go on where it ends.
    let (_folder, path) = logs([&first, &second[..second.len() - 1], &third]);
    check_refused(&path, image.commits(most - 1), "the middle file is cut");
    let mut damaged = first.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let (_folder, path) = logs([&damaged, &second, &third]);
    check_refused(&path, image.commits(half - 1), "the last record of the first file");
    let (_folder, path) = logs([&first, &second, &third[..third.len() - 1]]);
    check_opens(&path, COMMITS - 1, "the last file is cut");
    // A write that failed, and a log that was begun after it: the numbers go on.
    let mut torn = first.clone();
    torn.extend_from_slice(&second[..50]);
    let (_folder, path) = logs([&torn, &second, &third]);
    check_opens(&path, COMMITS, "a failed write at the end of the first file");
}

/// A store of several logs, because only one space was written out; and the folder as it is then.
fn with_logs() -> (TempDir, Vec<u64>) {
    let written = tempfile::tempdir().unwrap();
    let store = RocksStore::open(written.path(), &RocksOptions::default()).unwrap();
    store.create_open_shard(SHARD, EPOCH).unwrap();
    for n in 1..=9 {
        commit(&store, n, 1000);
        if n % 3 == 0 {
            store.core.db.flush_cf(store.core.cf(Space::Items)).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy(written.path(), folder.path());
    let logs = list(&folder.path().join("lsm")).unwrap();
    (folder, logs)
}

#[test]
fn the_manifest_says_which_logs_are_replayed() {
    let (folder, logs) = with_logs();
    assert!(logs.len() >= 3, "{logs:?}");
    let files = folder.path().join("lsm");
    let known = Logs::read(&files).expect("the MANIFEST reads");
    assert!(known.first() <= logs[0], "{known:?}");
    assert!(known.synced().count() >= 2, "closed logs are known: {known:?}");
    assert!(known.is_in_tables_after(logs[0]), "{known:?}");
    // Opening writes everything out; a log that comes back from then on is not replayed.
    let old = fs::read(files.join(name(logs[0]))).unwrap();
    drop(open(folder.path(), OnLogDamage::Refuse).unwrap());
    let mut damaged = old.clone();
    damaged[40] ^= 1;
    fs::write(files.join(name(logs[0])), &damaged).unwrap();
    let known = Logs::read(&files).expect("the MANIFEST reads");
    assert!(known.first() > *logs.last().unwrap(), "{known:?}");
    check_opens(folder.path(), 9, "a log that was unlinked is back, damaged");
}

#[test]
fn a_log_that_is_missing_in_the_middle_keeps_the_store_closed() {
    let (folder, logs) = with_logs();
    let files = folder.path().join("lsm");
    fs::remove_file(files.join(name(logs[1]))).unwrap();
    for on_log_damage in [OnLogDamage::Refuse, OnLogDamage::Accept] {
        // The items are in tables, and shard headers of the missing log are not.
        let error = open(folder.path(), on_log_damage).map(drop).unwrap_err();
        let OpenError::LogDamaged(damage) = error else { panic!("{error}") };
        assert!(damage.is_cut && damage.is_in_tables && damage.log == logs[1], "{damage}");
        assert!(list(&files).unwrap().len() == logs.len() - 1, "nothing was set aside");
    }
}

/// A store whose current log overwrites a longer one, with the next few commits in it. The number of
/// the last commit is returned.
fn on_recycled_log(folder: &Path) -> (RocksStore, u64) {
    let store = RocksStore::open(folder, &RocksOptions::default()).unwrap();
    store.create_open_shard(SHARD, EPOCH).unwrap();
    let mut n = 0;
    let mut write = |count: u64, size: usize| {
        for _ in 0..count {
            n += 1;
            commit(&store, n, size);
        }
    };
    // A log is recycled when everything in it is flushed, and used again at the next switch.
    for _ in 0..2 {
        write(8, 9000);
        store.core.flush().unwrap();
    }
    write(3, 500);
    (store, n)
}

/// The folder of a store as a crash leaves it now.
fn crashed(folder: &Path) -> TempDir {
    let left = tempfile::tempdir().unwrap();
    copy(folder, left.path());
    left
}

#[test]
fn a_store_overwrites_its_old_logs() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, last) = on_recycled_log(folder.path());
    let left = crashed(folder.path());
    let files = left.path().join("lsm");
    let inspection = inspect(&files).unwrap();
    assert_eq!(inspection.damage, None);
    assert_eq!(inspection.remainders.len(), 1, "{inspection:?}");
    check_opens(left.path(), last, "a log with a remainder");
}

#[test]
fn zeros_ahead_of_the_records_of_a_new_log_are_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let store = RocksStore::open(folder.path(), &RocksOptions::default()).unwrap();
    store.create_open_shard(SHARD, EPOCH).unwrap();
    let files = folder.path().join("lsm");
    let log = files.join(name(newest(&files).unwrap().unwrap()));
    let mut n = 0;
    while n < 70 {
        n += 1;
        commit(&store, n, 9000);
    }
    let is_extended = || fs::metadata(&log).unwrap().len() > 70 * 9000 + 512 * 1024;
    for _ in 0..10_000 {
        if is_extended() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(is_extended(), "no zeros behind {n} records");
    for _ in 0..3 {
        n += 1;
        commit(&store, n, 9000);
    }
    let left = crashed(folder.path());
    let inspection = inspect(&left.path().join("lsm")).unwrap();
    assert_eq!(inspection.damage, None);
    assert_eq!(inspection.remainders.len(), 1, "{inspection:?}");
    check_opens(left.path(), n, "a log with zeros behind its records");
}

/// `RocksDB` alone refuses to open this: some column families are flushed, and it takes the remainder
/// for damage before that.
#[test]
fn a_flush_of_some_spaces_behind_a_remainder_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (store, last) = on_recycled_log(folder.path());
    store.core.db.flush_cf(store.core.cf(Space::Items)).unwrap();
    let left = crashed(folder.path());
    let files = left.path().join("lsm");
    let logs = list(&files).unwrap();
    let inspection = inspect(&files).unwrap();
    assert_eq!(inspection.damage, None);
    assert!(!inspection.remainders.is_empty(), "{inspection:?}");
    // The next log was created and never written.
    fs::write(files.join(name(*logs.last().unwrap())), b"").unwrap();
    check_opens(left.path(), last, "the next log is empty");
}

/// A table file that takes a sequence number leaves a gap in those of the log. It may lie between two
/// logs; whether the first of them is whole is then known by its length.
#[test]
fn sequence_numbers_may_skip_between_logs() {
    let image = image();
    let (half, number) = (image.payloads.len() / 2, u32::try_from(image.log).unwrap());
    let skip = |payload: &Vec<u8>| {
        let (sequence, rest) = payload.split_first_chunk::<8>().unwrap();
        let sequence = u64::from_le_bytes(*sequence) + 5;
        [&sequence.to_le_bytes()[..], rest].concat()
    };
    let skipped: Vec<Vec<u8>> = image.payloads[half..].iter().map(skip).collect();
    let mut first = write(&image.payloads[..half], Some(number));
    let second = write(&skipped, Some(number + 1));
    let (_folder, path) = image.with(&[(image.log, &first), (image.log + 1, &second)]);
    check_opens(&path, COMMITS, "a gap behind a log without a remainder");
    let length = first.len();
    let old = write(&image.payloads, Some(number - 1));
    first.extend_from_slice(&old[length..]);
    let (_folder, path) = image.with(&[(image.log, &first), (image.log + 1, &second)]);
    let damage = |synced: Option<usize>| {
        let mut search = Search::default();
        let files = path.join("lsm");
        search.log(&files, image.log, synced.map(|bytes| bytes as u64)).unwrap();
        search.log(&files, image.log + 1, None).unwrap();
        search.damage.map(|damage| (damage.at_byte, damage.is_cut, damage.records))
    };
    let (at, behind) = (length as u64, skipped.len() as u64);
    assert_eq!(damage(Some(length)), None, "it is as long as it was");
    assert_eq!(damage(None), Some((at, false, behind)), "records may be missing");
    assert_eq!(damage(Some(length + 1)), Some((at, true, behind)), "it was longer");
}

/// A file that needs no sequence number leaves no gap.
#[test]
fn a_table_file_of_a_new_shard_takes_no_sequence_number() {
    const OTHER: ShardId = ShardId(9);
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = on_recycled_log(folder.path());
    store.create_shard(OTHER, EPOCH).unwrap();
    let snapshot = store.snapshot(SHARD, ReadAt::Latest).unwrap();
    let before = store.core.db.latest_sequence_number();
    let mut run = crate::copy_run(&store, OTHER, Space::Index).unwrap();
    run.add(b"k", &crate::Value { version: Lsn(0), bytes: "v".into() }).unwrap();
    run.finish().unwrap();
    assert_eq!(store.core.db.latest_sequence_number(), before);
    drop(snapshot);
}
