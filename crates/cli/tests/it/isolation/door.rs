//! The ways by which clients run transactions. Each sends what a wish asks for and tells what came
//! of it; another way to run one becomes another function here.

use std::sync::atomic::{AtomicU64, Ordering};

use orrery_types::Value;

use super::history::{Element, Key, Outcome, Step, Transaction};
use super::item;
use crate::client::{Answer, Client};

pub(crate) const ITEMS: &str = "/dbs/d/colls/c/docs";
const PROCEDURE: &str = "/dbs/d/colls/c/sprocs/transfer";
/// How often a loop over etags tries again before it gives up.
const TRIES: usize = 8;

/// What a client wants: transfers between accounts, and reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) appends: Vec<(Key, Element, i64)>,
    pub(crate) reads: Vec<Key>,
}

/// Where requests go.
pub(crate) trait Way {
    /// The answer to a request; `None` if none came, or none that says what became of it.
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer>;
}

/// To the one server that there is, which answers everything as long as it lives.
impl Way for Client {
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let answer = Client::send(self, method, path, headers, body).ok()?;
        assert!(answer.status < 500, "{method} {path} {body}: {answer:?}");
        Some(answer)
    }
}

/// A client with a logical partition to work on.
pub(crate) struct Visitor<'a> {
    pub(crate) client: Box<dyn Way + 'a>,
    pub(crate) partition: &'a str,
    /// Counts what is sent and what is answered, for all clients.
    pub(crate) ticks: &'a AtomicU64,
}

/// A way to run a transaction; some take several to make one. After one whose outcome is not known
/// the server is gone.
pub(crate) type Door = fn(&mut Visitor<'_>, &Wish) -> Vec<Transaction>;

/// Every way, and how often it is taken.
pub(crate) const DOORS: &[(Door, usize)] = &[
    (batch, 12),
    (failing_batch, 1),
    (reading_batch, 3),
    (point_read, 1),
    (etag_loop, 2),
    (etag_batch, 1),
    (procedure, 3),
    (surveying_procedure, 1),
];

impl Visitor<'_> {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let key = format!("[\"{}\"]", self.partition);
        let mut headers = vec![("x-ms-documentdb-partitionkey", &*key)];
        headers.extend_from_slice(more);
        self.client.send(method, path, &headers, body)
    }

    fn send_batch(&mut self, operations: &[String]) -> Option<Answer> {
        let headers =
            [("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
        let answer = self.send("POST", ITEMS, &headers, &format!("[{}]", operations.join(",")))?;
        assert!([200, 207, 449].contains(&answer.status), "{operations:?}: {answer:?}");
        Some(answer)
    }

    fn begin(&self, door: &'static str) -> Transaction {
        let began = self.tick();
        Transaction { door, steps: Vec::new(), outcome: Outcome::Unknown, began, ended: u64::MAX }
    }

    fn end(&self, transaction: &mut Transaction, outcome: Outcome) {
        (transaction.outcome, transaction.ended) = (outcome, self.tick());
    }
}

/// Moves money only as long as it is there.
fn patch(key: Key, element: Element, amount: i64) -> String {
    let condition = if amount < 0 {
        format!(r#""condition":"from c where c.balance >= {}","#, -amount)
    } else {
        String::new()
    };
    format!(
        r#"{{"operationType":"Patch","id":"{}","resourceBody":{{{condition}"operations":[
            {{"op":"incr","path":"/balance","value":{amount}}},
            {{"op":"add","path":"/list/-","value":{element}}}]}}}}"#,
        item::id(key)
    )
}

