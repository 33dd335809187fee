//! Which crate may use which. The layers point one way; only a crate edge makes the compiler
//! refuse an upward call, so an edge that is not in the table below is an error.

use serde_json::Value;

/// For each crate the crates of ours it may use. A new crate needs a row here, and a reason.
const ALLOWED: &[(&str, &[&str])] = &[
    ("orrery-files", &[]),
    ("orrery-types", &[]),
    ("orrery-storage", &["orrery-files", "orrery-types"]),
    // A storage engine beside those that every build has: its driver is asynchronous inside.
    ("orrery-postgres", &["orrery-storage", "orrery-types"]),
    ("orrery-index", &["orrery-storage", "orrery-types"]),
    ("orrery-query", &["orrery-index", "orrery-types"]),
    ("orrery-script", &["orrery-types"]),
    ("orrery-direct", &["orrery-types"]),
    ("orrery-modeling", &["orrery-types"]),
    (
        "orrery-engine",
        &[
            "orrery-query",
            "orrery-script",
            "orrery-modeling",
            "orrery-index",
            "orrery-storage",
            "orrery-types",
        ],
    ),
    ("orrery-server", &["orrery-direct", "orrery-engine", "orrery-files", "orrery-types"]),
    // The binary puts the parts together: store, engine, server; and advises on files without them.
    (
        "orrery",
        &[
            "orrery-server",
            "orrery-engine",
            "orrery-modeling",
            "orrery-postgres",
            "orrery-storage",
            "orrery-files",
            "orrery-types",
        ],
    ),
    // Measures from outside; it knows frames as clients do, the store, and what index terms an item has, only to write the same
    // commits without a server.
    (
        "orrery-bench",
        &["orrery-direct", "orrery-index", "orrery-postgres", "orrery-storage", "orrery-types"],
    ),
    ("xtask", &[]),
];

/// Libraries that only some crates may use: everything below the server is blocking code, and
/// only programs may have errors without a type.
const CONFINED: &[(&str, &[&str])] = &[
    ("anyhow", &["orrery", "orrery-bench", "xtask"]),
    ("axum", &["orrery-server"]),
    ("hyper", &["orrery-server", "orrery", "orrery-bench"]),
    ("tokio", &["orrery-server", "orrery", "orrery-bench"]),
];

/// Checks the answer of `cargo metadata`. Edges of tests are free: a test may look from above.
pub(super) fn check(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut complaints = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("crate {name} has no row in xtask/src/tidy/edges.rs"));
            continue;
        };
        for used in normal_dependencies(package) {
            let is_ours = packages.iter().any(|other| other["name"] == used);
            if is_ours && !allowed.contains(&used) {
                complaints.push(format!("crate {name} must not use {used}: layers point one way"));
            }
            let confined = CONFINED.iter().find(|(library, _)| *library == used);
            if confined.is_some_and(|(_, users)| !users.contains(&name)) {
                complaints.push(format!("crate {name} must not use the library {used}"));
            }
        }
    }
    complaints
}

fn normal_dependencies(package: &Value) -> impl Iterator<Item = &str> {
    package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `edges` are (user, used, kind); returns the complaints.
    fn complaints(edges: &[(&str, &str, Value)]) -> Vec<String> {
        let names = edges.iter().flat_map(|(user, used, _)| [*user, *used]);
        let mut names: Vec<_> =
            names.filter(|n| n.starts_with("orrery") || *n == "xtask").collect();
        names.sort_unstable();
        names.dedup();
        let package = |name: &str| {
            let own = edges.iter().filter(|(user, _, _)| *user == name);
            let list: Vec<_> =
                own.map(|(_, used, kind)| json!({"name": used, "kind": kind})).collect();
            json!({"name": name, "dependencies": list})
        };
        check(&json!({"packages": names.iter().map(|n| package(n)).collect::<Vec<_>>()}))
    }

    #[test]
    fn a_downward_edge_is_fine() {
        assert!(complaints(&[("orrery-engine", "orrery-storage", Value::Null)]).is_empty());
    }

    #[test]
    fn an_upward_edge_is_an_error() {
        let found = complaints(&[("orrery-storage", "orrery-engine", Value::Null)]);
        assert_eq!(
            found,
            ["crate orrery-storage must not use orrery-engine: layers point one way"]
        );
    }

    #[test]
    fn siblings_do_not_see_each_other() {
        assert_eq!(complaints(&[("orrery-query", "orrery-script", Value::Null)]).len(), 1);
    }

    #[test]
    fn a_test_may_look_from_above() {
        assert!(complaints(&[("orrery-storage", "orrery-engine", json!("dev"))]).is_empty());
    }

    #[test]
    fn async_stops_at_the_server() {
        let found = complaints(&[("orrery-engine", "tokio", Value::Null)]);
        assert_eq!(found, ["crate orrery-engine must not use the library tokio"]);
        assert!(complaints(&[("orrery-server", "tokio", Value::Null)]).is_empty());
    }

    #[test]
    fn an_unknown_crate_needs_a_row() {
        let found = complaints(&[("orrery-novelty", "serde", Value::Null)]);
        assert_eq!(found, ["crate orrery-novelty has no row in xtask/src/tidy/edges.rs"]);
    }
}
