//! Expressions.

use std::sync::Arc;

use orrery_types::Value;

use super::one_of::disjunction;
use super::select::{distinct, visit};
use super::{Binder, ITEM_SLOT, Position, Root};
use crate::ast::{Expr, ExprKind, Span, SubqueryKind, UnaryOp};
use crate::bound::{List, Node, Step};
use crate::error::QueryError;
use crate::functions::aggregate::AggregateFunction;
use crate::functions::vector::Metric;
use crate::functions::{self, Dependence, Function};
use crate::rewrite::fold;

impl<'a> Binder<'a> {
    /// Binds an expression; constant parts come out as constants.
    pub(super) fn expr(&mut self, expr: &'a Expr) -> Result<Node, QueryError> {
        if let Some(node) = self.group_part(expr) {
            return Ok(node);
        }
        let node = match &*expr.kind {
            ExprKind::Literal(value) => Node::Constant(value.clone()),
            ExprKind::Parameter(name) => Node::Constant(self.parameter(name, expr.span)?),
            ExprKind::Identifier(name) => self.identifier(name, expr.span, expr.span)?,
            ExprKind::Member(of, name) => self.member(of, name, expr.span)?,
            ExprKind::Index(of, index) => self.index(of, index, expr.span)?,
            ExprKind::Unary(op, operand) => Node::Unary(*op, Box::new(self.expr(operand)?)),
            ExprKind::Binary(op, a, b) => {
                Node::Binary(*op, Box::new([self.expr(a)?, self.expr(b)?]))
            }
            ExprKind::And(operands) => Node::And(self.list(operands)?),
            ExprKind::Or(operands) => disjunction(self.list(operands)?),
            ExprKind::In { needle, list, negated } => {
                let needle = Box::new(self.expr(needle)?);
                Node::In { needle, list: list_of(self.list(list)?), negated: *negated }
            }
            ExprKind::Between { of, low, high, negated } => Node::Between {
                parts: Box::new([self.expr(of)?, self.expr(low)?, self.expr(high)?]),
                negated: *negated,
            },
            ExprKind::Like { of, pattern, escape, negated } => Node::Like {
                parts: Box::new([self.expr(of)?, self.expr(pattern)?]),
                escape: *escape,
                negated: *negated,
            },
            ExprKind::Conditional(condition, yes, no) => {
                let parts = [self.expr(condition)?, self.expr(yes)?, self.expr(no)?];
                Node::Conditional(Box::new(parts))
            }
            ExprKind::Call(name, arguments) => self.call(expr, name, arguments)?,
            ExprKind::Udf(name, arguments) => self.udf(name, arguments, expr.span)?,
            ExprKind::Array(elements) => Node::Array(self.list(elements)?),
            ExprKind::Object(properties) => {
                let mut bound = Vec::with_capacity(properties.len());
                for (name, value) in properties {
                    bound.push((name.clone(), self.expr(value)?));
                }
                Node::Object(distinct(bound))
            }
            ExprKind::Subquery(kind, select) => self.subquery(*kind, select)?,
        };
        Ok(fold(node))
    }

    fn list(&mut self, list: &'a [Expr]) -> Result<Vec<Node>, QueryError> {
        list.iter().map(|e| self.expr(e)).collect()
    }

    /// In the select list of a grouped query: the slot of an expression that GROUP BY names.
    fn group_part(&self, expr: &Expr) -> Option<Node> {
        let group = self.scopes.last()?.group.as_ref()?;
        let at = group.keys.iter().position(|key| key == expr)?;
        Some(Node::Path(group.grouping.keys[at].0, Vec::new()))
    }

    /// An alias or a named constant; `whole` is the path it begins, for messages.
    fn identifier(&mut self, name: &Arc<str>, span: Span, whole: Span) -> Result<Node, QueryError> {
        if let Some((depth, alias)) = self.alias(name) {
            let (alias_slot, alias) = (alias.slot, alias.clone());
            if self.scopes[depth].group.is_some() {
                if let Some(node) = self.group_rid(whole, alias_slot) {
                    return Ok(node);
                }
                let whole = self.path.unwrap_or(whole);
                let reference = &self.text[whole.start..whole.end];
                let message = format!(
                    "Property reference '{reference}' is invalid in the select list because it is \
                     not contained in either an aggregate function or the GROUP BY clause."
                );
                return Err(self.error(whole, "SC2102", message));
            }
            return Ok(Node::Path(alias.slot, Vec::new()));
        }
        match &self.root {
            Root::Named(root) if root == name => {}
            Root::Any => self.root = Root::Named(name.clone()),
            Root::Named(_) | Root::None => {
                let message = format!("Identifier '{name}' could not be resolved.");
                return Err(self.error(span, "SC2001", message));
            }
        }
        Ok(Node::Path(ITEM_SLOT, Vec::new()))
    }

