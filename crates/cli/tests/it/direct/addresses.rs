//! Where clients are told to go.

use super::World;

#[test]
fn an_address_has_the_authority_of_the_request_and_names_container_and_range() {
    let world = World::with_ranges();
    let addresses = world.addresses("dbs/d/colls/c/docs", "0,2");
    let ids: Vec<&str> =
        addresses.iter().map(|a| a["partitionKeyRangeId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["0", "0", "2", "2"]);
    for address in &addresses {
        let uri = address["physcialUri"].as_str().unwrap();
        let rid = world.rid.trim_end_matches('=');
        let range = address["partitionKeyRangeId"].as_str().unwrap();
        assert!(uri.starts_with("rntbd://"), "{uri}");
        assert!(uri.contains(&format!("/{rid}/partitions/{range}/replicas/")), "{uri}");
        assert_eq!(address["protocol"], "rntbd");
        assert_eq!(address["partitionIndex"], format!("{range}@0"));
    }
    // Without ids all ranges are meant.
    assert_eq!(world.addresses("dbs/d/colls/c/docs", "").len(), 6);
}

#[test]
fn a_container_is_resolved_by_rids_as_clients_do() {
    let world = World::start();
    let database = world.local.must("GET", "/dbs/d", &[], "");
    let database: serde_json::Value = serde_json::from_str(&database.body).unwrap();
    let resolved = format!("dbs/{}/colls/{}/docs", database["_rid"].as_str().unwrap(), world.rid);
    let (kind, link) = ("docs", world.rid.to_lowercase());
    let date = crate::client::http_date(orrery_types::Clock::now_s(&*world.local.clock));
    let authorization = crate::client::signature(crate::local::PRIMARY, "get", kind, &link, &date);
    let headers = [("authorization", authorization), ("x-ms-date", date)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value));
    let path = format!(
        "/addresses/?$resolveFor={}&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds=0",
        resolved.replace('/', "%2F").replace('=', "%3D")
    );
    let mut connection = crate::client::Connection::open(world.local.address).unwrap();
    let answer = connection.send("GET", &path, &headers, b"").unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("x-ms-activity-id").is_some_and(|id| id.len() == 36));
}

#[test]
fn a_range_that_is_not_there_says_that_the_list_of_ranges_is_old() {
    let world = World::start();
    let answer = world.ask_addresses("dbs/d/colls/c/docs", "0,9");
    assert_eq!((answer.status, answer.header("x-ms-substatus")), (410, Some("1002")));
    let answer = world.ask_addresses("dbs/d/colls/other/docs", "0");
    assert_eq!(answer.status, 404);
}
