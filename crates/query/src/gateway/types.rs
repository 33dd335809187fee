//! Which types the value of an expression may have, whatever the items hold. A filter that may not be
//! true and a value that may not be defined give no rows, so such a query need not be sent anywhere but to
//! the first partition.

use std::collections::HashMap;

use orrery_types::Value;

use super::signatures;
use crate::ast::{BinaryOp, SubqueryKind, UnaryOp};
use crate::bound::{
    BoundSelect, BoundSource, Grouping, List, Node, Origin, Projection, Slot, Step,
};
use crate::functions::Function;
use crate::functions::aggregate::AggregateFunction;

/// A set of types; true and false count as types of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const UNDEFINED: Self = Self(1);
    pub(super) const NULL: Self = Self(2);
    pub(super) const FALSE: Self = Self(4);
    pub(super) const TRUE: Self = Self(8);
    pub(super) const BOOL: Self = Self(12);
    pub(super) const NUMBER: Self = Self(16);
    pub(super) const STRING: Self = Self(32);
    pub(super) const ARRAY: Self = Self(64);
    pub(super) const OBJECT: Self = Self(128);
    pub(super) const DEFINED: Self = Self(254);
    pub(super) const ANY: Self = Self(255);
    /// Those with an order of their own.
    const ORDERED: Self = Self(2 + 12 + 16 + 32);

    fn of(value: &Value) -> Self {
        match value {
            Value::Undefined => Self::UNDEFINED,
            Value::Null => Self::NULL,
            Value::Bool(true) => Self::TRUE,
            Value::Bool(false) => Self::FALSE,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn may_be(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both booleans where one of them is.
    fn with_both_booleans(self) -> Self {
        if self.may_be(Self::BOOL) { self.or(Self::BOOL) } else { self }
    }

    fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }
}

/// What the slots of a query stand for.
pub(super) struct Inference<'q> {
    sources: HashMap<Slot, &'q BoundSource>,
    aggregates: HashMap<Slot, AggregateFunction>,
    keys: HashMap<Slot, &'q Node>,
    /// Whether the aggregates of the select list are all that the query computes.
    counts_all: bool,
}

impl<'q> Inference<'q> {
    pub(super) fn new(select: &'q BoundSelect, counts_all: bool) -> Self {
        let mut inference = Self {
            sources: HashMap::new(),
            aggregates: HashMap::new(),
            keys: HashMap::new(),
            counts_all,
        };
        inference.learn(select);
        inference
    }

    /// Subqueries within expressions are left out: what their slots hold is any value.
    fn learn(&mut self, select: &'q BoundSelect) {
        for source in &select.sources {
            self.sources.insert(source.slot, source);
            if let Origin::Rows(rows) = &source.origin {
                self.learn(rows);
            }
        }
        if let Some(Grouping { keys, aggregates, .. }) = &select.grouping {
            self.keys.extend(keys.iter().map(|(slot, node)| (*slot, node)));
            self.aggregates.extend(aggregates.iter().map(|(slot, kind, _)| (*slot, *kind)));
        }
    }

    /// Whether no row can come out.
    pub(super) fn is_empty(&self, select: &BoundSelect) -> bool {
        if select.sources.iter().any(|source| self.has_no_values(source)) {
            return true;
        }
        if select.filter.as_ref().is_some_and(|f| !self.types(f).may_be(Types::TRUE)) {
            return true;
        }
        if let Some(grouping) = &select.grouping
            && grouping.always_one
            && self.counts_all
            && !grouping.aggregates.is_empty()
            && grouping.aggregates.iter().all(|(_, kind, of)| self.takes_nothing(*kind, of))
        {
            return true;
        }
        match &select.projection {
            Projection::Value(node) => self.types(node) == Types::UNDEFINED,
            Projection::Properties(_) => false,
        }
    }

    fn takes_nothing(&self, kind: AggregateFunction, of: &Node) -> bool {
        let types = self.types(of);
        match kind {
            AggregateFunction::CountIf => !types.may_be(Types::TRUE),
            AggregateFunction::Count | AggregateFunction::Max | AggregateFunction::Min => {
                !types.may_be(Types::DEFINED)
            }
            // What these give of nothing is a value.
            AggregateFunction::Average
            | AggregateFunction::MakeList
            | AggregateFunction::MakeSet
            | AggregateFunction::Sum => false,
        }
    }

