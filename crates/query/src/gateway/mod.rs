//! The query plan that SDKs ask for: what they must merge, and the query to send to each
//! partition instead of the original. `features` says what merging takes, `parts` writes the pieces of
//! the rewritten texts, `hybrid` the plan of ORDER BY RANK. The texts are those that the service's planner is known to make;
//! this crate parses and runs them like any other query.

mod features;
mod hybrid;
mod keys;
mod parts;
mod ranges;
mod signatures;
mod types;
mod value_set;

use orrery_types::{KeyRange, Object, PartitionKey, PartitionKeyDef, Value};

use crate::ast::{Collection, Direction, ExprKind, OrderBy, Select, Selection};
use crate::bind::selects_aggregate;
use crate::bound::Order;
use crate::error::QueryError;
use crate::facts::ContainerFacts;
use crate::functions::aggregate::AggregateFunction;
use crate::query::{BoundQuery, Query};
use parts::{FILTER, Item, from_text, items_of, payload, where_text};
use ranges::PlanRange;

/// What a plan is made for.
#[derive(Clone, Copy, Debug)]
pub struct PlanTarget<'a> {
    /// How the container divides its items.
    pub definition: &'a PartitionKeyDef,
    /// The partition key that the request names.
    pub key: Option<&'a PartitionKey>,
    /// The part of the container that the request names.
    pub range: Option<&'a KeyRange>,
    /// Whether the client merges the component queries of a hybrid search without `orderByItems`.
    pub skip_order_by_rewrite: bool,
}

/// The plan as JSON text. Fails where the query cannot be merged by a client. Indexes, functions of the
/// user and parameters without value are looked at when the query runs.
pub fn query_plan(
    query: &Query,
    parameters: &[(String, Value)],
    facts: &ContainerFacts<'_>,
    target: &PlanTarget<'_>,
) -> Result<String, QueryError> {
    let facts = ContainerFacts { has_udf: None, order: None, planning: true, ..*facts };
    let bound = query.bind(parameters, &facts)?;
    let reach = ranges::reach(query.select(), &bound, target);
    let mut plan = Object::new();
    plan.set("partitionedQueryExecutionInfoVersion", 2.into());
    let select = query.select();
    if reach.is_nothing && !select.distinct && distinct_count(select).is_none() {
        let select_value = matches!(select.selection, Selection::Value(_));
        plan.set("queryInfo", QueryInfo { select_value, ..QueryInfo::default() }.into_value());
    } else if let Order::Rank(rank) = &bound.bound.select.order {
        let skips = target.skip_order_by_rewrite;
        let info = hybrid::info(query.select(), &bound, rank, skips)?;
        plan.set("hybridSearchQueryInfo", info);
    } else {
        let planner =
            Planner { select: query.select(), bound: &bound, is_one_key: reach.is_one_key };
        plan.set("queryInfo", planner.info()?.into_value());
    }
    plan.set("queryRanges", Value::array(reach.ranges.iter().map(PlanRange::to_value).collect()));
    Ok(Value::object(plan).to_json())
}

/// The member `queryInfo`.
#[derive(Default)]
struct QueryInfo {
    distinct: Option<&'static str>,
    top: Option<u64>,
    offset: Option<u64>,
    limit: Option<u64>,
    order_by: Vec<Value>,
    order_by_expressions: Vec<Value>,
    group_by_expressions: Vec<Value>,
    group_by_aliases: Vec<Value>,
    aggregates: Vec<Value>,
    alias_types: Object,
    rewritten: String,
    select_value: bool,
    distinct_count_alias: Option<String>,
    non_streaming: bool,
}

impl QueryInfo {
    fn into_value(self) -> Value {
        let count = |n: Option<u64>| match n.and_then(|n| i64::try_from(n).ok()) {
            Some(n) => Value::from(n),
            None => Value::Null,
        };
        let distinct_count = match self.distinct_count_alias {
            None => Value::Null,
            Some(alias) => {
                let mut info = Object::new();
                info.set("dCountAlias", alias.into());
                Value::object(info)
            }
        };
        let mut info = Object::new();
        info.set("distinctType", self.distinct.unwrap_or("None").into());
        info.set("top", count(self.top));
        info.set("offset", count(self.offset));
        info.set("limit", count(self.limit));
        info.set("orderBy", Value::array(self.order_by));
        info.set("orderByExpressions", Value::array(self.order_by_expressions));
        info.set("groupByExpressions", Value::array(self.group_by_expressions));
        info.set("groupByAliases", Value::array(self.group_by_aliases));
        info.set("aggregates", Value::array(self.aggregates));
        info.set("groupByAliasToAggregateType", Value::object(self.alias_types));
        info.set("rewrittenQuery", self.rewritten.into());
        info.set("hasSelectValue", self.select_value.into());
        info.set("dCountInfo", distinct_count);
        info.set("hasNonStreamingOrderBy", self.non_streaming.into());
        Value::object(info)
    }
}

