//! What is stored of nodes and leases, as JSON: `orrery nodes` of another release still reads what it knows.

use orrery_types::{Error, Lsn, Result, ShardId, Value, limits};

use crate::catalog::resource::object;
use crate::throughput::throttle::Demands;

/// What a node says of itself when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct NodeDescription {
    pub host: String,
    pub version: String,
    /// Where it serves clients.
    pub addresses: Vec<String>,
}

impl NodeDescription {
    pub(super) fn to_value(&self) -> Value {
        let addresses = self.addresses.iter().map(|address| cut(address));
        Value::object(object([
            ("host", cut(&self.host)),
            ("version", cut(&self.version)),
            ("addresses", Value::array(addresses.collect())),
        ]))
    }

    fn from_value(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let addresses = value.get("addresses").as_array().unwrap_or_default();
        Self {
            host: text(value.get("host")),
            version: text(value.get("version")),
            addresses: addresses.iter().map(text).collect(),
        }
    }
}

fn cut(text: &str) -> Value {
    let most = limits::NODE_TEXT_BYTES_MAX.min(text.len());
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    Value::from(&text[..end])
}

/// A node of a shared store.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeRecord {
    pub(crate) started_us: u64,
    /// When its last heartbeat was sent.
    pub(crate) beat_us: u64,
    /// When it counts as dead, unless another heartbeat comes.
    pub(crate) expires_us: u64,
    pub(crate) description: NodeDescription,
    /// Seconds by which the global secondary indexes that it keeps are behind.
    pub(crate) lag_s: u64,
    /// What its requests asked for of the throughput of offers.
    pub(crate) demands: Demands,
}

impl NodeRecord {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let value = object([
            ("started", whole(self.started_us)),
            ("beat", whole(self.beat_us)),
            ("expires", whole(self.expires_us)),
            ("description", self.description.to_value()),
            ("lag", whole(self.lag_s)),
            ("demands", demands_to_value(&self.demands)),
        ]);
        Value::object(value).to_json().into_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let value = Value::parse(bytes).map_err(|_| corrupt("a node"))?;
        let time = |name: &str| number(value.get(name)).ok_or_else(|| corrupt("a node"));
        Ok(Self {
            started_us: time("started")?,
            beat_us: time("beat")?,
            expires_us: time("expires")?,
            description: NodeDescription::from_value(value.get("description")),
            lag_s: number(value.get("lag")).unwrap_or_default(),
            demands: demands_from_value(value.get("demands")),
        })
    }
}

/// A list of database, container or null, and hundredths of request units.
fn demands_to_value(demands: &Demands) -> Value {
    let one = |((database, container), asked): (&(u32, Option<u32>), &f64)| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let hundredths = (asked * 100.0).ceil() as u64;
        let container = container.map_or(Value::Null, |number| whole(u64::from(number)));
        Value::array(vec![whole(u64::from(*database)), container, whole(hundredths)])
    };
    Value::array(demands.iter().map(one).collect())
}

/// What cannot be read is left out: it decides nothing but shares.
fn demands_from_value(value: &Value) -> Demands {
    let small = |value: &Value| number(value).and_then(|n| u32::try_from(n).ok());
    let one = |entry: &Value| {
        let owner = (small(entry.at(0))?, small(entry.at(1)));
        Some((owner, entry.at(2).as_number()?.as_f64() / 100.0))
    };
    value.as_array().unwrap_or_default().iter().filter_map(one).collect()
}

/// Who holds a lease, and of a split or merge what it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    pub(crate) node: u32,
    /// The partitions that are split or merged, by number.
    pub(crate) partitions: Vec<u32>,
    /// Their shards.
    pub(crate) parents: Vec<ShardId>,
    /// The shards that are made for what takes their place.
    pub(crate) children: Vec<ShardId>,
}

impl LeaseRecord {
    /// A lease that says nothing but who holds it.
    pub(crate) fn of(node: u32) -> Self {
        Self { node, ..Self::default() }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut value = object([("node", whole(u64::from(self.node)))]);
        let list = |numbers: &mut dyn Iterator<Item = u32>| {
            Value::array(numbers.map(|number| whole(u64::from(number))).collect())
        };
        if !self.partitions.is_empty() {
            value.set("partitions", list(&mut self.partitions.iter().copied()));
            value.set("parents", list(&mut self.parents.iter().map(|shard| shard.0)));
            value.set("children", list(&mut self.children.iter().map(|shard| shard.0)));
        }
        Value::object(value).to_json().into_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let corrupt = || corrupt("a lease");
        let value = Value::parse(bytes).map_err(|_| corrupt())?;
        let small =
            |value: &Value| number(value).and_then(|n| u32::try_from(n).ok()).ok_or_else(corrupt);
        let list = |name: &str| -> Result<Vec<u32>> {
            value.get(name).as_array().unwrap_or_default().iter().map(small).collect()
        };
        let shards = |name: &str| -> Result<Vec<ShardId>> {
            Ok(list(name)?.into_iter().map(ShardId).collect())
        };
        Ok(Self {
            node: small(value.get("node"))?,
            partitions: list("partitions")?,
            parents: shards("parents")?,
            children: shards("children")?,
        })
    }
}

/// A stored record with the commit that wrote it, which of a lease is the fencing token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Versioned<T> {
    pub(crate) version: Lsn,
    pub(crate) record: T,
}

pub(super) fn whole(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

fn number(value: &Value) -> Option<u64> {
    value.as_i64().and_then(|n| u64::try_from(n).ok())
}

fn corrupt(what: &str) -> Error {
    Error::internal(format!("the record of {what} is corrupt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let description = NodeDescription {
            host: "h".repeat(limits::NODE_TEXT_BYTES_MAX),
            version: "1.2.3".into(),
            addresses: vec!["https://h:8081".into()],
        };
        let demands = Demands::from([((1, None), 12.5), ((1, Some(7)), 400.0)]);
        let times =
            NodeRecord { started_us: 1, beat_us: 2, expires_us: 3, ..NodeRecord::default() };
        let node = NodeRecord { description, lag_s: 4, demands, ..times };
        assert_eq!(NodeRecord::from_bytes(&node.to_bytes()), Ok(node));
        let (parents, children) = (vec![ShardId(4)], vec![ShardId(7), ShardId(8)]);
        let split = LeaseRecord { node: 3, partitions: vec![0], parents, children };
        for lease in [LeaseRecord::of(9), split] {
            assert_eq!(LeaseRecord::from_bytes(&lease.to_bytes()), Ok(lease));
        }
        assert!(LeaseRecord::from_bytes(b"{}").is_err());
        assert!(NodeRecord::from_bytes(b"{\"beat\":1}").is_err());
    }
}
