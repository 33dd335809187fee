//! The values that a filter allows one path of the item: of every part of the filter, the values with
//! which it may be true or may be false. What is not understood allows all, so a set is never too small.

use orrery_types::{PropertyPath, Value};

use super::types::{Inference, Types};
use super::value_set::ValueSet;
use crate::ast::{BinaryOp, SubqueryKind, UnaryOp};
use crate::bound::{BoundSelect, List, Node, Origin, Projection, Slot, Step};
use crate::functions::string::{lower, upper};

/// Ranges that a set may have before further conditions are passed over.
const RANGES_MAX: usize = 1_000;
/// Letters of a text whose spellings in either case are tried.
const LETTERS_MAX: usize = 5;

/// One path of the item, and what is known of the query.
pub(super) struct KeyPath<'q> {
    pub(super) inference: &'q Inference<'q>,
    pub(super) item: Slot,
    pub(super) path: &'q PropertyPath,
}

impl KeyPath<'_> {
    /// The values that the path must have for a row to come out.
    pub(super) fn allowed(&self, select: &BoundSelect) -> ValueSet {
        let mut set = match &select.filter {
            Some(filter) => self.when(filter, true),
            None => ValueSet::all(),
        };
        for source in &select.sources {
            if let Origin::Rows(rows) = &source.origin
                && !rows.always_gives_a_row()
            {
                set = set.intersection(&self.allowed(rows));
            }
        }
        set
    }

    fn is_path(&self, node: &Node) -> bool {
        let Some(steps) = self.inference.item_path(node, self.item) else { return false };
        let names = steps.iter().map(|step| match step {
            Step::Name(name) => Some(&**name),
            Step::Index(_) => None,
        });
        names.eq(self.path.segments().iter().map(|segment| Some(&**segment)))
    }

    /// The values with which an expression may be the boolean `wanted`.
    fn when(&self, node: &Node, wanted: bool) -> ValueSet {
        let types = self.inference.types(node);
        if !types.may_be(if wanted { Types::TRUE } else { Types::FALSE }) {
            return ValueSet::none();
        }
        match node {
            _ if self.is_path(node) => ValueSet::point(&wanted.into()),
            Node::Unary(UnaryOp::Not, of) => self.when(of, !wanted),
            Node::And(operands) if wanted => self.common(operands, wanted),
            Node::Or(operands) if !wanted => self.common(operands, wanted),
            Node::And(operands) | Node::Or(operands) => {
                ValueSet::union(operands.iter().map(|o| self.when(o, wanted)).collect())
            }
            Node::Binary(op, parts) => self.binary(*op, parts, wanted),
            Node::In { needle, list: List::Set(set), negated } => {
                if wanted != *negated {
                    let each = set.iter().map(|value| self.equal(needle, value));
                    ValueSet::union(each.collect())
                } else if self.is_path(needle) {
                    ValueSet::points(set.iter()).others()
                } else {
                    ValueSet::all()
                }
            }
            Node::OneOf(one_of) if wanted => {
                match one_of.paths.iter().position(|path| self.is_path(path)) {
                    Some(at) => ValueSet::points(one_of.column(at)),
                    None => ValueSet::all(),
                }
            }
            Node::Between { parts, negated } => self.between(parts, wanted != *negated),
            Node::Like { parts, escape: None, negated } => {
                self.like(&parts[0], &parts[1], wanted != *negated)
            }
            Node::Conditional(parts) => self.conditional(&parts[0], &parts[1], &parts[2], wanted),
            Node::Call(function, arguments) => self.call(function.name, arguments, wanted),
            Node::Subquery(SubqueryKind::Exists, select)
                if wanted && select.sources.is_empty() && !select.always_gives_a_row() =>
            {
                select.filter.as_ref().map_or_else(ValueSet::all, |filter| self.when(filter, true))
            }
            _ => ValueSet::all(),
        }
    }

    fn common(&self, operands: &[Node], wanted: bool) -> ValueSet {
        let mut set = ValueSet::all();
        for operand in operands {
            if set.len() > RANGES_MAX {
                break;
            }
            set = set.intersection(&self.when(operand, wanted));
        }
        set
    }

    fn conditional(&self, condition: &Node, yes: &Node, no: &Node, wanted: bool) -> ValueSet {
        let yes = self.when(condition, true).intersection(&self.when(yes, wanted));
        let no = self.unless(condition).intersection(&self.when(no, wanted));
        ValueSet::union(vec![yes, no])
    }

    /// The values with which an expression is not surely true.
    fn unless(&self, node: &Node) -> ValueSet {
        match node {
            Node::Binary(BinaryOp::Equal | BinaryOp::NotEqual, parts)
                if parts.iter().any(|part| self.is_path(part))
                    && parts.iter().any(|part| matches!(part, Node::Constant(_))) =>
            {
                self.when(node, true).complement()
            }
            _ => ValueSet::all(),
        }
    }

    fn binary(&self, op: BinaryOp, parts: &[Node; 2], wanted: bool) -> ValueSet {
        let [a, b] = parts;
        if op == BinaryOp::Coalesce {
            return ValueSet::union(vec![self.when(a, wanted), self.when(b, wanted)]);
        }
        let (of, value, op) = match (subquery_or_constant(a), subquery_or_constant(b)) {
            (_, Some(value)) => (a, value, op),
            (Some(value), None) => (b, value, mirrored(op)),
            (None, None) => return ValueSet::all(),
        };
        match op {
            BinaryOp::Equal if wanted => self.equal(of, value),
            BinaryOp::NotEqual if !wanted => self.equal(of, value),
            BinaryOp::Equal | BinaryOp::NotEqual => match value {
                Value::Bool(b) if self.is_boolean(of) => self.when(of, !b),
                _ if self.is_path(of) => ValueSet::point(value).others(),
                Value::String(_) if self.is_spelling(of) => {
                    let strings = ValueSet::of_rank(value.type_rank());
                    match self.equal(of, value) {
                        // Too many spellings to list: any text may be another one.
                        equal if equal == ValueSet::all() => strings,
                        equal => strings.intersection(&equal.others()),
                    }
                }
                _ => ValueSet::all(),
            },
            _ if !self.is_path(of) => ValueSet::all(),
            BinaryOp::Less | BinaryOp::LessOrEqual => {
                let below = wanted;
                side(value, below, (op == BinaryOp::LessOrEqual) == below)
            }
            BinaryOp::Greater | BinaryOp::GreaterOrEqual => {
                let below = !wanted;
                side(value, below, (op == BinaryOp::GreaterOrEqual) != below)
            }
            _ => ValueSet::all(),
        }
    }

    /// The values with which an expression may equal a constant.
    fn equal(&self, of: &Node, value: &Value) -> ValueSet {
        if value.is_undefined() {
            return ValueSet::none();
        }
        if self.is_path(of) {
            return ValueSet::point(value);
        }
        match (of, value) {
            (Node::Constant(own), _) if own == value => ValueSet::all(),
            (Node::Constant(_), _) => ValueSet::none(),
            (Node::Binary(BinaryOp::Coalesce, parts), _) => match &parts[1] {
                Node::Constant(other) if other != value => self.equal(&parts[0], value),
                _ => ValueSet::all(),
            },
            (Node::Binary(BinaryOp::Add, parts), Value::Number(sum)) => match &**parts {
                [of, Node::Constant(Value::Number(n))] | [Node::Constant(Value::Number(n)), of]
                    if self.is_path(of) && are_exact(sum.as_f64(), n.as_f64()) =>
                {
                    ValueSet::point(&(sum.as_f64() - n.as_f64()).into())
                }
                _ => ValueSet::all(),
            },
            (Node::Array(list), Value::Array(values)) if list.len() == values.len() => {
                self.equal_all(list.iter().zip(values.iter()))
            }
            (Node::Object(list), Value::Object(object)) if list.len() == object.len() => {
                let pairs: Option<Vec<(&Node, &Value)>> =
                    list.iter().map(|(name, node)| Some((node, object.get(name)?))).collect();
                pairs.map_or_else(ValueSet::none, |pairs| self.equal_all(pairs.into_iter()))
            }
            (Node::Subquery(SubqueryKind::Scalar, select), _) => match &select.projection {
                Projection::Value(of) if select.sources.is_empty() => self.equal(of, value),
                _ => ValueSet::all(),
            },
            (Node::Call(function, arguments), _) => {
                self.equal_call(function.name, arguments, value)
            }
            (_, Value::Bool(wanted)) if self.inference.types(of).may_be(Types::BOOL) => {
                self.when(of, *wanted)
            }
            _ => ValueSet::all(),
        }
    }

    fn equal_all<'n>(&self, pairs: impl Iterator<Item = (&'n Node, &'n Value)>) -> ValueSet {
        pairs.fold(ValueSet::all(), |set, (node, value)| set.intersection(&self.equal(node, value)))
    }

    /// Whether it is a boolean wherever it is defined.
    fn is_boolean(&self, node: &Node) -> bool {
        !self.inference.types(node).may_be(Types::DEFINED.without(Types::BOOL))
    }

    /// Whether it is the path in another case.
    fn is_spelling(&self, node: &Node) -> bool {
        let Node::Call(function, arguments) = node else { return false };
        matches!(function.name, "LOWER" | "UPPER") && self.is_path(&arguments[0])
    }

    fn equal_call(&self, name: &str, arguments: &[Node], value: &Value) -> ValueSet {
        match (name, arguments, value) {
            ("LOWER" | "UPPER", [of], Value::String(text)) if self.is_path(of) => {
                let folded = if name == "LOWER" { lower(text) } else { upper(text) };
                if folded == **text { spellings(text) } else { ValueSet::none() }
            }
            ("ABS", [of], Value::Number(n)) if self.is_path(of) && n.as_f64() >= 0.0 => {
                let both = [n.as_f64().into(), (-n.as_f64()).into()];
                ValueSet::points(both.iter())
            }
            ("LEFT", [of, Node::Constant(length)], Value::String(text)) if self.is_path(of) => {
                let is_whole = length.as_i64() == i64::try_from(text.encode_utf16().count()).ok();
                if is_whole { ValueSet::prefixed(text) } else { ValueSet::all() }
            }
            (_, _, Value::Bool(wanted)) => self.call(name, arguments, *wanted),
            _ => ValueSet::all(),
        }
    }

    fn between(&self, parts: &[Node; 3], wanted: bool) -> ValueSet {
        let bounds = [subquery_or_constant(&parts[1]), subquery_or_constant(&parts[2])];
        if !self.is_path(&parts[0]) {
            return ValueSet::all();
        }
        let low = bounds[0].map(|value| side(value, false, true));
        let high = bounds[1].map(|value| side(value, true, true));
        if wanted {
            let all = ValueSet::all();
            return low.as_ref().unwrap_or(&all).intersection(high.as_ref().unwrap_or(&all));
        }
        let (Some(low), Some(high)) = (bounds[0], bounds[1]) else { return ValueSet::all() };
        ValueSet::union(vec![side(low, true, false), side(high, false, false)])
    }

    fn like(&self, of: &Node, pattern: &Node, wanted: bool) -> ValueSet {
        let Node::Constant(value @ Value::String(pattern)) = pattern else {
            return ValueSet::all();
        };
        if !self.is_path(of) {
            return ValueSet::all();
        }
        let is_plain = !pattern.contains(['%', '_', '[']);
        match pattern.strip_suffix('%') {
            _ if is_plain && wanted => ValueSet::point(value),
            _ if is_plain => {
                ValueSet::of_rank(value.type_rank()).intersection(&ValueSet::point(value).others())
            }
            Some(prefix) if wanted && !prefix.contains(['%', '_', '[']) => {
                ValueSet::prefixed(prefix)
            }
            _ => ValueSet::all(),
        }
    }

    fn call(&self, name: &str, arguments: &[Node], wanted: bool) -> ValueSet {
        match (name, arguments) {
            ("IIF", [condition, yes, no]) => self.conditional(condition, yes, no, wanted),
            (
                "StringEquals",
                [of, Node::Constant(value)]
                | [Node::Constant(value), of]
                | [of, Node::Constant(value), Node::Constant(Value::Bool(false))],
            ) if self.is_path(of) && wanted => ValueSet::point(value),
            (
                "StringEquals",
                [of, Node::Constant(Value::String(text)), Node::Constant(Value::Bool(true))],
            ) if self.is_path(of) && wanted => spellings(text),
            ("STARTSWITH", [of, Node::Constant(Value::String(text))])
                if self.is_path(of) && wanted =>
            {
                ValueSet::prefixed(text)
            }
            ("ARRAY_CONTAINS" | "ARRAY_CONTAINS_ANY", [Node::Constant(list), of, ..])
                if wanted && self.is_path(of) && arguments.len() < 4 =>
            {
                listed(name, list, arguments)
            }
            (_, [of]) if self.is_path(of) => {
                let set = match name {
                    "IS_NULL" => ValueSet::of_rank(1),
                    "IS_BOOL" | "IS_BOOLEAN" => ValueSet::of_rank(2),
                    "IS_NUMBER" => ValueSet::of_rank(3),
                    "IS_STRING" => ValueSet::of_rank(4),
                    "IS_ARRAY" => ValueSet::of_rank(5),
                    "IS_OBJECT" => ValueSet::of_rank(6),
                    "IS_DEFINED" => ValueSet::defined(),
                    "IS_PRIMITIVE" => ValueSet::union((1..5).map(ValueSet::of_rank).collect()),
                    _ => return ValueSet::all(),
                };
                if wanted { set } else { set.complement() }
            }
            _ => ValueSet::all(),
        }
    }
}

