//! A file system that forgets what was not synced. It lives in memory and is mounted by FUSE. A cut leaves
//! of every file what was synced, and of every folder the names that were synced in it; of what was
//! not, nothing, or by chance single sectors and the first few changes of names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use orrery_types::{Clock as _, SystemClock};

use crate::random::Random;

const ROOT: u64 = 1;
const PAGE: usize = 4096;
const SECTOR: usize = 512;
const TTL: Duration = Duration::from_secs(1);

type Names = BTreeMap<OsString, u64>;

/// A change of a name that its folder was not synced for.
#[derive(Clone, Debug)]
enum NameChange {
    Set(OsString, u64),
    Remove(OsString),
    Rename(OsString, OsString, u64),
}

fn apply(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Set(name, node) => drop(names.insert(name.clone(), *node)),
        NameChange::Remove(name) => drop(names.remove(name)),
        NameChange::Rename(from, to, node) => {
            names.remove(from);
            names.insert(to.clone(), *node);
        }
    }
}

#[derive(Clone, Debug)]
enum Content {
    File {
        data: Vec<u8>,
        /// The pages that were changed since the last sync, as they were then.
        before: BTreeMap<usize, Vec<u8>>,
        synced_length: usize,
    },
    Folder {
        names: Names,
        synced: Names,
        changes: Vec<NameChange>,
    },
}

#[derive(Clone, Debug)]
struct Node {
    content: Content,
    mode: u16,
    changed_us: u64,
}

impl Node {
    fn new(mode: u32, content: Content) -> Self {
        let mode = u16::try_from(mode & 0o7777).unwrap();
        Self { content, mode, changed_us: SystemClock.now_us() }
    }

    fn file(mode: u32) -> Self {
        let (data, before) = (Vec::new(), BTreeMap::new());
        Self::new(mode, Content::File { data, before, synced_length: 0 })
    }

    fn folder(mode: u32) -> Self {
        let (names, synced) = (Names::new(), Names::new());
        Self::new(mode, Content::Folder { names, synced, changes: Vec::new() })
    }

