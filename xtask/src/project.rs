//! Where things are: the repository, and the user's cache for what is downloaded or built beside it.

use crate::process;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The root of the checkout that this xtask was started in. Cargo names it at run time: checkouts
/// share a target folder, so that the binary may have been compiled from another one.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let own = own.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        own.parent().expect("xtask lies one level below the root").to_owned()
    })
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

/// The folder that cargo builds into; it is the user's choice.
pub(crate) fn target() -> Result<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&process::output(&mut cargo)?)?;
    let folder = metadata["target_directory"].as_str();
    folder.map(PathBuf::from).context("cargo metadata names no target folder")
}

/// The cargo that runs this xtask, as if a person had started it. It has told this program about its
/// package; were that passed on, the build scripts that look at it would run anew, and all that
/// depends on them would be compiled twice in every `make test`.
pub(crate) fn cargo() -> std::process::Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_about_a_package) {
            command.env_remove(name);
        }
    }
    command
}

fn is_about_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}
