//! The smaller policies of a container: checked, completed, and echoed.

use orrery_index::{IndexStep, IndexingPolicy};
use orrery_types::{Error, Result, Value};

use crate::catalog::resource::object;

/// A property that a query computes from the item.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the members are those of the wire")]
pub struct ComputedPropertyDefinition {
    pub name: Box<str>,
    pub query: Box<str>,
}

impl ComputedPropertyDefinition {
    pub(super) fn to_value(&self) -> Value {
        Value::object(object([("name", (&*self.name).into()), ("query", (&*self.query).into())]))
    }
}

pub(super) fn computed_properties(
    value: &Value,
    indexing: &IndexingPolicy,
) -> Result<Vec<ComputedPropertyDefinition>> {
    let properties = match value {
        Value::Undefined | Value::Null => return Ok(vec![]),
        Value::Array(properties) => properties,
        _ => return Err(Error::invalid("One of the specified inputs is invalid")),
    };
    let text = |property: &Value, member: &str| {
        property.get(member).as_str().unwrap_or_default().to_owned()
    };
    let definitions: Vec<(String, String)> =
        properties.iter().map(|p| (text(p, "name"), text(p, "query"))).collect();
    for (i, (name, _)) in definitions.iter().enumerate() {
        let step = IndexStep::Property(name.as_str().into());
        if indexing.spatial.iter().any(|s| s.path.steps.first() == Some(&step)) {
            return Err(Error::invalid(format!(
                "Computed property '{name}' at index ({i}) has a spatial index. Remove the spatial \
                 index on this path."
            )));
        }
    }
    let property = |(name, query): (String, String)| ComputedPropertyDefinition {
        name: name.into(),
        query: query.into(),
    };
    Ok(definitions.into_iter().map(property).collect())
}

pub(super) fn conflict_resolution(value: &Value) -> Result<Value> {
    let text = |member: &str, default: &str| match value.get(member) {
        Value::Undefined | Value::Null => Ok(default.to_owned()),
        Value::String(s) => Ok((**s).to_owned()),
        other => Err(Error::invalid(format!(
            "conflictResolutionPolicy.{member} must be a string; it is {}.",
            other.to_json()
        ))),
    };
    let mode = text("mode", "LastWriterWins")?;
    let (mode, path) = match mode.to_ascii_lowercase().as_str() {
        "lastwriterwins" => ("LastWriterWins", "/_ts"),
        "custom" => ("Custom", ""),
        _ => {
            return Err(Error::invalid(format!(
                "The conflict resolution mode '{mode}' is unknown; it is LastWriterWins or Custom."
            )));
        }
    };
    let path = match text("conflictResolutionPath", path)? {
        given if given.is_empty() => path.to_owned(),
        given => given,
    };
    Ok(Value::object(object([
        ("mode", mode.into()),
        ("conflictResolutionPath", path.into()),
        ("conflictResolutionProcedure", text("conflictResolutionProcedure", "")?.into()),
    ])))
}

pub(super) fn geospatial(value: &Value) -> Result<Value> {
    let kind = match value.get("type") {
        Value::Undefined | Value::Null => "Geography",
        Value::String(s) if s.eq_ignore_ascii_case("Geography") => "Geography",
        Value::String(s) if s.eq_ignore_ascii_case("Geometry") => "Geometry",
        other => {
            return Err(Error::invalid(format!(
                "The geospatial type {} is unknown; it is Geography or Geometry.",
                other.to_json()
            )));
        }
    };
    Ok(Value::object(object([("type", kind.into())])))
}

pub(super) fn change_feed(value: &Value) -> Result<Value> {
    match (value, value.get("retentionDuration").as_i64()) {
        (Value::Undefined | Value::Null, _) => Ok(Value::Undefined),
        (_, Some(0..)) => Ok(value.clone()),
        _ => Err(Error::invalid(
            "changeFeedPolicy.retentionDuration must be a whole number of minutes, 0 or more.",
        )),
    }
}

pub(super) fn client_encryption(value: &Value) -> Result<Value> {
    if matches!(value, Value::Undefined | Value::Null) {
        return Ok(Value::Undefined);
    }
    let paths = value
        .get("includedPaths")
        .as_array()
        .ok_or_else(|| Error::invalid("clientEncryptionPolicy.includedPaths must be an array."))?;
    for path in paths {
        for member in ["path", "clientEncryptionKeyId", "encryptionType", "encryptionAlgorithm"] {
            if path.get(member).as_str().is_none_or(str::is_empty) {
                return Err(Error::invalid(format!(
                    "An entry of clientEncryptionPolicy.includedPaths has no '{member}'."
                )));
            }
        }
    }
    Ok(value.clone())
}
