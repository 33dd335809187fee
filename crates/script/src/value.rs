//! Values on their way into JavaScript and out of it, without JSON in between wherever a value is plain
//! data: the language's own writer of JSON takes several times as long. Its reader does not, so what
//! is text already goes through it.

use orrery_types::{Number, Value};
use rquickjs::object::Property;
use rquickjs::{Array, Ctx, IntoJs as _, Object};

use crate::plain::{self, Plain, TWO_53};

/// A value as JavaScript has it.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, value: &Value) -> rquickjs::Result<rquickjs::Value<'js>> {
    match value {
        Value::Undefined => Ok(rquickjs::Value::new_undefined(ctx.clone())),
        Value::Null => Ok(rquickjs::Value::new_null(ctx.clone())),
        Value::Bool(b) => b.into_js(ctx),
        Value::Number(number) => match number {
            Number::Int(integer) => match i32::try_from(*integer) {
                Ok(small) => small.into_js(ctx),
                Err(_) => number.as_f64().into_js(ctx),
            },
            Number::Float(float) => float.into_js(ctx),
        },
        Value::String(text) => (**text).into_js(ctx),
        // Properties are defined, not set: a script may have put setters into the prototypes.
        Value::Array(elements) => {
            let array = Array::new(ctx.clone())?.into_object();
            for (at, element) in (0_u32..).zip(elements.iter()) {
                array.prop(at, own(to_js(ctx, element)?))?;
            }
            Ok(array.into_value())
        }
        Value::Object(properties) => {
            let object = Object::new(ctx.clone())?;
            for (name, value) in properties.iter() {
                object.prop(&**name, own(to_js(ctx, value)?))?;
            }
            Ok(object.into_value())
        }
    }
}

fn own<T>(value: T) -> Property<T> {
    Property::from(value).configurable().enumerable().writable()
}

/// A value as queries have it; what JSON cannot say is undefined.
pub(crate) fn from_js<'js>(ctx: &Ctx<'js>, value: rquickjs::Value<'js>) -> rquickjs::Result<Value> {
    // Alone, a number may be one that JSON cannot say.
    if let Some(float) = value.as_float() {
        return Ok(number(float));
    }
    if let Some(Plain { value, .. }) = plain::read(&value, usize::MAX)? {
        return Ok(value);
    }
    let Some(text) = ctx.json_stringify(value)? else { return Ok(Value::Undefined) };
    let text = text.to_string()?;
    Value::parse(text.as_bytes()).map_err(|error| rquickjs::Error::FromJs {
        from: "object",
        to: "value",
        message: Some(error.to_string()),
    })
}

/// A value as JSON, of at most so many bytes if it is plain data; nothing for what JSON cannot say.
pub(crate) fn json<'js>(
    ctx: &Ctx<'js>,
    value: rquickjs::Value<'js>,
    bytes_max: usize,
) -> rquickjs::Result<Option<String>> {
    match plain::read(&value, bytes_max)? {
        Some(Plain { value: Value::Undefined, .. }) => Ok(None),
        Some(Plain { value, .. }) => Ok(Some(value.to_json())),
        None => ctx.json_stringify(value)?.map(|text| text.to_string()).transpose(),
    }
}

/// An integer keeps being one.
fn number(float: f64) -> Value {
    match Number::from(float).as_i64() {
        Some(integer) if float.abs() < TWO_53 => integer.into(),
        _ => float.into(),
    }
}
