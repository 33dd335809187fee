//! Questions one after another. A line that begins with a backslash is for the shell itself.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Result, bail};

use super::ask::{Question, parameter, partition_key};
use super::complete::{COMMANDS, Words};
use super::line::{Line, LineReader};
use super::output::Form;
use super::{QueryArguments, answer, explain, say};
use crate::account;
use crate::remote::Remote;
use crate::transfer::state_folder;

struct Shell {
    remote: Remote,
    database: Option<String>,
    container: Option<String>,
    question: Question,
    form: Form,
    limit: Option<usize>,
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
        form: arguments.output.form(),
        limit: arguments.limit,
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
            match self.line(asked, &mut words.borrow_mut()) {
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
        let (Some(database), Some(container)) = (&self.database, &self.container) else {
            bail!("choose a container first: \\use DATABASE/CONTAINER");
        };
        let (database, container) = (database.clone(), container.clone());
        let question =
            Question { database, container, text: text.to_owned(), ..self.question.clone() };
        if question.explain {
            explain(&mut self.remote, &question, self.form)?;
        } else {
            words.learn(&answer(&mut self.remote, &question, self.form, self.limit)?);
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
            "table" => self.form = Form::Table,
            "json" => self.form = Form::Json,
            "lines" => self.form = Form::Lines,
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
