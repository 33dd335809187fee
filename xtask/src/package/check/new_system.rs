//! Installation on a Debian that has seen nothing of this project: a root that debootstrap made, without
//! cargo. Each package is installed in it and serves a first query within a minute.

use super::super::{Stage, archive, deb, wheel};
use super::serving::{Serving, first_query, free_ports};
use super::{Verdict, javascript};
use crate::stopwatch::Stopwatch;
use crate::{process, project};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const RELEASE: &str = "bookworm";
/// What its users have already: Python and Node.js for a wheel or an npm package.
const PACKAGES: &str = "adduser,ca-certificates,python3-venv,nodejs";
const LIMIT_S: f64 = 60.0;

pub(super) fn check(stage: &Stage, out: &Path) -> Result<Verdict> {
    if !Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n") {
        return Ok(Verdict::Skipped("a new system is made as root".to_owned()));
    }
    if Command::new("debootstrap").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Ok(Verdict::Skipped("debootstrap is missing (Debian: debootstrap)".to_owned()));
    }
    let base = base()?;
    for (name, install) in [
        ("deb", install_deb as fn(&System, &Path) -> Result<PathBuf>),
        ("tar", install_tar),
        ("wheel", install_wheel),
        ("npm", install_npm),
    ] {
        let system = System::new(&base, &stage.folder.join(format!("system-{name}")))?;
        let watch = Stopwatch::start();
        let program = install(&system, out).with_context(|| format!("{name} does not install"))?;
        serve(&system, stage, &program).with_context(|| format!("{name} does not serve"))?;
        let took = watch.seconds();
        println!("new system: {name}: first query after {took:.1} s");
        ensure!(took < LIMIT_S, "{name}: the first query took {took:.0} s");
    }
    Ok(Verdict::Passed)
}

/// The root that every test begins with, made once in the user's cache.
fn base() -> Result<PathBuf> {
    let home = project::cache("package")?;
    let (base, part) = (home.join("root"), home.join("root.part"));
    if !base.exists() {
        let mut make = Command::new("debootstrap");
        make.arg("--variant=minbase").arg(format!("--include={PACKAGES}")).arg(RELEASE).arg(&part);
        process::run(&mut make)?;
        fs::rename(&part, &base)?;
    }
    Ok(base)
}

/// A system over the base: what is written lies in a layer of its own.
struct System {
    root: PathBuf,
}

impl System {
    fn new(base: &Path, folder: &Path) -> Result<Self> {
        let [upper, work, root] = ["upper", "work", "root"].map(|name| folder.join(name));
        for path in [&upper, &work, &root] {
            fs::create_dir_all(path)?;
        }
        let layers = format!(
            "lowerdir={},upperdir={},workdir={}",
            base.display(),
            upper.display(),
            work.display()
        );
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &layers]).arg(&root);
        process::run(&mut mount)?;
        let system = Self { root };
        let mut proc = Command::new("mount");
        process::run(proc.args(["-t", "proc", "proc"]).arg(system.root.join("proc")))?;
        Ok(system)
    }

    /// A command inside, without network settings or tools of this machine.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.root).args(["/usr/bin/env", "-i", "HOME=/root", "LC_ALL=C.UTF-8"]);
        command.arg("PATH=/usr/sbin:/usr/bin:/sbin:/bin").arg(program);
        command
    }

    fn copy(&self, file: &Path) -> Result<String> {
        let name = file.file_name().context("a package has a name")?.to_string_lossy().into_owned();
        fs::copy(file, self.root.join("tmp").join(&name))?;
        Ok(format!("/tmp/{name}"))
    }
}

impl Drop for System {
    fn drop(&mut self) {
        for path in [self.root.join("proc"), self.root.clone()] {
            let _ = Command::new("umount").arg("--lazy").arg(path).status();
        }
    }
}

fn install_deb(system: &System, out: &Path) -> Result<PathBuf> {
    let package = system.copy(&deb::path(out)?)?;
    ensure!(
        system
            .command("cargo")
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| !status.success()),
        "a new system has no cargo"
    );
    // Twice: the second installation is an upgrade to the same version.
    for _ in 0..2 {
        let mut install = system.command("dpkg");
        process::run(install.args(["--install", &package]))?;
    }
    process::run(system.command("id").arg("orrery"))?;
    Ok("/usr/bin/orrery".into())
}

fn install_tar(system: &System, out: &Path) -> Result<PathBuf> {
    let package = system.copy(&archive::path(out))?;
    process::run(system.command("tar").args(["-xzf", &package, "-C", "/opt"]))?;
    Ok(Path::new("/opt").join(archive::name()).join("orrery"))
}

fn install_wheel(system: &System, out: &Path) -> Result<PathBuf> {
    let package = system.copy(&wheel::find(out)?)?;
    process::run(system.command("python3").args(["-m", "venv", "/opt/env"]))?;
    let mut pip = system.command("/opt/env/bin/pip");
    process::run(pip.args(["install", "--quiet", "--no-index", &package]))?;
    Ok("/opt/env/bin/orrery".into())
}

/// Debian's npm is hundreds of packages, so the one of this machine installs into the new system, whose
/// Node.js then runs the command.
fn install_npm(system: &System, out: &Path) -> Result<PathBuf> {
    let folder = system.root.join("opt/app");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    javascript::install(&folder, out)?;
    Ok("/opt/app/node_modules/.bin/orrery".into())
}

fn serve(system: &System, stage: &Stage, program: &Path) -> Result<()> {
    let [port] = free_ports()?;
    let mut serve = system.command(&program.display().to_string());
    serve.args(["serve", "--stop-at-eof", "--data", "/var/lib/orrery-test", "--log", "error"]);
    serve.args(["--listen", &format!("127.0.0.1:{port}")]);
    let serving = Serving::start(serve, "  Data ")?;
    let endpoint = format!("http://127.0.0.1:{port}/");
    first_query(&stage.program, &endpoint, &serving.word("Key")?)?;
    serving.stop()
}
