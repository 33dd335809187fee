//! Container images, written without a daemon: an OCI image is a tar of JSON and layers, and with one more
//! file old versions of Docker load it too. Both images have the same layers: the system libraries that
//! the program is linked with and the certificates of authorities, then the program.

use super::files::gzip;
use super::{Stage, version};
use crate::{process, project};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The user that the server runs as; the emulator's image runs as root, because files that are mounted into
/// it belong to anybody.
const USER: u64 = 10001;
const PASSWD: &str = "root:x:0:0:root:/root:/sbin/nologin\n\
                      orrery:x:10001:10001:Orrery:/var/lib/orrery:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\norrery:x:10001:\n";

/// Which image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Image {
    Server,
    /// Takes the place of the emulator's image: its settings, ports and messages.
    Emulator,
}

impl Image {
    pub(super) const ALL: [Self; 2] = [Self::Server, Self::Emulator];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "orrery",
            Self::Emulator => "orrery-emulator",
        }
    }

    pub(super) fn path(self, out: &Path) -> PathBuf {
        out.join(format!("{}-{}.oci.tar", self.name(), version()))
    }

    /// How a container of the image is run.
    fn config(self) -> Value {
        let labels = json!({
            "org.opencontainers.image.title": self.name(),
            "org.opencontainers.image.version": version(),
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            "org.opencontainers.image.description":
                "A document database that speaks the Azure Cosmos DB for NoSQL protocol",
        });
        match self {
            Self::Server => json!({
                "User": format!("{USER}:{USER}"),
                "ExposedPorts": {"8081/tcp": {}},
                // A place for data and not a setting, so that ORRERY_MEMORY=true is no conflict.
                "Env": ["PATH=/usr/bin", "ORRERY_LISTEN=0.0.0.0:8081", "XDG_DATA_HOME=/var/lib"],
                "Entrypoint": ["/usr/bin/orrery"],
                "Cmd": ["serve"],
                "Volumes": {"/var/lib/orrery": {}},
                "WorkingDir": "/var/lib/orrery",
                "Labels": labels,
                "Healthcheck": healthcheck(&["CMD", "/usr/bin/orrery", "ready"]),
            }),
            Self::Emulator => json!({
                "User": "0:0",
                "ExposedPorts": {"8081/tcp": {}, "8080/tcp": {}, "1234/tcp": {}},
                "Env": ["PATH=/usr/bin"],
                "Entrypoint": ["/usr/bin/orrery", "emulator"],
                "WorkingDir": "/data",
                "Labels": labels,
                "Healthcheck":
                    healthcheck(&["CMD", "/usr/bin/orrery", "ready", "--listen", "127.0.0.1:8080"]),
            }),
        }
    }
}

/// Docker's own field; times are nanoseconds.
fn healthcheck(test: &[&str]) -> Value {
    const SECOND: u64 = 1_000_000_000;
    json!({"Test": test, "Interval": 10 * SECOND, "Timeout": 5 * SECOND,
           "StartPeriod": 60 * SECOND, "Retries": 3})
}

pub(super) fn make(stage: &Stage, out: &Path) -> Result<()> {
    let layers = [Layer::pack(&system(stage)?)?, Layer::pack(&program(stage)?)?];
    for image in Image::ALL {
        let file = image.path(out);
        fs::write(&file, archive(image, &layers)?)?;
        println!("package: {}", file.display());
    }
    Ok(())
}

/// What the program needs beside itself: libraries with their licences, certificates, users, folders.
fn system(stage: &Stage) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.add("etc/passwd", PASSWD.as_bytes().to_vec(), 0o644);
    tree.add("etc/group", GROUP.as_bytes().to_vec(), 0o644);
    let authorities = fs::read(AUTHORITIES)
        .context("the certificates of authorities are needed (Debian: ca-certificates)")?;
    tree.add(AUTHORITIES, authorities, 0o644);
    for library in libraries(&stage.program)? {
        tree.add(&library, fs::read(&library)?, 0o755);
    }
    for package in ["libc6", "libgcc-s1", "libstdc++6", "ca-certificates"] {
        let licence = format!("/usr/share/doc/{package}/copyright");
        if let Ok(text) = fs::read(&licence) {
            tree.add(&licence, text, 0o644);
        }
    }
    tree.folders.insert("tmp".to_owned(), (0o1777, 0));
    tree.folders.insert("data".to_owned(), (0o755, 0));
    tree.folders.insert("var/lib/orrery".to_owned(), (0o700, USER));
    Ok(tree)
}

fn program(stage: &Stage) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.add("usr/bin/orrery", fs::read(&stage.program)?, 0o755);
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = fs::read(project::root().join(licence))?;
        tree.add(&format!("usr/share/doc/orrery/{licence}"), text, 0o644);
    }
    Ok(tree)
}

/// The shared libraries and the loader, by the paths under which the program looks for them.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let listing = process::output(Command::new("ldd").arg(program))?;
    let found = parse_libraries(&listing);
    ensure!(found.iter().any(|path| path.contains("ld-linux")), "ldd names no loader: {listing}");
    Ok(found)
}

fn parse_libraries(listing: &str) -> Vec<String> {
    let words = listing
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.map(str::to_owned).collect()
}

/// Files and folders of a layer, by their path without the first slash.
#[derive(Default)]
struct Tree {
    files: BTreeMap<String, (Vec<u8>, u32)>,
    /// Permissions and owner.
    folders: BTreeMap<String, (u32, u64)>,
}