    /// Remembers what pages hold before they are changed.
    fn keep(&mut self, from: usize, to: usize) {
        self.changed_us = SystemClock.now_us();
        let Content::File { data, before, .. } = &mut self.content else { return };
        for page in from / PAGE..to.div_ceil(PAGE) {
            before.entry(page).or_insert_with(|| {
                let end = ((page + 1) * PAGE).min(data.len());
                data.get(page * PAGE..end).unwrap_or_default().to_vec()
            });
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.keep(at, at + bytes.len());
        let Content::File { data, .. } = &mut self.content else { return };
        if data.len() < at + bytes.len() {
            data.resize(at + bytes.len(), 0);
        }
        data[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn resize(&mut self, length: usize) {
        let Content::File { data, .. } = &self.content else { return };
        self.keep(length.min(data.len()), length.max(data.len()));
        let Content::File { data, .. } = &mut self.content else { return };
        data.resize(length, 0);
    }

    fn sync(&mut self) {
        match &mut self.content {
            Content::File { data, before, synced_length } => {
                before.clear();
                *synced_length = data.len();
            }
            Content::Folder { names, synced, changes } => {
                synced.clone_from(names);
                changes.clear();
            }
        }
    }

    /// What the disk holds after a cut.
    fn cut(&mut self, random: &mut Random, is_torn: bool) {
        match &mut self.content {
            Content::File { data, before, synced_length } => {
                let new = data.clone();
                let end = match (is_torn, *synced_length < new.len()) {
                    (true, true) => *synced_length + random.below(new.len() - *synced_length + 1),
                    _ => *synced_length,
                };
                data.resize(end.max(*synced_length), 0);
                for (page, old) in std::mem::take(before) {
                    let from = page * PAGE;
                    for sector in (from..from + PAGE).step_by(SECTOR) {
                        let keeps_new = is_torn && random.one_in(2);
                        for at in sector..(sector + SECTOR).min(data.len()) {
                            let old = old.get(at - from).copied().unwrap_or(0);
                            let new = new.get(at).copied();
                            data[at] = new.filter(|_| keeps_new).unwrap_or(old);
                        }
                    }
                }
            }
            Content::Folder { names, synced, changes } => {
                let count = if is_torn { random.below(changes.len() + 1) } else { 0 };
                changes.iter().take(count).for_each(|change| apply(synced, change));
                changes.clear();
                names.clone_from(synced);
            }
        }
        self.sync();
    }
}

struct State {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    power: Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// Nothing is answered any more.
    Off,
    /// Pending requests are answered anyhow: their processes were killed and read no answer.
    Gone,
}

/// The disk, which outlives its mounts.
#[derive(Clone)]
pub(crate) struct ForgetfulDisk(Arc<(Mutex<State>, Condvar)>);

impl ForgetfulDisk {
    pub(crate) fn new() -> Self {
        let nodes = BTreeMap::from([(ROOT, Node::folder(0o755))]);
        let state = State { nodes, next: ROOT + 1, power: Power::On };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    /// Mounts it; `None` where that is not possible.
    pub(crate) fn mount(&self, at: &Path) -> Option<BackgroundSession> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("orrery-power-cut".into())];
        self.lock().power = Power::On;
        fuser::spawn_mount(self.clone(), at, &config).ok()
    }

    /// The power goes: from this moment on nothing is written, synced or answered.
    pub(crate) fn cut(&self) {
        self.lock().power = Power::Off;
    }

    /// Ends what waits; to be called when all processes that use the disk are being killed.
    pub(crate) fn release(&self) {
        self.lock().power = Power::Gone;
        self.0.1.notify_all();
    }

    /// Leaves what the cut has left.
    pub(crate) fn forget(&self, random: &mut Random) {
        let mut state = self.lock();
        let is_torn = random.one_in(2);
        for node in state.nodes.values_mut() {
            node.cut(random, is_torn);
        }
        let (mut reached, mut waiting) = (BTreeSet::new(), vec![ROOT]);
        while let Some(node) = waiting.pop() {
            if let (true, Some(Content::Folder { names, .. })) =
                (reached.insert(node), state.nodes.get(&node).map(|node| &node.content))
            {
                waiting.extend(names.values());
            }
        }
        state.nodes.retain(|node, _| reached.contains(node));
    }

    fn run<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, Errno> {
        let off = |state: &mut State| state.power == Power::Off;
        let mut state = self.0.1.wait_while(self.lock(), off).unwrap();
        if state.power == Power::On { work(&mut state) } else { Err(Errno::EIO) }
    }
}

impl State {
    fn node(&mut self, node: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&node).ok_or(Errno::ENOENT)
    }

    fn folder(&mut self, node: u64) -> Result<(&mut Names, &mut Vec<NameChange>), Errno> {
        match &mut self.node(node)?.content {
            Content::Folder { names, changes, .. } => Ok((names, changes)),
            Content::File { .. } => Err(Errno::ENOTDIR),
        }
    }

    fn find(&mut self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.folder(parent)?.0.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn change(&mut self, parent: u64, change: NameChange) -> Result<(), Errno> {
        let (names, changes) = self.folder(parent)?;
        apply(names, &change);
        changes.push(change);
        Ok(())
    }

    fn add(&mut self, parent: u64, name: &OsStr, node: Node) -> Result<FileAttr, Errno> {
        if self.find(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let number = self.next;
        self.change(parent, NameChange::Set(name.to_owned(), number))?;
        self.next += 1;
        self.nodes.insert(number, node);
        self.attributes(number)
    }

    fn remove(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let node = self.find(parent, name)?;
        if let Content::Folder { names, .. } = &self.node(node)?.content
            && !names.is_empty()
        {
            return Err(Errno::ENOTEMPTY);
        }
        // The node stays: somebody may have it open, and after a cut the name may be back.
        self.change(parent, NameChange::Remove(name.to_owned()))
    }

    fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Result<(), Errno> {
        let node = self.find(from.0, from.1)?;
        let (old, new) = (from.1.to_owned(), to.1.to_owned());
        if from.0 == to.0 {
            return self.change(from.0, NameChange::Rename(old, new, node));
        }
        self.change(to.0, NameChange::Set(new, node))?;
        self.change(from.0, NameChange::Remove(old))
    }

    fn attributes(&mut self, number: u64) -> Result<FileAttr, Errno> {
        // The system links no file that it believes to have no name left.
        let folders = self.nodes.values().filter_map(|node| match &node.content {
            Content::Folder { names, .. } => Some(names),
            Content::File { .. } => None,
        });
        let links = folders.flat_map(Names::values).filter(|named| **named == number).count();
        let nlink = u32::try_from(links).unwrap().max(1);
        let node = self.node(number)?;
        let (kind, size) = match &node.content {
            Content::File { data, .. } => (FileType::RegularFile, data.len() as u64),
            Content::Folder { .. } => (FileType::Directory, 0),
        };
        let time = UNIX_EPOCH + Duration::from_micros(node.changed_us);
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: node.mode,
            nlink,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

/// Sends an answer, or the error.
macro_rules! answer {
    ($reply:expr, $result:expr, $ok:expr) => {
        match $result {
            Ok(value) => $ok($reply, value),
            Err(error) => $reply.error(error),
        }
    };
}

fn entry(reply: ReplyEntry, attributes: FileAttr) {
    reply.entry(&TTL, &attributes, Generation(0));
}

fn done(reply: ReplyEmpty, (): ()) {
    reply.ok();
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

impl Filesystem for ForgetfulDisk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.run(|state| {
            let node = state.find(parent.0, name)?;
            state.attributes(node)
        });
        answer!(reply, found, entry);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.run(|state| state.attributes(node.0));
        answer!(reply, found, |reply: ReplyAttr, found| reply.attr(&TTL, &found));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.run(|state| {
            let changed = state.node(node.0)?;
            if let Some(mode) = mode {
                changed.mode = u16::try_from(mode & 0o7777).unwrap();
            }
            if let Some(size) = size {
                changed.resize(place(size));
            }
            state.attributes(node.0)
        });
        answer!(reply, set, |reply: ReplyAttr, found| reply.attr(&TTL, &found));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.run(|state| state.add(parent.0, name, Node::folder(mode)));
        answer!(reply, made, entry);
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.run(|state| state.add(parent.0, name, Node::file(mode)));
        answer!(reply, made, entry);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.run(|state| state.add(parent.0, name, Node::file(mode)));
        answer!(reply, made, |reply: ReplyCreate, made| {
            reply.created(&TTL, &made, Generation(0), FileHandle(0), FopenFlags::empty());
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.run(|state| state.remove(parent.0, name));
        answer!(reply, removed, done);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.run(|state| state.remove(parent.0, name));
        answer!(reply, removed, done);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.run(|state| state.rename((parent.0, name), (to.0, new)));
        answer!(reply, renamed, done);
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.run(|state| {
            if state.find(parent.0, name).is_ok() {
                return Err(Errno::EEXIST);
            }
            state.change(parent.0, NameChange::Set(name.to_owned(), node.0))?;
            state.attributes(node.0)
        });
        answer!(reply, linked, entry);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.run(|_| Ok(()));
        answer!(reply, opened, |reply: ReplyOpen, ()| {
            reply.opened(FileHandle(0), FopenFlags::empty());
        });
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.run(|state| match &state.node(node.0)?.content {
            Content::File { data, .. } => {
                let from = place(offset).min(data.len());
                let to = (from + size as usize).min(data.len());
                Ok(data[from..to].to_vec())
            }
            Content::Folder { .. } => Err(Errno::EISDIR),
        });
        answer!(reply, read, |reply: ReplyData, data: Vec<u8>| reply.data(&data));
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.run(|state| {
            state.node(node.0)?.write(place(offset), data);
            Ok(u32::try_from(data.len()).unwrap())
        });
        answer!(reply, written, |reply: ReplyWrite, size| reply.written(size));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.run(|state| state.node(node.0).map(Node::sync));
        answer!(reply, synced, done);
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.run(|state| state.node(node.0).map(Node::sync));
        answer!(reply, synced, done);
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.run(|state| {
            let names = state.folder(node.0)?.0.clone();
            let kind =
                |state: &State, number: &u64| match state.nodes.get(number).map(|n| &n.content) {
                    Some(Content::Folder { .. }) => FileType::Directory,
                    _ => FileType::RegularFile,
                };
            let own = [(OsString::from("."), node.0), (OsString::from(".."), ROOT)];
            let all = own.into_iter().chain(names);
            Ok(all.map(|(name, number)| (kind(state, &number), number, name)).collect::<Vec<_>>())
        });
        match listed {
            Err(error) => reply.error(error),
            Ok(listed) => {
                for (at, (kind, number, name)) in listed.iter().enumerate().skip(place(offset)) {
                    if reply.add(INodeNo(*number), at as u64 + 1, *kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = 1 << 24;
        reply.statfs(blocks, blocks, blocks, blocks, blocks, 4096, 255, 4096);
    }
}
