//! `cargo xtask soak`: clients of every kind work on a real server that is killed, stopped and started again, and
//! every answer is compared with an oracle. The test is in `crates/cli/tests/it/soak`.

use crate::{process, project};
use anyhow::Result;
use clap::Args;
use std::process::Command;

#[derive(Args)]
pub(crate) struct Options {
    /// How long
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// The seed of all random choices, which a run prints [default: a fresh one]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut test = Command::new("cargo");
    test.args(["test", "--package", "orrery", "--test", "it", "soak::", "--", "--nocapture"]);
    test.env("ORRERY_SOAK_SECONDS", (options.minutes * 60).to_string());
    if let Some(seed) = options.seed {
        test.env("ORRERY_SEED", seed.to_string());
    }
    process::run(test.current_dir(project::root()))
}
