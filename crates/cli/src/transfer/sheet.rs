//! CSV, both ways, by `csv`. A cell holds a string as it is; what would be read as something else, a
//! number, a boolean, null, an array, an object or a quoted string, is written as JSON. An empty cell
//! is no property. So exported files are read back unchanged.

use std::io::{BufRead, Write};

use anyhow::{Context as _, Result, bail};
use csv_core::ReadFieldResult;
use orrery_types::{Object, Value};

use super::records::{InputRecord, Position, TEXT_BYTES_MAX};

/// Whether cells are read as what they look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cells {
    Typed,
    Texts,
}

/// Reads a CSV file row by row. It drives the parser of `csv` itself instead of using `csv::Reader`,
/// which keeps a whole row in memory however long it is, and takes a quote that is never closed for
/// the end of a cell.
pub(crate) struct SheetReader<R> {
    input: R,
    parser: csv_core::Reader,
    at: Position,
    names: Vec<String>,
    cells: Cells,
    /// What the parser writes into.
    space: Vec<u8>,
}

impl<R: BufRead> SheetReader<R> {
    /// Opens a sheet at its beginning, where its head is.
    pub(crate) fn new(input: R, cells: Cells) -> Result<Self> {
        let (parser, space) = (csv_core::Reader::new(), vec![0; SPACE_BYTES]);
        let at = Position::default();
        let mut sheet = Self { input, parser, at, names: vec![], cells, space };
        let head = sheet.row()?.context("the file is empty; its first row must hold names")?;
        let head = head.map_err(anyhow::Error::msg).context("the first row must hold names")?;
        if let Some((_, name)) =
            head.iter().enumerate().find(|(at, name)| head[..*at].contains(name))
        {
            bail!("the first row names '{name}' twice; each column needs a name of its own");
        }
        sheet.names = head;
        Ok(sheet)
    }

    /// Continues at a row, where the input stands already. The parser stays: it has passed the byte
    /// order mark, and a row that begins with the same bytes keeps them.
    pub(crate) fn go_on(&mut self, input: R, at: Position) {
        (self.input, self.at) = (input, at);
    }

    /// The next row as an item; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<InputRecord>> {
        loop {
            self.skip_line_ends()?;
            let line = self.at.lines + 1;
            let Some(row) = self.row()? else { return Ok(None) };
            // One empty cell is as good as a blank line.
            if row.as_ref().is_ok_and(|cells| matches!(&cells[..], [only] if only.is_empty())) {
                continue;
            }
            let text = row.and_then(|row| self.item(&row)).map(String::into_bytes);
            return Ok(Some(InputRecord { line, end: self.at.offset, text }));
        }
    }

    /// Lines before the place where reading goes on.
    pub(crate) fn lines(&self) -> u64 {
        self.at.lines
    }

    /// Passes blank lines, so that a row is reported with the line on which it begins.
    fn skip_line_ends(&mut self) -> Result<()> {
        loop {
            let buffer = self.input.fill_buf().context("cannot read the file")?;
            let ends = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.consume(ends);
            if ends == 0 {
                return Ok(());
            }
        }
    }

    /// Consumes bytes of the buffer at hand and counts the lines in them.
    fn consume(&mut self, count: usize) {
        let buffer = self.input.fill_buf().unwrap_or_default();
        let taken = buffer.get(..count).unwrap_or(buffer);
        self.at.lines += memchr::memchr_iter(b'\n', taken).count() as u64;
        self.at.offset += count as u64;
        self.input.consume(count);
    }

    /// The cells of the next row, or why there are none; `None` after the last.
    fn row(&mut self) -> Result<Option<Result<Vec<String>, String>>> {
        if self.input.fill_buf().context("cannot read the file")?.is_empty() {
            return Ok(None);
        }
        let mut row = Row::default();
        loop {
            let buffer = self.input.fill_buf().context("cannot read the file")?;
            if buffer.is_empty() {
                return Ok(Some(self.last_row(row)));
            }
            let mut used = 0;
            let mut ended = false;
            while used < buffer.len() && !ended {
                let (read, taken, written) =
                    self.parser.read_field(&buffer[used..], &mut self.space);
                used += taken;
                ended = row.push(&read, taken, &self.space[..written]);
            }
            let is_return = buffer.get(used.wrapping_sub(1)) == Some(&b'\r');
            self.consume(used);
            if ended {
                if is_return {
                    self.skip_line_feed()?;
                }
                return Ok(Some(row.finish()));
            }
        }
    }

    /// The parser ends a row at a carriage return; the line feed behind it belongs to the row.
    fn skip_line_feed(&mut self) -> Result<()> {
        let next = self.input.fill_buf().context("cannot read the file")?.first().copied();
        if next == Some(b'\n') {
            self.consume(1);
        }
        Ok(())
    }

    /// A row that ends with the file. A line feed ends any row that is not within quotes.
    fn last_row(&mut self, mut row: Row) -> Result<Vec<String>, String> {
        let (read, _, written) = self.parser.read_field(b"\n", &mut self.space);
        if row.push(&read, 0, &self.space[..written]) {
            return row.finish();
        }
        let too_long = row.finish().err().filter(|fault| fault.contains("longer"));
        Err(too_long.unwrap_or_else(|| "a quote in it is never closed".to_owned()))
    }

    fn item(&self, row: &[String]) -> Result<String, String> {
        if row.len() > self.names.len() {
            let (cells, names) = (row.len(), self.names.len());
            return Err(format!("it has {cells} cells, and the first row names {names} columns"));
        }
        let mut object = Object::new();
        for (name, cell) in self.names.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            object.set(name, read_cell(name, cell, self.cells));
        }
        Ok(Value::object(object).to_json())
    }
}

