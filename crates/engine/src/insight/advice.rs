//! `GET /dbs/{db}/_advisor`: the data of a database and what was seen of its requests, through the
//! advisor's rules. It reads the data, up to a bound of items and time; what it cannot know from a
//! part it does not say.

use orrery_modeling::Model;
use orrery_modeling::advisor::{Advisor, ContainerWork, Report, Workload, add_workload};
use orrery_types::ids::Address;
use orrery_types::{Error, ExecutionBudget, Result, Value, limits};

use crate::Container;
use crate::error::storage;
use crate::insight::Insight;
use crate::item::image::stored_value;
use crate::partition::scope::ScopeRequest;
use crate::query::read_feed::ItemCursor;
use crate::throughput::charge;

/// Rules that compare items with all others: a part of the data would prove them wrong.
const NEED_ALL: [&str; 4] = ["M07", "M08", "M09", "M10"];

/// What was read of one container.
#[derive(Default)]
struct Sample {
    items: u64,
    bytes: u64,
    /// Terms below each top-level path, of all items.
    terms: Vec<(String, u64)>,
    /// Items come by partition key: the one at hand, and the greatest so far.
    key: (String, u64),
    largest: (String, u64),
}

impl Insight<'_> {
    /// Switches the notes on requests on or off; off, what was noted is forgotten.
    pub fn keep_statistics(self, on: bool) {
        self.engine.workload.switch(on);
    }

    /// Findings about a database.
    pub fn advise(self, database: &Address) -> Result<Value> {
        self.engine.epochs().redo(&mut || self.advise_once(database))
    }

    fn advise_once(self, database: &Address) -> Result<Value> {
        let database = self.engine.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        let model = database.model.as_ref().map(|model| Model::parse(model.document()));
        let model = model.transpose().map_err(|e| Error::internal(e.to_string()))?;
        let mut advisor = Advisor::default();
        let (mut left, until) = (limits::ADVISOR_ITEMS_MAX, self.deadline());
        let mut samples = Vec::new();
        let mut whole = true;
        for container in database.containers() {
            let (sample, all) = self.sample(container, &mut advisor, &mut left, until)?;
            samples.push((container.clone(), sample));
            whole &= all;
        }
        let by_number =
            |number: u32| database.containers().find(|c| c.number == number).map(|c| c.id.clone());
        let (since, known) = self.engine.workload.known(&by_number);
        let mut containers = Vec::new();
        for mut known in known {
            let number = samples.iter().find(|(c, _)| *c.id == *known.work.name);
            if let (Some((container, _)), Some(growth)) = (number, known.growth.take()) {
                advisor.add_growth(&growth);
                self.engine.workload.keep_growth(container.number, growth);
            }
            containers.push(known.work);
        }
        for (container, sample) in &samples {
            let at = containers.iter().position(|work| *work.name == *container.id);
            let at = at.unwrap_or_else(|| {
                let name = container.id.clone();
                containers.push(ContainerWork { name, ..ContainerWork::default() });
                containers.len() - 1
            });
            self.complete(container, sample, &mut containers[at])?;
            let indexes = container.secondary.indexes.iter();
            let indexes = indexes
                .filter_map(|(number, _)| database.containers().find(|c| c.number == *number));
            containers[at].index_paths =
                indexes.flat_map(|index| key_paths(index).take(1)).collect();
        }
        let mut report = advisor.finish(model.as_ref());
        if !whole {
            withhold(&mut report);
        }
        let second = |s: u64| i64::try_from(s).unwrap_or(i64::MAX);
        let workload = Workload {
            term_charge: charge::TERM,
            visit_charge: charge::QUERY,
            from_s: second(since.unwrap_or_else(|| self.engine.clock.now_s())),
            to_s: second(self.engine.clock.now_s()),
            requests: self.engine.workload.requests(),
            containers,
        };
        if self.engine.workload.is_on() {
            add_workload(&mut report, &workload, model.as_ref());
        } else {
            let off = "Statistics of requests are switched off: rules M04, M05, M06, M11, M12 \
                       and M14 have nothing to go by.";
            report.too_little_data.push(off.into());
        }
        let mut value = report.to_value();
        if let Some(object) = value.as_object_mut() {
            object.set("workload", workload.to_value());
        }
        Ok(value)
    }

    fn deadline(self) -> u64 {
        self.engine.clock.now_us() + limits::ADVISOR_MS_MAX * 1000
    }

    /// Reads a container; whether that was all of it.
    fn sample(
        self,
        container: &Container,
        advisor: &mut Advisor,
        left: &mut usize,
        until_us: u64,
    ) -> Result<(Sample, bool)> {
        let everything = container.scope(&ScopeRequest::default())?;
        // The advisor has bounds of its own.
        let budget = ExecutionBudget::default().with_pool(&self.engine.query_memory);
        let mut cursor = ItemCursor::new(self.engine, container, &everything, None, &budget)?;
        let mut sample = Sample::default();
        while let Some(item) = cursor.next()? {
            if *left == 0 || self.engine.clock.now_us() > until_us {
                return Ok((sample, false));
            }
            *left -= 1;
            let value = stored_value(&item.body)?;
            let key = container.definition.partition_key.extract(&value).to_header();
            sample.add(&value, key, item.body.len() as u64);
            let added = advisor.add(&container.id, &item.body);
            added.map_err(|e| Error::internal(format!("a stored item: {e}")))?;
        }
        Ok((sample, true))
    }

    /// What the data and the definition say about the use of a container.
    fn complete(
        self,
        container: &Container,
        sample: &Sample,
        work: &mut ContainerWork,
    ) -> Result<()> {
        let mut stored = 0;
        for partition in &container.partitions {
            stored += self.engine.store.stats(partition.shard).map_err(storage)?.items_bytes;
        }
        work.key_paths = key_paths(container).collect();
        work.ranges = container.partitions.len() as u64;
        work.is_index = container.is_secondary_index();
        // Where a part was read, the rest is taken to be like it.
        let scale = if sample.bytes == 0 { 1 } else { (stored / sample.bytes.max(1)).max(1) };
        let (key, bytes) = &sample.largest;
        work.largest_key = Some((key.clone(), bytes.saturating_mul(scale)));
        #[expect(clippy::cast_precision_loss, reason = "a mean is a rough number")]
        let mean = |n: u64| n as f64 / sample.items.max(1) as f64;
        let is_indexed = |path: &str| {
            let name = orrery_index::IndexStep::Property(path.trim_start_matches('/').into());
            container.index.is_usable(&[name])
        };
        let indexed = sample.terms.iter().filter(|(path, _)| is_indexed(path));
        work.terms = indexed.map(|(path, n)| (path.clone(), mean(*n))).collect();
        Ok(())
    }
}

