//! A model holds whichever way a write comes: single, patch, batch, bulk, stored procedure, trigger,
//! expiry, delete by partition key; on memory and on disk.

use bytes::Bytes;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::script::{CallFacts, ScriptKind, TriggerNames, TriggeredWrite, WriteKind};
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer, BatchOperation, Content};
use orrery_engine::transaction::bulk::OnError;
use orrery_types::{PartitionKey, Value};

use crate::world::{World, json, name};

const MODEL: &str = r#"{"version":1,"types":{
    "bill":{"container":"shop","where":"c.type = 'bill'"},
    "line":{"container":"shop","where":"c.type = 'line'"},
    "ledger":{"container":"ledgers"}},
  "relations":[
    {"name":"bill","from":"line","path":"/billId","to":"bill","partitionKey":["/tenant"],
     "onMissing":"reject","onDelete":"cascade","copies":{"day":"t.day"},"inverse":{"name":"lines"}},
    {"name":"ledger","from":"line","path":"/ledgerId","to":"ledger","propagate":"sync",
     "inverse":{"name":"entries"}}],
  "aggregates":[
    {"on":"bill","path":"/sum","of":"lines","value":"SUM(c.n)"},
    {"on":"ledger","path":"/most","of":"entries","value":"MAX(c.n)","propagate":"sync"},
    {"on":"ledger","path":"/mean","of":"entries","value":"AVG(c.n)"}],
  "buckets":[{"on":"bill","array":"/remarks","elementKey":"id","count":"/remarkCount",
    "bucket":{"items":4,"link":"/billId"}}]}"#;

