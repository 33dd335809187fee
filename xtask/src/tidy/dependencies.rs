//! Dependencies that are declared and never named: each costs everybody's build. A crate names what it
//! uses, so its name stands somewhere in the sources of the crate that declares it.

use super::File;

/// Checks every manifest against the sources below its folder, and what the workspace declares against
/// the manifests.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let manifests: Vec<&File> = files.iter().filter(|file| is_manifest(&file.path)).collect();
    let mut complaints = Vec::new();
    for manifest in &manifests {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let is_root = folder.is_empty();
        for name in declared(&manifest.text) {
            let word = name.replace('-', "_");
            let is_used = if is_root {
                manifests
                    .iter()
                    .any(|m| m.path != manifest.path && declared(&m.text).contains(&name))
            } else {
                let mut own = files.iter().filter(|f| f.path.starts_with(folder));
                own.any(|f| f.extension() == "rs" && names(&f.text, &word))
            };
            if !is_used {
                complaints.push(format!("{}: {name} is declared and not used", manifest.path));
            }
        }
    }
    complaints
}

/// Manifests of this workspace; the others have their own.
fn is_manifest(path: &str) -> bool {
    let folder = path.strip_suffix("Cargo.toml");
    folder
        .is_some_and(|f| f.is_empty() || f.starts_with("crates/") || f == "bench/" || f == "xtask/")
}

/// The names in every table of dependencies.
fn declared(manifest: &str) -> Vec<String> {
    let (mut found, mut within) = (Vec::new(), false);
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            within = table.trim_end_matches(']').ends_with("dependencies");
        } else if within && line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let end = line.find(['.', ' ', '=']).unwrap_or(line.len());
            found.push(line[..end].to_owned());
        }
    }
    found
}

/// Whether a string contains a whole word.
fn names(text: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(manifest: &str, source: &str) -> Vec<String> {
        check(&[file("crates/a/Cargo.toml", manifest), file("crates/a/src/lib.rs", source)])
    }

    #[test]
    fn a_dependency_is_named_in_the_sources_of_its_crate() {
        let manifest = "[dependencies]\nhyper-util.workspace = true\n\n[lints]\nworkspace = true\n";
        assert!(complaints(manifest, "use hyper_util::rt;\n").is_empty());
        let found = complaints(manifest, "use my_hyper_utility;\n");
        assert_eq!(found, ["crates/a/Cargo.toml: hyper-util is declared and not used"]);
        let tests = "[target.'cfg(unix)'.dev-dependencies]\nfuser = \"1\"\n";
        assert_eq!(complaints(tests, "").len(), 1);
    }

    #[test]
    fn what_the_workspace_declares_is_declared_by_a_crate() {
        let root = file("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n");
        let user = file("xtask/Cargo.toml", "[dependencies]\nserde = { workspace = true }\n");
        let source = file("xtask/src/main.rs", "use serde::Serialize;\n");
        assert_eq!(check(std::slice::from_ref(&root)).len(), 1);
        assert!(check(&[root, user, source]).is_empty());
    }
}
