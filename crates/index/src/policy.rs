//! The indexing policy of a container: read from what a client sent, checked, completed with the
//! service's defaults, and written back in one normal form.

use std::sync::Arc;

use orrery_types::{Object, Value, limits};

use crate::path::{IndexPath, IndexStep, PathEnd};
use crate::vector::VectorIndex;

/// Why a policy is refused; the message is for the sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(pub Box<str>);

impl PolicyError {
    pub(crate) fn new(message: impl Into<Box<str>>) -> Self {
        Self(message.into())
    }
}

type Result<T> = std::result::Result<T, PolicyError>;

/// Whether anything is indexed at all. The legacy mode `lazy` is accepted and becomes consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum IndexingMode {
    Consistent,
    None,
}

/// One path of a composite index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CompositePath {
    pub path: IndexPath,
    pub descending: bool,
}

/// A spatial index: its path, and a box for planar ones. It takes all geometries, whichever of them
/// its creator names.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SpatialIndex {
    pub path: IndexPath,
    pub bounding_box: Option<[f64; 4]>,
}

/// What of an item is indexed.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the members are those of the wire's policy")]
pub struct IndexingPolicy {
    pub mode: IndexingMode,
    pub automatic: bool,
    pub included: Vec<IndexPath>,
    pub excluded: Vec<IndexPath>,
    pub composite: Vec<Vec<CompositePath>>,
    pub spatial: Vec<SpatialIndex>,
    pub vector: Vec<VectorIndex>,
    pub full_text: Vec<IndexPath>,
}

const ETAG_PATH: &str = "/\"_etag\"/?";
const GEOMETRIES: [&str; 4] = ["Point", "LineString", "Polygon", "MultiPolygon"];

impl Default for IndexingPolicy {
    /// Everything but the etag.
    fn default() -> Self {
        let path = |text| IndexPath::parse(text, false).expect("a path of ours is well-formed");
        Self {
            mode: IndexingMode::Consistent,
            automatic: true,
            included: vec![path("/*")],
            excluded: vec![path(ETAG_PATH)],
            composite: vec![],
            spatial: vec![],
            vector: vec![],
            full_text: vec![],
        }
    }
}

impl IndexingPolicy {
    /// Reads and completes a policy; undefined or null gives the default.
    pub fn parse(value: &Value) -> Result<Self> {
        let object = match value {
            Value::Undefined | Value::Null => return Ok(Self::default()),
            Value::Object(object) => object,
            _ => return Err(PolicyError::new("The indexing policy must be an object.")),
        };
        let mode = parse_mode(value.get("indexingMode"))?;
        let automatic = match value.get("automatic") {
            Value::Undefined | Value::Null => mode != IndexingMode::None,
            Value::Bool(b) => *b,
            _ => return Err(PolicyError::new("indexingPolicy.automatic must be true or false.")),
        };
        let mut policy = Self {
            mode,
            automatic,
            included: parse_paths(object, "includedPaths")?,
            excluded: parse_paths(object, "excludedPaths")?,
            composite: parse_composite(value.get("compositeIndexes"))?,
            spatial: parse_list(value, "spatialIndexes", parse_spatial)?,
            vector: parse_list(value, "vectorIndexes", VectorIndex::parse)?,
            full_text: parse_list(value, "fullTextIndexes", parse_full_text)?,
        };
        policy.complete()?;
        Ok(policy)
    }

    fn complete(&mut self) -> Result<()> {
        if self.mode == IndexingMode::None {
            if self.automatic || self.included.iter().any(|p| !p.is_root()) {
                return Err(PolicyError::new(
                    "The indexing mode 'none' needs 'automatic' to be false and no included path.",
                ));
            }
            self.included.clear();
            self.excluded.clear();
            return Ok(());
        }
        let mentions_root = |paths: &[IndexPath]| paths.iter().filter(|p| p.is_root()).count();
        match (mentions_root(&self.included), mentions_root(&self.excluded)) {
            (0, 0) if self.included.is_empty() => {
                self.included = Self::default().included;
            }
            (0, 0) => {
                return Err(PolicyError::new(
                    "The special mandatory indexing path \"/*\" is not provided in any of the path \
                     type sets. Please provide this path in one of the sets.",
                ));
            }
            (1, 0) | (0, 1) => {}
            _ => {
                return Err(PolicyError::new(
                    "The indexing path \"/*\" may be given once, either included or excluded.",
                ));
            }
        }
        let named = |p: &IndexPath| {
            p.end == PathEnd::Scalar && p.steps == [IndexStep::Property("_etag".into())]
        };
        if !self.included.iter().chain(&self.excluded).any(named) {
            self.excluded.extend(Self::default().excluded);
        }
        Ok(())
    }

