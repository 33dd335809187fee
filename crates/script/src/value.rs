//! Values on their way into and out of JavaScript. Numbers, strings and the like cross as they are;
//! arrays and objects cross as JSON, which is what both sides are fastest at.

use orrery_types::{Number, Value};
use rquickjs::{Ctx, IntoJs as _};

/// A value as JavaScript has it.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, value: &Value) -> rquickjs::Result<rquickjs::Value<'js>> {
    match value {
        Value::Undefined => Ok(rquickjs::Value::new_undefined(ctx.clone())),
        Value::Null => Ok(rquickjs::Value::new_null(ctx.clone())),
        Value::Bool(b) => b.into_js(ctx),
        Value::Number(number) => number.as_f64().into_js(ctx),
        Value::String(text) => (**text).into_js(ctx),
        Value::Array(_) | Value::Object(_) => ctx.json_parse(value.to_json()),
    }
}

/// A value as queries have it; what JSON cannot say is undefined.
pub(crate) fn from_js<'js>(ctx: &Ctx<'js>, value: rquickjs::Value<'js>) -> rquickjs::Result<Value> {
    if let Some(b) = value.as_bool() {
        return Ok(b.into());
    }
    if let Some(integer) = value.as_int() {
        return Ok(i64::from(integer).into());
    }
    if let Some(float) = value.as_float() {
        return Ok(number(float));
    }
    if let Some(text) = value.as_string() {
        return Ok(text.to_string()?.into());
    }
    if value.is_null() {
        return Ok(Value::Null);
    }
    let Some(text) = ctx.json_stringify(value)? else { return Ok(Value::Undefined) };
    let text = text.to_string()?;
    Value::parse(text.as_bytes()).map_err(|error| rquickjs::Error::FromJs {
        from: "object",
        to: "value",
        message: Some(error.to_string()),
    })
}

/// An integer keeps being one.
fn number(float: f64) -> Value {
    match Number::from(float).as_i64() {
        Some(integer) if float.abs() < 9_007_199_254_740_992.0 => integer.into(),
        _ => float.into(),
    }
}