    fn has_no_values(&self, source: &BoundSource) -> bool {
        let types = match &source.origin {
            Origin::Value(node) => self.types(node),
            Origin::Rows(rows) if !rows.always_gives_a_row() && self.is_empty(rows) => return true,
            Origin::Rows(rows) => match &rows.projection {
                Projection::Value(node) => self.types(node),
                Projection::Properties(_) => Types::OBJECT,
            },
        };
        !types.may_be(if source.iterates { Types::ARRAY } else { Types::DEFINED })
    }

    /// The path of the item that an expression is, seen through the subqueries of FROM.
    pub(super) fn item_path(&self, node: &Node, item: Slot) -> Option<Vec<Step>> {
        match self.resolved(node) {
            Resolved::Path(slot, steps) if slot == item => Some(steps),
            _ => None,
        }
    }

    fn resolved(&self, node: &Node) -> Resolved {
        let Node::Path(slot, steps) = node else { return Resolved::Types(self.types(node)) };
        if let Some(key) = self.keys.get(slot) {
            return self.further(key, steps);
        }
        let Some(source) = self.sources.get(slot) else {
            return Resolved::Path(*slot, steps.clone());
        };
        match &source.origin {
            // An item is what the container holds.
            Origin::Value(Node::Path(of, _)) if of == slot => Resolved::Path(*slot, steps.clone()),
            _ if source.iterates && steps.is_empty() => Resolved::Types(Types::DEFINED),
            _ if source.iterates => Resolved::Types(Types::ANY),
            Origin::Value(of) => self.further(of, steps),
            Origin::Rows(rows) => match (&rows.projection, steps.split_first()) {
                (Projection::Value(of), _) => self.further(of, steps),
                (Projection::Properties(_), None) => Resolved::Types(Types::OBJECT),
                (Projection::Properties(list), Some((Step::Name(name), rest))) => {
                    match list.iter().find(|(n, _)| n == name) {
                        Some((_, of)) => self.further(of, rest),
                        None => Resolved::Types(Types::UNDEFINED),
                    }
                }
                (Projection::Properties(_), Some((Step::Index(_), _))) => {
                    Resolved::Types(Types::UNDEFINED)
                }
            },
        }
    }

    /// What the end of `steps` from an expression is.
    fn further(&self, of: &Node, steps: &[Step]) -> Resolved {
        if let Node::Path(slot, before) = of {
            let mut all = before.clone();
            all.extend_from_slice(steps);
            return self.resolved(&Node::Path(*slot, all));
        }
        if steps.is_empty() {
            return Resolved::Types(self.types(of));
        }
        let holds = Types::ARRAY.or(Types::OBJECT);
        let may_hold = self.types(of).may_be(holds);
        Resolved::Types(if may_hold { Types::ANY } else { Types::UNDEFINED })
    }

    /// The types that a value may have.
    pub(super) fn types(&self, node: &Node) -> Types {
        match node {
            Node::Constant(value) => Types::of(value),
            Node::Path(slot, steps) => match self.aggregates.get(slot) {
                Some(kind) if steps.is_empty() => aggregate_types(*kind),
                _ => match self.resolved(node) {
                    Resolved::Types(types) => types,
                    Resolved::Path(_, steps) => match steps.as_slice() {
                        [Step::Name(name)] if &**name == "_ts" => {
                            Types::NUMBER.or(Types::UNDEFINED)
                        }
                        _ => Types::ANY,
                    },
                },
            },
            Node::Step(of, step) => {
                let holds = match step {
                    Step::Name(_) => Types::OBJECT,
                    Step::Index(_) => Types::ARRAY,
                };
                Types::UNDEFINED.or(Types::ANY.when(self.types(of).may_be(holds)))
            }
            Node::Unary(UnaryOp::Not, of) => negated(self.types(of)),
            Node::Unary(_, of) => only(self.types(of), Types::NUMBER, Types::NUMBER),
            Node::Binary(op, parts) => self.binary(*op, parts),
            Node::And(operands) => self.logic(operands, Types::TRUE, Types::FALSE),
            Node::Or(operands) => self.logic(operands, Types::FALSE, Types::TRUE),
            Node::In { needle, list, negated: not } => {
                let found = self.membership(needle, list);
                if *not { negated(found) } else { found }
            }
            Node::Between { parts, negated: not } => {
                let found = self.between(parts);
                if *not { negated(found) } else { found }
            }
            Node::OneOf(_) | Node::Like { escape: Some(_), .. } => Types::BOOL.or(Types::UNDEFINED),
            Node::Like { parts, .. } => {
                let of = only(self.types(&parts[0]), Types::STRING, Types::BOOL);
                let pattern = only(self.types(&parts[1]), Types::STRING, Types::BOOL);
                all_of(of, pattern)
            }
            Node::Conditional(parts) => self.conditional(&parts[0], &parts[1], &parts[2]),
            Node::Call(function, arguments) => self.call(function, arguments),
            Node::Udf(..) | Node::Follow(_) => Types::ANY,
            Node::Vector(_, parts) => {
                let each = |part| only(self.types(part), Types::ARRAY, Types::NUMBER);
                all_of(each(&parts[0]), each(&parts[1])).or(Types::UNDEFINED)
            }
            Node::Array(_) => Types::ARRAY,
            Node::Object(_) => Types::OBJECT,
            Node::Subquery(kind, select) => subquery(*kind, select),
        }
    }

