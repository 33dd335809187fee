//! A text of JSON taken apart into items without reading it whole: lines, or the elements of one
//! array. A malformed item is reported with its line, and reading continues with the next one.

use std::io::BufRead;

use anyhow::{Context as _, Result};
use orrery_types::limits;

/// Text of one item beyond which there is no use in keeping it: spaces may make an item longer
/// than it is, but not without end.
pub(crate) const TEXT_BYTES_MAX: usize = 8 * limits::ITEM_SIZE_BYTES_MAX;

/// One item as it stands in its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputRecord {
    /// The line on which it begins, from 1.
    pub(crate) line: u64,
    /// The place right after it.
    pub(crate) end: u64,
    /// Its text, or why there is none.
    pub(crate) text: Result<Vec<u8>, String>,
}

/// How items follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordLayout {
    Lines,
    Array,
}

/// Where in a file reading goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) offset: u64,
    /// Lines that lie before it.
    pub(crate) lines: u64,
}

/// Reads items one by one.
pub(crate) struct Records<R> {
    input: R,
    shape: RecordLayout,
    at: Position,
    place: Place,
}

/// Where in an array reading stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Its bracket has not been passed.
    Outside,
    /// Behind the bracket.
    First,
    /// Behind a comma: an element must follow.
    Comma,
    /// Behind an element.
    Element,
    /// Nothing more is read.
    Ended,
}

/// Whether a text is an array or lines: its first byte that is no space tells.
pub(crate) fn shape_of(input: &mut impl BufRead) -> Result<RecordLayout> {
    let start = input.fill_buf().context("cannot read")?;
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace() && !MARK.contains(byte));
    Ok(if first == Some(&b'[') { RecordLayout::Array } else { RecordLayout::Lines })
}

/// The byte order mark with which some programs begin a file.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

impl<R: BufRead> Records<R> {
    /// Reads from a place at which `input` already stands.
    pub(crate) fn new(input: R, shape: RecordLayout, at: Position) -> Self {
        // Reading goes on right behind an element.
        let place = if at.offset > 0 { Place::Element } else { Place::Outside };
        Self { input, shape, at, place }
    }

    /// The next item; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<InputRecord>> {
        if self.at.offset == 0 {
            self.skip_mark()?;
        }
        match self.shape {
            RecordLayout::Lines => self.next_line(),
            RecordLayout::Array => self.next_element(),
        }
    }

    /// Lines before the place where reading goes on.
    pub(crate) fn lines(&self) -> u64 {
        self.at.lines
    }

    fn skip_mark(&mut self) -> Result<()> {
        if self.input.fill_buf().context("cannot read")?.starts_with(MARK) {
            self.input.consume(MARK.len());
            self.at.offset += MARK.len() as u64;
        }
        Ok(())
    }

    fn record(&self, line: u64, text: Text) -> InputRecord {
        InputRecord { line, end: self.at.offset, text: text.finish() }
    }

    fn next_line(&mut self) -> Result<Option<InputRecord>> {
        loop {
            let mut text = Text::default();
            let (mut read, mut whole) = (0_u64, false);
            while !whole {
                let buffer = self.input.fill_buf().context("cannot read")?;
                if buffer.is_empty() {
                    break;
                }
                let end = memchr::memchr(b'\n', buffer).map(|at| at + 1);
                let piece = &buffer[..end.unwrap_or(buffer.len())];
                text.push(piece);
                (read, whole) = (read + piece.len() as u64, end.is_some());
                let length = piece.len();
                self.input.consume(length);
            }
            if read == 0 {
                return Ok(None);
            }
            self.at.offset += read;
            self.at.lines += 1;
            if !text.is_blank() {
                return Ok(Some(self.record(self.at.lines, text)));
            }
        }
    }

    /// The byte at hand, without taking it.
    fn peek(&mut self) -> Result<Option<u8>> {
        Ok(self.input.fill_buf().context("cannot read")?.first().copied())
    }

    fn take(&mut self, byte: u8) {
        self.input.consume(1);
        self.at.offset += 1;
        if byte == b'\n' {
            self.at.lines += 1;
        }
    }

    fn next_element(&mut self) -> Result<Option<InputRecord>> {
        if self.place == Place::Ended {
            return Ok(None);
        }
        while let Some(byte) = self.peek()? {
            match (byte, self.place) {
                (byte, _) if byte.is_ascii_whitespace() => {}
                (b'[', Place::Outside) => self.place = Place::First,
                (b',', Place::Element) => self.place = Place::Comma,
                (b']', Place::Element | Place::First) => return self.after_array(),
                (b',', Place::First | Place::Comma) | (b']', Place::Comma) => {
                    self.place = Place::Element;
                    return Ok(Some(self.fault("there is nothing between two commas")));
                }
                _ => {
                    self.place = Place::Element;
                    return self.element().map(Some);
                }
            }
            self.take(byte);
        }
        self.place = Place::Ended;
        Ok(Some(self.fault("the file ends before its array does")))
    }

    /// Behind the last bracket only spaces may stand. Anything else is reported once, and reading
    /// would go on at the bracket.
    fn after_array(&mut self) -> Result<Option<InputRecord>> {
        self.place = Place::Ended;
        let end = self.at.offset;
        self.take(b']');
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                let fault = self.fault("the file goes on after the end of its array");
                return Ok(Some(InputRecord { end, ..fault }));
            }
            self.take(byte);
        }
        Ok(None)
    }

    /// Something that is no item, at the line at hand.
    fn fault(&self, why: &str) -> InputRecord {
        let text = Text { fault: Some(why.to_owned()), ..Text::default() };
        self.record(self.at.lines + 1, text)
    }

    /// Takes bytes until the commas and brackets say that the element is over.
    fn element(&mut self) -> Result<InputRecord> {
        let line = self.at.lines + 1;
        let mut text = Text::default();
        let mut scan = Scan::default();
        loop {
            let buffer = self.input.fill_buf().context("cannot read")?;
            if buffer.is_empty() {
                self.place = Place::Ended;
                text.fault = Some("the file ends within this item".into());
                return Ok(self.record(line, text));
            }
            let end = buffer.iter().position(|byte| scan.ends_at(*byte));
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            text.push(piece);
            self.at.offset += piece.len() as u64;
            self.at.lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            let length = piece.len();
            self.input.consume(length);
            if end.is_some() {
                return Ok(self.record(line, text));
            }
        }
    }
}

