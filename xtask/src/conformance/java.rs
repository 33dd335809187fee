//! Our end-to-end tests through the official Java SDK: in Gateway mode, once for each address of the
//! server, and in Direct mode. Maven's downloads and what it builds lie in the user's cache.

use super::entra::EntraServer;
use super::{ConnectionMode, Options, Target};
use crate::toolchain::Language;
use crate::{process, project, server};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The password of a file that holds one public certificate; Java insists on one.
const PASSWORD: &str = "changeit";

/// The tests that sign in with tokens.
const ENTRA_CLASS: &str = "EntraTest";

pub(super) fn run(options: &Options, target: &Target) -> Result<()> {
    if let Some(lack) = Language::Java.lack() {
        println!("java: skipped: {lack}.");
        return Ok(());
    }
    let source = project::root().join("conformance/java");
    let classes = classes(&source.join("src/test/java/orrery"), options)?;
    let mut red = Vec::new();
    for (endpoint, mode) in runs(&target.endpoints, options.mode) {
        let entra = target.entra(endpoint);
        let mut classes = classes.clone();
        classes.retain(|class| entra.is_some() || class != ENTRA_CLASS);
        if classes.is_empty() {
            continue;
        }
        println!("java: {} classes against {endpoint} in {mode} mode", classes.len());
        let mut maven = maven(&source, "conformance/java/build")?;
        maven
            .arg("test")
            .arg(format!("-Dtest={}", classes.join(",")))
            .env("ORRERY_ENDPOINT", endpoint)
            .env("ORRERY_MODE", mode)
            .env("ORRERY_KEY", &target.key);
        if let Some(entra) = entra {
            entra.name_to(&mut maven);
        }
        if endpoint.starts_with("https:") {
            let servers: Vec<String> =
                [endpoint.to_owned()].into_iter().chain(entra.map(EntraServer::endpoint)).collect();
            maven.arg(format!("-DargLine={}", trust(&servers)?.join(" ")));
        }
        if process::run(&mut maven).is_err() {
            red.push(format!("{endpoint} in {mode} mode"));
        }
    }
    ensure!(red.is_empty(), "tests failed against {}", red.join(" and "));
    Ok(())
}

/// Which tests run: every address in Gateway mode, and those behind TLS, which Direct mode needs, in
/// that too.
fn runs(endpoints: &[String], mode: Option<ConnectionMode>) -> Vec<(&str, &'static str)> {
    let wants = |wanted| mode.is_none_or(|mode| mode == wanted);
    let gateway = endpoints.iter().filter(|_| wants(ConnectionMode::Gateway));
    let gateway = gateway.map(|endpoint| (endpoint.as_str(), "gateway"));
    let direct = endpoints
        .iter()
        .filter(|endpoint| wants(ConnectionMode::Direct) && endpoint.starts_with("https:"));
    gateway.chain(direct.map(|endpoint| (endpoint.as_str(), "direct"))).collect()
}

/// Maven in batch mode, for the project in a folder.
pub(crate) fn maven(folder: &Path, build: &str) -> Result<Command> {
    let repository = project::cache("conformance/java/repository")?;
    let mut maven = Command::new("mvn");
    maven
        .current_dir(folder)
        .args(["--batch-mode", "--quiet", "--no-transfer-progress", "-Dstyle.color=never"])
        .arg(format!("-Dmaven.repo.local={}", repository.display()))
        .arg(format!("-Dbuild.folder={}", project::cache(build)?.display()));
    Ok(maven)
}

/// Makes a trust store of the servers' certificates, as their users do, and gives the options by which a
/// Java program uses it.
fn trust(endpoints: &[String]) -> Result<[String; 2]> {
    let folder = project::cache("conformance/java")?;
    let (certificate, store) = (folder.join("orrery.pem"), folder.join("orrery.p12"));
    remove(&store)?;
    for endpoint in endpoints {
        fs::write(&certificate, server::certificate(endpoint)?)?;
        let mut keytool = Command::new("keytool");
        keytool.args(["-importcert", "-noprompt", "-alias", endpoint, "-storepass", PASSWORD]);
        keytool.arg("-file").arg(&certificate).arg("-keystore").arg(&store);
        process::output(&mut keytool).context("keytool comes with Java")?;
    }
    Ok([
        format!("-Djavax.net.ssl.trustStore={}", store.display()),
        format!("-Djavax.net.ssl.trustStorePassword={PASSWORD}"),
    ])
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot replace {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn classes(source: &Path, options: &Options) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(source)? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        let is_wanted = options.only.as_ref().is_none_or(|only| only.is_match(&file));
        if let Some(name) = file.strip_suffix(".java").filter(|name| name.ends_with("Test"))
            && is_wanted
        {
            names.push(name.to_owned());
        }
    }
    ensure!(!names.is_empty(), "no test class is selected");
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_mode_runs_behind_tls_and_where_it_is_asked_for() {
        let endpoints = ["http://localhost:1/", "https://localhost:1/"].map(String::from);
        let [http, https] = ["http://localhost:1/", "https://localhost:1/"];
        let all = [(http, "gateway"), (https, "gateway"), (https, "direct")];
        assert_eq!(runs(&endpoints, None), all);
        assert_eq!(runs(&endpoints, Some(ConnectionMode::Gateway)), all[..2]);
        assert_eq!(runs(&endpoints, Some(ConnectionMode::Direct)), all[2..]);
    }
}
