//! Counters that stand beside the array they count: `commentCount` beside `comments`.

use std::collections::HashMap;

use orrery_types::Value;

/// Agreement of one counter with one array.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    pub(crate) checked: u64,
    pub(crate) wrong: u64,
    /// Some items that disagree, and the array's length there.
    pub(crate) samples: Vec<Box<str>>,
}

/// All counters of one type, by their name and that of the array.
#[derive(Debug, Default)]
pub(crate) struct ArrayCounters {
    pub(crate) pairs: HashMap<(Box<str>, Box<str>), Agreement>,
}

/// Counters that are followed.
const PAIRS_MAX: usize = 32;

impl ArrayCounters {
    pub(crate) fn add(&mut self, id: &str, item: &Value) {
        let Some(object) = item.as_object() else { return };
        for (name, value) in object.iter() {
            let Some(count) = value.as_i64().filter(|_| is_counter(name)) else { continue };
            let Some((array, elements)) = object.iter().find_map(|(array, value)| {
                let elements = value.as_array()?;
                counts(name, array).then_some((array, elements))
            }) else {
                continue;
            };
            let key = ((&**name).into(), (&**array).into());
            if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&key) {
                continue;
            }
            let agreement = self.pairs.entry(key).or_default();
            agreement.checked += 1;
            if usize::try_from(count).ok() != Some(elements.len()) {
                agreement.wrong += 1;
                if agreement.samples.len() < 5 {
                    agreement.samples.push(id.into());
                }
            }
        }
    }
}

/// Whether a name says that its value is a count.
pub(crate) fn is_counter(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains("count") || lower.starts_with("numberof") || lower.starts_with("num_")
}

/// Whether a counter's name contains what it counts, in singular or plural.
pub(crate) fn counts(counter: &str, thing: &str) -> bool {
    let (counter, thing) = (counter.to_ascii_lowercase(), thing.to_ascii_lowercase());
    let singular = thing.strip_suffix('s').unwrap_or(&thing);
    singular.len() >= 3 && counter.contains(singular)
}
