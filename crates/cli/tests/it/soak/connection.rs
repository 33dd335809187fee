//! How the soak's clients reach the server, and how they notice that it has been ended.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::client::{Answer, Client};

/// The server was ended. Whether the last request was executed is not known.
#[derive(Debug)]
pub(super) struct Ended;

/// The server that runs at present.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) key: String,
    /// Set before the server is ended; a connection that fails without it is a fault.
    pub(super) is_ending: AtomicBool,
    /// Set when all clients are to stop while the server goes on.
    pub(super) is_over: AtomicBool,
}

impl Target {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// A connection that counts what is answered.
pub(super) struct Connection<'t> {
    client: Client,
    target: &'t Target,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl<'t> Connection<'t> {
    pub(super) fn open(target: &'t Target) -> Result<Self, Ended> {
        match Client::open(target.address, &target.key) {
            Ok(client) => Ok(Self { client, target, counts: BTreeMap::new() }),
            Err(error) => {
                assert!(target.is_ending.load(Ordering::SeqCst), "the server ended: {error}");
                Err(Ended)
            }
        }
    }

    /// Sends a request. A server that is stopping answers with 503 or not at all; one that is not
    /// must answer in time.
    pub(super) fn send(
        &mut self,
        kind: &'static str,
        request: &Request<'_>,
    ) -> Result<Answer, Ended> {
        let Request { method, path, headers, body } = request;
        let answer = self.client.send(method, path, headers, body);
        let is_ending = self.target.is_ending.load(Ordering::SeqCst);
        match answer {
            Ok(answer) if answer.status == 503 => {
                assert!(is_ending, "{method} {path} {body}: {answer:?}");
                Err(Ended)
            }
            Ok(answer) => {
                *self.counts.entry(kind).or_default() += 1;
                Ok(answer)
            }
            Err(error) => {
                let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(is_ending && !is_late, "{method} {path} {body}: {error}");
                Err(Ended)
            }
        }
    }

    /// All rows of a query, page by page.
    pub(super) fn query(
        &mut self,
        kind: &'static str,
        path: &str,
        query: &Query<'_>,
    ) -> Result<Vec<Value>, Ended> {
        let (mut rows, mut token) = (Vec::new(), None::<String>);
        let size = query.page_size.to_string();
        let body = format!(r#"{{"query":{}}}"#, Value::from(query.text));
        for _ in 0..10_000 {
            let mut headers = vec![
                ("x-ms-documentdb-isquery", "true"),
                ("content-type", "application/query+json"),
                ("x-ms-max-item-count", &*size),
            ];
            match query.partition {
                Some(key) => headers.push(("x-ms-documentdb-partitionkey", key)),
                None => headers.push(("x-ms-documentdb-query-enablecrosspartition", "true")),
            }
            headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
            let request = Request { method: "POST", path, headers: &headers, body: &body };
            let answer = self.send(kind, &request)?;
            assert_eq!(answer.status, 200, "{}: {answer:?}", query.text);
            rows.extend_from_slice(json(&answer)["Documents"].as_array().unwrap());
            token = answer.header("x-ms-continuation").map(str::to_owned);
            if token.is_none() {
                return Ok(rows);
            }
        }
        panic!("a query without end: {}", query.text);
    }
}

/// A request as it is sent.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a str,
}

/// A query of one logical partition, named by its header, or of all.
pub(super) struct Query<'a> {
    pub(super) text: &'a str,
    pub(super) partition: Option<&'a str>,
    pub(super) page_size: usize,
}

pub(super) fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// An item without what the server adds to it.
pub(super) fn own(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(object) = item.as_object_mut() {
        for name in ["_rid", "_self", "_etag", "_ts", "_attachments"] {
            object.remove(name);
        }
    }
    item
}

/// The header that names a logical partition.
pub(super) fn partition_header(key: &str) -> String {
    format!(r#"["{key}"]"#)
}
