//! Where rows go: a table for people, one JSON array, or JSON lines, which are written as they come.

use std::io::Write;

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_types::Value;

use crate::exit::UNREAD;
use crate::table;

/// Rows that a table holds unless more are asked for.
pub(crate) const TABLE_ROWS_MAX: usize = 1000;

/// Arguments that choose the form of rows.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct OutputArguments {
    /// Print one JSON array
    #[arg(long, conflicts_with_all = ["lines", "table"])]
    pub(crate) json: bool,
    /// Print JSON lines; what happens without a terminal too
    #[arg(long, conflicts_with = "table")]
    pub(crate) lines: bool,
    /// Print a table; what happens on a terminal too
    #[arg(long)]
    pub(crate) table: bool,
}

/// The form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Table,
    Json,
    Lines,
}

impl OutputArguments {
    pub(crate) fn form(self) -> OutputFormat {
        match self {
            Self { json: true, .. } => OutputFormat::Json,
            Self { lines: true, .. } => OutputFormat::Lines,
            Self { table: true, .. } => OutputFormat::Table,
            _ if table::is_terminal() => OutputFormat::Table,
            _ => OutputFormat::Lines,
        }
    }
}

/// Writes rows in one form.
pub(crate) struct Output<W> {
    form: OutputFormat,
    out: W,
    kept: Vec<Value>,
    written: usize,
    /// Tables have a line for each property.
    expanded: bool,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(form: OutputFormat, expanded: bool, out: W) -> Self {
        Self { form, out, kept: Vec::new(), written: 0, expanded }
    }

    /// Takes rows; a table keeps them until the end.
    pub(crate) fn rows(&mut self, rows: Vec<Value>) -> Result<()> {
        if self.form == OutputFormat::Table {
            self.kept.extend(rows);
            return Ok(());
        }
        let mut text = String::new();
        for row in rows {
            if self.form == OutputFormat::Json {
                text += if self.written == 0 { "[" } else { ",\n " };
            }
            row.write_json(&mut text);
            if self.form == OutputFormat::Lines {
                text.push('\n');
            }
            self.written += 1;
        }
        self.write(&text)
    }

    /// Writes what is left. A table is given back instead: it may need a pager.
    pub(crate) fn end(mut self) -> Result<String> {
        let text = match self.form {
            OutputFormat::Json if self.written == 0 => "[]\n",
            OutputFormat::Json => "]\n",
            OutputFormat::Lines | OutputFormat::Table => "",
        };
        self.write(text)?;
        self.out.flush().context(UNREAD)?;
        Ok(match self.form {
            OutputFormat::Table if self.kept.is_empty() => String::new(),
            OutputFormat::Table if self.expanded => table::expanded(&self.kept, table::width()),
            OutputFormat::Table => {
                table::with_bold_head(&table::of_rows(&self.kept).to_text(table::width()))
            }
            OutputFormat::Json | OutputFormat::Lines => String::new(),
        })
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).context(UNREAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: OutputFormat, pages: &[&[&str]]) -> String {
        let mut out = Vec::new();
        let mut output = Output::new(form, false, &mut out);
        for page in pages {
            let rows = page.iter().map(|text| Value::parse(text.as_bytes()).unwrap()).collect();
            output.rows(rows).unwrap();
        }
        let table = output.end().unwrap();
        String::from_utf8(out).unwrap() + &table
    }

    #[test]
    fn rows_of_several_pages_are_one_array_or_lines() {
        let pages: [&[&str]; 3] = [&["1", "{\"a\":2}"], &[], &["\"x\""]];
        assert_eq!(written(OutputFormat::Json, &pages), "[1,\n {\"a\":2},\n \"x\"]\n");
        assert_eq!(written(OutputFormat::Lines, &pages), "1\n{\"a\":2}\n\"x\"\n");
        assert_eq!(written(OutputFormat::Json, &[]), "[]\n");
        assert_eq!(written(OutputFormat::Table, &[]), "");
    }
}
