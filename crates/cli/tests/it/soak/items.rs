//! A client that writes and reads the items of its own logical partitions in every way, and knows what
//! each answer must be.

use serde_json::{Value, json};

use super::connection::{Connection, Ended, Query, Request, json, own, partition_header};
use super::oracle::{Action, Edit, Items, Operation, Stored, apply_batch};
use crate::client::Answer;
use crate::random::Random;

pub(super) const ITEMS: &str = "/dbs/d/colls/c/docs";
const PARTITIONS: usize = 3;
/// Ids in use in a partition. Unique keys are not many more, so that some writes break them.
const SLOTS: usize = 14;
const UNIQUE_KEYS: usize = 40;
const STALE: &str = "\"00000000-0000-0000-0000-000000000000\"";

/// One client and what it knows.
pub(super) struct ItemClient {
    pub(super) number: usize,
    random: Random,
    /// Counts writes; each item holds the number of the write that made it.
    writes: u64,
    partitions: [Items; PARTITIONS],
    /// A write without an answer: its partition, and what that holds if it was executed.
    pending: Option<(usize, Items)>,
    /// Writes without an answer so far.
    pub(super) unanswered: u64,
}

impl ItemClient {
    pub(super) fn new(number: usize, seed: u64) -> Self {
        let partitions = [const { Items::new() }; PARTITIONS];
        let random = Random::new(seed);
        Self { number, random, writes: 0, partitions, pending: None, unanswered: 0 }
    }

    pub(super) fn partition(&self, at: usize) -> String {
        format!("w{}-{at}", self.number)
    }

    /// Everything it has stored, with the keys of the partitions.
    pub(super) fn items(&self) -> impl Iterator<Item = (String, &String, &Stored)> {
        let partition = |(at, items)| (self.partition(at), items);
        let partitions = self.partitions.iter().enumerate().map(partition);
        partitions.flat_map(|(key, items): (String, &Items)| {
            items.iter().map(move |(id, item)| (key.clone(), id, item))
        })
    }