/// How deep in brackets and quotes a place is.
#[derive(Default)]
struct Scan {
    depth: u32,
    quoted: bool,
    escaped: bool,
}

impl Scan {
    /// Whether an element ends before this byte.
    fn ends_at(&mut self, byte: u8) -> bool {
        if self.quoted {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.quoted = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.quoted = true,
            b'{' | b'[' => self.depth += 1,
            b']' | b',' if self.depth == 0 => return true,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }
}

/// The text of an item, as far as there is use in keeping it.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    fault: Option<String>,
}

impl Text {
    fn push(&mut self, piece: &[u8]) {
        if self.bytes.len() + piece.len() > TEXT_BYTES_MAX {
            self.fault = Some(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }

    fn is_blank(&self) -> bool {
        self.fault.is_none() && self.bytes.trim_ascii().is_empty()
    }

    fn finish(mut self) -> Result<Vec<u8>, String> {
        if let Some(fault) = self.fault {
            Err(fault)
        } else {
            self.bytes.truncate(self.bytes.trim_ascii_end().len());
            Ok(self.bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// All items, read in pieces of a few bytes, and once more from the end of each.
    fn check(shape: RecordLayout, text: &str, expected: &[(u64, &str)]) {
        let all = |from: Position| {
            let rest = &text.as_bytes()[usize::try_from(from.offset).unwrap()..];
            let mut records = Records::new(BufReader::with_capacity(3, rest), shape, from);
            let mut found = Vec::new();
            while let Some(record) = records.next().unwrap() {
                let shown = record.text.map(|text| String::from_utf8(text).unwrap());
                let place = Position { offset: record.end, lines: records.at.lines };
                found.push((record.line, shown.unwrap_or_else(|fault| fault), place));
            }
            found
        };
        let found = all(Position::default());
        let short: Vec<(u64, &str)> = found.iter().map(|(n, text, _)| (*n, &**text)).collect();
        assert_eq!(short, expected);
        for (at, (_, _, place)) in found.iter().enumerate() {
            let rest: Vec<_> = all(*place).into_iter().map(|(n, text, _)| (n, text)).collect();
            let expected: Vec<_> =
                found[at + 1..].iter().map(|(n, t, _)| (*n, t.clone())).collect();
            let ended = expected.is_empty() && found[at].1.contains("the file ");
            assert!(ended || rest == expected, "from {place:?}: {rest:?}");
        }
    }

    #[test]
    fn lines_are_items_and_blank_ones_are_not() {
        check(
            RecordLayout::Lines,
            "\u{feff}{\"id\":\"a\"}\r\n\n  \n{broken\n{\"id\":\"c\"}",
            &[(1, "{\"id\":\"a\"}"), (4, "{broken"), (5, "{\"id\":\"c\"}")],
        );
        check(RecordLayout::Lines, "", &[]);
    }

    #[test]
    fn elements_of_an_array_are_found_behind_broken_ones() {
        let text = "[ {\"a\":\"],[\\\"\"},\n {\"b\":[1,{}]}\n,\n nonsense, {\"c\" 3},{}]\n";
        let expected = [
            (1, "{\"a\":\"],[\\\"\"}"),
            (2, "{\"b\":[1,{}]}"),
            (4, "nonsense"),
            (4, "{\"c\" 3}"),
            (4, "{}"),
        ];
        check(RecordLayout::Array, text, &expected);
        check(RecordLayout::Array, "[]", &[]);
    }

    #[test]
    fn an_array_that_breaks_off_is_told() {
        check(RecordLayout::Array, "[{}", &[(1, "the file ends within this item")]);
        check(
            RecordLayout::Array,
            "[{},\n",
            &[(1, "{}"), (2, "the file ends before its array does")],
        );
    }

    #[test]
    fn what_an_array_may_not_hold_is_told() {
        let nothing = "there is nothing between two commas";
        let more = "the file goes on after the end of its array";
        check(RecordLayout::Array, "[{},,\n{}]", &[(1, "{}"), (1, nothing), (2, "{}")]);
        check(RecordLayout::Array, "[,{},\n]", &[(1, nothing), (1, "{}"), (2, nothing)]);
        check(RecordLayout::Array, "[{}]\n[{}]", &[(1, "{}"), (2, more)]);
        check(RecordLayout::Array, "[] \n x", &[(2, more)]);
        check(RecordLayout::Array, "[{}] \r\n\n", &[(1, "{}")]);
    }

    #[test]
    fn the_first_byte_tells_the_shape() {
        let shape = |text: &str| shape_of(&mut BufReader::new(text.as_bytes())).unwrap();
        assert_eq!(shape(" \n[{}]"), RecordLayout::Array);
        assert_eq!(shape("\u{feff}[]"), RecordLayout::Array);
        assert_eq!(shape("{}\n[]"), RecordLayout::Lines);
        assert_eq!(shape(""), RecordLayout::Lines);
    }
}
