//! Transactional batches: all operations, or none.

use crate::{Order, order};
use azure_data_cosmos::{Result, TransactionalBatch};
use orrery_conformance_rust::{client, container, database};

#[tokio::test]
async fn a_batch_applies_all_its_operations() -> Result<()> {
    let database = database(&client().await?).await?;
    let orders = container(&database, "orders", "/customer").await?;
    let batch = TransactionalBatch::new("contoso")
        .create_item(order("1", "contoso", 1.0))?
        .upsert_item(order("2", "contoso", 2.0), None)?
        .read_item("1", None)
        .replace_item("1", order("1", "contoso", 3.0), None)?
        .delete_item("2", None);
    let outcome = orders.execute_transactional_batch(batch, None).await?.into_model()?;
    let statuses = outcome.results().iter().map(|result| result.status_code());
    assert_eq!(statuses.collect::<Vec<_>>(), [201, 201, 200, 200, 204]);
    let read: Order = orders.read_item("contoso", "1", None).await?.into_model()?;
    assert_eq!(read, order("1", "contoso", 3.0));
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn a_batch_with_one_failure_applies_nothing() -> Result<()> {
    let database = database(&client().await?).await?;
    let orders = container(&database, "orders", "/customer").await?;
    orders.create_item("contoso", "2", &order("2", "contoso", 2.0), None).await?;
    let batch = TransactionalBatch::new("contoso")
        .create_item(order("1", "contoso", 1.0))?
        .create_item(order("2", "contoso", 0.0))?;
    let outcome = orders.execute_transactional_batch(batch, None).await?.into_model()?;
    let statuses = outcome.results().iter().map(|result| result.status_code());
    assert_eq!(statuses.collect::<Vec<_>>(), [424, 409]);
    let absent = orders.read_item("contoso", "1", None).await.expect_err("rolled back");
    assert!(absent.status().is_not_found(), "{absent}");
    database.delete(None).await?;
    Ok(())
}
