//! The definition of a global secondary index: its source, and what of each source item it holds.

use std::sync::Arc;

use orrery_query::PlainProjection;
use orrery_types::ids::Rid;
use orrery_types::{Error, Object, PartitionKeyDef, PropertyPath, Result, Value, limits};

use crate::catalog::resource::object;
use crate::item::operation::SYSTEM_PROPERTIES;

/// The names of the definition in the body of a container: the present one, and the one of earlier versions
/// of the protocol. Clients send both.
pub(crate) const DEFINITION_NAMES: [&str; 2] =
    ["globalSecondaryIndexDefinition", "materializedViewDefinition"];

const SOURCE_ID: &str = "sourceCollectionId";
const SOURCE_RID: &str = "sourceCollectionRid";
const QUERY: &str = "definition";

/// Under which name an item of an index has the id of its source item.
const SOURCE_ITEM_ID: &str = "_id";

/// What an index is kept from.
#[derive(Clone, Debug, PartialEq)]
pub struct SecondaryIndexDef {
    /// The id of the source container.
    pub source_id: Box<str>,
    /// Its `_rid`. A request need not name it; a definition that is kept does.
    pub(crate) source_rid: Option<Rid>,
    query: Box<str>,
    pub(crate) projection: IndexProjection,
}

impl SecondaryIndexDef {
    /// Reads the definition from the body of a container, under either name; `None` if it has none.
    pub(crate) fn parse(body: &Value) -> Result<Option<Self>> {
        let mut found: Option<Self> = None;
        for name in DEFINITION_NAMES {
            let given = body.get(name);
            if matches!(given, Value::Undefined | Value::Null) {
                continue;
            }
            let read = Self::read(name, given)?;
            if found.as_ref().is_some_and(|other| *other != read) {
                return Err(Error::invalid(format!(
                    "{} and {} must say the same; send one of them.",
                    DEFINITION_NAMES[0], DEFINITION_NAMES[1]
                )));
            }
            found = Some(read);
        }
        Ok(found)
    }

    fn read(name: &str, given: &Value) -> Result<Self> {
        let text = |member: &str| match given.get(member) {
            Value::String(text) if !text.is_empty() => Ok(&**text),
            other => Err(Error::invalid(format!(
                "{name}.{member} must be a string that is not empty; it is {}.",
                other.to_json()
            ))),
        };
        let source_rid = match given.get(SOURCE_RID) {
            Value::Undefined | Value::Null => None,
            rid => {
                let parsed = rid.as_str().and_then(|text| text.parse::<Rid>().ok());
                let is_container = |rid: &Rid| matches!(rid, Rid::Container { .. });
                Some(parsed.filter(is_container).ok_or_else(|| {
                    let rid = rid.to_json();
                    Error::invalid(format!(
                        "{name}.{SOURCE_RID} must be the _rid of a container; it is {rid}."
                    ))
                })?)
            }
        };
        let (source_id, query) = (text(SOURCE_ID)?, text(QUERY)?);
        let projection = IndexProjection::parse(query).map_err(|reason| {
            Error::invalid(format!(
                "The definition '{query}' of a global secondary index is invalid: {reason}. It is \
                 SELECT * or a list of paths, FROM c, and nothing else."
            ))
        })?;
        Ok(Self { source_id: source_id.into(), source_rid, query: query.into(), projection })
    }

