//! The cases under `golden/plans`: items, a query, its plan and its rows.
//!
//! ```text
//! # What the case shows.
//! > container {"compositeIndexes":[…]}        the indexing policy of what follows
//! > many 500 {"id":"#","pk":"p#3","n":#}      so many items: # is the number, #3 modulo 3
//! > item {"id":"x","pk":"p1"}
//! [plan]> SELECT VALUE c.id FROM c WHERE c.n = 3
//! ---
//! IndexSeek /n = 3
//! "3"
//! ```
//!
//! `UPDATE_GOLDENFILES=1` writes what is under the line anew.

use std::fmt::Write as _;
use std::path::Path;

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{KeyComponent, PartitionKey, Value};

use crate::world::{World, json};

#[test]
fn every_plan_is_the_one_that_is_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/plans");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the golden folder")
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 4, "only {} files were found", files.len());
    let update = std::env::var_os("UPDATE_GOLDENFILES").is_some();
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a golden file");
        let now = rerun(&text);
        if update {
            std::fs::write(&file, now).expect("the file is written");
        } else if now != text {
            wrong.push(format!("{}\n{now}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "plans or rows differ:\n{}", wrong.join("\n"));
}

/// The text with the plans and rows of now.
fn rerun(text: &str) -> String {
    let mut world = fresh("{}");
    let mut out = String::new();
    let mut skipping = false;
    for line in text.lines() {
        if skipping && !line.is_empty() {
            continue;
        }
        skipping = false;
        out.push_str(line);
        out.push('\n');
        if let Some(policy) = line.strip_prefix("> container ") {
            world = fresh(policy);
        } else if let Some(item) = line.strip_prefix("> item ") {
            write(&world, item);
        } else if let Some(many) = line.strip_prefix("> many ") {
            let (count, item) = many.split_once(' ').expect("a number and an item");
            for number in 0..count.parse::<usize>().expect("a number") {
                write(&world, &numbered(item, number));
            }
        } else if let Some(query) = line.strip_prefix("[plan") {
            let (key, query) = query.split_once("]> ").expect("a query");
            let _ = write!(out, "---\n{}", answer(&world, key.trim(), query));
            skipping = true;
        }
    }
    out
}

fn fresh(policy: &str) -> World {
    let mut world = World::memory();
    world.database();
    let body = format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/pk"],"kind":"Hash"}},"indexingPolicy":{policy}}}"#
    );
    world.create_container(&body, None);
    world
}

fn write(world: &World, item: &str) {
    let container = world.container("c");
    world.engine().items().create(&container, None, item.as_bytes()).expect(item);
}

/// The pattern with `#` for the number and `#7` for the number modulo 7.
fn numbered(pattern: &str, number: usize) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('#') {
        out.push_str(before);
        let digits = after.chars().take_while(char::is_ascii_digit).count();
        let modulus = after[..digits].parse().unwrap_or(usize::MAX);
        let _ = write!(out, "{}", number % modulus);
        rest = &after[digits..];
    }
    out + rest
}

fn answer(world: &World, key: &str, query: &str) -> String {
    let container = world.container("c");
    let partition_key =
        (!key.is_empty()).then(|| PartitionKey(vec![KeyComponent::String(key.into())]));
    let scope = container.scope(&ScopeRequest { partition_key, ..Default::default() });
    let body = format!(r#"{{"query":{}}}"#, Value::from(query).to_json());
    let request = QueryRequest::parse(&json(&body)).expect(query);
    let paging = Paging { crosses: true, explains: true, ..Paging::default() };
    let size = PageSize { items: 100 };
    let scope = scope.expect("a scope");
    let page = world.engine().queries().query_items(&container, &scope, &request, size, &paging);
    let page = page.expect(query);
    let mut out = page.report.plan.expect("a plan").to_text();
    for row in page.rows.iter().take(5) {
        let _ = writeln!(out, "{row}");
    }
    if page.rows.len() > 5 {
        let _ = writeln!(out, "… {} rows", page.rows.len());
    }
    out
}
