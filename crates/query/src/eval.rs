//! The value of an expression for one row, with undefined kept apart from null throughout. The
//! evaluator also counts the work and memory of an execution, so that nothing a query says can
//! run or grow without bound.

use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::Arc;

use orrery_types::{Exceeded, ExecutionBudget, Number, Object, Value};

use crate::ast::{BinaryOp, SubqueryKind, UnaryOp};
use crate::bound::{BoundSelect, List, Node, OneOf, Step};
use crate::error::QueryError;
use crate::exec;
use crate::functions::{Function, Host, UndefinedRule};
use crate::memory::{EvaluationMemory, heap_bytes, shallow_bytes};
use crate::relation::{Follow, RelationHost};
use crate::sort_value::SortValue;

/// User-defined functions, as the engine runs them.
pub trait UdfHost {
    /// Calls a function; `Value::Undefined` may come and go. The error text is for the sender of
    /// the query.
    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String>;
}

/// What an execution has beside its query and its items.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// How much it may use.
    pub budget: &'a ExecutionBudget<'a>,
    /// The current time, microseconds since 1970. It stands still during one execution.
    pub now_us: i64,
    /// Where RAND starts.
    pub seed: u64,
    /// User-defined functions, if there are any.
    pub udfs: Option<&'a dyn UdfHost>,
    /// Follows relations, if there are any.
    pub relations: Option<&'a dyn RelationHost>,
}

impl<'a> EvalContext<'a> {
    /// Without functions and relations, at the beginning of 1970.
    pub fn new(budget: &'a ExecutionBudget<'a>) -> Self {
        Self { budget, now_us: 0, seed: 0x9e37_79b9_7f4a_7c15, udfs: None, relations: None }
    }
}

/// The values of all slots.
pub(crate) type Env = Vec<Value>;

