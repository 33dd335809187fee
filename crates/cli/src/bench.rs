//! `orrery bench`: a light load on a server, to see what it does on this machine. It makes a container
//! of its own, and removes it. The project's own measurements are in `bench/`.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hdrhistogram::Histogram;
use orrery_server::wire::headers;
use orrery_types::{Clock as _, Object, SystemClock, Value};

use crate::account;
use crate::exit::{Exit, Failure, UNREAD};
use crate::remote::{Remote, RemoteArguments};
use crate::table::{self, Table};

/// Everything lies in a database of this name.
const DATABASE: &str = "orrery-bench";
const CONTAINER: &str = "items";
const PARTITIONED_BY: &str = "/p";
const CONFLICT: u16 = 409;
const JSON: (&str, &str) = ("content-type", "application/json");

/// Arguments of `bench`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(flatten)]
    remote: RemoteArguments,
    /// Clients, each with a connection
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    clients: usize,
    /// How long
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    seconds: u64,
    /// Items that are there before
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    items: u64,
    /// Bytes of an item, about
    #[arg(long, value_name = "NUMBER", default_value_t = 1024)]
    size: usize,
    /// Point reads of a hundred operations; the others are creates and queries, half each
    #[arg(long, value_name = "NUMBER", default_value_t = 80, value_parser = clap::value_parser!(u64).range(0..=100))]
    reads: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Create,
    Query,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Read, Self::Create, Self::Query];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "point read",
            Self::Create => "create",
            Self::Query => "query",
        }
    }
}

/// What came of one kind of operation.
struct Sample {
    latencies_us: Histogram<u64>,
    charge: f64,
    throttled: u64,
}

impl Sample {
    fn new() -> Result<Self> {
        Ok(Self { latencies_us: Histogram::new(3)?, charge: 0.0, throttled: 0 })
    }
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let mut remote = arguments.remote.connect()?;
    let path = format!("/dbs/{DATABASE}");
    let body = format!("{{\"id\":\"{DATABASE}\"}}");
    let mut made = account::send(&mut remote, "POST", "/dbs", &[JSON], body.as_bytes())?;
    if made.status == CONFLICT {
        // What an earlier run left goes first, and nothing else does.
        check_own(&mut remote)?;
        account::must(&mut remote, "DELETE", &path, &[], b"")?;
        made = account::send(&mut remote, "POST", "/dbs", &[JSON], body.as_bytes())?;
    }
    if made.status >= 400 {
        return Err(account::refusal("/dbs", &made));
    }
    let measured = measure(&mut remote, arguments);
    account::must(&mut remote, "DELETE", &path, &[], b"")?;
    report(arguments, &measured?)
}

/// Makes sure that the database is one of this command: it holds its container and no other.
fn check_own(remote: &mut Remote) -> Result<()> {
    let path = format!("/dbs/{DATABASE}/colls");
    let containers = account::list_all(remote, &path, "DocumentCollections")?;
    let own = |container: &Value| {
        let paths = container.get("partitionKey").get("paths").as_array().unwrap_or_default();
        container.get("id").as_str() == Some(CONTAINER)
            && matches!(paths, [path] if path.as_str() == Some(PARTITIONED_BY))
    };
    if matches!(&containers[..], [container] if own(container)) {
        return Ok(());
    }
    let text = format!(
        "the server has a database '{DATABASE}' that this command did not leave behind, and would \
         remove; remove it yourself if it is not needed, or name another server"
    );
    Err(Failure::new(Exit::Refused, text).into())
}

