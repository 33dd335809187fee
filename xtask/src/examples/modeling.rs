//! The cases under examples/modeling, in Python and in JavaScript. Both programs of a case print the
//! text beside them.

use crate::conformance::{javascript, python};
use crate::process;
use crate::server::{self, Server};
use crate::toolchain::Language;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A language, and how a case is run in it.
type Runner = (&'static str, Language, fn(&Path, &str) -> Result<Command>);

const RUNNERS: [Runner; 2] = [
    ("python", Language::Python, |folder, case| {
        let mut python = Command::new(python::interpreter()?);
        python.arg(folder.join(format!("{case}.py"))).env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(python)
    }),
    ("javascript", Language::JavaScript, |folder, case| {
        javascript::install(folder)?;
        let mut node = Command::new("node");
        node.arg(format!("{case}.mjs")).current_dir(folder).env("NODE_NO_WARNINGS", "1");
        Ok(node)
    }),
];

/// The cases that are wanted, as `modeling/python/portfolio`.
pub(super) fn wanted(examples: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(examples.join("modeling"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let case =
                path.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
            cases.extend(RUNNERS.iter().map(|(name, ..)| format!("modeling/{name}/{case}")));
        }
    }
    cases.retain(|name| wanted(name));
    cases.sort();
    Ok(cases)
}

/// Runs one of them; `None` if its language is not there, with the reason printed.
pub(super) fn run(examples: &Path, name: &str, server: &Server) -> Result<Option<()>> {
    let folder = examples.join("modeling");
    let mut parts = name.split('/').skip(1);
    let (language, case) = parts.next().zip(parts.next()).context("a case has a language")?;
    let runner = RUNNERS.iter().find(|(known, ..)| *known == language);
    let (_, language, command) = runner.context("a case has a known language")?;
    if let Some(lack) = language.lack() {
        println!("{name}: skipped: {lack}.");
        return Ok(None);
    }
    let expected = fs::read_to_string(folder.join(format!("{case}.txt")))?;
    let mut command = command(&folder.join(name.split('/').nth(1).unwrap_or_default()), case)?;
    command.env("ORRERY_ENDPOINT", server.endpoint("http")).env("ORRERY_KEY", server::key());
    let printed = process::output(&mut command)?;
    ensure!(printed == expected, "it should have printed\n{expected}but printed\n{printed}");
    Ok(Some(()))
}
