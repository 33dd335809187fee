//! How far a transfer got. The note is kept with the state of the user's programs, is written after
//! what it speaks of is durable, and is removed when the transfer is complete; so a transfer that was
//! interrupted, by whatever, goes on when the same command is given again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use orrery_files::FileAccess;
use orrery_types::{Object, Value};
use sha2::{Digest as _, Sha256};

/// The folder of the user's programs for what they remember.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let own = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = own("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(own("HOME")?).join(".local/state")))?;
    Some(state.join("orrery"))
}

/// The note of one transfer, named for where it comes from and where it goes.
#[derive(Debug)]
pub(crate) struct Note {
    path: Option<PathBuf>,
    name: String,
}

impl Note {
    /// `parts` together name the transfer; another one has another note.
    pub(crate) fn new(parts: &[&str]) -> Self {
        let name = parts.join("\n");
        let digest = Sha256::digest(name.as_bytes());
        let file = crate::archive::hex(&digest[..8]);
        let path = state_folder().map(|folder| folder.join("transfers").join(file + ".json"));
        Self { path, name }
    }

    /// What was noted last, if it was of this transfer.
    pub(crate) fn read(&self) -> Option<Value> {
        let text = std::fs::read(self.path.as_ref()?).ok()?;
        let value = Value::parse(&text).ok()?;
        (value.get("transfer").as_str() == Some(&self.name)).then_some(value)
    }

    /// Notes it: the file is there whole or not at all.
    pub(crate) fn write(&self, mut note: Object) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        note.set("transfer", self.name.as_str().into());
        let text = Value::object(note).to_json();
        let written = || -> std::io::Result<()> {
            orrery_files::create_folders(path.parent().unwrap_or(Path::new(".")))?;
            orrery_files::replace(path, text.as_bytes(), FileAccess::Default)
        };
        written().with_context(|| format!("cannot note the progress in {}", path.display()))
    }

    /// The transfer is complete, or starts from the beginning.
    pub(crate) fn remove(&self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
