//! What is checked, in which order, and what answers tell about queries.

use orrery_types::Value;
use percent_encoding::percent_decode_str;

use crate::client::{Connection, signature};
use crate::local::{Local, PRIMARY};
use crate::wire_session::{THROUGHPUTS, json, with_container};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
const QUERY: (&str, &str) = ("x-ms-documentdb-isquery", "true");

#[test]
fn a_replace_of_what_is_not_there_is_404_whatever_its_body_says() {
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        let path = "/dbs/d/colls/c/docs/a";
        let other = r#"{"id":"a","p":"other"}"#;
        let batch = [KEY, ("x-ms-cosmos-is-batch-request", "true")];
        let operations =
            format!(r#"[{{"operationType":"Replace","id":"a","resourceBody":{other}}}]"#);
        let in_batch = || {
            let answer = server.send("POST", DOCS, &batch, &operations);
            json(&answer).as_array().unwrap()[0].get("statusCode").as_i64()
        };
        assert_eq!(server.send("PUT", path, &[KEY], other).status, 404);
        assert_eq!(in_batch(), Some(404));
        server.must("POST", DOCS, &[KEY], r#"{"id":"a","p":"p"}"#);
        let refused = server.send("PUT", path, &[KEY], other);
        assert_eq!((refused.status, refused.header("x-ms-substatus")), (400, Some("1001")));
        assert_eq!(in_batch(), Some(400));
    }
}

#[test]
fn a_time_to_live_is_checked_without_a_policy_too() {
    let server = with_container("400");
    for (ttl, status) in
        [("0", 400), ("\"x\"", 400), ("null", 400), ("1.5", 400), ("-1", 201), ("5", 201)]
    {
        let body = format!(r#"{{"id":"{}","p":"p","ttl":{ttl}}}"#, ttl.replace('"', ""));
        assert_eq!(server.send("POST", DOCS, &[KEY], &body).status, status, "{ttl}");
    }
}

#[test]
fn a_batch_has_2_202_010_bytes_at_most() {
    let server = with_container("400");
    let batch = [KEY, ("x-ms-cosmos-is-batch-request", "true")];
    let of_size = |size: usize| {
        let operation = |id: &str, text: &str| {
            let body = format!(r#"{{"id":"{id}","p":"p","t":"{text}"}}"#);
            format!(r#"{{"operationType":"Upsert","resourceBody":{body}}}"#)
        };
        let half = "x".repeat(1_000_000);
        let bare = format!("[{},{}]", operation("a", &half), operation("b", "")).len();
        let rest = "x".repeat(size - bare);
        format!("[{},{}]", operation("a", &half), operation("b", &rest))
    };
    assert_eq!(server.send("POST", DOCS, &batch, &of_size(2_202_010)).status, 200);
    assert_eq!(server.send("POST", DOCS, &batch, &of_size(2_202_011)).status, 413);
}

#[test]
fn a_page_of_0_items_is_one_of_the_usual_size() {
    let server = with_container("400");
    for n in 0..101 {
        server.must("POST", DOCS, &[KEY], &format!(r#"{{"id":"{n}","p":"p"}}"#));
    }
    let size = ("x-ms-max-item-count", "0");
    let feed = server.must("GET", DOCS, &[KEY, size], "");
    let query = server.must("POST", DOCS, &[KEY, QUERY, size], r#"{"query":"SELECT * FROM c"}"#);
    for page in [feed, query] {
        assert_eq!(page.header("x-ms-item-count"), Some("100"), "{:?}", page.header("etag"));
        assert!(page.header("x-ms-continuation").is_some());
    }
}

#[test]
fn a_date_may_come_in_any_letter_case() {
    let server = Local::start();
    let date = crate::client::http_date(orrery_types::Clock::now_s(&*server.clock));
    for date in [date.to_lowercase(), date.to_uppercase()] {
        let headers = [
            ("authorization".to_owned(), signature(PRIMARY, "GET", "dbs", "", &date)),
            ("x-ms-date".to_owned(), date),
        ];
        let mut connection = Connection::open(server.address).unwrap();
        assert_eq!(connection.send("GET", "/dbs", &headers, b"").unwrap().status, 200);
    }
}

#[test]
fn queries_tell_their_times_and_indexes() {
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        server.must("POST", DOCS, &[KEY], r#"{"id":"a","p":"p","n":1}"#);
        let asked = |name: &'static str| [KEY, QUERY, (name, "True")];
        let body = r#"{"query":"SELECT * FROM c WHERE c.n > 0"}"#;
        let times = server.must("POST", DOCS, &asked("x-ms-documentdb-populatequerymetrics"), body);
        let times = times.header("x-ms-documentdb-query-metrics").unwrap();
        let time = |name: &str| {
            let found =
                times.split(';').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            found.unwrap().parse::<f64>().unwrap()
        };
        assert!(time("queryCompileTimeInMs") > 0.0, "{times}");
        assert!(time("writeOutputTimeInMs") > 0.0, "{times}");
        assert!(time("queryLogicalPlanBuildTimeInMs") > 0.0, "{times}");
        assert!(time("queryPhysicalPlanBuildTimeInMs") > 0.0, "{times}");
        assert!(time("queryOptimizationTimeInMs") > 0.0, "{times}");
        assert!(time("documentLoadTimeInMs") > 0.0, "{times}");
        assert!(time("totalExecutionTimeInMs") >= time("queryCompileTimeInMs"), "{times}");
        let second = asked("x-ms-cosmos-populateindexmetrics-v2");
        let second = server.must("POST", DOCS, &second, body);
        let text = second.header("x-ms-cosmos-index-utilization").unwrap();
        let text = percent_decode_str(text).decode_utf8().unwrap();
        let (used, potential) = text.split_once(r#","PotentialIndexes":"#).unwrap();
        let single = r#"{"UtilizedIndexes":{"SingleIndexes":[{"IndexSpec":"/n/?"}"#;
        assert!(
            used.starts_with(single) && used.ends_with(r#"],"CompositeIndexes":[]}"#),
            "{text}"
        );
        assert_eq!(potential, r#"{"SingleIndexes":[],"CompositeIndexes":[]}}"#, "{text}");
    }
}

#[test]
fn an_account_says_that_it_searches_texts() {
    let account = json(&Local::start().must("GET", "/", &[], ""));
    let configuration = account.get("queryEngineConfiguration").as_str().unwrap();
    let configuration = Value::parse(configuration.as_bytes()).unwrap();
    assert!(configuration.get("queryEnableFullText").is_true());
}

#[test]
fn definitions_of_containers_and_offers_are_checked_as_the_service_does() {
    let server = with_container("400");
    let create = |more: &str| {
        let body = format!(r#"{{"id":"x","partitionKey":{{"paths":["/p"]}},{more}}}"#);
        server.send("POST", "/dbs/d/colls", &[], &body)
    };
    let policy = |key: &str| {
        let path = format!(
            r#"{{"path":"/s","clientEncryptionKeyId":"{key}","encryptionType":"Randomized","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}}"#
        );
        format!(r#""clientEncryptionPolicy":{{"includedPaths":[{path}],"policyFormatVersion":1}}"#)
    };
    let spatial = |bounds: &str| {
        let index = format!(r#"{{"path":"/l/*","types":["Point"]{bounds}}}"#);
        format!(r#""indexingPolicy":{{"spatialIndexes":[{index}]}}"#)
    };
    let vector = r#"{"path":"/v","type":"flat"}"#;
    let embedding =
        r#"{"path":"/v","dataType":"float32","dimensions":3,"distanceFunction":"cosine"}"#;
    for bad in [
        r#""ttlPropertyPath":"/t""#.to_owned(),
        r#""indexingPolicy":{"spatialIndexes":[{"path":"/l/*"}]}"#.to_owned(),
        format!(r#""geospatialConfig":{{"type":"Geometry"}},{}"#, spatial("")),
        format!(
            r#""indexingPolicy":{{"vectorIndexes":[{vector},{vector}]}},"vectorEmbeddingPolicy":{{"vectorEmbeddings":[{embedding}]}}"#
        ),
        policy("unknown"),
    ] {
        assert_eq!(create(&bad).status, 400, "{bad}");
    }
    let bounds = r#","boundingBox":{"xmin":0,"ymin":0,"xmax":1,"ymax":1}"#;
    let plane = format!(r#""geospatialConfig":{{"type":"Geometry"}},{}"#, spatial(bounds));
    assert_eq!(create(&plane).status, 201);
    server.must("DELETE", "/dbs/d/colls/x", &[], "");
    let key = r#"{"id":"k","encryptionAlgorithm":"A","wrappedDataEncryptionKey":"AA==","keyWrapMetadata":{"type":"t"}}"#;
    server.must("POST", "/dbs/d/clientencryptionkeys", &[], key);
    assert_eq!(create(&policy("k")).status, 201);
    let replace = |more: &str| {
        let body = format!(r#"{{"id":"x","partitionKey":{{"paths":["/p"]}}{more}}}"#);
        server.send("PUT", "/dbs/d/colls/x", &[], &body).status
    };
    assert_eq!(replace(""), 400, "dropped");
    assert_eq!(replace(&format!(",{}", policy("other"))), 400, "changed");
    assert_eq!(replace(&format!(",{},\"defaultTtl\":5", policy("k"))), 200);

    let offers = json(&server.must("GET", "/offers", &[], ""));
    let mut offer = offers.get("Offers").as_array().unwrap()[0].clone();
    assert_eq!(offer.get("offerType").as_str(), Some("Invalid"), "throughput has no tier");
    let path = format!("/offers/{}", offer.get("_rid").as_str().unwrap());
    assert_eq!(server.send("PUT", &path, &[], &offer.to_json()).status, 200);
    offer.as_object_mut().unwrap().set("_rid", "NoRid".into());
    assert_eq!(server.send("PUT", &path, &[], &offer.to_json()).status, 400);
}

#[test]
fn what_is_wrong_or_left_out_is_taken_as_the_service_takes_it() {
    let server = with_container("400");
    server.must("POST", DOCS, &[KEY], r#"{"id":"a","p":"p"}"#);
    let format = ("x-ms-documentdb-content-serialization-format", "none");
    let read = format!("{DOCS}/a");
    assert_eq!(server.send("GET", &read, &[KEY, format], "").status, 400);
    let taken = server.send("POST", "/dbs", &[], r#"{"id":"d"}"#);
    assert_eq!(taken.status, 409);
    assert!(taken.header("x-ms-request-charge").unwrap().parse::<f64>().unwrap() > 0.0);
    // An autoscale offer that is replaced without the policy loses its increment.
    let policy = r#""autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":10}}"#;
    let settings = format!(r#"{{"maxThroughput":4000,{policy}}}"#);
    let autoscale = ("x-ms-cosmos-offer-autopilot-settings", &*settings);
    let body = r#"{"id":"x","partitionKey":{"paths":["/p"]}}"#;
    let created = json(&server.must("POST", "/dbs/d/colls", &[autoscale], body));
    let offers = json(&server.must("GET", "/offers", &[], ""));
    let own = |offer: &&Value| offer.get("offerResourceId") == created.get("_rid");
    let mut offer = offers.get("Offers").as_array().unwrap().iter().find(own).unwrap().clone();
    assert!(offer.to_json().contains(r#""incrementPercent":10"#));
    let content = r#"{"offerAutopilotSettings":{"maxThroughput":5000}}"#;
    let content = Value::parse(content.as_bytes()).unwrap();
    offer.as_object_mut().unwrap().set("content", content);
    let path = format!("/offers/{}", offer.get("_rid").as_str().unwrap());
    let replaced = json(&server.must("PUT", &path, &[], &offer.to_json())).to_json();
    assert!(replaced.contains(r#""incrementPercent":0"#), "{replaced}");
}
