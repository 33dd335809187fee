//! Which part of a container a feed or query reads: all of it, one logical partition, the keys
//! under a prefix, one physical partition, or an interval of effective keys.

use orrery_types::{EffectiveKey, Error, KeyRange, PartitionKey, Result};

use crate::Container;

/// The part, as a request names it.
#[derive(Clone, Debug, Default)]
pub struct ScopeRequest {
    /// The partition key header.
    pub partition_key: Option<PartitionKey>,
    /// The number of a physical partition.
    pub range_id: Option<Box<str>>,
    /// Where an interval starts, in hex.
    pub start: Option<Box<str>>,
    /// Where an interval ends, in hex.
    pub end: Option<Box<str>>,
}

impl ScopeRequest {
    /// The interval, if one end of it is named.
    pub(crate) fn interval(&self) -> Result<Option<KeyRange>> {
        let named = self.start.is_some() || self.end.is_some();
        named.then(|| interval(self.start.as_deref(), self.end.as_deref())).transpose()
    }
}

/// The part, as the engine reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Keys to read; `None` when the parts named have nothing in common.
    pub range: Option<KeyRange>,
    /// The one logical partition, if it is one.
    pub partition_key: Option<PartitionKey>,
    /// Whether the request confined the read at all.
    pub confined: bool,
}

impl Scope {
    /// Names the logical partition, whether it was given by its key or by the range of its hash;
    /// empty if it is not one. Tokens belong to it: otherwise one may be used for a part of what it was
    /// given for, since ranges split and the place that it names stays.
    pub(crate) fn logical_partition(&self) -> String {
        let is_key = |range: &&KeyRange| self.partition_key.is_some() || range.is_of_one_key();
        self.range.as_ref().filter(is_key).map(|r| r.min.to_string()).unwrap_or_default()
    }
}

impl Container {
    /// Resolves what a request names.
    pub fn scope(&self, request: &ScopeRequest) -> Result<Scope> {
        let mut range = Some(KeyRange::full());
        let mut confined = false;
        let mut confine = |to: &KeyRange| {
            confined = true;
            range = range.as_ref().and_then(|r| r.intersect(to));
        };
        if let Some(id) = &request.range_id {
            confine(&self.partition_by_id(id)?.range);
        }
        if let Some(interval) = request.interval()? {
            confine(&interval);
        }
        let mut partition_key = None;
        let key = request.partition_key.clone().map(|k| self.definition.partition_key.normalize(k));
        // No value of a hierarchical key confines nothing.
        let names_none =
            |k: &PartitionKey| k.0.is_empty() && !self.definition.partition_key.is_complete(k);
        if let Some(key) = key.filter(|k| !names_none(k)) {
            self.check_key_levels(&key)?;
            confine(&self.definition.partition_key.range_of(&key));
            partition_key = self.definition.partition_key.is_complete(&key).then_some(key);
        }
        Ok(Scope { range, partition_key, confined })
    }

    /// A key, or a prefix of a hierarchical one: never more values than paths.
    fn check_key_levels(&self, key: &PartitionKey) -> Result<()> {
        let (given, declared) = (key.0.len(), self.definition.partition_key.paths.len());
        if given > declared {
            return Err(Error::PartitionKeyMismatch(
                format!("The partition key has {given} values; the container declares {declared}.")
                    .into(),
            ));
        }
        Ok(())
    }
}

fn interval(start: Option<&str>, end: Option<&str>) -> Result<KeyRange> {
    let place = |text: Option<&str>, or: EffectiveKey| match text {
        None => Ok(or),
        Some(hex) => EffectiveKey::parse(hex).ok_or_else(|| {
            Error::invalid(format!(
                "One of the input values is invalid: '{hex}' is not an effective key."
            ))
        }),
    };
    let mut range =
        KeyRange { min: place(start, EffectiveKey::min())?, max: place(end, EffectiveKey::max())? };
    // Plans name a key, or a prefix of one, by a range whose ends are equal and both belong to it.
    if range.min == range.max && start.is_some_and(|start| !start.is_empty()) {
        range.max = range.min.after_prefix();
    }
    if range.min > range.max {
        return Err(Error::invalid(
            "One of the input values is invalid: the interval ends before it starts.",
        ));
    }
    Ok(range)
}
