//! Arrays that stand in buckets beside their item, the parent. Every change of one goes through a
//! write of the parent, so the parent's version guards them all. Beside the parent stand a directory
//! of its buckets with their lengths, and for each element the bucket that holds it, so that an append
//! touches the last bucket alone and an element is found however many there are.
//!
//! Here is what a write of an item does with its arrays, and which writes are refused; `array` has one array: its
//! buckets, its directory and its elements.

mod array;

use orrery_modeling::{BUCKET_MARKER, BucketRule, Marker};
use orrery_storage::key;
use orrery_types::{Error, Result, Value};

use self::array::BucketedArray;
use super::cascade::ItemChange;
use crate::Container;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::CurrentImage;
use crate::item::operation::{Decision, ItemWrite};
use crate::item::patch::ArrayEdit;
use crate::model::violations::refuse_displaced;
use crate::model::{ModelContext, ModelTransaction};
use crate::transaction::key_entries;
use crate::transaction::key_entries::Pair;

/// Changes of bucketed arrays, by the place of their rules.
pub(crate) type Edits = Vec<(usize, ArrayEdit)>;

/// Elements that were added or changed, in the same form.
pub(crate) type Edited = Vec<(usize, Vec<Value>)>;

/// Buckets are written through their parent alone.
pub(crate) fn refuse_bucket<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    at: &ItemKey<'e>,
    decision: &Decision,
) -> Result<()> {
    let scope = model.context;
    if !scope.has_buckets(model.tx.container()) {
        return Ok(());
    }
    let new = match decision {
        Decision::Put(body) => &body.value,
        Decision::Delete => &Value::Undefined,
    };
    let old = model.tx.current(model.tx.home(), &at.key).map(CurrentImage::value).transpose()?;
    let old = old.unwrap_or(&Value::Undefined);
    let is_bucket = |item: &&Value| !item.get(BUCKET_MARKER).is_undefined();
    let Some(bucket) = [old, new].into_iter().find(is_bucket) else { return Ok(()) };
    let marker = Marker::read(bucket);
    let address = model.tx.address(at);
    // What an earlier model has left behind, and no item owns any more, may be deleted.
    if matches!(decision, Decision::Delete)
        && owner_of_bucket(model, &address, marker.as_ref())?.is_none()
    {
        return Ok(());
    }
    let of = marker.map_or_else(String::new, |marker| {
        format!(" Patch '{}/-' of the item '{}' instead.", marker.array, marker.of)
    });
    Err(violated(format!(
        "The property '{BUCKET_MARKER}' marks items that the server keeps for a bucketed array; \
         they are not written directly.{of}"
    )))
}

/// Takes out of a patch what it does to bucketed arrays: that, and the rest of it.
pub(crate) fn array_edits<'e>(
    model: &ModelTransaction<'_, 'e>,
    at: &ItemKey<'e>,
    write: &ItemWrite,
) -> Result<(Edits, Option<ItemWrite>)> {
    let scope = model.context;
    let ItemWrite::Patch(item, patch, conditions) = write else { return Ok((vec![], None)) };
    if !scope.has_buckets(model.tx.container()) {
        return Ok((vec![], None));
    }
    let Some(value) = model.tx.image(model.tx.home(), &at.key)? else {
        return Ok((vec![], None));
    };
    let types = scope.model.rules.types_of(&model.tx.container().id, &value);
    let rules = scope.model.rules.buckets.iter().enumerate();
    let (numbers, arrays): (Vec<usize>, Vec<Vec<&str>>) = rules
        .filter(|(_, rule)| types.contains(&rule.on))
        .map(|(number, rule)| (number, rule.array_names()))
        .unzip();
    let (rest, edits) = patch.split(&arrays)?;
    let edits = edits.into_iter().map(|(at, edit)| (numbers[at], edit)).collect();
    Ok((edits, Some(ItemWrite::Patch(item.clone(), rest, conditions.clone()))))
}

