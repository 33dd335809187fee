//! Databases and containers: create, read, list, replace, delete.

use azure_data_cosmos::Result;
use azure_data_cosmos::models::{ContainerProperties, TimeToLive};
use futures::TryStreamExt;
use orrery_conformance_rust::{block_on, client, container, database};

#[test]
fn a_database_is_created_read_and_deleted() -> Result<()> {
    block_on(async {
        let client = client().await?;
        let database = database(&client).await?;
        let name = database.name().expect("made by name").to_owned();
        assert_eq!(database.read(None).await?.into_model()?.id.as_deref(), Some(name.as_str()));

        let again = client.create_database(&name, None).await.expect_err("exists already");
        assert!(again.status().is_conflict(), "{again}");

        database.delete(None).await?;
        let gone = database.read(None).await.expect_err("was deleted");
        assert!(gone.status().is_not_found(), "{gone}");
        Ok(())
    })
}

#[test]
fn databases_are_found_by_a_query() -> Result<()> {
    block_on(async {
        let client = client().await?;
        let database = database(&client).await?;
        let name = database.name().expect("made by name").to_owned();
        let query = azure_data_cosmos::Query::from("SELECT * FROM root r WHERE r.id = @id")
            .with_parameter("@id", &name)?;
        let found: Vec<_> = client.query_databases(query, None).await?.try_collect().await?;
        let found: Vec<_> = found.iter().map(|found| found.id.as_deref()).collect();
        assert_eq!(found, [Some(name.as_str())]);
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn a_container_keeps_its_properties_through_a_replace() -> Result<()> {
    block_on(async {
        let client = client().await?;
        let database = database(&client).await?;
        let orders = container(&database, "orders", "/customer").await?;

        let properties: ContainerProperties = orders.read(None).await?.into_model()?;
        assert_eq!(properties.id, "orders");
        assert_eq!(properties.partition_key.paths(), ["/customer"]);
        assert_eq!(properties.default_ttl, TimeToLive::Forever);

        let changed = properties.with_default_ttl(60);
        orders.replace(changed, None).await?;
        let properties: ContainerProperties = orders.read(None).await?.into_model()?;
        assert_eq!(properties.default_ttl, TimeToLive::Seconds(60));

        orders.delete(None).await?;
        let gone = orders.read(None).await.expect_err("was deleted");
        assert!(gone.status().is_not_found(), "{gone}");
        database.delete(None).await?;
        Ok(())
    })
}
