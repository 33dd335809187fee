//! Keys come apart as they were built, and ranges of keys are the ranges they claim to be.

use orrery_types::KeyComponent;

use super::*;

fn partition(text: &str) -> PartitionKey {
    PartitionKey(vec![KeyComponent::String(text.into())])
}

fn effective(bytes: &[u8]) -> EffectiveKey {
    EffectiveKey(bytes.to_vec())
}

#[test]
fn every_key_comes_apart_as_it_was_built() {
    for hash in [&[][..], &[0], &[0, 0xff, 0], &[0x3f; 16]] {
        for (pk, id) in [("", "i"), ("p\0q", "with / and \0"), ("é", "😀")] {
            let key = item(&effective(hash), &partition(pk), id);
            let parts = parse_item(&key).expect("an item key");
            assert_eq!(parts.effective, effective(hash));
            assert_eq!(parts.partition, partition(pk).to_canonical());
            assert_eq!(parts.id, id);
        }
    }
    assert_eq!(parse_row(&row(Row(u64::MAX))), Some(Row(u64::MAX)));
    assert_eq!(parse_feed(&feed(Lsn(7), 9)), Some((Lsn(7), 9)));
    assert_eq!(parse_ttl(&ttl(7, Row(9))), Some((7, Row(9))));
    let key = term(PathId(3), &"x".into(), Row(5));
    let parts = parse_term(&key).expect("a term");
    assert_eq!((parts.path, parts.row), (PathId(3), Row(5)));
    assert_eq!(parts.value, crate::encode::encoded(&"x".into()));
}

#[test]
fn keys_of_the_index_come_apart_as_they_were_built() {
    let mut key = composite_prefix(CompositeId(9));
    key.extend([4, 3]);
    key.extend(7_u64.to_be_bytes());
    let parts = parse_composite(&key).expect("a composite key");
    assert_eq!((parts.id, parts.values, parts.row), (CompositeId(9), &[4, 3][..], Row(7)));
    let mut key = shapes_of(ShapeId(2)).from;
    key.extend(7_u64.to_be_bytes());
    assert_eq!(parse_shape(&key), Some((ShapeId(2), Row(7))));
    assert_eq!(parse_shape(&[&key[..], &[0]].concat()), None);
    let all = all_index_terms();
    assert!(all.from <= key && key < all.to);
    let term = term(PathId(1), &Value::Null, Row(1));
    assert!(all.from <= term && term < all.to);
    let unique = unique(0, &effective(b"x"), &partition("p"), &[]);
    assert!(unique < all.from, "unique keys lie apart");
    let paths = [PathId(1), PathId(0x1_0000)];
    assert_eq!(parse_shape_name(&shape_name(&paths)).as_deref(), Some(&paths[..]));
    assert_eq!(parse_shape_name(&index_ids()), None);
}

#[test]
fn foreign_bytes_are_no_key() {
    assert_eq!(parse_item(&row(Row(1))), None);
    assert_eq!(parse_item(&[ITEM, 0, 1, 0]), None);
    assert_eq!(parse_item(&[ITEM, 0, 1, 0, 1, 0xff]), None, "an id is UTF-8");
    assert_eq!(parse_row(&[ROW, 1]), None);
    assert_eq!(parse_feed(&[0; 9]), None);
    assert_eq!(parse_ttl(&[0; 17]), None);
    assert_eq!(parse_term(&[2, 0, 0, 0, 1, 2]), None);
}

