//! Throughput: what a creator asks for, and the offers that hold it. An offer belongs to one
//! database or container and is found by that resource's rid.

use orrery_storage::key::RecordKind;
use orrery_types::ids::Rid;
use orrery_types::{Error, Lsn, Object, Result, Value, limits};

use crate::catalog::Change;
use crate::catalog::records::{self, Record};
use crate::catalog::resource::{Preconditions, Resource, object, require_object};
use crate::throughput::throttle::ThroughputTerms;
use crate::{Container, Engine};

/// Throughput as the headers of a create ask for it.
#[derive(Clone, Debug, Default)]
pub struct ThroughputRequest {
    /// Request units a second, fixed.
    pub manual: Option<i64>,
    /// JSON of autoscale settings.
    pub autoscale: Option<Box<str>>,
}

/// What an offer grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// Always the same.
    Manual(i64),
    /// Between a tenth of the maximum and the maximum.
    #[expect(missing_docs, reason = "the summary says it")]
    Autoscale { max: i64, increment_percent: i64 },
}

/// How a replace turns one kind of offer into the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Migration {
    #[default]
    None,
    ToAutoscale,
    ToManual,
}

impl ThroughputRequest {
    fn parse(&self) -> Result<Option<Throughput>> {
        match (self.manual, &self.autoscale) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(Error::invalid(
                "Both manual throughput and autoscale settings are given; send only one.",
            )),
            (Some(manual), None) => check_manual(manual).map(Some),
            (None, Some(json)) => {
                let settings = Value::parse(json.as_bytes()).map_err(|e| {
                    Error::invalid(format!("The autoscale settings are not JSON: {e}."))
                })?;
                autoscale(&settings).map(Some)
            }
        }
    }

    pub(crate) fn for_database(&self) -> Result<Option<Throughput>> {
        self.parse()
    }

    /// A container in a database with shared throughput needs none of its own.
    pub(crate) fn for_container(&self, shared: bool) -> Result<Option<Throughput>> {
        let asked = self.parse()?;
        Ok(asked.or((!shared).then_some(Throughput::Manual(limits::THROUGHPUT_MIN))))
    }
}

impl Throughput {
    pub(crate) fn max(self) -> i64 {
        match self {
            Self::Manual(manual) => manual,
            Self::Autoscale { max, .. } => max,
        }
    }

    /// Physical partitions that a container of this throughput begins with.
    pub(crate) fn partitions_first(self) -> u32 {
        if self.max() < limits::PARTITION_THROUGHPUT {
            return 1;
        }
        self.partitions_of(limits::PARTITION_THROUGHPUT_FIRST)
    }

    /// Physical partitions that a container of this throughput needs at least.
    pub(crate) fn partitions_least(self) -> u32 {
        self.partitions_of(limits::PARTITION_THROUGHPUT)
    }

    /// One partition for every so many request units begun.
    fn partitions_of(self, units: i64) -> u32 {
        u32::try_from(((self.max() + units - 1) / units).max(1)).unwrap_or(1)
    }

    fn content(self) -> Object {
        match self {
            Self::Manual(manual) => object([
                ("offerThroughput", manual.into()),
                ("offerIsRUPerMinuteThroughputEnabled", false.into()),
                ("userSpecifiedThroughput", manual.into()),
            ]),
            Self::Autoscale { max, increment_percent } => {
                let increment = object([("incrementPercent", increment_percent.into())]);
                let policy = object([("throughputPolicy", Value::object(increment))]);
                let settings = object([
                    ("tier", 0.into()),
                    ("maximumTierThroughput", max.into()),
                    ("autoUpgrade", false.into()),
                    ("maxThroughput", max.into()),
                    ("autoUpgradePolicy", Value::object(policy)),
                ]);
                object([
                    ("offerThroughput", (max / 10).into()),
                    ("offerIsRUPerMinuteThroughputEnabled", false.into()),
                    ("offerAutopilotSettings", Value::object(settings)),
                ])
            }
        }
    }