    fn binary(&self, op: BinaryOp, parts: &[Node; 2]) -> Types {
        let (a, b) = (self.types(&parts[0]), self.types(&parts[1]));
        let unknown = Types::UNDEFINED.when(a.or(b).may_be(Types::UNDEFINED));
        let has_values = a.may_be(Types::DEFINED) && b.may_be(Types::DEFINED);
        match op {
            BinaryOp::Coalesce if a.may_be(Types::UNDEFINED) => a.without(Types::UNDEFINED).or(b),
            BinaryOp::Coalesce => a,
            BinaryOp::Equal | BinaryOp::NotEqual if !has_values => Types::UNDEFINED,
            // No item holds a number that is none.
            BinaryOp::Equal if parts.iter().any(is_nan) => Types::FALSE.or(unknown),
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let may_equal = a.and(b).may_be(Types::DEFINED);
                let found = Types::FALSE.or(Types::TRUE.when(may_equal)).or(unknown);
                if op == BinaryOp::Equal { found } else { negated(found) }
            }
            BinaryOp::Less
            | BinaryOp::LessOrEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterOrEqual => ordered(a, b),
            BinaryOp::Concat => {
                all_of(only(a, Types::STRING, Types::STRING), only(b, Types::STRING, Types::STRING))
            }
            _ => {
                all_of(only(a, Types::NUMBER, Types::NUMBER), only(b, Types::NUMBER, Types::NUMBER))
            }
        }
    }

    /// AND and OR: all operands must be able to be `all`, and any that is `one` decides.
    fn logic(&self, operands: &[Node], all: Types, one: Types) -> Types {
        let each: Vec<Types> = operands.iter().map(|operand| self.types(operand)).collect();
        let unknown = Types::ANY.without(Types::BOOL);
        all.when(each.iter().all(|t| t.may_be(all)))
            .or(one.when(each.iter().any(|t| t.may_be(one))))
            .or(Types::UNDEFINED.when(each.iter().any(|t| t.may_be(unknown))))
    }

    fn membership(&self, needle: &Node, list: &List) -> Types {
        let needle = self.types(needle);
        if needle == Types::UNDEFINED {
            return Types::UNDEFINED;
        }
        let listed = match list {
            List::Set(set) => set.iter().map(Types::of).fold(Types::NONE, Types::or),
            List::Nodes(nodes) => nodes.iter().map(|n| self.types(n)).fold(Types::NONE, Types::or),
        };
        let may_equal = needle.and(listed).may_be(Types::DEFINED);
        let unknown = Types::UNDEFINED.when(needle.may_be(Types::UNDEFINED));
        Types::FALSE.or(Types::TRUE.when(may_equal)).or(unknown)
    }

    fn between(&self, parts: &[Node; 3]) -> Types {
        let [of, low, high] = [&parts[0], &parts[1], &parts[2]].map(|part| self.types(part));
        if let (Node::Constant(low), Node::Constant(high)) = (&parts[1], &parts[2])
            && low.type_rank() == high.type_rank()
            && low > high
        {
            return Types::FALSE.or(Types::UNDEFINED.when(of.may_be(Types::UNDEFINED)));
        }
        let known = |a: &Node, b: &Node, types: Types, is: fn(std::cmp::Ordering) -> bool| {
            let (Node::Constant(a), Node::Constant(b)) = (a, b) else { return types };
            if a.type_rank() != b.type_rank() || !types.may_be(Types::BOOL) {
                return types;
            }
            if is(a.cmp(b)) { Types::TRUE } else { Types::FALSE }
        };
        let low = known(&parts[0], &parts[1], ordered(of, low), std::cmp::Ordering::is_ge);
        let high = known(&parts[0], &parts[2], ordered(of, high), std::cmp::Ordering::is_le);
        let common = of
            .with_both_booleans()
            .and(self.types(&parts[1]).with_both_booleans())
            .and(self.types(&parts[2]).with_both_booleans());
        let is_true =
            low.may_be(Types::TRUE) && high.may_be(Types::TRUE) && common.may_be(Types::ORDERED);
        Types::TRUE
            .when(is_true)
            .or(Types::FALSE.when(low.or(high).may_be(Types::FALSE)))
            .or(Types::UNDEFINED.when(low.or(high).may_be(Types::UNDEFINED)))
    }

    fn conditional(&self, condition: &Node, yes: &Node, no: &Node) -> Types {
        let condition = self.types(condition);
        let yes = self.types(yes).when(condition.may_be(Types::TRUE));
        yes.or(self.types(no).when(condition.may_be(Types::ANY.without(Types::TRUE))))
    }

    fn call(&self, function: &Function, arguments: &[Node]) -> Types {
        let types: Vec<Types> = arguments.iter().map(|argument| self.types(argument)).collect();
        if let ("IIF", [condition, yes, no]) = (function.name, arguments) {
            return self.conditional(condition, yes, no);
        }
        if let (Some(tested), [of]) = (signatures::tested(function.name), types.as_slice()) {
            return Types::TRUE
                .when(of.may_be(tested))
                .or(Types::FALSE.when(of.may_be(Types::ANY.without(tested))));
        }
        let Some(signature) = signatures::find(function.name, arguments.len()) else {
            return Types::ANY;
        };
        let fits = |(at, types): (usize, &Types)| types.may_be(signature.argument(at));
        if types.iter().enumerate().all(fits) {
            signature.result.or(Types::UNDEFINED)
        } else {
            Types::UNDEFINED
        }
    }
}

