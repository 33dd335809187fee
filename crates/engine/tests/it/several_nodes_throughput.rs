//! The throughput of one offer, used through several nodes.

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::throughput::Migration;
use orrery_engine::throughput::throttle::Claim;
use orrery_types::ids::Rid;
use orrery_types::{Object, Value};

use crate::several_nodes::Cluster;
use crate::world::{json, manual, name};

const CHARGE: f64 = 10.0;
/// Steps of ten milliseconds.
const STEPS_PER_SECOND: usize = 100;

fn set_offer(engine: &Engine, throughput: u32) {
    let offer = engine.offers().list().expect("offers").remove(0);
    let Rid::Offer(number) = offer.rid else { panic!("an offer") };
    let content = json(&format!(r#"{{"offerThroughput":{throughput},"orreryEnforced":true}}"#));
    let mut body = Object::new();
    body.set("content", content);
    let (body, any) = (Value::object(body), Preconditions::default());
    engine.offers().replace(number, &body, Migration::None, &any).expect("a new offer");
}

/// A request at a node; what it took.
fn ask(node: &Engine) -> f64 {
    let container = node.containers().read(&name("d"), &name("c")).expect("a container");
    let admitted = node.throughput().admit(&container, &ScopeRequest::default(), Claim::default());
    let Ok(pass) = admitted else { return 0.0 };
    node.throughput().spend(&pass.expect("it is enforced"), CHARGE, None);
    CHARGE
}

/// What the nodes grant in so many seconds, each asked so often in every step.
fn granted(cluster: &Cluster, nodes: &[Engine], asked: &[usize], seconds: usize) -> f64 {
    let mut granted = 0.0;
    for step in 0..seconds * STEPS_PER_SECOND {
        for (node, asked) in nodes.iter().zip(asked) {
            granted += (0..*asked).map(|_| ask(node)).sum::<f64>();
        }
        cluster.clock.advance_ms(10);
        if step % (2 * STEPS_PER_SECOND) == STEPS_PER_SECOND {
            for node in nodes {
                node.nodes().beat().expect("a heartbeat");
            }
        }
    }
    granted
}

#[test]
fn three_nodes_grant_what_one_offer_has() {
    let cluster = Cluster::new();
    let first = cluster.open();
    first.databases().create(&json(r#"{"id":"d"}"#), &manual(None)).expect("a database");
    let body = json(r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#);
    first.containers().create(&name("d"), &body, &manual(Some(3000))).expect("a container");
    set_offer(&first, 3000);
    let nodes = [first, cluster.open(), cluster.open()];
    for (asked, rate) in
        [([4, 4, 4], 3000.0), ([8, 2, 2], 3000.0), ([8, 0, 0], 3000.0), ([0, 1, 5], 3000.0)]
    {
        // Until all have heard of each other's demand.
        granted(&cluster, &nodes, &asked, 4);
        let seconds = 8;
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let expected = rate * seconds as f64;
        let sum = granted(&cluster, &nodes, &asked, seconds);
        assert!((sum / expected - 1.0).abs() < 0.1, "{asked:?}: {sum} of {expected}");
    }
    // Each node takes over what another one has changed.
    set_offer(&nodes[2], 600);
    granted(&cluster, &nodes, &[4, 4, 4], 4);
    let sum = granted(&cluster, &nodes, &[4, 4, 4], 8);
    assert!((sum / 4800.0 - 1.0).abs() < 0.1, "{sum}");
}
