//! The clauses of a query.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Alias, Binder, Columns, GroupScope, ITEM_SLOT, Position, Root, Scope};
use crate::ast::{
    Collection, Count, CountValue, Direction, Expr, ExprKind, OrderBy, Select, Selection, Source,
    Span, SubqueryKind,
};
use crate::bound::{BoundSelect, BoundSource, Grouping, Node, Order, Origin, Projection, Step};
use crate::error::QueryError;
use crate::functions::aggregate::AggregateFunction;

impl<'a> Binder<'a> {
    pub(super) fn select(
        &mut self,
        select: &'a Select,
        position: Position,
    ) -> Result<BoundSelect, QueryError> {
        if position != Position::Main {
            self.refuse_main_clauses(select)?;
        }
        self.scopes.push(Scope::default());
        let mut sources = Vec::with_capacity(select.from.len());
        let mut reads_items = false;
        for (i, source) in select.from.iter().enumerate() {
            let first = i == 0 && position != Position::Nested;
            let (bound, reads) = self.source(source, i, first)?;
            sources.push(bound);
            reads_items |= reads;
        }
        let filter = select.filter.as_ref().map(|e| self.expr(e)).transpose()?;
        for key in &select.group_by {
            check_group_key(self, key)?;
        }
        let (mut order, projection, grouping) = order_and_projection(self, select, &sources)?;
        if let (Some(grouping), Order::Keys(keys)) = (&grouping, &mut order) {
            by_groups(select, grouping, keys);
        }
        let top = self.count(select.top.as_ref(), "SC2060")?;
        let (offset, limit) = match &select.offset_limit {
            None => (None, None),
            Some((offset, limit)) => {
                (self.count(Some(offset), "SC2062")?, self.count(Some(limit), "SC2061")?)
            }
        };
        self.scopes.pop();
        Ok(BoundSelect {
            sources,
            filter,
            grouping,
            order,
            projection,
            distinct: select.distinct,
            top,
            offset: offset.unwrap_or(0),
            limit,
            reads_items,
        })
    }

    fn refuse_main_clauses(&self, select: &Select) -> Result<(), QueryError> {
        let clauses = &select.clauses;
        let (span, code, what) = match select {
            Select { order_by: Some(OrderBy::Rank(_)), .. } => {
                let what = "The ORDER BY RANK clause is not supported in subqueries.";
                (clauses.order_by, "SC2228", what)
            }
            Select { order_by: Some(_), .. } => {
                (clauses.order_by, "SC2202", "'ORDER BY' is not supported in subqueries.")
            }
            Select { top: Some(_), .. } => {
                (clauses.top, "SC2203", "'TOP' is not supported in subqueries.")
            }
            Select { offset_limit: Some(_), .. } => {
                let what = "'OFFSET LIMIT' clause is not supported in subqueries.";
                (clauses.offset_limit, "SC2204", what)
            }
            _ => return Ok(()),
        };
        Err(self.error(span, code, what))
    }

