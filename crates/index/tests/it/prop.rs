//! Laws of maintenance, on random items and policies: what a write puts and deletes turns exactly
//! the terms of the item before into those of the item after, whichever policies are in effect.

use std::collections::BTreeSet;

use orrery_index::maintain::{self, TermImage, maintain};
use orrery_index::rules::NOW;
use orrery_index::{
    Dictionary, DictionaryShard, IndexPath, IndexRules, IndexState, IndexStep, IndexedItem,
    IndexingPolicy, Terms,
};
use orrery_storage::key::{self, Row};
use orrery_storage::term::encode_term;
use orrery_storage::{MemoryStore, Part, Store};
use orrery_types::{Epoch, ShardId, Value};
use proptest::prelude::*;

const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(1);

fn store() -> MemoryStore {
    let store = MemoryStore::new();
    store.create_open_shard(SHARD, EPOCH).expect("a shard");
    store
}

fn home(store: &MemoryStore) -> DictionaryShard<'_> {
    DictionaryShard { store, shard: SHARD, epoch: EPOCH }
}

fn policy(text: &str) -> IndexingPolicy {
    IndexingPolicy::parse(&Value::parse(text.as_bytes()).expect("JSON")).expect("a policy")
}

fn any_policy() -> impl Strategy<Value = IndexingPolicy> {
    let policies = [
        "{}",
        r#"{"indexingMode":"none"}"#,
        r#"{"includedPaths":[{"path":"/a/?"},{"path":"/b/[]/*"}],"excludedPaths":[{"path":"/*"}]}"#,
        r#"{"excludedPaths":[{"path":"/a/*"},{"path":"/b/?"}],"includedPaths":[{"path":"/*"},{"path":"/a/b/?"}]}"#,
        r#"{"excludedPaths":[{"path":"/b/[]/?"}],"compositeIndexes":[[{"path":"/a"},{"path":"/b/c","order":"descending"}]]}"#,
        r#"{"includedPaths":[{"path":"/\"_etag\"/?"}],"excludedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/_ts"},{"path":"/a"}]]}"#,
    ];
    prop::sample::select(policies.map(policy).to_vec())
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..3).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(|text| Value::from(text.as_str())),
        Just(Value::from("long".repeat(100).as_str())),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::array),
            any_object(inner),
        ]
    })
}

fn any_object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["a", "b", "c", "[]", "_etag"]);
    prop::collection::btree_map(names, value, 0..4)
        .prop_map(|map| Value::object(map.into_iter().map(|(n, v)| (n.into(), v)).collect()))
}

/// An item: always an object.
fn any_item() -> impl Strategy<Value = Value> {
    any_object(any_value())
}

fn indexed(item: &Value, ts: i64) -> IndexedItem<'_> {
    let system = vec![("_ts", Value::from(ts)), ("_etag", Value::from(format!("e{ts}")))];
    IndexedItem::new(item.as_object().expect("an item"), &["_ts", "_etag"], system)
}

fn terms(store: &MemoryStore, rules: &IndexRules, item: &Value, ts: i64) -> Terms {
    let dictionary = Dictionary::default();
    dictionary.terms(home(store), rules, &indexed(item, ts)).expect("terms")
}

/// The keys that an item has under one policy alone.
fn keys(store: &MemoryStore, policy: &IndexingPolicy, item: &Value, ts: i64, row: Row) -> Keys {
    let terms = terms(store, &IndexRules::new(policy, &[]), item, ts);
    terms.iter().map(|(term, _)| maintain::key(term, row)).collect()
}

type Keys = BTreeSet<Vec<u8>>;