/// The elements of a list of constants that a path is looked for in.
fn listed(name: &str, list: &Value, arguments: &[Node]) -> ValueSet {
    let is_any = name == "ARRAY_CONTAINS_ANY";
    let simple = match arguments.get(2) {
        None => true,
        Some(Node::Constant(Value::Bool(_))) => !is_any,
        Some(_) => false,
    };
    match list.as_array() {
        Some(values) if simple => ValueSet::points(values.iter()),
        _ => ValueSet::all(),
    }
}

fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        other => other,
    }
}

/// The values on one side of a constant, within its type; arrays and objects have no order.
fn side(value: &Value, below: bool, inclusive: bool) -> ValueSet {
    match value.type_rank() {
        1..=4 if below => ValueSet::below(value, inclusive),
        1..=4 => ValueSet::above(value, inclusive),
        _ => ValueSet::none(),
    }
}

/// The constant that a subquery without FROM selects.
fn subquery_constant(node: &Node) -> Option<&Value> {
    let Node::Subquery(SubqueryKind::Scalar, select) = node else { return None };
    match &select.projection {
        Projection::Value(Node::Constant(value))
            if select.sources.is_empty() && select.filter.is_none() =>
        {
            Some(value)
        }
        _ => None,
    }
}

fn subquery_or_constant(node: &Node) -> Option<&Value> {
    match node {
        Node::Constant(value) => Some(value),
        other => subquery_constant(other),
    }
}

