//! `cargo xtask endure`: tests that take too long, or need too much of a machine, for `make test`.

use crate::{process, project};
use anyhow::Result;
use clap::{Args, Subcommand};
use std::process::Command;

#[derive(Subcommand)]
pub(crate) enum Endure {
    /// A node over three `PostgreSQL` under Patroni and etcd, whose leader is killed and cut off under load. Needs root, and the packages
    /// postgresql, patroni and etcd-server. The test is in `crates/cli/tests/it/patroni`.
    Patroni(Patroni),
}

#[derive(Args)]
pub(crate) struct Patroni {
    /// How often the leader is killed: its server, and in turn its whole machine
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// How often the leader is cut off from the others and from the node
    #[arg(long, default_value_t = 5)]
    cuts: usize,
    /// Seconds after which a leader that does not answer is replaced
    #[arg(long, default_value_t = 20)]
    ttl: usize,
}

pub(crate) fn run(endure: &Endure) -> Result<()> {
    let Endure::Patroni(options) = endure;
    let mut test = Command::new("cargo");
    test.args(["test", "--package", "orrery", "--test", "it", "patroni::", "--", "--nocapture"]);
    test.env("ORRERY_PATRONI_KILLS", options.kills.to_string());
    test.env("ORRERY_PATRONI_CUTS", options.cuts.to_string());
    test.env("ORRERY_PATRONI_TTL", options.ttl.to_string());
    process::run(test.current_dir(project::root()))
}
