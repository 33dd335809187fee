//! The data folder: reopened, in use, of another format, damaged, copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use orrery_storage::{
    Copied, OpenError, ReadAt, RocksOptions, RocksStore, Space, StorageError, Store, Value,
    checkpoint,
};
use orrery_types::{Lsn, ShardId};

use crate::random::Random;
use crate::stores::{
    EPOCH, SHARD, all, commit, epochs, get, keys, latest, on_every_store, open, part, put, value,
    write,
};

fn refusal(path: &Path) -> OpenError {
    RocksStore::open(path, &RocksOptions::default()).expect_err("the folder must not open")
}

#[test]
fn everything_is_there_when_the_folder_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made/on/the/way");
    {
        let store = open(&path);
        store.create_open_shard(SHARD, EPOCH).expect("a shard");
        store.create_open_shard(ShardId(0), EPOCH).expect("a shard");
        write(&store, &[("a", "1")]);
        write(&store, &[("a", "2")]);
    }
    let store = open(&path);
    assert_eq!(epochs(&store), [(ShardId(0), EPOCH), (SHARD, EPOCH)]);
    assert_eq!(get(&store, SHARD, Space::Items, b"a"), Ok((Lsn(2), Some(value(2, "2")))));
    assert_eq!(write(&store, &[("b", "3")]), Lsn(3));
}

#[test]
fn a_folder_is_open_once_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path());
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::InUse(_)), "{error}");
    drop(first);
    drop(open(folder.path()));
}

#[test]
fn an_unknown_format_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path()));
    let format = folder.path().join("FORMAT");
    assert_eq!(fs::read_to_string(&format).expect("FORMAT"), "orrery-format 1\n");
    fs::write(&format, "orrery-format 2\n").expect("a write");
    let message = refusal(folder.path()).to_string();
    assert!(message.contains("'orrery-format 2'"), "{message}");
    fs::write(&format, "").expect("a write");
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::UnknownFormat { .. }), "{error}");
}

#[test]
fn a_folder_that_lost_a_part_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    drop(store);
    let format = folder.path().join("FORMAT");
    fs::rename(&format, folder.path().join("F")).expect("a rename");
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::NotWhole { .. }), "without FORMAT: {error}");
    fs::rename(folder.path().join("F"), &format).expect("a rename");
    drop(open(folder.path()));
    fs::remove_dir_all(folder.path().join("lsm")).expect("a removal");
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::NotWhole { .. }), "without files: {error}");
}

#[test]
fn damaged_files_are_an_error_and_no_wrong_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let mut items = part(SHARD);
    items.puts = (0..500).map(|n| put(Space::Items, &format!("{n:04}"), &"x".repeat(99))).collect();
    commit(&store, items).expect("a commit");
    drop(store);
    let files = fs::read_dir(folder.path().join("lsm")).expect("a folder");
    let tables = files.map(|file| file.expect("a file").path());
    for table in tables.filter(|path| path.extension().is_some_and(|e| e == "sst")) {
        let mut bytes = fs::read(&table).expect("a table");
        bytes[60] ^= 0xff;
        fs::write(&table, bytes).expect("a write");
    }
    // The headers are damaged too, so it does not even open; it must not open empty.
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::Corrupt(_)), "{error}");
}

#[test]
fn a_checkpoint_opens_as_a_store_of_its_moment() {
    on_every_store(|store| {
        write(store, &[("a", "1")]);
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("copy");
        checkpoint(store, &copy).expect("a checkpoint");
        write(store, &[("b", "2")]);
        let again = checkpoint(store, &copy).expect_err("the folder exists");
        assert!(matches!(again, StorageError::Io(_)), "{again}");
        let copied = open(&copy);
        assert_eq!(epochs(&copied), [(SHARD, EPOCH)]);
        assert_eq!(get(&copied, SHARD, Space::Items, b"a"), Ok((Lsn(1), Some(value(1, "1")))));
        assert_eq!(write(&copied, &[("c", "3")]), Lsn(2));
        assert_eq!(keys(&*latest(&copied, SHARD), Space::Items), ["a", "c"]);
        assert_eq!(keys(&*latest(store, SHARD), Space::Items), ["a", "b"]);
    });
}

#[test]
fn the_space_of_a_dropped_shard_is_given_back() {
    const SIZE: u64 = 4_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_shard(SHARD, EPOCH).expect("a shard");
    let mut random = Random::from_environment("reclaim");
    let mut value = || -> Vec<u8> { (0..125).flat_map(|_| random.next().to_be_bytes()).collect() };
    let mut entry = |n: u64| {
        let value = Value { version: Lsn(1), bytes: Bytes::from(value()) };
        Copied { space: Space::Items, key: n.to_be_bytes().to_vec(), value: Some(value) }
    };
    let entries: Vec<Copied> = (0..SIZE / 1000).map(&mut entry).collect();
    store.copy_into(SHARD, &entries).expect("a copy");
    store.flush().expect("a flush");
    assert!(store.stats(SHARD).expect("stats").items_bytes > SIZE / 2);
    assert!(size_of(folder.path()) > SIZE);
    store.drop_shard(SHARD).expect("a drop");
    let small = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        size_of(folder.path()) < SIZE / 4
    });
    assert!(small, "{} bytes are left", size_of(folder.path()));
}

