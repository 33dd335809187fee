//! What a container declares: partition key, indexing, time to live, unique keys and the rest,
//! each checked, completed with the service's defaults, and echoed in one normal form.

use orrery_index::{
    FullTextPolicy, IndexingMode, IndexingPolicy, PolicyError, VectorEmbeddingPolicy,
};
use orrery_query::Geospatial;
use orrery_types::{
    Error, Object, PartitionKeyDef, PartitionKeyKind, PropertyPath, Result, Value, limits,
};

use super::policies::{
    ComputedPropertyDefinition, change_feed, client_encryption, computed_properties,
    conflict_resolution, geospatial,
};
use crate::catalog::resource::{object, require_object};
use crate::query::prepare::QueryFacts;
use crate::secondary_index::definition::{DEFINITION_NAMES, SecondaryIndexDef};

/// A checked definition.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerDef {
    /// Where the partition key stands and how it is hashed.
    pub partition_key: PartitionKeyDef,
    /// Whether the creator named the hash version; echoed only then.
    version_named: bool,
    /// What is indexed.
    pub indexing: IndexingPolicy,
    /// Seconds an item lives; -1: only items that say so; `None`: all live for ever.
    pub default_ttl: Option<i64>,
    /// Sets of paths whose values are unique within a logical partition.
    pub unique_keys: Vec<Vec<PropertyPath>>,
    /// Properties that hold vectors.
    pub vectors: VectorEmbeddingPolicy,
    /// Properties that hold text to be searched.
    pub full_text: FullTextPolicy,
    /// Properties that are computed when a query names them.
    pub computed: Vec<ComputedPropertyDefinition>,
    /// What it is kept from, if it is a global secondary index.
    pub secondary_index: Option<SecondaryIndexDef>,
    /// Policies that are kept and echoed, by name.
    echoed: Object,
    /// What queries need to know of all this, read once.
    pub(crate) query_facts: QueryFacts,
}

impl ContainerDef {
    /// Reads a definition from the body of a request, or back from the catalog.
    pub fn parse(body: &Value) -> Result<Self> {
        require_object(body)?;
        check_members(body)?;
        let (partition_key, version_named) = partition_key(body.get("partitionKey"))?;
        let indexing = IndexingPolicy::parse(body.get("indexingPolicy")).map_err(policy)?;
        let vectors =
            VectorEmbeddingPolicy::parse(body.get("vectorEmbeddingPolicy")).map_err(policy)?;
        vectors.check_indexes(&indexing.vector).map_err(policy)?;
        let full_text = FullTextPolicy::parse(body.get("fullTextPolicy")).map_err(policy)?;
        full_text.check_indexes(&indexing.full_text).map_err(policy)?;
        let default_ttl = default_ttl(body.get("defaultTtl"))?;
        if default_ttl.is_some() && indexing.mode == IndexingMode::None {
            return Err(Error::invalid(
                "A time to live needs the indexing mode 'consistent'; it is 'none'.",
            ));
        }
        let ttl_path = body.get("ttlPropertyPath");
        if default_ttl.is_none() && !matches!(ttl_path, Value::Undefined | Value::Null) {
            return Err(Error::invalid("A ttlPropertyPath needs a defaultTtl; there is none."));
        }
        let echoed = object([
            (
                "conflictResolutionPolicy",
                conflict_resolution(body.get("conflictResolutionPolicy"))?,
            ),
            ("geospatialConfig", geospatial(body.get("geospatialConfig"))?),
            ("analyticalStorageTtl", analytical_ttl(body.get("analyticalStorageTtl"))?),
            ("changeFeedPolicy", change_feed(body.get("changeFeedPolicy"))?),
            ("clientEncryptionPolicy", client_encryption(body.get("clientEncryptionPolicy"))?),
        ]);
        Ok(Self {
            computed: computed_properties(body.get("computedProperties"), &indexing)?,
            partition_key,
            version_named,
            indexing,
            default_ttl,
            unique_keys: unique_keys(body.get("uniqueKeyPolicy"))?,
            vectors,
            full_text,
            secondary_index: SecondaryIndexDef::parse(body)?,
            echoed,
            query_facts: QueryFacts::default(),
        })
    }

