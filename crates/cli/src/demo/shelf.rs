//! Where a demo is put: a server, or a data folder. What is there already is brought up to date, so
//! that the command may be given again.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::operation::ItemBody;
use orrery_engine::throughput::ThroughputRequest;
use orrery_engine::transaction::bulk_load::Existing;
use orrery_server::wire::headers;
use orrery_storage::RocksOptions;
use orrery_types::ids::Address;
use orrery_types::{Error, Object, PartitionKey, Value};

use crate::account;
use crate::data_folder::{self, STORE};
use crate::remote::{Remote, RemoteArguments};
use crate::transfer::{Bulk, Fate, Item, OnExisting, load};

/// Takes the parts of a demo.
pub(super) trait Shelf {
    fn database(&mut self, name: &str) -> Result<()>;
    fn container(&mut self, database: &str, definition: &Value) -> Result<()>;
    fn model(&mut self, database: &str, model: &Value) -> Result<()>;
    fn item(&mut self, database: &str, container: &str, item: &Value) -> Result<()>;
    /// Many items; those that exist are kept.
    fn items(&mut self, database: &str, container: &str, items: Vec<Value>) -> Result<()>;
}

fn named(name: &str) -> Value {
    let mut object = Object::new();
    object.set("id", name.into());
    Value::object(object)
}

/// A running server.
pub(super) struct Server {
    remote: Remote,
    arguments: RemoteArguments,
    /// The path of the partition key of each container.
    keys: Vec<(String, String)>,
}

const JSON: (&str, &str) = ("content-type", "application/json");
const TAKEN: u16 = 409;

impl Server {
    pub(super) fn new(arguments: &RemoteArguments) -> Result<Self> {
        let remote = arguments.connect()?;
        Ok(Self { remote, arguments: arguments.clone(), keys: Vec::new() })
    }

    /// Makes something, if it is not there.
    fn make(&mut self, path: &str, body: &Value) -> Result<()> {
        let sent = body.to_json();
        let answer = account::send(&mut self.remote, "POST", path, &[JSON], sent.as_bytes())?;
        let there = answer.status == TAKEN || answer.status < 400;
        if there { Ok(()) } else { Err(account::refusal(path, &answer)) }
    }
}

impl Shelf for Server {
    fn database(&mut self, name: &str) -> Result<()> {
        self.make("/dbs", &named(name))
    }

    fn container(&mut self, database: &str, definition: &Value) -> Result<()> {
        let path = format!("/dbs/{database}/colls");
        self.keys.push((format!("{path}/{}", id_of(definition)), key_name(definition)));
        self.make(&path, definition)
    }

    fn model(&mut self, database: &str, model: &Value) -> Result<()> {
        let path = format!("/dbs/{database}/_model");
        let sent = model.to_json();
        account::must(&mut self.remote, "PUT", &path, &[JSON], sent.as_bytes()).map(drop)
    }

    fn item(&mut self, database: &str, container: &str, item: &Value) -> Result<()> {
        let owner = format!("/dbs/{database}/colls/{container}");
        let name = self.keys.iter().find(|(known, _)| *known == owner).map(|(_, name)| &**name);
        let key = Value::array(vec![item.get(name.unwrap_or("id")).clone()]).to_json();
        let sent = [JSON, (headers::IS_UPSERT, "true"), (headers::PARTITION_KEY, &*key)];
        let path = format!("{owner}/docs");
        let body = item.to_json();
        account::must(&mut self.remote, "POST", &path, &sent, body.as_bytes()).map(drop)
    }

    fn items(&mut self, database: &str, container: &str, items: Vec<Value>) -> Result<()> {
        let path = format!("/dbs/{database}/colls/{container}");
        let target = Bulk::open(&self.arguments, &path, CONNECTIONS)?;
        let mut lanes: Vec<Vec<Item>> = vec![Vec::new(); CONNECTIONS];
        for (line, value) in (0_u64..).zip(items) {
            let lane = usize::try_from(line).unwrap_or(0) % CONNECTIONS;
            lanes[lane].push(Item { line, value });
        }
        for (_, fate) in load(&target, lanes, OnExisting::Keep)? {
            if let Fate::Refused(reason) = fate {
                bail!("the server does not take an item of {database}/{container}: {reason}");
            }
        }
        Ok(())
    }
}

/// Connections by which many items are loaded.
const CONNECTIONS: usize = 4;

fn id_of(definition: &Value) -> &str {
    definition.get("id").as_str().unwrap_or_default()
}

/// The one property that a container of a demo is partitioned by.
fn key_name(definition: &Value) -> String {
    let path = definition.get("partitionKey").get("paths").at(0).as_str().unwrap_or("/id");
    path.trim_start_matches('/').to_owned()
}

/// A data folder.
pub(super) struct Folder {
    engine: Engine,
}

const NO_THROUGHPUT: ThroughputRequest = ThroughputRequest { manual: None, autoscale: None };

impl Folder {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        orrery_files::create_folders(folder)
            .map_err(|error| data_folder::not_created(folder, &error))?;
        let store = folder.join(STORE);
        Ok(Self { engine: data_folder::open_store(&store, &RocksOptions::default())? })
    }
}

/// What is there already is fine.
fn made<T>(result: orrery_types::Result<T>) -> Result<()> {
    match result {
        Ok(_) | Err(Error::AlreadyExists) => Ok(()),
        Err(error) => Err(anyhow!("{error}")),
    }
}

fn name(text: &str) -> Address {
    Address::Name(text.to_owned())
}

impl Shelf for Folder {
    fn database(&mut self, database: &str) -> Result<()> {
        made(self.engine.databases().create(&named(database), &NO_THROUGHPUT))
    }

    fn container(&mut self, database: &str, definition: &Value) -> Result<()> {
        made(self.engine.containers().create(&name(database), definition, &NO_THROUGHPUT))
    }

    fn model(&mut self, database: &str, model: &Value) -> Result<()> {
        made(self.engine.models().store(&name(database), model, &Preconditions::default()))
    }

    fn item(&mut self, database: &str, container: &str, item: &Value) -> Result<()> {
        let container = self.engine.containers().read(&name(database), &name(container));
        let container = container.map_err(|error| anyhow!("{error}"))?;
        let (text, key) = (item.to_json(), None::<&PartitionKey>);
        let conditions = Preconditions::default();
        made(self.engine.items().upsert(&container, key, text.as_bytes(), &conditions))
    }

    fn items(&mut self, database: &str, container: &str, items: Vec<Value>) -> Result<()> {
        let container = self.engine.containers().read(&name(database), &name(container));
        let container = container.map_err(|error| anyhow!("{error}"))?;
        let body = |item| ItemBody::check(&container, item).map_err(|error| anyhow!("{error}"));
        let bodies = items.into_iter().map(body).collect::<Result<Vec<_>>>()?;
        let loaded = self.engine.transactions().load_items(&container, bodies, Existing::Keep);
        let loaded = loaded.map_err(|error| anyhow!("the data cannot be written: {error}"))?;
        loaded.into_iter().try_for_each(made)
    }
}
