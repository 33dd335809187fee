//! Requests as bytes, ready to be sent: signed once, outside of what is timed. A create differs
//! from the next one only in digits of fixed width, which are written over in place.

mod frames;
mod modelled;

pub(crate) use frames::Target;
pub(crate) use modelled::{HOLDINGS, Portfolio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use orrery_types::{Clock as _, SystemClock};
use sha2::Sha256;
use std::time::{Duration, UNIX_EPOCH};

/// 64 bytes, as account keys have; it opens nothing but a server that lives for one run.
const KEY_BYTES: &[u8; 64] = b"this key opens one throw-away server that a benchmark has starte";
const DATABASE: &str = "bench";
const CONTAINER: &str = "items";
/// Digits of an item's number.
const DIGITS: usize = 9;
/// Items are padded to this size; with the system properties a stored one is a little larger.
pub(crate) const ITEM_BYTES: usize = 1024;

/// The account key of every server started here.
pub(crate) fn key() -> String {
    BASE64.encode(KEY_BYTES)
}

/// Makes requests of one date. The server accepts it for a quarter of an hour; a run is shorter.
#[derive(Clone)]
pub(crate) struct Signer {
    mac: Hmac<Sha256>,
    date: String,
}

impl Signer {
    pub(crate) fn now() -> Self {
        let mac = Hmac::new_from_slice(KEY_BYTES).expect("HMAC takes keys of any length");
        let date = UNIX_EPOCH + Duration::from_secs(SystemClock.now_s());
        Self { mac, date: httpdate::fmt_http_date(date) }
    }

    fn authorization(&self, verb: &str, kind: &str, link: &str) -> String {
        let mut mac = self.mac.clone();
        let date = self.date.to_lowercase();
        mac.update(format!("{}\n{kind}\n{link}\n{date}\n\n", verb.to_lowercase()).as_bytes());
        let signature = BASE64.encode(mac.finalize().into_bytes());
        let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!("type%3Dmaster%26ver%3D1.0%26sig%3D{signature}")
    }

    /// A request; `link` is what is signed, `path` what is asked for.
    fn request(
        &self,
        verb: &str,
        (kind, link): (&str, &str),
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Vec<u8> {
        let (date, authorization) = (&self.date, self.authorization(verb, kind, link));
        let mut text = format!(
            "{verb} /{path} HTTP/1.1\r\nhost: localhost\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2020-07-15\r\nauthorization: {authorization}\r\n"
        );
        for (name, value) in headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        if !body.is_empty() {
            let length = body.len().to_string();
            text.extend(["content-type: application/json\r\ncontent-length: ", &length, "\r\n"]);
        }
        text += "\r\n";
        text += body;
        text.into_bytes()
    }

    /// What makes the database and the container, in this order.
    pub(crate) fn setup(&self) -> [Vec<u8>; 2] {
        let database = format!(r#"{{"id":"{DATABASE}"}}"#);
        let container = format!(
            r#"{{"id":"{CONTAINER}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#
        );
        let link = format!("dbs/{DATABASE}");
        [
            self.request("POST", ("dbs", ""), "dbs", &[], &database),
            self.request("POST", ("colls", &link), &format!("{link}/colls"), &[], &container),
        ]
    }

    /// Creates the container alone, with a throughput of its own.
    pub(crate) fn container(&self, throughput: u32) -> Vec<u8> {
        let body = format!(
            r#"{{"id":"{CONTAINER}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#
        );
        let (link, throughput) = (format!("dbs/{DATABASE}"), throughput.to_string());
        let headers = [("x-ms-offer-throughput", &*throughput)];
        self.request("POST", ("colls", &link), &format!("{link}/colls"), &headers, &body)
    }

    /// Reads an item.
    pub(crate) fn read(&self, number: u64) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}/docs/{}", id(number));
        let key = key_header(&partition(number));
        self.request("GET", ("docs", &link), &link, &[(KEY_HEADER, &key)], "")
    }

    /// Reads an item of a partition.
    pub(crate) fn read_in(&self, partition: &str, number: u64) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}/docs/{}", id(number));
        let key = key_header(partition);
        self.request("GET", ("docs", &link), &link, &[(KEY_HEADER, &key)], "")
    }

    /// Writes an item of a partition.
    pub(crate) fn write_in(&self, partition: &str, body: &str, writing: Writing) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let key = key_header(partition);
        let mut headers = vec![(KEY_HEADER, &*key)];
        if writing == Writing::Upsert {
            headers.push(("x-ms-documentdb-is-upsert", "True"));
        }
        self.request("POST", ("docs", &link), &format!("{link}/docs"), &headers, body)
    }

    /// Reads a page of the change feed after a position, or from the beginning.
    pub(crate) fn changes(&self, page: usize, after: Option<&str>) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let page = page.to_string();
        let mut headers = vec![("a-im", "Incremental Feed"), ("x-ms-max-item-count", &*page)];
        headers.extend(after.map(|etag| ("if-none-match", etag)));
        self.request("GET", ("docs", &link), &format!("{link}/docs"), &headers, "")
    }

    /// Reads a page of all items.
    pub(crate) fn feed(&self, page: usize, after: Option<&str>) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let page = page.to_string();
        let mut headers = vec![("x-ms-max-item-count", &*page)];
        headers.extend(after.map(|token| ("x-ms-continuation", token)));
        self.request("GET", ("docs", &link), &format!("{link}/docs"), &headers, "")
    }

    /// Splits the container's largest range.
    pub(crate) fn split(&self) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let path = format!("{link}/operations/split");
        self.request("POST", ("colls", &link), &path, &[], "{}")
    }

    /// A page of a query, over one logical partition or all of them.
    pub(crate) fn query(
        &self,
        body: &str,
        partition: Option<&str>,
        page: usize,
        after: Option<&str>,
    ) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let page = page.to_string();
        let key = partition.map(key_header);
        let mut headers = vec![
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-documentdb-query-enablecrosspartition", "True"),
            ("x-ms-max-item-count", &*page),
        ];
        headers.extend(key.as_deref().map(|key| (KEY_HEADER, key)));
        headers.extend(after.map(|token| ("x-ms-continuation", token)));
        self.request("POST", ("docs", &link), &format!("{link}/docs"), &headers, body)
    }

    /// Creates an item of a group, whose items share a partition key.
    pub(crate) fn create_in(&self, group: u64, number: u64) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let (key, body) = (key_header(&partition(group)), grouped(group, number));
        let path = format!("{link}/docs");
        self.request("POST", ("docs", &link), &path, &[(KEY_HEADER, &key)], &body)
    }

    /// Creates the procedure that changes every item of a group.
    pub(crate) fn procedure(&self) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let text = "function touch(ids) { const c = getContext().getCollection(), l = c.getAltLink() + '/docs/'; \
            let left = ids.length; for (const id of ids) c.readDocument(l + id, function (e, item) { \
            if (e) throw e; item.stock += 1; c.replaceDocument(l + id, item, function (e) { if (e) throw e; \
            if (--left === 0) getContext().getResponse().setBody(ids.length) }) }) }";
        let body = format!(r#"{{"id":"touch","body":"{text}"}}"#);
        self.request("POST", ("sprocs", &link), &format!("{link}/sprocs"), &[], &body)
    }

    /// Calls it for a group.
    pub(crate) fn execute(&self, group: u64, size: u64) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}/sprocs/touch");
        let ids: Vec<String> = (0..size).map(|n| format!("\"{}\"", id(n))).collect();
        let body = format!("[[{}]]", ids.join(","));
        let key = key_header(&partition(group));
        self.request("POST", ("sprocs", &link), &link, &[(KEY_HEADER, &key)], &body)
    }

    /// A batch that reads every item of a group and replaces it with one that has another stock.
    pub(crate) fn group_batch(&self, group: u64, size: u64) -> Numbered {
        let stock = format!("{STOCK}{}", "9".repeat(DIGITS));
        let operation = |number: u64| {
            let body = grouped(group, number).replacen(&format!("{STOCK}12"), &stock, 1);
            let id = id(number);
            format!(
                r#"{{"operationType":"Read","id":"{id}"}},{{"operationType":"Replace","id":"{id}","resourceBody":{body}}}"#
            )
        };
        let operations: Vec<String> = (0..size).map(operation).collect();
        let bytes = self.batch(&partition(group), &format!("[{}]", operations.join(",")), &[]);
        let places = memchr::memmem::find_iter(&bytes, &stock).map(|at| at + STOCK.len()).collect();
        Numbered { bytes, places }
    }

    /// A transactional batch of one logical partition.
    pub(crate) fn batch(
        &self,
        partition: &str,
        operations: &str,
        wishes: &[(&str, &str)],
    ) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let key = key_header(partition);
        let mut headers = vec![
            (KEY_HEADER, &*key),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
            ("x-ms-cosmos-batch-ordered", "True"),
        ];
        headers.extend(wishes);
        self.request("POST", ("docs", &link), &format!("{link}/docs"), &headers, operations)
    }

    /// Creates an item, of which the number can be changed.
    pub(crate) fn create(&self) -> Numbered {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let path = format!("{link}/docs");
        let (key, body) = (key_header(&partition(0)), body(0));
        Numbered::new(self.request("POST", ("docs", &link), &path, &[(KEY_HEADER, &key)], &body))
    }
}

