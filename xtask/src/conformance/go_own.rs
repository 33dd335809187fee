//! The official Go SDK's own tests for an emulator, from the module in the registry. They are copied into the user's
//! cache, where the emulator's address becomes that of the server under test; nothing else is changed, and
//! nothing of them is kept here.

use super::{Options, Target, go};
use crate::toolchain::Language;
use crate::{process, project};
use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const MODULE: &str = "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos";
/// Files with tests that talk to an emulator begin like this.
const EMULATOR_FILES: &str = "emulator_";
/// The addresses that the tests know, and the name of the host in each.
const ADDRESSES: &[(&str, &str)] =
    &[("https://localhost:8081/", "localhost"), ("https://127.0.0.1:8081/", "127.0.0.1")];

pub(super) fn run(options: &Options, target: &Target) -> Result<()> {
    if let Some(lack) = Language::Go.lack() {
        println!("go-own: skipped: {lack}.");
        return Ok(());
    }
    let lists = project::root().join("conformance/go");
    let known = options.known_failures(&lists)?;
    let own = options.emulator_like()?;
    let target = own.as_ref().map_or(target, |(target, _)| target);
    let folder = copy(&lists, target.endpoint())?;
    let tests = go::tests(&folder, |file| {
        let is_wanted = options.only.as_ref().is_none_or(|only| only.is_match(file));
        file.starts_with(EMULATOR_FILES) && is_wanted
    })?;
    println!("go-own: {} tests against {}", tests.len(), target.endpoint());
    let results = results(&folder, &tests)?;
    let judged = results.iter().filter_map(|(test, outcome)| match outcome.as_str() {
        "skip" => None,
        outcome => Some((test.as_str(), outcome == "pass")),
    });
    let verdict = known.judge(judged);
    let count = |outcome: &str| results.iter().filter(|(_, found)| found == outcome).count();
    for test in &verdict.unexpected {
        println!("go-own: {test} failed");
    }
    for test in &verdict.outdated {
        println!("go-own: {test} passes: take it off conformance/go/known-failures.txt");
    }
    let (passed, failed, skipped) = (count("pass"), count("fail"), count("skip"));
    println!(
        "go-own: {passed} passed, {failed} failed ({} known), {skipped} skipped",
        verdict.expected
    );
    ensure!(passed > 0, "no test passed");
    if !verdict.is_green() {
        let (new, old) = (verdict.unexpected.len(), verdict.outdated.len());
        bail!("{new} unexpected failures, {old} tests to remove from known-failures.txt");
    }
    Ok(())
}

/// Copies the module's sources and puts the server's address into the tests.
fn copy(lists: &Path, endpoint: &str) -> Result<PathBuf> {
    let listing = process::output(go::go(lists)?.args(["mod", "download", "-json", MODULE]))?;
    let module: Value =
        serde_json::from_str(&listing).context("go mod download printed no JSON")?;
    let source = module["Dir"].as_str().context("go mod download names no folder")?;
    let port = endpoint.trim_end_matches('/').rsplit(':').next().unwrap_or_default();
    let copy = project::cache("conformance/go/own")?;
    fs::remove_dir_all(&copy)?;
    copy_folder(Path::new(source), &copy, port)?;
    Ok(copy)
}

fn copy_folder(from: &Path, to: &Path, port: &str) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target, port)?;
        } else if name.starts_with(EMULATOR_FILES) {
            let text = fs::read_to_string(entry.path())?;
            let text = ADDRESSES.iter().fold(text, |text, (address, host)| {
                text.replace(address, &format!("https://{host}:{port}/"))
            });
            fs::write(&target, text)?;
        } else {
            // Written instead of copied with its mode: the cache of modules is read-only.
            fs::write(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Runs the tests, and gives each one's outcome: pass, fail or skip.
fn results(folder: &Path, tests: &[String]) -> Result<Vec<(String, String)>> {
    let mut go = go::go(folder)?;
    go.args(["test", "-count=1", "-json", "-timeout=600s"]);
    go.args(["-run", &format!("^({})$", tests.join("|")), "."]);
    go.env("EMULATOR", "true").stderr(Stdio::inherit());
    let output = go.output().context("go does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut results = Vec::new();
    let pattern = Regex::new(r"^Test\w+$").expect("a valid pattern");
    for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let (action, test) = (event["Action"].as_str(), event["Test"].as_str());
        match (action, test) {
            (Some(action @ ("pass" | "fail" | "skip")), Some(test)) if pattern.is_match(test) => {
                results.push((test.to_owned(), action.to_owned()));
            }
            (Some("output"), _) if event["Output"].as_str().is_some_and(is_telling) => {
                print!("{}", event["Output"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }
    ensure!(!results.is_empty(), "no test ran:\n{text}");
    Ok(results)
}

/// Lines that say what is wrong.
fn is_telling(line: &str) -> bool {
    line.starts_with("    ") && line.contains("_test.go:") || line.starts_with("panic:")
}
