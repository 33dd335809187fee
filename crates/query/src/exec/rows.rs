//! FROM, JOIN and WHERE: one environment after another.

use std::ops::ControlFlow;

use orrery_types::Value;

use super::{Flow, subquery_rows};
use crate::bound::{BoundSelect, BoundSource, Node, Origin};
use crate::error::QueryError;
use crate::eval::{Env, Evaluator};
use crate::memory::heap_bytes;

pub(super) type Callback<'c> = &'c mut dyn FnMut(&mut Env) -> Result<Flow, QueryError>;

/// Calls back for each row of FROM that passes the filter. The item, if the query reads items,
/// stands in its slot already.
pub(super) fn each(
    evaluator: &Evaluator<'_>,
    select: &BoundSelect,
    env: &mut Env,
    f: Callback<'_>,
) -> Result<Flow, QueryError> {
    each_from(evaluator, select, 0, env, f)
}

/// The same when the first `bound` sources have their values.
pub(super) fn each_from(
    evaluator: &Evaluator<'_>,
    select: &BoundSelect,
    bound: usize,
    env: &mut Env,
    f: Callback<'_>,
) -> Result<Flow, QueryError> {
    let Some(source) = select.sources.get(bound) else {
        evaluator.work(1)?;
        let held = evaluator.memory.held();
        let passes = match &select.filter {
            Some(filter) => evaluator.eval(filter, env)?.is_true(),
            None => true,
        };
        let flow = if passes { f(env)? } else { ControlFlow::Continue(()) };
        // What the expressions of the row made is dropped, or was kept.
        evaluator.memory.drop_to(held);
        return Ok(flow);
    };
    let held = evaluator.memory.held();
    match &source.origin {
        Origin::Value(node) => {
            if let Node::Follow(follow) = node
                && source.iterates
                && let Some(flow) = super::parts::each(evaluator, select, bound, follow, env, f)?
            {
                return Ok(flow);
            }
            let value = evaluator.eval(node, env)?;
            let flow = each_value(evaluator, source, value, env, &mut |env| {
                each_from(evaluator, select, bound + 1, env, f)
            })?;
            evaluator.memory.drop_to(held);
            Ok(flow)
        }
        Origin::Rows(inner) if inner.streams() => each(evaluator, inner, env, &mut |env| {
            let Some(row) = super::collect::project(evaluator, inner, env)? else {
                return Ok(ControlFlow::Continue(()));
            };
            each_value(evaluator, source, row, env, &mut |env| {
                each_from(evaluator, select, bound + 1, env, f)
            })
        }),
        Origin::Rows(inner) => {
            let rows = subquery_rows(evaluator, inner, env, usize::MAX)?;
            for row in &rows {
                let left = evaluator.memory.left();
                evaluator.memory.hold_bytes(heap_bytes(row, left))?;
            }
            for row in rows {
                let flow = each_value(evaluator, source, row, env, &mut |env| {
                    each_from(evaluator, select, bound + 1, env, f)
                })?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            evaluator.memory.drop_to(held);
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// Calls back with a source's value in its slot: the value itself, or each element of an array.
pub(super) fn each_value(
    evaluator: &Evaluator<'_>,
    source: &BoundSource,
    value: Value,
    env: &mut Env,
    f: Callback<'_>,
) -> Result<Flow, QueryError> {
    if !source.iterates {
        if value.is_undefined() {
            return Ok(ControlFlow::Continue(()));
        }
        env[source.slot] = value;
        return f(env);
    }
    for element in value.as_array().unwrap_or_default() {
        evaluator.work(1)?;
        env[source.slot] = element.clone();
        let flow = f(env)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}