/// Whether only one number gives a sum together with another: whole numbers that doubles tell apart.
fn are_exact(sum: f64, addend: f64) -> bool {
    let is_exact = |n: f64| n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0 / 2.0;
    is_exact(sum) && is_exact(addend)
}

/// Every spelling of a text in either case, while they are few. Letters beyond ASCII may have others
/// than their own two, and so have `k`, `s` and `i`, of which a sign for kelvin, a long `s` and an `i`
/// without dot are spellings.
fn spellings(text: &str) -> ValueSet {
    if !text.is_ascii() || text.chars().filter(char::is_ascii_alphabetic).count() > LETTERS_MAX {
        return ValueSet::all();
    }
    let mut all = vec![String::new()];
    for c in text.chars() {
        let mut forms = vec![c.to_ascii_lowercase(), c.to_ascii_uppercase()];
        forms.dedup();
        forms.extend(match c.to_ascii_lowercase() {
            'k' => Some('\u{212a}'),
            's' => Some('\u{17f}'),
            'i' => Some('\u{131}'),
            _ => None,
        });
        all =
            all.iter().flat_map(|start| forms.iter().map(move |f| format!("{start}{f}"))).collect();
    }
    let values: Vec<Value> = all.into_iter().map(Value::from).collect();
    ValueSet::points(values.iter())
}
