//! `PostgreSQL` with the same items: a table of `jsonb` with a GIN index on it, which is what people
//! use there for documents; a server of its own, on a port and in a folder of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postgres::types::ToSql;
use postgres::{Client, NoTls};

use super::cases::{Case, Found};
use super::goods;
use crate::process;

/// A running server; dropping it stops it.
pub(crate) struct Postgres {
    programs: PathBuf,
    data: PathBuf,
    client: Client,
    address: String,
}

/// Enough to keep a million items and their index in memory, as the operating system does for the
/// other side, and connections for several nodes of ours; everything else is as installed.
const SETTINGS: &str = "-c shared_buffers=2GB -c max_wal_size=4GB -c max_connections=200 \
    -c listen_addresses=127.0.0.1";
/// `PostgreSQL` refuses to run as root.
const USER: &str = "postgres";

impl Postgres {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        Self::start_with_tables(folder, &[("items", "on")])
    }

    /// Starts one with some tables; of each the name, and whether its GIN index collects entries that
    /// it inserts later (`fastupdate`).
    pub(crate) fn start_with_tables(folder: &Path, tables: &[(&str, &str)]) -> Result<Self> {
        let programs = programs()?;
        let data = folder.join("postgres");
        std::fs::create_dir(&data)?;
        if is_root() {
            run(Command::new("chown").arg(USER).arg(&data))?;
            run(Command::new("chmod").arg("a+rx").arg(folder))?;
        }
        run(as_user(&programs.join("initdb")).args(["-A", "trust", "-U", USER, "-D"]).arg(&data))?;
        let (mut client, address) = serve(&programs, &data)?;
        for (table, fast_update) in tables {
            client.batch_execute(&format!(
                "CREATE TABLE {table} (id text PRIMARY KEY, pk text NOT NULL, doc jsonb NOT NULL);
                 CREATE INDEX {table}_pk ON {table} (pk);
                 CREATE INDEX {table}_doc ON {table} USING gin (doc jsonb_path_ops)
                   WITH (fastupdate = {fast_update});",
            ))?;
        }
        Ok(Self { programs, data, client, address })
    }

    /// Stops and starts it anew, so that nothing is in its own memory.
    pub(super) fn restart(mut self) -> Result<Self> {
        self.stop("fast")?;
        (self.client, self.address) = serve(&self.programs, &self.data)?;
        Ok(self)
    }

    /// How a client connects.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn version(&self) -> Result<String> {
        let output = Command::new(self.programs.join("postgres")).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Processor time so far, of the server and all its processes, those that have ended included.
    pub(crate) fn processor(&self) -> Result<Duration> {
        let text = std::fs::read_to_string(self.data.join("postmaster.pid"))?;
        let id = text.lines().next().context("the server has no number")?;
        process::family_processor(id.trim().parse()?)
    }

    fn stop(&self, how: &str) -> Result<()> {
        let mut stop = as_user(&self.programs.join("pg_ctl"));
        run(stop.arg("-D").arg(&self.data).args(["-w", "-m", how, "stop"]))
    }

    pub(super) fn load(&mut self, numbers: std::ops::Range<u64>) -> Result<()> {
        use std::io::Write as _;
        let mut writer = self.client.copy_in("COPY items (id, pk, doc) FROM STDIN")?;
        for number in numbers {
            // The text has no tab, no line feed and no backslash.
            let (pk, text) = (goods::partition(number), goods::text(number));
            writeln!(writer, "item-{number:09}\t{pk}\t{text}")?;
        }
        writer.finish()?;
        // What was loaded waits in the index's list of pending entries, and there are no statistics.
        self.client.batch_execute("VACUUM ANALYZE items")?;
        Ok(())
    }

    pub(super) fn ask(&mut self, case: Case, number: u64) -> Result<Found> {
        let parameters = case.parameters(number);
        let parameters: Vec<&(dyn ToSql + Sync)> =
            parameters.iter().map(|text| text as &(dyn ToSql + Sync)).collect();
        let rows = self.client.query(case.statement(), &parameters)?;
        if !case.is_value() {
            return Ok(Found::Rows(rows.len()));
        }
        let row = rows.first().context("no row")?;
        Ok(Found::Value(row.try_get::<_, f64>(0)?))
    }

    /// Bytes of the table with its indexes.
    pub(super) fn size_bytes(&mut self) -> Result<u64> {
        let row = self.client.query_one("SELECT pg_total_relation_size('items')", &[])?;
        Ok(u64::try_from(row.get::<_, i64>(0))?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // If it does not stop, there is nothing more to be done about it here.
        let _ = self.stop("immediate");
    }
}

/// Starts a server on a folder, and talks to it.
fn serve(programs: &Path, data: &Path) -> Result<(Client, String)> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let settings = format!("{SETTINGS} -p {port} -k {}", data.display());
    let log = data.join("log");
    let mut start = as_user(&programs.join("pg_ctl"));
    run(start.arg("-D").arg(data).arg("-l").arg(&log).args(["-w", "-o", &settings, "start"]))?;
    let address = format!("host=127.0.0.1 port={port} user={USER} dbname=postgres");
    Ok((Client::connect(&address, NoTls)?, address))
}

/// Where the server's programs are: Debian keeps them off the path, one folder for each version.
fn programs() -> Result<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    let found = versions.into_iter().rev().find(|bin| bin.join("initdb").exists());
    found.context("PostgreSQL is not installed; on Debian: apt-get install postgresql")
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", USER, "--"]).arg(program);
    command
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
