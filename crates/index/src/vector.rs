//! Vectors of a container: which properties hold embeddings ([`VectorEmbeddingPolicy`]) and how
//! they are indexed ([`VectorIndex`]). The search itself comes with the search capability; the
//! texts of the errors are those the SDKs' own tests look for.

use std::collections::HashSet;

use orrery_types::{Value, limits};

use crate::policy::{PolicyError, object, parse_list, path_text};

type Result<T> = std::result::Result<T, PolicyError>;

/// One vector index of an indexing policy, echoed as it was sent.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the members are those of the wire")]
pub struct VectorIndex {
    pub path: Box<str>,
    pub kind: Box<str>,
    sent: Value,
}

/// The embeddings of a container, echoed as they were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorEmbeddingPolicy {
    /// Path and dimensions of each embedding.
    pub embeddings: Vec<Embedding>,
}

/// One property that holds an embedding.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the members are those of the wire")]
pub struct Embedding {
    pub path: Box<str>,
    pub dimensions: i64,
    sent: Value,
}

const INDEX_KINDS: [&str; 3] = ["flat", "quantizedFlat", "diskANN"];
const DATA_TYPES: [&str; 4] = ["float32", "float16", "uint8", "int8"];
const DISTANCES: [&str; 3] = ["cosine", "dotproduct", "euclidean"];

fn one_of(known: &[&str], text: &str) -> bool {
    known.iter().any(|k| k.eq_ignore_ascii_case(text))
}

impl VectorIndex {
    pub(crate) fn parse(value: &Value) -> Result<Self> {
        let path = path_text(value)?;
        let kind = value.get("type").as_str().unwrap_or_default();
        if !one_of(&INDEX_KINDS, kind) {
            return Err(PolicyError::new(format!(
                "The Vector Indexing Policy's Index Type::{kind} is invalid for path::{path}."
            )));
        }
        check_range(value, "quantizationByteSize", "QuantizationByteSize", 1, 256)?;
        check_range(value, "indexingSearchListSize", "IndexingSearchListSize", 25, 500)?;
        let shard_paths = parse_list(value, "vectorIndexShardKey", |p| {
            Ok(Box::<str>::from(p.as_str().unwrap_or_default()))
        })?;
        if shard_paths.len() > 1 {
            return Err(PolicyError::new(format!(
                "The number of shard paths defined in the Vector Indexing Policy: {} exceeds the \
                 maximum: 1.",
                shard_paths.len()
            )));
        }
        if let Some(bad) = shard_paths.iter().find(|p| !p.starts_with('/')) {
            return Err(PolicyError::new(format!(
                "The Vector Indexing Policy has an invalid Shard Path: {bad}."
            )));
        }
        Ok(Self { path: path.into(), kind: kind.into(), sent: value.clone() })
    }

    pub(crate) fn to_value(&self) -> Value {
        self.sent.clone()
    }
}

fn check_range(value: &Value, member: &str, name: &str, min: i64, max: i64) -> Result<()> {
    match value.get(member) {
        Value::Undefined | Value::Null => Ok(()),
        given => match given.as_i64() {
            Some(n) if (min..=max).contains(&n) => Ok(()),
            _ => Err(PolicyError::new(format!(
                "The Vector Indexing Policy parameter {name} value :: {} is out of range. The \
                 allowed range is between {min} and {max}.",
                given.to_json()
            ))),
        },
    }
}

impl VectorEmbeddingPolicy {
    /// Reads the policy; undefined or null means no embeddings.
    pub fn parse(value: &Value) -> Result<Self> {
        if matches!(value, Value::Undefined | Value::Null) {
            return Ok(Self::default());
        }
        Ok(Self { embeddings: parse_list(value, "vectorEmbeddings", Embedding::parse)? })
    }

    /// As it was sent; undefined when there is none.
    pub fn to_value(&self) -> Value {
        if self.embeddings.is_empty() {
            return Value::Undefined;
        }
        let embeddings = self.embeddings.iter().map(|e| e.sent.clone()).collect();
        object([("vectorEmbeddings", Value::array(embeddings))])
    }

    /// No path has two vector indexes. Earlier versions took such policies, so what is stored is not
    /// checked for it.
    pub fn check_distinct(indexes: &[VectorIndex]) -> Result<()> {
        let mut paths = HashSet::new();
        match indexes.iter().find(|index| !paths.insert(&index.path)) {
            Some(index) => Err(PolicyError::new(format!(
                "The Vector Indexing Policy has the path::{} more than once.",
                index.path
            ))),
            None => Ok(()),
        }
    }

