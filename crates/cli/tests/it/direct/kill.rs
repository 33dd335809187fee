//! The server is killed, and stopped in order, while clients in Direct mode and over HTTP write, read and
//! query, and ranges split and merge. What was acknowledged is there afterwards, once; what was not is there
//! whole or not at all; and no caller sees a status that SDKs do not hide. `ORRERY_DIRECT_KILLS` sets how often,
//! `ORRERY_SEED` repeats a run's choices.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use orrery_direct::OperationCode;
use orrery_types::{PartitionKeyDef, PartitionKeyKind, PropertyPath, Value};

use super::ask;
use super::session::Session;
use crate::client::Client;
use crate::kill::{
    ITEMS, ItemClient, ItemWrite, WRITERS, Writer, change_layout_counted, faults, prepare,
};
use crate::place::Place;
use crate::process::Running;
use crate::random::Random;

const KILLS: usize = 10;
/// Items that stay unchanged, each in a logical partition of its own.
const FIXED: usize = 40;
const READERS: usize = 2;
/// Of the writers, those over HTTP.
const HTTP_WRITERS: usize = 2;

fn definition() -> PartitionKeyDef {
    let paths = vec![PropertyPath::parse("/p").unwrap()];
    PartitionKeyDef { paths, kind: PartitionKeyKind::Hash, version: 2, system_key: false }
}

/// A writer's way into a session that others share.
struct DirectWriter<'s>(&'s Session);

impl ItemClient for DirectWriter<'_> {
    fn write(&mut self, write: &ItemWrite<'_>) -> Option<u16> {
        let ItemWrite { id, partition_key, body, .. } = *write;
        let operation = match write.method {
            "POST" => OperationCode::Create,
            "PUT" => OperationCode::Replace,
            _ => OperationCode::Delete,
        };
        let ask = ask(operation, body).key(partition_key);
        let ask = if operation == OperationCode::Create { ask } else { ask.item(id) };
        let answer = self.0.call(&ask)?;
        let tokens = answer.tokens();
        assert!(tokens.lsn >= Some(1) && tokens.session_token.is_some(), "{tokens:?}");
        Some(u16::try_from(answer.status()).unwrap())
    }
}

fn fixed_id(n: usize) -> String {
    format!("fixed-{n}")
}

/// Reads the unchanged items, one by one and by queries, until the server is gone; returns how many.
fn read(session: &Session, mut n: usize) -> usize {
    let mut done = 0;
    loop {
        n = (n + 7) % FIXED;
        let (id, key) = (fixed_id(n), format!("[\"f{n}\"]"));
        let Some(answer) = session.call(&ask(OperationCode::Read, "").item(&id).key(&key)) else {
            return done;
        };
        assert_eq!(answer.status(), 200, "{id}: {}", answer.body());
        assert!(answer.body().contains(&format!("\"{id}\"")), "{id}: {}", answer.body());
        let query = r#"{"query":"SELECT VALUE c.id FROM c"}"#;
        let Some(answer) = session.call(&ask(OperationCode::Query, query).key(&key)) else {
            return done;
        };
        assert_eq!(answer.status(), 200, "{id}: {}", answer.body());
        assert_eq!(ids(&answer.0.body), [id]);
        done += 2;
    }
}

fn ids(body: &[u8]) -> Vec<String> {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
    let ids = body["Documents"].as_array().unwrap().iter();
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Every item, by one query of each range that the client believes in.
fn query_all(session: &Session) -> Vec<String> {
    let query = r#"{"query":"SELECT VALUE c.id FROM c"}"#;
    let mut found = Vec::new();
    for range in session.ranges() {
        let mut continuation: Option<String> = None;
        loop {
            let page = ask(OperationCode::Query, query).with(|tokens| {
                tokens.range_id = Some(&range);
                tokens.continuation = continuation.as_deref();
            });
            let answer = session.call(&page).expect("nothing splits now");
            assert_eq!(answer.status(), 200, "{}", answer.body());
            found.extend(ids(&answer.0.body));
            continuation = answer.tokens().continuation.map(str::to_owned);
            if continuation.is_none() {
                break;
            }
        }
    }
    found
}

/// Lets all write, read and change the layout until so many writes are acknowledged and the layout has
/// changed, then ends the server.
fn run_and_end(
    mut server: Running,
    writers: &mut [Writer],
    after: usize,
    kill: bool,
    tally: &mut Tally,
) {
    let (address, key) = (server.address(), server.key());
    let session = Session::open(address, &key, definition()).expect("the server is there");
    let (sender, receiver) = channel::<()>();
    let (reads, layouts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (at, writer) in writers.iter_mut().enumerate() {
            let (sender, key, session) = (sender.clone(), key.clone(), &session);
            scope.spawn(move || write(writer, at, address, &key, session, &sender));
        }
        drop(sender);
        for reader in 0..READERS {
            let (session, reads) = (&session, &reads);
            scope.spawn(move || reads.fetch_add(read(session, reader), Ordering::Relaxed));
        }
        scope.spawn(|| change_layout_counted(address, &key, &layouts));
        let mut counted = 0;
        while counted < after || layouts.load(Ordering::Relaxed) == 0 {
            receiver.recv().expect("the server ended by itself");
            counted += 1;
        }
        if kill {
            drop(server);
        } else {
            server.signal("-TERM");
        }
        tally.acknowledged += counted + receiver.iter().count();
    });
    tally.layouts += layouts.into_inner();
    tally.reads += reads.into_inner();
    for (status, count) in session.hidden.lock().unwrap().iter() {
        *tally.hidden.entry(*status).or_default() += count;
    }
}

