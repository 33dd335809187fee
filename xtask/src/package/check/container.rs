//! The images: unpacked as a runtime does it, and run by `runc` in namespaces of their own, but for the
//! network, through which the test asks them.

use super::super::Stage;
use super::super::oci::Image;
use super::Verdict;
use super::serving::{Serving, first_query, free_ports};
use crate::process;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The public key that the emulator's users have in their settings.
pub(super) const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

pub(super) fn check_server(stage: &Stage, out: &Path) -> Result<Verdict> {
    if let Some(lack) = lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let bundle = Bundle::unpack(Image::Server, stage, out)?;
    let [port] = free_ports()?;
    let run = || bundle.run("server", &[("ORRERY_LISTEN", format!("127.0.0.1:{port}"))]);
    let endpoint = format!("http://127.0.0.1:{port}/");
    let serving = Serving::start(run()?, "  Data ")?;
    let key = serving.word("Key")?;
    first_query(&stage.program, &endpoint, &key)?;
    serving.stop()?;
    // The volume keeps the data: the database exists already.
    let serving = Serving::start(run()?, "  Data ")?;
    let mut read = Command::new(&stage.program);
    read.args(["item", "read", "b1", "-d", "shop", "-c", "books", "-k", "p"]);
    let found = process::output(read.env("ORRERY_ENDPOINT", endpoint).env("ORRERY_KEY", key))?;
    ensure!(found.contains("b1"), "after a restart: {found}");
    serving.stop()?;
    Ok(Verdict::Passed)
}

pub(super) fn check_emulator(stage: &Stage, out: &Path) -> Result<Verdict> {
    if let Some(lack) = lack() {
        return Ok(Verdict::Skipped(lack));
    }
    let bundle = Bundle::unpack(Image::Emulator, stage, out)?;
    let [port, explorer, health] = free_ports()?;
    let settings = [
        ("PORT", port.to_string()),
        ("EXPLORER_PORT", explorer.to_string()),
        ("HEALTH_PORT", health.to_string()),
        ("PROTOCOL", "https".to_owned()),
        ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "10".to_owned()),
        ("ENABLE_TELEMETRY", "false".to_owned()),
    ];
    // Java's module waits for the end of the line as well.
    let serving = Serving::start(bundle.run("emulator", &settings)?, "Started")?;
    ensure!(serving.said.ends_with("Started\r\n"), "{:?}", serving.said);
    for path in ["/ready", "/alive", "/status"] {
        let answer = get(health, path)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let page = get(explorer, "/_explorer/")?;
    ensure!(page.starts_with("HTTP/1.1 200"), "the Explorer: {page}");
    first_query(&stage.program, &format!("http://127.0.0.1:{port}/"), WELL_KNOWN_KEY)?;
    serving.stop()?;
    Ok(Verdict::Passed)
}

/// What is missing for containers that root runs.
pub(super) fn as_root() -> Option<String> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    (!is_root).then(|| "containers are run as root here".to_owned())
}

fn lack() -> Option<String> {
    if let Some(lack) = as_root() {
        return Some(lack);
    }
    let has_runc = Command::new("runc").arg("--version").stdout(Stdio::null()).status().is_ok();
    (!has_runc).then(|| "runc is missing (Debian: runc)".to_owned())
}

fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// An unpacked image.
struct Bundle {
    folder: PathBuf,
    config: Value,
}

impl Bundle {
    fn unpack(image: Image, stage: &Stage, out: &Path) -> Result<Self> {
        let folder = stage.folder.join(format!("check-{image:?}"));
        let (parts, root) = (folder.join("image"), folder.join("rootfs"));
        fs::create_dir_all(&parts)?;
        fs::create_dir_all(&root)?;
        unpack(&image.path(out), &parts)?;
        let read = |path: &str| -> Result<Value> {
            let bytes = fs::read(parts.join(path)).with_context(|| format!("{path} is missing"))?;
            Ok(serde_json::from_slice(&bytes)?)
        };
        let blob = |value: &Value| -> Result<String> {
            let digest = value["digest"].as_str().context("a descriptor has a digest")?;
            Ok(digest.replace("sha256:", "blobs/sha256/"))
        };
        let index = read("index.json")?;
        let manifest = read(&blob(&index["manifests"][0])?)?;
        for layer in manifest["layers"].as_array().context("an image has layers")? {
            unpack(&parts.join(blob(layer)?), &root)?;
        }
        let config = read(&blob(&manifest["config"])?)?["config"].clone();
        Ok(Self { folder, config })
    }

    /// The command that runs a container with settings in its environment.
    fn run(&self, name: &str, settings: &[(&str, String)]) -> Result<Command> {
        process::run(Command::new("rm").arg("-f").arg(self.folder.join("config.json")))?;
        process::run(Command::new("runc").arg("spec").arg("--bundle").arg(&self.folder))?;
        let file = self.folder.join("config.json");
        let mut spec: Value = serde_json::from_slice(&fs::read(&file)?)?;
        let words = ["Entrypoint", "Cmd"].map(|part| self.config[part].as_array().cloned());
        let words: Vec<_> = words.into_iter().flatten().flatten().collect();
        let own = self.config["Env"].as_array().cloned().unwrap_or_default();
        let given = settings.iter().map(|(name, value)| json!(format!("{name}={value}")));
        let user = self.config["User"].as_str().context("an image names its user")?;
        let user: u32 = user.split(':').next().unwrap_or_default().parse()?;
        spec["process"]["terminal"] = json!(false);
        spec["process"]["args"] = json!(words);
        spec["process"]["env"] = own.into_iter().chain(given).collect();
        spec["process"]["cwd"] = self.config["WorkingDir"].clone();
        spec["process"]["user"] = json!({"uid": user, "gid": user});
        spec["root"]["readonly"] = json!(false);
        let namespaces =
            spec["linux"]["namespaces"].as_array_mut().context("runc has namespaces")?;
        namespaces
            .retain(|namespace| namespace["type"] != "network" && namespace["type"] != "cgroup");
        fs::write(file, serde_json::to_vec(&spec)?)?;
        let mut run = Command::new("runc");
        run.args(["run", "--bundle"]).arg(&self.folder);
        run.arg(format!("orrery-{name}-{}", std::process::id()));
        Ok(run)
    }
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--same-owner", "--same-permissions", "--file"]).arg(archive);
    process::run(tar.arg("--directory").arg(folder))
}
