//! The connection to `PostgreSQL` is cut at every step of a commit: a proxy before the server closes the connection after a
//! chosen number of bytes in a chosen direction. The answer to the commit is right whatever was lost.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use orrery_postgres::PostgresStore;
use orrery_storage::{Commit, HeadChange, Part, Space, StorageError, Store};
use orrery_types::{Epoch, Lsn, ShardId};

use crate::postgres_store;
use crate::random::Random;
use crate::stores::{EPOCH, SHARD, all, latest, part, put, unchanged};

const OTHER: ShardId = ShardId(8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// After so many more bytes in a direction, whichever connection they are on, that connection is closed.
#[derive(Clone, Copy, Debug)]
struct Cut {
    direction: Direction,
    bytes_left: usize,
}

type Cuts = Arc<Mutex<VecDeque<Cut>>>;

/// Of so many bytes, how many may pass, and whether the connection ends then.
fn admit(cuts: &Cuts, direction: Direction, size: usize) -> (usize, bool) {
    let mut cuts = cuts.lock().expect("sound");
    let Some(cut) = cuts.front_mut().filter(|cut| cut.direction == direction) else {
        return (size, false);
    };
    if size < cut.bytes_left {
        cut.bytes_left -= size;
        return (size, false);
    }
    let passed = cut.bytes_left;
    cuts.pop_front();
    (passed, true)
}

/// Passes bytes on until one of the sides ends or the connection is cut; `end` closes both.
fn pump(
    mut from: impl Read,
    mut to: impl Write,
    cuts: &Cuts,
    direction: Direction,
    end: impl Fn(),
) {
    let mut buffer = [0; 4096];
    while let Ok(size) = from.read(&mut buffer) {
        let (passed, is_cut) = admit(cuts, direction, size);
        if size == 0 || to.write_all(&buffer[..passed]).is_err() || is_cut {
            break;
        }
    }
    end();
}

/// Listens on a port and passes connections on to a socket.
fn proxy(socket: PathBuf, cuts: &Cuts) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let cuts = cuts.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, UnixStream::connect(&socket)) else { return };
            let (client, server) = (Arc::new(client), Arc::new(server));
            let close = |client: &Arc<TcpStream>, server: &Arc<UnixStream>| {
                let (client, server) = (client.clone(), server.clone());
                move || {
                    let _ = client.shutdown(Shutdown::Both);
                    let _ = server.shutdown(Shutdown::Both);
                }
            };
            let (own, end) = (cuts.clone(), close(&client, &server));
            let (from, to) = (client.clone(), server.clone());
            std::thread::spawn(move || pump(&*from, &*to, &own, Direction::ToServer, end));
            let (own, end) = (cuts.clone(), close(&client, &server));
            std::thread::spawn(move || pump(&*server, &*client, &own, Direction::ToClient, end));
        }
    });
    port
}

struct Bench {
    store: PostgresStore,
    cuts: Cuts,
    written: usize,
    /// That of both shards, and whether commits raise it.
    epoch: Epoch,
    raises: bool,
}

impl Bench {
    /// A store with two shards behind the proxy; `None` where there is no server.
    fn new() -> Option<Self> {
        let (address, options) = postgres_store::new_store()?;
        let folder = address.split_whitespace().find_map(|word| word.strip_prefix("host="));
        let folder = PathBuf::from(folder.expect("a socket"));
        let cuts = Cuts::default();
        let port = proxy(folder.join(".s.PGSQL.5432"), &cuts);
        let address = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let store = PostgresStore::open(&address, &options).expect("the store opens");
        for shard in [SHARD, OTHER] {
            store.create_open_shard(shard, EPOCH).expect("a shard");
        }
        Some(Self { store, cuts, written: 0, epoch: EPOCH, raises: false })
    }