    /// Works until the server is ended or all are to stop.
    pub(super) fn run(&mut self, connection: &mut Connection<'_>, is_over: impl Fn() -> bool) {
        while !is_over() {
            let at = self.random.below(PARTITIONS);
            let done = match self.random.below(10) {
                0..5 => self.write(connection, at),
                5..7 => self.batch(connection, at),
                7 => self.read(connection, at),
                8 => self.ordered(connection, at),
                _ => self.question(connection, at),
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Reads everything back and compares it. What was not answered was executed as a whole or not at all.
    pub(super) fn settle(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        let text = format!("SELECT * FROM c WHERE c.owner = {}", self.number);
        let query = Query { text: &text, partition: None, page_size: 1000 };
        let mut found = [const { Items::new() }; PARTITIONS];
        for item in connection.query("comparison", ITEMS, &query)? {
            let at = (0..PARTITIONS).find(|at| item["p"] == *self.partition(*at));
            let id = item["id"].as_str().unwrap().to_owned();
            let text = |name: &str| item[name].as_str().unwrap().to_owned();
            let stored = Stored { body: own(&item), etag: text("_etag"), rid: text("_rid") };
            let double = found[at.expect("a partition of its own")].insert(id, stored);
            assert_eq!(double, None, "an item came twice: {item}");
        }
        let pending = self.pending.take();
        self.unanswered += u64::from(pending.is_some());
        for (at, found) in found.into_iter().enumerate() {
            let known = &self.partitions[at];
            let executed = pending.as_ref().filter(|(of, _)| *of == at).map(|(_, after)| after);
            let is_known = agrees(known, &found) || executed.is_some_and(|a| agrees(a, &found));
            assert!(is_known, "stored {found:#?}\nknown {known:#?}\nunanswered {executed:#?}");
            self.partitions[at] = found;
        }
        Ok(())
    }

    fn id(&mut self) -> String {
        format!("{}-{}", self.number, self.random.below(SLOTS))
    }

    fn body(&mut self, id: &str, at: usize) -> Value {
        self.writes += 1;
        let filler = "x".repeat(self.random.below(1500));
        json!({"id": id, "p": self.partition(at), "owner": self.number, "n": self.writes,
            "u": format!("u{}", self.random.below(UNIQUE_KEYS)), "v": self.value(),
            "c": self.random.below(100), "list": [1, "two"], "f": filler})
    }

    /// A value of any type that sorts without a hash.
    fn value(&mut self) -> Value {
        match self.random.below(6) {
            0 => Value::Null,
            1 => json!(self.random.one_in(2)),
            2 => json!(self.random.below(5)),
            3 => json!(0.5 + f64::from(u32::try_from(self.random.below(5)).unwrap())),
            4 => json!(""),
            _ => json!(format!("v{}", self.random.below(5))),
        }
    }

    fn edits(&mut self, at: usize, id: &str) -> Vec<Edit> {
        self.writes += 1;
        let mut edits = vec![Edit::Set("n", json!(self.writes))];
        let length = self.partitions[at]
            .get(id)
            .map_or(0, |item| item.body["list"].as_array().map_or(0, Vec::len));
        match self.random.below(5) {
            0 => edits.push(Edit::Increment("c", 7)),
            1 => edits.push(Edit::Set("v", self.value())),
            2 => edits.push(Edit::Set("u", json!(format!("u{}", self.random.below(UNIQUE_KEYS))))),
            _ if length > 12 => edits.push(Edit::Set("list", json!([]))),
            _ => edits.push(Edit::Append("list", json!(self.writes))),
        }
        edits
    }

    fn operation(&mut self, at: usize, may_read: bool) -> Operation {
        let id = self.id();
        let kinds = if may_read { 12 } else { 11 };
        let action = match self.random.below(kinds) {
            0..3 => Action::Create(self.body(&id, at)),
            3..6 => Action::Upsert(self.body(&id, at)),
            6..8 => Action::Replace(self.body(&id, at)),
            8..10 => Action::Patch(self.edits(at, &id)),
            10 => Action::Delete,
            _ => Action::Read,
        };
        let takes_etag = matches!(action, Action::Replace(_) | Action::Patch(_) | Action::Delete);
        let known = self.partitions[at].get(&id).map(|item| item.etag.clone());
        let if_match = match self.random.below(6) {
            0 if takes_etag => Some(STALE.to_owned()),
            1 | 2 if takes_etag => known,
            _ => None,
        };
        Operation { id, action, if_match }
    }

    /// A single write.
    fn write(&mut self, connection: &mut Connection<'_>, at: usize) -> Result<(), Ended> {
        let operation = self.operation(at, false);
        let mut after = self.partitions[at].clone();
        let expected = operation.apply(&mut after);
        self.pending = Some((at, after));
        let answer = send(connection, &operation, &self.partition(at))?;
        let (_, mut after) = self.pending.take().expect("what was sent");
        assert_eq!(answer.status, expected, "{operation:?}: {answer:?}");
        if let Some(item) = after.get_mut(&operation.id).filter(|_| expected < 300) {
            item.answered(&json(&answer));
        }
        self.partitions[at] = after;
        Ok(())
    }

    /// A transactional batch, whose operations may read what earlier ones have written.
    fn batch(&mut self, connection: &mut Connection<'_>, at: usize) -> Result<(), Ended> {
        let count = 2 + self.random.below(6);
        let operations: Vec<Operation> = (0..count).map(|_| self.operation(at, true)).collect();
        let mut after = self.partitions[at].clone();
        let expected = apply_batch(&operations, &mut after);
        self.pending = Some((at, after));
        let partition = partition_header(&self.partition(at));
        let headers = [
            ("x-ms-documentdb-partitionkey", &*partition),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
        ];
        let body = operations.iter().map(Operation::to_batch).collect::<Value>().to_string();
        let request = Request { method: "POST", path: ITEMS, headers: &headers, body: &body };
        let answer = connection.send("batch", &request)?;
        let (_, mut after) = self.pending.take().expect("what was sent");
        let is_refused = expected.iter().any(|status| *status >= 400);
        let whole = if is_refused { 207 } else { 200 };
        assert_eq!(answer.status, whole, "{operations:?}, expected {expected:?}: {answer:?}");
        let results = json(&answer);
        let statuses = results.as_array().unwrap().iter().map(|result| &result["statusCode"]);
        assert!(statuses.eq(expected.iter()), "{operations:?}, expected {expected:?}: {answer:?}");
        if !is_refused {
            // The last result of an item is what is stored.
            for (operation, result) in operations.iter().zip(results.as_array().unwrap()) {
                let is_last = operations.iter().rfind(|last| last.id == operation.id);
                let is_last = is_last.is_some_and(|last| std::ptr::eq(last, operation));
                if let Some(item) = after.get_mut(&operation.id).filter(|_| is_last) {
                    item.answered(&result["resourceBody"]);
                }
            }
        }
        self.partitions[at] = after;
        Ok(())
    }

    /// A point read, with or without the etag of what is known.
    fn read(&mut self, connection: &mut Connection<'_>, at: usize) -> Result<(), Ended> {
        let id = self.id();
        let known = self.partitions[at].get(&id);
        let etag = known.map(|item| item.etag.clone()).filter(|_| self.random.one_in(3));
        let partition = partition_header(&self.partition(at));
        let mut headers = vec![("x-ms-documentdb-partitionkey", &*partition)];
        headers.extend(etag.as_deref().map(|etag| ("if-none-match", etag)));
        let path = format!("{ITEMS}/{id}");
        let request = Request { method: "GET", path: &path, headers: &headers, body: "" };
        let answer = connection.send("read", &request)?;
        let expected = match known {
            None => 404,
            Some(_) if etag.is_some() => 304,
            Some(_) => 200,
        };
        assert_eq!(answer.status, expected, "{id}: {answer:?}, known {known:?}");
        if let Some(known) = known.filter(|_| expected == 200) {
            let item = json(&answer);
            assert_eq!(own(&item), known.body, "{id}");
            assert_eq!(item["_etag"], *known.etag, "{id}");
        }
        Ok(())
    }

    /// Items of a partition in an order, in pages of any size.
    fn ordered(&mut self, connection: &mut Connection<'_>, at: usize) -> Result<(), Ended> {
        let partition = partition_header(&self.partition(at));
        let from = self.random.below(usize::try_from(self.writes).unwrap() + 1);
        let (direction, by_value) =
            (if self.random.one_in(2) { "ASC" } else { "DESC" }, self.random.one_in(3));
        let path = if by_value { "c.v" } else { "c.n" };
        let text = format!(
            "SELECT VALUE [c.id, c.n, c.v] FROM c WHERE c.n >= {from} ORDER BY {path} {direction}"
        );
        let page_size = 1 + self.random.below(8);
        let query = Query { text: &text, partition: Some(&partition), page_size };
        let mut rows = connection.query("ordered query", ITEMS, &query)?;
        let known = self.partitions[at].values().map(|item| &item.body);
        let known = known.filter(|body| body["n"].as_u64() >= u64::try_from(from).ok());
        let mut known: Vec<Value> =
            known.map(|body| json!([body["id"], body["n"], body["v"]])).collect();
        if direction == "DESC" {
            rows.reverse();
        }
        if by_value {
            let is_sorted = rows.is_sorted_by_key(|row| rank(&row[2]));
            assert!(is_sorted, "{text}: {rows:?}");
            rows.sort_by_key(|row| row[1].as_u64());
        }
        known.sort_by_key(|row| row[1].as_u64());
        assert_eq!(rows, known, "{text} in pages of {page_size}");
        Ok(())
    }

    /// Aggregates, lookups by an index, and items of several partitions by their ids.
    fn question(&mut self, connection: &mut Connection<'_>, at: usize) -> Result<(), Ended> {
        let partition = partition_header(&self.partition(at));
        let known: Vec<&Value> = self.partitions[at].values().map(|item| &item.body).collect();
        let (text, expected) = match self.random.below(4) {
            0 => ("SELECT VALUE COUNT(1) FROM c".to_owned(), vec![json!(known.len())]),
            1 => {
                let sum: i64 = known.iter().filter_map(|body| body["c"].as_i64()).sum();
                ("SELECT VALUE SUM(c.c) FROM c".to_owned(), vec![json!(sum)])
            }
            2 => {
                let u = json!(format!("u{}", self.random.below(UNIQUE_KEYS)));
                let ids = known.iter().filter(|body| body["u"] == u).map(|body| body["id"].clone());
                (format!("SELECT VALUE c.id FROM c WHERE c.u = {u}"), ids.collect())
            }
            _ => return self.many(connection),
        };
        let query = Query { text: &text, partition: Some(&partition), page_size: 100 };
        let rows = connection.query("query", ITEMS, &query)?;
        assert_eq!(rows, expected, "{text} in {partition}");
        Ok(())
    }

    /// Some items by pairs of id and partition key, as `ReadMany` of the SDKs asks for them.
    fn many(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        let mut pairs: Vec<(usize, String)> =
            (0..9).map(|_| (self.random.below(PARTITIONS), self.id())).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let condition = |(at, id): &(usize, String)| {
            format!("(c.id = '{id}' AND c.p = '{}')", self.partition(*at))
        };
        let conditions: Vec<String> = pairs.iter().map(condition).collect();
        let text = format!("SELECT VALUE c.n FROM c WHERE {}", conditions.join(" OR "));
        let query = Query { text: &text, partition: None, page_size: 4 };
        let mut rows: Vec<Option<u64>> =
            connection.query("query", ITEMS, &query)?.iter().map(Value::as_u64).collect();
        let known = pairs.iter().filter_map(|(at, id)| self.partitions[*at].get(id));
        let mut known: Vec<Option<u64>> = known.map(|item| item.body["n"].as_u64()).collect();
        rows.sort_unstable();
        known.sort_unstable();
        assert_eq!(rows, known, "{text}");
        Ok(())
    }
}

fn send(
    connection: &mut Connection<'_>,
    operation: &Operation,
    partition: &str,
) -> Result<Answer, Ended> {
    let partition = partition_header(partition);
    let item = format!("{ITEMS}/{}", operation.id);
    let (method, path, body) = match &operation.action {
        Action::Create(body) | Action::Upsert(body) => ("POST", ITEMS, body.to_string()),
        Action::Replace(body) => ("PUT", &*item, body.to_string()),
        Action::Patch(_) => ("PATCH", &*item, operation.patch_body().to_string()),
        Action::Delete => ("DELETE", &*item, String::new()),
        Action::Read => ("GET", &*item, String::new()),
    };
    let mut headers = vec![("x-ms-documentdb-partitionkey", &*partition)];
    if matches!(operation.action, Action::Upsert(_)) {
        headers.push(("x-ms-documentdb-is-upsert", "true"));
    }
    headers.extend(operation.if_match.as_deref().map(|etag| ("if-match", etag)));
    connection.send(operation.kind(), &Request { method, path, headers: &headers, body: &body })
}

/// Whether what is stored is what is known; of an item without an etag only the content is.
fn agrees(known: &Items, found: &Items) -> bool {
    known.len() == found.len()
        && known.iter().zip(found).all(|((id, known), (found_id, found))| {
            let is_same = known.etag == found.etag && known.rid == found.rid;
            id == found_id && known.body == found.body && (known.etag.is_empty() || is_same)
        })
}

/// The place of a value among all: by its type first.
fn rank(value: &Value) -> (u8, i64, String) {
    match value {
        Value::Null => (0, 0, String::new()),
        Value::Bool(value) => (1, i64::from(*value), String::new()),
        #[expect(clippy::cast_possible_truncation, reason = "halves of small numbers")]
        Value::Number(number) => (2, (number.as_f64().unwrap() * 2.0) as i64, String::new()),
        Value::String(text) => (3, 0, text.clone()),
        Value::Array(_) | Value::Object(_) => panic!("{value} is not written"),
    }
}
