//! PATCH: up to ten operations on paths of an item, applied in order, all or none, under an
//! optional condition.

mod array_edit;

use std::sync::Arc;

use orrery_query::EvalContext;
use orrery_types::{Error, Number, Object, Result, Value, limits};

use crate::Container;
use crate::item::operation::SYSTEM_PROPERTIES;
use crate::query::values::PatchCondition;

pub(crate) use array_edit::{ArrayEdit, ElementEdit};

/// A checked patch.
#[derive(Clone, Debug)]
pub struct Patch {
    condition: Option<Arc<PatchCondition>>,
    operations: Vec<Operation>,
}

#[derive(Clone, Debug)]
struct Operation {
    kind: Kind,
    path: Pointer,
}

#[derive(Clone, Debug)]
enum Kind {
    Add(Value),
    Set(Value),
    Replace(Value),
    Remove,
    Increment(Number),
    Move(Pointer),
}

/// A JSON pointer (RFC 6901), never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pointer {
    text: Box<str>,
    segments: Vec<Box<str>>,
}

impl Patch {
    /// Reads a patch: `{"operations": […], "condition": …}`, or the bare list of operations.
    pub fn parse(body: &Value) -> Result<Self> {
        let (operations, condition) = match body {
            Value::Array(operations) => (operations, &Value::Undefined),
            Value::Object(_) => match body.get("operations") {
                Value::Array(operations) => (operations, body.get("condition")),
                _ => return Err(Error::invalid("The patch has no array 'operations'.")),
            },
            _ => return Err(Error::invalid("The patch must be an object with 'operations'.")),
        };
        if operations.is_empty() || operations.len() > limits::PATCH_OPERATIONS_MAX {
            return Err(Error::invalid(format!(
                "The number of patch operations is {}. It must be from 1 to {}: the number of patch \
                 operations can't exceed that.",
                operations.len(),
                limits::PATCH_OPERATIONS_MAX
            )));
        }
        let operations = (1..).zip(operations.iter());
        let operations = operations
            .map(|(n, o)| {
                Operation::parse(o).map_err(|e| Error::invalid(format!("Patch operation {n}: {e}")))
            })
            .collect::<Result<_>>()?;
        let condition = match condition {
            Value::Undefined | Value::Null => None,
            Value::String(text) => Some(PatchCondition::parse(text)?),
            _ => return Err(Error::invalid("The condition of a patch must be a string.")),
        };
        Ok(Self { condition, operations })
    }

    /// How many operations it has.
    pub(crate) fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Refuses paths that a patch may not touch: the id, the partition key, what the server owns.
    pub(crate) fn check_paths(&self, container: &Container) -> Result<()> {
        for operation in &self.operations {
            operation.path.check_allowed(container)?;
            if let Kind::Move(from) = &operation.kind {
                from.check_allowed(container)?;
            }
        }
        Ok(())
    }

    /// Whether the item meets the condition.
    pub(crate) fn check_condition(
        &self,
        item: &Value,
        container: &Container,
        context: &EvalContext<'_>,
    ) -> Result<()> {
        match &self.condition {
            Some(condition) if !condition.matches(item, container, context)? => {
                Err(Error::ConditionNotMet)
            }
            _ => Ok(()),
        }
    }

    /// The item after all operations.
    pub(crate) fn apply(&self, mut item: Value) -> Result<Value> {
        for (number, operation) in (1..).zip(&self.operations) {
            operation.apply(&mut item).map_err(|error| match error {
                Error::Invalid(text) => Error::invalid(format!("For Operation({number}): {text}")),
                other => other,
            })?;
            // Within the loop: the depth is bounded before the next operation adds to it.
            if depth(&item) > limits::NESTING_DEPTH_MAX {
                return Err(Error::invalid(format!(
                    "After the operation at '{}' the item's nesting is deeper than {} levels.",
                    operation.path.text,
                    limits::NESTING_DEPTH_MAX
                )));
            }
        }
        Ok(item)
    }
}

