//! A line that a person types, with history and completion. It is small because it can be: `console`
//! reads keys, and everything else is a list of characters and a place in it. Where nobody types,
//! lines are read as they come.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use console::{Key, Term, measure_text_width};
use orrery_server::auth::private_file;

/// Lines of history kept.
const HISTORY_MAX: usize = 1000;
/// Columns where the terminal does not tell.
const WIDTH_UNKNOWN: usize = 80;

/// What came of typing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// Ctrl-C: the line is given up.
    Interrupted,
    /// Ctrl-D on an empty line, or the end of the input.
    End,
}

/// Proposes how a line may go on: where the word begins, and what it may become.
pub(crate) trait Proposals {
    fn proposals(&self, line: &str) -> (usize, Vec<String>);
}

/// Reads lines.
pub(crate) struct LineReader {
    term: Term,
    typed: bool,
    history: Vec<String>,
    file: Option<PathBuf>,
}

impl LineReader {
    /// A reader with the history of a file.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        let typed = std::io::stdin().is_terminal();
        let text = file.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let history = text.unwrap_or_default().lines().map(str::to_owned).collect();
        Self { term: Term::stdout(), typed, history, file }
    }

    /// One line; what stands before it is the prompt.
    pub(crate) fn read(&mut self, prompt: &str, proposals: &dyn Proposals) -> Result<Line> {
        if !self.typed {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line).context("cannot read")?;
            return Ok(if read == 0 { Line::End } else { Line::Text(line) });
        }
        let mut edit = Edit { recalled: self.history.len(), ..Edit::default() };
        self.draw(prompt, &edit)?;
        loop {
            let key = self.term.read_key_raw().context("the terminal cannot be read")?;
            match edit.press(&key, &self.history, proposals) {
                Pressed::Drawn => {}
                Pressed::Choices(choices) => {
                    self.term.write_line("")?;
                    self.term.write_line(&choices.join("  "))?;
                }
                Pressed::Done(line) => {
                    self.term.write_line("")?;
                    return Ok(line);
                }
            }
            self.draw(prompt, &edit)?;
        }
    }

    /// Shows the part of the line that fits, with the cursor in it.
    fn draw(&self, prompt: &str, edit: &Edit) -> Result<()> {
        let width = self.term.size_checked().map_or(WIDTH_UNKNOWN, |(_, w)| usize::from(w));
        let room = width.saturating_sub(measure_text_width(prompt) + 1).max(8);
        let (text, behind) = edit.window(room);
        self.term.clear_line()?;
        write!(&self.term, "{prompt}{text}")?;
        self.term.move_cursor_left(behind)?;
        self.term.flush().context("the terminal cannot be written")
    }

    /// Remembers a line.
    pub(crate) fn remember(&mut self, line: &str) {
        let line = line.replace('\n', " ");
        if self.history.last() != Some(&line) {
            self.history.push(line);
        }
    }
}

impl Drop for LineReader {
    /// The history is a comfort: where it cannot be kept, it is not.
    fn drop(&mut self) {
        let Some(path) = self.file.as_ref().filter(|_| self.typed) else { return };
        let first = self.history.len().saturating_sub(HISTORY_MAX);
        let text = self.history[first..].join("\n") + "\n";
        let kept = path.parent().map_or(Ok(()), orrery_files::create_folders);
        // Queries hold what people ask about.
        let _ = kept.and_then(|()| private_file::write(path, &text));
    }
}

/// A line that is being typed.
#[derive(Default)]
struct Edit {
    chars: Vec<char>,
    at: usize,
    /// Which line of the history is shown; past the last, none.
    recalled: usize,
    /// What was typed before the history was looked at.
    kept: Vec<char>,
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Drawn,
    Choices(Vec<String>),
    Done(Line),
}

impl Edit {
    fn text(&self) -> String {
        self.chars.iter().collect()
    }

