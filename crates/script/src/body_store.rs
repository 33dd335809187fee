//! The bodies of operations that wait, as they were when the script queued them. They are outside of
//! the runtime's memory, so they have a bound of their own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orrery_types::{Error, Value, limits};
use rquickjs::{Ctx, Exception, Value as JsValue};

use crate::plain::{self, Plain};

/// A body, or why it cannot be one.
pub(crate) type OperationBody = Result<Value, Error>;

/// Bodies by number.
pub(crate) struct BodyStore {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bodies: HashMap<u32, (OperationBody, usize)>,
    next: u32,
    bytes: usize,
}

impl BodyStore {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a body: an object, or the text of one.
    pub(crate) fn keep<'js>(&self, ctx: &Ctx<'js>, body: JsValue<'js>) -> rquickjs::Result<u32> {
        let (body, weight) = read(ctx, body)?;
        let mut state = self.lock();
        if state.bytes + weight > self.bytes_max {
            drop(state);
            return Err(Exception::throw_internal(ctx, "out of memory"));
        }
        let number = state.next;
        state.next = number.wrapping_add(1);
        state.bytes += weight;
        state.bodies.insert(number, (body, weight));
        Ok(number)
    }

    /// Takes a body out.
    pub(crate) fn take(&self, number: u32) -> OperationBody {
        let mut state = self.lock();
        let taken = state.bodies.remove(&number);
        let (body, weight) = taken.ok_or_else(|| Error::internal("a body was not kept"))?;
        state.bytes -= weight;
        body
    }
}

/// A body and about how much memory it takes.
fn read<'js>(ctx: &Ctx<'js>, body: JsValue<'js>) -> rquickjs::Result<(OperationBody, usize)> {
    let text = if let Some(text) = body.as_string() {
        text.to_string()?
    } else {
        let plain = plain::read(&body, limits::ITEM_SIZE_BYTES_MAX)?;
        if let Some(Plain { value, weight_bytes }) = plain {
            return Ok((Ok(value), weight_bytes));
        }
        match ctx.json_stringify(body)? {
            Some(text) => text.to_string()?,
            None => String::new(),
        }
    };
    let body = parsed(&text);
    let weight = body.as_ref().map_or(0, plain::weight_bytes);
    Ok((body, weight))
}

fn parsed(text: &str) -> OperationBody {
    let (size, limit) = (text.len(), limits::ITEM_SIZE_BYTES_MAX);
    if size > limit {
        return Err(Error::TooLarge { what: "the item", size, limit });
    }
    Value::parse(text.as_bytes())
        .map_err(|e| Error::invalid(format!("The request body is not valid JSON: {e}.")))
}
