//! What a filter asks of single paths. A condition holds for every item that yields a row, and
//! possibly for others: the filter itself always decides. Where it holds for no others it is
//! *exact*, and counting index entries is counting items.

use std::collections::HashMap;
use std::sync::Arc;

use orrery_index::IndexStep;
use orrery_index::value_range::{Kind, ValueRange};
use orrery_types::{Value, limits};

use crate::ast::{BinaryOp, SubqueryKind, UnaryOp};
use crate::bound::{BoundSelect, List, Node, OneOf, Origin, Projection, Slot, Step};
use crate::functions::Function;
use crate::functions::like::literal_prefix;

/// Steps from the root of the item.
pub type ItemPath = Arc<[IndexStep]>;

/// What must hold for an item to yield a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Nothing is known.
    All,
    /// No item can.
    Nothing,
    /// The item has, at the path, a value in one of the ranges.
    Values(Values),
    /// All of them, two at least.
    And(Vec<Condition>),
    /// One of them, of two at least.
    Or(Vec<Condition>),
}

/// See [`Condition::Values`].
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Values {
    pub path: ItemPath,
    pub ranges: Vec<ValueRange>,
}

/// A condition, and whether it says all that the filter says.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the summary says it")]
pub struct Filter {
    pub condition: Condition,
    pub exact: bool,
}

impl Filter {
    const UNKNOWN: Self = Self { condition: Condition::All, exact: false };
    const NEVER: Self = Self { condition: Condition::Nothing, exact: true };
    const ALWAYS: Self = Self { condition: Condition::All, exact: true };
}

/// Whether a path goes through the elements of an array, so that an item may have many values there.
pub fn is_plural(path: &[IndexStep]) -> bool {
    path.iter().any(|step| !matches!(step, IndexStep::Property(_)))
}

/// Which paths the slots of a query stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    of_slots: HashMap<Slot, Vec<IndexStep>>,
}

impl Paths {
    /// The path that an expression is, if it is one.
    pub(crate) fn of(&self, node: &Node) -> Option<ItemPath> {
        let Node::Path(slot, steps) = node else { return None };
        let mut path = self.of_slots.get(slot)?.clone();
        path.extend(steps.iter().map(|step| match step {
            Step::Name(name) => IndexStep::Property((&**name).into()),
            Step::Index(_) => IndexStep::Elements,
        }));
        Some(path.into())
    }
}

/// What the filters of a query, and of the subquery it reads from, ask of the item.
pub(crate) fn of_select(select: &BoundSelect, item: Slot) -> (Filter, Paths) {
    let mut paths = Paths::default();
    paths.of_slots.insert(item, Vec::new());
    let filter = select_filter(select, &mut paths, item);
    (filter, paths)
}

fn select_filter(select: &BoundSelect, paths: &mut Paths, item: Slot) -> Filter {
    let mut parts = Vec::new();
    for source in &select.sources {
        match &source.origin {
            Origin::Value(node) => {
                let Some(path) = paths.of(node) else {
                    parts.push(Filter::UNKNOWN);
                    continue;
                };
                let whole = source.slot == item && path.is_empty();
                let mut steps = path.to_vec();
                if source.iterates {
                    steps.push(IndexStep::Elements);
                }
                if !whole {
                    // Without a value there, or an element, there is no row.
                    parts.push(Filter {
                        exact: false,
                        ..one(steps.clone().into(), ValueRange::Defined)
                    });
                }
                paths.of_slots.insert(source.slot, steps);
            }
            Origin::Rows(inner) if inner.grouping.is_none() => {
                parts.push(Filter { exact: false, ..select_filter(inner, paths, item) });
                if let Projection::Value(node) = &inner.projection
                    && let Some(path) = paths.of(node)
                {
                    let mut steps = path.to_vec();
                    if source.iterates {
                        steps.push(IndexStep::Elements);
                    }
                    paths.of_slots.insert(source.slot, steps);
                }
            }
            Origin::Rows(_) => parts.push(Filter::UNKNOWN),
        }
    }
    if let Some(filter) = &select.filter {
        parts.push(Reader { paths, item }.truth(filter, true));
    }
    and(parts)
}

fn one(path: ItemPath, range: ValueRange) -> Filter {
    many(path, vec![range])
}

fn many(path: ItemPath, ranges: Vec<ValueRange>) -> Filter {
    let ranges: Vec<ValueRange> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    if ranges.is_empty() {
        return Filter::NEVER;
    }
    // An item may have several values at a plural path, and the filter may mean another one.
    let exact = !is_plural(&path);
    Filter { condition: Condition::Values(Values { path, ranges }), exact }
}

