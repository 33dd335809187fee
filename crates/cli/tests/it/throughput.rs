//! Throughput over HTTP: who is told to wait, for how long, and that whoever does is served. The clock
//! stands still but for what the tests wait, so every number is exact.

use orrery_server::consistency::ConsistencyLevel;
use orrery_types::Value;

use crate::client::{Answer, Client};
use crate::local::Local;
use crate::process::{Running, orrery};

const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
const CONTAINER: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;
const ITEM: &str = "/dbs/d/colls/c/docs/one";

fn enforced() -> Local {
    Local::start_with(ConsistencyLevel::default(), |engine| engine.with_enforced_throughput(true))
}

/// A database, a container and one item in it, and the second after.
fn fill(server: &Local, of_database: &[(&str, &str)], of_container: &[(&str, &str)]) {
    server.must("POST", "/dbs", of_database, r#"{"id":"d"}"#);
    server.must("POST", "/dbs/d/colls", of_container, CONTAINER);
    server.must("POST", "/dbs/d/colls/c/docs", &[KEY], r#"{"id":"one","p":"p"}"#);
    server.clock.advance_s(1);
}

fn read(server: &Local, more: &[(&str, &str)]) -> Answer {
    server.send("GET", ITEM, &[&[KEY], more].concat(), "")
}

/// Reads until somebody says to wait: how often, and what they say.
fn read_until_refused(server: &Local, more: &[(&str, &str)]) -> (usize, Answer) {
    for count in 0..100_000 {
        let answer = read(server, more);
        if answer.status != 200 {
            return (count, answer);
        }
    }
    panic!("nobody refuses");
}

fn retry_after_ms(answer: &Answer) -> u64 {
    answer.header("x-ms-retry-after-ms").unwrap().parse().unwrap()
}

/// The offer of a container or database.
fn offer(server: &Local, owner: &str) -> Value {
    let rid = Value::parse(server.must("GET", owner, &[], "").body.as_bytes()).unwrap();
    let list = Value::parse(server.must("GET", "/offers", &[], "").body.as_bytes()).unwrap();
    let offers = list.get("Offers").as_array().unwrap();
    let is_its = |offer: &&Value| offer.get("offerResourceId") == rid.get("_rid");
    offers.iter().find(is_its).unwrap().clone()
}

/// Puts members into the content of an offer.
fn change_offer(server: &Local, owner: &str, members: &str) -> Answer {
    let mut offer = offer(server, owner);
    let mut content = offer.get("content").as_object().unwrap().clone();
    for (name, value) in Value::parse(members.as_bytes()).unwrap().as_object().unwrap().iter() {
        content.set(name, value.clone());
    }
    offer.as_object_mut().unwrap().set("content", Value::object(content));
    let path = format!("/offers/{}", offer.get("_rid").as_str().unwrap());
    server.send("PUT", &path, &[], &offer.to_json())
}

#[test]
fn nobody_waits_unless_throughput_is_enforced() {
    let server = Local::start();
    fill(&server, &[], &[]);
    for _ in 0..500 {
        assert_eq!(read(&server, &[]).status, 200);
    }
}

#[test]
fn who_exceeds_the_throughput_waits_as_long_as_told_and_is_served() {
    let server = enforced();
    fill(&server, &[], &[]);
    let (count, refused) = read_until_refused(&server, &[]);
    assert_eq!((count, refused.status), (400, 429));
    assert_eq!(refused.header("x-ms-substatus"), Some("3200"));
    assert_eq!(refused.header("x-ms-request-charge"), Some("0"));
    assert!(refused.header("x-ms-session-token").is_some());
    let body = Value::parse(refused.body.as_bytes()).unwrap();
    assert_eq!(body.get("code").as_str(), Some("429"));
    // Everything on items waits, nothing else does.
    let item = r#"{"id":"two","p":"p"}"#;
    let items = "/dbs/d/colls/c/docs";
    for (method, path, header, body) in [
        ("POST", items, ("x-ms-documentdb-is-upsert", "true"), item),
        ("PUT", ITEM, ("prefer", "return=minimal"), r#"{"id":"one","p":"p","n":1}"#),
        ("DELETE", ITEM, ("prefer", "return=minimal"), ""),
        ("POST", items, ("x-ms-documentdb-isquery", "true"), r#"{"query":"SELECT * FROM c"}"#),
        ("GET", items, ("a-im", "Incremental Feed"), ""),
        ("GET", items, ("x-ms-max-item-count", "1"), ""),
    ] {
        let answer = server.send(method, path, &[KEY, header], body);
        assert_eq!(answer.status, 429, "{method} {path}: {answer:?}");
    }
    for path in ["/", "/dbs/d", "/dbs/d/colls/c", "/dbs/d/colls/c/pkranges", "/offers"] {
        server.must("GET", path, &[], "");
    }
    // An SDK waits and tries again. A write costs more than the millisecond brings, and is served.
    let mut waits = Vec::new();
    for n in 0..5 {
        let item = format!(r#"{{"id":"three {n}","p":"p"}}"#);
        loop {
            let answer = server.send("POST", items, &[KEY], &item);
            if answer.status == 201 {
                break;
            }
            waits.push(retry_after_ms(&answer));
            server.clock.advance_ms(retry_after_ms(&answer));
        }
    }
    // 5.35 units at 400 a second take 13.375 ms to come back: four of them, after a millisecond. The
    // first waits longer, behind those that were refused before it.
    assert_eq!(waits.iter().sum::<u64>(), 54, "{waits:?}");
    assert!(waits.len() <= 5, "{waits:?}");
}

#[test]
fn partitions_have_their_even_share_each() {
    let server = enforced();
    fill(&server, &[], &[("x-ms-offer-throughput", "12000")]);
    // Half of 12,000 for the partition of the key; 2.3 for a query, 0.05 and a little for the item.
    let expensive = r#"{"query":"SELECT * FROM c"}"#;
    let query = |more: &[(&str, &str)]| {
        let headers = [&[("x-ms-documentdb-isquery", "true")], more].concat();
        server.send("POST", "/dbs/d/colls/c/docs", &headers, expensive)
    };
    let mut spent = 0.0;
    while query(&[KEY]).status == 200 {
        spent += query(&[KEY]).header("x-ms-request-charge").unwrap().parse::<f64>().unwrap() * 2.0;
        assert!(spent < 12_000.0, "nobody refuses");
    }
    assert!((5_900.0..6_100.0).contains(&spent), "{spent}");
    let id = read(&server, &[]).header("x-ms-retry-after-ms").map(str::to_owned);
    assert!(id.is_some(), "the partition is spent");
    // The other partition is not; what reads both is refused.
    let ranges = ["0", "1"].map(|id| query(&[("x-ms-documentdb-partitionkeyrangeid", id)]).status);
    assert!(ranges == [200, 429] || ranges == [429, 200], "{ranges:?}");
    let crossing = ("x-ms-documentdb-query-enablecrosspartition", "true");
    assert_eq!(query(&[crossing]).status, 429);
}

#[test]
fn autoscale_grants_its_maximum_and_tells_what_is_used() {
    let server = enforced();
    fill(&server, &[], &[("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":1000}"#)]);
    let told = |server: &Local| {
        let offer = offer(server, "/dbs/d/colls/c");
        let settings = offer.get("content").get("offerAutopilotSettings");
        assert_eq!(settings.get("maxThroughput").as_i64(), Some(1000));
        offer.get("content").get("offerThroughput").as_i64().unwrap()
    };
    server.clock.advance_s(10);
    assert_eq!(told(&server), 100);
    for _ in 0..450 {
        assert_eq!(read(&server, &[]).status, 200);
    }
    assert_eq!(told(&server), 500);
    let (count, refused) = read_until_refused(&server, &[]);
    assert_eq!((count, refused.status), (550, 429));
    assert_eq!(told(&server), 1000);
    server.clock.advance_s(2);
    assert_eq!(told(&server), 100);
}

#[test]
fn containers_share_the_throughput_of_their_database() {
    let server = enforced();
    fill(&server, &[("x-ms-offer-throughput", "500")], &[]);
    let other = CONTAINER.replace("\"c\"", "\"other\"");
    server.must("POST", "/dbs/d/colls", &[], &other);
    let own = CONTAINER.replace("\"c\"", "\"own\"");
    server.must("POST", "/dbs/d/colls", &[("x-ms-offer-throughput", "400")], &own);
    for _ in 0..250 {
        assert_eq!(read(&server, &[]).status, 200);
    }
    let missing = |container: &str| {
        let path = format!("/dbs/d/colls/{container}/docs/none");
        server.send("GET", &path, &[KEY], "").status
    };
    // What is not found costs a unit too.
    for _ in 0..250 {
        assert_eq!(missing("other"), 404);
    }
    assert_eq!((missing("other"), read(&server, &[]).status), (429, 429));
    assert_eq!(missing("own"), 404);
}

#[test]
fn low_priority_waits_first() {
    let server = enforced();
    fill(&server, &[], &[]);
    let low = [("x-ms-cosmos-priority-level", "Low")];
    let high = [("x-ms-cosmos-priority-level", "High")];
    let (count, refused) = read_until_refused(&server, &low);
    assert_eq!((count, refused.status), (200, 429));
    assert_eq!(refused.header("x-ms-substatus"), Some("3200"));
    let (count, _) = read_until_refused(&server, &high);
    assert_eq!(count, 200);
    // While high priority uses up what comes, low priority gets nothing.
    for _ in 0..20 {
        server.clock.advance_ms(5);
        assert_eq!((read(&server, &low).status, read(&server, &high).status), (429, 200));
        read_until_refused(&server, &[]);
    }
    let wait_ms = retry_after_ms(&read(&server, &low));
    assert!((500..=510).contains(&wait_ms), "{wait_ms}");
    server.clock.advance_ms(wait_ms);
    assert_eq!(read(&server, &low).status, 200);
    let bad = read(&server, &[("x-ms-cosmos-priority-level", "Middle")]);
    assert_eq!(bad.status, 400);
}

#[test]
fn a_bucket_has_its_share_and_no_more() {
    let server = enforced();
    fill(&server, &[], &[]);
    let buckets = r#"{"throughputBuckets":[{"id":2,"maxThroughputPercentage":10}]}"#;
    assert_eq!(change_offer(&server, "/dbs/d/colls/c", buckets).status, 200);
    let of = |id: &'static str| [("x-ms-cosmos-throughput-bucket", id)];
    let (count, refused) = read_until_refused(&server, &of("2"));
    assert_eq!((count, refused.status), (40, 429));
    assert_eq!(refused.header("x-ms-substatus"), Some("3212"));
    // A bucket that is not configured, and none at all, share the rest.
    assert_eq!(read(&server, &of("1")).status, 200);
    let (count, refused) = read_until_refused(&server, &[]);
    assert_eq!((count, refused.header("x-ms-substatus")), (359, Some("3200")));
    for bad in ["0", "6", "-1", "x"] {
        let refused = read(&server, &[("x-ms-cosmos-throughput-bucket", bad)]);
        assert_eq!(refused.status, 400, "{bad}");
    }
}

#[test]
fn an_offer_decides_for_itself_and_keeps_its_word() {
    let server = Local::start();
    fill(&server, &[], &[]);
    let changed = change_offer(&server, "/dbs/d/colls/c", r#"{"orreryEnforced":true}"#);
    assert_eq!(changed.status, 200);
    assert_eq!(read_until_refused(&server, &[]).0, 400);
    // Replacing the container does not touch it, nor does whoever changes the throughput alone.
    server.must("PUT", "/dbs/d/colls/c", &[], CONTAINER);
    let offer = offer(&server, "/dbs/d/colls/c");
    let (rid, id) = (offer.get("_rid").as_str().unwrap(), offer.get("offerResourceId"));
    let more = format!(
        r#"{{"offerVersion":"V2","offerResourceId":{},"content":{{"offerThroughput":800}}}}"#,
        id.to_json()
    );
    server.must("PUT", &format!("/offers/{rid}"), &[], &more);
    server.clock.advance_s(2);
    assert_eq!(read_until_refused(&server, &[]).0, 800);
    let off = change_offer(&server, "/dbs/d/colls/c", r#"{"orreryEnforced":false}"#);
    assert_eq!(off.status, 200);
    for _ in 0..1000 {
        assert_eq!(read(&server, &[]).status, 200);
    }
}

#[test]
fn odd_throughput_is_refused_and_changes_nothing() {
    let server = enforced();
    fill(&server, &[("x-ms-offer-throughput", "400")], &[("x-ms-offer-throughput", "400")]);
    let before = server.must("GET", "/offers", &[], "").body;
    for members in [
        r#"{"offerThroughput":-400}"#,
        r#"{"offerThroughput":0}"#,
        r#"{"offerThroughput":450}"#,
        r#"{"offerThroughput":"400"}"#,
        r#"{"offerThroughput":2000000}"#,
        r#"{"orreryEnforced":"yes"}"#,
        r#"{"throughputBuckets":[{"id":9,"maxThroughputPercentage":10}]}"#,
    ] {
        let refused = change_offer(&server, "/dbs/d/colls/c", members);
        assert_eq!(refused.status, 400, "{members}: {refused:?}");
    }
    let buckets = r#"{"throughputBuckets":[{"id":1,"maxThroughputPercentage":10}]}"#;
    assert_eq!(change_offer(&server, "/dbs/d", buckets).status, 400);
    let named = CONTAINER.replace("\"c\"", "\"new\"");
    for header in [
        ("x-ms-offer-throughput", "-400"),
        ("x-ms-offer-throughput", "399"),
        ("x-ms-offer-throughput", "4e2"),
        ("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":-1000}"#),
        ("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":1500}"#),
    ] {
        let refused = server.send("POST", "/dbs/d/colls", &[header], &named);
        assert_eq!(refused.status, 400, "{header:?}: {refused:?}");
    }
    assert_eq!(server.must("GET", "/offers", &[], "").body, before);
    assert_eq!(server.send("GET", "/dbs/d/colls/new", &[], "").status, 404);
}

#[test]
fn strong_reads_cost_twice_as_much() {
    let server = Local::start_with(ConsistencyLevel::Strong, |engine| engine);
    fill(&server, &[], &[]);
    let charge = |answer: Answer| answer.header("x-ms-request-charge").unwrap().to_owned();
    assert_eq!(charge(read(&server, &[])), "2");
    assert_eq!(charge(read(&server, &[("x-ms-consistency-level", "Session")])), "1");
}

#[test]
fn the_command_shows_and_sets_throughput() {
    let server = Running::start(&["serve", "--memory", "--listen", "127.0.0.1:0", "--no-tls"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    client.must("POST", "/dbs", &[], r#"{"id":"my shop"}"#);
    client.must("POST", "/dbs/my%20shop/colls", &[], CONTAINER);
    let endpoint = format!("http://{}", server.address());
    let run = |more: &[&str]| {
        let key = server.key();
        let mut command =
            orrery(&["throughput", "my shop", "--endpoint", &endpoint, "--key", &key]);
        let output = command.args(more).output().unwrap();
        let said = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (done, said) = run(&["c"]);
    assert!(done && said.contains(r#""offerThroughput":400"#), "{said}");
    let (done, said) = run(&["c", "--manual", "800", "--enforce", "on", "--buckets", "1=20,3=50"]);
    let content = Value::parse(said.as_bytes()).unwrap();
    assert!(done, "{said}");
    assert_eq!(content.get("offerThroughput").as_i64(), Some(800));
    assert!(content.get("orreryEnforced").is_true());
    assert_eq!(content.get("throughputBuckets").as_array().unwrap().len(), 2);
    let (done, said) = run(&["c", "--autoscale", "4000", "--buckets", ""]);
    assert!(done && said.contains(r#""maxThroughput":4000"#), "{said}");
    assert!(said.contains("orreryEnforced") && !said.contains("throughputBuckets"), "{said}");
    for (more, expected) in [
        (&["c", "--manual", "-1"][..], "less than required minimum"),
        (&["c", "--buckets", "9"], "ID=PERCENT"),
        (&["none"], "404"),
        (&[], "no throughput of its own"),
    ] {
        let (done, said) = run(more);
        assert!(!done && said.contains(expected), "{more:?}: {said}");
    }
}