    fn is_group_rid(&self, node: &Node) -> bool {
        let group = self.scopes.last().and_then(|scope| scope.group.as_ref());
        let Node::Path(slot, _) = node else { return false };
        group.is_some_and(|group| group.grouping.aggregates.iter().any(|(s, ..)| s == slot))
    }

    /// `c._rid` of a group, as rewritten queries ask for it: that of one of its rows.
    fn group_rid(&mut self, whole: Span, slot: crate::bound::Slot) -> Option<Node> {
        let reference = &self.text[whole.start..whole.end];
        let is_rid = reference.split_once('.').is_some_and(|(_, rest)| rest.trim() == "_rid");
        if self.facts.planning || !self.orders || !is_rid {
            return None;
        }
        let of = Node::Path(slot, vec![Step::Name("_rid".into())]);
        let result = self.new_slot();
        let group = self.scopes.last_mut()?.group.as_mut()?;
        group.grouping.aggregates.push((result, AggregateFunction::Min, of));
        Some(Node::Path(result, Vec::new()))
    }

    /// Binds what a path begins with; `whole` is the path, or a part of a longer one.
    fn beginning(&mut self, of: &'a Expr, whole: Span) -> Result<Node, QueryError> {
        use ExprKind::{Identifier, Index, Member};
        let is_path = matches!(&*of.kind, Identifier(_) | Member(..) | Index(..));
        let path = is_path.then(|| self.path.unwrap_or(whole));
        let outer = std::mem::replace(&mut self.path, path);
        let node = self.expr(of);
        self.path = outer;
        node
    }

    fn member(&mut self, of: &'a Expr, name: &Arc<str>, span: Span) -> Result<Node, QueryError> {
        let of = match &*of.kind {
            ExprKind::Identifier(alias) if self.group_part(of).is_none() => {
                let node = self.identifier(alias, of.span, span)?;
                if self.is_group_rid(&node) {
                    return Ok(node);
                }
                node
            }
            _ => self.beginning(of, span)?,
        };
        if let Node::Path(ITEM_SLOT, steps) = &of
            && steps.is_empty()
            && let Some(node) = self.computed(name)?
        {
            return Ok(node);
        }
        if let Some(node) = self.relation(&of, name, span)? {
            return Ok(node);
        }
        Ok(step(of, Step::Name(name.clone())))
    }

    /// The expression of a computed property, bound to the item. It sees stored properties only.
    fn computed(&mut self, name: &str) -> Result<Option<Node>, QueryError> {
        let Some(property) = self.facts.computed.iter().find(|p| p.name() == name) else {
            return Ok(None);
        };
        crate::bind::bind_computed(property).map(Some)
    }

    /// An index is a literal, or a parameter that is a string or a number.
    fn index(&mut self, of: &'a Expr, index: &'a Expr, span: Span) -> Result<Node, QueryError> {
        let position = match &*index.kind {
            ExprKind::Literal(value @ (Value::Number(_) | Value::String(_))) => Some(value.clone()),
            ExprKind::Parameter(name) => Some(self.parameter(name, index.span)?),
            _ => None,
        };
        let position = position.filter(|v| matches!(v, Value::Number(_) | Value::String(_)));
        let Some(position) = position else {
            let message =
                "The specified query includes 'member indexer' which is currently not supported.";
            return Err(self.error(span, "SC2990", message));
        };
        let whole = span;
        let span = of.span;
        let of = self.beginning(of, whole)?;
        Ok(match position {
            Value::String(name) => match self.relation(&of, &name, span)? {
                Some(node) => node,
                None => step(of, Step::Name(name)),
            },
            other => match other.as_i64().and_then(|i| usize::try_from(i).ok()) {
                Some(at) => step(of, Step::Index(at)),
                // No array is as long, so such an index always misses.
                None => step(of, Step::Index(usize::MAX)),
            },
        })
    }

    fn subquery(
        &mut self,
        kind: SubqueryKind,
        select: &'a crate::ast::Select,
    ) -> Result<Node, QueryError> {
        let root = std::mem::replace(&mut self.root, Root::None);
        let bound = self.select(select, Position::Nested)?;
        self.root = root;
        Ok(Node::Subquery(kind, Box::new(bound)))
    }