fn write(
    writer: &mut Writer,
    at: usize,
    address: SocketAddr,
    key: &str,
    session: &Session,
    acknowledged: &Sender<()>,
) {
    if at < HTTP_WRITERS {
        writer.run(address, key, acknowledged);
    } else {
        writer.run_with(&mut DirectWriter(session), acknowledged);
    }
}

#[derive(Default)]
struct Tally {
    acknowledged: usize,
    layouts: usize,
    reads: usize,
    unknown: usize,
    lost: usize,
    hidden: BTreeMap<(u32, u32), usize>,
}

fn fill(server: &Running) {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    for n in 0..FIXED {
        let key = format!("[\"f{n}\"]");
        let body = format!(r#"{{"id":"{}","p":"f{n}"}}"#, fixed_id(n));
        client.must("POST", ITEMS, &[("x-ms-documentdb-partitionkey", &*key)], &body);
    }
}

/// Compares everything that is there with what writers know, over HTTP and in Direct mode.
fn check(server: &Running, writers: &mut [Writer], tally: &mut Tally) {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let items = client.feed(ITEMS, "Documents");
    let id = |item: &Value| item.get("id").as_str().unwrap().to_owned();
    let found: BTreeMap<String, Value> =
        items.iter().map(|item| (id(item), item.clone())).collect();
    assert_eq!(found.len(), items.len(), "each item once");
    for writer in &mut *writers {
        tally.unknown += usize::from(writer.has_pending());
        writer.settle(&found, &mut tally.lost);
    }
    let session = Session::open(server.address(), &server.key(), definition());
    let mut queried = query_all(&session.expect("the server is there"));
    queried.sort_unstable();
    let count = queried.len();
    queried.dedup();
    assert_eq!(queried.len(), count, "each item once");
    // Some may have expired between the two.
    assert!(queried.iter().all(|id| found.contains_key(id)));
    let is_fixed = |id: &&String| id.starts_with("fixed-");
    assert_eq!(queried.iter().filter(is_fixed).count(), FIXED);
}

#[cfg(unix)]
#[test]
fn writes_in_direct_mode_outlive_the_server_and_splits() {
    let kills = std::env::var("ORRERY_DIRECT_KILLS");
    let kills = kills.map_or(KILLS, |text| text.parse().expect("ORRERY_DIRECT_KILLS is a number"));
    let mut random = Random::from_environment("direct::kill");
    let folder = tempfile::tempdir().unwrap();
    let place = Place::from(folder.path());
    prepare(&place);
    fill(&place.serve());
    let mut writers: Vec<Writer> = (0..WRITERS).map(|w| Writer::new(w, random.next())).collect();
    let mut tally = Tally::default();
    for round in 0..=kills {
        assert_eq!(faults(&place), 0, "after round {round}");
        let server = place.serve_tls();
        check(&server, &mut writers, &mut tally);
        assert_eq!(tally.lost, 0, "after round {round}");
        if round < kills {
            let after = 1 + random.below(300);
            run_and_end(server, &mut writers, after, !random.one_in(3), &mut tally);
        }
    }
    let Tally { acknowledged, layouts, reads, unknown, hidden, .. } = tally;
    eprintln!(
        "{kills} ends, {layouts} splits and merges: {acknowledged} acknowledged writes, none lost; {unknown} \
         without an answer; {reads} reads and queries; statuses that clients hid: {hidden:?}"
    );
}
