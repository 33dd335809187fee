//! The GitHub Action: its script starts a server as a runner does, with files for outputs and environment.

use super::super::Stage;
use super::Verdict;
use super::serving::{first_query, free_ports};
use crate::{process, project};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn check(stage: &Stage, _: &Path) -> Result<Verdict> {
    let folder = stage.folder.join("check-action");
    fs::create_dir_all(&folder)?;
    let (output, environment) = (folder.join("output"), folder.join("environment"));
    let [port] = free_ports()?;
    let start = || {
        let mut start = Command::new("bash");
        start.arg(project::root().join("packaging/action/start.sh"));
        start.env("BINARY", &stage.program).env("PORT", port.to_string());
        start.env("VERSION", "").env("ARGUMENTS", "--memory").env("RUNNER_TEMP", &folder);
        start.env("GITHUB_OUTPUT", &output).env("GITHUB_ENV", &environment);
        start.stdin(Stdio::null());
        start
    };
    let said = process::output(&mut start())?;
    let _server = Started::of(&said)?;
    let word = |file: &Path, name: &str| -> Result<String> {
        let text = fs::read_to_string(file)?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.map(str::to_owned).with_context(|| format!("no {name} in {text}"))
    };
    let (endpoint, key) = (word(&output, "endpoint")?, word(&output, "key")?);
    first_query(&stage.program, &endpoint, &key)?;
    ensure!(word(&environment, "COSMOS_ENDPOINT")? == endpoint, "the environment differs");
    ensure!(word(&environment, "COSMOS_KEY")? == key, "the environment differs");
    let string = format!("AccountEndpoint={endpoint};AccountKey={key};");
    ensure!(word(&environment, "COSMOS_CONNECTION_STRING")? == string, "the environment differs");
    // The port is taken now: one line that says so, and no second server.
    let refused = start().output()?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(!refused.status.success(), "a port that is taken: it started");
    ensure!(said.starts_with("::error::") && said.contains("in use"), "it says: {said}");
    Ok(Verdict::Passed)
}

/// The server that the script left running; dropping it ends it.
struct Started {
    process: String,
}

impl Started {
    fn of(said: &str) -> Result<Self> {
        let rest = said.rsplit_once("(process ").map(|(_, rest)| rest);
        let process =
            rest.and_then(|rest| rest.split(',').next()).context("no process is named")?;
        Ok(Self { process: process.to_owned() })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &self.process]).status();
    }
}
