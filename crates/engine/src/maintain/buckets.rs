//! Arrays that stand in buckets beside their item, the parent. Every change of one goes through a
//! write of the parent, so the parent's version guards them all. Beside the parent stand a directory
//! of its buckets with their lengths, and for each element the bucket that holds it, so that an append
//! touches the last bucket alone and an element is found however many there are.

use orrery_modeling::{BUCKET_MARKER, BucketRule, ClientWrites, Marker};
use orrery_storage::key;
use orrery_types::{Error, Result, Value, limits};

use super::cascade::ItemChange;
use crate::Container;
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::CurrentImage;
use crate::item::operation::{Decision, ItemWrite};
use crate::item::patch::{ArrayEdit, ElementEdit};
use crate::model::violations::refuse_displaced;
use crate::model::{ModelContext, ModelTransaction};
use crate::transaction::key_entries::Pair;
use crate::transaction::write_buffer::{ItemEntry, Mutation, ShardIndex};

/// Changes of bucketed arrays, by the place of their rules.
pub(crate) type Edits = Vec<(usize, ArrayEdit)>;

/// Elements that were added or changed, in the same form.
pub(crate) type Edited = Vec<(usize, Vec<Value>)>;

/// The buckets of one array of one item.
struct BucketedArray<'s, 't, 'e> {
    model: &'s mut ModelTransaction<'t, 'e>,
    rule: &'e BucketRule,
    number: u32,
    parent: &'s ItemAddress<'e>,
    id: Box<str>,
    /// Elements in all buckets.
    count: i64,
    /// What was appended, as long as nothing else was done.
    appended: Option<Vec<Value>>,
    /// Elements that were added or changed.
    written: Vec<Value>,
}

