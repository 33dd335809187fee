//! What commands about resources print: indented JSON on a terminal, one line of JSON elsewhere;
//! lists as a table on a terminal, and as JSON lines elsewhere.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_types::Value;

use crate::exit::UNREAD;
use crate::table::{self, Table};
use crate::{account, pager, pretty};

/// Arguments that choose how resources are printed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PrintArguments {
    /// Print JSON as programs read it, on a terminal too
    #[arg(long)]
    json: bool,
}

/// Prints resources.
pub(crate) struct Print {
    for_people: bool,
}

impl Print {
    pub(crate) fn new(arguments: PrintArguments) -> Self {
        Self { for_people: table::is_terminal() && !arguments.json }
    }

    /// The body of an answer.
    pub(crate) fn body(&self, body: &[u8]) -> Result<()> {
        self.resource(&Value::parse(body).map_err(|_| account::not_an_account())?)
    }

    /// One resource.
    pub(crate) fn resource(&self, resource: &Value) -> Result<()> {
        let text = if self.for_people {
            pretty::indented(resource, pretty::is_coloured())
        } else {
            resource.to_json()
        };
        pager::print(&(text + "\n"))
    }

    /// A list; people see these properties of each.
    pub(crate) fn resources(&self, resources: &[Value], columns: &[&str]) -> Result<()> {
        if !self.for_people {
            let lines: String = resources.iter().map(|value| value.to_json() + "\n").collect();
            return std::io::stdout().write_all(lines.as_bytes()).context(UNREAD);
        }
        let mut shown = Table::new(columns.iter().copied());
        for resource in resources {
            shown.row(columns.iter().map(|path| cell(resource, path)));
        }
        pager::print(&table::with_bold_head(&shown.to_text(table::width())))
    }
}

/// The value at a path of names with slashes between, as a table shows it.
fn cell(resource: &Value, path: &str) -> String {
    let value = path.split('/').fold(resource, |value, name| value.get(name));
    match value {
        Value::Undefined => String::new(),
        Value::String(text) => text.to_string(),
        Value::Array(elements) => {
            let texts =
                elements.iter().map(|e| e.as_str().map_or_else(|| e.to_json(), str::to_owned));
            texts.collect::<Vec<_>>().join(", ")
        }
        other => other.to_json(),
    }
}