    /// Every vector index needs an embedding at its path.
    pub fn check_indexes(&self, indexes: &[VectorIndex]) -> Result<()> {
        for index in indexes {
            let Some(embedding) = self.embeddings.iter().find(|e| e.path == index.path) else {
                return Err(PolicyError::new(format!(
                    "The Vector Indexing Policy's path::{} not matching in Embedding's path.",
                    index.path
                )));
            };
            if index.kind.eq_ignore_ascii_case("flat")
                && embedding.dimensions > limits::VECTOR_DIMENSIONS_FLAT_MAX
            {
                return Err(PolicyError::new(format!(
                    "The Vector Indexing Policy's Index Type::flat takes at most {} dimensions; \
                     path::{} has {}.",
                    limits::VECTOR_DIMENSIONS_FLAT_MAX,
                    index.path,
                    embedding.dimensions
                )));
            }
        }
        Ok(())
    }
}

impl Embedding {
    /// How vectors there are compared, as the policy names it.
    pub fn distance(&self) -> &str {
        self.sent.get("distanceFunction").as_str().unwrap_or_default()
    }

    fn parse(value: &Value) -> Result<Self> {
        let path = path_text(value)?;
        let data_type = value.get("dataType").as_str().unwrap_or_default();
        if !one_of(&DATA_TYPES, data_type) {
            return Err(PolicyError::new(format!(
                "The Vector Embedding Policy has an invalid DataType:{data_type} for path:{path}."
            )));
        }
        let distance = value.get("distanceFunction").as_str().unwrap_or_default();
        if !one_of(&DISTANCES, distance) {
            return Err(PolicyError::new(format!(
                "The Vector Embedding Policy has an invalid DistanceFunction:{distance} for \
                 path:{path}."
            )));
        }
        let given = value.get("dimensions");
        let dimensions = given.as_i64().unwrap_or(0);
        if dimensions > limits::VECTOR_DIMENSIONS_MAX {
            return Err(PolicyError::new(format!(
                "The Vector Embedding Policy has Dimensions:{dimensions} which is more than the \
                 maximum supported value:{} for path:{path}.",
                limits::VECTOR_DIMENSIONS_MAX
            )));
        }
        if dimensions < 1 {
            return Err(PolicyError::new(format!(
                "The Vector Embedding Policy has Dimensions:{} which is less than 1 for \
                 path:{path}.",
                given.to_json()
            )));
        }
        Ok(Self { path: path.into(), dimensions, sent: value.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Value {
        Value::parse(json.as_bytes()).expect(json)
    }

    #[test]
    fn vector_mistakes_get_the_texts_that_sdk_tests_look_for() {
        let index = |json: &str| VectorIndex::parse(&parse(json)).expect_err(json).to_string();
        assert!(
            index(r#"{"path":"/v","type":"notFlat"}"#).contains("Index Type::notFlat is invalid")
        );
        assert!(
            index(r#"{"path":"/v","type":"flat","quantizationByteSize":0}"#).contains(
                "QuantizationByteSize value :: 0 is out of range. The allowed range is between 1 and 256."
            )
        );
        assert!(
            index(r#"{"path":"/v","type":"diskANN","indexingSearchListSize":5}"#).contains(
                "IndexingSearchListSize value :: 5 is out of range. The allowed range is between 25 and 500."
            )
        );
        assert!(
            index(r#"{"path":"/v","type":"diskANN","vectorIndexShardKey":["country"]}"#)
                .contains("has an invalid Shard Path: country.")
        );
        let embedding = |json: &str| {
            let policy = parse(&format!(r#"{{"vectorEmbeddings":[{json}]}}"#));
            VectorEmbeddingPolicy::parse(&policy).expect_err(json).to_string()
        };
        let with = |data: &str, dimensions: &str, distance: &str| {
            embedding(&format!(
                r#"{{"path":"/v","dataType":"{data}","dimensions":{dimensions},"distanceFunction":"{distance}"}}"#
            ))
        };
        assert!(with("float", "3", "cosine").contains("invalid DataType"));
        assert!(
            with("float32", "8000", "cosine")
                .contains("Dimensions:8000 which is more than the maximum")
        );
        assert!(
            with("float32", "-1", "cosine")
                .contains("The Vector Embedding Policy has Dimensions:-1")
        );
        assert!(
            with("float32", "3", "handMeasured").contains("invalid DistanceFunction:handMeasured")
        );
    }

    #[test]
    fn an_index_needs_its_embedding() {
        let index =
            VectorIndex::parse(&parse(r#"{"path":"/vector1","type":"flat"}"#)).expect("index");
        let error =
            VectorEmbeddingPolicy::default().check_indexes(&[index]).expect_err("no embedding");
        assert!(error.to_string().contains("path::/vector1 not matching in Embedding's path."));
    }
}
