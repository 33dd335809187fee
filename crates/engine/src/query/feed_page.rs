//! Pages of a read feed: all items of a scope, whole, in the order in which a query without ORDER BY
//! gives them. A page goes from range to range until it is full.

use std::sync::OnceLock;

use bytes::Bytes;
use orrery_query::{BoundQuery, ContainerFacts, PageLimits, Query, QueryError, Resume, Row, Run};
use orrery_types::{ExecutionBudget, Result, limits};

use super::access::Shards;
use super::continuation::PartitionRangeCursor;
use super::read_feed::{ItemPage, PageSize};
use super::reader::Reader;
use super::{continuation, plan, query_error};
use crate::partition::scope::Scope;
use crate::throughput::charge;
use crate::{Container, Engine};

/// An item with its system properties.
const ITEM_BYTES_MAX: usize = limits::ITEM_SIZE_BYTES_MAX + 4096;

/// The query that a read feed is.
fn all_items() -> Result<&'static BoundQuery> {
    static BOUND: OnceLock<std::result::Result<BoundQuery, QueryError>> = OnceLock::new();
    let bind = || Query::parse("SELECT * FROM c")?.bind(&[], &ContainerFacts::default());
    BOUND.get_or_init(bind).as_ref().map_err(|error| query_error(error.clone()))
}

/// What was read of one range.
struct RangePage {
    items: Vec<Bytes>,
    continuation: Option<String>,
    session_token: String,
}

/// A page of items from the beginning, or from the state that the last page left.
pub(super) fn read_item_ranges(
    engine: &Engine,
    container: &Container,
    scope: &Scope,
    size: PageSize,
    state: Option<Vec<u8>>,
    owner: &str,
    budget: &ExecutionBudget<'_>,
) -> Result<ItemPage> {
    let several = scope.partition_key.is_none() && container.partitions.len() > 1;
    let (mut cursor, mut inner) = PartitionRangeCursor::parse(container, scope, state, several)?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut session_tokens: Vec<String> = Vec::new();
    let next = loop {
        let part = cursor.as_ref().map_or(scope, |cursor| &cursor.scope);
        let room = PageLimits {
            rows_max: size.items.saturating_sub(items.len()),
            bytes_max: limits::PAGE_SIZE_BYTES_MAX.saturating_sub(bytes),
        };
        let page = read_item_range(engine, container, part, room, inner.take(), budget)?;
        bytes += page.items.iter().map(Bytes::len).sum::<usize>();
        items.extend(page.items);
        session_tokens.push(page.session_token);
        let ended = page.continuation.is_none();
        let next = match &cursor {
            None => page.continuation,
            Some(cursor) => cursor.next(container, scope, page.continuation),
        };
        // The first item of a range is read whatever its size.
        let is_full =
            items.len() >= size.items || bytes + ITEM_BYTES_MAX > limits::PAGE_SIZE_BYTES_MAX;
        if !ended || is_full {
            break next;
        }
        let Some(state) = next else { break None };
        (cursor, inner) =
            PartitionRangeCursor::parse(container, scope, Some(state.into_bytes()), several)?;
    };
    Ok(ItemPage {
        continuation: next.map(|state| continuation::encode(owner, state.as_bytes())),
        session_token: session_tokens.join(","),
        charge: charge::feed(items.iter().map(Bytes::len)),
        items,
    })
}

fn read_item_range(
    engine: &Engine,
    container: &Container,
    scope: &Scope,
    room: PageLimits,
    state: Option<String>,
    budget: &ExecutionBudget<'_>,
) -> Result<RangePage> {
    let bound = all_items()?;
    let resume = state.map(|text| Resume::parse(&text, bound)).transpose();
    let resume = resume.map_err(query_error)?;
    let shards = &Shards::open(engine, container, scope, budget)?;
    let (plan, prefetched) = plan(bound, shards, scope, resume.as_ref(), room.rows_max, true);
    let run = Run::by(&plan, resume, None);
    shards.need(bound.members(&run))?;
    let context = &engine.queries().context(budget);
    let (expansion, found) = (None, None);
    let reader = Reader { bound, run, shards, scope, plan, context, expansion, prefetched, found };
    let (page, report) = reader.read(room, false)?;
    Ok(RangePage {
        items: page.rows.into_iter().map(Row::into_text).collect(),
        continuation: page.continuation,
        session_token: report.session_token,
    })
}