/// One execution.
pub(crate) struct Evaluator<'a> {
    context: &'a EvalContext<'a>,
    host: Host,
    pub(crate) budget: &'a ExecutionBudget<'a>,
    /// Steps that the budget had spent before.
    steps_before: u64,
    passed: Cell<u64>,
    pub(crate) memory: EvaluationMemory<'a>,
    /// Rows that need not be looked at.
    pub(crate) skips: exec::Skips,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(context: &'a EvalContext<'a>) -> Self {
        Self {
            context,
            host: Host::new(context.now_us, context.seed),
            budget: context.budget,
            steps_before: context.budget.steps(),
            passed: Cell::new(0),
            memory: EvaluationMemory::new(context.budget),
            skips: exec::Skips::default(),
        }
    }

    /// Follows relations.
    pub(crate) fn relations(&self) -> Option<&'a dyn RelationHost> {
        self.context.relations
    }

    /// Steps taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.budget.steps() - self.steps_before
    }

    /// Counts a row that passed the filter.
    pub(crate) fn pass(&self) {
        self.passed.set(self.passed.get() + 1);
    }

    /// Rows that passed the filter.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.get()
    }

    /// Whether the page should end behind the item at hand.
    pub(crate) fn is_page_over(&self) -> bool {
        let relations_spent = self.context.relations.is_some_and(RelationHost::end_item);
        relations_spent || self.budget.is_page_over()
    }

    /// Counts work.
    #[inline]
    pub(crate) fn work(&self, steps: u64) -> Result<(), QueryError> {
        Ok(self.budget.step(steps)?)
    }

    /// Counts a value that is kept until the end, and what it is kept in.
    pub(crate) fn keep(&self, value: &Value, beside_bytes: usize) -> Result<(), QueryError> {
        self.memory.keep(heap_bytes(value, self.memory.left()).saturating_add(beside_bytes))
    }

    /// Refuses a value that holds the same large part so many times that it is small in memory
    /// and without end when it is compared or written.
    fn check_breadth(&self, value: Value, parts: usize) -> Result<Value, QueryError> {
        let max = self.budget.limits().bytes_max;
        if parts > 1 && size_bytes(&value, max) >= max {
            Err(Exceeded::Bytes.into())
        } else {
            Ok(value)
        }
    }

    /// The value of a node.
    pub(crate) fn eval(&self, node: &Node, env: &mut Env) -> Result<Value, QueryError> {
        self.work(1)?;
        Ok(match node {
            Node::Constant(value) => value.clone(),
            Node::Path(slot, steps) => follow(&env[*slot], steps).clone(),
            Node::Step(of, step) => {
                if let Step::Index(at) = step
                    && let Some(element) = self.element_of_parts(of, *at, env)?
                {
                    return Ok(element);
                }
                follow(&self.eval(of, env)?, std::slice::from_ref(step)).clone()
            }
            Node::Unary(op, operand) => unary(*op, &self.eval(operand, env)?),
            Node::Binary(op, parts) => self.binary(*op, parts, env)?,
            Node::And(operands) => self.logic(operands, false, env)?,
            Node::Or(operands) => self.logic(operands, true, env)?,
            Node::OneOf(one_of) => self.one_of(one_of, env)?,
            Node::In { needle, list, negated } => self.membership(needle, list, *negated, env)?,
            Node::Between { parts, negated } => self.between(parts, *negated, env)?,
            Node::Like { parts, escape, negated } => self.like(parts, *escape, *negated, env)?,
            Node::Conditional(parts) => {
                let chosen = if self.eval(&parts[0], env)?.is_true() { 1 } else { 2 };
                self.eval(&parts[chosen], env)?
            }
            Node::Call(function, arguments) => self.call(function, arguments, env)?,
            Node::Udf(name, arguments) => self.udf(name, arguments, env)?,
            Node::Vector(metric, parts) => {
                let (a, b) = (self.eval(&parts[0], env)?, self.eval(&parts[1], env)?);
                self.work(weight(&a) + weight(&b))?;
                metric.score(&a, &b).unwrap_or_default()
            }
            Node::Array(elements) => self.holding(|this| {
                let values = this.list(elements, env)?;
                let parts = values.iter().filter(|v| v.type_rank() > 4).count();
                this.check_breadth(Value::array(values), parts)
            })?,
            Node::Object(properties) => self.object(properties, env)?,
            Node::Subquery(kind, select) => {
                self.holding(|this| this.subquery(*kind, select, env))?
            }
            Node::Follow(follow) => self.follow(follow, env)?,
        })
    }

    /// The value of a node as a key of ORDER BY.
    pub(crate) fn sort_value(&self, node: &Node, env: &mut Env) -> Result<SortValue, QueryError> {
        let value = self.eval(node, env)?;
        self.work(weight(&value))?;
        Ok(SortValue::of(&value))
    }

    fn follow(&self, follow: &Follow, env: &mut Env) -> Result<Value, QueryError> {
        let Some(host) = self.context.relations else { return Ok(Value::Undefined) };
        self.work(10)?;
        let (item, holder) = (self.eval(&follow.item, env)?, self.eval(&follow.holder, env)?);
        Ok(host.follow(follow.navigation.number, &item, &holder)?)
    }

    /// Makes a value of others: those are dropped, and the value is held for the caller.
    fn holding(
        &self,
        make: impl FnOnce(&Self) -> Result<Value, QueryError>,
    ) -> Result<Value, QueryError> {
        let held = self.memory.held();
        let value = make(self)?;
        self.memory.drop_to(held);
        self.memory.hold(&value)?;
        Ok(value)
    }

    fn list(&self, nodes: &[Node], env: &mut Env) -> Result<Vec<Value>, QueryError> {
        nodes.iter().map(|node| self.eval(node, env)).collect()
    }

    /// An object of the defined properties; names are distinct.
    pub(crate) fn object(
        &self,
        properties: &[(std::sync::Arc<str>, Node)],
        env: &mut Env,
    ) -> Result<Value, QueryError> {
        self.holding(|this| {
            let mut entries = Vec::with_capacity(properties.len());
            let mut parts = 0;
            for (name, node) in properties {
                let value = this.eval(node, env)?;
                parts += usize::from(value.type_rank() > 4);
                if !value.is_undefined() {
                    entries.push((name.clone(), value));
                }
            }
            this.check_breadth(Value::object(Object::from_distinct(entries)), parts)
        })
    }

    /// AND and OR over three values: one `decisive` operand decides whatever the others are.
    fn logic(&self, operands: &[Node], decisive: bool, env: &mut Env) -> Result<Value, QueryError> {
        let mut unknown = false;
        for operand in operands {
            match self.eval(operand, env)? {
                Value::Bool(b) if b == decisive => return Ok(decisive.into()),
                Value::Bool(_) => {}
                _ => unknown = true,
            }
        }
        Ok(if unknown { Value::Undefined } else { (!decisive).into() })
    }

    /// An OR of ANDs of equalities over three values.
    fn one_of(&self, one_of: &OneOf, env: &mut Env) -> Result<Value, QueryError> {
        let values = self.list(&one_of.paths, env)?;
        if !values.iter().any(Value::is_undefined) {
            return Ok(one_of.set.contains(values.as_slice()).into());
        }
        // Without a value none of them is true; one that nothing else refutes is undefined.
        self.work(one_of.list.len() as u64)?;
        let is_open = |wanted: &Arc<[Value]>| {
            values.iter().zip(wanted.iter()).all(|(own, value)| own.is_undefined() || own == value)
        };
        Ok(if one_of.list.iter().any(is_open) { Value::Undefined } else { false.into() })
    }

    fn membership(
        &self,
        needle: &Node,
        list: &List,
        negated: bool,
        env: &mut Env,
    ) -> Result<Value, QueryError> {
        let needle = self.eval(needle, env)?;
        if needle.is_undefined() {
            return Ok(Value::Undefined);
        }
        let found = match list {
            List::Set(set) => set.contains(&needle),
            List::Nodes(nodes) => {
                let mut found = false;
                for node in nodes {
                    if self.eval(node, env)? == needle {
                        found = true;
                        break;
                    }
                }
                found
            }
        };
        Ok((found != negated).into())
    }

    fn like(
        &self,
        parts: &[Node; 2],
        escape: Option<char>,
        negated: bool,
        env: &mut Env,
    ) -> Result<Value, QueryError> {
        let (of, pattern) = (self.eval(&parts[0], env)?, self.eval(&parts[1], env)?);
        let (Some(of), Some(pattern)) = (of.as_str(), pattern.as_str()) else {
            return Ok(Value::Undefined);
        };
        let pattern = self.host.patterns.like(pattern, escape);
        // A comparison of characters is a small part of a step.
        let mut compared = 0_u64;
        let found = pattern.matches(of, &mut || {
            compared += 1;
            if compared.is_multiple_of(32) { self.work(1) } else { Ok(()) }
        })?;
        Ok((found != negated).into())
    }

    fn between(
        &self,
        parts: &[Node; 3],
        negated: bool,
        env: &mut Env,
    ) -> Result<Value, QueryError> {
        let of = self.eval(&parts[0], env)?;
        let low = order(&of, &self.eval(&parts[1], env)?).map(Ordering::is_ge);
        let high = order(&of, &self.eval(&parts[2], env)?).map(Ordering::is_le);
        Ok(match (low, high) {
            (Some(false), _) | (_, Some(false)) => negated.into(),
            (Some(true), Some(true)) => (!negated).into(),
            _ => Value::Undefined,
        })
    }

    fn binary(&self, op: BinaryOp, parts: &[Node; 2], env: &mut Env) -> Result<Value, QueryError> {
        let a = self.eval(&parts[0], env)?;
        if op == BinaryOp::Coalesce {
            return if a.is_undefined() { self.eval(&parts[1], env) } else { Ok(a) };
        }
        let b = self.eval(&parts[1], env)?;
        if op == BinaryOp::Concat {
            self.work(weight(&a) + weight(&b))?;
            if shallow_bytes(&a).saturating_add(shallow_bytes(&b)) > self.memory.left() {
                return Err(Exceeded::Bytes.into());
            }
            return self.holding(|_| Ok(binary(op, &a, &b).unwrap_or_default()));
        }
        Ok(binary(op, &a, &b).unwrap_or_default())
    }

    fn call(
        &self,
        function: &Function,
        arguments: &[Node],
        env: &mut Env,
    ) -> Result<Value, QueryError> {
        if let Some(value) = self.call_on_parts(function, arguments, env)? {
            return Ok(value);
        }
        self.holding(|this| {
            let values = this.list(arguments, env)?;
            if function.undefined == UndefinedRule::Propagates
                && values.iter().any(Value::is_undefined)
            {
                return Ok(Value::Undefined);
            }
            this.work(values.iter().map(weight).sum())?;
            // What it makes of its arguments is at least allowed to be as large.
            let left = this.memory.left();
            if values.iter().map(shallow_bytes).sum::<usize>() > left {
                return Err(Exceeded::Bytes.into());
            }
            this.host.room_bytes.set(left);
            let value = (function.call)(&values, &this.host).unwrap_or_default();
            match this.host.take_failure() {
                None => Ok(value),
                Some(why) => Err(QueryError::runtime(why)),
            }
        })
    }

    fn udf(&self, name: &str, arguments: &[Node], env: &mut Env) -> Result<Value, QueryError> {
        let values = self.list(arguments, env)?;
        let Some(host) = self.context.udfs else {
            return Err(QueryError::runtime(format!("User-defined function '{name}' not found.")));
        };
        self.work(100)?;
        self.holding(|_| host.call(name, &values).map_err(QueryError::runtime))
    }

    fn subquery(
        &self,
        kind: SubqueryKind,
        select: &BoundSelect,
        env: &mut Env,
    ) -> Result<Value, QueryError> {
        let rows = match kind {
            SubqueryKind::Exists | SubqueryKind::First => 1,
            SubqueryKind::Scalar => 2,
            SubqueryKind::Array | SubqueryKind::Last => usize::MAX,
        };
        let mut rows = exec::subquery_rows(self, select, env, rows)?;
        Ok(match kind {
            SubqueryKind::Exists => (!rows.is_empty()).into(),
            SubqueryKind::Array => Value::array(rows),
            SubqueryKind::Scalar if rows.len() > 1 => {
                return Err(QueryError::runtime(
                    "The cardinality of a scalar subquery result set cannot be greater than one.",
                ));
            }
            SubqueryKind::Scalar | SubqueryKind::First | SubqueryKind::Last => {
                rows.pop().unwrap_or_default()
            }
        })
    }
}

