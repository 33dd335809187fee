//! COMPAT.md lists every function: the list is made from the registry, and this test fails when
//! the two differ.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use orrery_query::functions::registry;

const BEGIN: &str = "<!-- functions: begin -->\n";
const END: &str = "<!-- functions: end -->";

fn table() -> String {
    let mut topics: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (topic, function) in registry().filter(|(_, f)| !f.name.starts_with('_')) {
        topics.entry(topic).or_default().push(function.name);
    }
    let mut out = String::from("| Topic | Functions |\n|---|---|\n");
    for (topic, mut names) in topics {
        names.sort_unstable();
        let _ = writeln!(out, "| {topic} | {} |", names.join(", "));
    }
    out
}

#[test]
fn the_list_of_functions_is_that_of_the_registry() {
    let path = Path::new("../../COMPAT.md");
    let text = std::fs::read_to_string(path).expect("COMPAT.md");
    let (head, rest) = text.split_once(BEGIN).expect("the mark before the list");
    let (list, tail) = rest.split_once(END).expect("the mark behind the list");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        let updated = format!("{head}{BEGIN}{}{END}{tail}", table());
        std::fs::write(path, updated).expect("COMPAT.md can be written");
        return;
    }
    assert_eq!(list, table(), "run with UPDATE_GOLDENFILES=1 and read what changed");
}
