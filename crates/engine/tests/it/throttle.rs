//! Offers that are enforced, through restarts and changes of what they grant.

use orrery_engine::Engine;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::throughput::Migration;
use orrery_engine::throughput::throttle::Claim;
use orrery_types::{Error, Object, Value};

use crate::world::{World, json};

const CONTAINER: &str = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2}}"#;

/// Sets the content of the one offer there is.
fn set_offer(engine: &Engine, content: &str, migration: Migration) -> Value {
    let offer = engine.offers().list().expect("offers").remove(0);
    let orrery_types::ids::Rid::Offer(number) = offer.rid else { panic!("an offer") };
    let mut body = Object::new();
    body.set("content", json(content));
    let (body, any) = (Value::object(body), Preconditions::default());
    let replaced = engine.offers().replace(number, &body, migration, &any).expect("a new offer");
    replaced.body.get("content").clone()
}

/// Spends, and says whether the next one is let in.
fn spend(world: &World, charge: f64) -> orrery_types::Result<()> {
    let container = world.container("c");
    let admit = || {
        world.engine().throughput().admit(&container, &ScopeRequest::default(), Claim::default())
    };
    if let Some(pass) = admit()? {
        world.engine().throughput().spend(&pass, charge, None);
    }
    admit().map(drop)
}

#[test]
fn what_an_offer_says_outlives_the_process_and_a_change_of_kind() {
    let mut world = World::memory();
    world.database();
    world.create_container(CONTAINER, None);
    assert!(!world.engine().throughput().throttles());
    let on = r#"{"offerThroughput":400,"orreryEnforced":true,
        "throughputBuckets":[{"id":1,"maxThroughputPercentage":50}]}"#;
    set_offer(world.engine(), on, Migration::None);
    assert!(world.engine().throughput().throttles());
    world.reopen();
    assert!(world.engine().throughput().throttles());
    let limited = Err(Error::RateLimited { retry_after_ms: 1 });
    assert_eq!(spend(&world, 400.0), limited);

    let migrated = set_offer(world.engine(), "{}", Migration::ToAutoscale);
    assert_eq!(migrated.get("orreryEnforced"), &Value::from(true));
    assert_eq!(migrated.get("throughputBuckets").as_array().map(<[Value]>::len), Some(1));
    assert_eq!(migrated.get("offerThroughput").as_i64(), Some(400));
    world.clock.advance_s(1);
    assert_eq!(spend(&world, 999.0), Ok(()));
    assert_eq!(spend(&world, 1.0), limited);

    let off = r#"{"offerAutopilotSettings":{"maxThroughput":1000},"orreryEnforced":null}"#;
    set_offer(world.engine(), off, Migration::None);
    assert!(!world.engine().throughput().throttles());
}

#[test]
fn a_part_that_makes_no_sense_is_not_for_throttling_to_judge() {
    let mut world = World::memory();
    world.database();
    world.create_container(CONTAINER, None);
    set_offer(world.engine(), r#"{"offerThroughput":400,"orreryEnforced":true}"#, Migration::None);
    let part = ScopeRequest { range_id: Some("77".into()), ..ScopeRequest::default() };
    let admitted =
        world.engine().throughput().admit(&world.container("c"), &part, Claim::default());
    assert!(matches!(admitted, Ok(None)));
}