/// The value at the end of a path; undefined where a step misses.
pub(crate) fn follow<'v>(value: &'v Value, steps: &[Step]) -> &'v Value {
    steps.iter().fold(value, |value, step| match step {
        Step::Name(name) => value.get(name),
        Step::Index(at) => value.at(*at),
    })
}

/// Work that grows with an argument: elements of arrays, stretches of strings.
fn weight(value: &Value) -> u64 {
    let units = match value {
        Value::Array(elements) => elements.len(),
        Value::Object(object) => object.len(),
        Value::String(s) => s.len() / 64,
        _ => 0,
    };
    units as u64
}

/// Memory of a value, roughly; shared parts count each time. Counting ends at `max`.
pub(crate) fn size_bytes(value: &Value, max: usize) -> usize {
    let mut size: usize = 32;
    match value {
        Value::String(s) => size += s.len(),
        Value::Array(elements) => {
            for element in elements.iter() {
                if size >= max {
                    break;
                }
                size += size_bytes(element, max - size);
            }
        }
        Value::Object(object) => {
            for (name, value) in object.iter() {
                if size >= max {
                    break;
                }
                size += 16 + name.len();
                size += size_bytes(value, max.saturating_sub(size));
            }
        }
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    size
}

/// The order of two values that have one: the same primitive type.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    let comparable = a.type_rank() == b.type_rank() && (1..=4).contains(&a.type_rank());
    comparable.then(|| a.cmp(b))
}

