//! `orrery model`: a model in a file, checked and drawn without a server.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use orrery_modeling::diagram::Diagram;

use crate::advise::{look_at, read_model};

/// What to do with a model.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Check the form of a model; containers and expressions are checked when it is stored
    Check {
        /// The model as JSON
        file: PathBuf,
    },
    /// Draw declared and inferred types and relations
    Diagram(DiagramArguments),
}

/// Arguments of `model diagram`.
#[derive(Debug, Args)]
pub(crate) struct DiagramArguments {
    /// The model as JSON
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Items as JSON lines; the file is named for their container. May be given several times
    #[arg(long, value_name = "FILE")]
    items: Vec<PathBuf>,
    /// A picture
    #[arg(long, conflicts_with = "mermaid")]
    svg: bool,
    /// Text that Mermaid draws; what happens without a choice too
    #[arg(long)]
    mermaid: bool,
}

pub(crate) fn run(command: &ModelCommand) -> Result<()> {
    let text = match command {
        ModelCommand::Check { file } => {
            let model = read_model(file)?;
            format!(
                "{} types, {} relations, {} aggregates, {} buckets: the form is right.\n",
                model.types.len(),
                model.relations.len(),
                model.aggregates.len(),
                model.buckets.len()
            )
        }
        ModelCommand::Diagram(arguments) => diagram(arguments)?,
    };
    std::io::stdout().write_all(text.as_bytes()).context("the output was not read")
}

fn diagram(arguments: &DiagramArguments) -> Result<String> {
    if arguments.model.is_none() && arguments.items.is_empty() {
        bail!("name a model, items, or both: --model FILE, --items FILE");
    }
    let model = arguments.model.as_deref().map(read_model).transpose()?;
    let report = match arguments.items.as_slice() {
        [] => None,
        items => Some(look_at(items)?.finish(model.as_ref())),
    };
    let diagram = Diagram::new(model.as_ref(), report.as_ref());
    Ok(if arguments.svg { diagram.to_svg() } else { diagram.to_mermaid() })
}
