//! Bad input over HTTP, as text: `golden/http/*.txt` hold requests and their answers. After each
//! request that failed, everything the account holds must be what it was, which also shows that the
//! server still answers. `UPDATE_GOLDENFILES=1` writes the answers anew; a person reads them.
//!
//! A case is a comment, a request and its answer. Words in `<<…>>` are filled in when it is sent:
//! `<<x*1000>>` repeats, `<<hex ff>>` gives raw bytes, names stand for what the server has handed
//! out. The headers `sign` and `clock` are for this runner: how to sign, and by how many seconds the
//! client's clock is off.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orrery_server::auth::keys::WELL_KNOWN_KEY;
use orrery_types::{Clock as _, Value};

use crate::client::{Answer, Connection, http_date, signature, signed};
use crate::local::{Local, PRIMARY, READ_ONLY};

const ACTIVITY: &str = "00000000-0000-0000-0000-000000000001";
/// Everything that a request could have changed.
const FEEDS: [&str; 11] = [
    "/dbs",
    "/dbs/d/colls",
    "/dbs/d/colls/c/docs",
    "/dbs/d/colls/other/docs",
    "/dbs/d/colls/c/sprocs",
    "/dbs/d/colls/c/triggers",
    "/dbs/d/colls/c/udfs",
    "/dbs/d/users",
    "/dbs/d/users/u1/permissions",
    "/dbs/d/clientencryptionkeys",
    "/offers",
];

/// A server, and what is in it.
struct Bench {
    local: Local,
    /// What the server has handed out, by the names that cases use.
    names: BTreeMap<String, String>,
}

impl Bench {
    fn start() -> Self {
        let mut bench = Self { local: Local::start(), names: BTreeMap::new() };
        bench.fill();
        bench
    }

    /// Sends a request that is right.
    fn must(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Answer {
        self.local.must(method, path, more, body)
    }

    /// What every case finds: two containers with items, users with permissions.
    fn fill(&mut self) {
        self.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
        let two_partitions = [("x-ms-offer-throughput", "12000")];
        let body = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},
            "defaultTtl":-1}"#;
        self.must("POST", "/dbs/d/colls", &two_partitions, body);
        self.must("POST", "/dbs/d/colls", &[], &body.replace("\"c\"", "\"other\""));
        for container in ["c", "other"] {
            let items = format!("/dbs/d/colls/{container}/docs");
            for (id, key) in [("one", "p"), ("two", "q"), ("three", "p")] {
                let text =
                    format!(r#"{{"id":"{id}","p":"{key}","n":1,"s":"x","l":[1],"o":{{"a":1}}}}"#);
                let made = self.must("POST", &items, &[], &text);
                if (container, id) == ("c", "one") {
                    self.names.insert("etag".into(), made.header("etag").unwrap().into());
                }
            }
        }
        let bare = self.names["etag"].trim_matches('"').to_owned();
        self.names.insert("bare etag".into(), bare);
        let stale = "\"00000000-0000-0000-0000-000000000000\"";
        self.names.insert("stale etag".into(), stale.into());
        self.permissions();
        self.continuations();
    }

