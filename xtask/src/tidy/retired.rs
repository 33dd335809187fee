//! Words that this code base has given up for the field's own. A retired word in code, comments, log lines
//! or documents is an error that names the word to use; `docs/glossary.md` defines those.

use super::File;
use regex::{Regex, RegexSet};
use std::sync::LazyLock;

/// Names in code: the pattern, and what to write instead. Patterns are put together so that this file
/// does not find itself.
const NAMES: &[(&str, &str)] = &[
    (concat!("Resh", "ape\\w*"), "LayoutChange"),
    (concat!("resh", "ape\\w*"), "layout change, split or merge"),
    (concat!("Carr", "ier"), "EntryRouter"),
    (concat!("Un", "ite"), "MergeRouter"),
    (concat!("few_in", "_partition"), "count_partition_up_to"),
    (concat!("knows_", "lacking"), "indexes_missing"),
    (concat!("is_", "mortal"), "may_include_expired"),
    (concat!("Le", "g"), "PartitionRangeCursor"),
    (concat!("Open", "Lists"), "PrefetchedPostings"),
    (concat!("Carr", "ied"), "PendingPathIds"),
    (concat!("Surr", "oundings"), "CompileContext"),
    (concat!("Expan", "ding"), "ExpansionRequest"),
];

/// Phrases in prose, in any letter case, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    (concat!("made ", "anew"), "recreated, rebuilt"),
    (concat!("has its ", "say"), "is applied"),
    (concat!("in ", "vain"), "without effect"),
    (concat!("nothing to ", "remark"), "no findings"),
    (concat!("goes ", "alone"), "takes the lock exclusively"),
    (concat!("built ", "anew"), "rebuilt"),
    (concat!("computed ", "anew"), "recomputed"),
    (concat!("computes everything ", "anew"), "recomputes everything"),
    (concat!("unless told ", "otherwise"), "by default"),
    (concat!("those ", "who"), "the group itself: readers, writers, clients"),
];

struct Retired {
    names: Vec<(Regex, &'static str)>,
    phrases: Vec<(Regex, &'static str)>,
    any: RegexSet,
}

static RETIRED: LazyLock<Retired> = LazyLock::new(|| {
    let name = |pattern: &str| format!(r"\b{pattern}\b");
    let phrase = |pattern: &str| format!(r"(?i)\b{pattern}\b");
    let compile = |pattern: String| Regex::new(&pattern).expect("the pattern is valid");
    let names = NAMES.iter().map(|(word, instead)| (compile(name(word)), *instead)).collect();
    let phrases = PHRASES.iter().map(|(word, instead)| (compile(phrase(word)), *instead)).collect();
    let all = NAMES.iter().map(|(word, _)| name(word));
    let all = all.chain(PHRASES.iter().map(|(word, _)| phrase(word)));
    Retired { names, phrases, any: RegexSet::new(all).expect("the patterns are valid") }
});

pub(super) fn check(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| is_ours(file)).flat_map(check_file).collect()
}

/// Code and documents; a changelog tells history, and golden files hold what clients see.
fn is_ours(file: &File) -> bool {
    matches!(file.extension(), "rs" | "md" | "ts" | "tsx")
        && !file.path.starts_with("golden/")
        && file.path != "CHANGELOG.md"
}

fn check_file(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if !RETIRED.any.is_match(line) {
            continue;
        }
        let names = RETIRED.names.iter().filter(|_| file.extension() != "md");
        for (pattern, instead) in names.chain(&RETIRED.phrases) {
            if let Some(found) = pattern.find(line) {
                let (path, line) = (&file.path, index + 1);
                let word = found.as_str();
                complaints.push(format!("{path}:{line}: \"{word}\" is retired; write {instead}"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn every_retired_word_is_found_where_it_is_planted() {
        for (pattern, instead) in NAMES {
            let word = pattern.replace("\\w*", "");
            let complaints =
                check(&[file("crates/a/src/a.rs", &format!("//! A.\nlet x = {word};"))]);
            assert_eq!(complaints.len(), 1, "{word}");
            assert!(complaints[0].contains(instead), "{complaints:?}");
        }
        for (phrase, _) in PHRASES {
            let text = format!("# A\n\nIt {} by then.\n", phrase.to_uppercase());
            assert_eq!(check(&[file("docs/a.md", &text)]).len(), 1, "{phrase}");
            assert_eq!(check(&[file("CHANGELOG.md", &text)]).len(), 0, "{phrase}");
        }
    }

    #[test]
    fn a_word_inside_another_is_not_the_word() {
        for (phrase, _) in PHRASES {
            let text = format!("# A\n\nx{phrase}x\n");
            assert_eq!(check(&[file("docs/a.md", &text)]).len(), 0, "{phrase}");
        }
    }
}
