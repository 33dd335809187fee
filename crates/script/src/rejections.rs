//! Rejected promises of a script that have no handler. The runtime reports a promise that is rejected
//! without a handler, and again when it gets one after all; what is left when the script has ended
//! is an error that the script would have lost in silence.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use rquickjs::runtime::RejectionTracker;
use rquickjs::{Ctx, Value};

/// Each promise with its number in the order of rejection and its reason. They stand with the runtime
/// and are kept alive, so that no other promise takes the place of one in memory; the script's bound
/// on memory bounds how many there are.
type Unhandled<'js> = RefCell<HashMap<Value<'js>, Vec<Value<'js>>>>;

/// What a runtime is to call.
pub(crate) fn tracker() -> RejectionTracker {
    Box::new(|ctx, promise, reason, is_handled| track(&ctx, promise, reason, is_handled))
}

/// Numbers rejections, of all scripts together: only their order counts.
static REJECTED: AtomicU32 = AtomicU32::new(0);

fn track<'js>(ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>, is_handled: bool) {
    let known = ctx.userdata::<Unhandled<'js>>();
    if is_handled {
        if let Some(unhandled) = known {
            unhandled.borrow_mut().remove(&promise);
        }
        return;
    }
    let number = REJECTED.fetch_add(1, Ordering::Relaxed);
    let entry = vec![Value::new_number(ctx.clone(), number.into()), reason];
    match known {
        Some(unhandled) => drop(unhandled.borrow_mut().insert(promise, entry)),
        // Nobody looks at what is not there, so it can be put there.
        None => drop(ctx.store_userdata::<Unhandled<'js>>(RefCell::new([(promise, entry)].into()))),
    }
}

/// The reason of the first rejection without a handler, if there is one; the list is cleared.
pub(crate) fn take<'js>(ctx: &Ctx<'js>) -> Option<Value<'js>> {
    let unhandled = ctx.remove_userdata::<Unhandled<'js>>().ok()??;
    let number = |entry: &Vec<Value<'js>>| entry.first().and_then(Value::as_number).unwrap_or(0.0);
    let first = unhandled.into_inner().into_values();
    first.min_by(|a, b| number(a).total_cmp(&number(b)))?.pop()
}
