//! Throttling: requests that exceed the throughput of their container are refused with the time to
//! wait. By default nobody is; the server's setting says so for all offers, and an offer for itself
//! ([`terms`]).
//!
//! A request is let in while its physical partitions have anything left and pays when its charge is
//! known ([`bucket`]): what a query costs cannot be known before. Whoever serves it asks
//! [`Throttling::admit`] before and [`Throttling::spend`] after. Where nothing is throttled the first is one
//! load of a flag, and the second never happens.

mod bucket;
mod governor;
mod shares;
mod terms;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use orrery_storage::Store;
use orrery_storage::key::RecordKind;
use orrery_types::ids::Rid;
use orrery_types::{Result, limits};

use crate::catalog::offer::offer_terms;
use crate::catalog::records;
use crate::partition::scope::ScopeRequest;
use crate::{Container, Engine};
pub use bucket::Priority;
pub use governor::Claim;
use governor::Governor;
pub(crate) use shares::Demands;
pub(crate) use terms::ThroughputTerms;

/// Who has throughput: a database, or one of its containers.
pub(crate) type Owner = (u32, Option<u32>);

/// The offers whose requests are watched, as they are needed.
#[derive(Default)]
pub(crate) struct Throttle {
    /// The setting of the server, for offers that say nothing.
    everywhere: bool,
    /// Whether any request may be refused at all.
    is_on: AtomicBool,
    governors: RwLock<Governors>,
}

type Governors = HashMap<Owner, Option<Arc<Governor>>>;

/// A request that was let in.
#[derive(Debug)]
pub struct Pass {
    governor: Arc<Governor>,
    /// The physical partitions that it was let into.
    partitions: Vec<u32>,
    /// How many the container has.
    count: usize,
    bucket: Option<u8>,
}

fn owner_of(rid: Rid) -> Option<Owner> {
    match rid {
        Rid::Database(database) => Some((database, None)),
        Rid::Container { database, container } => Some((database, Some(container))),
        _ => None,
    }
}

impl Throttle {
    pub(crate) fn open(store: &dyn Store) -> Result<Self> {
        let throttle = Self::default();
        throttle.look(store)?;
        Ok(throttle)
    }

    pub(crate) fn enforce_everywhere(&mut self, everywhere: bool) {
        self.everywhere = everywhere;
        self.is_on.fetch_or(everywhere, Ordering::Relaxed);
    }

    fn governors_read(&self) -> RwLockReadGuard<'_, Governors> {
        self.governors.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The offers that are watched.
    fn known_governors(&self) -> Vec<(Owner, Arc<Governor>)> {
        let governors = self.governors_read();
        let known = governors.iter().filter_map(|(owner, g)| Some((*owner, g.clone()?)));
        known.collect()
    }

    /// Finds out whether anything is throttled.
    pub(crate) fn look(&self, store: &dyn Store) -> Result<()> {
        let offers = records::list(store, RecordKind::Offer, 0)?;
        let enforced =
            |record| offer_terms(record).is_ok_and(|t: ThroughputTerms| t.enforced == Some(true));
        self.is_on.store(self.everywhere || offers.iter().any(enforced), Ordering::Relaxed);
        Ok(())
    }

    /// An offer has new terms, or none any more.
    pub(crate) fn changed(&self, owner: Rid, terms: Option<ThroughputTerms>) {
        let Some(owner) = owner_of(owner) else { return };
        let mut governors = self.governors.write().unwrap_or_else(PoisonError::into_inner);
        match (governors.get(&owner), terms) {
            (Some(Some(governor)), Some(terms)) => governor.set_terms(terms),
            _ => drop(governors.remove(&owner)),
        }
    }