fn apply(part: &Part, keys: &mut Keys) {
    for (_, key) in &part.deletes {
        keys.remove(key);
    }
    keys.extend(part.puts.iter().map(|put| put.key.clone()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_a_write_changes_makes_the_terms_of_the_item_after(
        now in any_policy(),
        older in prop::collection::vec(any_policy(), 0..3),
        written_under in any::<prop::sample::Index>(),
        before in prop::option::of(any_item()),
        after in prop::option::of(any_item()),
        keeps_row in any::<bool>(),
    ) {
        let store = store();
        let rules = IndexRules::new(&now, &older);
        let (old_row, new_row) = (Row(1), if keeps_row { Row(1) } else { Row(2) });
        // The item was last written or built under any of the policies in effect.
        let policies: Vec<&IndexingPolicy> = [&now].into_iter().chain(&older).collect();
        let under = policies[written_under.index(policies.len())];
        let mut stored = before.as_ref()
            .map(|item| keys(&store, under, item, 1, old_row)).unwrap_or_default();
        let old = before.as_ref().map(|item| terms(&store, &rules, item, 1));
        let new = after.as_ref().map(|item| terms(&store, &rules, item, 2));
        let mut part = Part::new(SHARD, EPOCH);
        maintain(
            old.as_ref().map(|terms| TermImage { terms, row: old_row }),
            new.as_ref().map(|terms| TermImage { terms, row: new_row }),
            rules.all(),
            &mut part,
        );
        apply(&part, &mut stored);
        let expected = after.as_ref()
            .map(|item| keys(&store, &now, item, 2, new_row)).unwrap_or_default();
        prop_assert_eq!(&stored, &expected);
        // Where one policy is in effect, nothing is written that was there, with what stands under it.
        if let (true, true, Some(old), Some(new)) = (older.is_empty(), keeps_row, old, new) {
            let terms = |terms: &Terms| terms.iter().map(|(t, _)| t.to_vec()).collect::<Keys>();
            let puts = new.entries().filter(|entry| {
                !old.entries().any(|was| was.term == entry.term && was.value == entry.value)
            });
            prop_assert_eq!(part.puts.len(), puts.count());
            prop_assert_eq!(part.deletes.len(), terms(&old).difference(&terms(&new)).count());
        }
    }

    #[test]
    fn building_anew_makes_the_terms_of_the_policy_of_now(
        now in any_policy(),
        older in prop::collection::vec(any_policy(), 1..3),
        item in any_item(),
    ) {
        let store = store();
        let rules = IndexRules::new(&now, &older);
        for under in [&now].into_iter().chain(&older) {
            let mut stored = keys(&store, under, &item, 1, Row(1));
            let all = terms(&store, &rules, &item, 1);
            let image = TermImage { terms: &all, row: Row(1) };
            let mut part = Part::new(SHARD, EPOCH);
            maintain(Some(image), Some(image), rules.all(), &mut part);
            apply(&part, &mut stored);
            prop_assert_eq!(&stored, &keys(&store, &now, &item, 1, Row(1)));
        }
    }

    /// What a planner relies on: a usable path has a term for every value, and the term is the one
    /// that a reader looks for.
    #[test]
    fn every_value_at_a_usable_path_has_its_term(
        now in any_policy(),
        older in prop::collection::vec(any_policy(), 0..2),
        under in any::<prop::sample::Index>(),
        item in any_item(),
    ) {
        let (store, dictionary) = (store(), Dictionary::default());
        let state = IndexState::new(&now, older.clone(), vec![]);
        let policies: Vec<&IndexingPolicy> = [&now].into_iter().chain(&older).collect();
        let stored = keys(&store, policies[under.index(policies.len())], &item, 1, Row(1));
        for text in ["/a", "/b", "/a/b", "/a/b/c", "/b/[]", "/b/[]/a", "/a/[]/[]", "/\"[]\""] {
            let path = IndexPath::parse(text, true).expect("a path").steps;
            if !state.is_usable(&path) {
                continue;
            }
            let id = dictionary.path_id(home(&store), &path).expect("a number");
            let mut found = vec![];
            values_at(&item, &path, &mut found);
            for value in &found {
                let id = id.expect("a path that an item has");
                prop_assert!(stored.contains(&key::term(id, value, Row(1))), "{} {:?}", text, value);
            }
            let here = id.map(key::terms_of).map_or(0, |b| stored.range(b.from..b.to).count());
            let distinct: BTreeSet<Vec<u8>> = found.iter().map(|value| {
                let mut term = vec![];
                encode_term(value, &mut term);
                term
            }).collect();
            prop_assert_eq!(here, distinct.len());
        }
    }
}

/// Every value at a path, found without any index.
fn values_at(value: &Value, path: &[IndexStep], found: &mut Vec<Value>) {
    match path.split_first() {
        None => found.push(value.clone()),
        Some((IndexStep::Property(name), rest)) => {
            let below = value.get(name);
            if !below.is_undefined() {
                values_at(below, rest, found);
            }
        }
        Some((IndexStep::Elements, rest)) => {
            value.as_array().unwrap_or_default().iter().for_each(|v| values_at(v, rest, found));
        }
        Some((IndexStep::Tuple(_), _)) => {}
    }
}

#[test]
fn the_policy_of_now_is_the_first_bit() {
    assert_eq!(IndexRules::new(&policy("{}"), &[]).all(), NOW);
}