/// Does the edits of an item's arrays; whatever of them stands in the item itself is put into
/// buckets, and what the item shows of them is put to what is true.
pub(crate) fn keep_arrays<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    address: &ItemAddress<'e>,
    (types, old_types): (&[usize], &[usize]),
    before: Option<&Value>,
    value: &mut Value,
    edits: &Edits,
) -> Result<Edited> {
    let mut all = Edited::new();
    let scope = model.context;
    for (at, rule) in scope.model.rules.buckets.iter().enumerate() {
        if !types.contains(&rule.on) {
            continue;
        }
        let (path, before) = (&rule.def.array, before.filter(|_| old_types.contains(&rule.on)));
        if before.is_some() && scope.model.is_building(scope.model.rules.relations.len() + at) {
            refuse_displaced(rule, value)?;
        }
        let mut array = BucketedArray::new(model, at, address, before)?;
        if before.is_none() {
            // What an item with this id left behind that is only hidden so far.
            array.whole(value, vec![])?;
        }
        // An array that was stored before there was a rule, and one that was sent.
        for whole in before.into_iter().chain([&*value]).map(|item| path.get(item, &[]).clone()) {
            match whole {
                Value::Undefined => {}
                Value::Array(elements) => array.whole(value, elements.to_vec())?,
                other => return Err(no_array(rule, &other)),
            }
        }
        path.set(value, &[], Value::Undefined);
        let edits = edits.iter().filter(|(of, _)| *of == at).map(|(_, edit)| edit);
        array.edit_all(value, edits)?;
        array.show(before, value)?;
        all.push((at, array.into_written()));
    }
    Ok(all)
}

/// All elements of a bucketed array of an item.
pub(crate) fn elements_of<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    at: usize,
    address: &ItemAddress<'e>,
) -> Result<Vec<Value>> {
    BucketedArray::new(model, at, address, None)?.all()
}

/// The item to which a bucket belongs, and the rule that keeps it there.
pub(crate) fn owner_of_bucket<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    bucket: &ItemAddress<'e>,
    marker: Option<&Marker>,
) -> Result<Option<(usize, Value)>> {
    let scope = model.context;
    let Some(marker) = marker else { return Ok(None) };
    let Some(at) = scope.bucket_rule(bucket.container, marker) else { return Ok(None) };
    let key = bucket.at.partition_key.clone();
    let Ok(parent) = ItemKey::of(bucket.container, key, &marker.of) else { return Ok(None) };
    let shard = model.tx.writes.shard_of(bucket.container, parent.partition);
    model.tx.load(shard, &parent)?;
    let Some(item) = model.tx.past_image(shard, &parent.key)? else { return Ok(None) };
    let on = &scope.model.rules.types[scope.model.rules.buckets[at].on];
    Ok(on.matches(&bucket.container.id, &item).then_some((at, item)))
}

/// Puts the elements of a renamed item into its body, if that says nothing of them.
pub(crate) fn carry_arrays<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    at: &ItemKey<'e>,
    value: &mut Value,
) -> Result<()> {
    let scope = model.context;
    let types = scope.model.rules.types_of(&model.tx.container().id, value);
    let address = model.tx.address(at);
    for (index, rule) in scope.model.rules.buckets.iter().enumerate() {
        let path = &rule.def.array;
        if types.contains(&rule.on) && path.get(value, &[]).is_undefined() {
            let elements = BucketedArray::new(model, index, &address, None)?.all()?;
            path.set(value, &[], Value::array(elements));
        }
    }
    Ok(())
}

/// What an item shows of its arrays, computed from the buckets; also of those that are still being
/// built, if that is asked for.
pub(crate) fn arrays_anew<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    address: &ItemAddress<'e>,
    types: &[usize],
    built_too: bool,
    kept: &mut Value,
) -> Result<()> {
    let scope = model.context;
    for (at, rule) in scope.model.rules.buckets.iter().enumerate() {
        let judged = built_too || !scope.model.is_building(scope.model.rules.relations.len() + at);
        if types.contains(&rule.on) && judged {
            let mut array = BucketedArray::new(model, at, address, None)?;
            array.recount()?;
            array.show(Some(&kept.clone()), kept)?;
            rule.def.array.set(kept, &[], Value::Undefined);
        }
    }
    Ok(())
}

