//! The change feed in both modes, and going on from a continuation token.

use crate::{Order, order};
use azure_data_cosmos::feed::ContinuationToken;
use azure_data_cosmos::models::{ChangeFeedOperationType, ChangeFeedPolicy, ContainerProperties};
use azure_data_cosmos::options::{ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom};
use azure_data_cosmos::{ContainerClient, FeedScope, Result};
use futures::StreamExt;
use orrery_conformance_rust::{block_on, client, container, database};
use std::time::Duration;

/// What one change says: operation, and the item it leaves or removes.
type Change = (Option<ChangeFeedOperationType>, Option<Order>, Option<Order>);

/// Reads until there is nothing new; gives what came and where to go on.
async fn read(
    orders: &ContainerClient,
    start: ChangeFeedStartFrom,
    options: ChangeFeedOptions,
) -> Result<(Vec<Change>, ContinuationToken)> {
    let scope = FeedScope::full_container();
    let mut pages = orders.query_change_feed::<Order>(scope, start, Some(options)).await?;
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page?;
        if page.items().is_empty() {
            break;
        }
        for item in page.items() {
            let (current, previous) = (item.current().cloned(), item.previous().cloned());
            found.push((item.operation_type(), current, previous));
        }
    }
    Ok((found, pages.to_continuation_token()?))
}

fn left(changes: &[Change]) -> Vec<(&str, f64)> {
    let orders = changes.iter().filter_map(|(_, current, _)| current.as_ref());
    orders.map(|order| (order.id.as_str(), order.total)).collect()
}

#[test]
fn latest_versions_come_once_and_then_what_is_new() -> Result<()> {
    block_on(async {
        let database = database(&client().await?).await?;
        let orders = container(&database, "orders", "/customer").await?;
        for id in ["1", "2"] {
            orders.create_item("a", id, &order(id, "a", 1.0), None).await?;
        }
        orders.replace_item("a", "1", &order("1", "a", 2.0), None).await?;
        let options = ChangeFeedOptions::default;
        let (all, token) = read(&orders, ChangeFeedStartFrom::Beginning, options()).await?;
        assert_eq!(left(&all), [("2", 1.0), ("1", 2.0)]);
        orders.create_item("b", "3", &order("3", "b", 1.0), None).await?;
        let options = options().with_continuation_token(token);
        let (new, _) = read(&orders, ChangeFeedStartFrom::Beginning, options).await?;
        assert_eq!(left(&new), [("3", 1.0)]);
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn all_versions_tell_creates_replaces_and_deletes() -> Result<()> {
    block_on(async {
        let database = database(&client().await?).await?;
        let policy = ChangeFeedPolicy::default().with_retention_duration(Duration::from_secs(600));
        let properties =
            ContainerProperties::new("orders", "/customer".into()).with_change_feed_policy(policy);
        database.create_container(properties, None).await?;
        let orders = database.container_client("orders", None).await?;
        let options =
            || ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes);
        let (none, token) = read(&orders, ChangeFeedStartFrom::Now, options()).await?;
        assert!(none.is_empty());
        orders.create_item("a", "1", &order("1", "a", 1.0), None).await?;
        orders.replace_item("a", "1", &order("1", "a", 2.0), None).await?;
        orders.delete_item("a", "1", None).await?;
        let options = options().with_continuation_token(token);
        let (all, _) = read(&orders, ChangeFeedStartFrom::Now, options).await?;
        let expected = [
            (Some(ChangeFeedOperationType::Create), Some(order("1", "a", 1.0)), None),
            (Some(ChangeFeedOperationType::Replace), Some(order("1", "a", 2.0)), None),
            (Some(ChangeFeedOperationType::Delete), None, Some(order("1", "a", 2.0))),
        ];
        assert_eq!(all, expected);
        database.delete(None).await?;
        Ok(())
    })
}
