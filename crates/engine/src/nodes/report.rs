//! What `GET /_orrery/nodes` answers: the nodes of the store as it has them, whichever node is asked.

use std::collections::BTreeMap;

use orrery_storage::key::Job;
use orrery_types::{Object, Result, Value};

use super::NodeRegistry;
use super::lease::Cluster;
use super::record::whole;
use crate::catalog::resource::object;

impl NodeRegistry<'_> {
    /// The nodes of the store, by number: what each says of itself, when its last heartbeat was, and what it
    /// holds. On a store of one process there are none.
    pub fn report(self) -> Result<Value> {
        let Some(membership) = &self.engine.nodes.membership else {
            return Ok(Value::object(object([
                ("shared", false.into()),
                ("nodes", Value::array(vec![])),
            ])));
        };
        let cluster = Cluster::read(self.store())?;
        let now_us = self.engine.clock.now_us();
        let mut jobs: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
        for (job, lease) in &cluster.leases {
            let shown = self.job_to_value(*job);
            jobs.entry(lease.record.node).or_default().push(shown);
        }
        let nodes = cluster.nodes.iter().map(|(number, node)| {
            let node = &node.record;
            let jobs = jobs.remove(number).unwrap_or_default();
            let mut shown = object([
                ("node", whole(u64::from(*number))),
                ("self", (*number == membership.number()).into()),
                ("state", if node.is_over(now_us) { "dead" } else { "live" }.into()),
                ("startedUs", whole(node.started_us)),
                ("uptimeS", whole(now_us.saturating_sub(node.started_us) / 1_000_000)),
                ("heartbeatAgeMs", whole(now_us.saturating_sub(node.beat_us) / 1000)),
                ("lagS", whole(node.lag_s)),
            ]);
            let description = node.description.to_value();
            for (name, value) in description.as_object().into_iter().flat_map(Object::iter) {
                shown.set(name, value.clone());
            }
            shown.set("jobCount", whole(jobs.len() as u64));
            shown.set("jobs", Value::array(jobs));
            Value::object(shown)
        });
        let nodes: Vec<Value> = nodes.collect();
        Ok(Value::object(object([
            ("shared", true.into()),
            ("timeUs", whole(now_us)),
            ("nodes", Value::array(nodes)),
        ])))
    }

    /// A job by names; of what is not in the catalog only the kind is known.
    fn job_to_value(self, job: Job) -> Value {
        let (kind, database, container) = match job {
            Job::Account => ("account", 0, 0),
            Job::Database(database) => ("database", database, 0),
            Job::Container { database, container } => ("container", database, container),
            Job::Layout { database, container } => ("layout", database, container),
        };
        let (database, container) = self.engine.catalog.state().names_of(database, container);
        let text = |text: Option<Box<str>>| text.map_or(Value::Undefined, |text| (&*text).into());
        Value::object(object([
            ("job", kind.into()),
            ("database", text(database)),
            ("container", text(container)),
        ]))
    }
}
