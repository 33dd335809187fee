//! Questions one after another. A line that begins with a backslash is for the shell itself.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Result, bail};
use orrery_types::Value;

use super::ask::{Question, parameter, partition_key};
use super::complete::{COMMANDS, Words};
use super::line::{Line, LineReader};
use super::output::OutputFormat;
use super::{QueryArguments, Shape, answer, explain, say};
use crate::item::{ItemExists, Items};
use crate::remote::Remote;
use crate::transfer::state_folder;
use crate::{account, interrupt, json_input, pretty};

struct Shell {
    remote: Remote,
    database: Option<String>,
    container: Option<String>,
    question: Question,
    shape: Shape,
}

/// What becomes of the shell after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    Leave,
}

pub(super) fn run(remote: Remote, arguments: &QueryArguments) -> Result<()> {
    let mut shell = Shell {
        database: arguments.database.clone(),
        container: arguments.container.clone(),
        question: Question {
            database: String::new(),
            container: String::new(),
            text: String::new(),
            parameters: arguments.parameters.clone(),
            partition_key: arguments.partition_key.as_deref().map(partition_key),
            explain: arguments.explain,
        },
        shape: Shape { form: arguments.output.form(), expanded: false, limit: arguments.limit },
        remote,
    };
    // It tells at once whether the server is there and the key right, and what there is to ask.
    let places = shell.places()?;
    let words = Rc::new(RefCell::new(Words::new(places)));
    let history = state_folder().map(|folder| folder.join("history"));
    let mut reader = LineReader::new(history, words.clone())?;
    say("Ask a query, or \\help. Tab completes, Ctrl-D leaves.")?;
    shell.lines(&mut reader, &words)
}

impl Shell {
    fn lines(&mut self, reader: &mut LineReader, words: &RefCell<Words>) -> Result<()> {
        loop {
            let text = match reader.read(&self.prompt())? {
                Line::Text(text) => text,
                Line::Interrupted => continue,
                Line::End => return Ok(()),
            };
            let asked = text.trim().trim_end_matches(';').trim_end();
            if asked.is_empty() {
                continue;
            }
            reader.remember(asked);
            let done = {
                let _cooperation = interrupt::cooperate();
                self.line(asked, &mut words.borrow_mut())
            };
            if interrupt::acknowledge() {
                eprintln!(
                    "Interrupted; the answer is not awaited. What was written stays written."
                );
                continue;
            }
            match done {
                Ok(Then::GoOn) => {}
                Ok(Then::Leave) => return Ok(()),
                Err(error) => eprintln!("{error:#}"),
            }
        }
    }

    fn prompt(&self) -> String {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        match (&self.database, &self.container) {
            (None, None) => "orrery> ".to_owned(),
            _ => format!("{}/{}> ", name(&self.database), name(&self.container)),
        }
    }

    fn line(&mut self, text: &str, words: &mut Words) -> Result<Then> {
        if let Some(command) = text.strip_prefix('\\') {
            return self.command(command, words);
        }
        let (database, container) = self.place()?;
        let question =
            Question { database, container, text: text.to_owned(), ..self.question.clone() };
        if question.explain {
            explain(&mut self.remote, &question, self.shape.form)?;
        } else {
            words.learn(&answer(&mut self.remote, &question, self.shape)?);
        }
        Ok(Then::GoOn)
    }

