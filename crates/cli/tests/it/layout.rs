//! `orrery split` and `orrery merge` on a running server, and what clients that name ranges are told.

use orrery_types::Value;

use crate::client::{Answer, Client};
use crate::process::{Running, orrery};

const CONTAINER: &str = "/dbs/d/colls/c";
const ITEMS: &str = "/dbs/d/colls/c/docs";

struct Case {
    server: Running,
    client: Client,
}

impl Case {
    fn new() -> Self {
        let server =
            Running::start(&["--memory", "--listen", "127.0.0.1:0", "--no-tls", "--log", "error"]);
        let mut client = Client::open(server.address(), &server.key()).unwrap();
        client.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
        let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
        client.must("POST", "/dbs/d/colls", &[], body);
        for n in 0..40 {
            let key = format!("[{n}]");
            let headers = [("x-ms-documentdb-partitionkey", &*key)];
            client.must("POST", ITEMS, &headers, &format!(r#"{{"id":"{n}","p":{n}}}"#));
        }
        Self { server, client }
    }

    /// Runs a command against the server: what it printed, or its complaint.
    fn command(&self, arguments: &[&str]) -> Result<String, String> {
        let (endpoint, key) = (format!("http://{}", self.server.address()), self.server.key());
        let remote = ["--endpoint", &*endpoint, "--key", &*key];
        let output = orrery(&[arguments, &remote].concat()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// The ids of all ranges, each with its parents.
    fn ranges(&mut self) -> Vec<String> {
        let ranges = self.client.feed(&format!("{CONTAINER}/pkranges"), "PartitionKeyRanges");
        let one = |range: &Value| {
            format!("{} {}", range.get("id").to_json(), range.get("parents").to_json())
        };
        ranges.iter().map(one).collect()
    }

    fn changes(&mut self, range: &str, after: Option<&str>) -> Answer {
        let mut headers =
            vec![("a-im", "Incremental Feed"), ("x-ms-documentdb-partitionkeyrangeid", range)];
        headers.extend(after.map(|etag| ("if-none-match", etag)));
        self.client.send("GET", ITEMS, &headers, "").unwrap()
    }
}

fn count(answer: &Answer) -> usize {
    let body = Value::parse(answer.body.as_bytes()).unwrap();
    body.get("Documents").as_array().unwrap().len()
}

#[test]
fn a_running_server_splits_and_merges_when_it_is_told_to() {
    let mut case = Case::new();
    let first = case.changes("0", None);
    let etag = first.header("etag").unwrap().to_owned();
    assert_eq!((first.status, count(&first)), (200, 40));
    assert_eq!(case.command(&["split", "-d", "d", "-c", "c"]).as_deref(), Ok("0 -> 1, 2"));
    assert_eq!(case.ranges(), [r#""1" ["0"]"#, r#""2" ["0"]"#]);
    let gone = case.changes("0", Some(&etag));
    assert_eq!((gone.status, gone.header("x-ms-substatus")), (410, Some("1002")));
    for child in ["1", "2"] {
        let nothing = case.changes(child, Some(&etag));
        assert_eq!(nothing.status, 304, "the position of the parent serves its child");
        let all = case.changes(child, None);
        assert!((10..=30).contains(&count(&all)), "{} changes in {child}", count(&all));
    }
    assert_eq!(
        case.command(&["split", "-d", "d", "-c", "c", "--range", "2"]).as_deref(),
        Ok("2 -> 3, 4")
    );
    let merged = case.command(&["merge", "-d", "d", "-c", "c", "--ranges", "3", "1"]);
    assert_eq!(merged.as_deref(), Ok("1, 3 -> 5"));
    assert_eq!(case.command(&["merge", "-d", "d", "-c", "c"]).as_deref(), Ok("5, 4 -> 6"));
    assert_eq!(case.client.feed(ITEMS, "Documents").len(), 40);
    let unknown = case.command(&["split", "-d", "d", "-c", "c", "--range", "9"]).unwrap_err();
    assert!(unknown.contains("410"), "{unknown}");
    let outside = case.command(&["split", "-d", "d", "-c", "c", "--at", "FF"]).unwrap_err();
    assert!(outside.contains("does not lie between"), "{outside}");
    let alone = case.command(&["merge", "-d", "d", "-c", "c"]).unwrap_err();
    assert!(alone.contains("nothing to merge"), "{alone}");
    let nowhere = case.command(&["split", "-d", "d", "-c", "none"]).unwrap_err();
    assert!(nowhere.contains("404"), "{nowhere}");
}

#[test]
fn more_throughput_means_more_ranges_and_an_offer_that_says_when() {
    let mut case = Case::new();
    let offers = case.client.feed("/offers", "Offers");
    let mut offer = offers[0].as_object().unwrap().clone();
    let link = format!("/offers/{}", offers[0].get("_rid").as_str().unwrap());
    let mut content = offers[0].get("content").as_object().unwrap().clone();
    content.set("offerThroughput", Value::from(15_000));
    offer.set("content", Value::object(content));
    let replaced = case.client.must("PUT", &link, &[], &Value::object(offer).to_json());
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("true"));
    assert!(replaced.body.contains(r#""isOfferReplacePending":true"#), "{}", replaced.body);
    while case.client.must("GET", &link, &[], "").body.contains("isOfferReplacePending") {
        // Everything goes on meanwhile.
        assert_eq!(case.client.feed(ITEMS, "Documents").len(), 40);
    }
    assert_eq!(case.ranges(), [r#""1" ["0"]"#, r#""2" ["0"]"#]);
    let read = case.client.must("GET", &link, &[], "");
    assert_eq!(read.header("x-ms-offer-replace-pending"), Some("false"));
}