    /// The normal form that is stored and echoed.
    pub fn to_value(&self) -> Value {
        let mode = match self.mode {
            IndexingMode::Consistent => "consistent",
            IndexingMode::None => "none",
        };
        let paths = |list: &[IndexPath]| {
            Value::array(list.iter().map(|p| object([("path", Value::from(&*p.text))])).collect())
        };
        let mut out = vec![
            ("indexingMode", Value::from(mode)),
            ("automatic", Value::Bool(self.automatic)),
            ("includedPaths", paths(&self.included)),
            ("excludedPaths", paths(&self.excluded)),
        ];
        if !self.composite.is_empty() {
            let index = |paths: &Vec<CompositePath>| {
                Value::array(paths.iter().map(CompositePath::to_value).collect())
            };
            out.push((
                "compositeIndexes",
                Value::array(self.composite.iter().map(index).collect()),
            ));
        }
        if !self.spatial.is_empty() {
            let spatial = self.spatial.iter().map(SpatialIndex::to_value).collect();
            out.push(("spatialIndexes", Value::array(spatial)));
        }
        if !self.vector.is_empty() {
            let vector = self.vector.iter().map(VectorIndex::to_value).collect();
            out.push(("vectorIndexes", Value::array(vector)));
        }
        if !self.full_text.is_empty() {
            out.push(("fullTextIndexes", paths(&self.full_text)));
        }
        object(out)
    }
}

impl CompositePath {
    fn to_value(&self) -> Value {
        let order = if self.descending { "descending" } else { "ascending" };
        object([("path", Value::from(&*self.path.text)), ("order", Value::from(order))])
    }
}

impl SpatialIndex {
    fn to_value(&self) -> Value {
        let types = GEOMETRIES.iter().map(|name| Value::from(*name)).collect();
        let bounding_box = self.bounding_box.map_or(Value::Undefined, |edges| {
            object(["xmin", "ymin", "xmax", "ymax"].into_iter().zip(edges.map(Value::from)))
        });
        object([
            ("path", Value::from(&*self.path.text)),
            ("types", Value::array(types)),
            ("boundingBox", bounding_box),
        ])
    }
}

/// An object value out of pairs; undefined ones are left out.
pub(crate) fn object<'n>(pairs: impl IntoIterator<Item = (&'n str, Value)>) -> Value {
    let pairs = pairs.into_iter().map(|(name, value)| (Arc::from(name), value));
    Value::object(pairs.collect())
}

fn parse_mode(value: &Value) -> Result<IndexingMode> {
    let text = match value {
        Value::Undefined | Value::Null => return Ok(IndexingMode::Consistent),
        Value::String(s) => s.to_ascii_lowercase(),
        _ => return Err(PolicyError::new("indexingPolicy.indexingMode must be a string.")),
    };
    match text.as_str() {
        "consistent" | "lazy" => Ok(IndexingMode::Consistent),
        "none" => Ok(IndexingMode::None),
        _ => Err(PolicyError::new(format!(
            "The indexing mode '{text}' is unknown; it is one of consistent, lazy, none."
        ))),
    }
}

/// Elements of an optional array member, each read by `parse`.
pub(crate) fn parse_list<T>(
    owner: &Value,
    member: &str,
    parse: impl Fn(&Value) -> Result<T>,
) -> Result<Vec<T>> {
    match owner.get(member) {
        Value::Undefined | Value::Null => Ok(vec![]),
        Value::Array(elements) => elements.iter().map(parse).collect(),
        _ => Err(PolicyError::new(format!(
            "One of the specified inputs is invalid: '{member}' must be an array."
        ))),
    }
}

/// The text of the `path` member.
pub(crate) fn path_text(value: &Value) -> Result<&str> {
    value.get("path").as_str().ok_or_else(|| PolicyError::new("An index path has no 'path' text."))
}

pub(crate) fn invalid_path(text: &str) -> PolicyError {
    PolicyError::new(format!(
        "The indexing path '{text}' could not be accepted, failed near position '0'. Please ensure \
         that the path is a valid path. Common errors include invalid characters or absence of \
         quotes around labels."
    ))
}