fn tenant() -> PartitionKey {
    PartitionKey::parse_header(r#"["t"]"#).expect("a key")
}

fn line(id: &str, n: i64) -> String {
    format!(
        r#"{{"id":"{id}","tenant":"t","type":"line","billId":"b","ledgerId":"l","n":{n},"ttl":100}}"#
    )
}

fn remark(id: &str) -> String {
    format!(r#"[{{"op":"add","path":"/remarks/-","value":{{"id":"{id}"}}}}]"#)
}

struct Shop(World);

impl Shop {
    fn new(mut world: World) -> Self {
        world.database();
        let key = r#""partitionKey":{"paths":["/tenant"],"kind":"Hash"},"defaultTtl":-1"#;
        world.create_container(&format!(r#"{{"id":"shop",{key}}}"#), Some(12_000));
        let key = r#""partitionKey":{"paths":["/id"],"kind":"Hash"}"#;
        world.create_container(&format!(r#"{{"id":"ledgers",{key}}}"#), None);
        let none = Preconditions::default();
        world.engine().models().store(&name("d"), &json(MODEL), &none).expect("the model is taken");
        let (shop, ledgers) = (world.container("shop"), world.container("ledgers"));
        let bill = br#"{"id":"b","tenant":"t","type":"bill","day":1,"ttl":1000}"#;
        world.engine().items().create(&shop, None, bill).expect("a bill");
        world.engine().items().create(&ledgers, None, br#"{"id":"l"}"#).expect("a ledger");
        Self(world)
    }

    /// Sum and remarks of the bill, greatest and mean value of the ledger.
    #[track_caller]
    fn is(&mut self, expected: [&str; 4]) {
        self.0.run_tasks();
        let read = |container: &str, key: &str, id: &str| {
            let key = PartitionKey::parse_header(&format!("[\"{key}\"]")).expect("a key");
            let container = self.0.container(container);
            let item = self.0.engine().items().read(&container, Some(&key), &name(id));
            item.map(|item| Value::parse(&item.body).expect("JSON")).unwrap_or_default()
        };
        let (bill, ledger) = (read("shop", "t", "b"), read("ledgers", "l", "l"));
        let found =
            [bill.get("sum"), bill.get("remarkCount"), ledger.get("most"), ledger.get("mean")];
        assert_eq!(found.map(Value::to_json), expected);
        let drift =
            self.0.engine().model_verification().verify(&name("d")).expect("it is verified");
        assert!(drift.is_empty(), "{drift:#?}");
        for id in ["shop", "ledgers"] {
            let faults =
                self.0.engine().insight().verify(&self.0.container(id)).expect("it is verified");
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }

    fn operation(action: BatchAction) -> BatchOperation {
        let (conditions, content) = (Preconditions::default(), Content::Full);
        BatchOperation { action, partition_key: Some(tenant()), conditions, content }
    }

    fn facts(&self) -> CallFacts {
        let container = self.0.container("shop");
        CallFacts {
            self_link: container.self_link().to_owned(),
            alt_link: container.alt_link().to_owned(),
            ..CallFacts::default()
        }
    }

    fn script(&self, kind: ScriptKind, id: &str, body: &str) {
        let properties = format!(
            r#"{{"id":"{id}","body":{},"triggerType":"Post","triggerOperation":"All"}}"#,
            Value::from(body).to_json()
        );
        let container = self.0.container("shop");
        let made = self.0.engine().scripts().create(&container, kind, &json(&properties), true);
        made.unwrap_or_else(|e| panic!("{body}: {e}"));
    }
}

fn through_every_door(world: World) {
    let mut shop = Shop::new(world);
    shop.is(["0", "0", "", ""]);
    let container = shop.0.container("shop");
    // A batch, of which all happens or nothing.
    let operations = [
        Shop::operation(BatchAction::Create(line("1", 5).into())),
        Shop::operation(BatchAction::Patch(name("b"), Bytes::from(remark("r1")))),
        Shop::operation(BatchAction::Create(line("2", 7).into())),
    ];
    let answers =
        shop.0.engine().transactions().batch(&container, Some(&tenant()), &operations).expect("it");
    assert!(answers.answers.iter().all(BatchAnswer::is_success), "{answers:?}");
    shop.is(["12", "1", "7", "6"]);
    let bad = line("4", 50).replace(r#""billId":"b""#, r#""billId":"none""#);
    let operations = [
        Shop::operation(BatchAction::Create(line("3", 100).into())),
        Shop::operation(BatchAction::Create(bad.into())),
    ];
    let answers =
        shop.0.engine().transactions().batch(&container, Some(&tenant()), &operations).expect("it");
    assert!(answers.answers.iter().any(|answer| !answer.is_success()));
    shop.is(["12", "1", "7", "6"]);
    // Bulk, of which each happens for itself.
    let answers = shop
        .0
        .engine()
        .transactions()
        .bulk(&container, None, None, &operations, OnError::Continue)
        .expect("it");
    assert_eq!(answers.answers.iter().filter(|answer| answer.is_success()).count(), 1);
    shop.is(["112", "1", "100", "37.333333333333336"]);
    // A procedure.
    let body = "function add(a, b) { const c = getContext().getCollection(), l = c.getSelfLink(); \
        c.createDocument(l, a, function (e) { if (e) throw e; }); \
        c.createDocument(l, b, function (e) { if (e) throw e; }); }";
    shop.script(ScriptKind::Procedure, "add", body);
    let run = |shop: &Shop, a: &str, b: &str| {
        let (arguments, facts) = (format!("[{a},{b}]"), shop.facts());
        let (key, engine) = (tenant(), shop.0.engine());
        engine.scripts().execute_procedure(
            &container,
            &name("add"),
            Some(&key),
            arguments.as_bytes(),
            &facts,
        )
    };
    run(&shop, &line("5", 1), &line("6", 2)).expect("it runs");
    shop.is(["115", "1", "100", "23"]);
    assert!(run(&shop, &line("7", 999), &line("5", 1)).is_err(), "the second is there already");
    shop.is(["115", "1", "100", "23"]);
    // A trigger.
    let other = line("9", -1);
    let body = format!(
        "function also() {{ const c = getContext().getCollection(); \
         c.createDocument(c.getSelfLink(), {other}, function (e) {{ if (e) throw e; }}); }}"
    );
    shop.script(ScriptKind::Trigger, "also", &body);
    let write = TriggeredWrite {
        kind: WriteKind::Create,
        item: None,
        text: line("8", 4).into(),
        conditions: Preconditions::default(),
    };
    let names = TriggerNames { before: vec![], after: vec!["also".into()] };
    let facts = shop.facts();
    let done = shop.0.engine().scripts().write_with_triggers(
        &container,
        Some(&tenant()),
        &write,
        &names,
        &facts,
    );
    done.expect("it runs");
    shop.is(["118", "1", "100", "16.857142857142858"]);
    // Expiry of the lines, which live a hundred seconds.
    shop.0.clock.advance_s(101);
    shop.0.reopen();
    shop.is(["0", "1", "", ""]);
    // The end of the whole partition.
    let container = shop.0.container("shop");
    let put =
        |text: &str| shop.0.engine().items().create(&container, None, text.as_bytes()).map(drop);
    put(&line("x", 3)).expect("a line");
    shop.is(["3", "1", "3", "3"]);
    shop.0.engine().erasure().erase_partition_key(&container, &tenant()).expect("it is erased");
    shop.is(["", "", "", ""]);
}

#[test]
fn a_model_holds_whichever_way_a_write_comes() {
    through_every_door(World::memory());
    through_every_door(World::rocks());
}