    fn press(&mut self, key: &Key, history: &[String], proposals: &dyn Proposals) -> Pressed {
        match *key {
            Key::Enter => return Pressed::Done(Line::Text(self.text())),
            Key::CtrlC | Key::Char('\u{3}') => return Pressed::Done(Line::Interrupted),
            Key::Char('\u{4}') if self.chars.is_empty() => return Pressed::Done(Line::End),
            Key::Tab => return self.complete(proposals),
            Key::ArrowUp => self.recall(self.recalled.saturating_sub(1), history),
            Key::ArrowDown => self.recall((self.recalled + 1).min(history.len()), history),
            Key::ArrowLeft | Key::Char('\u{2}') => self.at = self.at.saturating_sub(1),
            Key::ArrowRight | Key::Char('\u{6}') => self.at = (self.at + 1).min(self.chars.len()),
            Key::Home | Key::Char('\u{1}') => self.at = 0,
            Key::End | Key::Char('\u{5}') => self.at = self.chars.len(),
            Key::Backspace if self.at > 0 => {
                self.at -= 1;
                self.chars.remove(self.at);
            }
            Key::Del | Key::Char('\u{4}') if self.at < self.chars.len() => {
                self.chars.remove(self.at);
            }
            // Ctrl-U, Ctrl-K, Ctrl-W: what is before the cursor, behind it, the word before it.
            Key::Char('\u{15}') => drop(self.chars.drain(..std::mem::take(&mut self.at))),
            Key::Char('\u{b}') => self.chars.truncate(self.at),
            Key::Char('\u{17}') => self.remove_word(),
            Key::Char(c) if !c.is_control() => {
                self.chars.insert(self.at, c);
                self.at += 1;
            }
            _ => {}
        }
        Pressed::Drawn
    }

    fn remove_word(&mut self) {
        let before = &self.chars[..self.at];
        let word = before.iter().rposition(|c| !c.is_whitespace()).unwrap_or(0);
        let from = before[..word].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
        self.chars.drain(from..self.at);
        self.at = from;
    }

    fn recall(&mut self, which: usize, history: &[String]) {
        if self.recalled == history.len() && which < history.len() {
            self.kept.clone_from(&self.chars);
        }
        self.recalled = which;
        self.chars = history.get(which).map_or_else(|| self.kept.clone(), |l| l.chars().collect());
        self.at = self.chars.len();
    }

    /// Goes on as far as all proposals agree; if they do not, they are shown.
    fn complete(&mut self, proposals: &dyn Proposals) -> Pressed {
        let before: String = self.chars[..self.at].iter().collect();
        let (from, choices) = proposals.proposals(&before);
        let Some(first) = choices.first() else { return Pressed::Drawn };
        let agreed = choices.iter().skip(1).fold(first.chars().count(), |length, choice| {
            let same = |(a, b): &(char, char)| a.eq_ignore_ascii_case(b);
            first.chars().zip(choice.chars()).take(length).take_while(same).count()
        });
        let from = before.get(..from).map_or(self.at, |head| head.chars().count());
        let typed = self.at - from;
        if agreed > typed || choices.len() == 1 {
            self.chars.splice(from..self.at, first.chars().take(agreed));
            self.at = from + agreed;
        }
        if choices.len() > 1 && agreed <= typed {
            Pressed::Choices(choices)
        } else {
            Pressed::Drawn
        }
    }

