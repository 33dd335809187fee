//! `SECURITY.md` lists what the server withstands, and names a test for each line: a promise that no
//! test keeps is none.

use super::File;

const PATH: &str = "SECURITY.md";

pub(super) fn check(files: &[File]) -> Vec<String> {
    let Some(list) = files.iter().find(|file| file.path == PATH) else {
        return vec![format!("{PATH}: the file is missing")];
    };
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(list.text.lines()).filter(|(_, line)| line.starts_with("- ")) {
        let tests: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            complaints.push(format!("{PATH}:{number}: the line names no test"));
        }
        for test in tests.into_iter().filter(|test| !is_test(files, test)) {
            complaints.push(format!("{PATH}:{number}: there is no test {test}"));
        }
    }
    complaints
}

/// Whether a file has the test: `path/to/file.rs::name_of_the_test`.
fn is_test(files: &[File], test: &str) -> bool {
    let Some((path, name)) = test.split_once("::") else { return false };
    let mut sources = files.iter().filter(|file| file.path == path);
    sources.any(|file| {
        let mut before = "";
        file.text.lines().any(|line| {
            let line = line.trim();
            let function = line.strip_prefix("async ").unwrap_or(line);
            let is_it = function.strip_prefix("fn ").is_some_and(|rest| {
                rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
            }) && before.contains("test]");
            before = line;
            is_it
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_line_names_tests_that_exist() {
        let source =
            "#[test]\nfn one() {}\n    #[tokio::test]\n    async fn two() {}\nfn three() {}";
        let complaints = |line: &str| {
            check(&[file("a.rs", source), file(PATH, &format!("# Security\n\n{line}\n"))]).len()
        };
        assert_eq!(complaints("no line of the list"), 0);
        assert_eq!(complaints("- withstood: `a.rs::one`, `a.rs::two`"), 0);
        assert_eq!(complaints("- a promise"), 1);
        assert_eq!(complaints("- withstood: `a.rs::on`"), 1);
        assert_eq!(complaints("- no test: `a.rs::three`"), 1);
        assert_eq!(complaints("- elsewhere: `b.rs::one`, `one`"), 2);
        assert_eq!(check(&[]).len(), 1);
    }
}
