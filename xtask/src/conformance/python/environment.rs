//! The Python environment and the SDK's tests, made once per version in the user's cache: a virtual
//! environment with the pinned packages, and the `tests` folder of the source distribution.

use crate::{process, project};
use anyhow::{Context, Result, bail, ensure};
use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A ready environment.
pub(super) struct Environment {
    pub(super) python: PathBuf,
    pub(super) tests: PathBuf,
    /// The folder with our pytest plugin.
    pub(super) plugins: PathBuf,
}

impl Environment {
    /// Makes what is missing. `source` is the folder with requirements.txt and the plugin.
    pub(super) fn prepare(source: &Path) -> Result<Self> {
        let requirements = fs::read_to_string(source.join("requirements.txt"))?;
        let sdk = sdk_requirement(&requirements)?;
        let version = sdk.split_once("==").map_or(sdk, |(_, version)| version);
        let home = project::cache(&format!("conformance/python-{version}"))?;
        let environment = Self {
            python: home.join("venv/bin/python"),
            tests: home.join("tests"),
            plugins: source.to_owned(),
        };
        // Two runs at once must not install into each other.
        let lock = fs::File::create(home.join("lock"))?;
        lock.lock().context("cannot lock the Python environment")?;
        let installed = home.join("installed.txt");
        if fs::read_to_string(&installed).ok().as_ref() != Some(&requirements) {
            environment.install(&home, &source.join("requirements.txt"))?;
            environment.fetch_tests(&home, sdk)?;
            fs::write(&installed, &requirements)?;
        }
        Ok(environment)
    }

    fn install(&self, home: &Path, requirements: &Path) -> Result<()> {
        println!("python: making an environment in {}", home.display());
        let mut venv = Command::new("python3");
        process::run(venv.args(["-m", "venv", "--clear"]).arg(home.join("venv")))
            .context("Python 3 with its venv module is needed (Debian: python3-venv)")?;
        process::run(self.pip("install").arg("--requirement").arg(requirements))
    }

    /// The wheel has no tests; the source distribution has. Only its tests are used.
    fn fetch_tests(&self, home: &Path, sdk: &str) -> Result<()> {
        let download = home.join("download");
        let _ = fs::remove_dir_all(&download);
        let mut pip = self.pip("download");
        pip.args(["--no-deps", "--no-binary", ":all:", "--dest"]);
        process::run(pip.arg(&download).arg(sdk))?;
        let archive = single_entry(&download)?;
        let unpacked = download.join("unpacked");
        let mut tar = Command::new(&self.python);
        process::run(tar.args(["-m", "tarfile", "-e"]).arg(archive).arg(&unpacked))?;
        let _ = fs::remove_dir_all(&self.tests);
        fs::rename(single_entry(&unpacked)?.join("tests"), &self.tests)
            .context("the source distribution has no tests")?;
        fs::remove_dir_all(&download)?;
        let settings = self.tests.join("test_config.py");
        let text = fs::read_to_string(&settings)?;
        fs::write(settings, with_given_host(&text)?)?;
        Ok(())
    }

    fn pip(&self, verb: &str) -> Command {
        let mut pip = Command::new(&self.python);
        pip.args(["-m", "pip", verb, "--quiet", "--disable-pip-version-check"]);
        pip
    }

    /// Paths of all test files from the tests folder, the largest first: size tells roughly how long
    /// a file runs, and none of the long ones should be left for the end. The folder `workloads`
    /// holds load generators and is left out.
    pub(super) fn test_files(&self) -> Result<Vec<String>> {
        let mut files = Vec::new();
        for folder in ["", "routing/"] {
            for entry in fs::read_dir(self.tests.join(folder))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let stem = name.strip_suffix(".py").unwrap_or_default();
                if stem.starts_with("test_") && stem != "test_config" {
                    files.push((Reverse(entry.metadata()?.len()), format!("{folder}{name}")));
                }
            }
        }
        files.sort();
        Ok(files.into_iter().map(|(_, path)| path).collect())
    }
}

fn sdk_requirement(requirements: &str) -> Result<&str> {
    requirements
        .lines()
        .find(|line| line.starts_with("azure-cosmos=="))
        .context("requirements.txt does not pin azure-cosmos")
}

fn single_entry(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let entry = entries.pop().with_context(|| format!("{} is empty", folder.display()))?;
    if !entries.is_empty() {
        bail!("{} holds more than one entry", folder.display());
    }
    Ok(entry.path())
}

/// The suite treats exactly one address as an emulator, a constant. It becomes the address given
/// by the environment; nothing else of the suite is changed.
fn with_given_host(text: &str) -> Result<String> {
    const CONSTANT: &str = "local_host = 'https://localhost:8081/'";
    const GIVEN: &str = "local_host = os.environ['ACCOUNT_HOST']";
    ensure!(
        text.matches(CONSTANT).count() == 1,
        "test_config.py of the SDK has changed: the emulator's address was not found"
    );
    Ok(text.replace(CONSTANT, GIVEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_address_becomes_the_given_one() {
        let text = "class C:\n    local_host = 'https://localhost:8081/'\n    x = 1\n";
        let expected = "class C:\n    local_host = os.environ['ACCOUNT_HOST']\n    x = 1\n";
        assert_eq!(with_given_host(text).unwrap(), expected);
    }

    #[test]
    fn a_suite_that_changed_is_an_error_and_not_a_run_against_another_server() {
        assert!(with_given_host("local_host = 'https://elsewhere/'").is_err());
    }

    #[test]
    fn the_version_comes_from_the_pinned_requirement() {
        let text = "# sdk\nazure-cosmos==4.17.1\npytest==9\n";
        assert_eq!(sdk_requirement(text).unwrap(), "azure-cosmos==4.17.1");
        assert!(sdk_requirement("pytest==9\n").is_err());
    }
}
