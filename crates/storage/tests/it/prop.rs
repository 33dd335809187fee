//! Laws of the encoding: the order of bytes is the order of values, and reading undoes writing.

use std::sync::Arc;

use orrery_storage::encode::{decode, encoded};
use orrery_types::{Object, Value};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = Value> {
    let near = |base: i64| (-3_i64..=3).prop_map(move |d| base.saturating_add(d));
    let int = prop_oneof![
        any::<i64>(),
        near(0),
        near(1 << 53),
        near(-(1 << 53)),
        near(i64::MAX),
        near(i64::MIN),
        (53_u32..63).prop_flat_map(move |bits| near(1 << bits)),
    ];
    // Doubles that lie on and beside the integers, so that the two kinds meet.
    #[expect(clippy::cast_precision_loss, reason = "the nearest double is what is wanted")]
    let beside = int.clone().prop_map(|i| i as f64);
    prop_oneof![
        int.prop_map(Value::from),
        beside.prop_map(Value::from),
        proptest::num::f64::ANY.prop_map(Value::from),
        (-10_i32..10).prop_map(|n| Value::from(f64::from(n) / 4.0)),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[\0\u{1}a\u{ff}😀]{0,4}", "\\PC{0,6}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let property = (text().prop_map(Arc::from), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::array),
            prop::collection::vec(property, 0..4)
                .prop_map(|properties| Value::object(properties.into_iter().collect::<Object>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_order_of_bytes_is_the_order_of_values(a in value(), b in value()) {
        prop_assert_eq!(encoded(&a).cmp(&encoded(&b)), a.cmp(&b));
    }

    #[test]
    fn the_order_of_bytes_is_the_order_of_numbers(a in number(), b in number()) {
        prop_assert_eq!(encoded(&a).cmp(&encoded(&b)), a.cmp(&b));
    }

    #[test]
    fn a_value_reads_back_and_ends_where_the_next_begins(a in value(), rest in any::<[u8; 3]>()) {
        let mut bytes = encoded(&a);
        bytes.extend(rest);
        prop_assert_eq!(decode(&bytes), Ok((a, &rest[..])));
    }

    #[test]
    fn reading_any_bytes_ends_without_panic(bytes in prop::collection::vec(0_u8..10, 0..40)) {
        if let Ok((value, rest)) = decode(&bytes) {
            let used = bytes.len() - rest.len();
            prop_assert_eq!(decode(&encoded(&value)).map(|d| d.0), Ok(value));
            prop_assert!(used > 0);
        }
    }
}