    /// Binds one source and brings its alias into scope for the next ones. Answers also whether
    /// it draws on the items.
    fn source(
        &mut self,
        source: &'a Source,
        number: usize,
        first: bool,
    ) -> Result<(BoundSource, bool), QueryError> {
        self.joins += usize::from(number > 0);
        let outer_root = std::mem::replace(&mut self.root, Root::None);
        let (origin, path, reads_items) = match &source.collection {
            Collection::Subquery(select) => {
                let position = if first { Position::First } else { Position::Nested };
                let rows = self.select(select, position)?;
                let reads_items = rows.reads_items;
                (Origin::Rows(Box::new(rows)), None, reads_items)
            }
            Collection::Expr(expr) => {
                self.root = if first { Root::Any } else { Root::None };
                let node = self.expr(expr)?;
                let path = self.item_path(&node);
                let reads_items = matches!(self.root, Root::Named(_));
                (Origin::Value(node), path, reads_items)
            }
        };
        self.root = outer_root;
        let name = source.alias.clone().or_else(|| match &source.collection {
            Collection::Expr(expr) => expr.own_name().cloned(),
            Collection::Subquery(_) => None,
        });
        // The whole item keeps its own slot, so that paths from it are recognised as such.
        let whole = !source.iterates && path.as_ref().is_some_and(Vec::is_empty);
        let slot = if whole { ITEM_SLOT } else { self.new_slot() };
        let path = if source.iterates { None } else { path };
        self.stand(slot, &origin, source.iterates);
        let columns = match &origin {
            Origin::Rows(rows) => Some(self.columns(rows)),
            Origin::Value(_) => (source.iterates && first).then_some(Columns::Any),
        };
        self.name_root(source, first);
        if let Some(name) = name {
            let correlated = source.iterates || number > 0;
            self.declare(name, source, Alias { slot, path, correlated, columns })?;
        }
        Ok((BoundSource { slot, origin, iterates: source.iterates }, reads_items))
    }

    /// `FROM a.b`: rewritten queries ask for `a._rid`, so at run time the container's name is known too.
    fn name_root(&mut self, source: &Source, first: bool) {
        let Collection::Expr(expr) = &source.collection else { return };
        if !first
            || self.facts.planning
            || !self.orders
            || matches!(*expr.kind, ExprKind::Identifier(_))
        {
            return;
        }
        let mut root = expr;
        while let ExprKind::Member(of, _) | ExprKind::Index(of, _) = &*root.kind {
            root = of;
        }
        if let ExprKind::Identifier(name) = &*root.kind {
            let alias =
                Alias { slot: ITEM_SLOT, path: Some(vec![]), correlated: false, columns: None };
            let scope = self.scopes.last_mut().expect("a query is being bound");
            scope.roots.push((name.clone(), alias));
        }
    }

    /// What ORDER BY may know of the rows of a subquery.
    fn columns(&self, rows: &BoundSelect) -> Columns {
        match &rows.projection {
            Projection::Properties(list) => Columns::Named(
                list.iter().map(|(name, node)| (name.clone(), self.item_path(node))).collect(),
            ),
            Projection::Value(_) => Columns::Any,
        }
    }

    fn declare(&mut self, name: Arc<str>, source: &Source, alias: Alias) -> Result<(), QueryError> {
        let is_declared = |scope: &Scope<'_>| scope.aliases.iter().any(|(n, _)| *n == name);
        if self.scopes.iter().any(is_declared) {
            // `FROM c JOIN c` joins an item with itself, and the name stays what it was.
            let is_itself = source.alias.is_none()
                && matches!(&source.collection, Collection::Expr(e)
                    if matches!(*e.kind, ExprKind::Identifier(_)));
            if is_itself {
                return Ok(());
            }
            let message = format!(
                "The input set name or alias '{name}' is specified more than once in the FROM clause."
            );
            let start = source.span.start;
            let span = match (&source.alias, source.iterates) {
                (Some(alias), true) => crate::ast::Span::new(start, start + alias.len()),
                (Some(alias), false) => {
                    crate::ast::Span::new(source.span.end - alias.len(), source.span.end)
                }
                (None, _) => source.span,
            };
            return Err(self.error(span, "SC2021", message));
        }
        let scope = self.scopes.last_mut().expect("a query is being bound");
        scope.aliases.push((name, alias));
        Ok(())
    }

    /// The path from the item that an expression is, if it is one.
    fn item_path(&self, node: &Node) -> Option<Vec<Step>> {
        let Node::Path(slot, steps) = node else { return None };
        if *slot == ITEM_SLOT {
            return Some(steps.clone());
        }
        let aliases = self.scopes.iter().flat_map(|scope| &scope.aliases);
        let mut of_slot = aliases.filter(|(_, alias)| alias.slot == *slot);
        let mut path = of_slot.next()?.1.path.clone()?;
        path.extend_from_slice(steps);
        Some(path)
    }

