//! The texts of the service's planner, sent to a server as an SDK that plans by itself sends them: to
//! each physical partition, the filter's placeholder filled in, hybrid searches with the statistics that
//! the server has given before. What is refused stands in `golden/plan_corpus/refused_texts.txt` under
//! its reason, and nothing else is.
//!
//! `PLAN_TEXTS_REPORT=file` writes every refusal with its answer.

use std::collections::BTreeMap;

use orrery_types::{Clock as _, Value};

use crate::client::{Answer, Connection, http_date, signature, signed};
use crate::local::{Local, PRIMARY};
use crate::wire_session::json;

const CORPUS: &str = "../../golden/plan_corpus/corpus.jsonl.zst";
const REFUSED: &str = "../../golden/plan_corpus/refused_texts.txt";

/// Texts of plans, which must not become fewer without anybody noticing.
const TEXTS_MIN: usize = 4395;

const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";
const COUNT: &str = "{documentdb-formattablehybridsearchquery-totaldocumentcount}";

fn cases() -> Vec<(usize, Value)> {
    let packed = std::fs::read(CORPUS).unwrap();
    let text = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    let lines = text.lines().enumerate().skip(1);
    lines.map(|(number, line)| (number, Value::parse(line.as_bytes()).unwrap())).collect()
}

/// Every sequence of two and three of these paths, in every direction.
fn composites() -> String {
    let paths = ["/n", "/s", "/k"];
    let mut sequences: Vec<Vec<&str>> = Vec::new();
    for a in paths {
        for b in paths.into_iter().filter(|b| *b != a) {
            sequences.push(vec![a, b]);
            let c = paths.into_iter().find(|c| *c != a && *c != b).unwrap();
            sequences.push(vec![a, b, c]);
        }
    }
    let mut composites = Vec::new();
    for sequence in sequences {
        for directions in 0..1 << sequence.len() {
            let path = |(at, path): (usize, &&str)| {
                let order = if directions >> at & 1 == 0 { "ascending" } else { "descending" };
                format!(r#"{{"path":"{path}","order":"{order}"}}"#)
            };
            let paths: Vec<_> = sequence.iter().enumerate().map(path).collect();
            composites.push(format!("[{}]", paths.join(",")));
        }
    }
    composites.join(",")
}

/// A container as `plan-corpus` describes it, with items of every shape that the queries name.
fn create_container(sender: &mut Sender, id: &str, key: &Value) {
    let vector = |path: &str, metric: &str| {
        format!(
            r#"{{"path":"{path}","dataType":"float32","distanceFunction":"{metric}","dimensions":3}}"#
        )
    };
    let body = format!(
        r#"{{"id":"{id}","partitionKey":{},
            "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{},{}]}},
            "fullTextPolicy":{{"defaultLanguage":"en-US","fullTextPaths":[
                {{"path":"/t","language":"en-US"}},{{"path":"/d/t","language":"en-US"}}]}},
            "indexingPolicy":{{"includedPaths":[{{"path":"/*"}}],
                "fullTextIndexes":[{{"path":"/t"}},{{"path":"/d/t"}}],
                "compositeIndexes":[{}]}}}}"#,
        key.to_json(),
        vector("/v", "cosine"),
        vector("/ve", "euclidean"),
        composites(),
    );
    sender.must("/dbs/d/colls", &[("x-ms-offer-throughput", "18000")], &body);
    for name in ["f", "g"] {
        let function = format!(r#"{{"id":"{name}","body":"function (x) {{ return x; }}"}}"#);
        sender.must(&format!("/dbs/d/colls/{id}/udfs"), &[], &function);
    }
    let texts = ["red bicycle", "blue", "It's a red and blue garden", ""];
    for n in 0..24 {
        let text = texts[n % texts.len()];
        let list = if n % 3 == 0 { "[]" } else { r#"[{"x":1,"n":2,"tags":["a"]},{"y":"b"}]"# };
        let item = format!(
            r#"{{"id":"{n}","pk":"k{n}","a":{{"b":"k{n}"}},"tenant":"t{n}","user":{{"id":"u"}},
                "session":{n},"n":{},"k":{},"m":1.5,"s":"{text}","t":"{text}","d":{{"t":"{text}"}},
                "b":{},"flag":true,"tags":["a","b"],"list":{list},"obj":{{"x":1,"y":{{"z":2}}}},
                "o":{{"p":{n}}},"v":[1,{n},2],"ve":[{n},0,1],
                "loc":{{"type":"Point","coordinates":[{n},1]}}}}"#,
            n % 5,
            n % 7,
            n % 2 == 0,
        );
        sender.must(
            &format!("/dbs/d/colls/{id}/docs"),
            &[("x-ms-documentdb-is-upsert", "true")],
            &item,
        );
    }
}

