//! Items: the point operations, preconditions, and keys of every shape.

use crate::{Order, order};
use azure_data_cosmos::models::ItemResponse;
use azure_data_cosmos::options::{ItemWriteOptions, Precondition};
use azure_data_cosmos::{PartitionKey, Result};
use orrery_conformance_rust::{block_on, client, container, database};
use serde_json::{Value, json};

#[test]
fn an_item_is_created_read_replaced_and_deleted() -> Result<()> {
    block_on(async {
        let database = database(&client().await?).await?;
        let orders = container(&database, "orders", "/customer").await?;

        let first = order("1", "contoso", 42.5);
        orders.create_item("contoso", "1", &first, None).await?;
        assert_eq!(orders.read_item("contoso", "1", None).await?.into_model::<Order>()?, first);

        let again = orders.create_item("contoso", "1", &first, None).await.expect_err("exists");
        assert!(again.status().is_conflict(), "{again}");

        let second = order("1", "contoso", 99.0);
        orders.replace_item("contoso", "1", &second, None).await?;
        assert_eq!(orders.read_item("contoso", "1", None).await?.into_model::<Order>()?, second);

        orders.delete_item("contoso", "1", None).await?;
        let gone = orders.read_item("contoso", "1", None).await.expect_err("was deleted");
        assert!(gone.status().is_not_found(), "{gone}");
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn an_upsert_creates_and_then_replaces() -> Result<()> {
    block_on(async {
        let database = database(&client().await?).await?;
        let orders = container(&database, "orders", "/customer").await?;
        for total in [1.0, 2.0] {
            let item = order("1", "contoso", total);
            orders.upsert_item("contoso", "1", &item, None).await?;
            assert_eq!(orders.read_item("contoso", "1", None).await?.into_model::<Order>()?, item);
        }
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn a_replace_with_an_old_etag_is_refused() -> Result<()> {
    block_on(async {
        let database = database(&client().await?).await?;
        let orders = container(&database, "orders", "/customer").await?;
        orders.create_item("contoso", "1", &order("1", "contoso", 1.0), None).await?;
        let etag = |response: ItemResponse| response.headers().etag().expect("an etag").clone();
        let old = etag(orders.read_item("contoso", "1", None).await?);

        let guarded = |etag| {
            Some(ItemWriteOptions::default().with_precondition(Precondition::if_match(etag)))
        };
        let second = order("1", "contoso", 2.0);
        orders.replace_item("contoso", "1", &second, guarded(old.clone())).await?;
        let third = order("1", "contoso", 3.0);
        let refused = orders.replace_item("contoso", "1", &third, guarded(old.clone())).await;
        let refused = refused.expect_err("the etag is old");
        assert!(refused.status().is_precondition_failed(), "{refused}");
        let refused = orders.delete_item("contoso", "1", guarded(old)).await;
        let refused = refused.expect_err("the etag is old");
        assert!(refused.status().is_precondition_failed(), "{refused}");

        let read = orders.read_item("contoso", "1", None).await?;
        assert_eq!(read.into_model::<Order>()?, second);
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn partition_keys_of_every_type_reach_their_item() -> Result<()> {
    block_on(async {
        let database = database(&client().await?).await?;
        let things = container(&database, "things", "/k").await?;
        let keys: [(PartitionKey, Value); 5] = [
            (PartitionKey::from("text"), json!("text")),
            (PartitionKey::from(7), json!(7)),
            (PartitionKey::try_from(-0.5)?, json!(-0.5)),
            (PartitionKey::from(true), json!(true)),
            (PartitionKey::from("ä €"), json!("ä €")),
        ];
        for (key, value) in keys {
            let item = json!({"id": "same id", "k": value, "n": [1, {"x": null}]});
            things.create_item(key.clone(), "same id", &item, None).await?;
            let read: Value = things.read_item(key, "same id", None).await?.into_model()?;
            assert_eq!(read["k"], value);
            assert_eq!(read["n"], item["n"]);
        }
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn a_hierarchical_key_needs_all_its_levels() -> Result<()> {
    block_on(async {
        let database = database(&client().await?).await?;
        let visits = container(&database, "visits", ("/tenant", "/user")).await?;
        let item = json!({"id": "1", "tenant": "t", "user": "u"});
        visits.create_item(("t", "u"), "1", &item, None).await?;
        let read: Value = visits.read_item(("t", "u"), "1", None).await?.into_model()?;
        assert_eq!(read["user"], "u");
        let other = visits.read_item(("t", "v"), "1", None).await.expect_err("another key");
        assert!(other.status().is_not_found(), "{other}");
        database.delete(None).await?;
        Ok(())
    })
}