    /// A number of rows; `code` names the clause in errors.
    fn count(&self, count: Option<&Count>, code: &'static str) -> Result<Option<u64>, QueryError> {
        let Some(count) = count else { return Ok(None) };
        let number = match &count.value {
            CountValue::Number(n) => Some(*n),
            CountValue::Parameter(name) => {
                let value = self.parameter(name, count.span)?;
                value.as_i64().and_then(|n| u64::try_from(n).ok())
            }
        };
        match number.filter(|n| *n < 1 << 32) {
            Some(n) => Ok(Some(n)),
            None => Err(self.error(
                count.span,
                code,
                match code {
                    "SC2060" => "The count value provided for a TOP clause must be an integer.",
                    "SC2061" => "The LIMIT count value exceeds the maximum allowed value.",
                    _ => "The OFFSET count value exceeds the maximum allowed value.",
                },
            )),
        }
    }

    fn projection(
        &mut self,
        select: &'a Select,
        sources: &[BoundSource],
    ) -> Result<(Projection, Option<Grouping>), QueryError> {
        if matches!(select.selection, Selection::Star) {
            return Ok((self.star(select, sources)?, None));
        }
        if select.group_by.is_empty() && !selects_aggregate(&select.selection) {
            return Ok((self.selection(&select.selection)?, None));
        }
        let mut keys = Vec::with_capacity(select.group_by.len());
        for key in &select.group_by {
            keys.push((self.new_slot(), self.expr(key)?));
        }
        let grouping =
            Grouping { keys, aggregates: Vec::new(), always_one: select.group_by.is_empty() };
        let scope = self.scopes.last_mut().expect("a query is being bound");
        scope.group = Some(GroupScope { keys: &select.group_by, grouping });
        let projection = self.selection(&select.selection)?;
        let scope = self.scopes.last_mut().expect("a query is being bound");
        let group = scope.group.take().expect("set above");
        Ok((projection, Some(group.grouping)))
    }

    /// The values of the only source, whether it has a name or not.
    fn star(&self, select: &Select, sources: &[BoundSource]) -> Result<Projection, QueryError> {
        if !select.group_by.is_empty() {
            let message = "'SELECT *' is not allowed with GROUP BY.";
            return Err(self.error(self.star_span(select), "SC2041", message));
        }
        match sources {
            [source] if !(source.iterates && matches!(source.origin, Origin::Rows(_))) => {
                Ok(Projection::Value(Node::Path(source.slot, Vec::new())))
            }
            _ => {
                let message = "'SELECT *' is only valid with a single input set.";
                Err(self.error(self.star_span(select), "SC2042", message))
            }
        }
    }

    /// Where the `*` of SELECT stands.
    fn star_span(&self, select: &Select) -> crate::ast::Span {
        let text = &self.text[select.span.start..select.span.end];
        let at = select.span.start + text.find('*').unwrap_or(0);
        crate::ast::Span::new(at, at + 1)
    }

    fn selection(&mut self, selection: &'a Selection) -> Result<Projection, QueryError> {
        let items = match selection {
            Selection::Star => unreachable!("bound by `star`"),
            Selection::Value(expr) => return Ok(Projection::Value(self.expr(expr)?)),
            Selection::List(items) => items,
        };
        let mut properties: Vec<(Arc<str>, Node)> = Vec::with_capacity(items.len());
        let mut unnamed = 0;
        for item in items {
            let name = item.alias.clone().or_else(|| item.expr.own_name().cloned());
            let name = name.unwrap_or_else(|| {
                unnamed += 1;
                format!("${unnamed}").into()
            });
            properties.push((name, self.expr(&item.expr)?));
        }
        Ok(Projection::Properties(distinct(properties)))
    }
}