/// All of the parts.
pub(crate) fn and(parts: Vec<Filter>) -> Filter {
    let exact = parts.iter().all(|part| part.exact);
    let mut list: Vec<Condition> = Vec::new();
    let mut pending: Vec<Condition> = parts.into_iter().rev().map(|p| p.condition).collect();
    while let Some(part) = pending.pop() {
        match part {
            Condition::All => {}
            Condition::Nothing => return Filter::NEVER,
            Condition::And(inner) => pending.extend(inner.into_iter().rev()),
            Condition::Values(values) => {
                if !narrow(&mut list, values) {
                    return Filter::NEVER;
                }
            }
            other @ Condition::Or(_) => list.push(other),
        }
    }
    let condition = match list.len() {
        0 => Condition::All,
        1 => list.remove(0),
        _ => Condition::And(list),
    };
    Filter { condition, exact }
}

/// Adds a condition on values to a conjunction, together with one on the same path if both are
/// about the one value that exists. False if nothing can satisfy both.
fn narrow(list: &mut Vec<Condition>, values: Values) -> bool {
    let single = !is_plural(&values.path);
    for condition in list.iter_mut().filter(|_| single) {
        let Condition::Values(own) = condition else { continue };
        if own.path != values.path {
            continue;
        }
        if own.ranges == [ValueRange::Defined] {
            *own = values;
            return true;
        }
        if values.ranges == [ValueRange::Defined] {
            return true;
        }
        if let ([a], [b]) = (own.ranges.as_slice(), values.ranges.as_slice())
            && let Some(both) = a.and(b)
        {
            if both.is_empty() {
                return false;
            }
            own.ranges = vec![both];
            return true;
        }
    }
    list.push(Condition::Values(values));
    true
}

/// Any of the parts.
fn or(parts: Vec<Filter>) -> Filter {
    let exact = parts.iter().all(|part| part.exact);
    let mut list: Vec<Condition> = Vec::new();
    let mut spans_of: HashMap<ItemPath, usize> = HashMap::new();
    let mut pending: Vec<Condition> = parts.into_iter().rev().map(|p| p.condition).collect();
    while let Some(part) = pending.pop() {
        match part {
            Condition::Nothing => {}
            Condition::All => return Filter { condition: Condition::All, exact },
            Condition::Or(inner) => pending.extend(inner.into_iter().rev()),
            Condition::Values(values) => {
                let at = *spans_of.entry(values.path.clone()).or_insert(list.len());
                if let Some(Condition::Values(own)) = list.get_mut(at) {
                    own.ranges.extend(values.ranges);
                } else {
                    list.push(Condition::Values(values));
                }
            }
            other @ Condition::And(_) => list.push(other),
        }
    }
    let condition = match list.len() {
        0 => Condition::Nothing,
        1 => list.remove(0),
        _ => Condition::Or(list),
    };
    if terms(&condition) > limits::QUERY_TERMS_MAX {
        return Filter::UNKNOWN;
    }
    Filter { condition, exact }
}

/// Spans in a condition.
fn terms(condition: &Condition) -> usize {
    match condition {
        Condition::All | Condition::Nothing => 0,
        Condition::Values(values) => values.ranges.len(),
        Condition::And(list) | Condition::Or(list) => list.iter().map(terms).sum(),
    }
}

struct Reader<'p> {
    paths: &'p mut Paths,
    item: Slot,
}