    fn command(&mut self, text: &str, words: &mut Words) -> Result<Then> {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match name {
            "q" | "quit" | "exit" => return Ok(Then::Leave),
            "?" | "help" => {
                for (name, what) in COMMANDS {
                    say(&format!("  {name} {what}"))?;
                }
            }
            "use" => {
                let (database, container) = rest.split_once('/').unwrap_or((rest, ""));
                if database.is_empty() {
                    bail!("name it: \\use DATABASE/CONTAINER");
                }
                self.database = Some(database.to_owned());
                self.container = Some(container.to_owned()).filter(|name| !name.is_empty());
            }
            "list" => {
                words.places = self.places()?;
                for place in &words.places {
                    say(place)?;
                }
            }
            "explain" => self.question.explain = !self.question.explain,
            "table" => self.shape.form = OutputFormat::Table,
            "json" => self.shape.form = OutputFormat::Json,
            "lines" => self.shape.form = OutputFormat::Lines,
            "x" => self.shape.expanded = !self.shape.expanded,
            "get" | "put" | "create" | "delete" => self.item(name, rest, words)?,
            "key" if rest.is_empty() => self.question.partition_key = None,
            "key" => self.question.partition_key = Some(partition_key(rest)),
            "set" => {
                let (name, value) = parameter(rest).map_err(anyhow::Error::msg)?;
                self.question.parameters.retain(|(known, _)| *known != name);
                self.question.parameters.push((name, value));
            }
            other => bail!("there is no command \\{other}; \\help lists them"),
        }
        Ok(Then::GoOn)
    }

    /// The container at hand.
    fn place(&self) -> Result<(String, String)> {
        match (&self.database, &self.container) {
            (Some(database), Some(container)) => Ok((database.clone(), container.clone())),
            _ => bail!("choose a container first: \\use DATABASE/CONTAINER"),
        }
    }

    /// Reads, writes or deletes one item. Its partition key is named, or that of `\\key`.
    fn item(&mut self, command: &str, rest: &str, words: &mut Words) -> Result<()> {
        let (database, container) = self.place()?;
        if rest.is_empty() {
            let operand = if matches!(command, "get" | "delete") { "ID [KEY]" } else { "JSON" };
            bail!("write \\{command} {operand}");
        }
        let mut items = Items::new(&mut self.remote, format!("/dbs/{database}/colls/{container}"));
        let (id, key) = id_and_key(rest);
        let key = key.or(self.question.partition_key.as_deref());
        let shown = match command {
            "get" => items.read(&id, key)?,
            "delete" => {
                items.delete(&id, key, None)?;
                return say(&format!("Item '{id}' is deleted."));
            }
            written => {
                let existing =
                    if written == "put" { ItemExists::Replace } else { ItemExists::Refuse };
                items.write(&json_input::object(Some(rest), None)?, existing, None)?
            }
        };
        words.learn(std::slice::from_ref(&shown));
        let text = match self.shape.form {
            OutputFormat::Table => pretty::indented(&shown, pretty::is_coloured()),
            OutputFormat::Json | OutputFormat::Lines => shown.to_json(),
        };
        say(&text)
    }

    /// Every container as `database/container`, and databases that have none.
    fn places(&mut self) -> Result<Vec<String>> {
        let mut places = Vec::new();
        for database in account::names(&mut self.remote, "/dbs", "Databases")? {
            let path = format!("/dbs/{database}/colls");
            let containers = account::names(&mut self.remote, &path, "DocumentCollections")?;
            if containers.is_empty() {
                places.push(format!("{database}/"));
            }
            places.extend(containers.iter().map(|container| format!("{database}/{container}")));
        }
        Ok(places)
    }
}

/// An id, as JSON or as it is, and the partition key behind it, if there is one.
fn id_and_key(text: &str) -> (String, Option<&str>) {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut escaped = false;
        let end = quoted.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        if let Some((id, rest)) = end.map(|end| text.split_at(end + 2))
            && let Ok(Value::String(id)) = Value::parse(id.as_bytes())
        {
            return (id.to_string(), Some(rest.trim()).filter(|key| !key.is_empty()));
        }
    }
    match text.split_once(char::is_whitespace) {
        Some((id, key)) => (id.to_owned(), Some(key.trim())),
        None => (text.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_be_quoted_and_a_key_may_follow() {
        let check =
            |text, id: &str, key| assert_eq!(id_and_key(text), (id.to_owned(), key), "{text}");
        check("b1", "b1", None);
        check("b1 mspress", "b1", Some("mspress"));
        check("b1  [\"a\", 2]", "b1", Some("[\"a\", 2]"));
        check(r#""my \"id\"" 7"#, "my \"id\"", Some("7"));
        check(r#""x""#, "x", None);
        check(r#""open"#, "\"open", None);
    }
}
