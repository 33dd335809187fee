//! A model made ready: names resolved, expressions parsed, and everything checked that needs the
//! database. Each refusal says what to do instead.

use std::sync::Arc;

use orrery_types::{PropertyPath, Value};

use crate::bucket::{BUCKET_MARKER, BucketRule, id_format};
use crate::document::{
    Aggregate, AggregateKind, Bucket, ItemType, Model, OnDelete, OnMissing, OnOverflow, Propagate,
    Relation,
};
use crate::error::ModelError;
use crate::expression::{Containers, Expression, Expressions, PathRead};
use crate::path::{ModelPath, ModelStep};
use crate::schema::Schema;
use crate::{bucket_schema, cycles, ownership};

/// All rules of a model. A rule names types and relations by their place in these lists.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Rules {
    pub types: Vec<Arc<TypeRule>>,
    pub relations: Vec<Arc<RelationRule>>,
    pub aggregates: Vec<Arc<AggregateRule>>,
    pub buckets: Vec<Arc<BucketRule>>,
    pub owned: Vec<ownership::ServerOwnedPath>,
}

/// A type.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TypeRule {
    pub def: ItemType,
    pub filter: Option<Arc<dyn Expression>>,
    pub schema: Option<Schema>,
    /// Whether its container has buckets, which are of no type.
    pub has_buckets: bool,
}

impl TypeRule {
    /// Whether an item of a container is of this type.
    pub fn matches(&self, container: &str, item: &Value) -> bool {
        *self.def.container == *container
            && (!self.has_buckets || item.get(BUCKET_MARKER).is_undefined())
            && self.filter.as_ref().is_none_or(|filter| filter.value(item).is_true())
    }
}

/// A relation.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RelationRule {
    pub def: Relation,
    pub from: usize,
    pub to: usize,
    /// The virtual property by which queries reach the target.
    pub navigation: ModelPath,
    /// Where each copy stands, and its value out of the target.
    pub copies: Vec<(ModelPath, Arc<dyn Expression>)>,
    /// Whether source and target always share a logical partition.
    pub same_partition: bool,
}

impl RelationRule {
    /// When effects in other partitions happen.
    pub fn propagate(&self) -> Propagate {
        self.def.propagate.unwrap_or(Propagate::Async)
    }
}

/// An aggregate.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AggregateRule {
    pub def: Aggregate,
    pub on: usize,
    pub relation: usize,
    /// Its place among the aggregates over the relation.
    pub ordinal: u8,
    pub argument: Arc<dyn Expression>,
}

/// Where that is from which an aggregate follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateSource {
    /// It is a count in the target, raised and lowered there.
    InItem,
    /// A tally stands beside the target.
    Tally,
    /// The values of all sources stand beside the target, in their order.
    Values,
}

impl AggregateRule {
    /// Whether a change may reach targets in other partitions later.
    pub fn may_follow(&self) -> bool {
        self.def.propagate == Propagate::Async || self.def.on_overflow == OnOverflow::Async
    }

    /// Where that is from which it follows.
    pub fn held(&self) -> AggregateSource {
        match self.def.kind {
            AggregateKind::Count if !self.may_follow() => AggregateSource::InItem,
            AggregateKind::Count | AggregateKind::Sum | AggregateKind::Avg => {
                AggregateSource::Tally
            }
            AggregateKind::Min | AggregateKind::Max => AggregateSource::Values,
        }
    }
}

/// What compiling may ask.
pub(crate) struct CompileContext<'s> {
    pub(crate) containers: &'s dyn Containers,
    pub(crate) expressions: &'s dyn Expressions,
}

/// What the server writes into every version of an item.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

impl CompileContext<'_> {
    /// An expression over what clients write of an item.
    fn expression(
        &self,
        at: String,
        alias: &str,
        text: &str,
    ) -> Result<Arc<dyn Expression>, ModelError> {
        let parsed = self.expressions.parse(alias, text);
        let parsed = parsed.map_err(|reason| ModelError::new(&*at, reason))?;
        let is_system = |path: &PathRead| path.first().is_none_or(|name| SYSTEM.contains(&&**name));
        if parsed.reads().iter().any(is_system) {
            let reason = format!(
                "'{text}' reads the whole item or a system property, which every write changes; name \
                 the properties that it needs"
            );
            return Err(ModelError::new(at, reason));
        }
        Ok(parsed)
    }
}

