//! A point read with relations expanded.

use orrery_types::ids::Address;
use orrery_types::{Error, PartitionKey, Result, Value, limits};

use super::{Expansion, Names, NavigationKind, Reach, Wants};
use crate::Container;
use crate::item::read::ItemRead;
use crate::model::ModelContext;
use crate::partition::scope::ScopeRequest;
use crate::query::Queries;
use crate::throughput::charge;

impl Names<'_> {
    /// Whether all of these stay within the container of the query.
    pub(crate) fn stay_within(&self, ways: &[NavigationKind]) -> bool {
        use orrery_query::Relations as _;
        ways.iter().all(|way| self.end(*way) == self.root())
    }
}

/// The refusal of a header where there is nothing to expand.
pub(crate) fn no_relations() -> Error {
    Error::invalid(
        "x-model-expand names relations, and no model of the database says anything about this \
         container.",
    )
}

impl Queries<'_> {
    /// Reads one item and puts into it what its relations lead to, all as of one moment.
    pub fn read_item_expanded(
        self,
        container: &Container,
        partition_key: Option<&PartitionKey>,
        item: &Address,
        expand: &str,
        reach: Reach,
    ) -> Result<ItemRead> {
        use orrery_query::Relations as _;
        let database = self.engine.models().database_of(container);
        let scope = ModelContext::of(database.as_deref(), container).ok_or_else(no_relations)?;
        let names = Names::new(scope, container);
        let wants = Wants::parse(expand, &names, names.root())?;
        let ways = wants.ways();
        reach.allow(names.stay_within(&ways))?;
        let budget = self.page_budget(None);
        for _ in 0..limits::COMMIT_ATTEMPTS_MAX {
            let at = self.engine.items().locate(container, partition_key, item)?;
            let own = container.scope(&ScopeRequest {
                partition_key: Some(at.partition_key.clone()),
                ..ScopeRequest::default()
            })?;
            let (shards, expansion) =
                Expansion::open(self.engine, container, &own, &names, &ways, &budget)?;
            let read = self.engine.items().read(container, partition_key, item)?;
            let mut held = budget.reservation();
            let found = shards.by_keys(&[at.key], &mut held)?.pop().flatten();
            let etag = read.stamp.etag.to_string();
            let same = |value: &Value| value.get("_etag").as_str() == Some(etag.as_str());
            let Some(found) = found.map(|item| item.value).filter(same) else {
                // It changed in between: what was opened is of another moment.
                continue;
            };
            let expanded = expansion.expand(&wants, &[found])?.pop();
            let expanded = expanded.ok_or_else(|| Error::internal("one item was expanded"))?;
            let (loaded, bytes, _) = expansion.taken();
            let own = charge::read(read.body.len());
            let targets = charge::expanded(loaded, bytes);
            let body = expanded.to_json().into_bytes().into();
            return Ok(ItemRead { body, charge: charge::rounded(own + targets), ..read });
        }
        Err(Error::Timeout(
            "The item changes faster than it can be read with its relations.".into(),
        ))
    }
}