    /// The least that the resource may be set to; clients show it.
    fn min(self) -> i64 {
        match self {
            Self::Manual(manual) => (manual / 100 / 100 * 100).max(limits::THROUGHPUT_MIN),
            Self::Autoscale { max, .. } => (max / 10 / 1000 * 1000).max(limits::AUTOSCALE_MIN),
        }
    }
}

fn check_manual(manual: i64) -> Result<Throughput> {
    check_units(manual, limits::THROUGHPUT_MIN, 100)?;
    Ok(Throughput::Manual(manual))
}

/// Within the limits and a multiple of the step, in the words that SDK tests look for.
fn check_units(units: i64, min: i64, step: i64) -> Result<()> {
    if units < min {
        return Err(Error::invalid(format!(
            "Requested throughput {units} is less than required minimum throughput {min}."
        )));
    }
    if units > limits::THROUGHPUT_MAX {
        return Err(Error::invalid(format!(
            "Requested throughput {units} is more than the maximum throughput {}.",
            limits::THROUGHPUT_MAX
        )));
    }
    if units % step != 0 {
        return Err(Error::invalid(format!(
            "Requested throughput {units} is not a multiple of {step}."
        )));
    }
    Ok(())
}

fn autoscale(settings: &Value) -> Result<Throughput> {
    let given = settings.get("maxThroughput");
    let max = given.as_i64().ok_or_else(|| {
        Error::invalid(format!(
            "The maxThroughput of autoscale settings must be a number; it is {}.",
            if given.is_undefined() { "missing".to_owned() } else { given.to_json() }
        ))
    })?;
    check_units(max, limits::AUTOSCALE_MIN, 1000)?;
    let percent = settings.get("autoUpgradePolicy").get("throughputPolicy").get("incrementPercent");
    let increment_percent = match percent {
        Value::Undefined | Value::Null => 0,
        given => given.as_i64().filter(|p| (0..=100).contains(p)).ok_or_else(|| {
            Error::invalid(format!(
                "incrementPercent must be from 0 to 100; it is {}.",
                given.to_json()
            ))
        })?,
    };
    Ok(Throughput::Autoscale { max, increment_percent })
}

/// The throughput that an offer's content says it has.
fn content_throughput(content: &Value) -> Result<Throughput> {
    match content.get("offerAutopilotSettings") {
        Value::Undefined | Value::Null => {
            let given = content.get("offerThroughput");
            let manual = given.as_i64().ok_or_else(|| {
                Error::invalid(format!(
                    "offerThroughput must be a number; it is {}.",
                    given.to_json()
                ))
            })?;
            check_manual(manual)
        }
        settings => autoscale(settings),
    }
}

/// All that a stored offer says.
pub(crate) fn offer_terms(record: &Record) -> Result<ThroughputTerms> {
    let content = record.body.get("content");
    ThroughputTerms::parse(content_throughput(content)?, content)
}

/// Whose an offer is: its record is named by the owner.
fn owner_of(record: &Record) -> Option<Rid> {
    record.id.parse().ok()
}

fn offer_resource(record: &Record) -> Result<Resource> {
    let number =
        u32::try_from(record.number).map_err(|_| Error::internal("an offer is corrupt"))?;
    let rid = Rid::Offer(number);
    let mut body = record.properties();
    body.set("id", rid.to_string().into());
    Ok(Resource::new(rid, record.stamp, &format!("offers/{rid}/"), body))
}

/// Throughput that databases and containers were given.
#[derive(Clone, Copy)]
pub struct OfferCatalog<'e> {
    pub(crate) engine: &'e Engine,
}

