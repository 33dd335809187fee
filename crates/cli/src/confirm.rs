//! Deletes that cannot be undone are confirmed: by a person at a terminal, or by `--yes`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result, bail};

use crate::exit::usage;

/// Fails unless the delete is confirmed. `what` names it with its kind: `database 'shop'`.
pub(crate) fn delete(what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return Err(usage(format!(
            "there is no terminal to confirm on that {what} is to be deleted; add --yes"
        )));
    }
    eprint!("Delete {what} and everything in it? [y/N] ");
    std::io::stderr().flush().context("the terminal cannot be written")?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer).context("the terminal cannot be read")?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was deleted"),
    }
}
