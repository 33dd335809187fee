//! `orrery throughput`: what a database or container is granted, and what becomes of who exceeds it.

use std::io::Write as _;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use orrery_server::wire::headers;
use orrery_types::{Object, Value};

use crate::account::{list_all, must};
use crate::exit::{UNREAD, usage};
use crate::remote::{Remote, RemoteAnswer, RemoteArguments};

/// Arguments of `throughput`.
#[derive(Debug, Args)]
pub(crate) struct ThroughputArguments {
    /// The database
    #[arg(value_name = "DATABASE", required_unless_present = "database")]
    first: Option<String>,
    /// The container; without one, what the containers of the database share
    #[arg(value_name = "CONTAINER")]
    second: Option<String>,
    /// The database, as other commands take it
    #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
    database: Option<String>,
    /// The container, as other commands take it
    #[arg(long, short, value_name = "NAME", conflicts_with = "second")]
    container: Option<String>,
    /// Request units a second, always the same
    #[arg(long, value_name = "NUMBER", conflicts_with = "autoscale", allow_hyphen_values = true)]
    manual: Option<i64>,
    /// Request units a second at the most, and a tenth of them at the least
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    autoscale: Option<i64>,
    /// Whether requests beyond it are refused; default leaves it to the server's setting
    #[arg(long, value_enum, value_name = "WHETHER")]
    enforce: Option<Enforce>,
    /// Throughput buckets and the most that each may use in percent, as 1=20; instead of those there are
    #[arg(long, value_name = "ID=PERCENT", value_delimiter = ',')]
    buckets: Option<Vec<String>>,
    #[command(flatten)]
    remote: RemoteArguments,
}

impl ThroughputArguments {
    /// The name as an argument counts over the one that the environment may hold.
    fn database(&self) -> Result<&str> {
        self.first.as_deref().or(self.database.as_deref()).context("name the database")
    }

    fn container(&self) -> Option<&str> {
        self.second.as_deref().or(self.container.as_deref())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Enforce {
    On,
    Off,
    Default,
}

pub(crate) fn run(arguments: &ThroughputArguments) -> Result<()> {
    let wanted = content(arguments)?;
    let mut remote = arguments.remote.connect()?;
    let mut offer = find(&mut remote, arguments)?;
    let is_autoscale = |offer: &Value| {
        !matches!(offer.get("content").get("offerAutopilotSettings"), Value::Undefined)
    };
    let migration = match (is_autoscale(&offer), arguments.manual, arguments.autoscale) {
        (true, Some(_), _) => Some(headers::MIGRATE_TO_MANUAL),
        (false, _, Some(_)) => Some(headers::MIGRATE_TO_AUTOPILOT),
        _ => None,
    };
    if let Some(header) = migration {
        offer = put(&mut remote, &offer, &[(header, "true")])?;
    }
    if !wanted.is_empty() {
        let mut content = offer.get("content").as_object().cloned().unwrap_or_default();
        for (name, value) in wanted.iter() {
            content.set(name, value.clone());
        }
        if let Some(offer) = offer.as_object_mut() {
            offer.set("content", Value::object(content));
        }
        offer = put(&mut remote, &offer, &[])?;
    }
    let text = offer.get("content").to_json() + "\n";
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}

/// What the arguments want in the content of the offer.
fn content(arguments: &ThroughputArguments) -> Result<Object> {
    let mut content = Object::new();
    if let Some(manual) = arguments.manual {
        content.set("offerThroughput", manual.into());
    }
    if let Some(max) = arguments.autoscale {
        let mut settings = Object::new();
        settings.set("maxThroughput", max.into());
        content.set("offerAutopilotSettings", Value::object(settings));
    }
    if let Some(enforce) = arguments.enforce {
        let enforced = match enforce {
            Enforce::On => true.into(),
            Enforce::Off => false.into(),
            Enforce::Default => Value::Null,
        };
        content.set("orreryEnforced", enforced);
    }
    if let Some(buckets) = &arguments.buckets {
        let buckets: Vec<Value> =
            buckets.iter().filter(|b| !b.is_empty()).map(|b| bucket(b)).collect::<Result<_>>()?;
        content.set("throughputBuckets", Value::array(buckets));
    }
    Ok(content)
}

fn bucket(text: &str) -> Result<Value> {
    let pair = text.split_once('=');
    let numbers = pair.and_then(|(id, percent)| Some((id.parse().ok()?, percent.parse().ok()?)));
    let (id, percent): (i64, i64) =
        numbers.ok_or_else(|| usage(format!("'{text}' is not a bucket: write ID=PERCENT")))?;
    let mut bucket = Object::new();
    bucket.set("id", id.into());
    bucket.set("maxThroughputPercentage", percent.into());
    Ok(Value::object(bucket))
}

fn json(answer: &RemoteAnswer) -> Result<Value> {
    Value::parse(&answer.body).map_err(|e| anyhow!("the answer is not JSON: {e}"))
}

fn find(remote: &mut Remote, arguments: &ThroughputArguments) -> Result<Value> {
    let database = arguments.database()?;
    let path = match arguments.container() {
        Some(container) => format!("/dbs/{database}/colls/{container}"),
        None => format!("/dbs/{database}"),
    };
    let owner = json(&must(remote, "GET", &path, &[], b"")?)?;
    let offers = list_all(remote, "/offers", "Offers")?;
    let its = offers.into_iter().find(|offer| offer.get("offerResourceId") == owner.get("_rid"));
    match (its, arguments.container()) {
        (Some(offer), _) => Ok(offer),
        (None, Some(_)) => {
            bail!("the container has no throughput of its own: it shares its database's")
        }
        (None, None) => bail!("the database has no throughput of its own: its containers have"),
    }
}

fn put(remote: &mut Remote, offer: &Value, headers: &[(&str, &str)]) -> Result<Value> {
    let rid = offer.get("_rid").as_str().context("the offer has no _rid")?;
    let path = format!("/offers/{rid}");
    json(&must(remote, "PUT", &path, headers, offer.to_json().as_bytes())?)
}
