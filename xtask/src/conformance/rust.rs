//! Our end-to-end tests through the official Rust SDK: a workspace of its own, so that the SDK's
//! many dependencies stay out of ours; built in the user's cache.

use super::{Options, Target};
use crate::{process, project};
use anyhow::{Result, ensure};

pub(super) fn run(_options: &Options, target: &Target) -> Result<()> {
    let source = project::root().join("conformance/rust");
    let build = project::cache("conformance/rust-target")?;
    let mut red = Vec::new();
    for endpoint in &target.endpoints {
        println!("rust: against {endpoint}");
        let mut cargo = project::cargo();
        cargo
            .args(["test", "--quiet", "--locked", "--manifest-path"])
            .arg(source.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&build)
            .env("ORRERY_ENDPOINT", endpoint)
            .env("ORRERY_KEY", &target.key)
            // The SDK verifies certificates unless it is told that this is an emulator.
            .env("AZURE_COSMOS_EMULATOR_SERVER_CERT_VALIDATION_DISABLED", "true");
        if process::run(&mut cargo).is_err() {
            red.push(endpoint.as_str());
        }
    }
    ensure!(red.is_empty(), "tests failed against {}", red.join(" and "));
    Ok(())
}