    /// Whether another definition says the same, as far as it says anything.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.source_id == other.source_id
            && self.query == other.query
            && other.source_rid.is_none_or(|rid| self.source_rid == Some(rid))
    }

    /// As it is kept and sent.
    pub(crate) fn to_object(&self) -> Object {
        let rid = self.source_rid.map(|rid| Value::from(rid.to_string()));
        object([
            (SOURCE_ID, (&*self.source_id).into()),
            (SOURCE_RID, rid.unwrap_or(Value::Undefined)),
            (QUERY, (&*self.query).into()),
        ])
    }

    /// Refuses partition keys that the items of the index would not have: its own, and that of its source.
    pub(crate) fn check_partition_keys(
        &self,
        own: &PartitionKeyDef,
        source: &PartitionKeyDef,
    ) -> Result<()> {
        if own.system_key {
            return Err(Error::invalid(
                "A global secondary index needs a partitionKey; the request has none.",
            ));
        }
        if let Some(path) = own.paths.iter().find(|path| !self.projection.gives(path)) {
            return Err(Error::invalid(format!(
                "The partition key path '{path}' of the global secondary index is not in its \
                 definition '{}'. Select a path that ends with it.",
                self.query
            )));
        }
        let missing = source.paths.iter().find(|path| !self.projection.takes(path));
        match missing.filter(|_| !source.system_key) {
            Some(path) => Err(Error::invalid(format!(
                "Unable to fetch source collection provided in the Materialized View definition: its \
                 partition key path '{path}' is not in the definition '{}'. Select it too.",
                self.query
            ))),
            None => Ok(()),
        }
    }
}

/// What of a source item an index holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IndexProjection {
    /// Everything.
    All,
    /// Values, each under a name at the top of the item.
    Members(Vec<Member>),
}

/// One value of an item of an index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    name: Arc<str>,
    /// Where the source item has it, from its root down.
    path: Vec<Arc<str>>,
}

impl IndexProjection {
    fn parse(query: &str) -> std::result::Result<Self, Box<str>> {
        let paths = match PlainProjection::parse(query)? {
            PlainProjection::All => return Ok(Self::All),
            PlainProjection::Paths(paths) => paths,
        };
        let (given, most) = (paths.len(), limits::SECONDARY_INDEX_PATHS_MAX);
        if given > most {
            return Err(format!("it has {given} paths; the limit is {most}").into());
        }
        let mut members: Vec<Member> = Vec::with_capacity(paths.len());
        for path in paths {
            let member = Member::at(path)?;
            if members.iter().any(|other| other.name == member.name) {
                return Err(format!("two of its paths end with '{}'", member.name).into());
            }
            members.push(member);
        }
        Ok(Self::Members(members))
    }

    /// Whether items of the index have what a path leads to.
    fn gives(&self, path: &PropertyPath) -> bool {
        let first = path.segments().first().map(|name| &**name).unwrap_or_default();
        match self {
            Self::All => first != "id" && !SYSTEM_PROPERTIES.contains(&first),
            Self::Members(members) => members.iter().any(|member| *member.name == *first),
        }
    }

    /// Whether what a path of source items leads to is taken over.
    fn takes(&self, path: &PropertyPath) -> bool {
        let starts = |member: &Member| {
            let names = member.path.iter().map(|name| &**name);
            member.path.len() <= path.segments().len()
                && names.eq(path.segments().iter().take(member.path.len()).map(|name| &**name))
        };
        match self {
            Self::All => true,
            Self::Members(members) => members.iter().any(starts),
        }
    }

    /// The item of the index, with an id of its own.
    pub(crate) fn apply(&self, source: &Value, id: &str) -> Value {
        let mut item = Object::new();
        item.set("id", id.into());
        match self {
            Self::All => {
                item.set(SOURCE_ITEM_ID, source.get("id").clone());
                let own = source.as_object().into_iter().flat_map(Object::iter);
                for (name, value) in own {
                    let is_replaced = matches!(&**name, "id" | SOURCE_ITEM_ID);
                    if !is_replaced && !SYSTEM_PROPERTIES.contains(&&**name) {
                        item.set(name, value.clone());
                    }
                }
            }
            Self::Members(members) => {
                for member in members {
                    let found = member.path.iter().fold(source, |value, name| value.get(name));
                    let is_missing = found.is_undefined();
                    item.set(&member.name, if is_missing { Value::Null } else { found.clone() });
                }
            }
        }
        Value::object(item)
    }
}