/// What to do with an item that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Create,
    Upsert,
}

/// A request with a number in it, which is another one each time.
#[derive(Clone)]
pub(crate) struct Numbered {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Numbered {
    /// A request with places for a number: wherever it has the number 0.
    fn new(bytes: Vec<u8>) -> Self {
        let zeros = "0".repeat(DIGITS);
        let places = memchr::memmem::find_iter(&bytes, &zeros).collect();
        Self { bytes, places }
    }

    pub(crate) fn numbered(&mut self, number: u64) -> &[u8] {
        let mut digits = [b'0'; DIGITS];
        let mut rest = number;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("one digit");
            rest /= 10;
        }
        assert_eq!(rest, 0, "an item's number has {DIGITS} digits");
        for place in &self.places {
            self.bytes[*place..*place + DIGITS].copy_from_slice(&digits);
        }
        &self.bytes
    }
}

/// What stands before the one number of an item that is changed.
const STOCK: &str = "\"stock\":";

/// How the text of an item ends.
const END: &str = "\"}";

const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";

fn key_header(partition: &str) -> String {
    format!("[\"{partition}\"]")
}

/// What stands before the number of an item in its text, once.
pub(crate) const ID_PREFIX: &[u8] = b"\"id\":\"item-";

/// An item's id.
pub(crate) fn id(number: u64) -> String {
    format!("item-{number:09}")
}

