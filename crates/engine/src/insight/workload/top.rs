//! The heaviest of many keys in bounded memory: whoever is not among them takes the place of the
//! lightest and inherits its weight, so that a heavy key is never lost (the space-saving sketch).

use std::collections::HashMap;
use std::hash::Hash;

use orrery_types::limits;

#[derive(Debug)]
pub(super) struct Top<K> {
    weights: HashMap<K, Weight>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    total: f64,
    /// What it may have inherited.
    inherited: f64,
}

impl<K> Default for Top<K> {
    fn default() -> Self {
        Self { weights: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> Top<K> {
    pub(super) fn add(&mut self, key: K, weight: f64) {
        if let Some(known) = self.weights.get_mut(&key) {
            known.total += weight;
            return;
        }
        let mut inherited = 0.0;
        if self.weights.len() >= limits::WORKLOAD_KEYS_MAX {
            let lightest = self.weights.iter().min_by(|a, b| a.1.total.total_cmp(&b.1.total));
            if let Some((lightest, weight)) = lightest.map(|(k, w)| (k.clone(), *w)) {
                self.weights.remove(&lightest);
                inherited = weight.total;
            }
        }
        self.weights.insert(key, Weight { total: inherited + weight, inherited });
    }

    /// What is certainly of each, the heaviest first.
    pub(super) fn list(&self) -> Vec<(K, f64)> {
        let mut list: Vec<(K, f64)> =
            self.weights.iter().map(|(k, w)| (k.clone(), w.total - w.inherited)).collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_key_is_found_among_any_number_of_light_ones() {
        let mut top = Top::default();
        for n in 0..10_000 {
            top.add(n, 1.0);
            top.add(1_000_000, 1.0);
        }
        let list = top.list();
        assert!(list.len() <= limits::WORKLOAD_KEYS_MAX);
        assert_eq!(list[0].0, 1_000_000);
        assert!(list[0].1 > 9_000.0 && list[1].1 < 10.0, "{:?}", &list[..2]);
    }
}
