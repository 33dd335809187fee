//! First steps: connect, make a container, store and read items, query, write a batch, follow changes.
//!
//!     cd examples/rust && cargo run

use azure_core::credentials::Secret;
use azure_data_cosmos::feed::ContinuationToken;
use azure_data_cosmos::models::ContainerProperties;
use azure_data_cosmos::options::{ChangeFeedOptions, ChangeFeedStartFrom};
use azure_data_cosmos::{
    AccountEndpoint, AccountReference, ContainerClient, CosmosClient, FeedScope, Query, Result,
    RoutingStrategy, TransactionalBatch,
};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

/// The key that every emulator is known by; a server that listens on this machine only takes it.
const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

const DATABASE: &str = "first-steps";

/// A planet or a moon.
#[derive(Clone, Deserialize, Serialize)]
struct Body {
    id: String,
    star: String,
    kind: String,
    name: String,
    #[serde(default)]
    au: f64,
    #[serde(default)]
    moons: u32,
    #[serde(default)]
    planet: Option<String>,
}

fn planet(name: &str, au: f64, moons: u32) -> Body {
    Body {
        id: name.to_lowercase(),
        star: "Sun".into(),
        kind: "planet".into(),
        name: name.into(),
        au,
        moons,
        planet: None,
    }
}

fn moon(name: &str, of: &str) -> Body {
    Body { kind: "moon".into(), planet: Some(of.into()), ..planet(name, 0.0, 0) }
}

/// What the query answers.
#[derive(Deserialize)]
struct Row {
    name: String,
    au: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    // What was known before 1610, with the distance from the Sun in astronomical units.
    let planets = [
        planet("Mercury", 0.39, 0),
        planet("Venus", 0.72, 0),
        planet("Earth", 1.0, 1),
        planet("Mars", 1.52, 0),
        planet("Jupiter", 5.2, 0),
        planet("Saturn", 9.58, 0),
    ];
    let bodies = new_container().await?;

    // Items are JSON; `id` is the only property they must have.
    for body in &planets {
        bodies.create_item("Sun", &body.id, body, None).await?;
    }
    println!("stored: {}", planets.each_ref().map(|body| body.name.as_str()).join(", "));

    // The fastest way to an item is its id together with its partition key.
    let earth: Body = bodies.read_item("Sun", "earth", None).await?.into_model()?;
    println!("read: {} has {} moon", earth.name, earth.moons);

    // A query, with a parameter instead of pasted text.
    let text = "SELECT b.name, b.au FROM b WHERE b.kind = 'planet' AND b.au > @au ORDER BY b.au";
    let query = Query::from(text).with_parameter("@au", earth.au)?;
    let rows = bodies.query_items::<Row>(query, FeedScope::partition("Sun"), None).await?;
    let beyond: Vec<Row> = rows.try_collect().await?;
    let beyond: Vec<_> = beyond.iter().map(|row| format!("{} {:.2}", row.name, row.au)).collect();
    println!("beyond Earth: {}", beyond.join(", "));

    // The change feed tells every change since the beginning, and where to go on.
    let (first, position) = changes(&bodies, ChangeFeedOptions::default()).await?;
    println!("change feed: {} changes", first.len());

    // Galileo looks at Jupiter: four moons and their count are written together, or not at all.
    let mut batch = TransactionalBatch::new("Sun");
    for name in ["Io", "Europa", "Ganymede", "Callisto"] {
        batch = batch.create_item(moon(name, "jupiter"))?;
    }
    batch = batch.replace_item("jupiter", planet("Jupiter", 5.2, 4), None)?;
    bodies.execute_transactional_batch(batch, None).await?;
    let jupiter: Body = bodies.read_item("Sun", "jupiter", None).await?.into_model()?;
    println!("batch: {} has {} moons", jupiter.name, jupiter.moons);

    // Io is there already: the whole batch is refused, and nothing of it remains.
    let batch = TransactionalBatch::new("Sun")
        .create_item(planet("Vulcan", 0.14, 0))?
        .create_item(moon("Io", "jupiter"))?;
    let refused = bodies.execute_transactional_batch(batch, None).await?.into_model()?;
    let statuses = refused.results().iter().map(|result| result.status_code());
    for status in statuses.filter(|status| *status != 424) {
        let vulcan = bodies.read_item("Sun", "vulcan", None).await;
        let is_missing = vulcan.is_err_and(|error| error.status().is_not_found());
        println!("batch refused with {status}: there is {} Vulcan", if is_missing { "no" } else { "a" });
    }

    // What has changed since.
    let options = ChangeFeedOptions::default().with_continuation_token(position);
    let (mut since, _) = changes(&bodies, options).await?;
    since.sort();
    println!("change feed: {}", since.join(", "));
    Ok(())
}

/// Connects, removes what an earlier run has left, and makes a container.
async fn new_container() -> Result<ContainerClient> {
    let setting = |name, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.into());
    let endpoint: AccountEndpoint = setting("ORRERY_ENDPOINT", "http://localhost:8081/").parse()?;
    let key = Secret::from(setting("ORRERY_KEY", EMULATOR_KEY));
    let account = AccountReference::with_authentication_key(endpoint, key);
    let routing = RoutingStrategy::ProximityTo("South Central US".into());
    let client = CosmosClient::builder().build(account, routing).await?;
    let database = client.database_client(DATABASE);
    match database.delete(None).await {
        Err(error) if !error.status().is_not_found() => return Err(error),
        _ => {}
    }
    client.create_database(DATABASE, None).await?;
    // A container needs a partition key: items that share its value can change in one transaction.
    database.create_container(ContainerProperties::new("bodies", "/star".into()), None).await?;
    database.container_client("bodies", None).await
}

/// Reads the feed until there is nothing new; gives names and where to go on.
async fn changes(
    bodies: &ContainerClient,
    options: ChangeFeedOptions,
) -> Result<(Vec<String>, ContinuationToken)> {
    let (scope, start) = (FeedScope::full_container(), ChangeFeedStartFrom::Beginning);
    let mut pages = bodies.query_change_feed::<Body>(scope, start, Some(options)).await?;
    let mut names = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page?;
        if page.items().is_empty() {
            break;
        }
        names.extend(page.items().iter().filter_map(|item| item.current()).map(|body| body.name.clone()));
    }
    Ok((names, pages.to_continuation_token()?))
}