    /// Reads a definition that is to be kept: its normal form must read back as the same, or the
    /// catalog could not be opened again.
    pub fn accept(body: &Value) -> Result<Self> {
        let definition = Self::parse(body)?;
        // Only here: a definition that was kept by a version with another grammar is read nevertheless.
        definition.query_facts.of(&definition)?;
        VectorEmbeddingPolicy::check_distinct(&definition.indexing.vector).map_err(policy)?;
        definition.check_bounding_boxes()?;
        definition.check_secondary_index()?;
        let again = Self::parse(&Value::object(definition.to_object()));
        let same = |again: Self| {
            again.partition_key == definition.partition_key
                && again.unique_keys == definition.unique_keys
        };
        if again.is_ok_and(same) {
            return Ok(definition);
        }
        Err(Error::invalid("The definition has a path that cannot be written in its normal form."))
    }

    /// How long the versions of items are kept for the feed of all versions, in seconds; `None` if
    /// they are not.
    pub fn versions_kept_s(&self) -> Option<u64> {
        let minutes = self.echoed.get("changeFeedPolicy")?.get("retentionDuration").as_i64()?;
        u64::try_from(minutes).ok().filter(|m| *m > 0).map(|m| m.saturating_mul(60))
    }

    /// What the figures of its items lie on.
    pub(crate) fn geospatial(&self) -> Geospatial {
        let config = self.echoed.get("geospatialConfig");
        match config.map(|config| config.get("type")).and_then(Value::as_str) {
            Some("Geometry") => Geospatial::Geometry,
            _ => Geospatial::Geography,
        }
    }

    /// A plane has no bounds of its own, so its spatial indexes name theirs.
    fn check_bounding_boxes(&self) -> Result<()> {
        let unbounded = self.indexing.spatial.iter().find(|index| index.bounding_box.is_none());
        match (self.geospatial(), unbounded) {
            (Geospatial::Geometry, Some(index)) => Err(Error::invalid(format!(
                "The spatial index of path '{}' needs a boundingBox, because the container has \
                 Geometry.",
                index.path
            ))),
            _ => Ok(()),
        }
    }

    /// Only the index itself writes its items, so nothing may remove them or refuse them.
    fn check_secondary_index(&self) -> Result<()> {
        let refused = match &self.secondary_index {
            Some(_) if self.default_ttl.is_some() => "defaultTtl",
            Some(_) if !self.unique_keys.is_empty() => "uniqueKeyPolicy",
            _ => return Ok(()),
        };
        Err(Error::invalid(format!(
            "A global secondary index cannot have a {refused}: its items follow those of its source."
        )))
    }

