//! File sizes: nothing over 1,000 lines; a file nearing 700 is hiding a second noun and is listed.

use super::File;

const LINES_MAX: usize = 1000;
const LINES_NOTICED: usize = 700;

/// Text that people write and read as code; lock files and data are as long as they are.
const CODE: &[&str] = &["css", "go", "java", "js", "mjs", "py", "rs", "sh", "ts", "tsx"];

pub(super) fn check(files: &[File]) -> Vec<String> {
    long(files, LINES_MAX)
        .map(|(file, lines)| format!("{}: {lines} lines, at most {LINES_MAX} allowed", file.path))
        .collect()
}

pub(super) fn notices(files: &[File]) -> Vec<String> {
    long(files, LINES_NOTICED)
        .filter(|(_, lines)| *lines <= LINES_MAX)
        .map(|(file, lines)| format!("{}: {lines} lines, is there a second noun?", file.path))
        .collect()
}

fn long(files: &[File], lines_max: usize) -> impl Iterator<Item = (&File, usize)> {
    files
        .iter()
        .filter(|file| CODE.contains(&file.extension()))
        .map(|file| (file, file.text.lines().count()))
        .filter(move |(_, lines)| *lines > lines_max)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_long_file_is_noticed_and_a_longer_one_is_an_error() {
        let counts = |path, lines: usize| {
            let files = [file(path, &"x\n".repeat(lines))];
            (notices(&files).len(), check(&files).len())
        };
        assert_eq!(counts("a.rs", 700), (0, 0));
        assert_eq!(counts("a.rs", 701), (1, 0));
        assert_eq!(counts("a.rs", 1000), (1, 0));
        assert_eq!(counts("a.rs", 1001), (0, 1));
        assert_eq!(counts("Cargo.lock", 5000), (0, 0));
    }
}
