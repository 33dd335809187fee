//! One version: what packages and documents name is the version of the crates.

use super::File;
use regex::Regex;
use std::sync::LazyLock;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Images, archives and packages by their names with a version.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"orrery(?:-emulator)?(?:[:_-]|", ")(\d+\.\d+\.\d+)"#)
        .expect("the pattern is valid")
});
/// Files that name the version by itself: the line, up to the version.
const BARE: &[(&str, &str)] = &[
    ("packaging/helm/orrery/Chart.yaml", "version: "),
    ("packaging/helm/orrery/Chart.yaml", "appVersion: \""),
    ("packaging/action/action.yml", "    default: 0"),
    ("packaging/junit/pom.xml", "  <version>"),
];

pub(super) fn check(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| is_ours(file)).flat_map(check_file).collect()
}

fn is_ours(file: &File) -> bool {
    let is_named = file.path.starts_with("packaging/") || file.path.starts_with("docs/");
    (is_named || file.path == "README.md") && file.extension() != "rs"
}

fn check_file(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let named = NAMED.captures_iter(line).map(|found| found[1].to_owned());
        let is_bare = |(path, start): &&(&str, &str)| *path == file.path && line.starts_with(start);
        let bare = BARE.iter().find(is_bare).map(|_| number(line));
        for found in named.chain(bare).filter(|found| found != VERSION) {
            let line = index + 1;
            complaints.push(format!("{}:{line}: names version {found}, not {VERSION}", file.path));
        }
    }
    complaints
}

/// The first version in a line.
fn number(line: &str) -> String {
    let start = line.find(|c: char| c.is_ascii_digit()).unwrap_or(line.len());
    let rest = line.get(start..).unwrap_or_default();
    rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn another_version_is_found_where_it_is_planted() {
        for (path, text) in [
            ("packaging/compose.yaml", "    image: orrery:9.9.9"),
            ("docs/emulator-image.md", "`WithImage(\"orrery-emulator\", \"9.9.9\")`"),
            ("README.md", "sudo apt install ./orrery_9.9.9_amd64.deb"),
            ("docs/start.md", "tar -xzf orrery-9.9.9-linux-x86_64.tar.gz"),
            ("packaging/helm/orrery/Chart.yaml", "version: 9.9.9"),
            ("packaging/helm/orrery/Chart.yaml", "appVersion: \"9.9.9\""),
            ("packaging/action/action.yml", "    default: 0.9.9"),
            ("packaging/junit/pom.xml", "  <version>9.9.9</version>"),
        ] {
            assert_eq!(check(&[file(path, text)]).len(), 1, "{path}: {text}");
            let right = text.replace("9.9.9", VERSION).replace("0.9.9", VERSION);
            assert_eq!(check(&[file(path, &right)]).len(), 0, "{path}: {right}");
        }
    }
}
