//! Throughput of one offer on several nodes. Every node grants its *share* of the rate: by what its requests asked for in
//! the last second, refused ones too, of what those of all nodes did, and at least half of an even share, so that a
//! node which gets requests after a pause is not held up. Nodes publish what was asked with their heartbeats.

use std::collections::{BTreeMap, BTreeSet};

use orrery_storage::Store;
use orrery_storage::key::RecordKind;
use orrery_types::ids::Rid;
use orrery_types::{Result, limits};

use super::{Owner, Throttle};
use crate::catalog::offer::offer_terms;
use crate::catalog::records;

/// Request units a second that were asked for, by whose throughput it is.
pub(crate) type Demands = BTreeMap<Owner, f64>;

impl Throttle {
    /// What was asked for in the last second, of the offers that were asked most.
    pub(crate) fn demands(&self, now_us: u64) -> Demands {
        let mut all: Vec<(Owner, f64)> = self
            .known_governors()
            .iter()
            .map(|(owner, governor)| (*owner, governor.asked(now_us * 1000)))
            .filter(|(_, asked)| *asked > 0.0)
            .collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(limits::NODE_DEMANDS_MAX);
        all.into_iter().collect()
    }

    /// Sets the share of this node, whose demands are the first.
    pub(crate) fn set_shares(&self, own: &Demands, others: &[&Demands]) {
        for (owner, governor) in self.known_governors() {
            let of = |demands: &Demands| demands.get(&owner).copied().unwrap_or_default();
            governor.set_share(share(of(own), others.iter().map(|demands| of(demands))));
        }
    }

    /// Takes over what another node has changed of the offers.
    pub(crate) fn refresh(&self, store: &dyn Store) -> Result<()> {
        self.look(store)?;
        let known = self.governors_read().keys().copied().collect::<BTreeSet<Owner>>();
        for owner in known {
            let rid = rid_of(owner);
            let record = records::by_name(store, RecordKind::Offer, 0, &rid.to_string())?;
            self.changed(rid, record.as_ref().map(offer_terms).transpose()?);
        }
        Ok(())
    }
}

/// The part of the rate that a node grants, by what it and the others are asked for.
fn share(own: f64, others: impl Iterator<Item = f64>) -> f64 {
    let (mut nodes, mut all) = (1.0, own);
    for other in others {
        nodes += 1.0;
        all += other;
    }
    if all > 0.0 { (own / all).max(0.5 / nodes) } else { 1.0 / nodes }
}

fn rid_of((database, container): Owner) -> Rid {
    match container {
        Some(container) => Rid::Container { database, container },
        None => Rid::Database(database),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_follows_demand_and_is_half_of_an_even_one_at_least() {
        let check = |own: f64, others: &[f64], expected: f64| {
            let share = share(own, others.iter().copied());
            assert!((share - expected).abs() < 1e-9, "{own} {others:?}: {share}");
        };
        check(0.0, &[], 1.0);
        check(700.0, &[], 1.0);
        check(0.0, &[0.0, 0.0, 0.0], 0.25);
        check(300.0, &[100.0], 0.75);
        check(100.0, &[300.0], 0.25);
        check(0.0, &[300.0], 0.25);
        check(1.0, &[1e9, 0.0], 1.0 / 6.0);
        check(500.0, &[0.0, 0.0], 1.0);
    }
}