fn read_cell(name: &str, cell: &str, cells: Cells) -> Value {
    let read = match Value::parse(cell.as_bytes()) {
        Ok(value) if cells == Cells::Typed && looks_like_json(cell) => value,
        _ => return cell.into(),
    };
    // An id is a text whatever it looks like.
    if name == "id" && read.as_str().is_none() { cell.into() } else { read }
}

/// Whether a cell is JSON for anything: the first letter says what it could be.
fn looks_like_json(cell: &str) -> bool {
    match cell.as_bytes() {
        b"true" | b"false" | b"null" => true,
        [b'{' | b'[' | b'"', ..] => Value::parse(cell.as_bytes()).is_ok(),
        // A number that would be written otherwise is a text: 007, +49, 1e400.
        [b'-' | b'0'..=b'9', ..] => {
            Value::parse(cell.as_bytes()).is_ok_and(|value| value.to_json() == cell)
        }
        _ => false,
    }
}

/// Bytes that the parser writes at once.
const SPACE_BYTES: usize = 4096;

/// The row that is being read.
#[derive(Default)]
struct Row {
    cells: Vec<Vec<u8>>,
    cell: Vec<u8>,
    /// Bytes of the file that it takes.
    bytes: usize,
}

impl Row {
    /// Takes what the parser has read; whether it ends the row. A row that is too long to be an item
    /// is counted and not kept.
    fn push(&mut self, read: &ReadFieldResult, taken: usize, written: &[u8]) -> bool {
        self.bytes += taken;
        let is_kept = self.bytes <= TEXT_BYTES_MAX;
        if is_kept {
            self.cell.extend_from_slice(written);
        }
        match read {
            ReadFieldResult::Field { record_end } => {
                if is_kept {
                    self.cells.push(std::mem::take(&mut self.cell));
                }
                *record_end
            }
            ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull | ReadFieldResult::End => {
                false
            }
        }
    }

    fn finish(self) -> Result<Vec<String>, String> {
        if self.bytes > TEXT_BYTES_MAX {
            return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let text = |cell| String::from_utf8(cell).map_err(|_| "it is not UTF-8".to_owned());
        self.cells.into_iter().map(text).collect()
    }
}

/// Writes a CSV file row by row.
pub(crate) struct SheetWriter<W: Write> {
    out: csv::Writer<W>,
    names: Vec<String>,
}

impl<W: Write> SheetWriter<W> {
    /// Begins a sheet with its head.
    pub(crate) fn new(out: W, names: Vec<String>) -> Result<Self> {
        let mut sheet = Self::resume(out, names);
        sheet.out.write_record(&sheet.names).context("cannot write")?;
        Ok(sheet)
    }

