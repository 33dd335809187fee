//! File names: a file is named by its noun, so a name that says nothing is an error.

use super::File;

const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        let parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
        for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
            complaints.push(format!("{}: \"{part}\" says nothing; name the noun", file.path));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn names_that_say_nothing_are_errors_for_files_and_folders() {
        let count = |path| check(&[file(path, "")]).len();
        assert_eq!(count("crates/server/src/utils.rs"), 1);
        assert_eq!(count("crates/server/src/common/mod.rs"), 1);
        assert_eq!(count("explorer/src/helpers.tsx"), 1);
        assert_eq!(count("crates/server/src/utility_meter.rs"), 0);
    }
}
