//! `orrery advise` and `orrery model` on files.

use std::fmt::Write as _;

use crate::process::orrery;

fn run(arguments: &[&str]) -> (bool, String, String) {
    let output = orrery(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn data_in_files_is_advised_on_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (mut books, mut publishers) = (String::new(), String::new());
    for n in 0..100 {
        let _ = writeln!(books, r#"{{"id":"b{n}","pub-id":"p{}"}}"#, n % 30);
        let _ = writeln!(publishers, r#"{{"id":"p{n}","name":"N"}}"#);
    }
    std::fs::write(path("books.jsonl"), &books).unwrap();
    std::fs::write(path("publishers.jsonl"), publishers).unwrap();
    let files = [path("books.jsonl"), path("publishers.jsonl")];
    let items = ["--items", &files[0], "--items", &files[1]];
    let (ok, text, error) = run(&[&["advise"], &items[..]].concat());
    assert!(ok, "{error}");
    assert!(text.starts_with("200 items in 2 types.\n"), "{text}");
    assert!(text.contains("M07 info: books/pub-id"), "{text}");
    let (ok, text, _) = run(&[&["advise", "--json"], &items[..]].concat());
    assert!(ok && text.starts_with(r#"{"window":{"items":200"#), "{text}");
    let (ok, text, _) = run(&[&["model", "diagram", "--mermaid"], &items[..]].concat());
    assert!(ok && text.contains("T0 ..> T1 : /pub-id 100 %"), "{text}");
    let (ok, text, _) = run(&[&["model", "diagram", "--svg"], &items[..]].concat());
    assert!(ok && text.starts_with("<svg "), "{text}");
    std::fs::write(path("bad.jsonl"), books + "{\"id\":\n").unwrap();
    let (ok, _, error) = run(&["advise", "--items", &path("bad.jsonl")]);
    assert!(!ok && error.contains("bad.jsonl line 101"), "{error}");
    std::fs::write(path("model.json"), r#"{"version":1,"types":{},"relations":[{}]}"#).unwrap();
    let (ok, _, error) = run(&["model", "check", &path("model.json")]);
    assert!(!ok && error.contains("/relations/0"), "{error}");
}

#[test]
fn the_model_of_the_front_page_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once("```json\n{ \"version\"").expect("a model in README.md");
    let (model, _) = rest.split_once("```").expect("the end of the model");
    let file = folder.path().join("model.json");
    std::fs::write(&file, format!("{{ \"version\"{model}")).unwrap();
    let (ok, text, error) = run(&["model", "check", file.to_str().unwrap()]);
    assert!(ok && text.starts_with("2 types, 1 relations, 1 aggregates"), "{text}{error}");
}
