//! Functions on objects and on the item itself, and the conditional function.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_types::{Object, Value};

use super::{Function, Host, text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("DOCUMENTID", 1, document_id),
    Function::new("IIF", 3, |a, _| Some(a[if a[0].is_true() { 1 } else { 2 }].clone()))
        .sees_undefined(),
    Function::new("ObjectToArray", 1, object_to_array).up_to(3),
];

/// The number of the item within its partition: bytes 8 to 15 of its `_rid`, little-endian. The
/// last of them holds the type of the resource in rids of children, and is zero in an item's.
fn document_id(arguments: &[Value], _: &Host) -> Option<Value> {
    let rid = arguments[0].get("_rid").as_str()?;
    // Rids write '-' where base64 has '/'.
    let bytes = STANDARD.decode(rid.replace('-', "/")).ok()?;
    let number = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    i64::try_from(number).ok().map(Value::from)
}

/// Memory of an object of two properties, without names and values.
const PAIR_BYTES: usize = 192;

fn object_to_array(arguments: &[Value], host: &Host) -> Option<Value> {
    let object = arguments[0].as_object()?;
    // Each property becomes an object of two.
    if !host.has_room(object.len().saturating_mul(PAIR_BYTES)) {
        return None;
    }
    let name_of = |at: usize, default: &'static str| match arguments.get(at) {
        None => Some(default),
        Some(_) => text(arguments, at),
    };
    let name_key: Arc<str> = name_of(1, "k")?.into();
    let value_key: Arc<str> = name_of(2, "v")?.into();
    let pairs = object.iter().map(|(name, value)| {
        let pair =
            [(name_key.clone(), Value::String(name.clone())), (value_key.clone(), value.clone())];
        Value::object(Object::from_iter(pair))
    });
    Some(Value::array(pairs.collect()))
}