/// The types of a subquery's value. The types of its slots are inferred again.
fn subquery(kind: SubqueryKind, select: &BoundSelect) -> Types {
    let inner = Inference::new(select, true);
    let has_rows = select.always_gives_a_row() || !inner.is_empty(select);
    match kind {
        SubqueryKind::Array => Types::ARRAY,
        SubqueryKind::Exists if !has_rows => Types::FALSE,
        SubqueryKind::Exists if select.sources.is_empty() && select.filter.is_none() => Types::TRUE,
        SubqueryKind::Exists => Types::BOOL,
        SubqueryKind::Scalar | SubqueryKind::First | SubqueryKind::Last => {
            let value = match &select.projection {
                Projection::Value(node) => inner.types(node),
                Projection::Properties(_) => Types::OBJECT,
            };
            let is_one = select.always_gives_a_row()
                || (select.sources.is_empty() && select.filter.is_none());
            value.when(has_rows).or(Types::UNDEFINED.when(!is_one || !has_rows))
        }
    }
}

/// What a path leads to.
enum Resolved {
    Path(Slot, Vec<Step>),
    Types(Types),
}

fn aggregate_types(kind: AggregateFunction) -> Types {
    match kind {
        AggregateFunction::Count | AggregateFunction::CountIf => Types::NUMBER,
        AggregateFunction::Average | AggregateFunction::Sum => Types::NUMBER.or(Types::UNDEFINED),
        AggregateFunction::Max | AggregateFunction::Min => Types::ANY,
        AggregateFunction::MakeList | AggregateFunction::MakeSet => Types::ARRAY,
    }
}

fn is_nan(node: &Node) -> bool {
    matches!(node, Node::Constant(value) if value.as_number().is_some_and(|n| n.as_f64().is_nan()))
}

fn negated(types: Types) -> Types {
    Types::TRUE
        .when(types.may_be(Types::FALSE))
        .or(Types::FALSE.when(types.may_be(Types::TRUE)))
        .or(Types::UNDEFINED.when(types.may_be(Types::ANY.without(Types::BOOL))))
}

/// `result` of operands of one type, undefined of others.
fn only(types: Types, operand: Types, result: Types) -> Types {
    result
        .when(types.may_be(operand))
        .or(Types::UNDEFINED.when(types.may_be(Types::ANY.without(operand))))
}

/// The result of two operands that must both fit.
fn all_of(a: Types, b: Types) -> Types {
    let defined = a.and(b).without(Types::UNDEFINED);
    defined.or(Types::UNDEFINED.when(a.or(b).may_be(Types::UNDEFINED)))
}

/// `<` and its kin: true or false of two values of one type that has an order.
fn ordered(a: Types, b: Types) -> Types {
    let (a, b) = (a.with_both_booleans(), b.with_both_booleans());
    let common = a.and(b).and(Types::ORDERED);
    let others = a.or(b).without(common).may_be(Types::ANY) || (a != b);
    Types::BOOL.when(common != Types::NONE).or(Types::UNDEFINED
        .when(others || common == Types::NONE || a.may_be(Types::UNDEFINED.or(Types::ARRAY))))
}