/// The keys of ORDER BY by the slots of the groups' keys that they are.
fn by_groups(select: &Select, grouping: &Grouping, keys: &mut [(Node, Direction)]) {
    let Some(OrderBy::Keys(written)) = &select.order_by else { return };
    for (key, (node, _)) in written.iter().zip(keys) {
        if let Some(at) = select.group_by.iter().position(|group| *group == key.expr) {
            *node = Node::Path(grouping.keys[at].0, Vec::new());
        }
    }
}

/// Properties as an object literal has them: a repeated name takes the later value.
pub(super) fn distinct(properties: Vec<(Arc<str>, Node)>) -> Vec<(Arc<str>, Node)> {
    let mut places: HashMap<Arc<str>, usize> = HashMap::with_capacity(properties.len());
    let mut kept: Vec<(Arc<str>, Node)> = Vec::with_capacity(properties.len());
    for (name, node) in properties {
        if let Some(place) = places.get(&name) {
            kept[*place].1 = node;
        } else {
            places.insert(name.clone(), kept.len());
            kept.push((name, node));
        }
    }
    kept
}

/// Whether a select list has an aggregate of its own, not one of a subquery.
pub(crate) fn selects_aggregate(selection: &Selection) -> bool {
    selects_such(selection, |_| true)
}

/// The same for aggregates of some kinds.
pub(crate) fn selects_such(
    selection: &Selection,
    such: impl Fn(AggregateFunction) -> bool,
) -> bool {
    first_such(selection, such).is_some()
}

/// Where the first aggregate of a select list stands.
pub(crate) fn first_aggregate(selection: &Selection) -> Option<Span> {
    first_such(selection, |_| true)
}

fn first_such(selection: &Selection, such: impl Fn(AggregateFunction) -> bool) -> Option<Span> {
    let mut found = None;
    let mut look = |e: &Expr| {
        visit(e, &mut |e| {
            if let ExprKind::Call(name, _) = &*e.kind
                && found.is_none()
                && AggregateFunction::find(name).is_some_and(&such)
            {
                found = Some(e.span);
            }
        });
    };
    match selection {
        Selection::Star => {}
        Selection::Value(e) => look(e),
        Selection::List(items) => items.iter().for_each(|item| look(&item.expr)),
    }
    found
}

/// Calls back for an expression and everything in it outside subqueries.
pub(crate) fn visit<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    f(expr);
    expr.kind.for_each_child(&mut |child| visit(child, f));
}

/// ORDER BY and SELECT. That a key is no path is said last.
fn order_and_projection<'a>(
    binder: &mut Binder<'a>,
    select: &'a Select,
    sources: &[BoundSource],
) -> Result<(Order, Projection, Option<Grouping>), QueryError> {
    let order = super::order::order(binder, select);
    if order.as_ref().is_err_and(|error| error.code() != Some(super::order::UNMAPPED)) {
        order.as_ref().map_err(QueryError::clone)?;
    }
    let (projection, grouping) = binder.projection(select, sources)?;
    Ok((order?, projection, grouping))
}

fn check_group_key<'a>(binder: &mut Binder<'a>, key: &'a Expr) -> Result<(), QueryError> {
    let mut refused = None;
    let mut referenced = false;
    visit(key, &mut |e| match &*e.kind {
        ExprKind::Subquery(SubqueryKind::Scalar, select) => {
            refused = Some(("a subquery", select.span));
        }
        ExprKind::Subquery(..) => refused = Some(("a subquery", e.span)),
        ExprKind::Call(name, _) if AggregateFunction::find(name).is_some() => {
            refused = Some(("an aggregate", e.span));
        }
        ExprKind::Identifier(_) => referenced = true,
        _ => {}
    });
    if let Some((what, span)) = refused {
        let message = format!("A GROUP BY expression must not contain {what}.");
        return Err(binder.error(span, "SC2111", message));
    }
    super::order::check_names(binder, key)?;
    if !referenced {
        let message = "Each GROUP BY expression must contain at least one property reference.";
        return Err(binder.error(key.span, "SC2110", message));
    }
    Ok(())
}