    fn udf(
        &mut self,
        name: &Arc<str>,
        arguments: &'a [Expr],
        span: Span,
    ) -> Result<Node, QueryError> {
        self.count_udf()?;
        if self.facts.has_udf.is_some_and(|has| !has(name)) {
            let message = format!("'udf.{name}' is not a recognized user-defined function name.");
            return Err(self.error(span, "SC2006", message));
        }
        Ok(Node::Udf(name.clone(), self.list(arguments)?))
    }

    fn call(
        &mut self,
        expr: &'a Expr,
        name: &str,
        arguments: &'a [Expr],
    ) -> Result<Node, QueryError> {
        let Some(function) = functions::find(name) else {
            if self.facts.planning
                && let Some(node) = self.planned_call(expr, name, arguments)?
            {
                return Ok(node);
            }
            return Err(self.not_a_function(name, expr));
        };
        if let Some((code, message)) = function.arity_error(arguments.len()) {
            return Err(self.error(expr.span, code, message));
        }
        if function.dependence == Dependence::Place {
            return self.placed_call(expr, function, arguments);
        }
        let function = functions::spatial::fitting(function, self.facts.geospatial);
        Ok(Node::Call(function, self.list(arguments)?))
    }

    /// A function that the service's planner knows and nothing documents: it is planned, and refused
    /// when it runs.
    pub(super) fn not_a_function(&self, name: &str, call: &Expr) -> QueryError {
        let message = format!("'{name}' is not a recognized built-in function name.");
        let span = Span::new(call.span.start, call.span.start + name.len());
        self.error(span, "SC2005", message)
    }

    fn planned_call(
        &mut self,
        expr: &Expr,
        name: &str,
        arguments: &'a [Expr],
    ) -> Result<Option<Node>, QueryError> {
        let Some(function) = functions::planned_only(name) else { return Ok(None) };
        if !function.arguments.contains(&arguments.len()) {
            let message = functions::wrong_count(name, &function.arguments);
            return Err(self.error(expr.span, "SC2050", message));
        }
        let is_text = |e: &Expr| matches!(&*e.kind, ExprKind::Literal(Value::String(_)));
        if let [argument] = arguments
            && name.eq_ignore_ascii_case("GenerateEmbeddings")
            && !is_text(argument)
        {
            let message =
                "The 'GenerateEmbeddings' function requires a single string literal argument.";
            return Err(self.error(argument.span, "SC2216", message));
        }
        let arguments = self.list(arguments)?;
        Ok(Some(if function.has_value {
            Node::Udf(name.into(), arguments)
        } else {
            Node::Constant(Value::Undefined)
        }))
    }

    /// Functions whose meaning depends on where they stand.
    fn placed_call(
        &mut self,
        expr: &'a Expr,
        function: &'static Function,
        arguments: &'a [Expr],
    ) -> Result<Node, QueryError> {
        if let Some(kind) = AggregateFunction::find(function.name) {
            return self.aggregate(expr, kind, &arguments[0]);
        }
        match function.name {
            "VectorDistance" => {
                let (metric, vectors) = self.vector_distance(arguments)?;
                Ok(Node::Vector(metric, Box::new(vectors)))
            }
            "_VectorScore" => {
                let (metric, vectors) = self.vector_distance(arguments)?;
                let distance = Node::Vector(metric, Box::new(vectors));
                // The nearer, the greater, whatever the metric.
                Ok(if metric.greater_is_nearer() {
                    distance
                } else {
                    Node::Unary(UnaryOp::Minus, Box::new(distance))
                })
            }
            "RRF" => {
                let ExprKind::Call(written, _) = &*expr.kind else {
                    return Err(self.not_a_function("RRF", expr));
                };
                Err(self.not_a_function(written, expr))
            }
            "FullTextScore" if self.facts.planning && self.ranks => {
                super::rank::check_terms(self, arguments)?;
                Ok(Node::Call(function, self.list(arguments)?))
            }
            name => {
                let (code, message) = if self.facts.planning {
                    let what = "is only allowed in the SELECT, WHERE and ORDER BY RANK clauses of a \
                                query that has an ORDER BY RANK.";
                    ("SC2244", format!("The {name} function {what}"))
                } else {
                    let what = "is only allowed in the ORDER BY RANK clause.";
                    ("SC2240", format!("The {name} function {what}"))
                };
                Err(self.error(expr.span, code, message))
            }
        }
    }

