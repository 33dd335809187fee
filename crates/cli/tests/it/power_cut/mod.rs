//! The power goes while the real server writes to a file system that forgets what was not synced, over
//! and over: among writers, splits, merges, backups and new keys, and among writers under a
//! model that changes. Everything acknowledged is there afterwards, what was not acknowledged is there
//! whole or not at all, and nothing is wrong with the store.
//!
//! Needs root and `/dev/fuse`; elsewhere it says that it was skipped. `ORRERY_POWER_CUTS` sets how often
//! in all, `ORRERY_SEED` repeats a run's choices.

mod disk;
mod mount;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use fuser::BackgroundSession;

use crate::client::Client;
use crate::process::{Running, orrery};
use crate::random::Random;
use crate::tool::Tool;
use crate::{kill, model_kill};
use disk::ForgetfulDisk;

const CUTS: usize = 8;

fn cuts() -> usize {
    let cuts = std::env::var("ORRERY_POWER_CUTS");
    cuts.map_or(CUTS, |text| text.parse().expect("ORRERY_POWER_CUTS is a number")).div_ceil(2)
}

/// A machine whose power can go.
struct Machine {
    disk: ForgetfulDisk,
    at: tempfile::TempDir,
    mounted: Option<BackgroundSession>,
    tool: Tool,
}

impl Machine {
    fn unmount(&mut self) {
        mount::unmount(self.at.path());
        // The disk's thread may still read when the connection ends; it is unmounted all the same.
        if let Err(error) = self.mounted.take().unwrap().join() {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted, "{error}");
        }
    }

    fn start() -> Option<Self> {
        let (disk, at) = (ForgetfulDisk::new(), tempfile::tempdir().unwrap());
        let mounted = disk.mount(at.path());
        if mounted.is_none() {
            eprintln!("skipped: this test mounts a file system, which needs root and /dev/fuse");
            return None;
        }
        Some(Self { disk, at, mounted, tool: Tool::new() })
    }

    fn data(&self) -> PathBuf {
        self.at.path().join("data")
    }

    /// Ends everything at once, and starts again with what the disk has kept.
    fn cut(
        &mut self,
        mut server: Running,
        tool: Option<Child>,
        random: &mut Random,
    ) -> Option<String> {
        self.disk.cut();
        server.child.kill().unwrap();
        let tool = tool.map(|mut tool| {
            // A tool that ended before this has reported to its user.
            let ended = tool.try_wait().unwrap();
            let _ = tool.kill();
            (ended, tool)
        });
        self.disk.release();
        drop(server);
        // A process that still ends holds files open, and the disk could not be unmounted.
        let told = tool.and_then(|(ended, tool)| {
            let output = tool.wait_with_output().unwrap();
            let status = ended?;
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(status.success(), "{text}");
            Some(String::from_utf8(output.stdout).unwrap())
        });
        self.unmount();
        self.disk.forget(random);
        self.mounted = self.disk.mount(self.at.path());
        assert!(self.mounted.is_some());
        told
    }
}

/// What somebody does beside the writers.
enum Beside {
    Nothing,
    /// A backup into this file.
    Backup(PathBuf),
    NewKey,
}

impl Beside {
    fn choose(random: &mut Random, machine: &Machine, round: usize) -> Self {
        match random.below(3) {
            0 => Self::Nothing,
            1 => Self::Backup(machine.at.path().join(format!("{round}.tar.zst"))),
            _ => Self::NewKey,
        }
    }

