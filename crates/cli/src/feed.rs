//! `orrery feed`: prints the changes of a container, one JSON object a line.

use std::io::{BufWriter, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::change_feed::{ChangeFeed, ChangeFeedMode, ChangeFeedScope, Positions, Start};
use crate::exit::{UNREAD, is_interrupted};
use crate::query::partition_key;
use crate::remote::RemoteArguments;
use crate::transfer::ContainerArguments;
use crate::{interrupt, table};

/// How long to wait when there is nothing new.
const IDLE: Duration = Duration::from_millis(500);

/// Arguments of `feed`.
#[derive(Debug, Args)]
pub(crate) struct FeedArguments {
    #[command(flatten)]
    container: ContainerArguments,
    #[command(flatten)]
    remote: RemoteArguments,
    /// Go on with what changes from now on, until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Where to begin [default: beginning; with --all-versions, now]
    #[arg(long, value_enum, value_name = "WHERE")]
    from: Option<Begin>,
    /// Every version and every delete, of a container whose change feed policy keeps them
    #[arg(long)]
    all_versions: bool,
    /// One logical partition only: a value, or a JSON list for a hierarchical key
    #[arg(long, short = 'k', value_name = "VALUE")]
    partition_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Begin {
    /// With the first change
    Beginning,
    /// With the next change
    Now,
}

pub(crate) fn run(arguments: &FeedArguments) -> Result<()> {
    let _cooperation = interrupt::cooperate();
    let mut remote = arguments.remote.connect()?;
    remote.abandon_on_interrupt();
    let start = match (arguments.from, arguments.all_versions) {
        (Some(Begin::Now), _) | (None, true) => Start::Now,
        (Some(Begin::Beginning), _) | (None, false) => Start::Beginning,
    };
    let mut feed = ChangeFeed {
        remote,
        path: arguments.container.path(),
        mode: if arguments.all_versions {
            ChangeFeedMode::AllVersions
        } else {
            ChangeFeedMode::Latest
        },
        start,
        scope: match &arguments.partition_key {
            Some(key) => ChangeFeedScope::Partition(partition_key(key)),
            None => ChangeFeedScope::Container,
        },
    };
    let mut printed = 0;
    match print(&mut feed, arguments.follow, &mut printed) {
        // It runs until it is interrupted.
        Err(error) if arguments.follow && is_interrupted(&error) => {
            eprintln!("{} changes; stopped.", table::count(printed));
            Ok(())
        }
        Err(error) if is_interrupted(&error) => {
            let text = format!("interrupted after {} changes", table::count(printed));
            Err(interrupt::failure(text))
        }
        done => done,
    }
}

fn print(feed: &mut ChangeFeed, follow: bool, printed: &mut u64) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout());
    let mut positions = Positions::default();
    loop {
        let mut moved = false;
        for range in feed.ranges()? {
            while let Some(changes) = feed.next(&range, &mut positions)? {
                moved = true;
                for change in changes {
                    writeln!(out, "{}", change.to_json()).context(UNREAD)?;
                    *printed += 1;
                }
                out.flush().context(UNREAD)?;
                interrupt::check()?;
            }
        }
        match (moved, follow) {
            (true, _) => {}
            (false, true) => interrupt::sleep(IDLE)?,
            (false, false) => return Ok(()),
        }
    }
}
