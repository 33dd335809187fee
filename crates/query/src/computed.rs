//! Computed properties: a name and a `SELECT VALUE … FROM c` over one item. The engine checks a
//! container's definitions here before it stores them.

use std::collections::HashSet;

use orrery_types::limits;

use crate::ast::{Expr, ExprKind, Select, Selection};
use crate::bind;
use crate::bind::visit;
use crate::error::QueryError;
use crate::facts::ContainerFacts;
use crate::functions::{self, Dependence};
use crate::parser;

/// A valid computed property.
#[derive(Clone, Debug)]
pub struct ComputedProperty {
    name: Box<str>,
    text: Box<str>,
    select: Select,
}

/// Names that the service keeps for itself.
const SYSTEM_NAMES: [&str; 7] = ["id", "_rid", "_self", "_etag", "_ts", "_attachments", "ttl"];

impl ComputedProperty {
    /// Checks all definitions of a container together.
    pub fn parse_all(definitions: &[(String, String)]) -> Result<Vec<Self>, QueryError> {
        if definitions.len() > limits::COMPUTED_PROPERTIES_MAX {
            return Err(QueryError::runtime(format!(
                "The number of computed properties exceeds the maximum of {}.",
                limits::COMPUTED_PROPERTIES_MAX
            )));
        }
        let mut names = HashSet::new();
        let mut parsed = Vec::with_capacity(definitions.len());
        for (index, (name, query)) in definitions.iter().enumerate() {
            parsed.push(Self::parse(name, query, index)?);
            if !names.insert(name) {
                return Err(QueryError::runtime(format!(
                    "Computed property name '{name}' cannot be used in multiple definitions."
                )));
            }
        }
        Ok(parsed)
    }

    /// Checks one definition; `index` is its place in the container's list, for messages.
    pub fn parse(name: &str, query: &str, index: usize) -> Result<Self, QueryError> {
        let fail = |message: String| Err(QueryError::runtime(message));
        if name.is_empty() {
            return fail("Computed property 'name' is either empty or unspecified.".into());
        }
        if query.is_empty() {
            return fail("Computed property 'query' is either empty or unspecified.".into());
        }
        if SYSTEM_NAMES.contains(&name) {
            return fail(format!(
                "The system property name '{name}' cannot be used as a computed property name."
            ));
        }
        let malformed = |details: &str| {
            QueryError::runtime(format!(
                "Computed property at index ({index}) has a malformed query: '{query}' Error \
                 details: '{details}'"
            ))
        };
        let select = parser::parse_query(query).map_err(|e| malformed(&e.to_string()))?;
        let Selection::Value(value) = &select.selection else {
            return fail(format!(
                "Required VALUE expression missing from computed property query '{query}' at index \
                 ({index})."
            ));
        };
        refused_clause(&select).or_else(|| refused_part(value)).map_or(Ok(()), |what| {
            Err(malformed(&format!("A computed property query must not contain {what}.")))
        })?;
        bind::bind(query, &select, &[], &ContainerFacts::default())
            .map_err(|e| malformed(&e.to_string()))?;
        Ok(Self { name: name.into(), text: query.into(), select })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of its query.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn select(&self) -> &Select {
        &self.select
    }
}

fn refused_clause(select: &Select) -> Option<&'static str> {
    use crate::ast::Collection;
    let plain_root = match select.from.as_slice() {
        [source] => {
            !source.iterates
                && matches!(&source.collection, Collection::Expr(e)
                    if matches!(*e.kind, ExprKind::Identifier(_)))
        }
        _ => false,
    };
    match () {
        () if !plain_root => Some("any source but the container itself"),
        () if select.filter.is_some() => Some("a WHERE clause"),
        () if !select.group_by.is_empty() => Some("a GROUP BY clause"),
        () if select.order_by.is_some() => Some("an ORDER BY clause"),
        () if select.top.is_some() => Some("a TOP clause"),
        () if select.distinct => Some("DISTINCT"),
        () if select.offset_limit.is_some() => Some("an OFFSET LIMIT clause"),
        () => None,
    }
}

fn refused_part(value: &Expr) -> Option<&'static str> {
    let mut refused = None;
    visit(value, &mut |e| match &*e.kind {
        ExprKind::Subquery(..) => refused = Some("a subquery"),
        ExprKind::Udf(..) => refused = Some("a user-defined function"),
        ExprKind::Parameter(_) => refused = Some("a parameter"),
        ExprKind::Call(name, _) => {
            if name.to_ascii_uppercase().starts_with("ST_") {
                refused = Some("a spatial function");
            }
            match functions::find(name).map(|f| f.dependence) {
                Some(Dependence::Moment) => refused = Some("a nondeterministic function"),
                Some(Dependence::Place) => refused = Some("an aggregate or scoring function"),
                Some(Dependence::Arguments) | None => {}
            }
        }
        _ => {}
    });
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, query: &str, says: &str) {
        let error = ComputedProperty::parse(name, query, 0).expect_err(query).to_string();
        assert!(error.contains(says), "{query}: {error}");
    }

    #[test]
    fn definitions_are_checked_with_the_messages_of_the_service() {
        assert!(ComputedProperty::parse("x", "SELECT VALUE LOWER(c.n) FROM c", 0).is_ok());
        check("", "SELECT VALUE 1 FROM c", "'name' is either empty or unspecified.");
        check("x", "", "'query' is either empty or unspecified.");
        check("id", "SELECT VALUE 1 FROM c", "The system property name 'id' cannot be used");
        check("x", "SELECT c.a FROM c", "Required VALUE expression missing");
        check("x", "SELEC", "at index (0) has a malformed query: 'SELEC' Error details:");
        check("x", "SELECT VALUE c.a FROM c WHERE c.b", "a WHERE clause");
        check("x", "SELECT VALUE c.a FROM c JOIN t IN c.t", "malformed");
        check("x", "SELECT VALUE COUNT(1) FROM c", "malformed");
        check("x", "SELECT VALUE EXISTS(SELECT 1) FROM c", "a subquery");
        check("x", "SELECT VALUE RAND() FROM c", "nondeterministic");
        check("x", "SELECT VALUE udf.f(c) FROM c", "user-defined");
        check("x", "SELECT VALUE d.a FROM c", "could not be resolved");
        let twice = ["a", "a"].map(|n| (n.to_owned(), "SELECT VALUE 1 FROM c".to_owned()));
        let error = ComputedProperty::parse_all(&twice).unwrap_err().to_string();
        assert_eq!(error, "Computed property name 'a' cannot be used in multiple definitions.");
    }
}
