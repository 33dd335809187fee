//! Plain data of JavaScript, read as `JSON.stringify` would write it: objects and arrays of the
//! language's own making, texts, numbers, booleans, null. Whatever else comes up — a `toJSON`, an
//! instance of a class, a proxy, a number whose digits JSON would round — is left to the language.

use std::sync::Arc;

use orrery_types::{Object as Properties, Value, limits};
use rquickjs::atom::PredefinedAtom;
use rquickjs::object::Filter;
use rquickjs::{Atom, Object, Value as JsValue};

/// What was read.
pub(crate) struct Plain {
    pub(crate) value: Value,
    /// About how much memory it takes.
    pub(crate) weight_bytes: usize,
}

/// Reads a value; `None` if it is not plain data, or if its JSON text is surely longer than this.
pub(crate) fn read(value: &JsValue<'_>, text_bytes_max: usize) -> rquickjs::Result<Option<Plain>> {
    let mut reader = Reader { prototype: None, text_bytes: 0, text_bytes_max, nodes: 0 };
    match reader.value(value, 0) {
        Ok(_) if reader.text_bytes > text_bytes_max => Ok(None),
        Ok(value) => {
            Ok(Some(Plain { value, weight_bytes: reader.text_bytes + reader.nodes * NODE_BYTES }))
        }
        Err(Stop::Unusual | Stop::Failed(rquickjs::Error::Utf8(_))) => Ok(None),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// About what a value takes beside its text: itself, and what owns it.
const NODE_BYTES: usize = 48;

/// About how much memory a value takes.
pub(crate) fn weight_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(weight_bytes).sum(),
        Value::Object(object) => object.iter().map(|(n, v)| n.len() + weight_bytes(v)).sum(),
    };
    inside + NODE_BYTES
}

enum Stop {
    Unusual,
    Failed(rquickjs::Error),
}

impl From<rquickjs::Error> for Stop {
    fn from(error: rquickjs::Error) -> Self {
        Self::Failed(error)
    }
}

struct Reader<'js> {
    /// What objects have that a literal has made.
    prototype: Option<Object<'js>>,
    text_bytes: usize,
    text_bytes_max: usize,
    nodes: usize,
}

/// From here on the digits that JSON shows are not the number's own.
pub(crate) const TWO_53: f64 = 9_007_199_254_740_992.0;

impl<'js> Reader<'js> {
    fn value(&mut self, value: &JsValue<'js>, depth: usize) -> Result<Value, Stop> {
        self.nodes += 1;
        // With what stands between it and the next.
        self.text_bytes += 2;
        if self.text_bytes > self.text_bytes_max {
            return Err(Stop::Unusual);
        }
        if let Some(integer) = value.as_int() {
            let more_digits = integer.unsigned_abs().checked_ilog10().unwrap_or(0);
            self.text_bytes += usize::try_from(more_digits).unwrap_or(0);
            return Ok(i64::from(integer).into());
        }
        if let Some(text) = value.as_string() {
            let text = text.to_string()?;
            self.text_bytes += text.len();
            return Ok(text.into());
        }
        if let Some(object) = value.as_object() {
            return self.object(object, depth);
        }
        if let Some(b) = value.as_bool() {
            return Ok(b.into());
        }
        if let Some(float) = value.as_float() {
            return number(float);
        }
        if value.is_null() {
            return Ok(Value::Null);
        }
        if value.is_undefined() || value.is_symbol() {
            Ok(Value::Undefined)
        } else {
            Err(Stop::Unusual)
        }
    }

    fn object(&mut self, object: &Object<'js>, depth: usize) -> Result<Value, Stop> {
        if depth >= limits::NESTING_DEPTH_MAX || object.is_proxy() {
            return Err(Stop::Unusual);
        }
        let to_json: JsValue<'js> = object.get(PredefinedAtom::ToJSON)?;
        if to_json.is_function() {
            return Err(Stop::Unusual);
        }
        if object.is_function() {
            return Ok(Value::Undefined);
        }
        if object.is_array() {
            return self.array(object, depth);
        }
        if !self.is_literal(object)? {
            return Err(Stop::Unusual);
        }
        let names = object.own_keys::<Atom<'js>>(Filter::default());
        let mut entries: Vec<(Arc<str>, Value)> = Vec::with_capacity(names.len());
        for name in names {
            let name = name?;
            let text = name.to_js_string()?.to_string()?;
            let value: JsValue<'js> = object.get(name)?;
            let value = self.value(&value, depth + 1)?;
            if !value.is_undefined() {
                self.text_bytes += text.len();
                entries.push((text.into(), value));
            }
        }
        Ok(Value::object(Properties::from_distinct(entries)))
    }

    /// The length is asked as a number: it may be more than a small integer.
    fn array(&mut self, array: &Object<'js>, depth: usize) -> Result<Value, Stop> {
        let length: f64 = array.get(PredefinedAtom::Length)?;
        let mut elements = Vec::new();
        for at in (0_u32..).take_while(|at| f64::from(*at) < length) {
            let element: JsValue<'js> = array.get(at)?;
            elements.push(match self.value(&element, depth + 1)? {
                Value::Undefined => Value::Null,
                element => element,
            });
        }
        Ok(Value::array(elements))
    }

    fn is_literal(&mut self, object: &Object<'js>) -> Result<bool, Stop> {
        if self.prototype.is_none() {
            self.prototype = Object::new(object.ctx().clone())?.get_prototype();
        }
        Ok(object.get_prototype() == self.prototype)
    }
}

fn number(float: f64) -> Result<Value, Stop> {
    if !float.is_finite() {
        return Ok(Value::Null);
    }
    if float.fract() != 0.0 {
        return Ok(float.into());
    }
    if float.abs() >= TWO_53 {
        return Err(Stop::Unusual);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
    let integer = float as i64;
    Ok(integer.into())
}