/// The size of all table files; logs are kept to be overwritten.
fn size_of(folder: &Path) -> u64 {
    let files = fs::read_dir(folder.join("lsm")).expect("a folder").filter_map(Result::ok);
    let tables = files.filter(|file| file.path().extension().is_some_and(|e| e == "sst"));
    // A file may vanish between the listing and the look at it.
    tables.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// A loss of power may leave any part of what was not yet synced. Whatever the log ends in, what
/// opens is a whole number of commits, and all of those before the damage.
#[test]
fn a_torn_log_ends_after_a_whole_commit() {
    const COMMITS: u64 = 30;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let store = open(&data);
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    for n in 0..COMMITS {
        let mut part = part(SHARD);
        let name = format!("{n:03}");
        part.puts = vec![put(Space::Items, &name, &"v".repeat(300)), put(Space::Index, &name, "")];
        part.feed = vec![name.into_bytes()];
        commit(&store, part).expect("a commit");
    }
    let mut random = Random::from_environment("torn log");
    for attempt in 0..25 {
        let copy = folder.path().join(format!("copy{attempt}"));
        copy_files(&data, &copy);
        let log = log_of(&copy);
        let mut bytes = fs::read(&log).expect("a log");
        let cut = random.below(bytes.len());
        match random.below(3) {
            0 => bytes.truncate(cut),
            1 => bytes[cut..].fill(0),
            _ => bytes[cut..].iter_mut().for_each(|byte| *byte ^= 0x55),
        }
        fs::write(&log, &bytes).expect("a write");
        let torn = open(&copy);
        let Ok(snapshot) = torn.snapshot(SHARD, ReadAt::Latest) else {
            assert!(cut < 200, "only a cut at the very start loses the shard");
            continue;
        };
        let names: Vec<String> = (0..snapshot.lsn().0).map(|n| format!("{n:03}")).collect();
        assert_eq!(keys(&*snapshot, Space::Items), names, "cut at {cut}");
        assert_eq!(keys(&*snapshot, Space::Index), names, "cut at {cut}");
        assert_eq!(all(&*snapshot, Space::Feed).len(), names.len(), "cut at {cut}");
        // A commit takes at most 600 bytes of log, so those well before the cut are there.
        assert!((names.len() as u64 + 2) * 600 >= cut as u64, "cut at {cut}: {}", names.len());
    }
}

fn copy_files(from: &Path, into: &Path) {
    fs::create_dir_all(into.join("lsm")).expect("a folder");
    fs::copy(from.join("FORMAT"), into.join("FORMAT")).expect("a copy");
    for file in fs::read_dir(from.join("lsm")).expect("a folder") {
        let file = file.expect("a file");
        fs::copy(file.path(), into.join("lsm").join(file.file_name())).expect("a copy");
    }
}

/// The one log that has something in it.
fn log_of(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("lsm")).expect("a folder");
    let mut logs = files.map(|file| file.expect("a file").path()).filter(|path| {
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        is_log && fs::metadata(path).expect("a file").len() > 0
    });
    let log = logs.next().expect("a log");
    assert_eq!(logs.next(), None, "one log");
    log
}

/// Copies made while eight writers write are each a whole number of commits.
#[test]
fn a_checkpoint_under_load_holds_whole_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("data"));
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let store = &store;
    std::thread::scope(|scope| {
        for writer in 0..8 {
            scope.spawn(move || {
                for n in 0..40 {
                    let mut part = part(SHARD);
                    let name = format!("{writer}/{n}");
                    part.puts = vec![put(Space::Items, &name, ""), put(Space::Index, &name, "")];
                    part.feed = vec![name.into_bytes()];
                    commit(store, part).expect("a commit");
                }
            });
        }
        for copy in 0..3 {
            let path = folder.path().join(format!("copy{copy}"));
            checkpoint(store, &path).expect("a checkpoint");
            let copied = open(&path);
            let snapshot = latest(&copied, SHARD);
            let count = usize::try_from(snapshot.lsn().0).expect("few commits");
            assert_eq!(all(&*snapshot, Space::Feed).len(), count);
            let (items, terms) = (keys(&*snapshot, Space::Items), keys(&*snapshot, Space::Index));
            assert_eq!((items.len(), &items), (count, &terms));
        }
    });
}

#[test]
fn damage_is_told_with_its_shard_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    write(&store, &[("some key", "9f86d081884c7d659a2feaa0c55ad015")]);
    drop(store);
    let files = std::fs::read_dir(folder.path().join("lsm")).expect("files");
    let mut damaged = 0;
    for file in files.map(|file| file.expect("a file").path()) {
        let mut bytes = std::fs::read(&file).expect("a file");
        let text = b"9f86d081";
        if file.extension().is_some_and(|e| e == "sst")
            && let Some(at) = bytes.windows(text.len()).position(|window| window == text)
        {
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).expect("a file");
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let store = open(folder.path());
    let expected = "(shard 7, Items, key 736f6d65206b6579)";
    let errors = [
        store.get(SHARD, Space::Items, b"some key").map(drop),
        latest(&store, SHARD).get(Space::Items, b"some key").map(drop),
        latest(&store, SHARD).get_many(Space::Items, &[b"other", b"some key"]).map(drop),
    ];
    for error in errors {
        let error = error.expect_err("damage");
        assert!(
            matches!(&error, StorageError::Corrupt(text) if text.contains(expected)),
            "{error}"
        );
    }
}