struct Planner<'q> {
    select: &'q Select,
    bound: &'q BoundQuery,
    /// Whether one logical partition answers, and so OFFSET and LIMIT itself.
    is_one_key: bool,
}

impl Planner<'_> {
    fn info(&self) -> Result<QueryInfo, QueryError> {
        let select = self.select;
        let bound = &self.bound.bound.select;
        let mut info = QueryInfo {
            top: bound.top,
            offset: bound.limit.map(|_| bound.offset),
            limit: bound.limit,
            select_value: matches!(select.selection, Selection::Value(_)),
            ..QueryInfo::default()
        };
        if let Some((inner, alias)) = distinct_count(select) {
            info.distinct = Some("Unordered");
            info.distinct_count_alias = Some(alias);
            info.rewritten = inner.to_string();
            return Ok(info);
        }
        let aggregates = selects_aggregate(&select.selection);
        if aggregates || (!select.group_by.is_empty() && select.order_by.is_none()) {
            self.grouped(&mut info)?;
        } else if let Some(OrderBy::Keys(_)) = &select.order_by {
            self.ordered(&mut info);
        } else if select.distinct {
            info.distinct = Some("Unordered");
            if select.top.is_some() || select.offset_limit.is_some() {
                let plain = Select { top: None, offset_limit: None, ..select.clone() };
                info.rewritten = plain.to_string();
            }
        } else if bound.limit.is_some() {
            self.offset_only(&mut info);
        }
        Ok(info)
    }

    /// One logical partition answers OFFSET and LIMIT itself.
    fn offset_only(&self, info: &mut QueryInfo) {
        if self.is_one_key {
            info.offset = None;
            info.limit = None;
            return;
        }
        let plain = Select { offset_limit: None, ..self.select.clone() };
        info.rewritten = format!("{plain}{}", self.offset_text());
    }

    /// Each partition must offer every row that may end up behind the offset.
    fn offset_text(&self) -> String {
        let bound = &self.bound.bound.select;
        bound.limit.map_or_else(String::new, |limit| {
            format!(" OFFSET 0 LIMIT {}", bound.offset.saturating_add(limit))
        })
    }

    fn grouped(&self, info: &mut QueryInfo) -> Result<(), QueryError> {
        let select = self.select;
        let items = items_of(&select.selection, &self.root_alias());
        if items.iter().any(Item::is_composition) {
            return Err(QueryError::runtime(
                "Compositions of aggregates and other expressions are not allowed.",
            ));
        }
        if select.distinct {
            info.distinct = Some("Unordered");
        }
        let payload = match (&select.selection, items.as_slice()) {
            (Selection::Value(_), [item]) => {
                info.aggregates.extend(item.aggregate().map(|kind| kind.plan_name().into()));
                match item.aggregate() {
                    Some(_) => format!("[{}]", item.partial()),
                    None => item.partial(),
                }
            }
            (_, items) => {
                for item in items {
                    info.group_by_aliases.push((&*item.name).into());
                    let kind = item.aggregate().map(AggregateFunction::plan_name);
                    info.alias_types.set(&item.name, kind.map_or(Value::Null, Value::from));
                }
                payload(items.iter().map(|item| (&*item.name, item.partial())))
            }
        };
        let tail = format!("{}{}", from_text(select), where_text(select, &[]));
        let order = match &select.order_by {
            Some(order) => format!(" ORDER BY {order}"),
            None => String::new(),
        };
        if let Some(OrderBy::Keys(keys)) = &select.order_by {
            info.non_streaming = keys.iter().any(|key| parts::root_of(&key.expr).is_none());
        }
        let distinct = if select.distinct { "DISTINCT " } else { "" };
        if !select.group_by.is_empty() {
            let (items, keys) = self.group_texts(info);
            info.rewritten = format!(
                "SELECT {distinct}{items} AS groupByItems, {payload} AS payload{tail} GROUP BY \
                 {keys}{order}"
            );
        } else if matches!(select.selection, Selection::Value(_)) {
            info.rewritten = format!("SELECT {distinct}VALUE {payload}{tail}{order}");
        } else {
            let top = select.top.as_ref().filter(|_| !select.distinct);
            let top = top.map_or_else(String::new, |top| format!("TOP {top} "));
            let offset = if select.distinct { String::new() } else { self.offset_text() };
            info.rewritten =
                format!("SELECT {distinct}{top}{payload} AS payload{tail}{order}{offset}");
        }
        Ok(())
    }

    /// The keys of the groups as items and as expressions.
    fn group_texts(&self, info: &mut QueryInfo) -> (String, String) {
        let keys: Vec<String> = self.select.group_by.iter().map(ToString::to_string).collect();
        let items: Vec<String> = keys.iter().map(|key| format!("{{\"item\": {key}}}")).collect();
        let texts = (format!("[{}]", items.join(", ")), keys.join(", "));
        info.group_by_expressions = keys.into_iter().map(Value::from).collect();
        texts
    }

    fn ordered(&self, info: &mut QueryInfo) {
        let select = self.select;
        let (Some(OrderBy::Keys(keys)), Order::Keys(bound)) =
            (&select.order_by, &self.bound.bound.select.order)
        else {
            return;
        };
        for (key, (node, direction)) in keys.iter().zip(bound) {
            info.order_by_expressions.push(key.expr.to_string().into());
            info.order_by.push(match direction {
                Direction::Ascending => "Ascending".into(),
                Direction::Descending => "Descending".into(),
            });
            info.non_streaming |= matches!(node, crate::bound::Node::Vector(..));
        }
        if select.distinct {
            let covered = self.order_covers_projection();
            info.distinct = Some(if covered { "Ordered" } else { "Unordered" });
        }
        let root = self.root_alias();
        let mut conditions = vec![format!("({FILTER})")];
        let mut row = match &select.selection {
            Selection::Star => root.clone(),
            Selection::Value(expr) => {
                if select.group_by.is_empty() {
                    conditions.push(format!("IS_DEFINED({expr})"));
                }
                expr.to_string()
            }
            Selection::List(_) => payload(
                items_of(&select.selection, &root).iter().map(|item| (&*item.name, item.text())),
            ),
        };
        let mut groups = String::new();
        if !select.group_by.is_empty() {
            let (items, keys) = self.group_texts(info);
            row = format!("{{\"groupByItems\": {items}, \"payload\": {row}}}");
            groups = format!(" GROUP BY {keys}");
            if let Selection::List(_) = &select.selection {
                for item in items_of(&select.selection, &root) {
                    info.group_by_aliases.push((&*item.name).into());
                    info.alias_types.set(&item.name, Value::Null);
                }
            }
        }
        let single = self.is_one_key && !select.distinct && !info.non_streaming;
        let top = select.top.as_ref().filter(|_| !select.distinct);
        let top = top.map_or_else(String::new, |top| format!("TOP {top} "));
        let offset = match &select.offset_limit {
            Some((offset, limit)) if single => {
                info.offset = None;
                info.limit = None;
                format!(" OFFSET {offset} LIMIT {limit}")
            }
            Some(_) if !select.distinct => self.offset_text(),
            _ => String::new(),
        };
        let items: Vec<String> =
            keys.iter().map(|key| format!("{{\"item\": {}}}", key.expr)).collect();
        let order = OrderBy::Keys(keys.clone());
        info.rewritten = format!(
            "SELECT {top}{root}._rid, [{}] AS orderByItems, {row} AS payload{}{}{groups} ORDER BY \
             {order}{offset}",
            items.join(", "),
            from_text(select),
            where_text(select, &conditions),
        );
    }

    /// Equal rows stand together when they are the one key of ORDER BY.
    fn order_covers_projection(&self) -> bool {
        match (&self.select.order_by, &self.select.selection) {
            (Some(OrderBy::Keys(keys)), Selection::Value(expr)) => {
                matches!(keys.as_slice(), [key] if key.expr == *expr)
            }
            _ => false,
        }
    }

    fn root_alias(&self) -> String {
        parts::root_alias(self.select)
    }
}

/// `SELECT COUNT(1) FROM (SELECT DISTINCT …)`: the inner query and the name of the count, which is
/// empty for VALUE.
fn distinct_count(select: &Select) -> Option<(&Select, String)> {
    let Select { from, filter: None, group_by, order_by: None, distinct: false, .. } = select
    else {
        return None;
    };
    let [source] = from.as_slice() else { return None };
    let Collection::Subquery(inner) = &source.collection else { return None };
    let plain = group_by.is_empty() && !source.iterates && inner.distinct;
    if !plain || !inner.group_by.is_empty() || selects_aggregate(&inner.selection) {
        return None;
    }
    let items = items_of(&select.selection, "");
    let [item] = items.as_slice() else { return None };
    let counts_rows = item.aggregate() == Some(AggregateFunction::Count)
        && matches!(item.argument().map(|e| &*e.kind), Some(ExprKind::Literal(v)) if !v.is_undefined());
    let named = !matches!(select.selection, Selection::Value(_));
    let alias = if named { item.name.to_string() } else { String::new() };
    counts_rows.then_some((&**inner, alias))
}

#[cfg(test)]
mod tests;