    fn permissions(&mut self) {
        let mut permission = |user: &str, name: &str, mode: &str, more: &str, life: &str| {
            self.must("POST", "/dbs/d/users", &[], &format!(r#"{{"id":"{user}"}}"#));
            let path = format!("/dbs/d/users/{user}/permissions");
            let body = format!(
                r#"{{"id":"p","permissionMode":"{mode}","resource":"dbs/d/colls/c"{more}}}"#
            );
            let life = [("x-ms-documentdb-expiry-seconds", life)];
            let made = self.must("POST", &path, &life, &body);
            let made = Value::parse(made.body.as_bytes()).unwrap();
            let token = made.get("_token").as_str().unwrap().to_owned();
            self.names.insert(format!("token {name}"), token);
        };
        permission("u1", "read c", "Read", "", "3600");
        permission("u2", "all c", "All", "", "3600");
        permission("u3", "key p", "All", r#","resourcePartitionKey":["p"]"#, "3600");
        permission("u4", "expired", "All", "", "10");
        // Claims of one token under the signature of another.
        let read = self.names["token read c"].clone();
        let all = self.names["token all c"].clone();
        let signed = read.split(';').next().unwrap();
        let changed = format!("{signed};{};", all.split(';').nth(1).unwrap());
        self.names.insert("token changed".into(), changed);
        self.local.clock.advance_s(11);
    }

    fn continuations(&mut self) {
        let one = [("x-ms-max-item-count", "1")];
        let feed = |path| {
            let page = self.must("GET", path, &one, "");
            page.header("x-ms-continuation").unwrap().to_owned()
        };
        let query = {
            let mut headers = vec![("x-ms-documentdb-isquery", "true")];
            headers.push(("x-ms-documentdb-query-enablecrosspartition", "true"));
            headers.extend_from_slice(&one);
            let body = r#"{"query":"SELECT * FROM c"}"#;
            let page = self.must("POST", "/dbs/d/colls/c/docs", &headers, body);
            page.header("x-ms-continuation").unwrap().to_owned()
        };
        let (own, other) = (feed("/dbs/d/colls/c/docs"), feed("/dbs/d/colls/other/docs"));
        let changes = |path| {
            let headers = [("a-im", "Incremental Feed"), ("if-none-match", "*")];
            self.must("GET", path, &headers, "").header("etag").unwrap().to_owned()
        };
        let position = changes("/dbs/d/colls/c/docs");
        let other_position = changes("/dbs/d/colls/other/docs");
        let edited_position = {
            let (head, last) = position.split_at(position.len() - 2);
            format!("{head}{}\"", if last.starts_with('0') { '1' } else { '0' })
        };
        let edited = |token: &str| {
            let mut token = token.to_owned();
            let last = token.pop().unwrap();
            token.push(if last == 'A' { 'Q' } else { 'A' });
            token
        };
        for (name, token) in [
            ("position", position),
            ("other position", other_position),
            ("edited position", edited_position),
            ("edited continuation", edited(&own)),
            ("continuation", own),
            ("other continuation", other),
            ("edited query continuation", edited(&query)),
            ("query continuation", query),
        ] {
            self.names.insert(name.into(), token);
        }
    }

    /// Everything that the account holds, as text.
    fn contents(&self) -> Vec<String> {
        let all = [("x-ms-max-item-count", "1000")];
        FEEDS.iter().map(|path| self.must("GET", path, &all, "").body).collect()
    }

    /// Fills in what stands in `<<…>>`.
    fn filled(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("<<") {
            let (word, after) = after.split_once(">>").expect("every << has its >>");
            out.extend_from_slice(before.as_bytes());
            if let Some(hex) = word.strip_prefix("hex ") {
                out.extend(hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
            } else if let Some(known) = self.names.get(word) {
                out.extend_from_slice(known.as_bytes());
            } else {
                let (unit, times) = word.rsplit_once('*').expect("a known name or unit*times");
                out.extend(unit.repeat(times.parse().unwrap()).bytes());
            }
            rest = after;
        }
        out.extend_from_slice(rest.as_bytes());
        out
    }

    fn send(&self, request: &Request<'_>) -> Answer {
        let path = String::from_utf8(self.filled(request.path)).unwrap();
        let (mut sign, mut clock) = ("", "0");
        let mut headers = vec![("x-ms-activity-id".to_owned(), ACTIVITY.to_owned())];
        for (name, value) in &request.headers {
            match *name {
                "sign" => sign = value,
                "clock" => clock = value,
                name => {
                    let value = String::from_utf8(self.filled(value)).unwrap();
                    headers.push((name.to_owned(), value));
                }
            }
        }
        let date = match clock.parse::<i64>() {
            Ok(off_s) => http_date(self.local.clock.now_s().checked_add_signed(off_s).unwrap()),
            Err(_) => clock.to_owned(),
        };
        if date != "none" {
            headers.push(("x-ms-date".to_owned(), date.clone()));
        }
        headers.extend(
            self.authorization(sign, request.method, &path, &date)
                .map(|text| ("authorization".to_owned(), text)),
        );
        let body = self.filled(request.body);
        let mut connection = Connection::open(self.local.address).unwrap();
        connection.send(request.method, &path, &headers, &body).unwrap()
    }

    fn authorization(&self, sign: &str, method: &str, path: &str, date: &str) -> Option<String> {
        let (kind, link) = signed(path);
        let with = |key: &str| signature(key, method, &kind, &link, date);
        Some(match sign.split_once(' ').unwrap_or((sign, "")) {
            ("", _) => with(PRIMARY),
            ("none", _) => return None,
            ("raw", text) => text.to_owned(),
            ("cut", _) => with(PRIMARY)[..60].to_owned(),
            ("garbled", _) => {
                let text = with(PRIMARY);
                let (head, signature) = text.split_at(text.find("sig%3D").unwrap() + 6);
                let first = if signature.starts_with('A') { 'B' } else { 'A' };
                format!("{head}{first}{}", &signature[1..])
            }
            ("wrong", _) => with(WELL_KNOWN_KEY.replace("C2y6", "C2y7").as_str()),
            ("read-only", _) => with(READ_ONLY),
            ("method", other) => signature(PRIMARY, other, &kind, &link, date),
            ("link", other) => signature(PRIMARY, method, &kind, other, date),
            ("token", _) => escaped(&self.names[sign]),
            (other, _) => panic!("unknown way to sign: {other}"),
        })
    }
}

/// A token as clients put it into the header.
fn escaped(token: &str) -> String {
    let escape = |c: char| match c {
        '=' => "%3D".to_owned(),
        '&' => "%26".to_owned(),
        ';' => "%3B".to_owned(),
        '+' => "%2B".to_owned(),
        '/' => "%2F".to_owned(),
        other => other.to_string(),
    };
    token.chars().map(escape).collect()
}

/// An answer as the files hold it: what every answer repeats is left out.
fn shown(answer: &Answer) -> String {
    let mut text = answer.status.to_string();
    for name in ["x-ms-substatus", "content-type", "connection", "x-ms-item-count"] {
        let value = answer.header(name).filter(|value| *value != "application/json");
        text += &value.map_or(String::new(), |value| format!("\n{name}: {value}"));
    }
    let body = match answer.body.split_once("\\r\\nActivityId:") {
        Some((message, _)) => format!("{message}…\"}}"),
        None => answer.body.clone(),
    };
    let body = runs_counted(&body);
    if body.is_empty() { text } else { format!("{text}\n{body}") }
}

/// The text with long runs of a character as `<<x*1000>>`, as requests spell them.
fn runs_counted(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let run = |same: &[char]| match same {
        [c, ..] if same.len() > 30 => format!("<<{c}*{}>>", same.len()),
        short => short.iter().collect(),
    };
    chars.chunk_by(|a, b| a == b).map(run).collect()
}

struct Request<'a> {
    method: &'a str,
    path: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: &'a str,
}

fn parse(text: &str) -> Request<'_> {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').expect("a request follows the comment").1;
    }
    let (head, body) = rest.split_once("\n\n").unwrap_or((rest, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next().unwrap().split_once(' ').expect("a method and a path");
    let headers = lines.map(|line| line.split_once(": ").expect("name: value")).collect();
    Request { method, path, headers, body }
}

/// The shape that every failure has: a code, and a message that ends with the activity id, the path
/// and the server's version.
fn check_shape(case: &str, answer: &Answer) {
    if answer.status < 400 {
        return;
    }
    assert_ne!(answer.status, 500, "{case}: {answer:?}");
    let body = Value::parse(answer.body.as_bytes());
    let body = body.unwrap_or_else(|e| panic!("{case}: {e}: {answer:?}"));
    assert!(body.get("code").as_str().is_some_and(|code| !code.is_empty()), "{case}: {answer:?}");
    let message = body.get("message").as_str().unwrap_or_default();
    let (_, tail) = message.split_once("\r\nActivityId: ").unwrap_or_default();
    assert!(tail.starts_with(ACTIVITY), "{case}: {message}");
    let server = concat!("Server: orrery/", env!("CARGO_PKG_VERSION"));
    assert!(tail.ends_with(server) || answer.status == 431, "{case}: {message}");
    assert_eq!(answer.header("x-ms-activity-id"), Some(ACTIVITY), "{case}");
}

fn check_file(path: &Path) {
    let bench = Bench::start();
    let text = std::fs::read_to_string(path).unwrap();
    let mut before = bench.contents();
    let mut written = Vec::new();
    for case in text.split("\n====\n") {
        let (request, _) = case.split_once("\n----\n").expect("an answer follows the request");
        let answer = bench.send(&parse(request));
        check_shape(request, &answer);
        let after = bench.contents();
        // Several operations of which one failed: all of them did.
        if answer.status < 300 && answer.status != 207 {
            before = after;
        } else {
            assert_eq!(after, before, "{request}: something was written");
        }
        written.push(format!("{request}\n----\n{}", shown(&answer)));
    }
    let written = written.join("\n\n====\n") + "\n";
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(path, written).unwrap();
        return;
    }
    for (expected, found) in text.split("\n====\n").zip(written.split("\n====\n")) {
        assert_eq!(found.trim_end(), expected.trim_end(), "in {}", path.display());
    }
}

#[test]
fn bad_requests_are_answered_as_the_files_say_and_change_nothing() {
    let folder = PathBuf::from("../../golden/http");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "txt")).collect();
    assert!(!files.is_empty());
    for file in files {
        check_file(&file);
    }
}
