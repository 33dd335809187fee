//! What the product's Rust sources define, read from rustfmt's layout: types, functions and methods with
//! the files that hold them. Tests are left out.

use super::File;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^(\s*)(pub(?:\(crate\))? )?(?:pub\([a-z]+\) )?(?:struct|enum|trait|union|type) (\w+)",
    )
    .expect("the pattern is valid")
});
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*(?:pub(?:\([a-z]+\))? )?(?:const )?(?:async )?(?:unsafe )?fn (\w+)")
        .expect("the pattern is valid")
});
static INHERENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^impl(?:<.*?>)? (?:\w+::)*(\w+)(?:<.*>)?(?: \{|$)").expect("the pattern is valid")
});
static MEMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s+(?:pub(?:\([a-z]+\))? )?(\w+)(?:[:,({ ]|$)").expect("the pattern is valid")
});

/// A type that is visible beyond its module's parent.
pub(super) struct Type {
    pub(super) name: String,
    pub(super) path: String,
}

/// What all files together define.
#[derive(Default)]
pub(super) struct Source {
    pub(super) visible_types: Vec<Type>,
    /// Every type, visible or not.
    pub(super) types: BTreeSet<String>,
    pub(super) functions: BTreeSet<String>,
    /// Fields and variants, and whatever else begins a line like one.
    pub(super) members: BTreeSet<String>,
    /// Methods of inherent implementations: crate and type, then file, then how many.
    pub(super) methods: BTreeMap<(String, String), BTreeMap<String, usize>>,
}

impl Source {
    pub(super) fn read(files: &[File]) -> Self {
        let mut source = Self::default();
        files.iter().filter(|file| is_product(file)).for_each(|file| source.add(file));
        source
    }

    fn add(&mut self, file: &File) {
        let crate_name = file.path.split('/').nth(1).unwrap_or_default();
        let mut implemented: Option<String> = None;
        for line in file.text.lines() {
            if line.trim() == "#[cfg(test)]" && !line.starts_with(' ') {
                break;
            }
            if let Some(found) = TYPE.captures(line) {
                let name = found[3].to_owned();
                if found.get(2).is_some() && found[1].is_empty() {
                    let path = file.path.clone();
                    self.visible_types.push(Type { name: name.clone(), path });
                }
                self.types.insert(name);
            }
            if let Some(found) = FUNCTION.captures(line) {
                self.functions.insert(found[1].to_owned());
                let is_method = line.starts_with("    ") && !line.starts_with("     ");
                if let Some(owner) = implemented.as_ref().filter(|_| is_method) {
                    let key = (crate_name.to_owned(), owner.clone());
                    *self.methods.entry(key).or_default().entry(file.path.clone()).or_default() +=
                        1;
                }
            } else if let Some(found) = MEMBER.captures(line) {
                self.members.insert(found[1].to_owned());
            }
            if let Some(found) = INHERENT.captures(line) {
                implemented = Some(found[1].to_owned());
            } else if line.starts_with('}') {
                implemented = None;
            }
        }
    }
}

fn is_product(file: &File) -> bool {
    let path = &file.path;
    let is_source =
        path.starts_with("crates/") && path.contains("/src/") && file.extension() == "rs";
    is_source && !path.contains("/tests/") && !path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn types_functions_and_methods_are_found() {
        let text = "//! A.\npub(crate) struct Lock<'a> {\n    stripes: &'a [u8],\n}\nenum Mode {\n    Shared,\n}\n\
                    impl<'a> Lock<'a> {\n    pub fn take(&self) {\n        fn inner() {}\n    }\n}\n\
                    impl Drop for Lock<'_> {\n    fn drop(&mut self) {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    struct Fake;\n}\n";
        let source = Source::read(&[file("crates/engine/src/lock.rs", text)]);
        let visible: Vec<_> = source.visible_types.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(visible, ["Lock"]);
        assert!(source.types.contains("Mode") && !source.types.contains("Fake"));
        assert!(source.functions.contains("inner") && source.functions.contains("drop"));
        assert!(source.members.contains("Shared") && source.members.contains("stripes"));
        let key = ("engine".to_owned(), "Lock".to_owned());
        assert_eq!(source.methods[&key].values().sum::<usize>(), 1);
    }

    #[test]
    fn tests_and_tools_are_left_out() {
        for path in ["crates/a/tests/it/b.rs", "crates/a/src/b/tests.rs", "xtask/src/b.rs"] {
            assert!(Source::read(&[file(path, "pub struct B;\n")]).types.is_empty(), "{path}");
        }
    }
}