/// An item's partition key: every item has its own.
pub(crate) fn partition(number: u64) -> String {
    format!("p-{number:09}")
}

/// An item of a group: as any other, with the group's partition key.
fn grouped(group: u64, number: u64) -> String {
    body(number).replacen(&partition(number), &partition(group), 1)
}

/// An item as a client sends it: a document of some properties, as long as [`ITEM_BYTES`].
pub(crate) fn body(number: u64) -> String {
    let mut text = format!(
        r#"{{"id":"{}","pk":"{}","name":"An item like many others","price":129.95,"stock":12,"#,
        id(number),
        partition(number)
    );
    text += r#""tags":["blue","large","new"],"size":{"width":12.5,"height":80,"depth":3},"#;
    text += r#""available":true,"supplier":null,"text":""#;
    let words = "the quick brown fox jumps over the lazy dog and runs away ".chars().cycle();
    text.extend(words.take(ITEM_BYTES - text.len() - END.len()));
    text + END
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_create_carries_its_number_everywhere() {
        let mut create = Signer::now().create();
        assert_eq!(create.places.len(), 3, "the header, the id and the partition key");
        let text = String::from_utf8(create.numbered(42).to_vec()).unwrap();
        assert!(text.ends_with(&body(42)), "{text}");
        assert!(text.contains("partitionkey: [\"p-000000042\"]\r\n"), "{text}");
    }

    #[test]
    fn a_batch_changes_the_stock_of_every_item() {
        let mut batch = Signer::now().group_batch(3, 10);
        assert_eq!(batch.places.len(), 10);
        let text = String::from_utf8(batch.numbered(100_000_042).to_vec()).unwrap();
        assert_eq!(text.matches("\"stock\":100000042,").count(), 10, "{text}");
    }

    #[test]
    fn every_item_has_the_same_size() {
        assert_eq!(body(1).len(), ITEM_BYTES);
        assert_eq!(body(999_999_999).len(), ITEM_BYTES);
    }
}