impl<'e> ModelTransaction<'_, 'e> {
    /// Buckets are written through their parent alone.
    pub(crate) fn refuse_bucket(&mut self, at: &ItemKey<'e>, decision: &Decision) -> Result<()> {
        let scope = self.context;
        if !scope.has_buckets(self.tx.container()) {
            return Ok(());
        }
        let new = match decision {
            Decision::Put(body) => &body.value,
            Decision::Delete => &Value::Undefined,
        };
        let old =
            self.tx.current(ShardIndex::HOME, &at.key).map(CurrentImage::value).transpose()?;
        let old = old.unwrap_or(&Value::Undefined);
        let is_bucket = |item: &&Value| !item.get(BUCKET_MARKER).is_undefined();
        let Some(bucket) = [old, new].into_iter().find(is_bucket) else { return Ok(()) };
        let marker = Marker::read(bucket);
        let address = self.tx.address(at);
        // What an earlier model has left behind, and no item owns any more, may be deleted.
        if matches!(decision, Decision::Delete)
            && self.owner_of_bucket(&address, marker.as_ref())?.is_none()
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
    pub(crate) fn array_edits(
        &self,
        at: &ItemKey<'e>,
        write: &ItemWrite,
    ) -> Result<(Edits, Option<ItemWrite>)> {
        let scope = self.context;
        let ItemWrite::Patch(item, patch, conditions) = write else { return Ok((vec![], None)) };
        if !scope.has_buckets(self.tx.container()) {
            return Ok((vec![], None));
        }
        let Some(value) = self.tx.image(ShardIndex::HOME, &at.key)? else {
            return Ok((vec![], None));
        };
        let types = scope.model.rules.types_of(&self.tx.container().id, &value);
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
    pub(crate) fn keep_arrays(
        &mut self,
        address: &ItemAddress<'e>,
        (types, old_types): (&[usize], &[usize]),
        before: Option<&Value>,
        value: &mut Value,
        edits: &Edits,
    ) -> Result<Edited> {
        let mut all = Edited::new();
        let scope = self.context;
        for (at, rule) in scope.model.rules.buckets.iter().enumerate() {
            if !types.contains(&rule.on) {
                continue;
            }
            let (path, before) = (&rule.def.array, before.filter(|_| old_types.contains(&rule.on)));
            if before.is_some() && scope.model.is_building(scope.model.rules.relations.len() + at) {
                refuse_displaced(rule, value)?;
            }
            let mut array = BucketedArray::new(self, at, address, before)?;
            if before.is_none() {
                // What an item with this id left behind that is only hidden so far.
                array.whole(value, vec![])?;
            }
            // An array that was stored before there was a rule, and one that was sent.
            for whole in before.into_iter().chain([&*value]).map(|item| path.get(item, &[]).clone())
            {
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
            all.push((at, array.written));
        }
        Ok(all)
    }

    /// All elements of a bucketed array of an item.
    pub(crate) fn elements_of(
        &mut self,
        at: usize,
        address: &ItemAddress<'e>,
    ) -> Result<Vec<Value>> {
        BucketedArray::new(self, at, address, None)?.all()
    }

    /// The item to which a bucket belongs, and the rule that keeps it there.
    pub(crate) fn owner_of_bucket(
        &mut self,
        bucket: &ItemAddress<'e>,
        marker: Option<&Marker>,
    ) -> Result<Option<(usize, Value)>> {
        let scope = self.context;
        let Some(marker) = marker else { return Ok(None) };
        let Some(at) = scope.bucket_rule(bucket.container, marker) else { return Ok(None) };
        let key = bucket.at.partition_key.clone();
        let Ok(parent) = ItemKey::of(bucket.container, key, &marker.of) else { return Ok(None) };
        let shard = self.tx.writes.shard_of(bucket.container, parent.partition);
        self.tx.load(shard, &parent)?;
        let Some(item) = self.tx.past_image(shard, &parent.key)? else { return Ok(None) };
        let on = &scope.model.rules.types[scope.model.rules.buckets[at].on];
        Ok(on.matches(&bucket.container.id, &item).then_some((at, item)))
    }

    /// Puts the elements of a renamed item into its body, if that says nothing of them.
    pub(crate) fn carry_arrays(&mut self, at: &ItemKey<'e>, value: &mut Value) -> Result<()> {
        let scope = self.context;
        let types = scope.model.rules.types_of(&self.tx.container().id, value);
        let address = self.tx.address(at);
        for (index, rule) in scope.model.rules.buckets.iter().enumerate() {
            let path = &rule.def.array;
            if types.contains(&rule.on) && path.get(value, &[]).is_undefined() {
                let elements = BucketedArray::new(self, index, &address, None)?.all()?;
                path.set(value, &[], Value::array(elements));
            }
        }
        Ok(())
    }

    /// What an item shows of its arrays, computed from the buckets; also of those that are still being
    /// built, if that is asked for.
    pub(crate) fn arrays_anew(
        &mut self,
        address: &ItemAddress<'e>,
        types: &[usize],
        built_too: bool,
        kept: &mut Value,
    ) -> Result<()> {
        let scope = self.context;
        for (at, rule) in scope.model.rules.buckets.iter().enumerate() {
            let judged =
                built_too || !scope.model.is_building(scope.model.rules.relations.len() + at);
            if types.contains(&rule.on) && judged {
                let mut array = BucketedArray::new(self, at, address, None)?;
                let elements = array.all()?;
                array.count = i64::try_from(elements.len()).unwrap_or(i64::MAX);
                array.appended = None;
                array.show(Some(&kept.clone()), kept)?;
                rule.def.array.set(kept, &[], Value::Undefined);
            }
        }
        Ok(())
    }

    /// Brings an item that was there before its rules under them; what it is afterwards.
    pub(crate) fn shelve(&mut self, address: &ItemAddress<'e>, value: &Value) -> Result<Value> {
        let scope = self.context;
        let mut kept = value.clone();
        if let Some(marker) = Marker::read(value) {
            self.adopt(scope, address, value, &marker)?;
            return Ok(kept);
        }
        let types = scope.model.rules.types_of(&address.container.id, value);
        self.keep_arrays(address, (&types, &types), Some(value), &mut kept, &vec![])?;
        self.arrays_anew(address, &types, true, &mut kept)?;
        Ok(kept)
    }

    /// Takes a bucket that an earlier model has left into the directory, if an item owns it.
    fn adopt(
        &mut self,
        scope: ModelContext<'e>,
        address: &ItemAddress<'e>,
        bucket: &Value,
        marker: &Marker,
    ) -> Result<()> {
        self.tx.value_at(address)?;
        let Some((at, _)) = self.owner_of_bucket(address, Some(marker))? else {
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
            self.tx.set_entry(address, key, Some(value));
        }
        Ok(())
    }

    /// An item is gone, or is no longer of a type: its buckets go with it.
    pub(crate) fn drop_arrays(&mut self, item_change: &ItemChange<'e>) -> Result<()> {
        let scope = self.context;
        for (at, rule) in scope.model.rules.buckets.iter().enumerate() {
            let of = &scope.model.rules.types[rule.on];
            let is = |value: &Option<Value>| {
                value
                    .as_ref()
                    .is_some_and(|value| of.matches(&item_change.address.container.id, value))
            };
            if !is(&item_change.before) || is(&item_change.after) {
                continue;
            }
            let mut array = BucketedArray::new(self, at, &item_change.address, None)?;
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

impl<'s, 't, 'e> BucketedArray<'s, 't, 'e> {
    fn new(
        model: &'s mut ModelTransaction<'t, 'e>,
        at: usize,
        parent: &'s ItemAddress<'e>,
        before: Option<&Value>,
    ) -> Result<Self> {
        let scope = model.context;
        let rule: &'e BucketRule = &scope.model.rules.buckets[at];
        let number = scope.model.bucket_number(at);
        let id = parent.id();
        let (count, appended, written) = (0, Some(vec![]), vec![]);
        let mut array = Self { model, rule, number, parent, id, count, appended, written };
        let known = rule.def.count.as_ref().zip(before);
        let known = known.and_then(|(path, before)| path.get(before, &[]).as_i64());
        if let Some(count) = known {
            array.count = count;
        } else if rule.def.count.is_some() && before.is_some() {
            array.count = array.directory()?.iter().map(|(_, count)| i64::from(*count)).sum();
        }
        Ok(array)
    }

    /// The place of a bucket.
    fn address(&self, seq: u64) -> Result<ItemAddress<'e>> {
        let container = self.parent.container;
        let id = self.rule.ids.format(&self.id, seq);
        let at = ItemKey::of(container, self.parent.at.partition_key.clone(), &id)?;
        Ok(ItemAddress { container, at })
    }

    /// The last bucket and how many elements it has.
    fn last(&mut self) -> Result<Option<(u64, u32)>> {
        let bounds = key::buckets_of(self.number, &self.parent.at.key);
        let last = self.model.tx.end_entry(self.parent, &bounds, true)?;
        last.map(|(key, value)| directory_entry(&key, &value)).transpose()
    }

    /// All buckets.
    fn directory(&mut self) -> Result<Vec<(u64, u32)>> {
        let bounds = key::buckets_of(self.number, &self.parent.at.key);
        let entries = self.model.tx.entries(self.parent, &bounds)?;
        entries.iter().map(|(key, value)| directory_entry(key, value)).collect()
    }

    /// The elements of a bucket and the bytes that it has.
    fn load(&mut self, seq: u64) -> Result<(Vec<Value>, usize)> {
        let address = self.address(seq)?;
        let value = self.model.tx.value_at(&address)?;
        let shard = self.model.tx.shard_of(&address);
        let current = self.model.tx.current(shard, &address.at.key);
        let bytes = current.map_or(0, CurrentImage::size_bytes);
        let elements = value.map(|value| self.rule.elements(&value).to_vec()).unwrap_or_default();
        Ok((elements, bytes))
    }

    /// Writes a bucket; one without elements goes.
    fn put(&mut self, item: &Value, seq: u64, elements: Vec<Value>) -> Result<()> {
        let address = self.address(seq)?;
        let entry = key::bucket(self.number, &self.parent.at.key, seq);
        let is_new = self.model.tx.key_entry(self.parent, &entry)?.is_none();
        if is_new && self.model.tx.value_at(&address)?.is_some() {
            return Err(violated(format!(
                "The next bucket of '{}' would have the id '{}', and another item has it. Choose \
                 another 'idFormat'.",
                self.rule.def.array,
                address.id()
            )));
        }
        if elements.is_empty() {
            self.model.tx.set_entry(self.parent, entry, None);
            return self.remove(&address);
        }
        let count = u32::try_from(elements.len()).map_err(|_| Error::internal("a large bucket"))?;
        self.model.tx.set_entry(self.parent, entry, Some(count.to_be_bytes().to_vec()));
        let mut bucket = self.rule.bucket(item, &self.id, seq, elements);
        if self.parent.container.definition.default_ttl.is_some()
            && let Some(object) = bucket.as_object_mut()
        {
            // It ends with its parent, not before.
            object.set("ttl", Value::from(-1));
        }
        self.model.put_derived(&address, bucket)
    }

    fn remove(&mut self, address: &ItemAddress<'e>) -> Result<()> {
        let shard = self.model.tx.shard_of(address);
        self.model.tx.load(shard, &address.at)?;
        let exists = |entry: &ItemEntry<'_>| entry.before.is_some() || entry.after().is_some();
        if self.model.tx.entry(shard, &address.at.key).is_some_and(exists) {
            self.model.tx.delete_derived(address)?;
        }
        Ok(())
    }

    fn element_entry(&self, key: &str) -> Vec<u8> {
        key::element(self.number, &self.parent.at.key, key)
    }

    /// The bucket that holds an element.
    fn find(&mut self, key: &str) -> Result<Option<u64>> {
        let entry = self.element_entry(key);
        let found = self.model.tx.key_entry(self.parent, &entry)?;
        found.map(|bytes| seq_of(&bytes)).transpose()
    }

    fn key_of(&self, element: &Value) -> Result<Option<Box<str>>> {
        self.rule.element_key(element).map_err(violated)
    }

    /// Appends elements.
    fn extend(&mut self, item: &Value, elements: Vec<Value>) -> Result<()> {
        if elements.is_empty() {
            return Ok(());
        }
        let (mut seq, mut open, mut bytes) = match self.last()? {
            Some((seq, count)) if (count as usize) < self.rule.def.items => {
                let (open, bytes) = self.load(seq)?;
                (seq, open, bytes)
            }
            Some((seq, _)) => (seq + 1, vec![], 0),
            None => (0, vec![], 0),
        };
        let mut changed = false;
        for element in elements {
            let size = element.to_json().len() + 1;
            let full = open.len() >= self.rule.def.items || bytes + size > self.rule.def.max_bytes;
            if full && !open.is_empty() {
                if std::mem::take(&mut changed) {
                    self.put(item, seq, std::mem::take(&mut open))?;
                }
                (seq, open, bytes) = (seq + 1, vec![], 0);
            }
            if let Some(key) = self.key_of(&element)? {
                if self.find(&key)?.is_some() {
                    return Err(violated(format!(
                        "'{}' already has an element with the key '{key}' (elementKey).",
                        self.rule.def.array
                    )));
                }
                let entry = self.element_entry(&key);
                self.model.tx.set_entry(self.parent, entry, Some(seq.to_be_bytes().to_vec()));
            }
            if let Some(appended) = &mut self.appended {
                appended.push(element.clone());
            }
            self.written.push(element.clone());
            open.push(element);
            (bytes, changed) = (bytes + size, true);
            self.count += 1;
        }
        if changed { self.put(item, seq, open) } else { Ok(()) }
    }

    /// Makes the array what is given. Buckets that stay as they are are not touched.
    fn whole(&mut self, item: &Value, elements: Vec<Value>) -> Result<()> {
        let buckets = self.directory()?;
        let (mut same, mut goes) = (0, None);
        for (at, (seq, _)) in buckets.iter().enumerate() {
            let (held, _) = self.load(*seq)?;
            if elements.get(same..same + held.len()) != Some(&held[..]) {
                goes = Some(at);
                break;
            }
            same += held.len();
        }
        if let Some(at) = goes {
            self.appended = None;
            self.drop_buckets(&buckets[at..])?;
        }
        self.count = i64::try_from(same).unwrap_or(i64::MAX);
        self.extend(item, elements.into_iter().skip(same).collect())
    }

    /// Takes buckets away, with the entries of their elements.
    fn drop_buckets(&mut self, buckets: &[(u64, u32)]) -> Result<()> {
        if buckets.len() > limits::MODEL_ITEMS_MAX {
            return Err(violated(format!(
                "'{}' has {} buckets, and one write changes at most {}. Remove elements first.",
                self.rule.def.array,
                buckets.len(),
                limits::MODEL_ITEMS_MAX
            )));
        }
        for (seq, _) in buckets {
            let address = self.address(*seq)?;
            let shard = self.model.tx.shard_of(&address);
            self.model.tx.load(shard, &address.at)?;
            // It may be gone already, with its whole partition.
            let entry = self.model.tx.entry(shard, &address.at.key);
            let held = match entry.map(|entry| (entry.mutation(), &entry.before)) {
                Some((Mutation::Put(after), _)) => Some(after.value.clone()),
                Some((_, Some(before))) => Some(before.value()?.clone()),
                _ => None,
            };
            for element in held.iter().flat_map(|bucket| self.rule.elements(bucket)) {
                if let Ok(Some(key)) = self.rule.element_key(element) {
                    let entry = self.element_entry(&key);
                    self.model.tx.set_entry(self.parent, entry, None);
                }
            }
            let entry = key::bucket(self.number, &self.parent.at.key, *seq);
            self.model.tx.set_entry(self.parent, entry, None);
            self.remove(&address)?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        let buckets = self.directory()?;
        self.drop_buckets(&buckets)
    }

    /// Does edits in their order. Appends that follow one another write their bucket once.
    fn edit_all<'a>(
        &mut self,
        item: &Value,
        edits: impl Iterator<Item = &'a ArrayEdit>,
    ) -> Result<()> {
        let mut appended = Vec::new();
        for edit in edits {
            if let ArrayEdit::Append(element) = edit {
                appended.push(element.clone());
            } else {
                self.extend(item, std::mem::take(&mut appended))?;
                self.edit(item, edit)?;
            }
        }
        self.extend(item, appended)
    }

    fn edit(&mut self, item: &Value, edit: &ArrayEdit) -> Result<()> {
        match edit {
            ArrayEdit::Append(element) => self.extend(item, vec![element.clone()]),
            ArrayEdit::Whole(Value::Array(elements)) => self.whole(item, elements.to_vec()),
            ArrayEdit::Whole(other) => Err(no_array(self.rule, other)),
            ArrayEdit::Remove(key) => self.change(item, key, None),
            ArrayEdit::Change(key, edit) => self.change(item, key, Some(edit)),
        }
    }

    /// Changes an element, or removes it.
    fn change(&mut self, item: &Value, key: &str, edit: Option<&ElementEdit>) -> Result<()> {
        let array = &self.rule.def.array;
        if self.rule.def.element_key.is_none() {
            return Err(violated(format!(
                "Elements of '{array}' are changed and removed by their key: declare 'elementKey' in \
                 the model. '{array}/-' appends."
            )));
        }
        let Some(seq) = self.find(key)? else {
            return Err(Error::invalid(format!(
                "'{array}' has no element with the key '{key}'. Elements of this array are reached \
                 by their key, and '{array}/-' appends."
            )));
        };
        let (mut elements, _) = self.load(seq)?;
        let is_it = |element: &Value| {
            self.rule.element_key(element).is_ok_and(|own| own.as_deref() == Some(key))
        };
        let at = elements.iter().position(is_it);
        let at = at.ok_or_else(|| Error::internal("an element is not where it should be"))?;
        self.appended = None;
        match edit {
            None => {
                elements.remove(at);
                self.count -= 1;
                let entry = self.element_entry(key);
                self.model.tx.set_entry(self.parent, entry, None);
            }
            Some(ElementEdit::Is(element)) => elements[at] = element.clone(),
            Some(ElementEdit::Within(operation)) => operation.apply(&mut elements[at])?,
        }
        if edit.is_some() && self.key_of(&elements[at])?.as_deref() != Some(key) {
            return Err(violated(format!("The key '{key}' of an element of '{array}' stays.")));
        }
        if edit.is_some() {
            self.written.push(elements[at].clone());
        }
        self.put(item, seq, elements)
    }

    /// All elements.
    fn all(&mut self) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        for (seq, _) in self.directory()? {
            all.extend(self.load(seq)?.0);
        }
        Ok(all)
    }

    /// The last elements.
    fn newest(&mut self, keep: usize) -> Result<Vec<Value>> {
        let mut bounds = key::buckets_of(self.number, &self.parent.at.key);
        let mut newest: Vec<Value> = Vec::new();
        while newest.len() < keep {
            let Some((key, value)) = self.model.tx.end_entry(self.parent, &bounds, true)? else {
                break;
            };
            let (seq, _) = directory_entry(&key, &value)?;
            bounds.to = key;
            let (mut elements, _) = self.load(seq)?;
            elements.append(&mut newest);
            newest = elements;
        }
        newest.drain(..newest.len().saturating_sub(keep));
        Ok(newest)
    }

    /// Puts what the parent shows of the array to what is true.
    fn show(&mut self, before: Option<&Value>, value: &mut Value) -> Result<()> {
        let rule = self.rule;
        if let Some((path, keep)) = &rule.def.recent {
            let known = before.and_then(|before| path.get(before, &[]).as_array());
            let truth = match (&self.appended, known) {
                (Some(appended), Some(known)) => {
                    let mut recent = known.to_vec();
                    recent.extend(appended.iter().cloned());
                    recent.drain(..recent.len().saturating_sub(*keep));
                    recent
                }
                _ => self.newest(*keep)?,
            };
            self.set(path, before, value, Value::array(truth))?;
        }
        if let Some(path) = &rule.def.count {
            self.set(path, before, value, Value::from(self.count))?;
        }
        Ok(())
    }

    fn set(
        &self,
        path: &orrery_modeling::ModelPath,
        before: Option<&Value>,
        value: &mut Value,
        truth: Value,
    ) -> Result<()> {
        let given = path.get(value, &[]);
        let is_old = before.is_some_and(|before| path.get(before, &[]) == given);
        let refused = self.rule.def.client_writes == ClientWrites::Reject;
        if refused && !given.is_undefined() && *given != truth && !is_old {
            return Err(violated(format!(
                "'{path}' is kept by the server, and the value sent is not the true one."
            )));
        }
        path.set(value, &[], truth);
        Ok(())
    }
}

fn directory_entry(key: &[u8], value: &[u8]) -> Result<(u64, u32)> {
    let count = value.try_into().map(u32::from_be_bytes);
    key::parse_bucket(key).zip(count.ok()).ok_or_else(|| Error::internal("a directory is corrupt"))
}

fn seq_of(bytes: &[u8]) -> Result<u64> {
    let seq = bytes.try_into().map(u64::from_be_bytes);
    seq.map_err(|_| Error::internal("the place of an element is corrupt"))
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
