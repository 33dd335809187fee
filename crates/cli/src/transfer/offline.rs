//! Into a data folder that no server has open: the engine itself, in large commits. The fastest way
//! in; what a server would check is checked here too.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use orrery_engine::item::operation::ItemBody;
use orrery_engine::throughput::ThroughputRequest;
use orrery_engine::transaction::bulk_load::{Existing, Loaded};
use orrery_engine::{Container, Engine};
use orrery_storage::RocksOptions;
use orrery_types::ids::Address;
use orrery_types::{Error, Value};

use super::ContainerArguments;
use super::target::{Fate, Item, OnExisting, TransferTarget};
use crate::data_folder::{self, STORE};

/// The store serves no reads meanwhile, so it may buffer more before it writes a file.
const WRITE_BUFFER_BYTES: usize = 256 * 1024 * 1024;
const LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// More lanes than this only wait for the one thread that commits.
const LANES_MAX: usize = 4;

/// A container in a data folder.
pub(crate) struct Offline {
    engine: Engine,
    container: Arc<Container>,
    lanes: usize,
}

impl Offline {
    /// Opens the folder. `definition` is that of the container, for when there is none.
    pub(crate) fn open(
        folder: &Path,
        at: &ContainerArguments,
        definition: Option<&Value>,
    ) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = RocksOptions {
            write_buffer_bytes: WRITE_BUFFER_BYTES,
            log_bytes_max: LOG_BYTES_MAX,
            background_jobs: i32::try_from(threads).unwrap_or(2).max(2),
            ..RocksOptions::default()
        };
        orrery_files::create_folders(folder)
            .map_err(|error| data_folder::not_created(folder, &error))?;
        let engine = data_folder::open_store(&folder.join(STORE), &options)?;
        let container = container(&engine, at, definition)?;
        // Items of a model may refer to earlier ones, so all of them go one way.
        let lanes =
            if engine.models().is_modelled(&container) { 1 } else { threads.min(LANES_MAX) };
        Ok(Self { engine, container, lanes })
    }

    /// Which container it is: one that was deleted and recreated under the same names is another.
    pub(crate) fn identity(&self) -> Result<String> {
        let database = self.engine.databases().read(&Address::Rid(self.container.database_rid()));
        let database = database.map_err(|error| anyhow!("{error}"))?.to_resource();
        Ok(super::identity(&database.body, &self.container.to_resource().body))
    }
}

/// Finds the container, or makes it if it is known how.
fn container(
    engine: &Engine,
    at: &ContainerArguments,
    definition: Option<&Value>,
) -> Result<Arc<Container>> {
    let (database, name) =
        (Address::Name(at.database.clone()), Address::Name(at.container.clone()));
    if let Ok(found) = engine.containers().read(&database, &name) {
        return Ok(found);
    }
    let definition = definition.with_context(|| {
        format!(
            "there is no container {}/{}; --create /PATH makes one that is partitioned by a path",
            at.database, at.container
        )
    })?;
    let throughput = ThroughputRequest { manual: None, autoscale: None };
    if engine.databases().read(&database).is_err() {
        let mut body = orrery_types::Object::new();
        body.set("id", at.database.as_str().into());
        let made = engine.databases().create(&Value::object(body), &throughput);
        made.map_err(|error| anyhow!("cannot make the database: {error}"))?;
    }
    let made = engine.containers().create(&database, definition, &throughput);
    made.map_err(|error| anyhow!("cannot make the container: {error}"))?;
    engine.containers().read(&database, &name).map_err(|error| anyhow!("{error}"))
}

impl TransferTarget for Offline {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn load(&self, _: usize, items: Vec<Item>, existing: OnExisting) -> Result<Vec<Fate>> {
        let existing = match existing {
            OnExisting::Keep => Existing::Keep,
            OnExisting::Replace => Existing::Replace,
            OnExisting::Refuse => Existing::Refuse,
        };
        let mut fates = vec![Fate::Kept; items.len()];
        let (mut bodies, mut places) = (Vec::with_capacity(items.len()), Vec::new());
        for (at, item) in items.into_iter().enumerate() {
            match ItemBody::check(&self.container, item.value) {
                Ok(body) => {
                    bodies.push(body);
                    places.push(at);
                }
                Err(error) => fates[at] = refused(&error),
            }
        }
        let loaded = self.engine.transactions().load_items(&self.container, bodies, existing);
        let loaded = loaded.map_err(|error| anyhow!("the data cannot be written: {error}"))?;
        for (at, loaded) in places.into_iter().zip(loaded) {
            fates[at] = match loaded {
                Ok(Loaded::Created) => Fate::Created,
                Ok(Loaded::Replaced) => Fate::Replaced,
                Ok(Loaded::Kept) => Fate::Kept,
                Err(error) => refused(&error),
            };
        }
        Ok(fates)
    }
}

fn refused(error: &Error) -> Fate {
    Fate::Refused(error.to_string().trim_end_matches('.').to_owned())
}
