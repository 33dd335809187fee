//! Operations of a patch that are about an array which the model keeps in buckets. The item does not
//! hold it, so they are taken out of the patch and done to the elements: `-` appends, and an element
//! is reached by its key where another array has an index.

use orrery_types::{Error, Result, Value};

use super::{Kind, Operation, Patch, Pointer};

/// A change of a bucketed array.
#[derive(Clone, Debug)]
pub(crate) enum ArrayEdit {
    Append(Value),
    /// The whole array is this from now on.
    Whole(Value),
    Change(Box<str>, ElementEdit),
    Remove(Box<str>),
}

/// A change of one element.
#[derive(Clone, Debug)]
pub(crate) enum ElementEdit {
    Is(Value),
    /// An operation on something in it.
    Within(Box<ElementOperation>),
}

/// An operation whose path starts at the element.
#[derive(Clone, Debug)]
pub(crate) struct ElementOperation(Operation);

impl ElementOperation {
    pub(crate) fn apply(&self, element: &mut Value) -> Result<()> {
        self.0.apply(element)
    }
}

impl Patch {
    /// Takes out what is about one of these arrays, each named by its way from the root.
    pub(crate) fn split(&self, arrays: &[Vec<&str>]) -> Result<(Self, Vec<(usize, ArrayEdit)>)> {
        let (mut rest, mut edits) = (self.clone(), Vec::new());
        rest.operations.clear();
        for operation in &self.operations {
            let within = |path: &Pointer| arrays.iter().position(|array| path.is_within(array));
            if let Kind::Move(from) = &operation.kind
                && (within(from).is_some() || within(&operation.path).is_some())
            {
                return Err(Error::invalid(format!(
                    "The model keeps the array at '{}' or '{}' in items of its own: nothing can be \
                     moved into it or out of it. Add it and remove it instead.",
                    from.text, operation.path.text
                )));
            }
            match within(&operation.path) {
                Some(at) => edits.push((at, operation.array_edit(arrays[at].len())?)),
                None => rest.operations.push(operation.clone()),
            }
        }
        Ok((rest, edits))
    }
}

impl Operation {
    fn array_edit(&self, depth: usize) -> Result<ArrayEdit> {
        let value = match &self.kind {
            Kind::Add(value) | Kind::Set(value) | Kind::Replace(value) => Some(value.clone()),
            Kind::Remove | Kind::Increment(_) | Kind::Move(_) => None,
        };
        let is_removal = matches!(self.kind, Kind::Remove);
        let refuse = || {
            Error::invalid(format!("The operation at '{}' does not fit an array.", self.path.text))
        };
        match (&self.path.segments[depth..], value) {
            ([], Some(value)) => Ok(ArrayEdit::Whole(value)),
            ([], None) if is_removal => Ok(ArrayEdit::Whole(Value::array(vec![]))),
            ([last], Some(value)) if &**last == "-" => Ok(ArrayEdit::Append(value)),
            ([key], Some(value)) => Ok(ArrayEdit::Change(key.clone(), ElementEdit::Is(value))),
            ([key], None) if is_removal => Ok(ArrayEdit::Remove(key.clone())),
            ([key, within @ ..], _) if !within.is_empty() => {
                let path = Pointer { text: self.path.text.clone(), segments: within.to_vec() };
                let operation = ElementOperation(Operation { kind: self.kind.clone(), path });
                Ok(ArrayEdit::Change(key.clone(), ElementEdit::Within(Box::new(operation))))
            }
            _ => Err(refuse()),
        }
    }
}

impl Pointer {
    fn is_within(&self, array: &[&str]) -> bool {
        let own = self.segments.iter().map(|segment| &**segment);
        self.segments.len() >= array.len() && own.zip(array).all(|(a, b)| a == *b)
    }
}