fn parse_paths(policy: &Object, member: &str) -> Result<Vec<IndexPath>> {
    let owner = Value::object(policy.clone());
    let paths = parse_list(&owner, member, |element| {
        let text = path_text(element)?;
        IndexPath::parse(text, false).ok_or_else(|| invalid_path(text))
    })?;
    // The etag's path is added to every policy and does not count: what was accepted without it
    // must be accepted when it is read back with it.
    let counted = paths.iter().filter(|path| &*path.text != ETAG_PATH).count();
    if counted > limits::INDEX_PATHS_MAX {
        return Err(PolicyError::new(format!(
            "'{member}' has {} paths; the limit is {}.",
            counted,
            limits::INDEX_PATHS_MAX
        )));
    }
    for (i, path) in paths.iter().enumerate() {
        if paths.iter().take(i).any(|p| p.text == path.text) {
            return Err(PolicyError::new(format!("'{member}' names the path '{path}' twice.")));
        }
    }
    Ok(paths)
}

fn parse_composite(value: &Value) -> Result<Vec<Vec<CompositePath>>> {
    let indexes = match value {
        Value::Undefined | Value::Null => return Ok(vec![]),
        Value::Array(indexes) => indexes,
        _ => return Err(PolicyError::new("'compositeIndexes' must be an array of arrays.")),
    };
    if indexes.len() > limits::COMPOSITE_INDEXES_MAX {
        return Err(PolicyError::new(format!(
            "There are {} composite indexes; the limit is {}.",
            indexes.len(),
            limits::COMPOSITE_INDEXES_MAX
        )));
    }
    let parse = |index: &Value| {
        let paths = index
            .as_array()
            .ok_or_else(|| PolicyError::new("Each composite index must be an array of paths."))?;
        if paths.len() < 2 || paths.len() > limits::COMPOSITE_PATHS_MAX {
            return Err(PolicyError::new(format!(
                "A composite index has 2 to {} paths; one has {}.",
                limits::COMPOSITE_PATHS_MAX,
                paths.len()
            )));
        }
        paths.iter().map(parse_composite_path).collect()
    };
    indexes.iter().map(parse).collect()
}

fn parse_composite_path(value: &Value) -> Result<CompositePath> {
    let text = path_text(value)?;
    let path = IndexPath::parse(text, true).ok_or_else(|| invalid_path(text))?;
    if text.ends_with("/?") || text.ends_with("/*") {
        return Err(invalid_path(text));
    }
    let descending = match value.get("order") {
        Value::Undefined | Value::Null => false,
        Value::String(s) if s.eq_ignore_ascii_case("ascending") => false,
        Value::String(s) if s.eq_ignore_ascii_case("descending") => true,
        _ => {
            return Err(PolicyError::new(format!(
                "The order of the composite path '{text}' must be ascending or descending."
            )));
        }
    };
    Ok(CompositePath { path, descending })
}

fn parse_spatial(value: &Value) -> Result<SpatialIndex> {
    let text = path_text(value)?;
    let path = IndexPath::parse(text, true).ok_or_else(|| invalid_path(text))?;
    let types = parse_list(value, "types", |t| {
        let name = t.as_str().unwrap_or_default();
        let is_known = GEOMETRIES.iter().any(|g| g.eq_ignore_ascii_case(name));
        is_known.then_some(()).ok_or_else(|| {
            PolicyError::new(format!("The spatial type '{name}' of path '{text}' is unknown."))
        })
    })?;
    if types.is_empty() {
        return Err(PolicyError::new(format!(
            "The spatial index of path '{text}' has no 'types'."
        )));
    }
    let bounds = value.get("boundingBox");
    let bounding_box = match bounds {
        Value::Undefined | Value::Null => None,
        _ => {
            let edge = |name: &str| bounds.get(name).as_number().map(orrery_types::Number::as_f64);
            let all = (|| Some([edge("xmin")?, edge("ymin")?, edge("xmax")?, edge("ymax")?]))();
            Some(all.filter(|[x0, y0, x1, y1]| x0 < x1 && y0 < y1).ok_or_else(|| {
                PolicyError::new(format!(
                    "The boundingBox of path '{text}' needs xmin < xmax and ymin < ymax."
                ))
            })?)
        }
    };
    Ok(SpatialIndex { path, bounding_box })
}

fn parse_full_text(value: &Value) -> Result<IndexPath> {
    let text = path_text(value)?;
    IndexPath::parse(text, true).ok_or_else(|| invalid_path(text))
}

#[cfg(test)]
mod tests;
