//! Tables for people: columns as wide as they need to be, numbers to the right, and no line longer
//! than the terminal. Who pipes gets JSON.

use std::io::IsTerminal as _;

use orrery_types::Value;

/// Columns without a terminal to measure.
const WIDTH_UNKNOWN: usize = 200;
/// A cell longer than this is cut: a table is for looking at.
const CELL_MAX: usize = 60;

/// Which side of its column a cell stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// A table that grows row by row.
#[derive(Debug, Default)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    sides: Vec<Option<Side>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let head: Vec<String> = head.into_iter().map(Into::into).collect();
        let sides = vec![None; head.len()];
        Self { head, rows: Vec::new(), sides }
    }

    /// Adds a row of texts.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| one_line(&cell.into())).collect();
        for (side, cell) in self.sides.iter_mut().zip(&cells).filter(|(_, cell)| !cell.is_empty()) {
            let own = if is_quantity(cell) { Side::Right } else { Side::Left };
            *side = Some(side.map_or(own, |known| if known == own { own } else { Side::Left }));
        }
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, no line longer than `width`.
    pub(crate) fn to_text(&self, width: usize) -> String {
        let widths = self.widths();
        let mut text = self.line(&self.head, &widths, width);
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        text += &self.line(&rule, &widths, width);
        for row in &self.rows {
            text += &self.line(row, &widths, width);
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let all = std::iter::once(&self.head).chain(&self.rows);
        let mut widths = vec![0; self.head.len()];
        for row in all {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn line(&self, cells: &[String], widths: &[usize], width: usize) -> String {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if at > 0 {
                line += "  ";
            }
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            match self.sides.get(at).copied().flatten() {
                Some(Side::Right) => line += &(gap + cell),
                _ => line += &(cell.clone() + &gap),
            }
        }
        let mut line = cut(line.trim_end(), width);
        line.push('\n');
        line
    }
}

/// A table of what a query found: a column for each property, in the order they were met.
pub(crate) fn of_rows(rows: &[Value]) -> Table {
    let mut names: Vec<&str> = Vec::new();
    let mut bare = false;
    for row in rows {
        match row.as_object() {
            Some(object) => {
                for (name, _) in object.iter() {
                    if !names.contains(&&**name) {
                        names.push(name);
                    }
                }
            }
            None => bare = true,
        }
    }
    let mut head: Vec<&str> = names.clone();
    if bare {
        head.insert(0, "value");
    }
    let mut table = Table::new(head);
    for row in rows {
        let own = |name: &&str| row.as_object().and_then(|object| object.get(name));
        let cells = names.iter().map(|name| own(name).map_or(String::new(), cell));
        let first = bare.then(|| if row.as_object().is_some() { String::new() } else { cell(row) });
        table.row(first.into_iter().chain(cells).map(|text| cut(&text, CELL_MAX)));
    }
    table
}

/// Rows one below the other, each with a line for every property: for rows with many of them.
pub(crate) fn expanded(rows: &[Value], width: usize) -> String {
    let names = rows.iter().filter_map(Value::as_object).flat_map(|o| o.iter().map(|(n, _)| n));
    let head = names.map(|name| name.chars().count()).max().unwrap_or(0).max("value".len());
    let mut text = String::new();
    for (number, row) in (1_u64..).zip(rows) {
        let title = format!("─[ {number} ]");
        let rule = "─".repeat(width.min(CELL_MAX).saturating_sub(title.chars().count()));
        text.extend([title.as_str(), &rule, "\n"]);
        let mut line = |name: &str, value: &Value| {
            let gap = " ".repeat(head.saturating_sub(name.chars().count()) + 2);
            text += &cut(&format!("{}{gap}{}", one_line(name), one_line(&cell(value))), width);
            text.push('\n');
        };
        match row.as_object() {
            Some(object) => object.iter().for_each(|(name, value)| line(name, value)),
            None => line("value", row),
        }
    }
    text
}

/// A table with its head in bold, where colours are shown.
pub(crate) fn with_bold_head(text: &str) -> String {
    match text.split_once('\n') {
        Some((head, rows)) if crate::pretty::is_coloured() => {
            format!("{}\n{rows}", console::Style::new().bold().apply_to(head))
        }
        _ => text.to_owned(),
    }
}

/// A value as a cell shows it: strings without quotes, everything else as JSON.
fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_json(), str::to_owned)
}

/// Control characters would tear the table apart, or drive the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn is_quantity(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && cell.chars().all(|c| c.is_ascii_digit() || ",.-+eE".contains(c))
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Whether a person looks at standard output.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Columns of the terminal.
pub(crate) fn width() -> usize {
    let size = console::Term::stdout().size_checked();
    size.map_or(WIDTH_UNKNOWN, |(_, columns)| usize::from(columns))
}

/// A number with its thousands apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, as a sentence has it: `1 item`, `2 items`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A size in the unit that suits it.
#[expect(clippy::cast_precision_loss, reason = "a size for people has three digits")]
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1000.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(!(unit == 0 || amount >= 100.0));
    format!("{amount:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| Value::parse(text.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn columns_come_as_they_are_met_and_numbers_stand_right() {
        let rows = rows(&[r#"{"name":"Ada","n":5}"#, r#"{"n":12,"tags":["a","b"]}"#]);
        let expected = "name   n  tags\n────  ──  ─────────\nAda    5\n      12  [\"a\",\"b\"]\n";
        assert_eq!(of_rows(&rows).to_text(80), expected);
    }

    #[test]
    fn values_that_are_no_objects_have_a_column_of_their_own() {
        let rows = rows(&["3", r#"{"a":null}"#, r#""x""#]);
        assert_eq!(of_rows(&rows).to_text(80), "value  a\n─────  ────\n3\n       null\nx\n");
    }

    #[test]
    fn a_row_stays_one_line_of_the_terminal() {
        let rows = rows(&[r#"{"a":"line\none\u001b[31m","b":"0123456789"}"#]);
        let text = of_rows(&rows).to_text(12);
        assert!(text.lines().all(|line| line.chars().count() <= 12), "{text}");
        assert!(!text.contains('\u{1b}') && text.ends_with("…\n"), "{text}");
    }

    #[test]
    fn expanded_rows_have_a_line_for_each_property() {
        let rows = rows(&[r#"{"id":"a","name":"Ada\nL"}"#, "7"]);
        let text = expanded(&rows, 12);
        let expected = "─[ 1 ]──────\nid     a\nname   Ada L\n─[ 2 ]──────\nvalue  7\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn numbers_and_sizes_are_written_for_people() {
        assert_eq!(
            (count(0), count(999), count(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
        assert_eq!(
            (size(12), size(2048), size(5_000_000)),
            ("12 B".into(), "2.0 KB".into(), "4.8 MB".into())
        );
    }
}
