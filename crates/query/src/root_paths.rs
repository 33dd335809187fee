//! Which properties of the item an expression looks at: what the model needs to know of copies and
//! aggregates, to see whether they depend on each other.

use crate::ast::{Expr, ExprKind, Selection};
use crate::query::Query;

impl Query {
    /// For a `SELECT VALUE` without subqueries: the names from the root to everything that is read.
    /// An empty list of names is the whole item.
    pub fn root_paths(&self) -> Vec<Vec<Box<str>>> {
        let mut paths = Vec::new();
        if let Selection::Value(value) = &self.select().selection {
            collect(value, &mut paths);
        }
        paths
    }
}

fn collect(expr: &Expr, paths: &mut Vec<Vec<Box<str>>>) {
    if let Some(path) = path(expr) {
        paths.push(path);
        return;
    }
    expr.kind.for_each_child(&mut |child| collect(child, paths));
}

/// The names of a path from the root; it ends where an index stands.
fn path(expr: &Expr) -> Option<Vec<Box<str>>> {
    match &*expr.kind {
        ExprKind::Identifier(_) => Some(vec![]),
        ExprKind::Member(of, name) => {
            let mut names = path(of)?;
            if !ends_in_element(of) {
                names.push((&**name).into());
            }
            Some(names)
        }
        ExprKind::Index(of, _) => path(of),
        _ => None,
    }
}

fn ends_in_element(expr: &Expr) -> bool {
    match &*expr.kind {
        ExprKind::Index(..) => true,
        ExprKind::Member(of, _) => ends_in_element(of),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_names_what_it_reads() {
        let check = |text: &str, expected: &[&str]| {
            let query = Query::parse(&format!("SELECT VALUE ({text}) FROM t")).expect(text);
            let paths: Vec<String> = query.root_paths().iter().map(|p| p.join("/")).collect();
            assert_eq!(paths, expected, "{text}");
        };
        check("CONCAT(t.a, ' ', t[\"b\"].c)", &["a", "b/c"]);
        check("t.images[0].thumbnail", &["images"]);
        check("t", &[""]);
        check("1 + 2", &[]);
    }
}