impl Sample {
    fn add(&mut self, item: &Value, key: String, bytes: u64) {
        self.items += 1;
        self.bytes += bytes;
        if self.key.0 == key {
            self.key.1 += bytes;
        } else {
            self.key = (key, bytes);
        }
        if self.key.1 > self.largest.1 {
            self.largest = self.key.clone();
        }
        let Some(object) = item.as_object() else { return };
        for (name, value) in object.iter().filter(|(name, _)| !name.starts_with('_')) {
            let path = format!("/{name}");
            let terms = leaves(value);
            let room = self.terms.len() < limits::WORKLOAD_PATHS_MAX;
            match self.terms.iter_mut().find(|(known, _)| *known == path) {
                Some((_, n)) => *n += terms,
                None if room => self.terms.push((path, terms)),
                None => {}
            }
        }
    }
}

/// The paths of its partition key.
fn key_paths(container: &Container) -> impl Iterator<Item = String> {
    container.definition.partition_key.paths.iter().map(ToString::to_string)
}

fn leaves(value: &Value) -> u64 {
    match value {
        Value::Array(elements) => elements.iter().map(leaves).sum(),
        Value::Object(object) => object.iter().map(|(_, value)| leaves(value)).sum(),
        _ => 1,
    }
}

/// Takes back what a part of the data cannot show.
fn withhold(report: &mut Report) {
    report.findings.retain(|finding| !NEED_ALL.contains(&finding.rule));
    report.too_little_data.push(format!(
        "Only {} items were read, a part of the data: rules M07 to M10 would have to see all of it. \
         Export it and run 'orrery advise --items'.",
        report.window.items
    ));
}
