//! Data sets of our own making, one for each case and a clean one: every planted fault is found, and
//! nothing else is.

use super::*;
use crate::document::Model;

/// Items of one data set.
#[derive(Default)]
struct Data(Advisor);

impl Data {
    fn add(&mut self, container: &str, item: &str) {
        self.0.add(container, item.as_bytes()).expect(item);
    }

    fn report(self, model: Option<&str>) -> Report {
        let model = model.map(|text| {
            Model::parse(&Value::parse(text.as_bytes()).expect(text)).expect("a model")
        });
        self.0.finish(model.as_ref())
    }
}

/// All findings as `rule type path`, in the order of their text.
fn found(report: &Report) -> Vec<String> {
    let line = |f: &Finding| format!("{} {} {}", f.rule, f.item_type, f.path);
    let mut all: Vec<String> = report.findings.iter().map(line).collect();
    all.sort();
    all
}

/// A number that looks random and is always the same.
fn noise(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

fn person(n: u64, contacts: &str) -> String {
    format!(
        r#"{{"id":"p{n}","type":"person","firstName":"F{n}","lastName":"L{}","age":{},
        "addresses":[{{"line1":"{n} Main Street","city":"Town","zip":{}}}],
        "contactDetails":{contacts},"_ts":{}}}"#,
        n % 50,
        20 + n % 60,
        10_000 + n,
        1_700_000_000 + n
    )
}

const CONTACTS: &str = r#"[{"email":"a@b.example"},{"phone":"1"}]"#;

