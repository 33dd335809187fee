//! The `resumeFilter` of a request: where a client that merges the ranges of an ordered query itself
//! wants a range to go on.
//!
//! ```text
//! {"value": [<a key of ORDER BY>, …], "rid": "<an item's _rid>", "exclude": <bool>}
//! ```
//! Ranges before the one in which it stopped begin behind the keys, those after it with them; the one
//! in which it stopped begins with the item.

use orrery_query::{ResumeFilter, SortValue};
use orrery_types::ids::{ChildKind, Rid};
use orrery_types::{Error, Result, Value};

use crate::Container;

/// The filter before its container is known.
#[derive(Clone, Debug)]
pub(super) struct ResumePosition {
    keys: Vec<SortValue>,
    rid: Option<Rid>,
    exclude: bool,
}

impl ResumePosition {
    /// Reads the property; `None` if it is missing.
    pub(super) fn parse(filter: &Value) -> Result<Option<Self>> {
        if matches!(filter, Value::Undefined | Value::Null) {
            return Ok(None);
        }
        let values = filter.get("value").as_array().filter(|values| !values.is_empty());
        let values = values.ok_or_else(|| {
            Error::invalid("'resumeFilter' must be an object with an array 'value' of one or more.")
        })?;
        let keys = values.iter().map(key).collect::<Result<_>>()?;
        let rid = match filter.get("rid") {
            Value::Undefined | Value::Null => None,
            text => Some(rid(text)?),
        };
        let exclude = match filter.get("exclude") {
            Value::Undefined | Value::Null => false,
            Value::Bool(exclude) => *exclude,
            _ => return Err(Error::invalid("'exclude' of 'resumeFilter' must be a boolean.")),
        };
        Ok(Some(Self { keys, rid, exclude }))
    }

    /// The place among the items of a container.
    pub(super) fn within(&self, container: &Container) -> Result<ResumeFilter> {
        let row = match self.rid {
            None => None,
            Some(Rid::Child { database, container: of, kind: ChildKind::Item, number })
                if (database, of) == (container.database, container.number) =>
            {
                Some(number)
            }
            Some(rid) => {
                return Err(Error::invalid(format!(
                    "'rid' of 'resumeFilter', '{rid}', names no item of this container."
                )));
            }
        };
        Ok(ResumeFilter { keys: self.keys.clone(), row, exclude: self.exclude })
    }
}

fn key(value: &Value) -> Result<SortValue> {
    SortValue::from_resume_value(value).ok_or_else(|| {
        Error::invalid(
            "A 'value' of 'resumeFilter' must be null, a boolean, a number, a string, [] for \
             undefined, or an object with 'type', 'low' and 'high' for the hash of an array or \
             object.",
        )
    })
}

fn rid(text: &Value) -> Result<Rid> {
    let parsed = text.as_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Error::invalid("'rid' of 'resumeFilter' must be the _rid of an item."))
}
