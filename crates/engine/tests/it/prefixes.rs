//! Hierarchical partition keys whose prefixes span several ranges: reads, queries and feeds by prefix,
//! and deletes, which take whole keys only.

use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, QueryRequest};
use orrery_types::{EffectiveKey, Error, PartitionKey};

use crate::split_merge::{LATEST, feed_of, items, upsert};
use crate::world::{World, json, name};

const TENANTS: &str =
    r#"{"id":"c","partitionKey":{"paths":["/t","/u","/s"],"kind":"MultiHash","version":2}}"#;

/// Items of two tenants, of which the range of the first is cut in its middle.
fn tenants(mut world: World, throughput: Option<i64>) -> World {
    world.database();
    world.create_container(TENANTS, throughput);
    for n in 0..80 {
        let (t, u, s) = (n % 2, n % 10, n % 3);
        let text = format!(r#"{{"id":"{n}","t":"t{t}","u":"u{u}","s":{s}}}"#);
        upsert(&world, &text).expect("an upsert");
    }
    let definition = world.container("c").definition.partition_key.clone();
    let user = |u: usize| definition.effective(&header(&format!(r#"["t0","u{u}"]"#)));
    let mut users: Vec<EffectiveKey> = (0..10).step_by(2).map(user).collect();
    users.sort();
    if throughput.is_none() {
        let split =
            world.engine().layouts().split_partition(&name("d"), &name("c"), None, Some(&users[2]));
        split.expect("a split within a tenant");
    }
    world
}

fn header(text: &str) -> PartitionKey {
    PartitionKey::parse_header(text).expect("a key")
}

fn under(prefix: &str) -> ScopeRequest {
    ScopeRequest { partition_key: Some(header(prefix)), ..ScopeRequest::default() }
}

#[test]
fn a_prefix_of_a_key_is_read_in_all_its_ranges() {
    for world in [World::memory(), World::rocks()] {
        let world = tenants(world, None);
        let container = world.container("c");
        assert_eq!(container.partitions.len(), 2);
        let spread = |p: &orrery_engine::partition::PhysicalPartition| {
            let part =
                ScopeRequest { range_id: Some(p.id.to_string().into()), ..under(r#"["t0"]"#) };
            items(&world, &part, || {}).len()
        };
        let spread: Vec<usize> = container.partitions.iter().map(spread).collect();
        assert!(spread.iter().all(|n| *n > 0) && spread.iter().sum::<usize>() == 40, "{spread:?}");
        for (prefix, expected) in [
            (r#"["t0"]"#, 40),
            (r#"["t1"]"#, 40),
            (r#"["t0","u4"]"#, 8),
            (r#"["t0","u4",1]"#, 3),
            (r#"["t9"]"#, 0),
        ] {
            let scope = under(prefix);
            assert_eq!(items(&world, &scope, || {}).len(), expected, "{prefix}");
            let (told, _) = feed_of(&world, &scope, LATEST, None).expect("a feed");
            assert_eq!(told.len(), expected, "{prefix}");
            let request = json(r#"{"query":"SELECT VALUE c.id FROM c WHERE c.s >= 0"}"#);
            let request = QueryRequest::parse(&request).expect("a query");
            let scope = container.scope(&scope).expect("a scope");
            let size = PageSize { items: 1000 };
            let paging = Paging::default();
            let found =
                world.engine().queries().query_items(&container, &scope, &request, size, &paging);
            assert_eq!(found.expect("a page").rows.len(), expected, "{prefix}");
        }
        let levels = container.scope(&under(r#"["t0","u0",0,1]"#));
        assert!(matches!(levels, Err(Error::PartitionKeyMismatch(_))), "{levels:?}");
        let point = world.engine().items().read(&container, Some(&header(r#"["t0"]"#)), &name("0"));
        assert!(matches!(point, Err(Error::PartitionKeyMismatch(_))));
    }
}

#[test]
fn a_prefix_of_a_key_deletes_nothing() {
    for disk in [World::memory, World::rocks] {
        for throughput in [None, Some(30_000)] {
            let mut world = tenants(disk(), throughput);
            let container = world.container("c");
            for refused in [r#"["t0","u0",0,1]"#, "[]", r#"["t0"]"#, r#"["t0","u0"]"#, r#"["t9"]"#]
            {
                let erased =
                    world.engine().erasure().erase_partition_key(&container, &header(refused));
                assert!(matches!(erased, Err(Error::PartitionKeyMismatch(_))), "{refused}");
            }
            world.run_tasks();
            let count = |world: &World, prefix: &str| items(world, &under(prefix), || {}).len();
            assert_eq!((count(&world, r#"["t0"]"#), count(&world, r#"["t1"]"#)), (40, 40));
            let erased = world
                .engine()
                .erasure()
                .erase_partition_key(&container, &header(r#"["t0","u0",0]"#));
            assert_eq!(erased.expect("a whole key").len(), 1);
            assert_eq!(count(&world, r#"["t0"]"#), 37);
            world.run_tasks();
            world.reopen();
            assert_eq!((count(&world, r#"["t0"]"#), count(&world, r#"["t1"]"#)), (37, 40));
            assert_eq!(world.engine().insight().verify(&world.container("c")), Ok(vec![]));
        }
    }
}
