//! The store without a server: as many threads as there would be clients, each committing what the
//! engine commits for a create. It is what a durable create through the server is held against.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use hdrhistogram::Histogram;
use orrery_index::maintain::{TermImage, maintain};
use orrery_index::{Dictionary, DictionaryShard, IndexRules, IndexedItem, IndexingPolicy};
use orrery_storage::key::{self, Row};
use orrery_storage::record::{self, Header};
use orrery_storage::{
    Commit, Part, Precondition, Put, RocksOptions, RocksStore, Space, Store as _,
};
use orrery_types::{
    Epoch, Etag, KeyComponent, PartitionKey, PartitionKeyDef, PartitionKeyKind, ShardId, Value,
};

use crate::load::CLIENT_NUMBERS;
use crate::message;
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;

pub(crate) const SHARD: ShardId = ShardId(1);
pub(crate) const EPOCH: Epoch = Epoch(1);
/// The system properties, about as long as the engine writes them.
const SYSTEM: &str = ",\"_rid\":\"AbCdEfGhIjKlMnOpAAAAAA==\",\
    \"_self\":\"dbs/AbCdEf==/colls/AbCdEfGhIjI=/docs/AbCdEfGhIjKlMnOpAAAAAA==/\",\
    \"_etag\":\"\\\"00000000-0000-0000-0000-000000000000\\\"\",\
    \"_attachments\":\"attachments/\",\"_ts\":1700000000}";

/// A store in a folder of its own.
pub(crate) struct Raw {
    store: RocksStore,
    definition: PartitionKeyDef,
    rules: IndexRules,
    dictionary: Dictionary,
}

impl Raw {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let store = RocksStore::open(folder, &RocksOptions::default())?;
        store.create_open_shard(SHARD, EPOCH).map_err(|error| anyhow!("no shard: {error}"))?;
        let kind = PartitionKeyKind::Hash;
        // The paths say where in an item the values are; here the values are known.
        let definition = PartitionKeyDef { paths: vec![], kind, version: 2, system_key: false };
        let rules = IndexRules::new(&IndexingPolicy::default(), &[]);
        let dictionary = Dictionary::default();
        Ok(Self { store, definition, rules, dictionary })
    }

    /// Commits creates from so many threads for so long.
    pub(crate) fn run(&self, writers: u64, from: u64, time: Duration) -> Result<Sample> {
        let watch = Stopwatch::start();
        let mut latencies_ns = Sample::histogram();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..writers)
                .map(|writer| from + writer * CLIENT_NUMBERS)
                .map(|from| scope.spawn(move || self.write(from, watch, time)))
                .collect();
            for thread in threads {
                let written = thread.join().map_err(|_| anyhow!("a writer panicked"))?;
                latencies_ns.add(written?)?;
            }
            anyhow::Ok(())
        })?;
        Ok(Sample { latencies_ns, took: watch.elapsed(), processor: None })
    }

    fn write(&self, from: u64, watch: Stopwatch, time: Duration) -> Result<Histogram<u64>> {
        let mut latencies_ns = Sample::histogram();
        for number in from.. {
            if watch.elapsed() >= time {
                break;
            }
            let commit = self.create(number)?;
            let call = Stopwatch::start();
            self.store.commit(commit).map_err(|e| anyhow!("{e}")).context("a commit failed")?;
            latencies_ns.record(call.nanoseconds())?;
        }
        Ok(latencies_ns)
    }

    /// The record, its row, its index terms and its feed entry, guarded by the item's absence. Making
    /// it is the engine's work and no part of the time; committing it is.
    pub(crate) fn create(&self, number: u64) -> Result<Commit> {
        let partition = PartitionKey(vec![KeyComponent::String(message::partition(number).into())]);
        let effective = self.definition.effective(&partition);
        let item = key::item(&effective, &partition, &message::id(number));
        let row = Row(number);
        let header = Header {
            etag: Etag { node: 1, stamp: number },
            ts_s: 1_700_000_000,
            row,
            feed_seq: 0,
            ttl_s: None,
        };
        let mut text = message::body(number);
        let value = Value::parse(text.as_bytes())?;
        let own = value.as_object().context("an item is an object")?;
        let system = vec![("_ts", Value::from(1_700_000_000))];
        let indexed = IndexedItem::new(own, &[], system);
        let home = DictionaryShard { store: &self.store, shard: SHARD, epoch: EPOCH };
        let terms = match self.dictionary.known_terms(&self.rules, &indexed) {
            Some(terms) => terms,
            None => {
                self.dictionary.terms(home, &self.rules, &indexed).map_err(|e| anyhow!("{e}"))?
            }
        };
        text.pop();
        text += SYSTEM;
        let mut part = Part::new(SHARD, EPOCH);
        let space = Space::Items;
        part.preconditions.push(Precondition::unchanged(space, item.clone(), None));
        let value = record::encode(&header, text.as_bytes());
        part.puts.push(Put { space, key: item.clone(), value });
        part.puts.push(Put { space, key: key::row(row).to_vec(), value: item.clone() });
        part.feed.push(item);
        maintain(None, Some(TermImage { terms: &terms, row }), self.rules.all(), &mut part);
        Ok(Commit::new(vec![part]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_commit_creates_that_do_not_collide() {
        let folder = tempfile::tempdir().unwrap();
        let raw = Raw::open(&folder.path().join("store")).unwrap();
        let sample = raw.run(4, 0, Duration::from_millis(50)).unwrap();
        assert!(!sample.latencies_ns.is_empty());
        let key = match &raw.create(0).unwrap().parts[0].preconditions[0] {
            Precondition::Absent { key, .. } => key.clone(),
            Precondition::Version { .. } | Precondition::StripeUnchanged { .. } => {
                panic!("a create is guarded by a key")
            }
        };
        let (_, value) = raw.store.get(SHARD, Space::Items, &key).unwrap();
        let value = value.expect("the first writer's first item");
        record::decode(&value.bytes).expect("a record as the engine writes it");
    }
}