    fn aggregate(
        &mut self,
        expr: &'a Expr,
        kind: AggregateFunction,
        argument: &'a Expr,
    ) -> Result<Node, QueryError> {
        let scope = self.scopes.last_mut().expect("a query is being bound");
        let Some(group) = scope.group.take() else {
            let message = "Aggregates are not allowed in the WHERE clause.";
            return Err(self.error(expr.span, "SC2104", message));
        };
        let mut nested = false;
        visit(argument, &mut |e| {
            if let ExprKind::Call(name, _) = &*e.kind {
                nested |= AggregateFunction::find(name).is_some();
            }
        });
        if nested {
            let message = "Cannot perform an aggregate function on an expression containing an \
                           aggregate or a subquery.";
            return Err(self.error(expr.span, "SC2101", message));
        }
        // The argument is about rows, not about groups: bind it with the group out of the way.
        let argument = self.expr(argument)?;
        let slot = self.new_slot();
        let scope = self.scopes.last_mut().expect("a query is being bound");
        let mut group = group;
        group.grouping.aggregates.push((slot, kind, argument));
        scope.group = Some(group);
        Ok(Node::Path(slot, Vec::new()))
    }

    /// The metric and the two vectors of `VectorDistance(a, b, bruteForce, options)`.
    pub(super) fn vector_distance(
        &mut self,
        arguments: &'a [Expr],
    ) -> Result<(Metric, [Node; 2]), QueryError> {
        let vectors = [self.expr(&arguments[0])?, self.expr(&arguments[1])?];
        if let Some(exact) = arguments.get(2)
            && !matches!(self.expr(exact)?, Node::Constant(Value::Bool(_)))
        {
            let message = "The third argument provided in the VectorDistance function is invalid. This \
                           value must be a boolean value set to true or false.";
            return Err(self.error(exact.span, "SC2212", message));
        }
        let mut metric = vectors.iter().find_map(|v| self.policy_metric(v));
        if let Some(options) = arguments.get(3) {
            let Node::Constant(values) = self.expr(options)? else {
                let message = "The options of the VectorDistance function must be constant.";
                return Err(self.error(options.span, "SC2210", message));
            };
            self.check_multipliers(&values, options.span)?;
            if let Some(name) = values.get("distanceFunction").as_str() {
                metric = Some(Metric::parse(name).ok_or_else(|| {
                    let message = format!("The distanceFunction '{name}' is not supported.");
                    self.error(options.span, "SC2211", message)
                })?);
            }
        }
        Ok((metric.unwrap_or(Metric::Cosine), vectors))
    }

    fn policy_metric(&self, vector: &Node) -> Option<Metric> {
        let Node::Path(ITEM_SLOT, steps) = vector else { return None };
        let names = |step: &Step| match step {
            Step::Name(name) => Some(name.clone()),
            Step::Index(_) => None,
        };
        let path: Option<Vec<Arc<str>>> = steps.iter().map(names).collect();
        let path = path?;
        let same =
            |segments: &[Box<str>]| segments.iter().map(|s| &**s).eq(path.iter().map(|s| &**s));
        self.facts.vectors.iter().find(|v| same(v.path.segments())).map(|v| v.metric)
    }

    fn check_multipliers(&self, options: &Value, span: Span) -> Result<(), QueryError> {
        for name in ["searchListSizeMultiplier", "quantizedVectorListMultiplier"] {
            let value = options.get(name);
            let in_range = value.as_i64().is_some_and(|n| (1..=100).contains(&n));
            if !value.is_undefined() && !in_range {
                let message = format!(
                    "The '{name}' value {} specified in the VectorDistance function is outside the \
                     supported range. The value must be between 1 and 100.",
                    value.to_json()
                );
                return Err(self.error(span, "SC2213", message));
            }
        }
        Ok(())
    }
}

/// One step further; a path stays a path.
fn step(of: Node, step: Step) -> Node {
    match of {
        Node::Path(slot, mut steps) => {
            steps.push(step);
            Node::Path(slot, steps)
        }
        other => Node::Step(Box::new(other), step),
    }
}

fn list_of(nodes: Vec<Node>) -> List {
    let constant = |node: &Node| match node {
        Node::Constant(value) => Some(value.clone()),
        _ => None,
    };
    match nodes.iter().map(constant).collect::<Option<std::collections::HashSet<_>>>() {
        Some(set) => List::Set(Arc::new(set)),
        None => List::Nodes(nodes),
    }
}
