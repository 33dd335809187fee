//! The wheel for `PyPI`: the program as a script of the environment, the Python package `orrery`, and its
//! plugin for pytest. A wheel is a zip archive with a list of its files.

use super::zip::Zip;
use super::{Stage, version};
use crate::project;
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const MODULES: &[&str] = &["__init__.py", "__main__.py", "pytest_plugin.py", "py.typed"];

/// The wheel in a folder of packages, whatever the system it is for.
pub(super) fn find(out: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(out.join("pypi"))?.collect::<Result<Vec<_>, _>>()?;
    let prefix = format!("orrery-{}-", version());
    let is_ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    let mut paths = entries.into_iter().map(|entry| entry.path());
    paths.find(is_ours).context("there is no wheel")
}

pub(super) fn make(stage: &Stage, out: &Path) -> Result<()> {
    let (version, (major, minor)) = (version(), stage.needs.glibc);
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", std::env::consts::ARCH);
    let source = project::root().join("packaging/pypi");
    let mut wheel = Wheel::default();
    for module in MODULES {
        let content = fs::read(source.join("orrery").join(module))?;
        wheel.add(&format!("orrery/{module}"), &content, 0o644)?;
    }
    let program = fs::read(&stage.program)?;
    wheel.add(&format!("orrery-{version}.data/scripts/orrery"), &program, 0o755)?;
    let info = format!("orrery-{version}.dist-info");
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let content = fs::read(project::root().join(licence))?;
        wheel.add(&format!("{info}/licenses/{licence}"), &content, 0o644)?;
    }
    let readme = fs::read_to_string(source.join("README.md"))?;
    wheel.add(&format!("{info}/METADATA"), metadata(version, &readme).as_bytes(), 0o644)?;
    let about = format!(
        "Wheel-Version: 1.0\nGenerator: orrery-xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    wheel.add(&format!("{info}/WHEEL"), about.as_bytes(), 0o644)?;
    let entry_points = "[pytest11]\norrery = orrery.pytest_plugin\n";
    wheel.add(&format!("{info}/entry_points.txt"), entry_points.as_bytes(), 0o644)?;
    let folder = out.join("pypi");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("orrery-{version}-{tag}.whl"));
    fs::write(&file, wheel.finish(&format!("{info}/RECORD"))?)?;
    println!("package: {}", file.display());
    Ok(())
}

fn metadata(version: &str, readme: &str) -> String {
    format!(
        "Metadata-Version: 2.4\n\
         Name: orrery\n\
         Version: {version}\n\
         Summary: A document database that speaks the Azure Cosmos DB for NoSQL protocol\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-MIT\n\
         License-File: LICENSE-APACHE\n\
         Keywords: database,cosmos,emulator,testing\n\
         Classifier: Framework :: Pytest\n\
         Requires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    )
}

/// Files with the list of them that ends a wheel.
#[derive(Default)]
struct Wheel {
    zip: Zip,
    record: String,
}

impl Wheel {
    fn add(&mut self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        writeln!(self.record, "{name},sha256={digest},{}", content.len())?;
        self.zip.add(name, content, mode)
    }

    fn finish(mut self, record: &str) -> Result<Vec<u8>> {
        writeln!(self.record, "{record},,")?;
        self.zip.add(record, self.record.as_bytes(), 0o644)?;
        self.zip.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_is_fields_then_the_description() {
        let text = metadata("1.2.3", "# Orrery\n");
        let (head, body) = text.split_once("\n\n").unwrap();
        assert!(head.lines().all(|line| line.contains(": ")), "{head}");
        assert!(head.contains("Version: 1.2.3\n"), "{head}");
        assert_eq!(body, "# Orrery\n");
    }

    #[test]
    fn every_file_is_in_the_record_and_the_record_without_a_digest() {
        let mut wheel = Wheel::default();
        wheel.add("orrery/__init__.py", b"", 0o644).unwrap();
        let empty = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n";
        assert_eq!(wheel.record, format!("orrery/__init__.py,{empty}"));
        let bytes = wheel.finish("i/RECORD").unwrap();
        assert!(bytes.starts_with(b"PK\x03\x04"));
    }
}