impl Member {
    /// The value at a path, under its last name; the id of the source item has a name of its own.
    fn at(path: Vec<Arc<str>>) -> std::result::Result<Self, Box<str>> {
        let name = match &path[..] {
            [only] if **only == *"id" => SOURCE_ITEM_ID.into(),
            [.., last] => last.clone(),
            [] => return Err("a path is empty".into()),
        };
        let is_system = |name: &str| SYSTEM_PROPERTIES.contains(&name);
        if is_system(&name) || path.first().is_some_and(|first| is_system(first)) {
            let path = path.join(".");
            return Err(format!("it selects the system property '{path}'").into());
        }
        if *name == *"id" {
            let path = path.join(".");
            return Err(format!("'{path}' would take the place of the item's own id").into());
        }
        Ok(Self { name, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        Value::parse(json.as_bytes()).expect(json)
    }

    #[test]
    fn items_are_projected() {
        let source = value(
            r#"{"id":"a","_id":"old","n":1,"o":{"x":{"y":2}},"_rid":"r","_ts":5,"_etag":"e"}"#,
        );
        let apply = |query: &str| {
            IndexProjection::parse(query).expect(query).apply(&source, "own").to_json()
        };
        let all = r#"{"id":"own","_id":"a","n":1,"o":{"x":{"y":2}}}"#;
        assert_eq!(apply("SELECT * FROM c"), all);
        let some = r#"{"id":"own","y":2,"_id":"a","missing":null,"z":null}"#;
        assert_eq!(apply("SELECT c.o.x.y, c.id, c.missing, c.n.z FROM c"), some);
    }

    #[test]
    fn names_that_clash_are_refused() {
        for (query, what) in [
            ("SELECT c.a, c.b.a FROM c", "more than once"),
            ("SELECT c.id, c._id FROM c", "two of its paths"),
            ("SELECT c._ts FROM c", "system property"),
            ("SELECT c.a._etag FROM c", "system property"),
            ("SELECT c.a.id FROM c", "own id"),
        ] {
            let refusal = IndexProjection::parse(query).expect_err(query);
            assert!(refusal.contains(what), "{query}: {refusal}");
        }
    }

    #[test]
    fn partition_keys_must_be_projected() {
        let path = |text: &str| PropertyPath::parse(text).expect(text);
        let some = IndexProjection::parse("SELECT c.a.b, c.o, c.id FROM c").expect("it is valid");
        for (text, gives, takes) in [
            ("/b", true, false),
            ("/o", true, true),
            ("/o/x", true, true),
            ("/_id", true, false),
            ("/id", false, true),
            ("/a", false, false),
            ("/a/b", false, true),
        ] {
            assert_eq!(some.gives(&path(text)), gives, "{text} in the index");
            assert_eq!(some.takes(&path(text)), takes, "{text} of the source");
        }
        let all = IndexProjection::All;
        assert!(all.gives(&path("/a/b")) && all.gives(&path("/_id")) && all.takes(&path("/id")));
        assert!(!all.gives(&path("/id")) && !all.gives(&path("/_ts")));
    }

    #[test]
    fn both_names_must_say_the_same() {
        let one = r#"{"sourceCollectionId":"s","definition":"SELECT * FROM c"}"#;
        let other = r#"{"sourceCollectionId":"t","definition":"SELECT * FROM c"}"#;
        let body = |a: &str, b: &str| {
            value(&format!(r#"{{"{}":{a},"{}":{b}}}"#, DEFINITION_NAMES[0], DEFINITION_NAMES[1]))
        };
        let read = SecondaryIndexDef::parse(&body(one, one)).expect("it is valid");
        assert_eq!(read.map(|read| read.source_id), Some("s".into()));
        SecondaryIndexDef::parse(&body(one, other)).expect_err("they differ");
        assert_eq!(SecondaryIndexDef::parse(&value("{}")), Ok(None));
        for bad in [
            "{}",
            r#"{"sourceCollectionId":1,"definition":"SELECT * FROM c"}"#,
            r#"{"sourceCollectionId":"s","definition":""}"#,
            r#"{"sourceCollectionId":"s","definition":"SELECT * FROM c","sourceCollectionRid":"x"}"#,
        ] {
            SecondaryIndexDef::parse(&body(bad, "null")).expect_err(bad);
        }
    }
}
