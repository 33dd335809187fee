//! Who owns which path of a type. Some are kept by the server (copies, aggregates, stored inverses);
//! no two rules may own the same, nor one that identifies the item. Names of relations are virtual
//! and must not hide what is stored.

use orrery_types::Value;

use crate::bucket::BUCKET_MARKER;
use crate::document::{ClientWrites, Model, OnDelete};
use crate::error::ModelError;
use crate::expression::Containers;
use crate::path::{ModelPath, ModelStep};
use crate::rules::Rules;

/// A path that the server keeps.
#[derive(Clone, Debug)]
pub struct ServerOwnedPath {
    /// The type, by its place in the list.
    pub item_type: usize,
    /// The path.
    pub path: ModelPath,
    /// Which rule: JSON pointer into the model.
    pub rule: String,
    /// What a client's value does.
    pub client_writes: ClientWrites,
}

/// A path at which something is stored, and why that is known.
struct Stored {
    container: Box<str>,
    path: ModelPath,
    why: String,
}

/// Names that every item has or may have.
const RESERVED: [&str; 8] = ["id", "ttl", "_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];

pub(crate) fn check(
    model: &Model,
    rules: &Rules,
    containers: &dyn Containers,
) -> Result<Vec<ServerOwnedPath>, ModelError> {
    let owned = owned(rules);
    let container = |item_type: usize| &*model.types[item_type].container;
    for (i, own) in owned.iter().enumerate() {
        identity(own, container(own.item_type), containers)?;
        let taken = owned[..i]
            .iter()
            .find(|other| other.item_type == own.item_type && other.path.overlaps(&own.path));
        if let Some(other) = taken {
            let reason = format!(
                "the path '{}' is already kept by the rule at '{}'; choose another path",
                own.path, other.rule
            );
            return Err(ModelError::new(&*own.rule, reason));
        }
    }
    references(model, rules, &owned, containers)?;
    links(rules)?;
    navigation(model, rules, &stored(model, &owned, containers))?;
    Ok(owned)
}

fn owned(rules: &Rules) -> Vec<ServerOwnedPath> {
    let mut all = Vec::new();
    for (i, relation) in rules.relations.iter().enumerate() {
        let client_writes = relation.def.client_writes;
        for ((path, _), (name, _)) in relation.copies.iter().zip(&relation.def.copies) {
            let rule = format!("/relations/{i}/copies/{name}");
            all.push(ServerOwnedPath {
                item_type: relation.from,
                path: path.clone(),
                rule,
                client_writes,
            });
        }
        if let Some(store) = relation.def.inverse.as_ref().and_then(|inverse| inverse.store.clone())
        {
            let rule = format!("/relations/{i}/inverse/store");
            all.push(ServerOwnedPath { item_type: relation.to, path: store, rule, client_writes });
        }
    }
    for (i, aggregate) in rules.aggregates.iter().enumerate() {
        let (path, client_writes) = (aggregate.def.path.clone(), aggregate.def.client_writes);
        let rule = format!("/aggregates/{i}/path");
        all.push(ServerOwnedPath { item_type: aggregate.on, path, rule, client_writes });
    }
    for (i, bucket) in rules.buckets.iter().enumerate() {
        let (def, item_type, client_writes) = (&bucket.def, bucket.on, bucket.def.client_writes);
        let mut add = |path: &ModelPath, what: &str| {
            let (path, rule) = (path.clone(), format!("/buckets/{i}/{what}"));
            all.push(ServerOwnedPath { item_type, path, rule, client_writes });
        };
        add(&def.array, "array");
        def.recent.iter().for_each(|(path, _)| add(path, "recent/path"));
        def.count.iter().for_each(|path| add(path, "count"));
    }
    all
}

fn key_paths(container: &str, containers: &dyn Containers) -> Vec<ModelPath> {
    let names = |path: &orrery_types::PropertyPath| {
        ModelPath::of(path.segments().iter().map(|name| ModelStep::Name(name.clone())).collect())
    };
    containers.partition_key(container).unwrap_or_default().iter().map(names).collect()
}

/// The server must not own what says which item it is.
fn identity(
    own: &ServerOwnedPath,
    container: &str,
    containers: &dyn Containers,
) -> Result<(), ModelError> {
    let reserved =
        matches!(own.path.steps().first(), Some(ModelStep::Name(n)) if RESERVED.contains(&&**n));
    if reserved || key_paths(container, containers).iter().any(|key| key.overlaps(&own.path)) {
        let reason = format!(
            "'{}' is part of what identifies an item, or a system property; choose another path",
            own.path
        );
        return Err(ModelError::new(&*own.rule, reason));
    }
    Ok(())
}

/// A reference is the client's own, and what removes it must not move the item.
fn references(
    model: &Model,
    rules: &Rules,
    owned: &[ServerOwnedPath],
    containers: &dyn Containers,
) -> Result<(), ModelError> {
    for (i, relation) in rules.relations.iter().enumerate() {
        let (at, path) = (format!("/relations/{i}"), &relation.def.path);
        let container = &*model.types[relation.from].container;
        let same = |own: &&ServerOwnedPath| own.item_type == relation.from;
        if let Some(own) = owned.iter().filter(same).find(|own| own.path.overlaps(path)) {
            let reason = format!(
                "'{path}' is kept by the rule at '{}'; a reference is written by clients",
                own.rule
            );
            return Err(ModelError::new(format!("{at}/path"), reason));
        }
        let removes = matches!(relation.def.on_delete, OnDelete::Unset | OnDelete::Pull);
        if removes && key_paths(container, containers).iter().any(|key| key.overlaps(path)) {
            let reason = "the reference is part of the item's own partition key, which cannot change; \
                          use 'restrict', 'cascade' or 'keep'";
            return Err(ModelError::new(format!("{at}/onDelete"), reason));
        }
        let schema = model.types[relation.from].schema.as_ref();
        let requires = |schema: &Value| {
            let required = schema.get("required").as_array().unwrap_or_default();
            path.steps().len() == 1 && required.iter().any(|n| n.as_str() == path.last_name())
        };
        if relation.def.on_delete == OnDelete::Unset && schema.is_some_and(requires) {
            let reason = format!(
                "'unset' would remove '{path}', which the schema of '{}' requires; use 'restrict' or \
                 'cascade', or do not require it",
                relation.def.from
            );
            return Err(ModelError::new(format!("{at}/onDelete"), reason));
        }
    }
    Ok(())
}

/// In a bucket the link stands beside the array.
fn links(rules: &Rules) -> Result<(), ModelError> {
    for (i, bucket) in rules.buckets.iter().enumerate() {
        let link = &bucket.def.link;
        let first = link.steps().first();
        let is = |name: &str| matches!(first, Some(ModelStep::Name(own)) if &**own == name);
        if link.overlaps(&bucket.def.array) || is("id") || is(BUCKET_MARKER) {
            let reason =
                format!("'{link}' already means something in a bucket; choose another path");
            return Err(ModelError::new(format!("/buckets/{i}/bucket/link"), reason));
        }
    }
    Ok(())
}

fn stored(model: &Model, owned: &[ServerOwnedPath], containers: &dyn Containers) -> Vec<Stored> {
    let mut all = Vec::new();
    for own in owned {
        let container = model.types[own.item_type].container.clone();
        all.push(Stored {
            container,
            path: own.path.clone(),
            why: format!("it is kept by {}", own.rule),
        });
    }
    for (i, relation) in model.relations.iter().enumerate() {
        let Some(from) = model.item_type(&relation.from) else { continue };
        let why = format!("/relations/{i} reads its reference there");
        all.push(Stored { container: from.container.clone(), path: relation.path.clone(), why });
    }
    for item_type in &model.types {
        let container = &item_type.container;
        let mut add = |path: ModelPath, why: &str| {
            all.push(Stored { container: container.clone(), path, why: why.to_owned() });
        };
        for name in RESERVED {
            add(ModelPath::of(vec![ModelStep::Name(name.into())]), "every item may have it");
        }
        for key in key_paths(container, containers) {
            add(key, "it is the partition key");
        }
        if let Some(schema) = &item_type.schema {
            for path in schema_paths(schema, &[]) {
                add(path, &format!("the schema of '{}' has it", item_type.name));
            }
        }
    }
    all
}

/// The properties that a schema names, through objects and arrays.
fn schema_paths(schema: &Value, prefix: &[ModelStep]) -> Vec<ModelPath> {
    let mut all = Vec::new();
    let mut below = |step: ModelStep, schema: &Value| {
        let mut steps = prefix.to_vec();
        steps.push(step);
        all.extend(schema_paths(schema, &steps));
        all.push(ModelPath::of(steps));
    };
    if let Some(properties) = schema.get("properties").as_object() {
        for (name, schema) in properties.iter() {
            below(ModelStep::Name((&**name).into()), schema);
        }
    }
    if schema.get("items").as_object().is_some() && !prefix.is_empty() {
        below(ModelStep::Each, schema.get("items"));
    }
    all
}

fn navigation(model: &Model, rules: &Rules, stored: &[Stored]) -> Result<(), ModelError> {
    let check = |container: &str, path: &ModelPath, at: String| {
        let hides = |s: &&Stored| {
            *s.container == *container
                && s.path.overlaps(path)
                && s.path.steps().len() >= path.steps().len()
        };
        let Some(hidden) = stored.iter().find(hides) else { return Ok(()) };
        let reason = format!(
            "the name stands at '{path}' in queries and would hide what is stored there ({}); choose \
             another name",
            hidden.why
        );
        Err(ModelError::new(at, reason))
    };
    for (i, relation) in rules.relations.iter().enumerate() {
        let source = &model.types[relation.from].container;
        check(source, &relation.navigation, format!("/relations/{i}/name"))?;
        if let Some(inverse) = &relation.def.inverse {
            let path = ModelPath::of(vec![ModelStep::Name(inverse.name.clone())]);
            let target = &model.types[relation.to].container;
            check(target, &path, format!("/relations/{i}/inverse/name"))?;
        }
    }
    Ok(())
}