    /// Commits a new item to each of the shards while connections are cut; false if a cut was not reached.
    fn commit(&mut self, shards: &[ShardId], cuts: &[Cut]) -> bool {
        let name = format!("{}", self.written);
        self.written += 1;
        let (epoch, next) = (self.epoch, Epoch(self.epoch.0 + 1));
        let new_part = |shard: &ShardId| -> Part {
            let mut part = Part { shard: *shard, epoch, ..part(SHARD) };
            part.head = self.raises.then(|| HeadChange::epoch(next));
            part.preconditions = vec![unchanged(&name, None)];
            part.puts = vec![put(Space::Items, &name, "v")];
            part.feed = vec![name.clone().into_bytes()];
            part
        };
        let before: Vec<Lsn> =
            shards.iter().map(|shard| latest(&self.store, *shard).lsn()).collect();
        *self.cuts.lock().expect("sound") = cuts.iter().copied().collect();
        let answer = self.store.commit(Commit::new(shards.iter().map(new_part).collect()));
        let is_reached = std::mem::take(&mut *self.cuts.lock().expect("sound")).is_empty();
        let expected: &[usize] = match &answer {
            Ok(committed) => {
                assert_eq!(committed.lsns.len(), shards.len());
                &[1]
            }
            Err(StorageError::NotCommitted(_) | StorageError::Unavailable(_)) => &[0],
            Err(StorageError::Unknown(_)) => &[0, 1],
            Err(other) => panic!("{cuts:?}: {other}"),
        };
        if cuts.len() == 1 {
            assert_eq!(expected, [1], "one cut is got over: {cuts:?}: {answer:?}");
        }
        let mut found = Vec::new();
        for (nth, shard) in shards.iter().enumerate() {
            let view = latest(&self.store, *shard);
            let written = usize::try_from(view.lsn().0 - before[nth].0).expect("a count");
            let feed = all(&*view, Space::Feed);
            let entries = feed.iter().filter(|entry| entry.value.bytes == name.as_bytes());
            let item = view.get(Space::Items, name.as_bytes()).expect("a read");
            assert_eq!(entries.count(), written, "{cuts:?}: {answer:?}");
            assert_eq!(usize::from(item.is_some()), written, "{cuts:?}: {answer:?}");
            assert!(expected.contains(&written), "{cuts:?}: {answer:?}, {written} times");
            if let Ok(committed) = &answer {
                assert_eq!(committed.lsns[nth], view.lsn(), "{cuts:?}");
            }
            found.push(written);
        }
        assert!(found.iter().all(|written| *written == found[0]), "all or nothing: {cuts:?}");
        if self.raises && found[0] == 1 {
            self.epoch = next;
        }
        for shard in shards {
            assert_eq!(latest(&self.store, *shard).epoch(), self.epoch, "{cuts:?}: {answer:?}");
            let known = self.store.heads(&[*shard]).expect("heads")[0].expect("a head");
            let is_unknown = matches!(answer, Err(StorageError::Unknown(_)));
            assert!(is_unknown || known.epoch == self.epoch, "{cuts:?}: {answer:?}");
        }
        is_reached
    }
}

#[test]
fn a_connection_lost_at_any_byte_of_a_commit_is_resolved() {
    let Some(mut bench) = Bench::new() else { return };
    for (shards, raises) in
        [(&[SHARD][..], false), (&[SHARD, OTHER], false), (&[SHARD, OTHER], true)]
    {
        bench.raises = raises;
        // The statements are prepared.
        bench.commit(shards, &[]);
        for (direction, step) in [(Direction::ToServer, 29), (Direction::ToClient, 7)] {
            let mut reached = 0;
            for bytes_left in (1..).step_by(step) {
                if !bench.commit(shards, &[Cut { direction, bytes_left }]) {
                    break;
                }
                reached += 1;
            }
            assert!(reached > 5, "{reached} cuts {direction:?}");
        }
    }
}

#[test]
fn connections_lost_again_and_again_lose_and_double_nothing() {
    let Some(mut bench) = Bench::new() else { return };
    let mut random = Random::from_environment("cuts");
    for _ in 0..60 {
        let mut cut = || {
            let direction =
                if random.one_in(2) { Direction::ToServer } else { Direction::ToClient };
            Cut { direction, bytes_left: 1 + random.below(700) }
        };
        let cuts = [cut(), cut(), cut(), cut()];
        let shards: &[ShardId] =
            if cuts[0].bytes_left % 2 == 0 { &[SHARD] } else { &[SHARD, OTHER] };
        bench.commit(shards, &cuts);
    }
}