fn unary(op: UnaryOp, operand: &Value) -> Value {
    match (op, operand) {
        (UnaryOp::Not, Value::Bool(b)) => (!b).into(),
        (UnaryOp::Plus, Value::Number(_)) => operand.clone(),
        (UnaryOp::Minus, Value::Number(n)) => (-n.as_f64()).into(),
        (UnaryOp::BitNot, Value::Number(n)) => i64::from(!to_int32(*n)).into(),
        _ => Value::Undefined,
    }
}

fn binary(op: BinaryOp, a: &Value, b: &Value) -> Option<Value> {
    match op {
        BinaryOp::Equal | BinaryOp::NotEqual => {
            if a.is_undefined() || b.is_undefined() {
                return None;
            }
            Some(((a == b) == (op == BinaryOp::Equal)).into())
        }
        BinaryOp::Less => order(a, b).map(|o| o.is_lt().into()),
        BinaryOp::LessOrEqual => order(a, b).map(|o| o.is_le().into()),
        BinaryOp::Greater => order(a, b).map(|o| o.is_gt().into()),
        BinaryOp::GreaterOrEqual => order(a, b).map(|o| o.is_ge().into()),
        BinaryOp::Concat => Some([a.as_str()?, b.as_str()?].concat().into()),
        BinaryOp::Coalesce => Some(if a.is_undefined() { b.clone() } else { a.clone() }),
        _ => arithmetic(op, a.as_number()?, b.as_number()?),
    }
}