/// One connection that signs.
struct Sender<'s> {
    server: &'s Local,
    connection: Connection,
}

impl<'s> Sender<'s> {
    fn new(server: &'s Local) -> Self {
        Self { server, connection: Connection::open(server.address).unwrap() }
    }

    fn post(&mut self, path: &str, more: &[(&str, &str)], body: &str) -> Answer {
        let (kind, link) = signed(path);
        let date = http_date(self.server.clock.now_s());
        let authorization = signature(PRIMARY, "POST", &kind, &link, &date);
        let own = [("authorization", &*authorization), ("x-ms-date", &*date)];
        let headers = own.iter().chain(more);
        let headers: Vec<(String, String)> =
            headers.map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.connection.send("POST", path, &headers, body.as_bytes()).unwrap()
    }

    #[track_caller]
    fn must(&mut self, path: &str, more: &[(&str, &str)], body: &str) -> Answer {
        let answer = self.post(path, more, body);
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer
    }
}

/// Where the texts of a plan go.
struct Target {
    docs: String,
    /// The header that says where, and its value: each physical partition, or the one key.
    places: Vec<(&'static str, String)>,
}

impl Target {
    fn of(case: &Value, id: &str) -> Self {
        let docs = format!("/dbs/d/colls/{id}/docs");
        if case.get("logicalPartitionKey").is_true() {
            let levels = case.get("partitionKey").get("paths").as_array().unwrap();
            let key = format!("[{}]", vec!["\"k1\""; levels.len()].join(","));
            return Self { docs, places: vec![("x-ms-documentdb-partitionkey", key)] };
        }
        let range = |n: usize| ("x-ms-documentdb-partitionkeyrangeid", n.to_string());
        Self { docs, places: (0..3).map(range).collect() }
    }

    /// The answers to a text, or the first refusal.
    fn send(
        &self,
        sender: &mut Sender,
        text: &str,
        parameters: &Value,
    ) -> Result<Vec<Value>, String> {
        let parameters = parameters.as_array().unwrap_or_default().to_vec();
        let body = format!(
            r#"{{"query":{},"parameters":{}}}"#,
            Value::from(text).to_json(),
            Value::array(parameters).to_json()
        );
        let mut rows = Vec::new();
        for (name, place) in &self.places {
            let headers = [
                ("x-ms-documentdb-isquery", "true"),
                ("x-ms-documentdb-query-enablecrosspartition", "true"),
                ("x-ms-max-item-count", "-1"),
                (*name, &**place),
            ];
            let answer = sender.post(&self.docs, &headers, &body);
            if answer.status != 200 {
                return Err(format!("{} {}", answer.status, answer.body));
            }
            rows.extend_from_slice(json(&answer).get("Documents").as_array().unwrap());
        }
        Ok(rows)
    }
}

/// What the components of a hybrid search need to know of all items: the sums of what each physical
/// partition has answered, as an SDK adds them up.
#[derive(Default)]
struct Statistics {
    items: i64,
    texts: Vec<(i64, Vec<i64>)>,
}

impl Statistics {
    fn add(&mut self, row: &Value) {
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        self.items += number(row.get("documentCount"));
        for (at, text) in row.get("fullTextStatistics").as_array().unwrap().iter().enumerate() {
            let hits = text.get("hitCounts").as_array().unwrap();
            if self.texts.len() == at {
                self.texts.push((0, vec![0; hits.len()]));
            }
            self.texts[at].0 += number(text.get("totalWordCount"));
            for (sum, hit) in self.texts[at].1.iter_mut().zip(hits) {
                *sum += number(hit);
            }
        }
    }

