//! The statements of commits alone: creates as the engine commits them, sent in groups over one connection, in a schema
//! of their own. Making a commit is no part of the time.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use orrery_postgres::{BareCommitter, PostgresOptions, PostgresStore};
use orrery_storage::Store as _;

use crate::raw::{EPOCH, Raw, SHARD};
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;

const SCHEMA: &str = "statements";

pub(super) struct Statements {
    /// Makes the commits, and knows the numbers of paths.
    raw: Raw,
    committer: BareCommitter,
    next: u64,
}

/// Options for a schema.
pub(super) fn schema(name: &str) -> PostgresOptions {
    PostgresOptions { schema: name.to_owned(), ..PostgresOptions::default() }
}

impl Statements {
    /// Makes a schema with one shard, and so many items in it.
    pub(super) fn open(address: &str, folder: &Path, items: u64) -> Result<Self> {
        let options = schema(SCHEMA);
        orrery_postgres::init(address, &options)?;
        let store = PostgresStore::open(address, &options)?;
        store.create_open_shard(SHARD, EPOCH).map_err(|error| anyhow!("no shard: {error}"))?;
        drop(store);
        let raw = Raw::open(&folder.join("raw"))?;
        let committer = BareCommitter::connect(address, &options)?;
        let mut statements = Self { raw, committer, next: 0 };
        while statements.next < items {
            statements.commit(32)?;
        }
        Ok(statements)
    }

    /// Commits groups of this size for so long; the time is that of the statements.
    pub(super) fn run(&mut self, group: u64, time: Duration) -> Result<Sample> {
        let watch = Stopwatch::start();
        let (mut latencies_ns, mut took) = (Sample::histogram(), Duration::ZERO);
        while watch.elapsed() < time {
            let one = self.commit(group)?;
            latencies_ns.record_n(u64::try_from(one.as_nanos())?, group)?;
            took += one;
        }
        Ok(Sample { latencies_ns, took, processor: None })
    }

    fn commit(&mut self, group: u64) -> Result<Duration> {
        let numbers = self.next..self.next + group;
        self.next = numbers.end;
        let commits = numbers.map(|number| self.raw.create(number)).collect::<Result<Vec<_>>>()?;
        let watch = Stopwatch::start();
        let committed = self.committer.commit(&commits);
        let took = watch.elapsed();
        let committed = committed.map_err(|error| anyhow!("{error}")).context("a group failed")?;
        ensure!(committed == commits.len(), "{committed} of {group} creates were committed");
        Ok(took)
    }
}
