//! One array of one item that stands in buckets: the directory of its buckets, the entries that say which bucket
//! holds an element, and the edits that keep both true.

use orrery_modeling::{BucketRule, ClientWrites, ModelPath};
use orrery_storage::key;
use orrery_types::{Error, Result, Value, limits};

use super::{no_array, violated};
use crate::item::address::{ItemAddress, ItemKey};
use crate::item::image::CurrentImage;
use crate::item::patch::{ArrayEdit, ElementEdit};
use crate::model::ModelTransaction;
use crate::transaction::key_entries;
use crate::transaction::write_buffer::{ItemEntry, Mutation};

/// The buckets of one array of one item.
pub(super) struct BucketedArray<'s, 't, 'e> {
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

impl<'s, 't, 'e> BucketedArray<'s, 't, 'e> {
    pub(super) fn new(
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
    pub(super) fn last(&mut self) -> Result<Option<(u64, u32)>> {
        let bounds = key::buckets_of(self.number, &self.parent.at.key);
        let last = key_entries::end_entry(self.model.tx, self.parent, &bounds, true)?;
        last.map(|(key, value)| directory_entry(&key, &value)).transpose()
    }

    /// All buckets.
    fn directory(&mut self) -> Result<Vec<(u64, u32)>> {
        let bounds = key::buckets_of(self.number, &self.parent.at.key);
        let entries = key_entries::entries(self.model.tx, self.parent, &bounds)?;
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
        let is_new = key_entries::key_entry(self.model.tx, self.parent, &entry)?.is_none();
        if is_new && self.model.tx.value_at(&address)?.is_some() {
            return Err(violated(format!(
                "The next bucket of '{}' would have the id '{}', and another item has it. Choose \
                 another 'idFormat'.",
                self.rule.def.array,
                address.id()
            )));
        }
        if elements.is_empty() {
            key_entries::set_entry(self.model.tx, self.parent, entry, None);
            return self.remove(&address);
        }
        let count = u32::try_from(elements.len()).map_err(|_| Error::internal("a large bucket"))?;
        key_entries::set_entry(
            self.model.tx,
            self.parent,
            entry,
            Some(count.to_be_bytes().to_vec()),
        );
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
        let found = key_entries::key_entry(self.model.tx, self.parent, &entry)?;
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
                key_entries::set_entry(
                    self.model.tx,
                    self.parent,
                    entry,
                    Some(seq.to_be_bytes().to_vec()),
                );
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
    pub(super) fn whole(&mut self, item: &Value, elements: Vec<Value>) -> Result<()> {
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
                    key_entries::set_entry(self.model.tx, self.parent, entry, None);
                }
            }
            let entry = key::bucket(self.number, &self.parent.at.key, *seq);
            key_entries::set_entry(self.model.tx, self.parent, entry, None);
            self.remove(&address)?;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) -> Result<()> {
        let buckets = self.directory()?;
        self.drop_buckets(&buckets)
    }

    /// Does edits in their order. Appends that follow one another write their bucket once.
    pub(super) fn edit_all<'a>(
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
                key_entries::set_entry(self.model.tx, self.parent, entry, None);
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
    pub(super) fn all(&mut self) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        for (seq, _) in self.directory()? {
            all.extend(self.load(seq)?.0);
        }
        Ok(all)
    }

    /// Counts the elements anew, and forgets what was appended.
    pub(super) fn recount(&mut self) -> Result<()> {
        self.count = i64::try_from(self.all()?.len()).unwrap_or(i64::MAX);
        self.appended = None;
        Ok(())
    }

    /// The elements that were added or changed.
    pub(super) fn into_written(self) -> Vec<Value> {
        self.written
    }

    /// The last elements.
    fn newest(&mut self, keep: usize) -> Result<Vec<Value>> {
        let mut bounds = key::buckets_of(self.number, &self.parent.at.key);
        let mut newest: Vec<Value> = Vec::new();
        while newest.len() < keep {
            let Some((key, value)) =
                key_entries::end_entry(self.model.tx, self.parent, &bounds, true)?
            else {
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
    pub(super) fn show(&mut self, before: Option<&Value>, value: &mut Value) -> Result<()> {
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
        path: &ModelPath,
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
