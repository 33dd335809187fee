//! Three `PostgreSQL` under Patroni, each on a machine of its own as far as the network goes, and etcd. A machine is a network
//! namespace, so that its wire can be cut. All of it is gone when the value is dropped.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use orrery_types::Value;
use orrery_types::stopwatch::Stopwatch;

use crate::cluster::programs;

/// Nothing that is waited for takes longer.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(200);
pub(super) const NODES: usize = 3;

pub(super) struct PatroniCluster {
    folder: PathBuf,
    /// The bridge, and what the names of the namespaces and wires begin with.
    network: String,
    /// The first three numbers of all addresses.
    subnet: String,
    etcd: Child,
    nodes: Vec<Child>,
}

/// Runs a program that must succeed.
fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said}");
}

fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl PatroniCluster {
    /// What is missing on this machine, if something is.
    pub(super) fn missing() -> Option<String> {
        let programs = [("patroni", "patroni"), ("etcd", "etcd-server"), ("ip", "iproute2")];
        let lacks = programs.iter().find(|(program, _)| !is_installed(program));
        if let Some((program, package)) = lacks {
            return Some(format!("{program} is not installed (apt-get install {package})"));
        }
        if crate::cluster::programs().is_none() {
            return Some("PostgreSQL is not installed (apt-get install postgresql)".into());
        }
        let name = format!("orrery-try-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Some("network namespaces need root".into());
        }
        run("ip", &format!("netns del {name}"));
        None
    }

    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        run("chown", &format!("postgres {}", folder.display()));
        let number = std::process::id();
        let (network, subnet) =
            (format!("orr{}", number % 100_000), format!("10.77.{}", number % 250));
        run("ip", &format!("link add {network} type bridge"));
        run("ip", &format!("addr add {subnet}.1/24 dev {network}"));
        run("ip", &format!("link set {network} up"));
        let url = |port: u16| format!("http://{subnet}.1:{port}");
        let etcd = Command::new("etcd")
            .args(["--name", "etcd", "--data-dir"])
            .arg(folder.join("etcd"))
            .args(["--listen-client-urls", &url(2379), "--advertise-client-urls", &url(2379)])
            .args(["--listen-peer-urls", &url(2380), "--initial-advertise-peer-urls", &url(2380)])
            .args(["--initial-cluster", &format!("etcd={}", url(2380))])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut cluster = Self { folder, network, subnet, etcd, nodes: vec![] };
        for node in 0..NODES {
            cluster.make_machine(node);
            let started = cluster.spawn(node);
            cluster.nodes.push(started);
        }
        cluster.wait_until_whole();
        cluster
    }

    fn name(&self, node: usize) -> String {
        format!("{}-{node}", self.network)
    }

    fn host(&self, node: usize) -> String {
        format!("{}.{}", self.subnet, 11 + node)
    }

    fn make_machine(&self, node: usize) {
        let (name, host) = (self.name(node), self.host(node));
        run("ip", &format!("netns add {name}"));
        run("ip", &format!("link add {name} type veth peer name eth0 netns {name}"));
        run("ip", &format!("link set {name} master {}", self.network));
        run("ip", &format!("link set {name} up"));
        run("ip", &format!("-n {name} addr add {host}/24 dev eth0"));
        run("ip", &format!("-n {name} link set eth0 up"));
        run("ip", &format!("-n {name} link set lo up"));
        let (folder, subnet) = (self.folder.display(), &self.subnet);
        let programs = programs().expect("it was looked for");
        let ttl = std::env::var("ORRERY_PATRONI_TTL").unwrap_or_else(|_| "20".into());
        let text = format!(
            r#"scope: orrery
name: n{node}
restapi: {{listen: "{host}:8008", connect_address: "{host}:8008"}}
etcd3: {{hosts: ["{subnet}.1:2379"]}}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: 3
    retry_timeout: 3
    master_start_timeout: 0
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {{wal_log_hints: "on", synchronous_commit: "on", shared_buffers: 64MB, wal_keep_size: 512MB}}
  initdb: [{{encoding: UTF8}}, data-checksums]
  pg_hba: ["local all all trust", "host all all {subnet}.0/24 trust", "host replication all {subnet}.0/24 trust"]
postgresql:
  listen: {host}:5432
  connect_address: {host}:5432
  data_dir: {folder}/data{node}
  bin_dir: {programs}
  pgpass: {folder}/pgpass{node}
  authentication:
    superuser: {{username: postgres, password: x}}
    replication: {{username: replicator, password: x}}
    rewind: {{username: rewinder, password: x}}
  parameters: {{unix_socket_directories: ""}}
"#,
            programs = programs.display()
        );
        fs::write(self.folder.join(format!("n{node}.yml")), text).unwrap();
    }

    fn spawn(&self, node: usize) -> Child {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("n{node}.log")))
            .unwrap();
        Command::new("ip")
            .args(["netns", "exec", &self.name(node), "runuser", "-u", "postgres", "--", "patroni"])
            .arg(self.folder.join(format!("n{node}.yml")))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap()
    }

    /// The address of the database, with all hosts.
    pub(super) fn address(&self) -> String {
        let hosts: Vec<String> = (0..NODES).map(|node| self.host(node)).collect();
        format!("host={} user=postgres dbname=postgres sslmode=disable", hosts.join(","))
    }

    /// What a node says of the cluster.
    fn members(&self, node: usize) -> Option<Vec<Value>> {
        let address: SocketAddr = format!("{}:8008", self.host(node)).parse().ok()?;
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        // Its answer ends with the connection.
        stream.write_all(b"GET /cluster HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let cluster = Value::parse(body.as_bytes()).ok()?;
        Some(cluster.get("members").as_array()?.to_vec())
    }

    /// The leader, by what most say.
    pub(super) fn leader(&self, among: &[usize]) -> Option<usize> {
        among.iter().find_map(|node| {
            let members = self.members(*node)?;
            let text = |member: &Value, name: &str| member.get(name).as_str().map(str::to_owned);
            let leads = members.iter().find(|member| {
                text(member, "role").as_deref() == Some("leader")
                    && text(member, "state").as_deref() == Some("running")
            })?;
            text(leads, "name")?.strip_prefix('n')?.parse().ok()
        })
    }

    fn is_whole(&self) -> bool {
        let Some(members) = self.members(0) else { return false };
        let role = |role: &str| {
            let has = |member: &&Value| member.get("role").as_str() == Some(role);
            members.iter().filter(has).count()
        };
        let is_up = |member: &Value| {
            ["running", "streaming"].contains(&member.get("state").as_str().unwrap_or_default())
                && member.get("timeline") == members[0].get("timeline")
        };
        members.len() == NODES
            && members.iter().all(is_up)
            && (role("leader"), role("sync_standby")) == (1, 1)
    }

    /// Waits until all three are there and one of them is the synchronous standby.
    pub(super) fn wait_until_whole(&self) {
        let watch = Stopwatch::start();
        while !self.is_whole() {
            if watch.elapsed() >= PATIENCE {
                let log = fs::read_to_string(self.folder.join("n0.log")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(20).collect();
                panic!(
                    "the cluster does not get whole: {:?}\n{}",
                    self.members(0),
                    tail.join("\n")
                );
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Kills the server of a node; Patroni goes on.
    pub(super) fn kill_server(&self, node: usize) {
        let file = self.folder.join(format!("data{node}")).join("postmaster.pid");
        let text = fs::read_to_string(file).unwrap();
        run("kill", &format!("-9 {}", text.lines().next().unwrap()));
    }

    /// Kills everything on a node.
    pub(super) fn kill_machine(&mut self, node: usize) {
        for pid in self.processes(node) {
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
        }
        let _ = self.nodes[node].kill();
        let _ = self.nodes[node].wait();
    }

    fn processes(&self, node: usize) -> Vec<String> {
        let listed = Command::new("ip").args(["netns", "pids", &self.name(node)]).output();
        let listed = listed.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect()
    }

    /// Starts a node whose processes were killed.
    pub(super) fn start_machine(&mut self, node: usize) {
        self.nodes[node] = self.spawn(node);
    }

    /// Cuts the wire of a node, or mends it.
    pub(super) fn set_wire(&self, node: usize, is_up: bool) {
        run("ip", &format!("link set {} {}", self.name(node), if is_up { "up" } else { "down" }));
    }
}

impl Drop for PatroniCluster {
    fn drop(&mut self) {
        for node in 0..self.nodes.len() {
            self.kill_machine(node);
        }
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
        let quiet = |arguments: &[&str]| {
            let _ = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
        };
        for node in 0..NODES {
            quiet(&["netns", "del", &self.name(node)]);
        }
        quiet(&["link", "del", &self.network]);
        if std::thread::panicking() {
            eprintln!("the logs of Patroni are in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(Path::new(&self.folder));
        }
    }
}
