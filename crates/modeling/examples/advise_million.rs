//! A million items through the advisor, to measure its time and memory from outside:
//! `cargo build --release -p orrery-modeling --example advise_million`, then run it under `time -v`.

#![expect(clippy::print_stdout, reason = "it says what it has seen")]

use std::fmt::Write as _;

use orrery_modeling::advisor::Advisor;

fn main() {
    let mut advisor = Advisor::default();
    let (mut line, mut bytes) = (String::new(), 0);
    for n in 0_u64..1_000_000 {
        let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        line.clear();
        let written = if n % 10 == 0 {
            write!(
                line,
                r#"{{"id":"a{n}","type":"author","name":"Author {n}","country":"C{}"}}"#,
                noise % 200
            )
        } else {
            write!(
                line,
                r#"{{"id":"b{n}","type":"book","title":"Title {noise}","pages":{},"price":{}.5,
                "authors":[{{"id":"a{}","role":"main"}},{{"id":"a{}","role":"other"}}],
                "tags":["t{}","t{}"],"summary":"{noise} words about nothing in particular, at length",
                "dimensions":{{"w":{},"h":{}}},"_ts":{}}}"#,
                noise % 900,
                noise % 90,
                noise % 100_000 * 10,
                n / 7 % 100_000 * 10,
                noise % 50,
                n % 90,
                noise % 30,
                n % 40,
                1_700_000_000 + n
            )
        };
        assert!(written.is_ok());
        bytes += line.len();
        advisor.add("library", line.as_bytes()).expect("each line is JSON");
    }
    let report = advisor.finish(None);
    println!("{} items, {bytes} bytes, {} findings", report.window.items, report.findings.len());
    for finding in &report.findings {
        println!("{} {}{}: {}", finding.rule, finding.item_type, finding.path, finding.reason);
    }
}
