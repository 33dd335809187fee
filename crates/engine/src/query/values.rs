//! Queries over values that are in memory: the feeds of the catalog, and the one item of a conditional
//! patch.

use std::sync::Arc;

use orrery_query::{
    BoundQuery, ContainerFacts, EvalContext, Geospatial, ItemSource, PageLimits, Query, Row, Run,
    SeekPosition, SourceItem, execute,
};
use orrery_types::ids::Rid;
use orrery_types::{Error, Result, Value};

use super::read_feed::PageSize;
use super::{Queries, QueryRequest, continuation, query_error, resume};
use crate::Container;

impl Queries<'_> {
    /// A page of a query over values that are in memory: a feed of the catalog, in the order of their
    /// rids; and the continuation. `owner` tells whose its tokens are.
    pub fn query_values(
        self,
        values: Vec<Value>,
        request: &QueryRequest,
        size: PageSize,
        owner: &str,
        token: Option<&str>,
    ) -> Result<(Vec<Value>, Option<String>)> {
        if request.resume.is_some() {
            return Err(Error::invalid("A resumeFilter is only valid in a query over items."));
        }
        let facts = ContainerFacts::default();
        let bound = request.query.bind(&request.parameters, &facts).map_err(query_error)?;
        let mut source = ValueSource { values: values.into_iter().peekable(), given: 0 };
        let page_limits = PageLimits { rows_max: size.items, bytes_max: usize::MAX };
        let run = Run::over_keys(resume(&bound, owner, token)?);
        let budget = self.page_budget(None);
        let page = execute(&bound, &mut source, &run, page_limits, &self.context(&budget));
        let page = page.map_err(query_error)?;
        let continuation = page.continuation.map(|s| continuation::encode(owner, s.as_bytes()));
        Ok((page.rows.into_iter().map(Row::into_value).collect(), continuation))
    }
}

struct ValueSource {
    values: std::iter::Peekable<std::vec::IntoIter<Value>>,
    given: u64,
}

/// What the values come in the order of.
fn rid_of(value: &Value) -> Option<Rid> {
    value.get("_rid").as_str()?.parse().ok()
}

impl ItemSource for ValueSource {
    fn seek(&mut self, place: SeekPosition<'_>) -> Result<()> {
        let first = std::str::from_utf8(place.key()?).ok().and_then(|rid| rid.parse::<Rid>().ok());
        let first = first.ok_or_else(|| Error::invalid("Invalid Continuation Token"))?;
        while self.values.next_if(|value| rid_of(value).is_some_and(|rid| rid < first)).is_some() {}
        Ok(())
    }

    fn next_batch(&mut self, items_max: usize) -> Result<Vec<SourceItem>> {
        let batch: Vec<Value> = self.values.by_ref().take(items_max).collect();
        let first = self.given;
        self.given += batch.len() as u64;
        let item = |(row, value): (u64, Value)| {
            let key = value.get("_rid").as_str().unwrap_or_default().as_bytes().into();
            SourceItem { value, text: None, row, key }
        };
        Ok((first..).zip(batch).map(item).collect())
    }
}

/// The condition of a patch: `FROM c WHERE …` over the one item.
#[derive(Debug)]
pub(crate) struct PatchCondition {
    query: Query,
    /// Made ready for a container of the usual kind.
    bound: BoundQuery,
}

impl PatchCondition {
    pub(crate) fn parse(text: &str) -> Result<Arc<Self>> {
        let query = Query::parse_condition(text).map_err(query_error)?;
        let bound = query.bind(&[], &ContainerFacts::default()).map_err(query_error)?;
        Ok(Arc::new(Self { query, bound }))
    }

    pub(crate) fn matches(
        &self,
        item: &Value,
        container: &Container,
        context: &EvalContext<'_>,
    ) -> Result<bool> {
        let geospatial = container.definition.geospatial();
        if geospatial == Geospatial::default() {
            return self.bound.matches(item, context).map_err(query_error);
        }
        let facts = ContainerFacts { geospatial, ..ContainerFacts::default() };
        let bound = self.query.bind(&[], &facts).map_err(query_error)?;
        bound.matches(item, context).map_err(query_error)
    }
}