impl Operation {
    fn parse(value: &Value) -> Result<Self> {
        let name = value.get("op").as_str().unwrap_or_default();
        let pointer = |member: &str| match value.get(member).as_str() {
            Some(text) => Pointer::parse(text),
            None => Err(Error::invalid(format!("'{member}' must be a path."))),
        };
        let given = || match value.get("value") {
            Value::Undefined => Err(Error::invalid(format!("'{name}' needs a value."))),
            value => Ok(value.clone()),
        };
        let kind = match name {
            "add" => Kind::Add(given()?),
            "set" => Kind::Set(given()?),
            "replace" => Kind::Replace(given()?),
            "remove" => Kind::Remove,
            "incr" | "increment" => {
                let given = given()?;
                Kind::Increment(given.as_number().ok_or_else(|| {
                    Error::invalid(format!("'{name}' needs a number; it is {}.", given.to_json()))
                })?)
            }
            "move" => Kind::Move(pointer("from")?),
            _ => {
                return Err(Error::invalid(format!(
                    "the operation {} is unknown; it is one of add, set, replace, remove, incr, move.",
                    value.get("op").to_json()
                )));
            }
        };
        let path = pointer("path")?;
        if let Kind::Move(from) = &kind
            && path.segments.starts_with(&from.segments)
            && path != *from
        {
            return Err(Error::invalid(format!("'{}' lies below '{}'.", path.text, from.text)));
        }
        Ok(Self { kind, path })
    }

    fn apply(&self, item: &mut Value) -> Result<()> {
        match &self.kind {
            Kind::Add(value) => {
                self.path.check_parent(item, "Add")?;
                self.path.put(item, value.clone(), InArray::Insert)
            }
            Kind::Set(value) => {
                self.path.check_parent(item, "Set")?;
                self.path.put(item, value.clone(), InArray::Overwrite)
            }
            Kind::Replace(value) => {
                *self.path.target(item)? = value.clone();
                Ok(())
            }
            Kind::Remove => self.path.remove(item).map(drop),
            Kind::Increment(by) => self.increment(item, *by),
            Kind::Move(from) => {
                let value = from.remove(item)?;
                self.path.put(item, value, InArray::Insert)
            }
        }
    }

    fn increment(&self, item: &mut Value, by: Number) -> Result<()> {
        let Ok(target) = self.path.target(item) else {
            return self.path.put(item, Value::Number(by), InArray::Overwrite);
        };
        let current = target.as_number().ok_or_else(|| {
            Error::invalid(format!("The value at '{}' is not a number.", self.path.text))
        })?;
        let sum = match (current, by) {
            (Number::Int(a), Number::Int(b)) => a.checked_add(b).map(Number::Int),
            _ => None,
        };
        let sum = sum.unwrap_or_else(|| Number::Float(current.as_f64() + by.as_f64()));
        if !sum.is_finite() {
            return Err(Error::invalid(format!(
                "The sum at '{}' is not a finite number.",
                self.path.text
            )));
        }
        *target = Value::Number(sum);
        Ok(())
    }
}

/// What an array index means for a value that is put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InArray {
    Insert,
    Overwrite,
}

impl Pointer {
    fn parse(text: &str) -> Result<Self> {
        let invalid = || Error::invalid(format!("'{text}' is not a path."));
        let rest = text.strip_prefix('/').ok_or_else(invalid)?;
        let unescape = |segment: &str| -> Result<Box<str>> {
            if segment.is_empty() {
                return Err(invalid());
            }
            Ok(segment.replace("~1", "/").replace("~0", "~").into())
        };
        let segments = rest.split('/').map(unescape).collect::<Result<_>>()?;
        Ok(Self { text: text.into(), segments })
    }