pub(crate) fn read(key: Key) -> String {
    format!(r#"{{"operationType":"Read","id":"{}"}}"#, item::id(key))
}

/// The items of a batch's results, where there are any; each is what the transaction saw.
fn seen(answer: &Answer) -> Vec<Option<Step>> {
    let results = Value::parse(answer.body.as_bytes()).unwrap();
    let body = |result: &Value| match result.get("resourceBody") {
        Value::Undefined => None,
        found => {
            let (key, list) = item::read(found);
            Some(Step::Read(key, list))
        }
    };
    results.as_array().unwrap().iter().map(body).collect()
}

/// Sends operations as one batch; the appends are known before, what was seen comes after each.
fn run_batch(
    visitor: &mut Visitor<'_>,
    mut transaction: Transaction,
    operations: &[(Option<Step>, String)],
) -> Transaction {
    let appends = operations.iter().filter_map(|(append, _)| append.clone());
    let planned: Vec<Step> = transaction.steps.iter().cloned().chain(appends).collect();
    let texts: Vec<String> = operations.iter().map(|(_, text)| text.clone()).collect();
    let Some(answer) = visitor.send_batch(&texts) else {
        return Transaction { steps: planned, ..transaction };
    };
    if answer.status == 200 {
        for ((append, _), seen) in operations.iter().zip(seen(&answer)) {
            transaction.steps.extend(append.clone());
            transaction.steps.extend(seen);
        }
        visitor.end(&mut transaction, Outcome::Committed);
    } else {
        transaction.steps = planned;
        visitor.end(&mut transaction, Outcome::Aborted);
    }
    transaction
}

fn operations(wish: &Wish) -> Vec<(Option<Step>, String)> {
    let appends = wish.appends.iter().map(|(key, element, amount)| {
        (Some(Step::Append(*key, *element)), patch(*key, *element, *amount))
    });
    let reads = wish.reads.iter().map(|key| (None, read(*key)));
    reads.chain(appends).collect()
}

fn batch(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    let transaction = visitor.begin("batch");
    vec![run_batch(visitor, transaction, &operations(wish))]
}

/// Everything is done and then undone, because the last operation cannot be.
fn failing_batch(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    let mut operations = operations(wish);
    operations.push((None, r#"{"operationType":"Read","id":"none"}"#.to_owned()));
    let transaction = visitor.begin("batch that fails");
    let transaction = run_batch(visitor, transaction, &operations);
    assert_ne!(transaction.outcome, Outcome::Committed);
    vec![transaction]
}

/// A stored procedure that does what a wish says.
fn procedure(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    let ids: Vec<String> = wish.reads.iter().map(|key| format!("\"{}\"", item::id(*key))).collect();
    run_procedure(visitor, "procedure", &format!("[{}]", ids.join(",")), wish)
}

/// The same, having read all accounts by a query.
fn surveying_procedure(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    run_procedure(visitor, "procedure with a query", "null", wish)
}

fn run_procedure(
    visitor: &mut Visitor<'_>,
    door: &'static str,
    reads: &str,
    wish: &Wish,
) -> Vec<Transaction> {
    let argument = |(key, element, amount): &(Key, Element, i64)| {
        format!(r#"{{"id":"{}","element":{element},"amount":{amount}}}"#, item::id(*key))
    };
    let arguments: Vec<String> = wish.appends.iter().map(argument).collect();
    let appends = wish.appends.iter().map(|(key, element, _)| Step::Append(*key, *element));
    let mut transaction = visitor.begin(door);
    transaction.steps = appends.clone().collect();
    let body = format!("[{reads},[{}]]", arguments.join(","));
    let Some(answer) = visitor.send("POST", PROCEDURE, &[], &body) else {
        return vec![transaction];
    };
    if answer.status == 200 {
        let accounts = Value::parse(answer.body.as_bytes()).unwrap();
        let seen = accounts.as_array().unwrap().iter().map(|account| {
            let (key, list) = item::read(account);
            Step::Read(key, list)
        });
        let mut seen: Vec<Step> = seen.collect();
        let own = seen.split_off(seen.len() - wish.appends.len());
        transaction.steps = seen;
        for (append, after) in appends.zip(own) {
            transaction.steps.extend([append, after]);
        }
        visitor.end(&mut transaction, Outcome::Committed);
    } else {
        assert!([400, 408, 449].contains(&answer.status), "{answer:?}");
        visitor.end(&mut transaction, Outcome::Aborted);
    }
    vec![transaction]
}

fn reading_batch(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    let keys = wish.reads.iter().copied().chain(wish.appends.iter().map(|(key, ..)| *key));
    let operations: Vec<_> = keys.map(|key| (None, read(key))).collect();
    let transaction = visitor.begin("batch of reads");
    vec![run_batch(visitor, transaction, &operations)]
}

fn point_read(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    let mut transaction = visitor.begin("read");
    let path = format!("{ITEMS}/{}", item::id(wish.reads[0]));
    let Some(answer) = visitor.send("GET", &path, &[], "") else { return vec![transaction] };
    assert_eq!(answer.status, 200, "{answer:?}");
    let (key, list) = item::read(&Value::parse(answer.body.as_bytes()).unwrap());
    transaction.steps.push(Step::Read(key, list));
    visitor.end(&mut transaction, Outcome::Committed);
    vec![transaction]
}

/// Reads an item, changes it, and writes it back if it still is what was read.
fn etag_loop(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    // Both sides of a transfer do not fit one item: this one moves nothing.
    let (key, element) = (wish.appends[0].0, wish.appends[0].1 / 1000);
    let element = item::element(element, 0);
    let path = format!("{ITEMS}/{}", item::id(key));
    let mut transaction = visitor.begin("etag loop");
    for _ in 0..TRIES {
        transaction.steps = vec![Step::Append(key, element)];
        let Some(found) = visitor.send("GET", &path, &[], "") else {
            transaction.steps.clear();
            return vec![transaction];
        };
        let (_, mut list) = item::read(&Value::parse(found.body.as_bytes()).unwrap());
        transaction.steps.insert(0, Step::Read(key, list.clone()));
        list.push(element);
        let etag = found.header("etag").unwrap();
        let text = item::text(visitor.partition, key, &list);
        let answer = visitor.send("PUT", &path, &[("if-match", etag)], &text);
        match answer.map(|answer| answer.status) {
            None => return vec![transaction],
            Some(200) => {
                visitor.end(&mut transaction, Outcome::Committed);
                return vec![transaction];
            }
            Some(412 | 449) => {}
            Some(other) => panic!("{other}"),
        }
    }
    visitor.end(&mut transaction, Outcome::Aborted);
    vec![transaction]
}

/// The same over several items: one batch reads them, another writes those that change, under the
/// etags of all of them.
fn etag_batch(visitor: &mut Visitor<'_>, wish: &Wish) -> Vec<Transaction> {
    let mut keys: Vec<Key> = wish.appends.iter().map(|(key, ..)| *key).collect();
    keys.extend(&wish.reads);
    let mut done = Vec::new();
    for _ in 0..TRIES {
        let mut reading = visitor.begin("batch of reads");
        let began = reading.began;
        let texts: Vec<String> = keys.iter().map(|key| read(*key)).collect();
        let Some(answer) = visitor.send_batch(&texts) else {
            done.push(reading);
            return done;
        };
        assert_eq!(answer.status, 200, "{answer:?}");
        reading.steps = seen(&answer).into_iter().flatten().collect();
        visitor.end(&mut reading, Outcome::Committed);
        let steps = reading.steps.clone();
        done.push(reading);
        let operations = guarded_operations(visitor.partition, wish, &keys, &answer);
        let transaction = Transaction { steps, began, ..visitor.begin("etag batch") };
        let mut transaction = run_batch(visitor, transaction, &operations);
        if transaction.outcome != Outcome::Aborted {
            done.push(transaction);
            return done;
        }
        // The next try appends the same elements; only the last one may claim them.
        transaction.steps.clear();
        done.push(transaction);
    }
    done
}

/// What `keys` were read as, written back with a wish's appends: nothing may have changed since.
fn guarded_operations(
    partition: &str,
    wish: &Wish,
    keys: &[Key],
    read: &Answer,
) -> Vec<(Option<Step>, String)> {
    let results = Value::parse(read.body.as_bytes()).unwrap();
    let operation = |(key, result): (&Key, &Value)| {
        let etag = result.get("eTag").to_json();
        let condition = format!(r#""id":"{}","ifMatch":{etag}"#, item::id(*key));
        let Some((_, element, _)) = wish.appends.iter().find(|(of, ..)| of == key) else {
            return (None, format!(r#"{{"operationType":"Read",{condition}}}"#));
        };
        let (_, mut list) = item::read(result.get("resourceBody"));
        list.push(*element);
        let text = item::text(partition, *key, &list);
        let replace = format!(r#"{{"operationType":"Replace",{condition},"resourceBody":{text}}}"#);
        (Some(Step::Append(*key, *element)), replace)
    };
    keys.iter().zip(results.as_array().unwrap()).map(operation).collect()
}