impl Rules {
    /// Checks a model against the database.
    pub fn compile(
        model: &Model,
        containers: &dyn Containers,
        expressions: &dyn Expressions,
    ) -> Result<Self, ModelError> {
        let with = CompileContext { containers, expressions };
        let types = model.types.iter().map(|t| type_rule(model, t, &with));
        let types = types.collect::<Result<_, _>>()?;
        let relations = model.relations.iter().enumerate();
        let relations = relations.map(|(i, r)| relation_rule(model, i, r, &with).map(Arc::new));
        let relations: Vec<Arc<RelationRule>> = relations.collect::<Result<_, _>>()?;
        check_names(model)?;
        let buckets = model.buckets.iter().enumerate();
        let buckets = buckets.map(|(i, b)| bucket_rule(model, i, b, containers).map(Arc::new));
        let buckets = buckets.collect::<Result<_, _>>()?;
        let aggregates = model.aggregates.iter().enumerate();
        let aggregates = aggregates.map(|(i, a)| aggregate_rule(model, i, a, &with).map(Arc::new));
        let aggregates = aggregates.collect::<Result<_, _>>()?;
        let mut rules = Self { types, relations, aggregates, buckets, owned: vec![] };
        rules.owned = ownership::check(model, &rules, containers)?;
        cycles::check(&rules)?;
        Ok(rules)
    }

    /// The types of an item.
    pub fn types_of(&self, container: &str, item: &Value) -> Vec<usize> {
        let is = |(_, rule): &(usize, &Arc<TypeRule>)| rule.matches(container, item);
        self.types.iter().enumerate().filter(is).map(|(index, _)| index).collect()
    }

    /// Whether the model says anything about items of a container.
    pub fn concerns(&self, container: &str) -> bool {
        self.types.iter().any(|rule| *rule.def.container == *container)
    }
}

fn type_rule(
    model: &Model,
    def: &ItemType,
    with: &CompileContext<'_>,
) -> Result<Arc<TypeRule>, ModelError> {
    let at = format!("/types/{}", def.name);
    if with.containers.partition_key(&def.container).is_none() {
        let reason = format!(
            "the database has no container '{}'; create it first, or correct the name",
            def.container
        );
        return Err(ModelError::new(format!("{at}/container"), reason));
    }
    let filter = def.filter.as_ref();
    let filter = filter.map(|text| with.expression(format!("{at}/where"), "c", text));
    let schema = def.schema.as_ref().map(|schema| {
        Schema::parse(schema).map_err(|reason| ModelError::new(format!("{at}/schema"), reason))
    });
    let (filter, schema) = (filter.transpose()?, schema.transpose()?);
    let container = |bucket: &Bucket| model.item_type(&bucket.on).map(|t| &t.container);
    let has_buckets = model.buckets.iter().any(|b| container(b) == Some(&def.container));
    Ok(Arc::new(TypeRule { def: def.clone(), filter, schema, has_buckets }))
}

pub(crate) fn type_index(model: &Model, at: &str, name: &str) -> Result<usize, ModelError> {
    model.types.iter().position(|t| *t.name == *name).ok_or_else(|| {
        let known: Vec<&str> = model.types.iter().map(|t| &*t.name).collect();
        let reason = format!("the type '{name}' is unknown; declared are: {}", known.join(", "));
        ModelError::new(at, reason)
    })
}

fn relation_rule(
    model: &Model,
    index: usize,
    def: &Relation,
    with: &CompileContext<'_>,
) -> Result<RelationRule, ModelError> {
    let at = format!("/relations/{index}");
    let from = type_index(model, &format!("{at}/from"), &def.from)?;
    let to = type_index(model, &format!("{at}/to"), &def.to)?;
    let (source, target) = (&model.types[from].container, &model.types[to].container);
    let key = with.containers.partition_key(target).unwrap_or_default();
    check_partition_key(&at, def, target, &key)?;
    let same_partition = source == target && shares_key(def, &key);
    check_propagate(&at, def, same_partition)?;
    let copies = def.copies.iter().map(|(name, text)| {
        let value = with.expression(format!("{at}/copies/{name}"), "t", text)?;
        Ok((def.path.sibling(name), value))
    });
    let copies = copies.collect::<Result<_, ModelError>>()?;
    let navigation = def.path.sibling(&def.name);
    Ok(RelationRule { def: def.clone(), from, to, navigation, copies, same_partition })
}

/// The key of the target must follow from the source.
fn check_partition_key(
    at: &str,
    def: &Relation,
    target: &str,
    key: &[PropertyPath],
) -> Result<(), ModelError> {
    let given = def.partition_key.len();
    if given == key.len() || (given == 0 && is_id(key)) {
        return Ok(());
    }
    let paths: Vec<String> = key.iter().map(|path| format!("\"{path}\"")).collect();
    let paths = paths.join(", ");
    let reason = if given == 0 {
        format!(
            "the container '{target}' of the target is keyed on {paths}, not on its id: say with \
             \"partitionKey\":[{paths}] where in the source item these values stand"
        )
    } else {
        format!(
            "the container '{target}' has {} partition key paths ({paths}), not {given}",
            key.len()
        )
    };
    Err(ModelError::new(format!("{at}/partitionKey"), reason))
}

