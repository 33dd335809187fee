//! The lines that the shell reads. On a terminal `rustyline` edits them, over several lines while
//! something is open, with history and completion; from a pipe they are read as they come.

use std::cell::RefCell;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::complete::{Words, is_open};

/// Entries of the history that are kept.
const HISTORY_MAX: usize = 1000;

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// Ctrl-C: the line is abandoned.
    Interrupted,
    /// Ctrl-D on an empty line, or the end of the input.
    End,
}

/// Reads lines.
pub(crate) struct LineReader {
    /// Absent without a terminal.
    editor: Option<Editor<Assistant, FileHistory>>,
    /// Where the history is kept.
    file: Option<PathBuf>,
}

impl LineReader {
    /// A reader that completes with these words, with the history of a file.
    pub(crate) fn new(file: Option<PathBuf>, words: Rc<RefCell<Words>>) -> Result<Self> {
        if !std::io::stdin().is_terminal() {
            return Ok(Self { editor: None, file });
        }
        Ok(Self { editor: Some(editor(file.as_ref(), words)?), file })
    }

    /// One line, or several if something is open at the end of the first.
    pub(crate) fn read(&mut self, prompt: &str) -> Result<Line> {
        let Some(editor) = &mut self.editor else { return read_piped() };
        let coloured = format!("\x1b[1;36m{prompt}\x1b[0m");
        match editor.readline(&(prompt, coloured.as_str())) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(error).context("the terminal cannot be read"),
        }
    }

    /// Adds a line to the history.
    pub(crate) fn remember(&mut self, line: &str) {
        if let Some(editor) = &mut self.editor {
            // Without a history the shell works all the same.
            let _ = editor.add_history_entry(line);
        }
    }
}

impl Drop for LineReader {
    /// Appends what was typed to the file, which may be another shell's too. Queries hold what people
    /// ask about, so the file is readable by its owner alone. A history that cannot be written is
    /// lost, and nothing else.
    fn drop(&mut self) {
        let (Some(editor), Some(path)) = (&mut self.editor, &self.file) else { return };
        let created = path.parent().map_or(Ok(()), orrery_files::create_folders);
        if created.is_ok() {
            let _ = editor.append_history(path);
        }
    }
}

fn editor(
    file: Option<&PathBuf>,
    words: Rc<RefCell<Words>>,
) -> Result<Editor<Assistant, FileHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY_MAX)
        .context("cannot keep a history")?
        .completion_type(CompletionType::List)
        .build();
    let history = FileHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).context("cannot use the terminal")?;
    editor.set_helper(Some(Assistant { words }));
    if let Some(path) = file {
        // There may be none yet.
        let _ = editor.load_history(path);
    }
    Ok(editor)
}

/// Reads from a pipe until nothing is open.
fn read_piped() -> Result<Line> {
    let mut text = String::new();
    loop {
        let read = std::io::stdin().lock().read_line(&mut text).context("cannot read")?;
        match read {
            0 if text.is_empty() => return Ok(Line::End),
            0 => return Ok(Line::Text(text)),
            _ if is_open(&text) => {}
            _ => return Ok(Line::Text(text)),
        }
    }
}

/// Completes words, and says whether a line goes on.
struct Assistant {
    words: Rc<RefCell<Words>>,
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.words.borrow().proposals(line.get(..at).unwrap_or(line)))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let open = is_open(context.input());
        Ok(if open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_history_is_for_its_owner_alone_and_shared_by_shells() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("history");
        let open = || {
            let words = Rc::new(RefCell::new(Words::default()));
            let editor = editor(Some(&path), words).unwrap();
            LineReader { editor: Some(editor), file: Some(path.clone()) }
        };
        let entries = || {
            let reader = open();
            let editor = reader.editor.as_ref().unwrap();
            editor.history().iter().map(String::from).collect::<Vec<_>>()
        };
        std::fs::create_dir(folder.path().join("state")).unwrap();
        // As earlier versions wrote it.
        std::fs::write(&path, "\\use shop/books\nSELECT 1\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let (mut one, mut other) = (open(), open());
        one.remember("SELECT 2 -- two\n FROM c");
        other.remember("SELECT 3");
        drop((one, other));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            entries(),
            ["\\use shop/books", "SELECT 1", "SELECT 2 -- two\n FROM c", "SELECT 3"]
        );
    }
}
