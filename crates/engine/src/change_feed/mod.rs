//! The change feed: what happened in a container, or in a part of it, in the order of commits.
//!
//! A request names a part ([`ScopeRequest`]) and a place to start; a page gives the changes after it
//! and the position behind them ([`position`]), which the client sends back. [`read`] walks the
//! entries that commits have left in each shard, [`image`] writes them as clients see them.

mod digits;
pub(crate) mod history;
mod image;
pub(crate) mod position;
mod read;

use bytes::Bytes;
use orrery_types::{Error, KeyRange, Lsn, Result};

use crate::partition::PhysicalPartition;
use crate::partition::scope::{Scope, ScopeRequest};
use crate::query::read_feed::PageSize;
use crate::throughput::charge;
use crate::{Container, Engine};
pub use image::Shape;
use position::FeedPosition;
use read::{Page, Reader};

/// Which changes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The newest version of each item that is there, once.
    Latest(Shape),
    /// Every version of every item, and every delete.
    AllVersions,
}

/// What is read, from where, and how much of it.
#[derive(Clone, Debug)]
pub struct ChangesRequest<'r> {
    /// The part of the container.
    pub scope: ScopeRequest,
    /// Which changes, and in which shape.
    pub mode: Mode,
    /// Where to start: a position of an earlier page, `*` for now; `None` for the beginning.
    pub after: Option<&'r str>,
    /// Changes after this second only.
    pub since_s: Option<u64>,
    /// How many changes. A commit is never cut in two, so there may be more.
    pub size: PageSize,
}

/// Changes, and the position behind them.
#[derive(Clone, Debug)]
pub struct ChangePage {
    /// Each as JSON text.
    pub changes: Vec<Bytes>,
    /// Where to go on, in quotes.
    pub etag: String,
    /// Whether the reader has everything there is by now.
    pub at_end: bool,
    /// What a session has seen after this page.
    pub session_token: String,
    /// The partition that was read and its LSN, if it was one.
    pub partition: Option<(u32, Lsn)>,
    /// In request units.
    pub charge: f64,
}

/// The change feed of a container, and the history of versions behind it.
#[derive(Clone, Copy)]
pub struct ChangeFeedReader<'e> {
    pub(crate) engine: &'e Engine,
}

impl ChangeFeedReader<'_> {
    /// A page of the change feed.
    pub fn read_changes(
        self,
        container: &Container,
        request: &ChangesRequest<'_>,
    ) -> Result<ChangePage> {
        self.engine
            .epochs()
            .retry_on_gone_shard(container, &mut |now| self.read_changes_in(now, request))
    }

    fn read_changes_in(
        self,
        container: &Container,
        request: &ChangesRequest<'_>,
    ) -> Result<ChangePage> {
        let scope = container.changes_scope(&request.scope)?;
        let range = scope.range.as_ref().ok_or(Error::PartitionGone)?;
        if request.mode == Mode::AllVersions {
            check_all_versions(container, request)?;
        }
        let owner = match request.mode {
            Mode::Latest(_) => format!("changes {}", container.rid()),
            Mode::AllVersions => format!("versions {}", container.rid()),
        };
        let reader = Reader { engine: self.engine, container, scope: &scope, request };
        let mut position = match request.after {
            Some("*") => position_of(container, range, |p| self.engine.sessions().shard_lsn(p))?,
            Some(etag) => FeedPosition::parse(&owner, etag, range)?,
            None => match request.since_s {
                None => FeedPosition::at(range, Lsn(0)),
                Some(since_s) => position_of(container, range, |p| reader.start_of(p, since_s))?,
            },
        };
        let mut page = Page::new(request.size);
        reader.read(range, &mut position, &mut page)?;
        let held = container.partitions.iter().filter(|p| range.intersect(&p.range).is_some());
        let tokens = page.seen.iter().map(|(id, lsn)| container.token(*id, *lsn));
        Ok(ChangePage {
            etag: position.to_etag(&owner, held.count() == 1),
            at_end: !page.cut_short,
            session_token: tokens.collect::<Vec<_>>().join(","),
            partition: if let [one] = page.seen[..] { Some(one) } else { None },
            charge: charge::feed(page.changes.iter().map(Bytes::len)),
            changes: page.changes,
        })
    }
}

/// A position with an LSN of its own in each partition of a range.
fn position_of(
    container: &Container,
    range: &KeyRange,
    lsn_of: impl Fn(&PhysicalPartition) -> Result<Lsn>,
) -> Result<FeedPosition> {
    let mut position = FeedPosition::at(range, Lsn(0));
    for partition in &container.partitions {
        if let Some(part) = range.intersect(&partition.range) {
            position.advance(&part, lsn_of(partition)?);
        }
    }
    Ok(position)
}

/// Versions are there from when the policy was switched on and as long as it keeps them: whoever
/// reads them starts now.
fn check_all_versions(container: &Container, request: &ChangesRequest<'_>) -> Result<()> {
    if container.definition.versions_kept_s().is_none() {
        return Err(Error::invalid(
            "All Versions and Deletes change feed mode must be enabled for the container: set \
             changeFeedPolicy.retentionDuration to the number of minutes for which changes are \
             kept.",
        ));
    }
    if request.after.is_none() {
        return Err(Error::invalid(
            "All Versions and Deletes change feed mode starts from now (If-None-Match: *) or from \
             a continuation, not from the beginning or a point in time.",
        ));
    }
    Ok(())
}

impl Container {
    /// Resolves the part of a feed. A position speaks for all keys that were asked for, so a
    /// partition that holds only some of them is no place to ask.
    fn changes_scope(&self, request: &ScopeRequest) -> Result<Scope> {
        let scope = self.scope(request)?;
        if let (Some(id), Some(interval)) = (&request.range_id, request.interval()?) {
            let partition = self.partition_by_id(id)?;
            if partition.range.intersect(&interval).as_ref() != Some(&interval) {
                return Err(Error::PartitionGone);
            }
        }
        Ok(scope)
    }
}
