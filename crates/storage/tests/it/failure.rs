//! When the disk refuses a write, so does the store from then on; and it goes on reading.
//!
//! The child is this same test under a limit on the size of files, which makes the log's writes
//! fail as a full disk does. The shell sets the limit and has its signal ignored.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use orrery_storage::{RocksStore, Space, StorageError, Store};
use orrery_types::Lsn;

use crate::stores::{EPOCH, SHARD, commit, latest, open, part, put};

const CHILD: &str = "ORRERY_FULL_DISK_CHILD";
const NAME: &str = "failure::a_failed_write_ends_all_writing_and_no_reading";

fn write_one(store: &RocksStore, n: u64) -> Result<Lsn, StorageError> {
    let mut part = part(SHARD);
    part.puts = vec![put(Space::Items, &format!("k{n:06}"), &"v".repeat(4000))];
    part.feed = vec![b"f".to_vec()];
    commit(store, part)
}

/// Writes until the disk refuses; leaves the number of acknowledged commits in a file.
fn child(path: &Path) {
    let store = open(path);
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    let mut acknowledged = 0;
    let error = loop {
        match write_one(&store, acknowledged + 1) {
            Ok(lsn) => acknowledged = lsn.0,
            Err(error) => break error,
        }
    };
    assert!(acknowledged > 10, "some commits fit: {error}");
    assert!(matches!(&error, StorageError::Unknown(lost) if lost.commit.is_some()), "{error}");
    for _ in 0..3 {
        let later = write_one(&store, acknowledged + 2).expect_err("no more writes");
        assert!(matches!(later, StorageError::ReadOnly(_)), "{later}");
    }
    let error = store.retire_shard(SHARD).expect_err("no more writes");
    assert!(matches!(error, StorageError::ReadOnly(_)), "{error}");
    assert!(store.failure().is_some());
    assert!(matches!(store.writable(), Err(StorageError::ReadOnly(_))));
    assert_eq!(latest(&store, SHARD).lsn(), Lsn(acknowledged));
    for n in 1..=acknowledged {
        let key = format!("k{n:06}");
        let found = store.get(SHARD, Space::Items, key.as_bytes()).expect("reads go on");
        assert_eq!(found.1.expect("acknowledged").version, Lsn(n));
    }
    drop(store);
    let line = format!("\nacknowledged {acknowledged}\n");
    std::io::stdout().write_all(line.as_bytes()).expect("the parent reads");
}

#[test]
fn a_failed_write_ends_all_writing_and_no_reading() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(Path::new(&path));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", "--nocapture", NAME])
        .env(CHILD, folder.path())
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = text.lines().find_map(|line| line.strip_prefix("acknowledged "));
    let acknowledged: u64 = said
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let store = open(folder.path());
    let lsn = latest(&store, SHARD).lsn().0;
    // The commit whose write failed may have reached the disk after all, but nothing beyond it.
    assert!((acknowledged..=acknowledged + 1).contains(&lsn), "{acknowledged} and {lsn}");
    for n in 1..=acknowledged {
        let key = format!("k{n:06}");
        let found = store.get(SHARD, Space::Items, key.as_bytes()).expect("a read").1;
        assert_eq!(found.expect("acknowledged").version, Lsn(n));
    }
    assert_eq!(write_one(&store, lsn + 1), Ok(Lsn(lsn + 1)), "reopened, it writes again");
}
