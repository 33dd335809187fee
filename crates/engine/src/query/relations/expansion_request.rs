//! The relations that one query needs: those that it follows itself, and those that the request asks to
//! expand in its rows.

use std::sync::Arc;

use orrery_query::plan::access::AccessPath;
use orrery_query::plan::{Plan, PlanNode};
use orrery_query::{BoundQuery, Followed, Relations as _, Row};
use orrery_types::{Error, ExecutionBudget, Result, Value};

use crate::partition::scope::Scope;
use crate::query::access::Shards;
use crate::query::relations::{Expansion, Names, NavigationKind, Wants, no_relations};
use crate::query::{Paging, QueryReport};
use crate::{Container, Engine};

/// Relations of one query. The model's names are given in: a bound query outlives the picture of the catalog
/// that it was bound with.
pub(crate) struct ExpansionRequest {
    /// By the query and by the header.
    ways: Vec<NavigationKind>,
    wants: Option<Wants>,
    /// What is read of the items that relations lead to, where it is known to be little.
    reads: Vec<(NavigationKind, Vec<Arc<str>>)>,
}

/// What a query reads of the items that its relations lead to; nothing is known where a relation leads
/// on from those, or a whole item is wanted.
fn reads(bound: &BoundQuery, followed: &[Followed]) -> Vec<(NavigationKind, Vec<Arc<str>>)> {
    if !followed.iter().all(|f| f.from_items && f.reads_fields()) || !bound.semi_joins().is_empty()
    {
        return vec![];
    }
    followed.iter().map(|f| (NavigationKind::of(f.navigation.number), f.fields.clone())).collect()
}

impl ExpansionRequest {
    /// `None` if the query is about its own items alone.
    pub(crate) fn new(
        bound: &BoundQuery,
        names: Option<&Names<'_>>,
        paging: &Paging<'_>,
    ) -> Result<Option<Self>> {
        let Some(names) = names else {
            return paging.expand.map_or(Ok(None), |_| Err(no_relations()));
        };
        let wants =
            paging.expand.map(|text| Wants::parse(text, names, names.root())).transpose()?;
        if wants.is_some() && !bound.selects_items() {
            return Err(Error::invalid(
                "x-model-expand puts relations into whole items, and the query returns something \
                 else. Say SELECT *, or name the relations in the query.",
            ));
        }
        let followed = bound.relations();
        let mut ways: Vec<NavigationKind> =
            followed.iter().map(|f| NavigationKind::of(f.navigation.number)).collect();
        ways.extend(wants.iter().flat_map(Wants::ways));
        if ways.is_empty() {
            return Ok(None);
        }
        paging.reach.allow(names.stay_within(&ways))?;
        let reads = match wants {
            None => reads(bound, &followed),
            Some(_) => vec![],
        };
        Ok(Some(Self { ways, wants, reads }))
    }

    /// Whether a page loads few items, or is noticed when it does not: it starts at items that the
    /// query names, and follows references alone.
    pub(crate) fn stays_small(&self, plan: &Plan) -> bool {
        let is_target = |way: &NavigationKind| matches!(way, NavigationKind::Target(_));
        matches!(plan.access, AccessPath::Points { .. }) && self.ways.iter().all(is_target)
    }

    /// Opens the query's own partitions and all that its relations lead to, as of one instant.
    pub(crate) fn open<'e>(
        &self,
        names: &'e Names<'e>,
        engine: &'e Engine,
        container: &'e Container,
        scope: &Scope,
        budget: &'e ExecutionBudget<'e>,
    ) -> Result<(Shards<'e>, Option<Expansion<'e>>)> {
        let opened = Expansion::open(engine, container, scope, names, &self.ways, budget)?;
        let (source, expansion) = opened;
        expansion.need(&self.reads)?;
        Ok((source, Some(expansion)))
    }

    /// The rows with the relations expanded that the request names.
    pub(crate) fn rows(&self, expansion: &Expansion<'_>, rows: Vec<Row>) -> Result<Vec<Row>> {
        let Some(wants) = &self.wants else { return Ok(rows) };
        let items: Vec<Value> = rows.into_iter().map(Row::into_value).collect();
        Ok(expansion.expand(wants, &items)?.into_iter().map(Row::Value).collect())
    }

    /// Adds what was loaded to what the page took.
    pub(crate) fn report(&self, expansion: &Expansion<'_>, report: &mut QueryReport) {
        let (items, bytes, entries) = expansion.taken();
        report.items += items;
        report.items_bytes += bytes;
        report.entries += entries;
        if let Some(plan) = &mut report.plan {
            let access = plan.access_mut();
            let input = std::mem::take(access);
            *access = PlanNode {
                text: self.describe(expansion.names),
                estimated: None,
                actual: vec![
                    ("itemsExpanded", expansion.used() as u64),
                    ("itemsLoaded", items),
                    ("entriesRead", entries),
                ],
                inputs: vec![input],
            };
        }
    }

    fn describe(&self, names: &Names<'_>) -> String {
        let rules = &names.scope.model.rules;
        let mut shown: Vec<String> = Vec::new();
        for way in &self.ways {
            let text = match way {
                NavigationKind::Target(at) => {
                    let rule = &rules.relations[*at];
                    format!("{} to {}", rule.navigation, rule.def.to)
                }
                NavigationKind::Array(at) => {
                    format!("{} out of buckets", rules.buckets[*at].def.array)
                }
                NavigationKind::Inverse(at) => {
                    let rule = &rules.relations[*at];
                    let name = rule.def.inverse.as_ref().map_or("", |inverse| &*inverse.name);
                    format!("/{name} of {}", rule.def.from)
                }
            };
            if !shown.contains(&text) {
                shown.push(text);
            }
        }
        format!("Expand {}", shown.join(", "))
    }
}
