//! Shapes lead to the rows that lack a path.

use orrery_index::{
    Dictionary, DictionaryShard, IndexPath, IndexRules, IndexedItem, IndexingPolicy, shapes,
};
use orrery_storage::key::{self, PathId, ShapeId};
use orrery_storage::{MemoryStore, ReadAt, Store};
use orrery_types::{Epoch, ShardId, Value, limits};

const SHARD: ShardId = ShardId(1);
const EPOCH: Epoch = Epoch(1);

struct Bench {
    store: MemoryStore,
    dictionary: Dictionary,
    rules: IndexRules,
}

impl Bench {
    fn new(policy: &str) -> Self {
        let store = MemoryStore::new();
        store.create_open_shard(SHARD, EPOCH).expect("a shard");
        let policy = Value::parse(policy.as_bytes()).expect("JSON");
        let rules = IndexRules::new(&IndexingPolicy::parse(&policy).expect("a policy"), &[]);
        Self { store, dictionary: Dictionary::default(), rules }
    }

    fn home(&self) -> DictionaryShard<'_> {
        DictionaryShard { store: &self.store, shard: SHARD, epoch: EPOCH }
    }

    fn shape(&self, json: &str) -> ShapeId {
        let item = Value::parse(json.as_bytes()).expect("JSON");
        let item = IndexedItem::new(item.as_object().expect("an object"), &[], vec![]);
        let terms = self.dictionary.terms(self.home(), &self.rules, &item).expect("terms");
        let again = self.dictionary.known_terms(&self.rules, &item);
        let shape = |terms: &orrery_index::Terms| {
            let with_row = |term: &[u8]| [term, &[0; 8]].concat();
            let mut shapes = terms.iter().filter_map(|(t, _)| key::parse_shape(&with_row(t)));
            let (shape, _) = shapes.next().expect("a shape");
            assert_eq!(shapes.next(), None, "an item has one");
            shape
        };
        assert_eq!(again.as_ref().map(shape), Some(shape(&terms)), "what was learnt is known");
        shape(&terms)
    }

    fn path(&self, text: &str) -> PathId {
        let path = IndexPath::parse(text, true).expect("a path").steps;
        self.dictionary.path_id(self.home(), &path).expect("an answer").expect("a number")
    }

    fn without(&self, path: &str) -> Vec<ShapeId> {
        let snapshot = self.store.snapshot(SHARD, ReadAt::Latest).expect("a snapshot");
        shapes::without(&*snapshot, self.path(path)).expect("shapes")
    }
}

#[test]
fn items_with_the_same_paths_share_a_shape() {
    let bench = Bench::new(r#"{"excludedPaths":[{"path":"/x/*"}]}"#);
    let first = bench.shape(r#"{"a":1,"b":{"c":2},"l":[{"y":1}]}"#);
    assert_ne!(first, ShapeId::ANY);
    // Neither order nor values, what arrays hold nor what is not indexed makes a difference.
    assert_eq!(bench.shape(r#"{"x":{"y":1},"l":[],"b":{"c":[]},"a":null}"#), first);
    let second = bench.shape(r#"{"a":1,"b":{},"l":[]}"#);
    let third = bench.shape(r#"{"b":{"c":2}}"#);
    assert!(first != second && second != third && first != third);
    assert_eq!(bench.without("/b"), [ShapeId::ANY]);
    assert_eq!(bench.without("/a"), [ShapeId::ANY, third]);
    assert_eq!(bench.without("/b/c"), [ShapeId::ANY, second]);
}

#[test]
fn beyond_the_limits_a_shape_is_any_and_stays_so() {
    let mut bench = Bench::new("{}");
    let item = |n: usize| format!(r#"{{"id":1,"p{n}":1}}"#);
    for n in 0..limits::INDEX_SHAPES_MAX {
        assert_ne!(bench.shape(&item(n)), ShapeId::ANY, "{n}");
    }
    let last = bench.shape(&item(limits::INDEX_SHAPES_MAX - 1));
    for _ in 0..2 {
        assert_eq!(bench.shape(&item(limits::INDEX_SHAPES_MAX)), ShapeId::ANY);
        assert_eq!(bench.shape(&item(limits::INDEX_SHAPES_MAX - 1)), last);
        assert_eq!(bench.without("/id"), [ShapeId::ANY]);
        assert_eq!(bench.without("/p0").len(), limits::INDEX_SHAPES_MAX);
        bench.dictionary = Dictionary::default();
    }
    let bench = Bench::new("{}");
    let wide = |paths: usize| {
        let properties: Vec<String> = (0..paths).map(|n| format!(r#""p{n}":1"#)).collect();
        format!("{{{}}}", properties.join(","))
    };
    assert_ne!(bench.shape(&wide(limits::INDEX_SHAPE_PATHS_MAX)), ShapeId::ANY);
    assert_eq!(bench.shape(&wide(limits::INDEX_SHAPE_PATHS_MAX + 1)), ShapeId::ANY);
}
