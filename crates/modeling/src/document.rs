//! The model as it is written: types, relations, aggregates and buckets, read from JSON. What only
//! the database can tell, whether a container exists for instance, is checked in `rules`.

use orrery_types::{Value, limits};

use crate::error::ModelError;
use crate::path::{ModelPath, ModelStep};
use crate::reader::Reader;

/// A whole model.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Model {
    pub types: Vec<ItemType>,
    pub relations: Vec<Relation>,
    pub aggregates: Vec<Aggregate>,
    pub buckets: Vec<Bucket>,
}

/// A kind of item: those of a container for which an expression is true.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ItemType {
    pub name: Box<str>,
    pub container: Box<str>,
    /// `where`: the item is called `c`.
    pub filter: Option<Box<str>>,
    /// JSON Schema.
    pub schema: Option<Value>,
    pub limits: SizeLimits,
    pub validation: Validation,
}

/// Sizes of the stored text of an item.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SizeLimits {
    pub warn_bytes: Option<usize>,
    pub max_bytes: Option<usize>,
}

/// When a type is checked and what a violation does.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Validation {
    pub level: Level,
    pub action: Action,
}

/// Which writes are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Every one.
    Strict,
    /// New items, and items that were valid before.
    Moderate,
}

/// What a violation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The write is refused.
    Error,
    /// The write happens, and the answer says what is wrong.
    Warn,
}

/// A reference from items of one type to items of another.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Relation {
    pub name: Box<str>,
    pub from: Box<str>,
    pub path: ModelPath,
    pub to: Box<str>,
    /// A number counts as the string that spells it.
    pub coerce: bool,
    /// Where the source says in which partition the target lies; empty: the target's id is its key.
    pub partition_key: Vec<ModelPath>,
    pub on_missing: OnMissing,
    pub on_delete: OnDelete,
    /// Names beside the reference, and expressions over the target, which is called `t`.
    pub copies: Vec<(Box<str>, Box<str>)>,
    /// `None`: nothing was said.
    pub propagate: Option<Propagate>,
    pub max_fanout: usize,
    pub on_overflow: OnOverflow,
    pub inverse: Option<Inverse>,
    pub client_writes: ClientWrites,
}

/// The name of a copy and its expression.
pub(crate) type Copy = (Box<str>, Box<str>);

/// The relation seen from its target.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Inverse {
    pub name: Box<str>,
    /// Where the ids of the sources are stored, if they are.
    pub store: Option<ModelPath>,
    pub max_items: usize,
}

/// A reference that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OnMissing {
    Allow,
    Reject,
}

/// What becomes of references when their target is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDelete {
    /// They stay and lead nowhere.
    Keep,
    /// The delete is refused.
    Restrict,
    /// The referring items are deleted.
    Cascade,
    /// The reference is removed.
    Unset,
    /// The array element that holds the reference is removed.
    Pull,
}

/// When effects in other partitions happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Propagate {
    Sync,
    Async,
}

/// What happens when a write would touch more items than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OnOverflow {
    Fail,
    Async,
}

/// What a client's value for a property does that the server owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientWrites {
    /// It is replaced by the true one.
    Replace,
    /// A value that is not the true one is refused.
    Reject,
}

/// A property computed from all items that refer to this one.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Aggregate {
    pub on: Box<str>,
    pub path: ModelPath,
    /// The name of an inverse.
    pub of: Box<str>,
    pub kind: AggregateKind,
    /// Over the referring item, which is called `c`.
    pub argument: Box<str>,
    pub propagate: Propagate,
    pub max_fanout: usize,
    pub on_overflow: OnOverflow,
    pub client_writes: ClientWrites,
}

/// Which aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AggregateKind {
    Count,
    Sum,
    Avg,
    Min,
    Max,
}

/// An array that is kept in items of its own.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Bucket {
    pub on: Box<str>,
    pub array: ModelPath,
    pub element_key: Option<Box<str>>,
    pub recent: Option<(ModelPath, usize)>,
    pub count: Option<ModelPath>,
    pub items: usize,
    pub max_bytes: usize,
    pub link: ModelPath,
    pub id_format: Box<str>,
    pub client_writes: ClientWrites,
}

/// Properties of the stored form that a client may send back.
const SYSTEM: [&str; 6] = ["_rid", "_self", "_etag", "_ts", "_state", "id"];

