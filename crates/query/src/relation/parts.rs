//! Lists that the host keeps in parts, looked at without being loaded whole: how long they are, some
//! elements out of their middle.

use std::ops::Range;

use orrery_types::Value;

use super::{Follow, RelationHost};
use crate::bound::Node;
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::functions::Function;
use crate::functions::array::slice_range;

/// A list in parts.
pub(crate) struct Parts<'h> {
    host: &'h dyn RelationHost,
    number: usize,
    item: Value,
    holder: Value,
    /// Elements of each part.
    pub(crate) lengths: Vec<u64>,
}

impl<'h> Parts<'h> {
    /// The list that a relation leads to; `None` if it comes whole.
    pub(crate) fn of(
        evaluator: &Evaluator<'h>,
        follow: &Follow,
        env: &mut Env,
    ) -> Result<Option<Self>, QueryError> {
        let Some(host) = evaluator.relations() else { return Ok(None) };
        let number = follow.navigation.number;
        let (item, holder) =
            (evaluator.eval(&follow.item, env)?, evaluator.eval(&follow.holder, env)?);
        let lengths = host.parts(number, &item, &holder)?;
        Ok(lengths.map(|lengths| Self { host, number, item, holder, lengths }))
    }

    /// The elements of one part.
    pub(crate) fn load(&self, at: usize) -> Result<Vec<Value>, QueryError> {
        Ok(self.host.part(self.number, &self.item, &self.holder, at)?)
    }

    fn count(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// Elements from one place up to another, out of the parts that hold them.
    fn between(
        &self,
        evaluator: &Evaluator<'_>,
        wanted: Range<u64>,
    ) -> Result<Vec<Value>, QueryError> {
        let (mut found, mut first) = (Vec::new(), 0);
        for (at, length) in self.lengths.iter().enumerate() {
            evaluator.work(1)?;
            let (from, to) = (wanted.start.max(first), wanted.end.min(first + length));
            if from < to {
                let [skip, take] = [from - first, to - from].map(|n| usize::try_from(n).ok());
                let elements = self.load(at)?.into_iter().skip(skip.unwrap_or(usize::MAX));
                found.extend(elements.take(take.unwrap_or(usize::MAX)));
                evaluator.work(to - from)?;
            }
            first += length;
        }
        Ok(found)
    }
}

impl Evaluator<'_> {
    /// An element of a list in parts.
    pub(crate) fn element_of_parts(
        &self,
        list: &Node,
        at: usize,
        env: &mut Env,
    ) -> Result<Option<Value>, QueryError> {
        let Node::Follow(follow) = list else { return Ok(None) };
        let Some(parts) = Parts::of(self, follow, env)? else { return Ok(None) };
        let at = at as u64;
        Ok(Some(parts.between(self, at..at.saturating_add(1))?.pop().unwrap_or_default()))
    }

    /// A function of a list in parts that needs not all of it.
    pub(crate) fn call_on_parts(
        &self,
        function: &Function,
        arguments: &[Node],
        env: &mut Env,
    ) -> Result<Option<Value>, QueryError> {
        let [Node::Follow(follow), others @ ..] = arguments else { return Ok(None) };
        if !matches!(function.name, "ARRAY_LENGTH" | "ARRAY_SLICE") {
            return Ok(None);
        }
        let Some(parts) = Parts::of(self, follow, env)? else { return Ok(None) };
        let Ok(count) = i64::try_from(parts.count()) else { return Ok(None) };
        if others.is_empty() {
            return Ok(Some(count.into()));
        }
        let mut values = vec![Value::Undefined];
        for other in others {
            values.push(self.eval(other, env)?);
        }
        let Some(wanted) = slice_range(count, &values) else { return Ok(Some(Value::Undefined)) };
        let wanted = wanted.start.unsigned_abs()..wanted.end.unsigned_abs();
        Ok(Some(Value::array(parts.between(self, wanted)?)))
    }
}
