//! What a query wants of relations: those that it follows itself, and those that the request wants
//! expanded in its rows.

use std::sync::Arc;

use orrery_query::plan::access::Access;
use orrery_query::plan::{Plan, PlanNode};
use orrery_query::{BoundQuery, Followed, Relations as _, Row};
use orrery_types::{Error, Result, Value};

use crate::partition::scope::Scope;
use crate::query::access::Shards;
use crate::query::relations::{Expansion, Names, Wants, Way, no_relations};
use crate::query::{Paging, Report};
use crate::{Container, Engine};

/// Relations of one query.
pub(crate) struct Expanding<'e> {
    names: &'e Names<'e>,
    /// By the query and by the header.
    ways: Vec<Way>,
    wants: Option<Wants>,
    /// What is read of the items that relations lead to, where it is known to be little.
    reads: Vec<(Way, Vec<Arc<str>>)>,
    /// Whether no more may be loaded than takes next to nothing.
    if_cheap: bool,
}

/// What a query reads of the items that its relations lead to; nothing is known where a relation leads
/// on from those, or a whole item is wanted.
fn reads(bound: &BoundQuery, followed: &[Followed]) -> Vec<(Way, Vec<Arc<str>>)> {
    if !followed.iter().all(|f| f.from_items && f.reads_fields()) || !bound.semi_joins().is_empty()
    {
        return vec![];
    }
    followed.iter().map(|f| (Way::of(f.navigation.number), f.fields.clone())).collect()
}

impl<'e> Expanding<'e> {
    /// `None` if the query is about its own items alone.
    pub(crate) fn new(
        bound: &BoundQuery,
        names: Option<&'e Names<'e>>,
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
        let mut ways: Vec<Way> = followed.iter().map(|f| Way::of(f.navigation.number)).collect();
        ways.extend(wants.iter().flat_map(Wants::ways));
        if ways.is_empty() {
            return Ok(None);
        }
        paging.reach.allow(names.stay_within(&ways))?;
        let reads = match wants {
            None => reads(bound, &followed),
            Some(_) => vec![],
        };
        Ok(Some(Self { names, ways, wants, reads, if_cheap: paging.if_cheap }))
    }

    /// Whether a page loads few items, or is noticed when it does not: it starts at items that the
    /// query names, and follows references alone.
    pub(crate) fn stays_small(&self, plan: &Plan) -> bool {
        let is_target = |way: &Way| matches!(way, Way::Target(_));
        matches!(plan.access, Access::Points { .. }) && self.ways.iter().all(is_target)
    }

    /// Opens the query's own partitions and all that its relations lead to, as of one moment.
    pub(crate) fn open(
        &self,
        engine: &'e Engine,
        container: &'e Container,
        scope: &Scope,
    ) -> Result<(Shards<'e>, Option<Expansion<'e>>)> {
        let opened = Expansion::open(engine, container, scope, self.names, &self.ways)?;
        let (source, mut expansion) = opened;
        expansion.loads_little = self.if_cheap;
        expansion.need(&self.reads)?;
        Ok((source, Some(expansion)))
    }

    /// The rows with what the request wants expanded.
    pub(crate) fn rows(&self, expansion: &Expansion<'_>, rows: Vec<Row>) -> Result<Vec<Row>> {
        let Some(wants) = &self.wants else { return Ok(rows) };
        let items: Vec<Value> = rows.into_iter().map(Row::into_value).collect();
        Ok(expansion.expand(wants, &items)?.into_iter().map(Row::Value).collect())
    }

    /// Adds what was loaded to what the page took.
    pub(crate) fn report(&self, expansion: &Expansion<'_>, report: &mut Report) {
        let (items, bytes, entries) = expansion.taken();
        report.items += items;
        report.items_bytes += bytes;
        report.entries += entries;
        if let Some(plan) = &mut report.plan {
            let access = plan.access_mut();
            let input = std::mem::take(access);
            *access = PlanNode {
                text: self.describe(),
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

    fn describe(&self) -> String {
        let rules = &self.names.scope.model.rules;
        let mut shown: Vec<String> = Vec::new();
        for way in &self.ways {
            let text = match way {
                Way::Target(at) => {
                    let rule = &rules.relations[*at];
                    format!("{} to {}", rule.navigation, rule.def.to)
                }
                Way::Array(at) => format!("{} out of buckets", rules.buckets[*at].def.array),
                Way::Inverse(at) => {
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
