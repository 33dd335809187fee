//! The wheel: installed without network beside pytest and the official SDK, whose environment is that of the
//! conformance tests, and used by a suite through its fixtures.

use super::super::{Stage, wheel};
use super::{Verdict, run_suite};
use crate::conformance::python;
use crate::toolchain::Language;
use crate::{process, project};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

pub(super) fn check(stage: &Stage, out: &Path) -> Result<Verdict> {
    if let Some(lack) = Language::Python.lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let interpreter = python::interpreter()?;
    let folder = stage.folder.join("check-wheel");
    // An environment of its own that sees the packages of the other one.
    let mut venv = Command::new(&interpreter);
    process::run(venv.args(["-m", "venv"]).arg(&folder))?;
    let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = process::output(Command::new(&interpreter).args(["-c", script]))?;
    let own = folder.join("bin/python");
    let mine = process::output(Command::new(&own).args(["-c", script]))?;
    std::fs::write(Path::new(mine.trim()).join("shared.pth"), packages)?;
    // Twice: it also works when it is installed again.
    for _ in 0..2 {
        let mut pip = Command::new(&own);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--force-reinstall",
        ]);
        process::run(pip.arg(wheel::find(out)?))?;
    }
    process::run(Command::new(&own).args(["-m", "orrery", "--version"]))?;
    let mut pytest = Command::new(&own);
    pytest
        .args(["-m", "pytest", "--quiet", "-rA", "-p", "no:cacheprovider"])
        .arg(project::root().join("packaging/pypi/tests"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&folder);
    run_suite(&mut pytest, |said| {
        // `20 passed in 1.2s`
        let count =
            said.rsplit_once(" passed").and_then(|(before, _)| before.split_whitespace().last());
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    })?;
    killed(&own)?;
    Ok(Verdict::Passed)
}

/// A test that is killed leaves no server behind.
fn killed(python: &Path) -> Result<()> {
    let script = "import os, orrery, signal, subprocess, sys, time, urllib.request\n\
        code = 'import orrery, time; s = orrery.start(); print(s.endpoint, flush=True); time.sleep(60)'\n\
        test = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True)\n\
        endpoint = test.stdout.readline().strip()\n\
        urllib.request.urlopen(endpoint + 'readyz').close()\n\
        test.kill()\n\
        test.wait()\n\
        for _ in range(200):\n\
        \x20   try:\n\
        \x20       urllib.request.urlopen(endpoint + 'readyz').close()\n\
        \x20   except OSError:\n\
        \x20       sys.exit(0)\n\
        \x20   time.sleep(0.05)\n\
        sys.exit('the server lives on')\n";
    process::run(Command::new(python).args(["-c", script]))
}