    /// The text as it is sent.
    fn fill(&self, text: &str) -> String {
        let mut text = text.replace(FILTER, "true").replace(COUNT, &self.items.to_string());
        let mark = |what: &str, at: usize| {
            format!("{{documentdb-formattablehybridsearchquery-{what}-{at}}}")
        };
        for (at, (words, hits)) in self.texts.iter().enumerate() {
            let hits: Vec<_> = hits.iter().map(i64::to_string).collect();
            text = text.replace(&mark("totalwordcount", at), &words.to_string());
            text = text.replace(&mark("hitcountsarray", at), &format!("[{}]", hits.join(",")));
        }
        text
    }
}

/// The texts that the plan of a case makes a client send, those for the statistics apart. Without a
/// rewritten text the query goes as it is.
fn texts(case: &Value) -> Vec<&str> {
    let plan = case.get("plan");
    let hybrid = plan.get("hybridSearchQueryInfo");
    let list = |name: &str| hybrid.get(name).as_array().unwrap_or_default().iter();
    let hybrids = list("componentQueryInfos")
        .chain(list("componentWithoutPayloadQueryInfos"))
        .chain([hybrid.get("projectionQueryInfo")])
        .filter_map(|info| info.get("rewrittenQuery").as_str())
        .filter(|text| !text.is_empty());
    let mut texts: Vec<&str> = hybrids.collect();
    if texts.is_empty() {
        let rewritten = plan.get("queryInfo").get("rewrittenQuery").as_str();
        let text = rewritten.filter(|text| !text.is_empty()).or(case.get("query").as_str());
        texts.push(text.unwrap());
    }
    texts
}

#[derive(Default)]
struct Tally {
    sent: usize,
    /// By the number of the case: the first text that was refused, and how.
    refused: BTreeMap<usize, (String, String)>,
}

impl Tally {
    fn run(&mut self, sender: &mut Sender, target: &Target, number: usize, case: &Value) {
        let parameters = case.get("parameters");
        let mut statistics = Statistics::default();
        let hybrid = case.get("plan").get("hybridSearchQueryInfo");
        if let Some(text) = hybrid.get("globalStatisticsQuery").as_str() {
            self.sent += 1;
            match target.send(sender, text, parameters) {
                Ok(rows) => rows.iter().for_each(|row| statistics.add(row)),
                Err(answer) => return self.refuse(number, text, answer),
            }
        }
        for text in texts(case) {
            self.sent += 1;
            let text = statistics.fill(text);
            if let Err(answer) = target.send(sender, &text, parameters) {
                return self.refuse(number, &text, answer);
            }
        }
    }

    fn refuse(&mut self, number: usize, text: &str, answer: String) {
        self.refused.insert(number, (text.to_owned(), answer));
    }
}

/// The cases that are known to be refused: lines of a number and the query, under `# reason` lines.
fn known() -> BTreeMap<usize, String> {
    let text = std::fs::read_to_string(REFUSED).unwrap();
    let mut known = BTreeMap::new();
    let mut has_reason = false;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("# ") {
            has_reason = true;
            continue;
        }
        assert!(has_reason, "no reason stands over {line}");
        let (number, query) = line.split_once(' ').unwrap();
        known.insert(number.parse().unwrap(), query.to_owned());
    }
    known
}

#[test]
#[expect(clippy::print_stdout, reason = "the numbers are what the test is for")]
fn the_texts_of_the_services_planner_are_answered() {
    let server = Local::start();
    let mut sender = Sender::new(&server);
    sender.must("/dbs", &[], r#"{"id":"d"}"#);
    let mut containers = BTreeMap::<String, String>::new();
    let (mut tally, mut queries) = (Tally::default(), BTreeMap::new());
    for (number, case) in cases().into_iter().filter(|(_, case)| case.get("error").is_undefined()) {
        let key = case.get("partitionKey");
        let next = format!("c{}", containers.len());
        let id = containers.entry(key.to_json()).or_insert_with(|| {
            create_container(&mut sender, &next, key);
            next
        });
        tally.run(&mut sender, &Target::of(&case, id), number, &case);
        queries.insert(number, case.get("query").to_json());
    }
    println!("texts sent: {}; cases refused: {}", tally.sent, tally.refused.len());
    if let Some(file) = std::env::var_os("PLAN_TEXTS_REPORT") {
        let line = |(number, (text, answer)): (&usize, &(String, String))| {
            format!("{number} {}\n  {text}\n  {answer}\n", queries[number])
        };
        std::fs::write(file, tally.refused.iter().map(line).collect::<String>()).unwrap();
    }
    assert!(tally.sent >= TEXTS_MIN, "only {} texts were sent", tally.sent);
    let known = known();
    for (number, (text, answer)) in &tally.refused {
        let listed = known.get(number) == Some(&queries[number]);
        assert!(listed, "refused and not listed: {number} {}\n{text}\n{answer}", queries[number]);
    }
    for (number, query) in &known {
        assert!(tally.refused.contains_key(number), "listed and answered by now: {number} {query}");
    }
}
