//! Types: a name that is visible beyond its file stands for one thing in the whole workspace, and no type
//! is an object that knows everything.

use super::source::Source;
use std::collections::BTreeMap;

const METHODS_MAX: usize = 40;
const FILES_MAX: usize = 3;

/// Names that still stand for several things; the list may only shrink.
const SHARED: &[&str] = &["Value"];

/// Names that every crate may have: they are read together with the crate's or module's name.
const LOCAL: &[&str] = &["Error", "Result"];

pub(super) fn check(source: &Source) -> Vec<String> {
    let mut complaints = large(source);
    complaints.extend(twice(source).into_iter().filter_map(|(name, paths)| {
        let is_known = SHARED.contains(&name) || LOCAL.contains(&name);
        let paths = paths.join(", ");
        (!is_known).then(|| format!("the type {name} is defined more than once: {paths}"))
    }));
    complaints
}

/// Entries of the lists above that are not needed any more.
pub(super) fn notices(source: &Source) -> Vec<String> {
    let twice = twice(source);
    let done = SHARED.iter().filter(|name| !twice.contains_key(*name));
    done.map(|name| format!("{name} is defined once now: take it off the list in tidy/types.rs"))
        .collect()
}

fn large(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((crate_name, name), files) in &source.methods {
        let methods: usize = files.values().sum();
        if methods > METHODS_MAX && files.len() > FILES_MAX {
            let count = files.len();
            complaints.push(format!(
                "{crate_name}: {name} has {methods} methods in {count} files, at most {METHODS_MAX} allowed"
            ));
        }
    }
    complaints
}

fn twice(source: &Source) -> BTreeMap<&str, Vec<&str>> {
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for found in &source.visible_types {
        paths.entry(&found.name).or_default().push(&found.path);
    }
    paths.retain(|_, paths| paths.len() > 1);
    paths
}

#[cfg(test)]
mod tests {
    use super::super::{File, file};
    use super::*;

    fn complaints(files: &[File]) -> Vec<String> {
        check(&Source::read(files))
    }

    #[test]
    fn a_visible_name_stands_for_one_thing() {
        let lock = |path| file(path, "//! A.\npub(crate) struct StripeLock;\n");
        let private = |path| file(path, "//! A.\nstruct StripeLock;\n");
        assert_eq!(complaints(&[lock("crates/a/src/a.rs"), lock("crates/b/src/b.rs")]).len(), 1);
        assert_eq!(complaints(&[lock("crates/a/src/a.rs"), private("crates/b/src/b.rs")]).len(), 0);
        let result = |path| file(path, "//! A.\npub type Result = ();\n");
        assert_eq!(
            complaints(&[result("crates/a/src/a.rs"), result("crates/b/src/b.rs")]).len(),
            0
        );
    }

    #[test]
    fn a_type_that_knows_everything_is_an_error() {
        let part = |path: &str, methods| {
            let body = "    fn m(&self) {}\n".repeat(methods);
            file(path, &format!("//! A.\nimpl Everything {{\n{body}}}\n"))
        };
        let paths =
            ["crates/a/src/a.rs", "crates/a/src/b.rs", "crates/a/src/c.rs", "crates/a/src/d.rs"];
        let files = |methods| paths.map(|path| part(path, methods));
        assert_eq!(complaints(&files(10)).len(), 0);
        assert_eq!(complaints(&files(11)).len(), 1);
        assert_eq!(complaints(&files(20)[..3]).len(), 0, "three files may be large");
    }
}