impl Reader<'_> {
    /// What must hold for an expression to be `true`, or to be `false`.
    fn truth(&mut self, node: &Node, wanted: bool) -> Filter {
        match node {
            Node::Constant(value) if *value == Value::Bool(wanted) => Filter::ALWAYS,
            Node::Constant(_) => Filter::NEVER,
            Node::Unary(UnaryOp::Not, operand) => self.truth(operand, !wanted),
            Node::And(list) | Node::Or(list) => {
                // One false operand makes AND false, as one true operand makes OR true.
                let each = list.iter().map(|operand| self.truth(operand, wanted)).collect();
                if matches!(node, Node::And(_)) == wanted { and(each) } else { or(each) }
            }
            Node::OneOf(one_of) if wanted => self.one_of(one_of),
            Node::Path(..) => match self.paths.of(node) {
                Some(path) => one(path, ValueRange::Point(Value::Bool(wanted))),
                None => Filter::UNKNOWN,
            },
            Node::Binary(op, parts) => self.binary(*op, parts, wanted),
            Node::In { needle, list, negated } => self.membership(needle, list, wanted != *negated),
            Node::Between { parts, negated } => self.between(parts, wanted != *negated),
            Node::Like { parts, escape, negated } => self.like(parts, *escape, wanted != *negated),
            Node::Call(function, arguments) => self.call(function, arguments, wanted),
            Node::Subquery(SubqueryKind::Exists, select) if wanted => {
                let filter = select_filter(select, self.paths, self.item);
                match &select.grouping {
                    None => Filter { exact: false, ..filter },
                    Some(_) => Filter::UNKNOWN,
                }
            }
            _ => Filter::UNKNOWN,
        }
    }

    /// Each path has one of its values. Which of them go together is left to the filter: asking the
    /// index for each list of values by itself would take longer.
    fn one_of(&self, one_of: &OneOf) -> Filter {
        let column = |(at, node): (usize, &Node)| {
            let Some(path) = self.paths.of(node) else { return Filter::UNKNOWN };
            let mut values: Vec<&Value> = one_of.column(at).collect();
            values.sort_unstable();
            values.dedup();
            if values.len() > limits::QUERY_TERMS_MAX {
                return Filter { exact: false, ..one(path, ValueRange::Defined) };
            }
            many(path, values.into_iter().map(point).collect())
        };
        let parts = one_of.paths.iter().enumerate().map(column).collect();
        Filter { exact: false, ..and(parts) }
    }

    fn binary(&self, op: BinaryOp, parts: &[Node; 2], wanted: bool) -> Filter {
        let (path, value, turned) = match parts {
            [of, Node::Constant(value)] => (self.paths.of(of), value, false),
            [Node::Constant(value), of] => (self.paths.of(of), value, true),
            [a, b] => {
                if !is_comparison(op) {
                    return Filter::UNKNOWN;
                }
                // Whatever the two are, they are there.
                let defined = [a, b].map(|node| match self.paths.of(node) {
                    Some(path) => Filter { exact: false, ..one(path, ValueRange::Defined) },
                    None => Filter::UNKNOWN,
                });
                return and(defined.into());
            }
        };
        let Some(path) = path else { return Filter::UNKNOWN };
        comparison(path, op, value, turned, wanted)
    }

    fn membership(&self, needle: &Node, list: &List, wanted: bool) -> Filter {
        let Some(path) = self.paths.of(needle) else { return Filter::UNKNOWN };
        let List::Set(set) = list else {
            return Filter { exact: false, ..one(path, ValueRange::Defined) };
        };
        if !wanted {
            return Filter { exact: false, ..one(path, ValueRange::Defined) };
        }
        if set.len() > limits::QUERY_TERMS_MAX {
            return Filter::UNKNOWN;
        }
        let mut values: Vec<&Value> = set.iter().filter(|v| !v.is_undefined()).collect();
        values.sort_unstable();
        let exact = values.iter().all(|v| v.type_rank() <= 4);
        let mut ranges: Vec<ValueRange> = values.into_iter().map(point).collect();
        ranges.dedup();
        let filter = many(path, ranges);
        Filter { exact: filter.exact && exact, ..filter }
    }

    fn between(&self, parts: &[Node; 3], wanted: bool) -> Filter {
        let [of, Node::Constant(low), Node::Constant(high)] = parts else { return Filter::UNKNOWN };
        let Some(path) = self.paths.of(of) else { return Filter::UNKNOWN };
        let side = |op, value| comparison(path.clone(), op, value, false, true);
        if wanted && is_plural(&path) {
            // Both ends are about the same element.
            let ends = ValueRange::comparison(low, false, true)
                .zip(ValueRange::comparison(high, true, true));
            return match ends.and_then(|(a, b)| a.and(&b)) {
                Some(range) => many(path, vec![range]),
                None => Filter::NEVER,
            };
        }
        if wanted {
            return and(vec![
                side(BinaryOp::GreaterOrEqual, low),
                side(BinaryOp::LessOrEqual, high),
            ]);
        }
        or(vec![side(BinaryOp::Less, low), side(BinaryOp::Greater, high)])
    }

    fn like(&self, parts: &[Node; 2], escape: Option<char>, wanted: bool) -> Filter {
        let [of, Node::Constant(pattern)] = parts else { return Filter::UNKNOWN };
        let Some(pattern) = pattern.as_str() else { return Filter::NEVER };
        let Some(path) = self.paths.of(of) else { return Filter::UNKNOWN };
        if !wanted {
            return Filter { exact: false, ..one(path, ValueRange::Type(Kind::String)) };
        }
        let (prefix, whole) = literal_prefix(pattern, escape);
        let filter = one(path, ValueRange::Prefix(prefix.into()));
        Filter { exact: filter.exact && whole, ..filter }
    }

    fn call(&self, function: &Function, arguments: &[Node], wanted: bool) -> Filter {
        let Some(path) = arguments.first().and_then(|of| self.paths.of(of)) else {
            return Filter::UNKNOWN;
        };
        let kind = match function.name {
            "IS_DEFINED" => {
                return if wanted { one(path, ValueRange::Defined) } else { Filter::UNKNOWN };
            }
            "IS_NULL" => Kind::Null,
            "IS_BOOL" | "IS_BOOLEAN" => Kind::Bool,
            "IS_NUMBER" | "IS_INTEGER" | "IS_FINITE_NUMBER" => Kind::Number,
            "IS_STRING" | "IS_DATETIME" => Kind::String,
            "IS_ARRAY" => Kind::Array,
            "IS_OBJECT" => Kind::Object,
            "IS_PRIMITIVE" => Kind::Primitive,
            "ARRAY_CONTAINS" => return contains(&path, arguments, wanted),
            "STARTSWITH" | "StringEquals" | "ENDSWITH" | "CONTAINS" | "RegexMatch" => {
                return text_test(path, function.name, arguments, wanted);
            }
            _ => return Filter::UNKNOWN,
        };
        if !wanted {
            return Filter::UNKNOWN;
        }
        let vague = matches!(function.name, "IS_INTEGER" | "IS_FINITE_NUMBER" | "IS_DATETIME");
        let filter = one(path, ValueRange::Type(kind));
        Filter { exact: filter.exact && !vague, ..filter }
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    matches!(op, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
}

fn point(value: &Value) -> ValueRange {
    match value {
        Value::Array(_) => ValueRange::Type(Kind::Array),
        Value::Object(_) => ValueRange::Type(Kind::Object),
        scalar => ValueRange::Point(scalar.clone()),
    }
}

/// A comparison of a path with a constant; `turned` if the constant stood on the left.
fn comparison(path: ItemPath, op: BinaryOp, value: &Value, turned: bool, wanted: bool) -> Filter {
    use BinaryOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    if value.is_undefined() && is_comparison(op) {
        return Filter::NEVER;
    }
    // Below the constant, and the constant itself.
    let (below, included) = match op {
        Equal | NotEqual if (op == Equal) == wanted => {
            let exact = value.type_rank() <= 4;
            let filter = one(path, point(value));
            return Filter { exact: filter.exact && exact, ..filter };
        }
        Equal | NotEqual => return Filter { exact: false, ..one(path, ValueRange::Defined) },
        Less => (true, false),
        LessOrEqual => (true, true),
        Greater => (false, false),
        GreaterOrEqual => (false, true),
        _ => return Filter::UNKNOWN,
    };
    let below = below != turned;
    // What is comparable and not below is above or the constant itself.
    let (below, included) = if wanted { (below, included) } else { (!below, !included) };
    match ValueRange::comparison(value, below, included) {
        Some(range) => one(path, range),
        None => Filter::NEVER,
    }
}

/// A constant flag that says no, or is not there.
fn is_off(argument: Option<&Node>) -> bool {
    matches!(argument, None | Some(Node::Constant(Value::Bool(false))))
}

fn contains(path: &ItemPath, arguments: &[Node], wanted: bool) -> Filter {
    if !wanted {
        return Filter { exact: false, ..one(path.clone(), ValueRange::Type(Kind::Array)) };
    }
    let elements = || path.iter().cloned().chain([IndexStep::Elements]);
    match arguments.get(1) {
        Some(Node::Constant(Value::Undefined)) => Filter::NEVER,
        Some(Node::Constant(Value::Object(wanted))) if !is_off(arguments.get(2)) => {
            let mut parts = vec![one(elements().collect(), ValueRange::Type(Kind::Object))];
            for (name, value) in wanted.iter() {
                let path = elements().chain([IndexStep::Property((&**name).into())]).collect();
                parts.push(one(path, point(value)));
            }
            Filter { exact: false, ..and(parts) }
        }
        Some(Node::Constant(value)) => one(elements().collect(), point(value)),
        _ => Filter { exact: false, ..one(elements().collect(), ValueRange::Defined) },
    }
}

fn text_test(path: ItemPath, name: &str, arguments: &[Node], wanted: bool) -> Filter {
    let strings = |path| Filter { exact: false, ..one(path, ValueRange::Type(Kind::String)) };
    let Some(Node::Constant(text)) = arguments.get(1) else { return strings(path) };
    let Some(text) = text.as_str() else { return Filter::NEVER };
    if !wanted || !is_off(arguments.get(2)) {
        return strings(path);
    }
    match name {
        "STARTSWITH" => one(path, ValueRange::Prefix(text.into())),
        "StringEquals" => one(path, ValueRange::Point(Value::string(text))),
        _ => strings(path),
    }
}