    fn start(&self, machine: &Machine, server: &Running) -> Option<Child> {
        let data = machine.data();
        let endpoint = format!("http://{}", server.address());
        let key = server.key();
        let mut command = match self {
            Self::Nothing => return None,
            Self::Backup(file) => {
                orrery(&["backup", file.to_str().unwrap(), "--endpoint", &endpoint, "--key", &key])
            }
            Self::NewKey => {
                let which = ["keys", "rotate", "secondary-readonly", "--json", "--data"];
                orrery(&[&which[..], &[data.to_str().unwrap()]].concat())
            }
        };
        Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Looks whether what was told is true.
    fn check(&self, machine: &Machine, told: Option<&str>, round: usize) {
        match (self, told) {
            (Self::Backup(file), Some(_)) => {
                let into = machine.tool.path(&format!("restored-{round}"));
                let file = file.to_str().unwrap();
                machine.tool.must(&["restore", file, "--data", &into]);
            }
            (Self::NewKey, Some(told)) => {
                let told = orrery_types::Value::parse(told.as_bytes()).unwrap();
                let told = told.get("secondary-readonly").as_str().unwrap();
                let data = machine.data();
                let listed = ["keys", "list", "--data", data.to_str().unwrap()];
                let listed = machine.tool.must(&listed);
                assert!(listed.contains(told), "round {round}: a revoked key is back");
            }
            _ => {}
        }
        if let Self::Backup(file) = self {
            // Complete or not, the file is not needed any more.
            let _ = std::fs::remove_file(file);
        }
    }
}

fn wait_for(receiver: &Receiver<()>, count: usize) -> usize {
    let counted = receiver.iter().take(count).count();
    assert_eq!(counted, count, "the server ended by itself");
    counted
}

#[test]
fn acknowledged_writes_outlive_the_power() {
    let Some(mut machine) = Machine::start() else { return };
    let (cuts, mut random) = (cuts(), Random::from_environment("power cut"));
    kill::prepare(&(&machine.data()).into());
    let writer = |number| kill::Writer::new(number, number as u64 + 1);
    let mut writers: Vec<_> = (0..kill::WRITERS).map(writer).collect();
    let (mut acknowledged, mut lost, mut layouts, mut kept) = (0, 0, 0, 0);
    for round in 0..=cuts {
        assert_eq!(kill::faults(&(&machine.data()).into()), 0, "after round {round}");
        let server = Running::serve(&machine.data());
        settle(&server, &mut writers, &mut lost);
        assert_eq!(lost, 0, "after round {round}");
        if round == cuts {
            break;
        }
        let beside = Beside::choose(&mut random, &machine, round);
        let (address, key) = (server.address(), server.key());
        let (sender, receiver) = channel();
        // A split takes a while among writers: some rounds give it the time.
        let most = if random.one_in(3) { 2000 } else { 200 };
        let after = 1 + random.below(most);
        let told = std::thread::scope(|scope| {
            for writer in &mut writers {
                let (sender, key) = (sender.clone(), key.clone());
                scope.spawn(move || writer.run(address, &key, &sender));
            }
            drop(sender);
            let layout_changer = scope.spawn(|| kill::change_layout(address, &key));
            let tool = beside.start(&machine, &server);
            acknowledged += wait_for(&receiver, after);
            let told = machine.cut(server, tool, &mut random);
            acknowledged += receiver.iter().count();
            layouts += layout_changer.join().unwrap();
            told
        });
        kept += usize::from(told.is_some());
        beside.check(&machine, told.as_deref(), round);
    }
    eprintln!(
        "{cuts} power cuts: {acknowledged} acknowledged writes, lost {lost}; {layouts} splits and merges; \
         {kept} backups and new keys told of, all there"
    );
}

/// Compares what is there with what each writer was told.
fn settle(server: &Running, writers: &mut [kill::Writer], lost: &mut usize) {
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let items = client.feed(kill::ITEMS, "Documents").into_iter();
    let found = items.map(|item| (item.get("id").as_str().unwrap().to_owned(), item)).collect();
    for writer in writers {
        writer.settle(&found, lost);
    }
}

#[test]
fn a_model_holds_after_every_power_cut() {
    let Some(mut machine) = Machine::start() else { return };
    let (cuts, mut random) = (cuts(), Random::from_environment("model power cut"));
    let mut writers = model_kill::writers(&mut random);
    model_kill::prepare(&machine.data(), &writers, &model_kill::model(&mut random));
    let mut acknowledged = 0;
    for round in 0..cuts {
        let server = Running::serve(&machine.data());
        let (address, key) = (server.address(), server.key());
        let (sender, receiver) = channel();
        let (after, changes) = (1 + random.below(200), random.one_in(2));
        let next = model_kill::model(&mut random);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let (sender, key) = (sender.clone(), key.clone());
                scope.spawn(move || writer.run(address, &key, &sender));
            }
            drop(sender);
            acknowledged += wait_for(&receiver, after);
            if changes {
                let mut client = Client::open(address, &key).unwrap();
                client.must("PUT", "/dbs/d/_model", &[], &next);
            }
            acknowledged += wait_for(&receiver, after);
            machine.cut(server, None, &mut random);
            acknowledged += receiver.iter().count();
        });
        model_kill::check(&machine.data(), &mut writers, round);
    }
    eprintln!("{cuts} power cuts under a model: {acknowledged} acknowledged writes, drift 0");
}

/// What the file system itself promises and does not promise.
#[test]
fn the_disk_forgets_what_was_not_synced() {
    let Some(mut machine) = Machine::start() else { return };
    let at = |machine: &Machine, name: &str| machine.at.path().join(name);
    let kept = at(&machine, "kept");
    orrery_files::replace(&kept, b"one", orrery_files::FileAccess::Default).unwrap();
    orrery_files::create_folders(&at(&machine, "a/b")).unwrap();
    std::fs::write(at(&machine, "unsynced"), "x").unwrap();
    restart(&mut machine);
    assert!(!at(&machine, "unsynced").exists() && at(&machine, "a/b").is_dir());
    assert_eq!(std::fs::read(&kept).unwrap(), b"one");
    // The content is synced, and the name is not: the old file is back.
    std::fs::write(at(&machine, "new"), "two").unwrap();
    std::fs::File::open(at(&machine, "new")).unwrap().sync_all().unwrap();
    std::fs::rename(at(&machine, "new"), &kept).unwrap();
    restart(&mut machine);
    assert_eq!(std::fs::read(&kept).unwrap(), b"one");
    orrery_files::replace(&kept, b"three", orrery_files::FileAccess::Default).unwrap();
    restart(&mut machine);
    assert_eq!(std::fs::read(&kept).unwrap(), b"three");
}

/// A cut that leaves nothing to chance.
fn restart(machine: &mut Machine) {
    machine.unmount();
    // The first number of this seed is odd, so nothing unsynced stays.
    let mut seed = 0;
    while Random::new(seed).one_in(2) {
        seed += 1;
    }
    machine.disk.forget(&mut Random::new(seed));
    machine.mounted = machine.disk.mount(machine.at.path());
    assert!(Path::new(machine.at.path()).is_dir() && machine.mounted.is_some());
}
