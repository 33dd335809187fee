//! Expressions.

use std::sync::Arc;

use orrery_types::Value;

use super::select::{distinct, visit};
use super::{Binder, ITEM_SLOT, Position, Root};
use crate::ast::{Expr, ExprKind, Span, SubqueryKind, UnaryOp};
use crate::bound::{List, Node, Step};
use crate::error::QueryError;
use crate::functions::aggregate::AggregateKind;
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
            ExprKind::Index(of, index) => self.index(of, index)?,
            ExprKind::Unary(op, operand) => Node::Unary(*op, Box::new(self.expr(operand)?)),
            ExprKind::Binary(op, a, b) => {
                Node::Binary(*op, Box::new([self.expr(a)?, self.expr(b)?]))
            }
            ExprKind::And(operands) => Node::And(self.list(operands)?),
            ExprKind::Or(operands) => Node::Or(self.list(operands)?),
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
            if self.scopes[depth].group.is_some() {
                let reference = &self.text[whole.start..whole.end];
                let message = format!(
                    "Property reference '{reference}' is invalid in the select list because it is \
                     not contained in either an aggregate function or the GROUP BY clause."
                );
                return Err(self.error(whole, "SC2102", message));
            }
            return Ok(Node::Path(alias.slot, Vec::new()));
        }
        match (&self.root, constant(name)) {
            (Root::Named(root), _) if root == name => {}
            (_, Some(value)) => return Ok(Node::Constant(value.into())),
            (Root::Any, None) => self.root = Root::Named(name.clone()),
            (Root::Named(_) | Root::None, None) => {
                let message = format!("Identifier '{name}' could not be resolved.");
                return Err(self.error(span, "SC2001", message));
            }
        }
        Ok(Node::Path(ITEM_SLOT, Vec::new()))
    }

    fn member(&mut self, of: &'a Expr, name: &Arc<str>, span: Span) -> Result<Node, QueryError> {
        let of = match &*of.kind {
            ExprKind::Identifier(alias) if self.group_part(of).is_none() => {
                self.identifier(alias, of.span, span)?
            }
            _ => self.expr(of)?,
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

    fn index(&mut self, of: &'a Expr, index: &'a Expr) -> Result<Node, QueryError> {
        let Node::Constant(position) = self.expr(index)? else {
            let message =
                "The specified query includes 'member indexer' which is currently not supported.";
            return Err(self.error(index.span, "SC2990", message));
        };
        let span = of.span;
        let of = self.expr(of)?;
        Ok(match position {
            Value::String(name) => match self.relation(&of, &name, span)? {
                Some(node) => node,
                None => step(of, Step::Name(name)),
            },
            other => match other.as_i64().and_then(|i| usize::try_from(i).ok()) {
                Some(at) => step(of, Step::Index(at)),
                None => Node::Constant(Value::Undefined),
            },
        })
    }

    fn subquery(
        &mut self,
        kind: SubqueryKind,
        select: &'a crate::ast::Select,
    ) -> Result<Node, QueryError> {
        let root = std::mem::replace(&mut self.root, Root::None);
        let mut bound = self.select(select, Position::Nested)?;
        self.root = root;
        if kind == SubqueryKind::All {
            // ALL(q) is NOT EXISTS(q with its filter negated); without filter nothing contradicts.
            let filter = bound.filter.take().unwrap_or(Node::Constant(true.into()));
            bound.filter = Some(Node::Unary(UnaryOp::Not, Box::new(filter)));
        }
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
            let message = format!("'{name}' is not a recognized built-in function name.");
            let span = Span::new(expr.span.start, expr.span.start + name.len());
            return Err(self.error(span, "SC2005", message));
        };
        if let Some(message) = function.arity_error(arguments.len()) {
            return Err(self.error(expr.span, "SC2050", message));
        }
        if function.dependence == Dependence::Place {
            return self.placed_call(expr, function, arguments);
        }
        let function = functions::spatial::fitting(function, self.facts.geospatial);
        Ok(Node::Call(function, self.list(arguments)?))
    }

    /// Functions whose meaning depends on where they stand.
    fn placed_call(
        &mut self,
        expr: &'a Expr,
        function: &'static Function,
        arguments: &'a [Expr],
    ) -> Result<Node, QueryError> {
        if let Some(kind) = AggregateKind::find(function.name) {
            return self.aggregate(expr, kind, &arguments[0]);
        }
        match function.name {
            "DOCUMENTID" => match self.expr(&arguments[0])? {
                node @ Node::Path(ITEM_SLOT, _) if is_bare(&node) => {
                    Ok(Node::Call(function, vec![node]))
                }
                _ => {
                    let message = "The argument of DOCUMENTID must be the alias of the container.";
                    Err(self.error(expr.span, "SC2051", message))
                }
            },
            "VectorDistance" => {
                let (metric, vectors) = self.vector_distance(arguments)?;
                Ok(Node::Vector(metric, Box::new(vectors)))
            }
            name => {
                let message =
                    format!("The {name} function is only allowed in the ORDER BY RANK clause.");
                Err(self.error(expr.span, "SC2240", message))
            }
        }
    }

    fn aggregate(
        &mut self,
        expr: &'a Expr,
        kind: AggregateKind,
        argument: &'a Expr,
    ) -> Result<Node, QueryError> {
        let scope = self.scopes.last_mut().expect("a query is being bound");
        let Some(group) = scope.group.take() else {
            let message = "Aggregate functions are only allowed in the SELECT clause.";
            return Err(self.error(expr.span, "SC2100", message));
        };
        let mut nested = false;
        visit(argument, &mut |e| match &*e.kind {
            ExprKind::Subquery(..) => nested = true,
            ExprKind::Call(name, _) => nested |= AggregateKind::find(name).is_some(),
            _ => {}
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
        let mut metric = vectors.iter().find_map(|v| self.policy_metric(v));
        if let Some(options) = arguments.get(3) {
            let Node::Constant(values) = self.expr(options)? else {
                let message = "The options of the VectorDistance function must be constant.";
                return Err(self.error(options.span, "SC2212", message));
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

/// The number that a name stands for where it is no alias.
pub(super) fn constant(name: &str) -> Option<f64> {
    match name {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        _ => None,
    }
}

fn is_bare(node: &Node) -> bool {
    matches!(node, Node::Path(_, steps) if steps.is_empty())
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
