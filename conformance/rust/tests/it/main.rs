//! End-to-end tests through the official Rust SDK, one module per resource. Each test has a
//! database of its own and deletes it at the end.

mod batch;
mod change_feed;
mod database;
mod item;
mod query;
mod transaction;

use serde::{Deserialize, Serialize};

/// The item that most tests store, partitioned by `customer`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Order {
    id: String,
    customer: String,
    total: f64,
}

fn order(id: &str, customer: &str, total: f64) -> Order {
    Order { id: id.to_owned(), customer: customer.to_owned(), total }
}