    fn check_allowed(&self, container: &Container) -> Result<()> {
        let first = self.segments.first().map_or("", |s| s);
        let owned = first == "id" || SYSTEM_PROPERTIES.contains(&first);
        let in_key = container.definition.partition_key.paths.iter().any(|path| {
            let (key, own) = (path.segments(), &self.segments);
            key.starts_with(own) || own.starts_with(key)
        });
        if owned || in_key {
            return Err(Error::invalid(format!(
                "The path '{}' cannot be patched: it belongs to the id, the partition key or the \
                 system.",
                self.text
            )));
        }
        Ok(())
    }

    fn missing(&self) -> Error {
        Error::invalid(format!("The path '{}' leads to nothing in the item.", self.text))
    }

    fn no_index(&self) -> Error {
        Error::invalid(format!("The path '{}' has no valid array index.", self.text))
    }

    /// Refuses, in the words of the service, to create more than the last segment.
    fn check_parent(&self, item: &mut Value, operation: &str) -> Result<()> {
        let Some((_, steps)) = self.segments.split_last() else { return Err(self.missing()) };
        let mut value = item;
        for step in steps {
            let found = child(value, step);
            value = found.filter(|v| matches!(v, Value::Object(_) | Value::Array(_))).ok_or_else(
                || {
                    Error::invalid(format!(
                        "{operation} Operation can only create a child object of an existing \
                         node(array or object) and cannot create path recursively, no path found \
                         beyond: '{step}'."
                    ))
                },
            )?;
        }
        Ok(())
    }

    /// The value that holds the last segment, and that segment.
    fn parent<'v>(&self, item: &'v mut Value) -> Result<(&'v mut Value, &str)> {
        let (last, steps) = self.segments.split_last().ok_or_else(|| self.missing())?;
        let mut value = item;
        for step in steps {
            value = child(value, step).ok_or_else(|| self.missing())?;
        }
        Ok((value, last))
    }

    fn target<'v>(&self, item: &'v mut Value) -> Result<&'v mut Value> {
        let (parent, last) = self.parent(item)?;
        child(parent, last).ok_or_else(|| self.missing())
    }

    fn put(&self, item: &mut Value, value: Value, in_array: InArray) -> Result<()> {
        let (parent, last) = self.parent(item)?;
        match parent {
            Value::Object(object) => {
                Arc::make_mut(object).set(last, value);
                Ok(())
            }
            Value::Array(array) => {
                let array = Arc::make_mut(array);
                let at = if last == "-" { array.len() } else { self.index(last)? };
                if at > array.len() {
                    return Err(self.no_index());
                }
                match array.get_mut(at) {
                    Some(old) if in_array == InArray::Overwrite => *old = value,
                    _ => array.insert(at, value),
                }
                Ok(())
            }
            _ => Err(self.missing()),
        }
    }

    fn remove(&self, item: &mut Value) -> Result<Value> {
        let (parent, last) = self.parent(item)?;
        match parent {
            Value::Object(object) if object.get(last).is_some() => {
                Arc::make_mut(object).remove(last).ok_or_else(|| self.missing())
            }
            Value::Array(array) => {
                let at = self.index(last)?;
                if at >= array.len() {
                    return Err(self.no_index());
                }
                Ok(Arc::make_mut(array).remove(at))
            }
            _ => Err(self.missing()),
        }
    }

    fn index(&self, segment: &str) -> Result<usize> {
        array_index(segment).ok_or_else(|| self.no_index())
    }
}

/// Levels of arrays and objects.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.iter().map(|(_, v)| depth(v)).max().unwrap_or(0),
        _ => 0,
    }
}

/// An array index as RFC 6901 writes it: digits, no leading zero.
fn array_index(segment: &str) -> Option<usize> {
    let plain = segment == "0" || !segment.starts_with('0');
    let digits = !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit());
    if plain && digits { segment.parse().ok() } else { None }
}

fn child<'v>(value: &'v mut Value, step: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(object) => {
            object.get(step)?;
            Object::get_mut(Arc::make_mut(object), step)
        }
        Value::Array(array) => {
            let at = array_index(step)?;
            Arc::make_mut(array).get_mut(at)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
