//! What every test needs: a client for the server named by the environment, and a database of its own.
//!
//! `cargo xtask conformance rust` sets `ORRERY_ENDPOINT` and `ORRERY_KEY`.

use azure_core::credentials::Secret;
use azure_data_cosmos::models::{ContainerProperties, PartitionKeyDefinition};
use azure_data_cosmos::{
    AccountEndpoint, AccountReference, ContainerClient, CosmosClient, DatabaseClient, Result,
    RoutingStrategy,
};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::Runtime;

/// Runs a test on the one runtime of the process. The SDK shares its connections between clients, so
/// a runtime for each test would take down connections that other tests still use.
pub fn block_on(test: impl Future<Output = Result<()>>) -> Result<()> {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Runtime::new().expect("threads for a runtime"));
    RUNTIME.block_on(test)
}

/// A new client of the server under test.
pub async fn client() -> Result<CosmosClient> {
    let endpoint: AccountEndpoint = variable("ORRERY_ENDPOINT").parse()?;
    let key = Secret::from(variable("ORRERY_KEY"));
    let account = AccountReference::with_authentication_key(endpoint, key);
    let routing = RoutingStrategy::ProximityTo("South Central US".into());
    CosmosClient::builder().build(account, routing).await
}

/// A new database with a name that no other test uses.
pub async fn database(client: &CosmosClient) -> Result<DatabaseClient> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let id = format!("rust-{}-{number}", std::process::id());
    client.create_database(&id, None).await?;
    Ok(client.database_client(id))
}

/// A new container in the database.
pub async fn container(
    database: &DatabaseClient,
    id: &'static str,
    partition_key: impl Into<PartitionKeyDefinition>,
) -> Result<ContainerClient> {
    let properties = ContainerProperties::new(id, partition_key.into());
    database.create_container(properties, None).await?;
    database.container_client(id, None).await
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; run `cargo xtask conformance rust`"))
}