#[test]
fn people_whose_contact_details_have_two_types() {
    let mut data = Data::default();
    for n in 0..500 {
        let contacts = if n % 20 == 0 { r#"{"email":"a@b.example"}"# } else { CONTACTS };
        data.add("people", &person(n, contacts));
    }
    let report = data.report(None);
    assert_eq!(found(&report), ["M13 person /contactDetails"]);
    assert_eq!(report.window.items, 500);
    assert_eq!(report.window.from_s, Some(1_700_000_000));
    let patch = report.findings[0].patch.to_json();
    assert!(patch.contains(r#""properties":{"contactDetails":{"type":"array"}}"#), "{patch}");
    assert!(patch.contains(r#""action":"warn""#), "{patch}");
}

fn post(n: u64, comments: u64, dated: bool) -> String {
    let comment = |i: u64| {
        let date = if dated {
            format!(r#","date":"2024-{:02}-{:02}T10:00:00Z""#, 1 + i / 28 % 12, 1 + i % 28)
        } else {
            String::new()
        };
        format!(r#"{{"id":{i},"author":"anon","comment":"something useful, I'm sure"{date}}}"#)
    };
    let comments: Vec<String> = (0..comments).map(comment).collect();
    format!(
        r#"{{"id":"post{n}","type":"post","name":"What's new","comments":[{}]}}"#,
        comments.join(",")
    )
}

#[test]
fn a_blog_whose_comments_grow_without_end() {
    let mut data = Data::default();
    for n in 0..60 {
        data.add("blog", &post(n, 200 + n, true));
    }
    let report = data.report(None);
    assert_eq!(found(&report), ["M01 post /comments"]);
    let finding = &report.findings[0];
    assert!(finding.reason.contains("the dates rise"), "{}", finding.reason);
    assert!(finding.reason.contains("reaches 2 MB about 20"), "{}", finding.reason);
    let patch = finding.patch.to_json();
    assert!(patch.contains(r#""array":"/comments""#), "{patch}");
    let value = report.to_value();
    let first = value.get("findings").at(0);
    for part in ["window", "counts", "samples", "cost", "confidence", "reason", "patch"] {
        assert!(!first.get(part).is_undefined(), "{part}");
    }
}

#[test]
fn growth_shows_in_later_versions_too_and_is_not_guessed() {
    let mut versions = Data::default();
    for round in 0..3 {
        for n in 0..40 {
            versions.add("blog", &post(n, 150 + round * 10, false));
        }
    }
    assert_eq!(found(&versions.report(None)), ["M01 post /comments"]);
    let mut still = Data::default();
    for n in 0..40 {
        still.add("blog", &post(n, 150, false));
    }
    let report = still.report(None);
    assert!(found(&report).is_empty());
    assert!(report.too_little_data[0].contains("whether they grow is unknown"));
}

#[test]
fn portfolios_that_copy_prices_that_change() {
    let mut data = Data::default();
    for n in 0..200 {
        let holding = |i: u64| {
            let stock = noise(n * 7 + i) % 10;
            format!(
                r#"{{"numberHeld":{},"stock":{{"symbol":"S{stock}","open":{},"high":{},"low":1}}}}"#,
                noise(n + i) % 90,
                noise(n * 3 + i) % 500,
                noise(n * 5 + i) % 500
            )
        };
        let holdings: Vec<String> = (0..3).map(holding).collect();
        data.add(
            "portfolios",
            &format!(
                r#"{{"id":"f{n}","type":"portfolio","owner":"O{n}","holdings":[{}]}}"#,
                holdings.join(",")
            ),
        );
    }
    let report = data.report(None);
    assert_eq!(found(&report), ["M03 portfolio /holdings/*/stock"]);
    let reason = &report.findings[0].reason;
    assert!(reason.contains("is not in the data"), "{reason}");
}

#[test]
fn portfolios_that_refer_by_number_to_ids_that_are_strings() {
    let mut data = Data::default();
    for n in 1..=30 {
        let item = format!(r#"{{"id":"{n}","symbol":"S{n}","open":1,"high":2,"low":0}}"#);
        data.add("stocks", &item);
    }
    for n in 0..100 {
        let stock = if n == 17 { 99 } else { 1 + noise(n) % 30 };
        data.add(
            "people",
            &format!(
                r#"{{"id":"p{n}","firstName":"F{n}","lastName":"L{n}",
                "holdings":[{{"numberHeld":{},"stockId":{stock}}}]}}"#,
                noise(n) % 30
            ),
        );
    }
    let report = data.report(None);
    assert_eq!(found(&report), ["M07 people /holdings/*/stockId"]);
    let finding = &report.findings[0];
    assert!(finding.reason.contains("ids are strings"), "{}", finding.reason);
    assert!(finding.reason.contains("lead nowhere: 99"), "{}", finding.reason);
    assert_eq!(finding.samples, ["p17".into()]);
    let patch = finding.patch.to_json();
    assert!(patch.contains(r#""coerce":"string""#), "{patch}");
    assert!(patch.contains(r#""onMissing":"allow""#), "{patch}");
}

#[test]
fn publishers_that_hold_the_ids_of_all_their_books() {
    let mut data = Data::default();
    for n in 0..25 {
        let ids: Vec<String> = (0..150).map(|i| format!("\"b{}\"", n * 150 + i)).collect();
        data.add(
            "library",
            &format!(
                r#"{{"id":"pub{n}","type":"publisher","name":"P{n}","books":[{}]}}"#,
                ids.join(",")
            ),
        );
    }
    for n in 0..25 * 150 {
        let item = format!(r#"{{"id":"b{n}","type":"book","title":"T{n}"}}"#);
        data.add("library", &item);
    }
    let report = data.report(None);
    assert_eq!(found(&report), ["M07 publisher /books/*", "M08 publisher /books"]);
    let patch = report.findings.iter().find(|f| f.rule == "M08").expect("M08").patch.to_json();
    assert!(patch.contains(r#""from":"book","path":"/publisherId""#), "{patch}");
}

/// Authors and books joined by items of their own; every fifth counter is wrong if `faulty`.
fn library(data: &mut Data, faulty: bool) {
    let count =
        |author: u64| (0..100).filter(|b| b % 10 == author || (b + 3) % 10 == author).count();
    for n in 0..10 {
        let wrong = usize::from(faulty && n % 5 == 0);
        data.add(
            "library",
            &format!(
                r#"{{"id":"a{n}","type":"author","firstName":"F{n}","countOfBooks":{}}}"#,
                count(n) + wrong
            ),
        );
    }
    for n in 0..100 {
        data.add(
            "library",
            &format!(
                r#"{{"id":"b{n}","type":"book","title":"Title {n}","pages":{},
                "authors":[{{"id":"a{}"}},{{"id":"a{}"}}]}}"#,
                noise(n) % 900,
                n % 10,
                (n + 3) % 10
            ),
        );
    }
}

#[test]
fn authors_and_books_with_joins_and_wrong_counters() {
    let mut data = Data::default();
    library(&mut data, true);
    for n in 0..200 {
        data.add(
            "library",
            &format!(
                r#"{{"id":"j{n}","type":"joining","authorId":"a{}","bookId":"b{}"}}"#,
                n % 10,
                n % 100
            ),
        );
    }
    let report = data.report(None);
    assert_eq!(
        found(&report),
        [
            "M07 book /authors/*/id",
            "M07 joining /authorId",
            "M07 joining /bookId",
            "M09 joining ",
            "M10 author /countOfBooks",
        ]
    );
    let counter = report.findings.iter().find(|f| f.rule == "M10").expect("M10");
    assert!(counter.reason.contains("in 2 of 10 items"), "{}", counter.reason);
    assert_eq!(counter.samples.len(), 2);
    assert!(counter.patch.to_json().contains(r#""value":"COUNT(1)""#));
}

#[test]
fn large_items_are_noted_by_their_size() {
    let check = |bytes: usize, expected: Option<Severity>| {
        let mut data = Data::default();
        for n in 0..30 {
            let body = "x".repeat(bytes);
            data.add("files", &format!(r#"{{"id":"{n}","name":"n{n}","body":"{body}"}}"#));
        }
        let report = data.report(None);
        let found = report.findings.iter().find(|f| f.rule == "M02");
        assert_eq!(found.map(|f| f.severity), expected, "{bytes}");
        assert!(found.is_none_or(|f| &*f.path == "/body"));
    };
    check(90_000, None);
    check(150_000, Some(Severity::Info));
    check(1_200_000, Some(Severity::Warning));
    check(1_700_000, Some(Severity::Critical));
}

#[test]
fn a_clean_data_set_has_no_findings() {
    let model = r#"{"version":1,"types":{
        "book":{"container":"library","where":"c.type = 'book'"},
        "author":{"container":"library","where":"c.type = 'author'"}},
        "relations":[{"name":"author","from":"book","path":"/authors/*/id","to":"author",
            "inverse":{"name":"written"}}],
        "aggregates":[{"on":"author","path":"/countOfBooks","of":"written","value":"COUNT(1)"}]}"#;
    let mut data = Data::default();
    library(&mut data, false);
    for n in 0..500 {
        data.add("people", &person(n, CONTACTS));
        // A price list in which a stable object is embedded everywhere, and a vector that is long.
        let vector: Vec<String> = (0..128).map(|i| format!("0.{}", noise(n + i) % 1000)).collect();
        data.add(
            "products",
            &format!(
                r#"{{"id":"prod-{n}","category":{{"id":"c{}","name":"Category {}","tax":19}},
                "rating":{},"stock":{},"tags":["t{}","u{}"],"embedding":[{}]}}"#,
                n % 5,
                n % 5,
                1 + n % 5,
                n,
                n % 7,
                n % 3,
                vector.join(",")
            ),
        );
    }
    let report = data.report(Some(model));
    assert_eq!(found(&report), Vec::<String>::new());
    assert_eq!(report.links.len(), 1);
    assert!(report.links[0].declared);
}

#[test]
fn too_few_items_are_said_to_be_too_few() {
    let mut data = Data::default();
    for n in 0..5 {
        data.add("people", &person(n, if n == 0 { "{}" } else { CONTACTS }));
    }
    let report = data.report(None);
    assert!(found(&report).is_empty());
    assert!(report.too_little_data[0].contains("has 5 items"), "{:?}", report.too_little_data);
}

#[test]
fn memory_is_bounded_and_bad_lines_are_told() {
    let mut advisor = Advisor::default();
    for n in 0..3000 {
        advisor
            .add("c", format!(r#"{{"id":"{n}","k{n}":{{"x{n}":1}}}}"#).as_bytes())
            .expect("an item");
    }
    assert!(advisor.add("c", b"{\"id\":").is_err());
    assert!(advisor.add("c", b"[1]").is_ok());
    let report = advisor.finish(None);
    assert!(report.types.len() <= 64, "{}", report.types.len());
    assert_eq!(report.window.items, 3000);
}