#[test]
fn bytes_are_those_that_the_format_names() {
    let key = item(&effective(&[0x12, 0x00]), &partition("p"), "id");
    assert_eq!(key, b"\x01\x12\x00\xff\x00\x01\x08p\xff\x00\x01id");
    let key = unique(2, &effective(&[0x12]), &partition("p"), &[Value::Null, true.into()]);
    assert_eq!(key, b"\x01\x02\x12\x00\x01\x08p\xff\x00\x01\x02\x04");
    let container = record(RecordKind::Container, 1, 2);
    assert_eq!(container, [1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert!(container.starts_with(&records(RecordKind::Container, 1)));
    assert_eq!(record_name(RecordKind::Udf, 0, "f"), [2, 9, 0, 0, 0, 0, 0, 0, 0, 0, b'f']);
    assert_eq!(feed(Lsn(1), 2), [0, 0, 0, 0, 0, 0, 0, 1, 0, 2]);
    let key = term(PathId(5), &true.into(), Row(6));
    assert_eq!(key, [2, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0, 0, 6]);
    assert_eq!(composite_prefix(CompositeId(5)), [3, 0, 0, 0, 5]);
    assert_eq!(shapes_of(ShapeId(5)).from, [4, 0, 0, 0, 5]);
    assert_eq!(path_node(ROOT_PATH, PathStep::Property("a")), [0x12, 0, 0, 0, 0, 1, b'a']);
    assert_eq!(path_node(PathId(3), PathStep::Elements), [0x12, 0, 0, 0, 3, 0]);
    assert_eq!(composite_name("/\"a\"+"), b"\x13/\"a\"+");
    assert_eq!(shape_name(&[PathId(1), PathId(2)]), [0x14, 0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!((index_ids(), index_rebuilt()), (vec![0x15], vec![0x16]));
    assert_eq!(node(7), [0x28, 0, 0, 0, 7]);
    assert_eq!(verification(7), [0x2a, 0, 0, 0, 7]);
    for job in [
        Job::Account,
        Job::Database(3),
        Job::Container { database: 3, container: 4 },
        Job::Layout { database: 3, container: 4 },
    ] {
        assert_eq!(parse_lease(&lease(job)), Some(job));
        assert!(lease(job) >= leases().from && lease(job) < leases().to);
    }
    assert_eq!(lease(Job::Database(3)), [0x29, 2, 0, 0, 0, 3, 0, 0, 0, 0]);
    assert_eq!(parse_node(&node(7)), Some(7));
    let token = [7; 16];
    assert_eq!(transaction_outcome(&token), [&[0x1f][..], &token].concat());
    let expiry = outcome_expiry(9, &token);
    assert_eq!(expiry, [&[0x20, 0, 0, 0, 0, 0, 0, 0, 9][..], &token].concat());
    assert_eq!(parse_outcome_expiry(&expiry), Some(token));
    let expired =
        |now_s| (outcomes_expired_at(now_s).from..outcomes_expired_at(now_s).to).contains(&expiry);
    assert_eq!((expired(8), expired(9)), (false, true));
}

/// Every pair of bounds holds exactly the effective keys that the range holds.
#[test]
fn a_range_of_effective_keys_is_a_range_of_item_keys() {
    let keys: Vec<EffectiveKey> = [
        &[][..],
        &[0],
        &[0, 0],
        &[0, 1],
        &[0, 0xff],
        &[1],
        &[1, 0],
        &[1, 0xff],
        &[0x3f, 0xff],
        &[0xfe],
    ]
    .into_iter()
    .map(effective)
    .collect();
    let full = KeyRange::full();
    let ends = keys.iter().chain([&full.max]);
    for (min, max) in keys.iter().flat_map(|min| ends.clone().map(move |max| (min, max))) {
        let range = KeyRange { min: min.clone(), max: max.clone() };
        let bounds = items_in(&range);
        for key in &keys {
            let bytes = item(key, &partition("p"), "i");
            let inside = bounds.from <= bytes && bytes < bounds.to;
            assert_eq!(inside, range.contains(key), "{key} in {min}..{max}");
        }
    }
}

#[test]
fn two_logical_partitions_with_one_hash_stay_apart() {
    let hash = effective(&[5; 16]);
    let bounds = items_of(&hash, &partition("a"));
    let holds = |key: &[u8]| &bounds.from[..] <= key && key < &bounds.to[..];
    assert!(holds(&item(&hash, &partition("a"), "")));
    assert!(holds(&item(&hash, &partition("a"), "\u{10ffff}")));
    assert!(!holds(&item(&hash, &partition("b"), "x")));
    assert!(!holds(&item(&hash, &partition("a\0"), "x")));
    assert!(!holds(&item(&hash, &PartitionKey::default(), "x")));
}

#[test]
fn the_end_of_a_prefix_is_after_all_its_keys() {
    assert_eq!(prefix_end(&[1, 2]), [1, 3]);
    assert_eq!(prefix_end(&[1, 0xff, 0xff]), [2]);
    assert_eq!(prefix_end(&[0xff, 0xff]), END);
    assert_eq!(prefix_end(&[]), END);
    let last = term(PathId(1), &"a".into(), Row(u64::MAX));
    let bounds = Bounds::prefix(term_prefix(PathId(1), &"a".into()));
    assert!(bounds.from < last && last < bounds.to);
    assert!(after(&last) > last && bounds.after(&last).from < prefix_end(&last));
}
