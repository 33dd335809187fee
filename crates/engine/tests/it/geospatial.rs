//! A container's `geospatialConfig` decides what its figures lie on, in queries and in the
//! conditions of patches, and after it was replaced.

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::patch::Patch;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{Error, PartitionKey, Result, Value};

use crate::world::{World, json, name};

fn definition(kind: &str) -> String {
    format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/p"],"kind":"Hash"}},
            "geospatialConfig":{{"type":"{kind}"}}}}"#
    )
}

fn world(kind: &str) -> World {
    let mut world = World::memory();
    world.database();
    world.create_container(&definition(kind), None);
    let item = br#"{"id":"1","p":"k","at":{"type":"Point","coordinates":[30,40]}}"#;
    world.engine().items().create(&world.container("c"), None, item).expect("an item");
    world
}

fn row(world: &World, text: &str) -> Value {
    let container = world.container("c");
    let scope = container.scope(&ScopeRequest::default()).expect("a scope");
    let body = format!(r#"{{"query":{}}}"#, Value::from(text).to_json());
    let request = QueryRequest::parse(&json(&body)).expect("a query");
    let paging = Paging { crosses: true, ..Paging::default() };
    let size = PageSize { items: 10 };
    let page = world.engine().queries().query_items(&container, &scope, &request, size, &paging);
    json(page.expect("a page").rows.first().expect("a row"))
}

const FAR: &str = r#"SELECT VALUE ST_DISTANCE(c.at, {type: "Point", coordinates: [0, 0]}) FROM c"#;

fn is_planar(world: &World) -> bool {
    let far = row(world, FAR).as_number().expect("a distance").as_f64();
    assert!((far - 50.0).abs() < 1e-9 || (5.0e6..6.0e6).contains(&far), "{far}");
    far < 1000.0
}

#[test]
fn queries_measure_as_the_container_has_it() {
    assert!(is_planar(&world("Geometry")));
    assert!(!is_planar(&world("Geography")));
}

#[test]
fn a_replaced_configuration_holds_at_once_and_after_a_restart() {
    let mut world = world("Geography");
    assert!(!is_planar(&world));
    let (body, any) = (json(&definition("Geometry")), Preconditions::default());
    world.engine().containers().replace(&name("d"), &name("c"), &body, &any).expect("a replace");
    assert!(is_planar(&world));
    world.reopen();
    assert!(is_planar(&world));
}

#[test]
fn the_condition_of_a_patch_measures_so_too() {
    let patch = json(
        r#"{"condition":"FROM c WHERE ST_DISTANCE(c.at, {type: 'Point', coordinates: [0, 0]}) < 51",
            "operations":[{"op":"set","path":"/near","value":true}]}"#,
    );
    let patch = Patch::parse(&patch).expect("a patch");
    let key = PartitionKey::parse_header(r#"["k"]"#).expect("a key");
    let patched = |kind: &str| -> Result<()> {
        let (world, any) = (world(kind), Preconditions::default());
        let container = world.container("c");
        world.engine().items().patch(&container, Some(&key), &name("1"), &patch, &any).map(drop)
    };
    assert!(patched("Geometry").is_ok());
    assert!(matches!(patched("Geography"), Err(Error::ConditionNotMet)));
}