    /// The definition after a replace. What a body leaves out that cannot change, stays.
    pub fn replaced_by(&self, body: &Value) -> Result<Self> {
        let mut body = require_object(body)?.clone();
        if DEFINITION_NAMES.iter().all(|name| body.get(name).is_none_or(|v| *v == Value::Null))
            && let Some(old) = self.to_object().get(DEFINITION_NAMES[0])
        {
            body.set(DEFINITION_NAMES[0], old.clone());
        }
        for name in ["partitionKey", "uniqueKeyPolicy"] {
            if body.get(name).is_none_or(|v| *v == Value::Null)
                && let Some(old) = self.to_object().get(name)
            {
                body.set(name, old.clone());
            }
        }
        let new = Self::accept(&Value::object(body))?;
        let same_key = new.partition_key.paths == self.partition_key.paths
            && new.partition_key.kind == self.partition_key.kind
            && new.partition_key.version == self.partition_key.version;
        if !same_key {
            return Err(Error::invalid("Document collection partition key cannot be changed."));
        }
        if new.unique_keys != self.unique_keys {
            return Err(Error::invalid(
                "Unique index cannot be modified. To change the unique index, remove the \
                 collection and re-create a new one.",
            ));
        }
        if new.encryption() != self.encryption() {
            return Err(Error::invalid(
                "The clientEncryptionPolicy of a container cannot be changed; send it as it is.",
            ));
        }
        self.check_vectors_kept(&new)?;
        let same_source = match (&self.secondary_index, &new.secondary_index) {
            (Some(old), Some(new)) => old.agrees_with(new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same_source {
            return Err(Error::invalid(
                "The definition of a global secondary index, and its source, cannot be changed, nor can \
                 a container become one. Delete the index and create another one.",
            ));
        }
        let (partition_key, secondary_index) =
            (self.partition_key.clone(), self.secondary_index.clone());
        Ok(Self { partition_key, version_named: self.version_named, secondary_index, ..new })
    }

    fn encryption(&self) -> Option<&Value> {
        self.echoed.get("clientEncryptionPolicy")
    }

    /// The ids of the client encryption keys that the container relies on.
    pub(crate) fn encryption_keys(&self) -> impl Iterator<Item = &str> {
        let paths = self.encryption().map(|policy| policy.get("includedPaths"));
        let paths = paths.and_then(Value::as_array).unwrap_or_default();
        paths.iter().filter_map(|path| path.get("clientEncryptionKeyId").as_str())
    }

    fn check_vectors_kept(&self, new: &Self) -> Result<()> {
        let kept = |e| new.vectors.embeddings.contains(e);
        let touched = self
            .vectors
            .embeddings
            .iter()
            .any(|e| !kept(e) && new.vectors.embeddings.iter().any(|n| n.path == e.path));
        if touched {
            return Err(Error::invalid(
                "Paths in existing embedding policy cannot be modified in Collection Replace",
            ));
        }
        let kept = |i| new.indexing.vector.contains(i);
        let touched = self
            .indexing
            .vector
            .iter()
            .any(|i| !kept(i) && new.indexing.vector.iter().any(|n| n.path == i.path));
        if touched {
            return Err(Error::invalid(
                "Paths in existing vector indexing policy cannot be modified in Collection Replace",
            ));
        }
        Ok(())
    }

    /// The normal form, in the order in which the service lists it; without the id.
    pub fn to_object(&self) -> Object {
        let mut out = object([
            ("indexingPolicy", self.indexing.to_value()),
            ("partitionKey", self.partition_key_value()),
            ("defaultTtl", self.default_ttl.map_or(Value::Undefined, Value::from)),
            ("uniqueKeyPolicy", self.unique_keys_value()),
        ]);
        for (name, value) in self.echoed.iter() {
            out.set(name, value.clone());
        }
        if let Some(definition) = &self.secondary_index {
            out.set(DEFINITION_NAMES[0], Value::object(definition.to_object()));
        }
        out.set("vectorEmbeddingPolicy", self.vectors.to_value());
        out.set("fullTextPolicy", self.full_text.to_value());
        if !self.computed.is_empty() {
            let computed = self.computed.iter().map(ComputedPropertyDefinition::to_value).collect();
            out.set("computedProperties", Value::array(computed));
        }
        out
    }

    fn partition_key_value(&self) -> Value {
        let key = &self.partition_key;
        let paths = key.paths.iter().map(|p| p.to_string().into()).collect();
        let kind = match key.kind {
            PartitionKeyKind::Hash => "Hash",
            PartitionKeyKind::MultiHash => "MultiHash",
        };
        let version = i64::from(key.version);
        let version = if self.version_named { version.into() } else { Value::Undefined };
        let system = if key.system_key { Value::Bool(true) } else { Value::Undefined };
        Value::object(object([
            ("paths", Value::array(paths)),
            ("kind", kind.into()),
            ("version", version),
            ("systemKey", system),
        ]))
    }

    fn unique_keys_value(&self) -> Value {
        if self.unique_keys.is_empty() {
            return Value::Undefined;
        }
        let key = |paths: &Vec<PropertyPath>| {
            let paths = paths.iter().map(|p| p.to_string().into()).collect();
            Value::object(object([("paths", Value::array(paths))]))
        };
        let keys = self.unique_keys.iter().map(key).collect();
        Value::object(object([("uniqueKeys", Value::array(keys))]))
    }
}

/// Members that are objects. Without this one of another type would count as left out, and what it
/// was to guard would go unguarded.
const OBJECTS: [&str; 10] = [
    "partitionKey",
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "geospatialConfig",
    "changeFeedPolicy",
    "clientEncryptionPolicy",
    "vectorEmbeddingPolicy",
    "fullTextPolicy",
    DEFINITION_NAMES[0],
    DEFINITION_NAMES[1],
];

fn check_members(body: &Value) -> Result<()> {
    let fits =
        |name: &str| matches!(body.get(name), Value::Undefined | Value::Null | Value::Object(_));
    match OBJECTS.into_iter().find(|name| !fits(name)) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "The property '{name}' must be an object; it is {}.",
            body.get(name).to_json()
        ))),
    }
}

fn policy(error: PolicyError) -> Error {
    Error::Invalid(error.0)
}

