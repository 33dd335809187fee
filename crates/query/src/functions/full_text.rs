//! Full text: text to terms, phrases, and the BM25 score. Text is split at the word boundaries of Unicode,
//! lower-cased, stripped of stop words and stemmed; search terms are treated the same way.

mod stop_words;

use std::collections::HashSet;
use std::sync::OnceLock;

use orrery_types::Value;
use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

use super::{Function, Host, combine, text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("FullTextContains", 2, |a, _| Some(contains(&a[0], &a[1])?.into())),
    Function::new("FullTextContainsAll", 2, |a, _| contains_each(a, false)).or_more(),
    Function::new("FullTextContainsAny", 2, |a, _| contains_each(a, true)).or_more(),
    Function::new("FullTextScore", 2, |_, _| None).or_more().of_the_place(),
    Function::new("RRF", 2, |_, _| None).or_more().of_the_place(),
    Function::new("_FullTextScore", 5, partial_score),
    Function::new("_FullTextWordCount", 1, |a, _| {
        Some(i64::try_from(terms(text(a, 0)?).len()).ok()?.into())
    }),
];

/// Saturation of repeated terms.
const K1: f64 = 1.2;
/// Weight of the text's length.
const B: f64 = 0.75;

/// The terms of a text in order.
pub(crate) fn terms(text: &str) -> Vec<String> {
    static STOP: OnceLock<HashSet<&'static str>> = OnceLock::new();
    let stop = STOP.get_or_init(|| stop_words::ENGLISH.split_ascii_whitespace().collect());
    let stemmer = Stemmer::create(Algorithm::English);
    text.unicode_words()
        .map(str::to_lowercase)
        .filter(|word| !stop.contains(word.as_str()))
        .map(|word| stemmer.stem(&word).into_owned())
        .collect()
}

/// Whether the text contains the phrase: its terms adjacent and in order. A term that is nothing
/// but stop words is found nowhere.
fn contains(text: &Value, term: &Value) -> Option<bool> {
    let text = terms(text.as_str()?);
    if let Value::Object(options) = term {
        let wanted = terms(options.get("term")?.as_str()?);
        let distance = options.get("distance").map_or(Some(2), Value::as_i64)?;
        let distance = usize::try_from(distance).ok().filter(|d| *d <= 2)?;
        let near = |word: &String| wanted.iter().any(|w| edits(w, word) <= distance);
        return Some(text.iter().any(near));
    }
    let phrase = terms(term.as_str()?);
    Some(!phrase.is_empty() && text.windows(phrase.len()).any(|window| window == phrase))
}

fn contains_each(arguments: &[Value], any: bool) -> Option<Value> {
    combine(arguments[1..].iter().map(|term| contains(&arguments[0], term)), any)
}

/// Edits that turn one word into the other.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// What BM25 needs to know about all texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TextStatistics {
    /// Number of items.
    pub(crate) items: f64,
    /// Terms in all texts together.
    pub(crate) words: f64,
    /// Items with each search term.
    pub(crate) hits: Vec<f64>,
}

/// How often each phrase occurs in a text, and the text's length in terms.
pub(crate) fn occurrences(text: &str, phrases: &[Vec<String>]) -> (Vec<usize>, usize) {
    let text = terms(text);
    let count = |phrase: &Vec<String>| {
        if phrase.is_empty() {
            return 0;
        }
        text.windows(phrase.len()).filter(|window| window == phrase).count()
    };
    (phrases.iter().map(count).collect(), text.len())
}

/// BM25 of one text.
#[expect(clippy::cast_precision_loss, reason = "texts are far shorter than 2^53 words")]
pub(crate) fn score(found: &[usize], length: usize, statistics: &TextStatistics) -> f64 {
    let average = (statistics.words / statistics.items.max(1.0)).max(1.0);
    let norm = K1 * (1.0 - B + B * length as f64 / average);
    let one = |(frequency, hits): (&usize, &f64)| {
        let idf = (1.0 + (statistics.items - hits + 0.5) / (hits + 0.5)).ln();
        let frequency = *frequency as f64;
        idf * frequency * (K1 + 1.0) / (frequency + norm)
    };
    found.iter().zip(&statistics.hits).map(one).sum()
}

/// `_FullTextScore(text, [terms], items, words, [hits])`: the score with statistics that the
/// client has gathered, in queries that a plan made.
fn partial_score(arguments: &[Value], _: &Host) -> Option<Value> {
    let number = |value: &Value| value.as_number().map(orrery_types::Number::as_f64);
    let phrases: Option<Vec<_>> =
        arguments[1].as_array()?.iter().map(|t| t.as_str().map(terms)).collect();
    let hits: Option<Vec<f64>> = arguments[4].as_array()?.iter().map(number).collect();
    let statistics = TextStatistics {
        items: number(&arguments[2])?,
        words: number(&arguments[3])?,
        hits: hits?,
    };
    let (found, length) = occurrences(arguments[0].as_str()?, &phrases?);
    Some(score(&found, length, &statistics).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_stemmed_and_stripped_of_noise() {
        assert_eq!(terms("The Running of the bicycles!"), ["run", "bicycl"]);
        assert_eq!(edits("kitten", "sitting"), 3);
        let check = |text: &str, term: &str, expected: Option<bool>| {
            let term = Value::parse(term.as_bytes()).unwrap();
            assert_eq!(contains(&text.into(), &term), expected, "{text} {term:?}");
        };
        check("blue bicycle garage", "\"bicycle blue\"", Some(false));
        check("blue bicycle garage", "{\"term\":\"garbage\",\"distance\":1}", Some(true));
        check("blue bicycle", "{\"term\":\"x\",\"distance\":3}", None);
        check("blue", "\"the\"", Some(false));
        check("blue", "1", None);
    }
}
