//! Advice on how a query is written: the rules of the original's query advisor, by number, as far as
//! they can be seen in the text.

use crate::ast::{Collection, Expr, ExprKind, Select};
use crate::bind::visit;
use crate::query::Query;

impl Query {
    /// The rules that apply, each once and in order.
    pub fn advice(&self) -> Vec<&'static str> {
        let mut rules = Vec::new();
        of_select(self.select(), &mut rules);
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

fn of_select(select: &Select, rules: &mut Vec<&'static str>) {
    if select.distinct && select.from.len() > 1 {
        rules.push("QA1001");
    }
    for key in &select.group_by {
        let scalar = matches!(&*key.kind, ExprKind::Call(..) | ExprKind::Binary(..));
        rules.extend(scalar.then_some("QA1005"));
    }
    select.for_each_expr(&mut |expr| visit(expr, &mut |e| of_expr(e, rules)));
    if let Some(filter) = &select.filter {
        visit(filter, &mut |e| of_filter(e, rules));
    }
    for source in &select.from {
        if let Collection::Subquery(inner) = &source.collection {
            of_select(inner, rules);
        }
    }
}

fn of_expr(expr: &Expr, rules: &mut Vec<&'static str>) {
    match &*expr.kind {
        ExprKind::Subquery(_, select) => of_select(select, rules),
        ExprKind::Binary(_, a, b) if [a, b].into_iter().any(|e| calls(e, &["UPPER", "LOWER"])) => {
            rules.push("QA1006");
        }
        ExprKind::Call(name, arguments) => {
            let third = arguments.get(2).is_some_and(|e| match &*e.kind {
                ExprKind::Literal(value) => value.is_true(),
                _ => false,
            });
            match name.to_ascii_uppercase().as_str() {
                "ARRAY_CONTAINS" if third => rules.push("QA1000"),
                "CONTAINS" => rules.push("QA1002"),
                "STARTSWITH" | "STRINGEQUALS" if third => rules.push("QA1003"),
                "ENDSWITH" if third => rules.push("QA1004"),
                _ => {}
            }
        }
        _ => {}
    }
}

fn of_filter(expr: &Expr, rules: &mut Vec<&'static str>) {
    for (name, rule) in [
        ("GETCURRENTDATETIME", "QA1007"),
        ("GETCURRENTTICKS", "QA1008"),
        ("GETCURRENTTIMESTAMP", "QA1009"),
    ] {
        rules.extend(calls(expr, &[name]).then_some(rule));
    }
}

fn calls(expr: &Expr, names: &[&str]) -> bool {
    match &*expr.kind {
        ExprKind::Call(name, _) => names.iter().any(|n| name.eq_ignore_ascii_case(n)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_found_where_it_applies() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(Query::parse(text).expect(text).advice(), expected, "{text}");
        };
        check("SELECT * FROM c WHERE c.a = 1", &[]);
        check("SELECT * FROM c WHERE ARRAY_CONTAINS(c.a, {'b':1}, true)", &["QA1000"]);
        check("SELECT DISTINCT t.x FROM c JOIN t IN c.t", &["QA1001"]);
        check("SELECT * FROM c WHERE Contains(c.a, 'x')", &["QA1002"]);
        check("SELECT * FROM c WHERE STARTSWITH(c.a, 'x', true)", &["QA1003"]);
        check("SELECT * FROM c WHERE ENDSWITH(c.a, 'x', true)", &["QA1004"]);
        check("SELECT LOWER(c.a) FROM c GROUP BY LOWER(c.a)", &["QA1005"]);
        check("SELECT * FROM c WHERE UPPER(c.a) = 'X'", &["QA1006"]);
        check("SELECT GetCurrentTicks() FROM c", &[]);
        check(
            "SELECT * FROM c WHERE c.t > GetCurrentTimestamp() AND EXISTS(SELECT 1 FROM t IN c.t \
             WHERE CONTAINS(t, 'x') AND t < GetCurrentDateTime())",
            &["QA1002", "QA1007", "QA1009"],
        );
    }
}
