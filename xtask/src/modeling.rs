//! `cargo xtask modeling`: runs every case under examples/modeling, in Python and in JavaScript, against
//! a server of our own. Both programs of a case print the text beside them.

use crate::conformance::{javascript, python};
use crate::server::{self, Profile, Server};
use crate::{process, project};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) fn run() -> Result<()> {
    let folder = project::root().join("examples/modeling");
    let cases = cases(&folder)?;
    let interpreter = python::interpreter()?;
    javascript::install(&folder.join("javascript"))?;
    let server = Server::start(Profile::Dev)?;
    let mut red = Vec::new();
    for case in &cases {
        let mut python = Command::new(&interpreter);
        python.arg(folder.join("python").join(format!("{case}.py")));
        let mut node = Command::new("node");
        node.arg(format!("{case}.mjs")).current_dir(folder.join("javascript"));
        for (language, command) in [("python", &mut python), ("javascript", &mut node)] {
            match check(&folder, case, command, &server) {
                Ok(()) => println!("modeling: {language}/{case}: as expected"),
                Err(error) => {
                    println!("modeling: {language}/{case}: {error:#}");
                    red.push(format!("{language}/{case}"));
                }
            }
        }
    }
    if !red.is_empty() {
        bail!("cases are red: {}", red.join(", "));
    }
    Ok(())
}

/// The cases by name: each has a text that its programs print.
fn cases(folder: &Path) -> Result<Vec<String>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().context("a file has a name")?;
            cases.push(name.to_string_lossy().into_owned());
        }
    }
    cases.sort();
    ensure!(!cases.is_empty(), "there are no cases in {}", folder.display());
    Ok(cases)
}

fn check(folder: &Path, case: &str, command: &mut Command, server: &Server) -> Result<()> {
    let expected = fs::read_to_string(folder.join(format!("{case}.txt")))?;
    command.env("ORRERY_ENDPOINT", server.endpoint("http")).env("ORRERY_KEY", server::key());
    command.env("NODE_NO_WARNINGS", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    let printed = process::output(command)?;
    ensure!(printed == expected, "it should have printed\n{expected}but printed\n{printed}");
    Ok(())
}