/// Whether the source reads the target's key where its own stands.
fn shares_key(def: &Relation, key: &[PropertyPath]) -> bool {
    let same = |(path, own): (&ModelPath, &PropertyPath)| {
        let own = own.segments().iter().map(|name| ModelStep::Name(name.clone()));
        path.steps().iter().cloned().eq(own)
    };
    def.partition_key.len() == key.len() && def.partition_key.iter().zip(key).all(same)
}

fn check_propagate(at: &str, def: &Relation, same_partition: bool) -> Result<(), ModelError> {
    if same_partition || def.propagate != Some(Propagate::Async) {
        return Ok(());
    }
    let what = match (def.on_missing, def.on_delete) {
        (OnMissing::Reject, _) => "\"onMissing\":\"reject\"",
        (_, OnDelete::Restrict) => "\"onDelete\":\"restrict\"",
        _ => return Ok(()),
    };
    let reason = format!(
        "{what} holds the other item until the commit, which across partitions cannot be async: say \
         \"sync\", or leave 'propagate' out"
    );
    Err(ModelError::new(format!("{at}/propagate"), reason))
}

/// Names of relations are unique among what hangs on the same object.
fn check_names(model: &Model) -> Result<(), ModelError> {
    let mut names: Vec<(String, String)> = Vec::new();
    let container = |name: &str| model.item_type(name).map_or("", |t| &t.container).to_owned();
    for (index, relation) in model.relations.iter().enumerate() {
        let path = relation.path.sibling(&relation.name).to_string();
        let mut all = vec![((container(&relation.from), path), "name")];
        if let Some(inverse) = &relation.inverse {
            all.push(((container(&relation.to), format!("/{}", inverse.name)), "inverse/name"));
        }
        for (name, part) in all {
            if names.contains(&name) {
                let reason = format!(
                    "another relation already has the name '{}' in container '{}'; names are unique \
                     within a container",
                    name.1, name.0
                );
                return Err(ModelError::new(format!("/relations/{index}/{part}"), reason));
            }
            names.push(name);
        }
    }
    Ok(())
}

/// Buckets are items beside the one whose array they hold, in its logical partition.
fn bucket_rule(
    model: &Model,
    index: usize,
    def: &Bucket,
    containers: &dyn Containers,
) -> Result<BucketRule, ModelError> {
    let at = format!("/buckets/{index}");
    let on = type_index(model, &format!("{at}/on"), &def.on)?;
    let container = &model.types[on].container;
    let key = containers.partition_key(container).unwrap_or_default();
    if is_id(&key) {
        let reason = format!(
            "the container '{container}' is keyed on '/id', so that every bucket would be in a \
             partition of its own; keep the type in a container keyed on a property that its \
             buckets share, '/{}Id' for instance",
            def.on
        );
        return Err(ModelError::new(format!("{at}/on"), reason));
    }
    if containers.has_unique_keys(container) {
        let reason = format!(
            "the container '{container}' has unique keys, of which two buckets would have the same; \
             keep the type in a container without them"
        );
        return Err(ModelError::new(format!("{at}/on"), reason));
    }
    let names = |path: &PropertyPath| {
        ModelPath::of(path.segments().iter().map(|name| ModelStep::Name(name.clone())).collect())
    };
    let key_paths = key.iter().map(names).collect();
    let rule = BucketRule { ids: id_format(&at, def)?, def: def.clone(), on, key_paths };
    if let Some(schema) = &model.types[on].schema {
        bucket_schema::check(schema, &rule.array_names())
            .map_err(|reason| ModelError::new(format!("/types/{}/schema", def.on), reason))?;
    }
    Ok(rule)
}

fn is_id(key: &[PropertyPath]) -> bool {
    matches!(key, [path] if matches!(path.segments(), [name] if &**name == "id"))
}

fn aggregate_rule(
    model: &Model,
    index: usize,
    def: &Aggregate,
    with: &CompileContext<'_>,
) -> Result<AggregateRule, ModelError> {
    let at = format!("/aggregates/{index}");
    let on = type_index(model, &format!("{at}/on"), &def.on)?;
    let is = |r: &Relation| {
        r.to == def.on && r.inverse.as_ref().is_some_and(|inverse| inverse.name == def.of)
    };
    let relation = model.relations.iter().position(is).ok_or_else(|| {
        let reason = format!(
            "no relation to '{}' has an inverse with the name '{}'; declare \
             \"inverse\":{{\"name\":\"{}\"}} on the relation to aggregate over",
            def.on, def.of, def.of
        );
        ModelError::new(format!("{at}/of"), reason)
    })?;
    let argument = with.expression(format!("{at}/value"), "c", &def.argument)?;
    let over_same = |a: &&Aggregate| a.on == def.on && a.of == def.of;
    let ordinal = model.aggregates.iter().take(index).filter(over_same).count();
    let ordinal = u8::try_from(ordinal).map_err(|_| {
        ModelError::new(&*at, "a relation has at most 256 aggregates; leave some out")
    })?;
    Ok(AggregateRule { def: def.clone(), on, relation, ordinal, argument })
}

#[cfg(test)]
mod tests;