impl Model {
    /// Reads a model; the error names the place and the reason.
    pub fn parse(document: &Value) -> Result<Self, ModelError> {
        let mut plain = document.clone();
        if let Some(object) = plain.as_object_mut() {
            for name in SYSTEM {
                object.remove(name);
            }
        }
        let root = Reader::new(&plain, String::new())?;
        if root.get("version").as_i64() != Some(1) {
            return Err(ModelError::new("/version", "this must be the number 1"));
        }
        let model = Self {
            types: types(&root)?,
            relations: list(&root, "relations", relation)?,
            aggregates: list(&root, "aggregates", aggregate)?,
            buckets: list(&root, "buckets", bucket)?,
        };
        root.finish()?;
        Ok(model)
    }

    /// A type by name.
    pub fn item_type(&self, name: &str) -> Option<&ItemType> {
        self.types.iter().find(|t| &*t.name == name)
    }
}

fn types(root: &Reader<'_>) -> Result<Vec<ItemType>, ModelError> {
    let value = root.get("types");
    let Some(object) = value.as_object() else {
        return Err(
            root.error("types", "this must be an object: the name of each type, and the type")
        );
    };
    if object.len() > limits::MODEL_RULES_MAX {
        return Err(root.error("types", too_many("types")));
    }
    object.iter().map(|(name, value)| item_type(name, value)).collect()
}

fn too_many(what: &str) -> String {
    format!("a model has at most {} {what}", limits::MODEL_RULES_MAX)
}

fn list<T>(
    root: &Reader<'_>,
    name: &'static str,
    read: fn(&Reader<'_>) -> Result<T, ModelError>,
) -> Result<Vec<T>, ModelError> {
    let value = root.get(name);
    if value.is_undefined() {
        return Ok(vec![]);
    }
    let entries = value.as_array().ok_or_else(|| root.error(name, "this must be an array"))?;
    if entries.len() > limits::MODEL_RULES_MAX {
        return Err(root.error(name, too_many(name)));
    }
    let mut all = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let reader = Reader::new(entry, format!("/{name}/{index}"))?;
        all.push(read(&reader)?);
        reader.finish()?;
    }
    Ok(all)
}

fn item_type(name: &str, value: &Value) -> Result<ItemType, ModelError> {
    let reader = Reader::new(value, format!("/types/{name}"))?;
    if name.is_empty() {
        return Err(ModelError::new("/types", "a type needs a name"));
    }
    let schema = match reader.get("schema") {
        Value::Undefined => None,
        schema @ (Value::Object(_) | Value::Bool(_)) => Some(schema.clone()),
        _ => return Err(reader.error("schema", "this must be a JSON Schema")),
    };
    let found = ItemType {
        name: name.into(),
        container: reader.required_text("container")?.into(),
        filter: reader.text("where")?.map(Into::into),
        schema,
        limits: size_limits(&reader)?,
        validation: validation(&reader)?,
    };
    reader.finish()?;
    Ok(found)
}

fn size_limits(of: &Reader<'_>) -> Result<SizeLimits, ModelError> {
    let value = of.get("limits");
    if value.is_undefined() {
        return Ok(SizeLimits::default());
    }
    let reader = Reader::new(value, of.at("limits"))?;
    let found = SizeLimits {
        warn_bytes: reader.count("warnBytes", limits::ITEM_SIZE_BYTES_MAX)?,
        max_bytes: reader.count("maxBytes", limits::ITEM_SIZE_BYTES_MAX)?,
    };
    if let (Some(warn), Some(max)) = (found.warn_bytes, found.max_bytes)
        && warn > max
    {
        return Err(reader.error("warnBytes", "this must not be more than 'maxBytes'"));
    }
    reader.finish()?;
    Ok(found)
}

fn validation(of: &Reader<'_>) -> Result<Validation, ModelError> {
    let mut found = Validation { level: Level::Strict, action: Action::Error };
    let value = of.get("validation");
    if value.is_undefined() {
        return Ok(found);
    }
    let reader = Reader::new(value, of.at("validation"))?;
    let levels = [("strict", Level::Strict), ("moderate", Level::Moderate)];
    found.level = reader.word("level", &levels)?.unwrap_or(found.level);
    let actions = [("error", Action::Error), ("warn", Action::Warn)];
    found.action = reader.word("action", &actions)?.unwrap_or(found.action);
    reader.finish()?;
    Ok(found)
}