fn arithmetic(op: BinaryOp, a: Number, b: Number) -> Option<Value> {
    let (x, y) = (a.as_f64(), b.as_f64());
    Some(match op {
        BinaryOp::Add => (x + y).into(),
        BinaryOp::Subtract => (x - y).into(),
        BinaryOp::Multiply => (x * y).into(),
        BinaryOp::Divide => (x / y).into(),
        BinaryOp::Modulo => (x % y).into(),
        _ => return bits(op, to_int32(a), to_int32(b)),
    })
}

#[expect(clippy::cast_sign_loss, reason = "the bits are meant")]
fn bits(op: BinaryOp, a: i32, b: i32) -> Option<Value> {
    let shift = b as u32 & 31;
    let result = match op {
        BinaryOp::BitAnd => i64::from(a & b),
        BinaryOp::BitOr => i64::from(a | b),
        BinaryOp::BitXor => i64::from(a ^ b),
        BinaryOp::ShiftLeft => i64::from(a << shift),
        BinaryOp::ShiftRight => i64::from(a >> shift),
        BinaryOp::ShiftRightUnsigned => i64::from(a as u32 >> shift),
        _ => return None,
    };
    Some(result.into())
}

/// The low 32 bits of the whole part, signed, as JavaScript takes them: of the double, so that an
/// integer beyond 2⁵³ is rounded first.
#[expect(clippy::cast_possible_truncation, reason = "truncation is the rule")]
fn to_int32(number: Number) -> i32 {
    let f = number.as_f64();
    if f.is_finite() { f.trunc().rem_euclid(4_294_967_296.0) as i64 as i32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_wrap_as_in_javascript() {
        let check = |f: f64, expected: i32| assert_eq!(to_int32(f.into()), expected, "{f}");
        check(2_147_483_648.0, i32::MIN);
        check(-1.9, -1);
        check(4_294_967_297.0, 1);
        check(-4_294_967_297.0, -1);
        check(f64::NAN, 0);
        check(f64::INFINITY, 0);
        assert_eq!(to_int32(9_007_199_254_740_993_i64.into()), 0);
        assert_eq!(to_int32((-1_i64).into()), -1);
        assert_eq!(to_int32(i64::MAX.into()), 0);
    }
}