impl Tree {
    fn add(&mut self, path: &str, content: Vec<u8>, mode: u32) {
        self.files.insert(path.trim_start_matches('/').to_owned(), (content, mode));
    }

    /// The folders that are named, and those above every file and folder.
    fn all_folders(&self) -> BTreeMap<String, (u32, u64)> {
        let mut all = self.folders.clone();
        for path in self.files.keys().chain(self.folders.keys()) {
            let mut path = path.as_str();
            while let Some((parent, _)) = path.rsplit_once('/') {
                all.entry(parent.to_owned()).or_insert((0o755, 0));
                path = parent;
            }
        }
        all
    }

    /// The same content gives the same bytes: sorted, without times and names of users.
    fn tar(&self) -> Result<Vec<u8>> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, (mode, owner)) in self.all_folders() {
            let mut header = header(tar::EntryType::Directory, 0, mode, owner);
            builder.append_data(&mut header, format!("{path}/"), &[][..])?;
        }
        for (path, (content, mode)) in &self.files {
            let mut header = header(tar::EntryType::Regular, content.len() as u64, *mode, 0);
            builder.append_data(&mut header, path, content.as_slice())?;
        }
        Ok(builder.into_inner()?)
    }
}

fn header(kind: tar::EntryType, size: u64, mode: u32, owner: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_mtime(0);
    header
}

/// A layer as it is kept, and the digest of what it unpacks to.
struct Layer {
    packed: Vec<u8>,
    unpacked_digest: String,
}

impl Layer {
    fn pack(tree: &Tree) -> Result<Self> {
        let bytes = tree.tar()?;
        Ok(Self { unpacked_digest: digest(&bytes), packed: gzip(&bytes)? })
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", digest(bytes))
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": format!("application/vnd.oci.image.{kind}"),
           "digest": format!("sha256:{}", digest(bytes)), "size": bytes.len()})
}

/// The whole image as one file.
fn archive(image: Image, layers: &[Layer]) -> Result<Vec<u8>> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let ids: Vec<_> =
        layers.iter().map(|layer| format!("sha256:{}", layer.unpacked_digest)).collect();
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": image.config(),
        "rootfs": {"type": "layers", "diff_ids": ids},
        "history": [{"created_by": "system libraries"}, {"created_by": "orrery"}],
    });
    let config = serde_json::to_vec(&config)?;
    let kept: Vec<_> =
        layers.iter().map(|layer| descriptor("layer.v1.tar+gzip", &layer.packed)).collect();
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", &config),
        "layers": kept,
    }))?;
    let reference = format!("{}:{}", image.name(), version());
    let mut entry = descriptor("manifest.v1+json", &manifest);
    entry["annotations"] = json!({"org.opencontainers.image.ref.name": version(),
                                  "io.containerd.image.name": reference});
    let index = json!({"schemaVersion": 2, "manifests": [entry]});
    let paths: Vec<_> = layers.iter().map(|layer| blob(&layer.packed)).collect();
    let docker = json!([{"Config": blob(&config), "RepoTags": [reference], "Layers": paths}]);
    let mut tree = Tree::default();
    tree.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(), 0o644);
    tree.add("index.json", serde_json::to_vec(&index)?, 0o644);
    tree.add("manifest.json", serde_json::to_vec(&docker)?, 0o644);
    tree.add(&blob(&config), config, 0o644);
    tree.add(&blob(&manifest), manifest, 0o644);
    for layer in layers {
        tree.add(&blob(&layer.packed), layer.packed.clone(), 0o644);
    }
    tree.tar()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn an_image_names_every_part_by_its_digest() {
        let mut tree = Tree::default();
        tree.add("/usr/bin/orrery", b"program".to_vec(), 0o755);
        let layer = Layer::pack(&tree).unwrap();
        let bytes = archive(Image::Emulator, &[layer]).unwrap();
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            found.insert(path, content);
        }
        for (path, content) in &found {
            if let Some(name) = path.strip_prefix("blobs/sha256/").filter(|name| !name.is_empty()) {
                assert_eq!(name, digest(content));
            }
        }
        let index: Value = serde_json::from_slice(&found["index.json"]).unwrap();
        let named = |digest: &Value| {
            let digest = digest.as_str().unwrap().replace("sha256:", "blobs/sha256/");
            serde_json::from_slice::<Value>(&found[&digest]).unwrap()
        };
        let manifest = named(&index["manifests"][0]["digest"]);
        let config = named(&manifest["config"]["digest"]);
        assert_eq!(config["config"]["Entrypoint"][1], "emulator");
        let docker: Value = serde_json::from_slice(&found["manifest.json"]).unwrap();
        assert!(found.contains_key(docker[0]["Layers"][0].as_str().unwrap()));
    }

    #[test]
    fn folders_above_a_file_are_part_of_the_layer_and_come_first() {
        let mut tree = Tree::default();
        tree.add("a/b/c", b"x".to_vec(), 0o644);
        tree.folders.insert("a/b".to_owned(), (0o700, 7));
        let tar = tree.tar().unwrap();
        let paths: Vec<_> = tar::Archive::new(&tar[..])
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path().unwrap().display().to_string(), entry.header().uid().unwrap())
            })
            .collect();
        let expected = [("a/", 0), ("a/b/", 7), ("a/b/c", 0)];
        assert_eq!(paths, expected.map(|(path, uid)| (path.to_owned(), uid)));
    }

    #[test]
    fn libraries_are_taken_from_the_listing_with_the_loader() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                       \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(parse_libraries(listing), expected);
    }
}
