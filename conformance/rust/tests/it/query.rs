//! Queries in one partition and over all, and resuming from a continuation token.

use crate::{Order, order};
use azure_data_cosmos::options::{MaxItemCountHint, QueryOptions};
use azure_data_cosmos::{ContainerClient, DatabaseClient, FeedScope, Query, Result};
use futures::TryStreamExt;
use orrery_conformance_rust::{block_on, client, container, database};
use std::num::NonZeroU32;

async fn ten_orders() -> Result<(DatabaseClient, ContainerClient)> {
    let database = database(&client().await?).await?;
    let orders = container(&database, "orders", "/customer").await?;
    for number in 0..10 {
        let customer = if number % 2 == 0 { "even" } else { "odd" };
        let item = order(&number.to_string(), customer, f64::from(number));
        orders.create_item(customer, &item.id, &item, None).await?;
    }
    Ok((database, orders))
}

fn ids(orders: &[Order]) -> Vec<&str> {
    orders.iter().map(|order| order.id.as_str()).collect()
}

#[test]
fn a_query_in_one_partition_takes_parameters() -> Result<()> {
    block_on(async {
        let (database, orders) = ten_orders().await?;
        let query = Query::from("SELECT * FROM c WHERE c.total > @min ORDER BY c.total")
            .with_parameter("@min", 3)?;
        let scope = FeedScope::partition("odd");
        let found: Vec<Order> = orders.query_items(query, scope, None).await?.try_collect().await?;
        assert_eq!(ids(&found), ["5", "7", "9"]);
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn a_query_over_all_partitions_is_ordered() -> Result<()> {
    block_on(async {
        let (database, orders) = ten_orders().await?;
        let query = Query::from("SELECT TOP 4 * FROM c ORDER BY c.total DESC");
        let scope = FeedScope::full_container();
        let found: Vec<Order> = orders.query_items(query, scope, None).await?.try_collect().await?;
        assert_eq!(ids(&found), ["9", "8", "7", "6"]);
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn a_query_goes_on_from_its_continuation_token() -> Result<()> {
    block_on(async {
        let (database, orders) = ten_orders().await?;
        let text = "SELECT * FROM c";
        let three = MaxItemCountHint::Limit(NonZeroU32::new(3).expect("three is not zero"));
        let options = || QueryOptions::default().with_max_item_count(three);
        let mut pages = orders
            .query_items::<Order>(Query::from(text), FeedScope::full_container(), Some(options()))
            .await?
            .into_pages();
        let first = pages.try_next().await?.expect("there are ten items").into_items();
        let token = pages.to_continuation_token()?;
        drop(pages);

        let options = options().with_continuation_token(token);
        let rest = orders
            .query_items::<Order>(Query::from(text), FeedScope::full_container(), Some(options))
            .await?;
        let rest: Vec<Order> = rest.try_collect().await?;
        let mut all = [ids(&first), ids(&rest)].concat();
        all.sort_unstable();
        assert_eq!(all, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        database.delete(None).await?;
        Ok(())
    })
}
