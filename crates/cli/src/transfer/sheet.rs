//! CSV, both ways. A cell holds a text as it is; what would be read as something else, a number, a
//! truth, null, a list, an object or a quoted text, stands as JSON. An empty cell is no property.
//! So what was exported comes back as it was.

use std::io::{BufRead, Write};

use anyhow::{Context as _, Result, bail};
use orrery_types::{Object, Value};

use super::records::{MARK, Position, Record, TEXT_BYTES_MAX};

/// Whether cells are read as what they look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cells {
    Typed,
    Texts,
}

/// A sheet that is read row by row. Rows end with a line feed, cells with a comma; within quotes both
/// are text, and a quote stands twice.
pub(crate) struct SheetReader<R> {
    input: R,
    at: Position,
    names: Vec<String>,
    cells: Cells,
}

impl<R: BufRead> SheetReader<R> {
    /// Opens a sheet at its beginning, where its head is.
    pub(crate) fn new(input: R, cells: Cells) -> Result<Self> {
        let mut sheet = Self { input, at: Position::default(), names: Vec::new(), cells };
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

    /// Goes on at a row, where the input stands already.
    pub(crate) fn go_on(&mut self, input: R, at: Position) {
        (self.input, self.at) = (input, at);
    }

    /// The next row as an item; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        loop {
            let line = self.at.lines + 1;
            let Some(row) = self.row()? else { return Ok(None) };
            // A blank line is no row.
            if row
                .as_ref()
                .is_ok_and(|cells| cells.iter().all(String::is_empty) && cells.len() == 1)
            {
                continue;
            }
            let text = row.and_then(|row| self.item(&row)).map(String::into_bytes);
            return Ok(Some(Record { line, end: self.at.offset, text }));
        }
    }

    /// Lines before the place where reading goes on.
    pub(crate) fn lines(&self) -> u64 {
        self.at.lines
    }

    /// The cells of the next row, or why they cannot be told; `None` after the last.
    fn row(&mut self) -> Result<Option<Result<Vec<String>, String>>> {
        let mut row = RowScan { begin: self.at.offset, ..RowScan::default() };
        let mut any = false;
        loop {
            let buffer = self.input.fill_buf().context("cannot read the file")?;
            if buffer.is_empty() {
                return Ok(any.then(|| row.finish()));
            }
            any = true;
            let end = buffer.iter().position(|byte| row.take(*byte));
            let used = end.map_or(buffer.len(), |at| at + 1);
            self.at.lines += memchr::memchr_iter(b'\n', &buffer[..used]).count() as u64;
            self.at.offset += used as u64;
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(row.finish()));
            }
        }
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

/// A row that is being read.
#[derive(Default)]
struct RowScan {
    /// Its place in the file: before the first a byte order mark may stand.
    begin: u64,
    cells: Vec<Vec<u8>>,
    cell: Vec<u8>,
    quoted: bool,
    /// The last byte was a quote within quotes: the end of them, or the first of two.
    closing: bool,
    /// The last byte was a carriage return outside quotes: a part of the line's end, if that follows.
    returned: bool,
    bytes: usize,
}

impl RowScan {
    /// Takes a byte; whether it ends the row.
    fn take(&mut self, byte: u8) -> bool {
        self.bytes += 1;
        if std::mem::take(&mut self.closing) {
            if byte == b'"' {
                self.push(b'"');
                return false;
            }
            self.quoted = false;
        }
        self.returned = byte == b'\r' && !self.quoted || byte == b'\n' && self.returned;
        match byte {
            b'"' if self.quoted => self.closing = true,
            b'"' if self.cell.is_empty() => self.quoted = true,
            byte if self.quoted => self.push(byte),
            b',' => self.cells.push(std::mem::take(&mut self.cell)),
            b'\n' => return true,
            byte => self.push(byte),
        }
        false
    }

    /// What is too long to be an item is counted and not kept.
    fn push(&mut self, byte: u8) {
        if self.bytes <= TEXT_BYTES_MAX {
            self.cell.push(byte);
        }
        if self.begin == 0 && self.bytes == MARK.len() && self.cell == MARK {
            self.cell.clear();
        }
    }

    fn finish(mut self) -> Result<Vec<String>, String> {
        if self.bytes > TEXT_BYTES_MAX {
            return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        }
        if self.quoted && !self.closing {
            return Err("a quote in it is never closed".to_owned());
        }
        if self.returned {
            self.cell.pop();
        }
        self.cells.push(self.cell);
        let text = |cell| String::from_utf8(cell).map_err(|_| "it is not UTF-8".to_owned());
        self.cells.into_iter().map(text).collect()
    }
}

/// A sheet that is written row by row.
pub(crate) struct SheetWriter<W: Write> {
    out: W,
    names: Vec<String>,
}

impl<W: Write> SheetWriter<W> {
    /// Begins a sheet with its head.
    pub(crate) fn new(out: W, names: Vec<String>) -> Result<Self> {
        let mut sheet = Self::resume(out, names);
        let head = sheet.names.clone();
        sheet.line(head.into_iter())?;
        Ok(sheet)
    }

    /// Goes on with one that has its head.
    pub(crate) fn resume(out: W, names: Vec<String>) -> Self {
        Self { out, names }
    }

    /// Writes an item; gives back the names for which there is no column.
    pub(crate) fn row(&mut self, item: &Object) -> Result<Vec<String>> {
        let cell = |name: &String| item.get(name).map_or(String::new(), write_cell);
        let cells: Vec<String> = self.names.iter().map(cell).collect();
        self.line(cells.into_iter())?;
        let missing = item.iter().filter(|(name, _)| !self.names.iter().any(|n| **n == ***name));
        Ok(missing.map(|(name, _)| name.to_string()).collect())
    }

    fn line(&mut self, cells: impl Iterator<Item = String>) -> Result<()> {
        let quoted = |cell: String| {
            if cell.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell
            }
        };
        let line = cells.map(quoted).collect::<Vec<_>>().join(",") + "\n";
        self.out.write_all(line.as_bytes()).context("cannot write")
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
    use std::io::Cursor;

    use super::*;

    fn items(text: &str, cells: Cells) -> Vec<(u64, String)> {
        let mut sheet = SheetReader::new(Cursor::new(text), cells).unwrap();
        let mut found = Vec::new();
        while let Some(record) = sheet.next().unwrap() {
            let text = record.text.map(|text| String::from_utf8(text).unwrap());
            found.push((record.line, text.unwrap_or_else(|fault| fault)));
        }
        found
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