fn relation(reader: &Reader<'_>) -> Result<Relation, ModelError> {
    let path = reader.required_path("path")?;
    let on_delete = reader.word(
        "onDelete",
        &[
            ("keep", OnDelete::Keep),
            ("restrict", OnDelete::Restrict),
            ("cascade", OnDelete::Cascade),
            ("unset", OnDelete::Unset),
            ("pull", OnDelete::Pull),
        ],
    )?;
    let on_delete = on_delete.unwrap_or(OnDelete::Keep);
    if on_delete == OnDelete::Pull && path.is_plain() {
        let reason = "'pull' drops the array element that holds the reference, and the path goes \
                      through no array; use 'unset'";
        return Err(reader.error("onDelete", reason));
    }
    if on_delete == OnDelete::Unset && path.last_name().is_none() {
        let reason =
            "'unset' removes a property, and the path ends in an array element; use 'pull'";
        return Err(reader.error("onDelete", reason));
    }
    let missing = [("reject", OnMissing::Reject), ("allow", OnMissing::Allow)];
    Ok(Relation {
        name: navigation_name(reader, "name")?,
        from: reader.required_text("from")?.into(),
        to: reader.required_text("to")?.into(),
        coerce: reader.word("coerce", &[("string", true)])?.unwrap_or(false),
        partition_key: partition_key(reader, &path)?,
        on_missing: reader.word("onMissing", &missing)?.unwrap_or(OnMissing::Allow),
        on_delete,
        copies: copies(reader, &path)?,
        path,
        propagate: propagate(reader)?,
        max_fanout: max_fanout(reader)?,
        on_overflow: on_overflow(reader)?,
        inverse: inverse(reader)?,
        client_writes: client_writes(reader)?,
    })
}

/// A name by which queries reach through a relation: it must stand after a dot.
fn navigation_name(reader: &Reader<'_>, name: &'static str) -> Result<Box<str>, ModelError> {
    let text = reader.required_text(name)?;
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if first && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(text.into());
    }
    let reason = "a name of a relation is written in queries after a dot: it has letters, digits and \
                  underscores, and a letter first";
    Err(reader.error(name, reason))
}

fn partition_key(reader: &Reader<'_>, path: &ModelPath) -> Result<Vec<ModelPath>, ModelError> {
    let value = reader.get("partitionKey");
    if value.is_undefined() {
        return Ok(vec![]);
    }
    let wrong = |reason: &str| reader.error("partitionKey", reason);
    let entries = value.as_array().ok_or_else(|| wrong("this must be an array of paths"))?;
    let mut paths = Vec::new();
    for entry in entries {
        let text = entry.as_str().ok_or_else(|| wrong("this must be an array of paths"))?;
        let key = ModelPath::parse(text).map_err(wrong)?;
        let shared = key.steps().iter().rposition(|step| *step == ModelStep::Each);
        let shared = shared.map_or(0, |last| last + 1);
        if path.steps().get(..shared) != key.steps().get(..shared) {
            let reason = "a path through an array must go through the same one as the reference";
            return Err(wrong(reason));
        }
        paths.push(key);
    }
    Ok(paths)
}

fn copies(reader: &Reader<'_>, path: &ModelPath) -> Result<Vec<Copy>, ModelError> {
    let value = reader.get("copies");
    if value.is_undefined() {
        return Ok(vec![]);
    }
    let wrong = |reason: &str| reader.error("copies", reason);
    let Some(reference) = path.last_name() else {
        let reason = "a copy stands beside its reference in an object, and the path ends in an array \
                      element; make the elements objects: [{\"id\":\"a\"}] instead of [\"a\"]";
        return Err(wrong(reason));
    };
    let object = value.as_object().ok_or_else(|| wrong("this must be an object"))?;
    let mut all = Vec::new();
    for (name, text) in object.iter() {
        let text = text.as_str().ok_or_else(|| wrong("each copy is an expression over t"))?;
        if name.is_empty() || &**name == reference {
            return Err(wrong("a copy needs a name of its own, other than that of the reference"));
        }
        all.push(((&**name).into(), text.into()));
    }
    Ok(all)
}

fn propagate(reader: &Reader<'_>) -> Result<Option<Propagate>, ModelError> {
    reader.word("propagate", &[("sync", Propagate::Sync), ("async", Propagate::Async)])
}

fn max_fanout(reader: &Reader<'_>) -> Result<usize, ModelError> {
    let found = reader.count("maxFanout", limits::MODEL_FANOUT_MAX)?;
    Ok(found.unwrap_or(limits::MODEL_FANOUT_DEFAULT))
}

