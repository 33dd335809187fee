//! Our end-to-end tests through the official Rust SDK: a workspace of its own, so that the SDK's
//! many dependencies stay out of ours; built in the user's cache.

use super::{Options, Target};
use crate::{process, project};
use anyhow::{Result, ensure};
use std::path::PathBuf;

/// Where everything is built that uses the SDK.
pub(crate) fn target() -> Result<PathBuf> {
    project::cache("conformance/rust-target")
}

pub(super) fn run(_options: &Options, server: &Target) -> Result<()> {
    let source = project::root().join("conformance/rust");
    let build = target()?;
    let mut red = Vec::new();
    for endpoint in &server.endpoints {
        println!("rust: against {endpoint}");
        let mut cargo = project::cargo();
        cargo
            .args(["test", "--quiet", "--locked", "--manifest-path"])
            .arg(source.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&build)
            .env("ORRERY_ENDPOINT", endpoint)
            .env("ORRERY_KEY", &server.key)
            // The SDK verifies certificates unless this is set to an emulator.
            .env("AZURE_COSMOS_EMULATOR_SERVER_CERT_VALIDATION_DISABLED", "true");
        if process::run(&mut cargo).is_err() {
            red.push(endpoint.as_str());
        }
    }
    ensure!(red.is_empty(), "tests failed against {}", red.join(" and "));
    Ok(())
}
