//! `fairness`: point reads and small queries of one client, alone and beside many
//! clients that each send a product of ten arrays over and over. Those run until their budget ends; the
//! one client should hardly notice.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::client::Client;
use crate::load::{self, Until, Work};
use crate::machine;
use crate::message::{Signer, Writing};
use crate::process::Process;
use crate::sample::{Series, median};
use crate::stopwatch::Stopwatch;

/// What to measure, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long)]
    server: PathBuf,
    /// The checkout, for the commit's name
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Folder for the data, on the disk to be measured [default: the system's for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Rounds; latencies are of all rounds together
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of each measurement in milliseconds
    #[arg(long, default_value_t = 4000)]
    ms: u64,
    /// Clients that send products
    #[arg(long, default_value_t = 300)]
    products: u64,
}

/// Groups of items, each a logical partition.
const GROUPS: u64 = 50;
const GROUP_SIZE: u64 = 20;
/// How often a p99 beside products may be that of an idle server.
const AIM: f64 = 10.0;
/// A page of the small query.
const PAGE: usize = 10;
const SMALL_QUERY: &str = r#"{"query":"SELECT TOP 10 c.id, c.stock FROM c ORDER BY c.id DESC"}"#;

/// A server with items for the one client and one item for all others.
struct Case {
    server: Process,
    signer: Signer,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let (server, _) = Process::serve(&options.server, &folder.path().join("data"))?;
    let case = Case { server, signer: Signer::now() };
    case.fill()?;
    let time = Duration::from_millis(options.ms);
    let works = case.works();
    let mut idle = [Series::default(), Series::default()];
    let mut beside = [Series::default(), Series::default()];
    let (mut answered, mut cores) = (0, [Vec::new(), Vec::new()]);
    for _ in 0..options.rounds {
        cores[0].push(case.measure(&works, time, &mut idle)?);
        let crowd = Crowd::start(&case, options.products)?;
        cores[1].push(case.measure(&works, time, &mut beside)?);
        answered += crowd.stop();
    }
    machine::describe(&options.root);
    println!("- {} rounds of {} ms each", options.rounds, options.ms);
    println!("- {} clients with products; {answered} products were answered", options.products);
    let [alone, together] = cores.map(|each| median(each.into_iter()));
    println!(
        "- cores that the server used: {alone:.2} for one client, {together:.2} with products"
    );
    report(&idle, &beside)
}

impl Case {
    fn fill(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut client = Client::connect(self.server.address).await?;
            for request in self.signer.setup() {
                client.expect(&request, 201).await?;
            }
            for (group, number) in (0..GROUPS).flat_map(|g| (0..GROUP_SIZE).map(move |n| (g, n))) {
                client.expect(&self.signer.create_in(group, number), 201).await?;
            }
            let body = r#"{"id":"arrays","pk":"arrays","t":[0,1,2,3,4,5,6,7,8,9]}"#;
            client.expect(&self.signer.write_in("arrays", body, Writing::Create), 201).await?;
            Ok(())
        })
    }

    /// What the one client asks for: items, and the first few of a partition in an order.
    fn works(&self) -> [Work; 2] {
        let reads = (0..GROUPS).map(|group| {
            self.signer.read_in(&crate::message::partition(group), group % GROUP_SIZE)
        });
        let query = |group| {
            let partition = crate::message::partition(group);
            self.signer.query(SMALL_QUERY, Some(&partition), PAGE, None)
        };
        let queries: Arc<[Vec<u8>]> = (0..GROUPS).map(query).collect();
        [Work::Reads(reads.collect()), Work::Reads(queries)]
    }

    /// Runs both kinds of work, and gives how many cores the server used meanwhile.
    fn measure(&self, works: &[Work; 2], time: Duration, series: &mut [Series; 2]) -> Result<f64> {
        let (before, watch) = (self.server.processor()?, Stopwatch::start());
        for (work, series) in works.iter().zip(series) {
            series.push(load::run(self.server.address, 1, work, Until::Elapsed(time))?);
        }
        let used = self.server.processor()?.saturating_sub(before);
        Ok(used.as_secs_f64() / watch.elapsed().as_secs_f64())
    }

    /// A product of ten arrays of ten elements, whose end no client waits for.
    fn product(&self) -> Vec<u8> {
        let joins: Vec<String> = (0..10).map(|n| format!("JOIN t{n} IN c.t")).collect();
        let joins = joins.join(" ");
        let sum: Vec<String> = (0..10).map(|n| format!("t{n}")).collect();
        let text = format!("SELECT VALUE COUNT(1) FROM c {joins} WHERE {} < 0", sum.join(" + "));
        let body = format!(r#"{{"query":"{text}"}}"#);
        self.signer.query(&body, Some("arrays"), PAGE, None)
    }
}

/// Clients that send products until they are stopped, on threads of their own.
struct Crowd {
    runtime: tokio::runtime::Runtime,
    answered: Arc<AtomicU64>,
}

impl Crowd {
    /// Returns when all of them have sent their first request.
    fn start(case: &Case, clients: u64) -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let answered = Arc::new(AtomicU64::new(0));
        let request: Arc<[u8]> = case.product().into();
        let address = case.server.address;
        for _ in 0..clients {
            let mut client = runtime.block_on(Client::connect(address))?;
            let (request, answered) = (Arc::clone(&request), Arc::clone(&answered));
            runtime.spawn(async move {
                // What the server answers, a refusal as a rule, is its own affair.
                while client.call(&request).await.is_ok() {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Ok(Self { runtime, answered })
    }

    fn stop(self) -> u64 {
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        self.answered.load(Ordering::Relaxed)
    }
}

fn report(idle: &[Series; 2], beside: &[Series; 2]) -> Result<()> {
    println!();
    println!("| one client's | beside | requests/s | p50 µs | p99 µs | p99 to idle |");
    println!("|---|---|---:|---:|---:|---:|");
    let mut worst: f64 = 0.0;
    for (n, name) in ["point reads", "small queries"].into_iter().enumerate() {
        let ratio = beside[n].quantile_us(0.99)? / idle[n].quantile_us(0.99)?;
        worst = worst.max(ratio);
        for (who, series, ratio) in [
            ("no others", &idle[n], String::new()),
            ("products", &beside[n], format!("{ratio:.1}")),
        ] {
            let (p50, p99) = (series.quantile_us(0.5)?, series.quantile_us(0.99)?);
            println!("| {name} | {who} | {:.0} | {p50:.0} | {p99:.0} | {ratio} |", series.rate());
        }
    }
    ensure!(worst.is_finite(), "nothing was measured");
    println!();
    println!(
        "aim: p99 beside products below {AIM} times that of an idle server; worst: {worst:.1}"
    );
    Ok(())
}