fn on_overflow(reader: &Reader<'_>) -> Result<OnOverflow, ModelError> {
    let words = [("fail", OnOverflow::Fail), ("async", OnOverflow::Async)];
    Ok(reader.word("onOverflow", &words)?.unwrap_or(OnOverflow::Fail))
}

fn client_writes(reader: &Reader<'_>) -> Result<ClientWrites, ModelError> {
    let words = [("replace", ClientWrites::Replace), ("reject", ClientWrites::Reject)];
    Ok(reader.word("clientWrites", &words)?.unwrap_or(ClientWrites::Replace))
}

fn inverse(of: &Reader<'_>) -> Result<Option<Inverse>, ModelError> {
    let value = of.get("inverse");
    if value.is_undefined() {
        return Ok(None);
    }
    let reader = Reader::new(value, of.at("inverse"))?;
    let found = Inverse {
        name: navigation_name(&reader, "name")?,
        store: reader.plain_path("store")?,
        max_items: reader
            .count("maxItems", limits::MODEL_INVERSE_ITEMS_MAX)?
            .unwrap_or(limits::MODEL_INVERSE_ITEMS_MAX),
    };
    reader.finish()?;
    Ok(Some(found))
}

fn aggregate(reader: &Reader<'_>) -> Result<Aggregate, ModelError> {
    let value = reader.required_text("value")?;
    let (kind, argument) = aggregate_call(value).ok_or_else(|| {
        let reason = "this must be COUNT(1), or SUM, AVG, MIN or MAX of an expression over c, the \
                      item that refers to this one";
        reader.error("value", reason)
    })?;
    let path = reader.plain_path("path")?;
    Ok(Aggregate {
        on: reader.required_text("on")?.into(),
        path: path.ok_or_else(|| ModelError::new(reader.path(), "'path' is missing"))?,
        of: reader.required_text("of")?.into(),
        kind,
        argument,
        propagate: propagate(reader)?.unwrap_or(Propagate::Async),
        max_fanout: max_fanout(reader)?,
        on_overflow: on_overflow(reader)?,
        client_writes: client_writes(reader)?,
    })
}

fn aggregate_call(text: &str) -> Option<(AggregateKind, Box<str>)> {
    let (name, rest) = text.trim().split_once('(')?;
    let argument = rest.strip_suffix(')')?.trim();
    let kind = match name.trim().to_ascii_uppercase().as_str() {
        "COUNT" => AggregateKind::Count,
        "SUM" => AggregateKind::Sum,
        "AVG" => AggregateKind::Avg,
        "MIN" => AggregateKind::Min,
        "MAX" => AggregateKind::Max,
        _ => return None,
    };
    (!argument.is_empty()).then(|| (kind, argument.into()))
}

fn bucket(reader: &Reader<'_>) -> Result<Bucket, ModelError> {
    let array = reader.plain_path("array")?;
    let recent = match reader.get("recent") {
        Value::Undefined => None,
        value => {
            let recent = Reader::new(value, reader.at("recent"))?;
            let path = recent.plain_path("path")?;
            let path = path.ok_or_else(|| ModelError::new(recent.path(), "'path' is missing"))?;
            let keep = recent.count("keep", limits::MODEL_RECENT_MAX)?.unwrap_or(1);
            recent.finish()?;
            Some((path, keep))
        }
    };
    let inner = Reader::new(reader.get("bucket"), reader.at("bucket"))?;
    let link = inner.plain_path("link")?;
    let found = Bucket {
        on: reader.required_text("on")?.into(),
        array: array.ok_or_else(|| ModelError::new(reader.path(), "'array' is missing"))?,
        element_key: reader.text("elementKey")?.map(Into::into),
        recent,
        count: reader.plain_path("count")?,
        items: inner.count("items", limits::MODEL_BUCKET_ITEMS_MAX)?.unwrap_or(100),
        max_bytes: inner.count("maxBytes", limits::ITEM_SIZE_BYTES_MAX / 2)?.unwrap_or(256 * 1024),
        link: link.ok_or_else(|| ModelError::new(inner.path(), "'link' is missing"))?,
        id_format: inner.text("idFormat")?.unwrap_or("{id}~{seq:06}").into(),
        client_writes: client_writes(reader)?,
    };
    inner.finish()?;
    Ok(found)
}