fn measure(remote: &mut Remote, arguments: &BenchArguments) -> Result<Vec<Sample>> {
    let path = format!("/dbs/{DATABASE}/colls");
    let body = crate::transfer::definition(CONTAINER, PARTITIONED_BY).to_json();
    account::must(remote, "POST", &path, &[JSON], body.as_bytes())?;
    for number in 0..arguments.items {
        create(remote, number, arguments.size)?;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let clients: Vec<_> = (0..arguments.clients.max(1))
            .map(|client| scope.spawn(move || work(arguments, client as u64, stop)))
            .collect();
        std::thread::sleep(Duration::from_secs(arguments.seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all =
            Operation::ALL.map(|_| Sample::new()).into_iter().collect::<Result<Vec<_>>>()?;
        for client in clients {
            let Ok(samples) = client.join() else { bail!("a client panicked") };
            for (sum, sample) in all.iter_mut().zip(samples?) {
                sum.latencies_us.add(sample.latencies_us)?;
                sum.charge += sample.charge;
                sum.throttled += sample.throttled;
            }
        }
        Ok(all)
    })
}

/// One client, until it is stopped.
fn work(arguments: &BenchArguments, client: u64, stop: &AtomicBool) -> Result<Vec<Sample>> {
    let mut remote = arguments.remote.connect()?;
    let mut samples =
        Operation::ALL.map(|_| Sample::new()).into_iter().collect::<Result<Vec<_>>>()?;
    let mut random = client.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut fresh = (client + 1) << 40;
    while !stop.load(Ordering::Relaxed) {
        // A generator of Marsaglia's; any will do.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let dice = random % 100;
        let target = (random >> 8) % arguments.items.max(1);
        let operation = match dice {
            dice if dice < arguments.reads => Operation::Read,
            dice if dice.is_multiple_of(2) => Operation::Create,
            _ => Operation::Query,
        };
        let began_us = SystemClock.now_us();
        let answer = match operation {
            Operation::Read => read(&mut remote, target)?,
            Operation::Create => {
                fresh += 1;
                create(&mut remote, fresh, arguments.size)?
            }
            Operation::Query => query(&mut remote, target)?,
        };
        let sample = &mut samples[operation as usize];
        let took_us = SystemClock.now_us().saturating_sub(began_us).max(1);
        match answer {
            Some(charge) => {
                sample.latencies_us.record(took_us)?;
                sample.charge += charge;
            }
            None => sample.throttled += 1,
        }
    }
    Ok(samples)
}

fn partition(number: u64) -> String {
    format!("p{}", number % 100)
}

/// Sends one operation; its charge, or none if the server has no room for it now.
fn send(
    remote: &mut Remote,
    method: &str,
    path: &str,
    sent: &[(&str, &str)],
    body: &str,
) -> Result<Option<f64>> {
    let answer = account::send(remote, method, path, sent, body.as_bytes())?;
    match answer.status {
        429 => Ok(None),
        status if status >= 400 => Err(account::refusal(path, &answer)),
        _ => Ok(answer
            .header(headers::REQUEST_CHARGE)
            .and_then(|text| text.parse().ok())
            .or(Some(0.0))),
    }
}

fn read(remote: &mut Remote, number: u64) -> Result<Option<f64>> {
    let key = format!("[\"{}\"]", partition(number));
    let path = format!("/dbs/{DATABASE}/colls/{CONTAINER}/docs/i{number}");
    send(remote, "GET", &path, &[(headers::PARTITION_KEY, &key)], "")
}

fn create(remote: &mut Remote, number: u64, size: usize) -> Result<Option<f64>> {
    let partition = partition(number);
    let key = format!("[\"{partition}\"]");
    let filler = "x".repeat(size.saturating_sub(80));
    let body = format!(
        "{{\"id\":\"i{number}\",\"p\":\"{partition}\",\"n\":{number},\"group\":{},\"filler\":\"{filler}\"}}",
        number % 50
    );
    let path = format!("/dbs/{DATABASE}/colls/{CONTAINER}/docs");
    send(remote, "POST", &path, &[JSON, (headers::PARTITION_KEY, &key)], &body)
}

fn query(remote: &mut Remote, number: u64) -> Result<Option<f64>> {
    let path = format!("/dbs/{DATABASE}/colls/{CONTAINER}/docs");
    let sent = [
        ("content-type", "application/query+json"),
        (headers::IS_QUERY, "true"),
        (headers::ENABLE_CROSS_PARTITION, "true"),
    ];
    let body =
        format!("{{\"query\":\"SELECT c.id, c[\\\"group\\\"] FROM c WHERE c.n = {number}\"}}");
    send(remote, "POST", &path, &sent, &body)
}

#[expect(clippy::cast_precision_loss, reason = "rates and times are shown with few digits")]
fn report(arguments: &BenchArguments, samples: &[Sample]) -> Result<()> {
    let seconds = arguments.seconds.max(1) as f64;
    let mut table = Table::new([
        "operation",
        "number",
        "per second",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "RU each",
        "throttled",
    ]);
    let mut list = Vec::new();
    for (operation, sample) in Operation::ALL.iter().zip(samples) {
        let number = sample.latencies_us.len();
        let ms = |quantile| sample.latencies_us.value_at_quantile(quantile) as f64 / 1000.0;
        let each = sample.charge / number.max(1) as f64;
        table.row([
            operation.name().to_owned(),
            table::count(number),
            format!("{:.0}", number as f64 / seconds),
            format!("{:.2}", ms(0.5)),
            format!("{:.2}", ms(0.95)),
            format!("{:.2}", ms(0.99)),
            format!("{each:.2}"),
            table::count(sample.throttled),
        ]);
        let mut object = Object::new();
        object.set("operation", operation.name().into());
        object.set("number", i64::try_from(number).unwrap_or(i64::MAX).into());
        object.set("perSecond", (number as f64 / seconds).into());
        for (name, quantile) in [("p50Ms", 0.5), ("p95Ms", 0.95), ("p99Ms", 0.99)] {
            object.set(name, ms(quantile).into());
        }
        object.set("requestCharge", each.into());
        object.set("throttled", i64::try_from(sample.throttled).unwrap_or(i64::MAX).into());
        list.push(Value::object(object));
    }
    let text = if arguments.json {
        Value::array(list).to_json() + "\n"
    } else {
        table.to_text(table::width())
    };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}
