//! The definition of a global secondary index: a query that only projects. `SELECT *` or a list of paths,
//! `FROM` the container under one name, and nothing else.

use std::sync::Arc;

use crate::Query;
use crate::ast::{Collection, Expr, ExprKind, Select, Selection};

/// What a query that only projects returns of each item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainProjection {
    /// The whole item.
    All,
    /// Values at paths, each from the root of the item down.
    Paths(Vec<Vec<Arc<str>>>),
}

impl PlainProjection {
    /// Reads the text of a query; the error says what it must not have.
    pub fn parse(text: &str) -> Result<Self, Box<str>> {
        let query = Query::parse(text).map_err(|error| error.to_string())?;
        let select = query.select();
        check_clauses(select)?;
        let root = root_name(select)?;
        match &select.selection {
            Selection::Star => Ok(Self::All),
            Selection::Value(_) => Err("it has VALUE; it may have * or a list of paths".into()),
            Selection::List(items) => {
                if let Some(alias) = items.iter().find_map(|item| item.alias.as_deref()) {
                    return Err(format!(
                        "it gives a path the alias '{alias}'; paths keep their names"
                    )
                    .into());
                }
                let paths = items.iter().map(|item| path_of(&item.expr, root));
                paths.collect::<Result<_, _>>().map(Self::Paths)
            }
        }
    }
}

fn check_clauses(select: &Select) -> Result<(), Box<str>> {
    let clauses = [
        ("DISTINCT", select.distinct),
        ("TOP", select.top.is_some()),
        ("WHERE", select.filter.is_some()),
        ("GROUP BY", !select.group_by.is_empty()),
        ("ORDER BY", select.order_by.is_some()),
        ("OFFSET and LIMIT", select.offset_limit.is_some()),
        ("JOIN", select.from.len() > 1),
    ];
    match clauses.into_iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(format!("it has {name}, which no definition may have").into()),
        None => Ok(()),
    }
}

/// The name that the container has in the query.
fn root_name(select: &Select) -> Result<&str, Box<str>> {
    let Some(source) = select.from.first() else { return Err("it has no FROM".into()) };
    if source.alias.is_some() || source.iterates {
        return Err("its FROM has an alias or IN; write FROM c".into());
    }
    match &source.collection {
        Collection::Expr(expr) => match &*expr.kind {
            ExprKind::Identifier(name) => Ok(name),
            _ => Err("its FROM names a path; write FROM c".into()),
        },
        Collection::Subquery(_) => Err("its FROM has a subquery; write FROM c".into()),
    }
}

/// The names of a path, which begins at the container.
fn path_of(expr: &Expr, root: &str) -> Result<Vec<Arc<str>>, Box<str>> {
    let refused = || format!("it selects {expr}; it may select paths such as {root}.name").into();
    let mut names = Vec::new();
    let mut at = expr;
    loop {
        match &*at.kind {
            ExprKind::Member(of, name) => {
                names.push(name.clone());
                at = of;
            }
            ExprKind::Identifier(name) if **name == *root && !names.is_empty() => break,
            _ => return Err(refused()),
        }
    }
    names.reverse();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_and_paths_are_read() {
        assert_eq!(PlainProjection::parse("SELECT * FROM c"), Ok(PlainProjection::All));
        let paths = |text: &str| match PlainProjection::parse(text) {
            Ok(PlainProjection::Paths(paths)) => {
                let joined = |path: &Vec<Arc<str>>| path.join("/");
                paths.iter().map(joined).collect::<Vec<_>>().join(" ")
            }
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(paths("SELECT c.a, c.b.c FROM c"), "a b/c");
        assert_eq!(paths("select s['x y'], s.id from s"), "x y id");
    }

    #[test]
    fn what_does_more_than_project_is_refused() {
        for (text, what) in [
            ("SELECT c.a FROM c WHERE c.a = 1", "WHERE"),
            ("SELECT DISTINCT c.a FROM c", "DISTINCT"),
            ("SELECT TOP 1 c.a FROM c", "TOP"),
            ("SELECT c.a FROM c GROUP BY c.a", "GROUP BY"),
            ("SELECT c.a FROM c ORDER BY c.a", "ORDER BY"),
            ("SELECT c.a FROM c OFFSET 0 LIMIT 1", "OFFSET"),
            ("SELECT c.a FROM c JOIN d IN c.list", "JOIN"),
            ("SELECT VALUE c.a FROM c", "VALUE"),
            ("SELECT c.a AS b FROM c", "alias 'b'"),
            ("SELECT c.a FROM root c", "alias"),
            ("SELECT d.a FROM d IN c.list", "IN"),
            ("SELECT c.a FROM c.b", "path"),
            ("SELECT LOWER(c.a) FROM c", "LOWER"),
            ("SELECT c.a + 1 FROM c", "selects"),
            ("SELECT c.list[0] FROM c", "selects"),
            ("SELECT c FROM c", "selects"),
            ("SELECT d.a FROM c", "selects"),
            ("SELECT 1", "FROM"),
            ("SELECT", ""),
        ] {
            let refusal = PlainProjection::parse(text).expect_err(text);
            assert!(refusal.contains(what), "{text}: {refusal}");
        }
    }
}
