//! Whether everything that the model promises holds: copies, inverses and aggregates are computed
//! anew and compared, references are looked for where they must stand, and nowhere else.

use std::collections::BTreeSet;

use orrery_storage::{ReadAt, Scan, Space, key};
use orrery_types::ids::Address;
use orrery_types::{Error, Result, limits};

use super::ModelScope;
use super::govern::plain;
use super::spot::Spot;
use crate::change::stored_value;
use crate::draft::{Draft, View};
use crate::feed::ItemCursor;
use crate::items::Located;
use crate::scope::ScopeRequest;
use crate::storage_error::storage;
use crate::{Container, Engine};

impl Engine {
    /// Everything that is not as the model promises, a sentence each; nothing, if all is well. It is
    /// meant for a database that nobody writes to, and takes time in proportion to the data.
    pub fn verify_model(&self, database: &Address) -> Result<Vec<String>> {
        let database = self.catalog.database(database).map_err(|_| Error::OwnerNotFound)?;
        let model = database.model.as_deref().ok_or(Error::NotFound)?;
        let scope = ModelScope { database: &database, model };
        let (mut drift, mut expected) = (Vec::new(), BTreeSet::new());
        for container in database.containers().filter(|c| model.rules.concerns(&c.id)) {
            self.verify_items(scope, container, &mut drift, &mut expected)?;
        }
        for container in database.containers() {
            self.verify_references(container, &mut drift, &mut expected)?;
        }
        drift.extend(expected.iter().map(|(shard, key)| {
            format!("shard {shard}: the reference {} is missing", key.escape_ascii())
        }));
        Ok(drift)
    }

    fn verify_items<'e>(
        &'e self,
        scope: ModelScope<'e>,
        container: &'e Container,
        drift: &mut Vec<String>,
        expected: &mut BTreeSet<(u32, Vec<u8>)>,
    ) -> Result<()> {
        let everything = container.scope(&ScopeRequest::default())?;
        let mut cursor = ItemCursor::new(self, container, &everything, None)?;
        while let Some(item) = cursor.next()? {
            let value = stored_value(&item.body)?;
            let place = key::parse_item(&item.key).ok_or_else(|| Error::internal("no item key"))?;
            let partition = container.partition_of(&place.effective)?;
            let mut draft = Draft::new(self, container, partition, View::Now);
            draft.model.scope = Some(scope);
            let partition_key = container.definition.partition_key.extract(&value);
            let spot = Spot { container, at: Located { partition, partition_key, key: item.key } };
            let truth = draft.kept_anew(&spot, &value)?;
            if truth != value {
                drift.push(format!(
                    "'{}' in '{}' is {} and should be {}",
                    spot.id(),
                    container.id,
                    plain(&value).to_json(),
                    plain(&truth).to_json()
                ));
            }
            for (rule, number) in scope.model.rules.relations.iter().zip(&scope.model.numbers) {
                for target in draft.target_spots(scope, rule, container, Some(&value))? {
                    let entry = key::reference(*number, &target.at.key, &spot.at.key);
                    expected.insert((target.at.partition.shard.0, entry));
                }
            }
        }
        Ok(())
    }

    fn verify_references(
        &self,
        container: &Container,
        drift: &mut Vec<String>,
        expected: &mut BTreeSet<(u32, Vec<u8>)>,
    ) -> Result<()> {
        for partition in &container.partitions {
            let snapshot = self.store.snapshot(partition.shard, ReadAt::Latest).map_err(storage)?;
            let mut bounds = key::all_references();
            loop {
                let scan = Scan {
                    space: Space::Index,
                    from: &bounds.from,
                    to: &bounds.to,
                    reverse: false,
                    max_rows: limits::PAGE_ITEMS_MAX,
                    max_bytes: usize::MAX,
                    keys_only: true,
                };
                let entries = snapshot.scan(&scan).map_err(storage)?;
                let Some(last) = entries.last() else { break };
                bounds = bounds.after(&last.key);
                for entry in entries {
                    if !expected.remove(&(partition.shard.0, entry.key.clone())) {
                        drift.push(format!(
                            "shard {}: the reference {} belongs to no item",
                            partition.shard.0,
                            entry.key.escape_ascii()
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
