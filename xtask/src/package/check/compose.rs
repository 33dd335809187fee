//! The compose file: both services are started from the images by podman, behind ports that it publishes.

use super::super::oci::Image;
use super::super::{Stage, version};
use super::Verdict;
use super::container::{WELL_KNOWN_KEY, as_root};
use super::serving::{first_query, free_ports};
use crate::{process, project};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A container may not have more than the process that starts it.
const LIMITS: &str =
    "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n";

pub(super) fn check(stage: &Stage, out: &Path) -> Result<Verdict> {
    if let Some(lack) = as_root() {
        return Ok(Verdict::Skipped(lack));
    }
    for tool in ["podman", "podman-compose"] {
        if Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_err() {
            return Ok(Verdict::Skipped(format!("{tool} is missing (Debian: {tool})")));
        }
    }
    for (service, image) in [("orrery", Image::Server), ("emulator", Image::Emulator)] {
        let project = Project::new(stage, service, image)?;
        process::run(project.podman("podman").args(["load", "--input"]).arg(image.path(out)))?;
        project.up().and_then(|()| project.use_it(stage)).with_context(|| project.logs())?;
    }
    Ok(Verdict::Passed)
}

/// The compose file with ports that are free here, and one of its services; dropping it removes what was made.
struct Project {
    folder: PathBuf,
    service: &'static str,
    image: Image,
    port: u16,
}

impl Project {
    fn new(stage: &Stage, service: &'static str, image: Image) -> Result<Self> {
        let folder = stage.folder.join(format!("check-compose-{service}"));
        fs::create_dir_all(&folder)?;
        let [port, explorer] = free_ports()?;
        let text = fs::read_to_string(project::root().join("packaging/compose.yaml"))?;
        ensure!(
            text.contains("127.0.0.1:8081:") && text.contains("127.0.0.1:1234:"),
            "other ports"
        );
        let text = text
            .replace("127.0.0.1:8081:", &format!("127.0.0.1:{port}:"))
            .replace("127.0.0.1:1234:", &format!("127.0.0.1:{explorer}:"));
        fs::write(folder.join("compose.yaml"), text)?;
        fs::write(folder.join("containers.conf"), LIMITS)?;
        Ok(Self { folder, service, image, port })
    }

    fn podman(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.env("CONTAINERS_CONF", self.folder.join("containers.conf"));
        command
    }

    fn compose(&self, words: &[&str]) -> Command {
        let mut command = self.podman("podman-compose");
        command.args(["--project-name", &format!("orrery-check-{}", std::process::id())]);
        command.args(["--file", "compose.yaml"]).args(words);
        command
    }

    fn up(&self) -> Result<()> {
        process::run(&mut self.compose(&["up", "--detach", self.service]))
    }

    /// The service answers at the published port, and says in its own container that it is ready.
    fn use_it(&self, stage: &Stage) -> Result<()> {
        let endpoint = format!("http://127.0.0.1:{}/", self.port);
        let mut ready = Command::new(&stage.program);
        process::run(ready.args(["ready", "--wait", "60", "--endpoint", &endpoint]))?;
        first_query(&stage.program, &endpoint, WELL_KNOWN_KEY)?;
        let health = match self.service {
            "emulator" => {
                &["exec", "emulator", "orrery", "ready", "--listen", "127.0.0.1:8080"][..]
            }
            service => &["exec", service, "orrery", "ready"][..],
        };
        process::run(&mut self.compose(health))
    }

    fn logs(&self) -> String {
        let output = self.compose(&["logs", self.service]).output();
        output.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // It may not have been started.
        let _ = self.compose(&["down", "--volumes"]).stdout(Stdio::null()).status();
        let image = format!("{}:{}", self.image.name(), version());
        let _ = self.podman("podman").args(["rmi", &image]).stdout(Stdio::null()).status();
    }
}
