//! Words that a file must not contain: leftovers, header strings outside their one
//! file, and places that exist on one machine only. Also: every Rust file says what it is.

use super::File;
use regex::Regex;
use std::sync::LazyLock;

/// Leftovers. They are put together here so that this file does not find itself.
const LEFTOVERS: &[&str] = &[
    concat!("#[", "ignore"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
];

/// How a header name begins as a literal; a message to the caller may mention one.
const HEADER_LITERAL: &str = concat!("\"x-ms", "-");
const HEADER_HOME: &str = "crates/server/src/wire/headers/";

/// What creates or renames files and folders without syncing their names.
const UNSYNCED: &[&str] = &[
    concat!("fs::", "rename("),
    concat!("fs::", "write("),
    concat!("fs::", "copy("),
    concat!("fs::", "hard_link("),
    concat!("File::", "create"),
    concat!("create", "_dir"),
    concat!(".create", "(true)"),
    concat!(".create_new", "(true)"),
];
const FILES_HOME: &str = "crates/files/src/";

/// Home folders and the like. Files that describe a container image may name its folders.
static MACHINE_PATH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(^|[\s"'`(=:,])/(home|root|work|Users)/[\w.-]+"#).expect("the pattern is valid")
});
const IMAGE_FILES: &[&str] = &["Dockerfile", ".devcontainer/"];

pub(super) fn check(files: &[File]) -> Vec<String> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    if file.extension() == "rs" && !file.text.starts_with("//!") {
        complaints.push(format!("{}:1: must start with //! and say what lives here", file.path));
    }
    if file.path.ends_with("package-lock.json") && file.text.contains("\"resolved\"") {
        complaints.push(format!("{}: must not name the registry it was made with", file.path));
    }
    let mut in_tests = is_test(&file.path);
    for (index, line) in file.text.lines().enumerate() {
        in_tests |= line.trim() == "#[cfg(test)]";
        if let Some(complaint) = check_line(file, line, in_tests) {
            complaints.push(format!("{}:{}: {complaint}", file.path, index + 1));
        }
    }
    complaints
}

fn check_line(file: &File, line: &str, in_tests: bool) -> Option<String> {
    let is_comment = line.trim_start().starts_with("//");
    if file.extension() == "rs" && !is_comment {
        if let Some(word) = LEFTOVERS.iter().find(|word| line.contains(**word)) {
            return Some(format!("{word}…: finish it, or assert what holds today"));
        }
        let is_ours = file.path.starts_with("crates/") && !file.path.starts_with(HEADER_HOME);
        if is_ours && !in_tests && line.contains(HEADER_LITERAL) {
            return Some(format!("header names live in {HEADER_HOME}"));
        }
        if let Some(call) = unsynced(&file.path, line).filter(|_| !in_tests) {
            return Some(format!("{call}…: orrery-files does it so that the name is durable"));
        }
    }
    let is_image = IMAGE_FILES.iter().any(|name| file.path.contains(name));
    let machine_path = MACHINE_PATH.find(line).filter(|_| !is_image)?;
    Some(format!("{} exists on one machine only", machine_path.as_str().trim()))
}

/// A call that leaves a name unsynced in what people run; tools of this repository may.
fn unsynced(path: &str, line: &str) -> Option<&'static str> {
    let is_product = path.starts_with("crates/") && !path.starts_with(FILES_HOME);
    UNSYNCED.iter().find(|call| is_product && line.contains(**call)).copied()
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&[file(path, text)]).len()
    }

    #[test]
    fn a_rust_file_says_what_it_is() {
        assert_eq!(count("crates/a/src/a.rs", "//! A.\n"), 0);
        assert_eq!(count("crates/a/src/a.rs", "use b;\n"), 1);
    }

    #[test]
    fn leftovers_are_errors_in_code_but_not_in_comments() {
        for word in LEFTOVERS {
            assert_eq!(count("crates/a/src/a.rs", &format!("//! A.\n{word}")), 1, "{word}");
            assert_eq!(count("crates/a/src/a.rs", &format!("//! No {word}")), 0, "{word}");
        }
    }

    #[test]
    fn header_names_have_one_home() {
        let text = format!("//! A.\nconst H: &str = {HEADER_LITERAL}version\";\n");
        assert_eq!(count("crates/server/src/dispatch.rs", &text), 1);
        assert_eq!(count("crates/server/src/wire/headers/mod.rs", &text), 0);
        assert_eq!(count("crates/server/tests/it/http.rs", &text), 0);
        assert_eq!(count("crates/server/src/dispatch/tests.rs", &text), 0);
        let inline = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{HEADER_LITERAL}\n}}\n");
        assert_eq!(count("crates/server/src/dispatch.rs", &inline), 0);
        let message = "//! A.\nconst M: &str = \"The header x-ms-date is missing.\";\n";
        assert_eq!(count("crates/server/src/dispatch.rs", message), 0);
    }

    #[test]
    fn names_of_files_are_synced_in_one_place() {
        for call in UNSYNCED {
            let text = format!("//! A.\nlet made = {call}(path);\n");
            assert_eq!(count("crates/cli/src/keys.rs", &text), 1, "{call}");
            assert_eq!(count("crates/files/src/lib.rs", &text), 0, "{call}");
            assert_eq!(count("crates/cli/tests/it/keys.rs", &text), 0, "{call}");
            assert_eq!(count("xtask/src/package.rs", &text), 0, "{call}");
            let test = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{call}(path);\n}}\n");
            assert_eq!(count("crates/cli/src/keys.rs", &test), 0, "{call}");
        }
    }

    #[test]
    fn paths_of_one_machine_are_errors() {
        let home = concat!("/ho", "me/ada/orrery");
        assert_eq!(count("docs/a.md", &format!("see {home}")), 1);
        assert_eq!(count(".devcontainer/Dockerfile", &format!("COPY . {home}")), 0);
        assert_eq!(count("docs/a.md", "GET /dbs/home/colls"), 0);
    }

    #[test]
    fn a_lock_file_names_no_registry() {
        assert_eq!(count("conformance/js/package-lock.json", "{\"resolved\": \"…\"}"), 1);
        assert_eq!(count("conformance/js/package-lock.json", "{}"), 0);
    }
}
