//! Distributed transactions move money between accounts in two containers. The server is killed while some
//! are under way, over and over: afterwards each has happened whole or not at all, and what is sent again
//! under its token happens once. `ORRERY_TRANSACTION_KILLS` sets how often.

use std::path::Path;
use std::sync::mpsc::channel;

use orrery_types::Value;

use crate::client::{Answer, Client};
use crate::kill;
use crate::process::Running;

const KILLS: u32 = 4;
const MOVERS: u32 = 3;
const ACCOUNTS: u32 = 6;
const START: i64 = 1000;

fn start(folder: &Path) -> (Running, Client) {
    let server = Running::serve(folder);
    let client = Client::open(server.address(), &server.key()).unwrap();
    (server, client)
}

fn container(account: u32) -> &'static str {
    if account.is_multiple_of(2) { "c" } else { "right" }
}

fn operation(kind: &str, account: u32, id: &str, body: &str) -> String {
    let container = container(account);
    format!(
        r#"{{"operationType":"{kind}","databaseName":"d","collectionName":"{container}","id":"{id}",
            "partitionKey":["k{account}"],"resourceBody":{body}}}"#
    )
}

fn commit(client: &mut Client, token: &str, operations: &[String]) -> std::io::Result<Answer> {
    let headers = [
        ("x-ms-cosmos-operation-type", "CommitDistributedTransaction"),
        ("x-ms-cosmos-idempotency-token", token),
    ];
    let body = format!(r#"{{"operations":[{}]}}"#, operations.join(","));
    client.send("POST", "/operations/dtc", &headers, body)
}

fn prepare(client: &mut Client) {
    client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    for (id, throughput) in [("c", "30000"), ("right", "400")] {
        let body = format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}}}"#
        );
        client.must("POST", "/dbs/d/colls", &[("x-ms-offer-throughput", throughput)], &body);
    }
    let open = |account: u32| {
        let body = format!(r#"{{"id":"account","p":"k{account}","n":{START}}}"#);
        operation("Create", account, "account", &body)
    };
    let accounts: Vec<String> = (0..ACCOUNTS).map(open).collect();
    let made = commit(client, "00000000-0000-4000-8000-000000000000", &accounts).unwrap();
    assert_eq!(made.status, 200, "{made:?}");
}

/// The number of a transfer, by which its token, accounts and amount follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer(u32);

impl Transfer {
    fn token(self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.0 + 1)
    }

    /// Takes from one account, gives to another, and leaves a note of it at both.
    fn operations(self) -> Vec<String> {
        let (from, to) = (self.0 % ACCOUNTS, (self.0 + 1) % ACCOUNTS);
        let add = |account: u32, n: i64| {
            let body = format!(r#"{{"operations":[{{"op":"incr","path":"/n","value":{n}}}]}}"#);
            operation("Patch", account, "account", &body)
        };
        let note = |account: u32| {
            let body = format!(r#"{{"id":"t{}","p":"k{account}"}}"#, self.0);
            operation("Create", account, &format!("t{}", self.0), &body)
        };
        vec![note(from), add(from, -1), add(to, 1), note(to)]
    }
}

/// The transfers whose notes are there. Each has both; the accounts have what they say.
fn transfers(client: &mut Client) -> Vec<Transfer> {
    let mut balances = vec![START; usize::try_from(ACCOUNTS).unwrap()];
    let (mut found, mut stored) = (Vec::new(), balances.clone());
    for container in ["c", "right"] {
        for item in client.feed(&format!("/dbs/d/colls/{container}/docs"), "Documents") {
            let id = item.get("id").as_str().unwrap();
            if let Some(number) = id.strip_prefix('t') {
                found.push(Transfer(number.parse().unwrap()));
            } else {
                let account = &item.get("p").as_str().unwrap()[1..];
                stored[account.parse::<usize>().unwrap()] = item.get("n").as_i64().unwrap();
            }
        }
    }
    found.sort_unstable();
    let pairs = found.chunk_by(|a, b| a == b).inspect(|pair| {
        assert_eq!(pair.len(), 2, "half of {:?} is there", pair[0]);
    });
    let found: Vec<Transfer> = pairs.map(|pair| pair[0]).collect();
    for transfer in &found {
        balances[usize::try_from(transfer.0 % ACCOUNTS).unwrap()] -= 1;
        balances[usize::try_from((transfer.0 + 1) % ACCOUNTS).unwrap()] += 1;
    }
    assert_eq!(stored, balances, "{found:?}");
    found
}

/// Sends transfers until the server is gone; the last of them had no answer.
fn transfer_until_killed(
    mut client: Client,
    mover: u32,
    first: u32,
    answered: &std::sync::mpsc::Sender<Transfer>,
) -> Transfer {
    for number in first.. {
        let transfer = Transfer(number * MOVERS + mover);
        match commit(&mut client, &transfer.token(), &transfer.operations()) {
            Ok(answer) => {
                assert_eq!(answer.status, 200, "{answer:?}");
                answered.send(transfer).unwrap();
            }
            Err(_) => return transfer,
        }
    }
    unreachable!("numbers do not end")
}

#[test]
fn transactions_survive_kills_whole_or_not_at_all_and_happen_once() {
    let kills =
        std::env::var("ORRERY_TRANSACTION_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (server, mut client) = start(folder.path());
    prepare(&mut client);
    drop((server, client));
    let mut first = 0;
    let mut known: Vec<Transfer> = Vec::new();
    for kill in 0..kills {
        let (server, _client) = start(folder.path());
        let (sender, receiver) = channel();
        let (address, key) = (server.address(), server.key());
        let movers: Vec<_> = (0..MOVERS)
            .map(|mover| {
                let (client, sender) = (Client::open(address, &key).unwrap(), sender.clone());
                std::thread::spawn(move || transfer_until_killed(client, mover, first, &sender))
            })
            .collect();
        // Some more answers each time, so that the kill comes at other places of the log.
        for _ in 0..=kill % 7 {
            known.push(receiver.recv().unwrap());
        }
        drop((server, sender));
        let cut: Vec<Transfer> = movers.into_iter().map(|mover| mover.join().unwrap()).collect();
        known.extend(receiver.iter());
        assert_eq!(kill::faults(&folder.path().into()), 0, "kill {kill}");
        let (_server, mut client) = start(folder.path());
        let found = transfers(&mut client);
        for transfer in &known {
            assert!(found.contains(transfer), "kill {kill}: {transfer:?} was acknowledged");
        }
        for transfer in &found {
            assert!(
                known.contains(transfer) || cut.contains(transfer),
                "kill {kill}: {transfer:?}"
            );
        }
        // What had no answer is sent again: it happens now, or is answered as what has happened.
        for transfer in cut {
            let again = commit(&mut client, &transfer.token(), &transfer.operations()).unwrap();
            assert_eq!(again.status, 200, "kill {kill}: {again:?}");
            let twice = commit(&mut client, &transfer.token(), &transfer.operations()).unwrap();
            let whole = Value::parse(twice.body.as_bytes()).unwrap();
            assert_eq!((twice.status, whole.get("statusCode").as_i64()), (200, Some(200)));
            known.push(transfer);
        }
        known.sort_unstable();
        assert_eq!(transfers(&mut client), known, "kill {kill}");
        first = known.iter().map(|transfer| transfer.0 / MOVERS + 1).max().unwrap_or(0);
    }
}