impl OfferCatalog<'_> {
    pub(crate) fn insert(
        self,
        change: &mut Change<'_>,
        throughput: &Throughput,
        owner: Rid,
        owner_link: &str,
    ) -> Result<()> {
        let body = object([
            ("resource", owner_link.into()),
            ("offerType", "Invalid".into()),
            ("offerResourceId", owner.to_string().into()),
            ("offerVersion", "V2".into()),
            ("content", Value::object(throughput.content())),
        ]);
        let record = Record {
            number: u64::from(change.next_number("offer")?),
            version: Lsn(0),
            id: owner.to_string().into(),
            stamp: self.engine.stamper.next(),
            body: Value::object(body),
        };
        change.insert(RecordKind::Offer, 0, &record)?;
        Ok(())
    }

    pub(crate) fn remove(self, change: &mut Change<'_>, owner: &str) -> Result<()> {
        if let Some(record) = records::by_name(&*self.engine.store, RecordKind::Offer, 0, owner)? {
            change.remove(RecordKind::Offer, 0, record.number, owner);
            if let Some(owner) = owner_of(&record) {
                self.engine.throttle.changed(owner, None);
            }
        }
        Ok(())
    }

    /// Whether a database or container has throughput of its own.
    pub fn has_throughput(self, owner: Rid) -> Result<bool> {
        self.exists(&owner.to_string())
    }

    pub(crate) fn exists(self, owner: &str) -> Result<bool> {
        Ok(records::by_name(&*self.engine.store, RecordKind::Offer, 0, owner)?.is_some())
    }

    /// The throughput of a container; `None` if it shares that of its database.
    pub(crate) fn throughput_of(self, container: &Container) -> Result<Option<Throughput>> {
        let owner = container.rid_text();
        let record = records::by_name(&*self.engine.store, RecordKind::Offer, 0, owner)?;
        record.map(|record| content_throughput(record.body.get("content"))).transpose()
    }

    /// An offer as clients see it: with the throughput that autoscale stands at, and whether partitions
    /// are still to be split for it.
    fn shown(self, record: &Record) -> Result<Resource> {
        let mut resource = offer_resource(record)?;
        let mut content = record.body.get("content").as_object().cloned().unwrap_or_default();
        let is_pending = self.engine.layouts().is_offer_pending(&record.id)?;
        if is_pending {
            content.set("isOfferReplacePending", true.into());
        }
        let scaled = match content_throughput(record.body.get("content")) {
            Ok(Throughput::Autoscale { max, .. }) => owner_of(record)
                .map(|owner| self.engine.throttle.scaled(owner, max, self.engine.clock.now_us())),
            _ => None,
        };
        if let Some(scaled) = scaled {
            content.set("offerThroughput", scaled.into());
        }
        if (is_pending || scaled.is_some())
            && let Some(body) = resource.body.as_object_mut()
        {
            body.set("content", Value::object(content));
        }
        Ok(resource)
    }

    /// All offers of the account.
    pub fn list(self) -> Result<Vec<Resource>> {
        let all = records::list(&*self.engine.store, RecordKind::Offer, 0)?;
        all.iter().map(|record| self.shown(record)).collect()
    }

    /// One offer.
    pub fn read(self, number: u32) -> Result<Resource> {
        let record =
            records::by_number(&*self.engine.store, RecordKind::Offer, 0, u64::from(number))?;
        self.shown(&record.ok_or(Error::NotFound)?)
    }

    /// The least throughput that an offer may be set to.
    pub fn minimum(offer: &Resource) -> i64 {
        content_throughput(offer.body.get("content"))
            .map_or(limits::THROUGHPUT_MIN, Throughput::min)
    }

    /// Sets an offer's throughput, or turns it into the other kind.
    pub fn replace(
        self,
        number: u32,
        body: &Value,
        migration: Migration,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        self.engine.epochs().redo(&mut || self.replace_once(number, body, migration, conditions))
    }

    /// The same on one picture of the catalog.
    fn replace_once(
        self,
        number: u32,
        body: &Value,
        migration: Migration,
        conditions: &Preconditions,
    ) -> Result<Resource> {
        require_object(body)?;
        let mut change = self.engine.catalog.change()?;
        let mut record = change.record(RecordKind::Offer, 0, u64::from(number))?;
        conditions.check_write(Some(record.stamp))?;
        let terms = offer_terms(&record)?;
        let current = terms.throughput;
        let same = |member: &str| {
            let sent = body.get(member);
            sent.is_undefined() || sent == record.body.get(member)
        };
        let rid = body.get("_rid");
        if !rid.is_undefined() && rid.as_str() != Some(&Rid::Offer(number).to_string()) {
            return Err(Error::invalid("The '_rid' of the body is not that of the offer."));
        }
        if !same("offerResourceId") || !same("resource") {
            return Err(Error::invalid("An offer cannot be moved to another resource."));
        }
        let next = match (migration, current) {
            (Migration::ToAutoscale, Throughput::Manual(manual)) => {
                let max = (manual + 999) / 1000 * 1000;
                Throughput::Autoscale { max: max.max(limits::AUTOSCALE_MIN), increment_percent: 0 }
            }
            (Migration::ToManual, Throughput::Autoscale { max, .. }) => Throughput::Manual(max),
            (Migration::ToAutoscale | Migration::ToManual, same) => same,
            (Migration::None, current) => match (current, content_throughput(body.get("content"))?)
            {
                (Throughput::Manual(_), Throughput::Autoscale { .. }) => {
                    return Err(Error::invalid(
                        "The offer has manual throughput; to give it autoscale settings send the \
                         header that migrates it to autopilot.",
                    ));
                }
                (Throughput::Autoscale { .. }, Throughput::Manual(_)) => {
                    return Err(Error::invalid(
                        "The offer has autoscale throughput; to give it manual throughput send the \
                         header that migrates it to manual throughput.",
                    ));
                }
                (_, next) => next,
            },
        };
        let terms = terms.changed(next, body.get("content"))?;
        let owner = owner_of(&record);
        if terms.has_buckets() && matches!(owner, Some(Rid::Database(_))) {
            return Err(Error::invalid(
                "Throughput buckets are of containers with throughput of their own; this offer is \
                 shared by the containers of a database.",
            ));
        }
        let mut content = next.content();
        terms.write(&mut content);
        let mut properties = record.properties();
        properties.set("content", Value::object(content));
        record.body = Value::object(properties);
        record.stamp = self.engine.stamper.next();
        change.replace(RecordKind::Offer, 0, &record)?;
        change.commit()?;
        if let Some(owner) = owner {
            self.engine.throttle.changed(owner, Some(terms));
        }
        self.engine.throttle.look(&*self.engine.store)?;
        self.engine.layout_changes.monitor.request_check();
        self.shown(&record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_checked() {
        let ask = |manual: Option<i64>, autoscale: Option<&str>| {
            let request = ThroughputRequest { manual, autoscale: autoscale.map(Into::into) };
            request.for_container(false)
        };
        assert_eq!(ask(None, None), Ok(Some(Throughput::Manual(400))));
        assert_eq!(ask(Some(500), None), Ok(Some(Throughput::Manual(500))));
        for bad in [0, -400, 399, 450, 2_000_000] {
            assert!(ask(Some(bad), None).is_err(), "{bad}");
        }
        let autoscale = Throughput::Autoscale { max: 4000, increment_percent: 0 };
        assert_eq!(ask(None, Some(r#"{"maxThroughput":4000}"#)), Ok(Some(autoscale)));
        for bad in ["{}", "x", r#"{"maxThroughput":500}"#, r#"{"maxThroughput":1500}"#] {
            assert!(ask(None, Some(bad)).is_err(), "{bad}");
        }
        assert!(ask(Some(400), Some(r#"{"maxThroughput":4000}"#)).is_err());
        assert_eq!(ThroughputRequest::default().for_container(true), Ok(None));
    }

    #[test]
    fn partitions_follow_throughput() {
        let check = |throughput: Throughput, first: u32, least: u32| {
            assert_eq!(throughput.partitions_first(), first, "{throughput:?}");
            assert_eq!(throughput.partitions_least(), least, "{throughput:?}");
        };
        for (units, first, least) in [
            (400, 1, 1),
            (9_900, 1, 1),
            (10_000, 2, 1),
            (10_100, 2, 2),
            (15_000, 3, 2),
            (18_000, 3, 2),
            (18_100, 4, 2),
            (20_000, 4, 2),
            (30_000, 5, 3),
        ] {
            check(Throughput::Manual(units), first, least);
        }
        check(Throughput::Autoscale { max: 30_000, increment_percent: 0 }, 5, 3);
    }
}