/// The key definition, and whether its version was named.
fn partition_key(value: &Value) -> Result<(PartitionKeyDef, bool)> {
    if matches!(value, Value::Undefined | Value::Null) {
        let paths =
            vec![PropertyPath::parse("/_partitionKey").expect("a path of ours is well-formed")];
        let kind = PartitionKeyKind::Hash;
        return Ok((PartitionKeyDef { paths, kind, version: 1, system_key: true }, false));
    }
    let paths = value.get("paths").as_array().unwrap_or_default();
    let paths = paths
        .iter()
        .map(|p| {
            let text = p.as_str().unwrap_or_default();
            PropertyPath::parse(text)
                .map_err(|e| Error::invalid(format!("The partition key path {e}.")))
        })
        .collect::<Result<Vec<_>>>()?;
    let kind = match value.get("kind") {
        Value::Undefined | Value::Null => PartitionKeyKind::Hash,
        Value::String(s) if s.eq_ignore_ascii_case("Hash") || s.eq_ignore_ascii_case("Range") => {
            PartitionKeyKind::Hash
        }
        Value::String(s) if s.eq_ignore_ascii_case("MultiHash") => PartitionKeyKind::MultiHash,
        other => {
            let message = format!(
                "The partition key kind {} is unknown; it is Hash or MultiHash.",
                other.to_json()
            );
            return Err(Error::invalid(message));
        }
    };
    let most = if kind == PartitionKeyKind::Hash { 1 } else { limits::PARTITION_KEY_LEVELS_MAX };
    if paths.is_empty() || paths.len() > most {
        return Err(Error::invalid(format!(
            "Too many partition key paths, or none: there are {}; a key of this kind has 1 to {most}.",
            paths.len()
        )));
    }
    if paths.iter().enumerate().any(|(i, p)| paths[..i].contains(p)) {
        return Err(Error::invalid("The partition key names a path twice."));
    }
    let (version, named) = match (value.get("version"), kind) {
        (Value::Undefined | Value::Null, PartitionKeyKind::Hash) => (1, false),
        (Value::Undefined | Value::Null, PartitionKeyKind::MultiHash) => (2, true),
        (given, kind) => match (version_number(given), kind) {
            (Some(2), _) => (2, true),
            (Some(1), PartitionKeyKind::Hash) => (1, true),
            _ => {
                let message = format!(
                    "The partition key version {} is not valid for its kind.",
                    given.to_json()
                );
                return Err(Error::invalid(message));
            }
        },
    };
    let system_key = value.get("systemKey").is_true();
    Ok((PartitionKeyDef { paths, kind, version, system_key }, named))
}

/// A number, or the name that the Java SDK gives it.
fn version_number(given: &Value) -> Option<i64> {
    match given {
        Value::String(name) if name.eq_ignore_ascii_case("V1") => Some(1),
        Value::String(name) if name.eq_ignore_ascii_case("V2") => Some(2),
        given => given.as_i64(),
    }
}

fn default_ttl(value: &Value) -> Result<Option<i64>> {
    match value {
        Value::Undefined | Value::Null => Ok(None),
        given => match given.as_i64() {
            Some(ttl) if ttl == -1 || (1..=limits::TTL_SECONDS_MAX).contains(&ttl) => Ok(Some(ttl)),
            _ => Err(Error::invalid(format!(
                "The value of defaultTtl must be -1 or from 1 to {}; it is {}.",
                limits::TTL_SECONDS_MAX,
                given.to_json()
            ))),
        },
    }
}

fn analytical_ttl(value: &Value) -> Result<Value> {
    match value {
        Value::Undefined | Value::Null => Ok(Value::Undefined),
        given => match given.as_i64() {
            Some(ttl) if (-1..=limits::TTL_SECONDS_MAX).contains(&ttl) => Ok(ttl.into()),
            _ => Err(Error::invalid(format!(
                "The value of analyticalStorageTtl must be an integer of -1 or more; it is {}.",
                given.to_json()
            ))),
        },
    }
}

fn unique_keys(value: &Value) -> Result<Vec<Vec<PropertyPath>>> {
    let keys = match value.get("uniqueKeys") {
        Value::Undefined | Value::Null => return Ok(vec![]),
        Value::Array(keys) => keys,
        _ => return Err(Error::invalid("uniqueKeyPolicy.uniqueKeys must be an array.")),
    };
    if keys.len() > limits::UNIQUE_KEYS_MAX {
        let (given, most) = (keys.len(), limits::UNIQUE_KEYS_MAX);
        return Err(Error::invalid(format!("There are {given} unique keys; the limit is {most}.")));
    }
    let path = |value: &Value| {
        PropertyPath::parse(value.as_str().unwrap_or_default())
            .map_err(|e| Error::invalid(format!("The unique key path {e}.")))
    };
    let key = |key: &Value| {
        let paths = key.get("paths").as_array().unwrap_or_default();
        if paths.is_empty() || paths.len() > limits::UNIQUE_KEY_PATHS_MAX {
            return Err(Error::invalid(format!(
                "A unique key has 1 to {} paths; one has {}.",
                limits::UNIQUE_KEY_PATHS_MAX,
                paths.len()
            )));
        }
        paths.iter().map(path).collect::<Result<Vec<_>>>()
    };
    keys.iter().map(key).collect()
}

#[cfg(test)]
mod tests;