/// Brings an item that was there before its rules under them; what it is afterwards.
pub(crate) fn shelve<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    address: &ItemAddress<'e>,
    value: &Value,
) -> Result<Value> {
    let scope = model.context;
    let mut kept = value.clone();
    if let Some(marker) = Marker::read(value) {
        adopt(model, scope, address, value, &marker)?;
        return Ok(kept);
    }
    let types = scope.model.rules.types_of(&address.container.id, value);
    keep_arrays(model, address, (&types, &types), Some(value), &mut kept, &vec![])?;
    arrays_anew(model, address, &types, true, &mut kept)?;
    Ok(kept)
}

/// Takes a bucket that an earlier model has left into the directory, if an item owns it.
fn adopt<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    scope: ModelContext<'e>,
    address: &ItemAddress<'e>,
    bucket: &Value,
    marker: &Marker,
) -> Result<()> {
    model.tx.value_at(address)?;
    let Some((at, _)) = owner_of_bucket(model, address, Some(marker))? else {
        return Ok(());
    };
    let id = scope.model.rules.buckets[at].ids.format(&marker.of, marker.seq);
    if *id != *address.id() {
        return Err(violated(format!(
            "The bucket '{}' of '{}' would have the id '{id}' by 'idFormat'. Declare the format \
             by which it was made, or delete it.",
            address.id(),
            marker.array
        )));
    }
    for (key, value) in scope.bucket_entries(at, address, bucket, marker)? {
        key_entries::set_entry(model.tx, address, key, Some(value));
    }
    Ok(())
}

/// An item is gone, or is no longer of a type: its buckets go with it.
pub(crate) fn drop_arrays<'e>(
    model: &mut ModelTransaction<'_, 'e>,
    item_change: &ItemChange<'e>,
) -> Result<()> {
    let scope = model.context;
    for (at, rule) in scope.model.rules.buckets.iter().enumerate() {
        let of = &scope.model.rules.types[rule.on];
        let (was, is) = item_change.is_of(of);
        if !was || is {
            continue;
        }
        let mut array = BucketedArray::new(model, at, &item_change.address, None)?;
        if item_change.after.is_some() && array.last()?.is_some() {
            return Err(violated(format!(
                "The item would no longer be of type '{}', whose array '{}' has elements in \
                 buckets; empty the array first.",
                of.def.name, rule.def.array
            )));
        }
        array.clear()?;
    }
    Ok(())
}

impl<'e> ModelContext<'e> {
    pub(crate) fn has_buckets(&self, container: &Container) -> bool {
        let types = &self.model.rules.types;
        let is = |rule: &BucketRule| *types[rule.on].def.container == *container.id;
        self.model.rules.buckets.iter().any(|rule| is(rule))
    }

    /// The rule that has such buckets.
    pub(crate) fn bucket_rule(&self, container: &Container, marker: &Marker) -> Option<usize> {
        let types = &self.model.rules.types;
        let is = |rule: &BucketRule| {
            *types[rule.on].def.container == *container.id
                && *rule.def.array.to_string() == *marker.array
        };
        self.model.rules.buckets.iter().position(|rule| is(rule))
    }

    /// The entries that a bucket of a rule must have beside its parent.
    pub(crate) fn bucket_entries(
        &self,
        at: usize,
        address: &ItemAddress<'e>,
        bucket: &Value,
        marker: &Marker,
    ) -> Result<Vec<Pair>> {
        let rule = &self.model.rules.buckets[at];
        let number = self.model.bucket_number(at);
        let parent =
            ItemKey::of(address.container, address.at.partition_key.clone(), &marker.of)?.key;
        let elements = rule.elements(bucket);
        let count = u32::try_from(elements.len()).map_err(|_| Error::internal("a large bucket"))?;
        let directory = key::bucket(number, &parent, marker.seq);
        let mut all = vec![(directory, count.to_be_bytes().to_vec())];
        let keys = elements.iter().filter_map(|element| rule.element_key(element).ok()?);
        let place = marker.seq.to_be_bytes().to_vec();
        all.extend(keys.map(|key| (key::element(number, &parent, &key), place.clone())));
        Ok(all)
    }
}

fn no_array(rule: &BucketRule, value: &Value) -> Error {
    violated(format!(
        "'{}' is an array that the model keeps in buckets; {} is no array.",
        rule.def.array,
        value.to_json().chars().take(40).collect::<String>()
    ))
}

fn violated(text: impl Into<Box<str>>) -> Error {
    Error::ModelViolated(text.into())
}