    /// What autoscale stands at: request units a second, between a tenth of the maximum and all of it.
    pub(crate) fn scaled(&self, owner: Rid, max: i64, now_us: u64) -> i64 {
        let governors = self.governors_read();
        let known = owner_of(owner).and_then(|owner| governors.get(&owner)?.clone());
        let used = known.map_or(0.0, |governor| governor.used(now_us * 1000));
        #[expect(clippy::cast_possible_truncation, reason = "it saturates, and is clamped")]
        let hundreds = (used / 100.0).ceil() as i64;
        hundreds.saturating_mul(100).clamp(max / 10, max)
    }

    fn governor(&self, store: &dyn Store, owner: Owner, rid: Rid) -> Result<Option<Arc<Governor>>> {
        let known = self.governors_read();
        if let Some(governor) = known.get(&owner) {
            return Ok(governor.clone());
        }
        drop(known);
        // Under the lock: whoever replaces the offer now finds what was read of it, and changes it.
        let mut governors = self.governors.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(governor) = governors.get(&owner) {
            return Ok(governor.clone());
        }
        let record = records::by_name(store, RecordKind::Offer, 0, &rid.to_string())?;
        let terms = record.as_ref().map(offer_terms).transpose()?;
        if governors.len() >= limits::THROUGHPUT_OFFERS_KEPT {
            governors.clear();
        }
        let made = terms.map(|terms| Arc::new(Governor::new(terms)));
        governors.insert(owner, made.clone());
        Ok(made)
    }

    /// Whose throughput a container spends, if that is watched: its own, or what it shares.
    fn governor_of(&self, store: &dyn Store, container: &Container) -> Result<Option<Shared>> {
        let (database, number) = (container.database, container.number);
        let own = self.governor(store, (database, Some(number)), container.rid())?;
        let found = if let Some(governor) = own {
            Some(Shared { governor, is_shared: false })
        } else {
            let shared = self.governor(store, (database, None), container.database_rid())?;
            shared.map(|governor| Shared { governor, is_shared: true })
        };
        Ok(found.filter(|f| f.governor.terms().enforced.unwrap_or(self.everywhere)))
    }
}

/// A governor, and whether other containers spend there too.
struct Shared {
    governor: Arc<Governor>,
    is_shared: bool,
}

/// Throughput that requests may use.
#[derive(Clone, Copy)]
pub struct Throttling<'e> {
    pub(crate) engine: &'e Engine,
}

impl Throttling<'_> {
    /// Whether any request may be refused for its rate.
    pub fn throttles(self) -> bool {
        self.engine.throttle.is_on.load(Ordering::Relaxed)
    }

    /// Lets a request into the part of a container that it names; nothing if that is not throttled,
    /// or if the request does not make sense, which whoever serves it will say.
    pub fn admit(
        self,
        container: &Container,
        part: &ScopeRequest,
        claim: Claim,
    ) -> Result<Option<Pass>> {
        let found = self.engine.throttle.governor_of(&*self.engine.store, container)?;
        let Some(Shared { governor, is_shared }) = found else { return Ok(None) };
        let (partitions, count) = if is_shared {
            // Shared throughput is one allowance, wherever it is spent.
            (vec![0], 1)
        } else {
            let Ok(scope) = container.scope(part) else { return Ok(None) };
            let Some(range) = scope.range else { return Ok(None) };
            let touched = container.partitions.iter();
            let touched = touched.filter(|p| p.range.intersect(&range).is_some()).map(|p| p.id);
            (touched.collect(), container.partitions.len())
        };
        governor.admit(&partitions, claim, self.engine.clock.now_us() * 1000)?;
        Ok(Some(Pass { governor, partitions, count, bucket: claim.bucket }))
    }

    /// Takes what a request cost. `partition` is where it happened, if that turned out to be one.
    pub fn spend(self, pass: &Pass, charge: f64, partition: Option<u32>) {
        let now_ns = self.engine.clock.now_us() * 1000;
        let one = partition.filter(|id| pass.partitions.contains(id));
        let partitions = one.as_ref().map_or(&pass.partitions[..], std::slice::from_ref);
        pass.governor.spend(partitions, pass.count, pass.bucket, charge, now_ns);
    }
}
