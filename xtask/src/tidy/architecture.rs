//! Documents that lead through the code name real things: every path, type and function that stands in a code
//! span of ARCHITECTURE.md or of the glossary exists.

use super::File;
use super::source::Source;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const GUIDES: &[&str] =
    &["ARCHITECTURE.md", "docs/glossary.md", "docs/store.md", "CONTRIBUTING.md"];

/// Names of the standard library and of other libraries that the guides mention.
const FOREIGN: &[&str] = &["Arc", "ArcSwap", "CachePadded", "OrdMap", "String", "Vec"];

static SPAN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("`([^`]+)`").expect("the pattern is valid"));
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[a-z][a-z0-9_-]*(/[A-Za-z0-9_.*-]+)+/?$").expect("the pattern is valid")
});
static FILE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[a-z][a-z0-9_]*\.rs$").expect("the pattern is valid"));
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[a-z_0-9]+::)*(?:[A-Z][a-z]\w*)(?:::\w+)?(?:\(\))?$|^(?:[a-z_0-9]+::)+[a-z_0-9]+(?:\(\))?$|^[a-z_0-9]+\(\)$")
        .expect("the pattern is valid")
});

pub(super) fn check(files: &[File], source: &Source) -> Vec<String> {
    let tree = Tree::read(files);
    let guides = files.iter().filter(|file| GUIDES.contains(&file.path.as_str()));
    guides.flat_map(|guide| check_guide(guide, &tree, source)).collect()
}

fn check_guide(guide: &File, tree: &Tree, source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut in_block = false;
    for (index, line) in guide.text.lines().enumerate() {
        in_block ^= line.trim_start().starts_with("```");
        if in_block {
            continue;
        }
        for span in
            SPAN.captures_iter(line).map(|found| found.extract::<1>().1[0].trim().to_owned())
        {
            let exists = if PATH.is_match(&span) || FILE.is_match(&span) {
                tree.has(&span)
            } else if NAME.is_match(&span) {
                names_exist(&span, tree, source)
            } else {
                true
            };
            if !exists {
                complaints.push(format!("{}:{}: `{span}` does not exist", guide.path, index + 1));
            }
        }
    }
    complaints
}

fn names_exist(span: &str, tree: &Tree, source: &Source) -> bool {
    let names: Vec<&str> = span.trim_end_matches("()").split("::").collect();
    let exists = |name: &&str| {
        source.types.contains(*name)
            || source.functions.contains(*name)
            || source.members.contains(*name)
            || tree.modules.contains(*name)
            || FOREIGN.contains(name)
    };
    names.iter().all(exists)
}

/// Files and folders of the repository.
struct Tree {
    /// Every file and folder, by its path from the root.
    paths: BTreeSet<String>,
    /// Names of modules and crates.
    modules: BTreeSet<String>,
}

impl Tree {
    fn read(files: &[File]) -> Self {
        let mut tree = Self { paths: BTreeSet::new(), modules: BTreeSet::new() };
        for file in files {
            let mut path = file.path.as_str();
            tree.paths.insert(path.to_owned());
            while let Some((folder, _)) = path.rsplit_once('/') {
                tree.paths.insert(folder.to_owned());
                path = folder;
            }
        }
        for path in &tree.paths {
            let name = path.rsplit('/').next().unwrap_or(path);
            tree.modules.insert(name.trim_end_matches(".rs").to_owned());
        }
        tree
    }

    /// A path from the root, from a crate's sources, or the end of a path below them.
    fn has(&self, span: &str) -> bool {
        let span = span.trim_end_matches('/');
        let span = span.rsplit_once("/*").map_or(span, |(folder, _)| folder);
        if self.paths.contains(span) {
            return true;
        }
        let with_extension = format!("{span}.rs");
        let inside = span
            .split_once('/')
            .map(|(crate_name, rest)| format!("crates/{crate_name}/src/{rest}"));
        let beside = format!("crates/{span}");
        let ends = |path: &String| {
            path.starts_with("crates/")
                && [span, with_extension.as_str()]
                    .iter()
                    .any(|end| path.strip_suffix(end).is_some_and(|rest| rest.ends_with('/')))
        };
        inside.is_some_and(|path| {
            self.paths.contains(&path) || self.paths.contains(&format!("{path}.rs"))
        }) || self.paths.contains(&beside)
            || self.paths.iter().any(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(span: &str) -> usize {
        let code = "//! A.\npub struct Lock;\nimpl Lock {\n    pub fn take(&self) {}\n}\n";
        let files = [
            file("ARCHITECTURE.md", &format!("See `{span}`.\n```\n`nothing/here`\n```\n")),
            file("crates/engine/src/transaction/lock.rs", code),
            file("golden/plans/order.txt", ""),
        ];
        check(&files, &Source::read(&files)).len()
    }

    #[test]
    fn what_exists_may_be_named() {
        for span in [
            "engine/transaction/lock",
            "transaction/lock.rs",
            "lock.rs",
            "golden/plans",
            "engine/transaction",
            "Lock",
            "Lock::take",
            "lock::Lock",
            "take()",
            "POST /dbs/a",
            "cargo xtask tidy",
            "undefined",
        ] {
            assert_eq!(complaints(span), 0, "{span}");
        }
    }

    #[test]
    fn what_does_not_exist_is_an_error() {
        for span in [
            "engine/gate",
            "engine/transaction/gate",
            "gate.rs",
            "Gate",
            "Lock::pass",
            "gate::Lock",
            "pass()",
        ] {
            assert_eq!(complaints(span), 1, "{span}");
        }
    }
}
