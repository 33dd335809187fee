//! `orrery man`: the manual pages, made from the same descriptions as `--help`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use orrery_files::FileAccess;

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Folder to write into: `orrery.1`, `orrery-query.1` and so on
    folder: PathBuf,
}

pub(crate) fn run(arguments: &ManArguments, command: clap::Command) -> Result<()> {
    let folder = &arguments.folder;
    orrery_files::create_folders(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write(folder, &command, "orrery")
}

/// The page of a command, and those of its subcommands.
fn write(folder: &Path, command: &clap::Command, name: &str) -> Result<()> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    // A built command knows its name with those above it, `orrery-item-read`.
    let rendered = clap_mangen::Man::new(command.clone()).render(&mut page);
    rendered.context("cannot write a manual page")?;
    orrery_files::replace(&path, &page, FileAccess::Default)
        .with_context(|| format!("cannot write {}", path.display()))?;
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        write(folder, part, &format!("{name}-{}", part.get_name()))?;
    }
    Ok(())
}
