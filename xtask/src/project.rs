//! Where things are: the repository, and the user's cache for what is downloaded or built beside it.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The root of the checkout this xtask was compiled from.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies one level below the root")
}

/// The folder for one purpose in the user's cache, created if need be. `scripts/setup.sh` computes
/// the same root: `$ORRERY_CACHE`, else `orrery` in the user's cache folder.
pub(crate) fn cache(purpose: &str) -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = if let Some(own) = variable("ORRERY_CACHE") {
        PathBuf::from(own)
    } else if let Some(shared) = variable("XDG_CACHE_HOME") {
        PathBuf::from(shared).join("orrery")
    } else {
        let home = variable("HOME").context("HOME is not set: there is no place for a cache")?;
        PathBuf::from(home).join(".cache/orrery")
    };
    let folder = base.join(purpose);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    Ok(folder)
}

/// The cargo that runs this xtask.
pub(crate) fn cargo() -> std::process::Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.current_dir(root());
    command
}
