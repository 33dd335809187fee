//! Pieces of rewritten queries.

use std::sync::Arc;

use orrery_types::json::write_json_string;

use crate::ast::{Expr, ExprKind, Select, Selection};
use crate::bind::visit;
use crate::functions::aggregate::AggregateFunction;

/// What a client replaces by `true` or by the filter that resumes an ordered query.
pub(super) const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// One element of the select list with the name of its property.
pub(super) struct Item<'q> {
    pub(super) name: Arc<str>,
    expr: Option<&'q Expr>,
    star: String,
}

impl Item<'_> {
    /// The aggregate, if the element is one and nothing else.
    pub(super) fn aggregate(&self) -> Option<AggregateFunction> {
        match &*self.expr?.kind {
            ExprKind::Call(name, _) => AggregateFunction::find(name),
            _ => None,
        }
    }

    /// What is aggregated.
    pub(super) fn argument(&self) -> Option<&Expr> {
        match &*self.expr?.kind {
            ExprKind::Call(_, arguments) => arguments.first(),
            _ => None,
        }
    }

    /// Whether an aggregate is only a part of it.
    pub(super) fn is_composition(&self) -> bool {
        let mut has_aggregate = false;
        if let Some(expr) = self.expr {
            visit(expr, &mut |e| {
                if let ExprKind::Call(name, _) = &*e.kind {
                    has_aggregate |= AggregateFunction::find(name).is_some();
                }
            });
        }
        has_aggregate && self.aggregate().is_none()
    }

    /// The element as it stands.
    pub(super) fn text(&self) -> String {
        self.expr.map_or_else(|| self.star.clone(), ToString::to_string)
    }

    /// What a partition sends of it: of an aggregate, enough to merge it.
    pub(super) fn partial(&self) -> String {
        let (Some(kind), Some(x)) = (self.aggregate(), self.argument()) else {
            return self.text();
        };
        match kind {
            AggregateFunction::Average => {
                format!("{{\"item\": {{\"sum\": SUM({x}), \"count\": COUNT({x})}}}}")
            }
            AggregateFunction::Min => extreme("MIN", "min", x),
            AggregateFunction::Max => extreme("MAX", "max", x),
            AggregateFunction::Count
            | AggregateFunction::CountIf
            | AggregateFunction::MakeList
            | AggregateFunction::MakeSet
            | AggregateFunction::Sum => format!("{{\"item\": {}}}", self.text()),
        }
    }
}

fn extreme(function: &str, member: &str, x: &Expr) -> String {
    format!(
        "{{\"item\": {function}({x}), \"item2\": {{\"{member}\": {function}({x}), \"count\": \
         COUNT({x})}}}}"
    )
}

/// The elements of a select list under their names, `$1` and so on where they have none.
pub(super) fn items_of<'q>(selection: &'q Selection, root: &str) -> Vec<Item<'q>> {
    let list = match selection {
        Selection::Star => {
            return vec![Item { name: root.into(), expr: None, star: root.to_owned() }];
        }
        Selection::Value(expr) => {
            return vec![Item { name: "".into(), expr: Some(expr), star: String::new() }];
        }
        Selection::List(list) => list,
    };
    let mut unnamed = 0;
    let item = |item: &'q crate::ast::SelectItem| {
        let name = item.alias.clone().or_else(|| item.expr.own_name().cloned());
        let name = name.unwrap_or_else(|| {
            unnamed += 1;
            format!("${unnamed}").into()
        });
        Item { name, expr: Some(&item.expr), star: String::new() }
    };
    list.iter().map(item).collect()
}

/// An object literal.
pub(super) fn payload<'n>(properties: impl Iterator<Item = (&'n str, String)>) -> String {
    let mut out = String::from("{");
    for (i, (name, text)) in properties.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_json_string(name, &mut out);
        out.push_str(": ");
        out.push_str(&text);
    }
    out.push('}');
    out
}

/// ` FROM …`, or nothing.
pub(super) fn from_text(select: &Select) -> String {
    let mut out = String::new();
    let _ = select.write_from(&mut out);
    out
}

/// ` WHERE …` of the query's own filter and further conditions, or nothing.
pub(super) fn where_text(select: &Select, conditions: &[String]) -> String {
    let own = select.filter.iter().map(ToString::to_string);
    let all: Vec<String> = own.chain(conditions.iter().cloned()).collect();
    match all.as_slice() {
        [] => String::new(),
        [only] => format!(" WHERE {only}"),
        many => format!(" WHERE ({})", many.join(" AND ")),
    }
}

/// The name by which the query knows its items.
pub(super) fn root_alias(select: &Select) -> String {
    let Some(source) = select.from.first() else { return "c".to_owned() };
    let own = match &source.collection {
        crate::ast::Collection::Expr(expr) => root_of(expr),
        crate::ast::Collection::Subquery(_) => None,
    };
    // Elements have no `_rid`; the item that they are of has.
    let alias = source.alias.clone().filter(|_| !source.iterates || own.is_none());
    alias.or(own).map_or_else(|| "c".to_owned(), |name| name.to_string())
}

/// The name that a path begins with.
pub(super) fn root_of(expr: &Expr) -> Option<Arc<str>> {
    match &*expr.kind {
        ExprKind::Identifier(name) => Some(name.clone()),
        ExprKind::Member(of, _) | ExprKind::Index(of, _) => root_of(of),
        _ => None,
    }
}