    /// As much of the line as fits around the cursor, and how many columns lie behind the cursor.
    fn window(&self, room: usize) -> (String, usize) {
        let width = |chars: &[char]| measure_text_width(&chars.iter().collect::<String>());
        let mut first = 0;
        while width(&self.chars[first..self.at]) > room {
            first += 1;
        }
        let mut last = self.chars.len();
        while width(&self.chars[first..last]) > room {
            last -= 1;
        }
        let shown = self.chars[first..last].iter().collect();
        (shown, width(&self.chars[self.at..last.max(self.at)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_history_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        std::fs::write(&path, "older and longer").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        private_file::write(&path, "SELECT 1\n").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(
            (mode & 0o777, std::fs::read_to_string(&path).unwrap()),
            (0o600, "SELECT 1\n".into())
        );
    }

    struct Names;

    impl Proposals for Names {
        fn proposals(&self, line: &str) -> (usize, Vec<String>) {
            let from = line.rfind(' ').map_or(0, |at| at + 1);
            let known = ["SELECT", "SELF", "FROM"].into_iter();
            let fits = |name: &&str| {
                let word = line[from..].to_uppercase();
                !word.is_empty() && name.starts_with(&word)
            };
            (from, known.filter(fits).map(str::to_owned).collect())
        }
    }

    fn typed(edit: &mut Edit, keys: impl IntoIterator<Item = Key>, history: &[String]) -> Pressed {
        keys.into_iter()
            .map(|key| edit.press(&key, history, &Names))
            .last()
            .unwrap_or(Pressed::Drawn)
    }

    fn chars(text: &str) -> Vec<Key> {
        text.chars().map(Key::Char).collect()
    }

    #[test]
    fn a_line_is_edited_at_the_cursor() {
        let mut edit = Edit::default();
        typed(&mut edit, chars("SELECT äx"), &[]);
        typed(&mut edit, [Key::ArrowLeft, Key::Backspace, Key::Char('b'), Key::End], &[]);
        assert_eq!(edit.text(), "SELECT bx");
        typed(&mut edit, [Key::Char('\u{17}')], &[]);
        assert_eq!(edit.text(), "SELECT ");
        typed(&mut edit, [Key::Home, Key::Del, Key::Char('\u{b}')], &[]);
        assert_eq!(edit.text(), "");
        let end = typed(&mut edit, [Key::Char('\u{4}')], &[]);
        assert_eq!(end, Pressed::Done(Line::End));
    }

    #[test]
    fn earlier_lines_come_back_and_so_does_what_was_typed() {
        let history = ["one".to_owned(), "two".to_owned()];
        let mut edit = Edit { recalled: 2, ..Edit::default() };
        typed(&mut edit, chars("new"), &history);
        for (key, expected) in [
            (Key::ArrowUp, "two"),
            (Key::ArrowUp, "one"),
            (Key::ArrowUp, "one"),
            (Key::ArrowDown, "two"),
            (Key::ArrowDown, "new"),
            (Key::ArrowDown, "new"),
        ] {
            typed(&mut edit, [key], &history);
            assert_eq!(edit.text(), expected);
        }
    }

    #[test]
    fn tab_goes_as_far_as_all_agree_and_then_shows_them() {
        let mut edit = Edit::default();
        typed(&mut edit, chars("s"), &[]);
        assert_eq!(typed(&mut edit, [Key::Tab], &[]), Pressed::Drawn);
        assert_eq!(edit.text(), "SEL");
        let shown = typed(&mut edit, [Key::Tab], &[]);
        assert_eq!(shown, Pressed::Choices(vec!["SELECT".into(), "SELF".into()]));
        typed(&mut edit, [Key::Char('e'), Key::Tab, Key::Char(' '), Key::Char('f'), Key::Tab], &[]);
        assert_eq!(edit.text(), "SELECT FROM");
        assert_eq!(
            typed(&mut edit, [Key::Enter], &[]),
            Pressed::Done(Line::Text("SELECT FROM".into()))
        );
    }

    #[test]
    fn a_long_line_shows_what_is_around_the_cursor() {
        let mut edit = Edit::default();
        typed(&mut edit, chars("0123456789"), &[]);
        assert_eq!(edit.window(4), ("6789".into(), 0));
        typed(&mut edit, [Key::Home], &[]);
        assert_eq!(edit.window(4), ("0123".into(), 4));
        assert_eq!(edit.window(40), ("0123456789".into(), 10));
    }
}
