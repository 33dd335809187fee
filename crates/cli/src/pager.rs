//! Text that may be longer than the terminal goes through a pager: `ORRERY_PAGER`, `PAGER`, or `less`
//! with flags that end it at once if everything fits. An empty variable turns the pager off.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::exit::UNREAD;
use crate::table;

/// What is used if no variable names one. The flags: quit if it fits, show colours, cut long lines,
/// leave the screen as it is.
const DEFAULT: &str = "less -FRSX";

/// Prints a text: through a pager if a person looks at it and it does not fit on the screen.
pub(crate) fn print(text: &str) -> Result<()> {
    let fits = || {
        let rows = console::Term::stdout().size_checked().map_or(24, |(rows, _)| usize::from(rows));
        text.lines().count() < rows
    };
    match command() {
        Some(command) if table::is_terminal() && !fits() && paged(&command, text) => Ok(()),
        _ => std::io::stdout().write_all(text.as_bytes()).context(UNREAD),
    }
}

/// The command of the pager; none if it is turned off.
fn command() -> Option<String> {
    let named = ["ORRERY_PAGER", "PAGER"].into_iter().find_map(|name| std::env::var(name).ok());
    chosen(named.as_deref())
}

fn chosen(named: Option<&str>) -> Option<String> {
    let command = named.unwrap_or(DEFAULT).trim();
    (!command.is_empty() && command != "cat").then(|| command.to_owned())
}

/// Whether the pager took the text. One that does not start is as good as none.
fn paged(command: &str, text: &str) -> bool {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return false };
    let Ok(mut child) = Command::new(program).args(words).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // Who leaves the pager before the end has read enough.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_turns_the_pager_off() {
        assert_eq!(chosen(None).as_deref(), Some(DEFAULT));
        assert_eq!(chosen(Some("most -s")).as_deref(), Some("most -s"));
        assert_eq!((chosen(Some(" ")), chosen(Some("cat"))), (None, None));
    }
}