    /// Continues one that has its head.
    pub(crate) fn resume(out: W, names: Vec<String>) -> Self {
        Self { out: csv::Writer::from_writer(out), names }
    }

    /// Writes an item; gives back the names for which there is no column.
    pub(crate) fn row(&mut self, item: &Object) -> Result<Vec<String>> {
        let cell = |name: &String| item.get(name).map_or(String::new(), write_cell);
        self.out.write_record(self.names.iter().map(cell)).context("cannot write")?;
        let missing = item.iter().filter(|(name, _)| !self.names.iter().any(|n| **n == ***name));
        Ok(missing.map(|(name, _)| name.to_string()).collect())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.out.flush().context("cannot write")
    }
}

fn write_cell(value: &Value) -> String {
    match value.as_str() {
        Some(text) if !text.is_empty() && !looks_like_json(text) => text.to_owned(),
        _ => value.to_json(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    fn read_all<R: BufRead>(mut sheet: SheetReader<R>) -> Vec<(u64, String, Position)> {
        let mut found = Vec::new();
        while let Some(record) = sheet.next().unwrap() {
            let text = record.text.map(|text| String::from_utf8(text).unwrap());
            let end = Position { offset: record.end, lines: sheet.lines() };
            found.push((record.line, text.unwrap_or_else(|fault| fault), end));
        }
        found
    }

    /// All items; read in pieces of a few bytes too, and once more from the end of each row.
    fn items(text: &str, cells: Cells) -> Vec<(u64, String)> {
        let open = || SheetReader::new(Cursor::new(text), cells).unwrap();
        let found = read_all(open());
        let pieces = BufReader::with_capacity(5, text.as_bytes());
        assert_eq!(read_all(SheetReader::new(pieces, cells).unwrap()), found, "{text}");
        for (at, (_, _, end)) in found.iter().enumerate() {
            let mut rest = Cursor::new(text);
            rest.set_position(end.offset);
            let mut sheet = open();
            sheet.go_on(rest, *end);
            assert_eq!(read_all(sheet), found[at + 1..], "{text} from {end:?}");
        }
        found.into_iter().map(|(line, text, _)| (line, text)).collect()
    }

    #[test]
    fn cells_are_what_they_look_like() {
        let text = "\u{feff}id,n,zip,o,t\na,1.5,01234,\"{\"\"x\"\":[1]}\",true\nb,,+49,\"two\nlines\",\"\"\"7\"\"\"\nc,1,2,3,4,5\n";
        let found = items(text, Cells::Typed);
        assert_eq!(
            found[0],
            (2, r#"{"id":"a","n":1.5,"zip":"01234","o":{"x":[1]},"t":true}"#.into())
        );
        assert_eq!(found[1], (3, r#"{"id":"b","zip":"+49","o":"two\nlines","t":"7"}"#.into()));
        assert_eq!(found[2].0, 5);
        assert!(found[2].1.contains("6 cells"), "{found:?}");
        let texts = items(text, Cells::Texts);
        assert_eq!(
            texts[0].1,
            r#"{"id":"a","n":"1.5","zip":"01234","o":"{\"x\":[1]}","t":"true"}"#
        );
    }

    #[test]
    fn rows_end_where_quotes_let_them() {
        let found = items("id,t\r\na,\"x\r\ny\"\r\n\r\nb,say \"hi\"\nc,\"open\n", Cells::Typed);
        assert_eq!(found[0], (2, r#"{"id":"a","t":"x\r\ny"}"#.into()));
        assert_eq!(found[1], (5, r#"{"id":"b","t":"say \"hi\""}"#.into()));
        assert_eq!(found[2], (6, "a quote in it is never closed".into()));
    }

    #[test]
    fn a_row_that_is_too_long_is_reported_and_the_next_one_is_read() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let commas = ",".repeat(TEXT_BYTES_MAX + 1);
        let text = format!("id,t\na,{long}\nb,1\n{commas}\nc,2\nd,\"{long}");
        let mut sheet = SheetReader::new(Cursor::new(&*text), Cells::Typed).unwrap();
        let mut found = Vec::new();
        while let Some(record) = sheet.next().unwrap() {
            found.push((record.line, record.text.map_err(|fault| fault.contains("longer"))));
        }
        let item = |text: &str| Ok(text.as_bytes().to_vec());
        let expected = [
            (2, Err(true)),
            (3, item(r#"{"id":"b","t":1}"#)),
            (4, Err(true)),
            (5, item(r#"{"id":"c","t":2}"#)),
            (6, Err(true)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_beginning() {
        let found = items("\u{feff}id\n\u{feff}a\nb\n", Cells::Typed);
        assert_eq!(found[0].1, "{\"id\":\"\u{feff}a\"}");
        assert_eq!(found[1].1, r#"{"id":"b"}"#);
    }

    #[test]
    fn a_carriage_return_within_quotes_is_text() {
        let found = items("id,t\na,\"x\r\"\nb,\"x\r\"\r\nc,\"x\"\r\nd,\"x\r\"", Cells::Typed);
        let expected = [("a", "x\\r"), ("b", "x\\r"), ("c", "x"), ("d", "x\\r")];
        for ((_, found), (id, text)) in found.iter().zip(expected) {
            assert_eq!(*found, format!(r#"{{"id":"{id}","t":"{text}"}}"#));
        }
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn names_are_taken_as_they_stand_and_only_once() {
        let found = items("\u{feff}\"id\", n ,t\t\na,1,2\n", Cells::Typed);
        assert_eq!(found[0].1, r#"{"id":"a"," n ":1,"t\t":2}"#);
        let twice = SheetReader::new(Cursor::new("id,n,n\n"), Cells::Typed);
        assert!(twice.is_err_and(|error| error.to_string().contains("names 'n' twice")));
    }

    #[test]
    fn an_id_is_a_text_whatever_it_looks_like() {
        let found = items("id,n\n7,7\n\"\"\"8\"\"\",8\n", Cells::Typed);
        assert_eq!(found[0].1, r#"{"id":"7","n":7}"#);
        assert_eq!(found[1].1, r#"{"id":"8","n":8}"#);
    }

    #[test]
    fn what_was_written_is_read_as_it_was() {
        let item = r#"{"id":"1","a":"null","b":null,"c":"","d":"[1]","e":[1,{"x":"y"}],"f":-0.5,"g":"a,\"b\"\n"}"#;
        let value = Value::parse(item.as_bytes()).unwrap();
        let names: Vec<String> =
            ["id", "a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).into();
        let mut out = Vec::new();
        let mut sheet = SheetWriter::new(&mut out, names).unwrap();
        assert!(sheet.row(value.as_object().unwrap()).unwrap().is_empty());
        let other = Value::parse(br#"{"id":"2","z":1}"#).unwrap();
        assert_eq!(sheet.row(other.as_object().unwrap()).unwrap(), ["z"]);
        sheet.flush().unwrap();
        drop(sheet);
        let text = String::from_utf8(out).unwrap();
        let found = items(&text, Cells::Typed);
        assert_eq!(found[0].1, item);
        assert_eq!(found[1].1, r#"{"id":"2"}"#);
    }

    #[test]
    fn reading_goes_on_at_a_row() {
        let text = "id\na\nb\nc\n";
        let mut first = SheetReader::new(Cursor::new(text), Cells::Typed).unwrap();
        let record = first.next().unwrap().unwrap();
        let at = Position { offset: record.end, lines: first.lines() };
        let mut second = SheetReader::new(Cursor::new(text), Cells::Typed).unwrap();
        let mut rest = Cursor::new(text);
        rest.set_position(at.offset);
        second.go_on(rest, at);
        let record = second.next().unwrap().unwrap();
        assert_eq!((record.line, record.text.unwrap()), (3, br#"{"id":"b"}"#.to_vec()));
    }
}
