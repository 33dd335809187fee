//! The paths whose instructions are counted: what is stored before, and the requests of each.

use crate::message::{self, Signer, Target, Writing};

/// Items of the container that is read, and of each logical partition that a query reads.
const ITEMS: u64 = 400;
const GROUP: u64 = 10;
/// Beyond this throughput a container starts with several physical partitions.
const THROUGHPUT: u32 = 18_000;

/// How its requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// HTTP/1.1 in plain text.
    Plain,
    /// HTTP/1.1 over TLS.
    Tls,
    Direct,
}

/// One path: its name, what is created before it, the request with a number, and the status that answers it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) status: u16,
    pub(super) setup: Vec<Vec<u8>>,
    pub(super) way: Way,
    pub(super) request: Box<dyn FnMut(u64) -> Vec<u8>>,
}

/// Containers with a model, a container with several partitions, and its items.
pub(super) fn prepare(signer: &Signer) -> Vec<Vec<u8>> {
    let mut requests = signer.counted_setup();
    requests.push(signer.container(THROUGHPUT));
    let mut create = signer.create();
    requests.extend((0..ITEMS).map(|number| create.numbered(number).to_vec()));
    // Their partition keys are behind those of the items that are created one by one.
    for group in 0..GROUP {
        let of_group = (0..GROUP).map(|n| ITEMS + group * GROUP + n);
        requests.extend(of_group.map(|number| signer.create_in(group_key(group), number)));
    }
    requests
}

fn group_key(group: u64) -> u64 {
    900_000_000 + group
}

/// All paths. The later ones are measured after the writes of the earlier ones, so a new one comes last.
pub(super) fn cases(signer: &Signer, target: &Target) -> Vec<Case> {
    let mut all = reads_and_writes(signer);
    all.extend(queries(signer));
    all.extend(compound(signer));
    all.extend(over_tls(signer, target));
    all
}

fn case(name: &'static str, status: u16, request: impl FnMut(u64) -> Vec<u8> + 'static) -> Case {
    Case { name, status, setup: vec![], way: Way::Plain, request: Box::new(request) }
}

fn reads_and_writes(signer: &Signer) -> Vec<Case> {
    let (reader, mut create) = (signer.clone(), signer.create());
    let mut upsert = signer.upserted_order("counted", 0);
    vec![
        case("point read", 200, move |n| reader.read(n % ITEMS)),
        case("create", 201, move |n| create.numbered(1_000_000 + n).to_vec()),
        case("upsert under a model with a copy and a count", 201, move |n| {
            upsert.numbered(n).to_vec()
        }),
    ]
}

fn queries(signer: &Signer) -> Vec<Case> {
    let body = |text: &str| format!(r#"{{"query":"{text}","parameters":[]}}"#);
    let equal = body("SELECT * FROM c WHERE c.name = 'An item like many others' AND c.stock = 12");
    let ordered = body("SELECT * FROM c ORDER BY c.id DESC");
    let counted = body("SELECT VALUE COUNT(1) FROM c WHERE c.stock = 12");
    let (keyed, crossing, counting) = (signer.clone(), signer.clone(), signer.clone());
    vec![
        case("query by partition key and equality", 200, move |n| {
            let key = message::partition(group_key(n % GROUP));
            keyed.query(&equal, Some(&key), 100, None)
        }),
        case("page of a cross-partition ORDER BY", 200, move |_| {
            crossing.query(&ordered, None, 20, None)
        }),
        case("COUNT from the index", 200, move |_| counting.query(&counted, None, 100, None)),
    ]
}

fn compound(signer: &Signer) -> Vec<Case> {
    let (replacer, scanning, following) = (signer.clone(), signer.clone(), signer.clone());
    let filter = r#"{"query":"SELECT VALUE c.id FROM c WHERE c.stock + 1 = 0","parameters":[]}"#;
    let batched = group_key(GROUP);
    let mut batch = signer.group_batch(batched, GROUP);
    let setup = (0..GROUP).map(|number| signer.create_in(batched, number)).collect();
    vec![
        case("upsert that replaces an item", 200, move |n| {
            let stock = format!("\"stock\":{}", 100 + n);
            let body = message::body(n % ITEMS).replacen("\"stock\":12", &stock, 1);
            replacer.write_in(&message::partition(n % ITEMS), &body, Writing::Upsert)
        }),
        Case {
            setup,
            ..case("batch that reads and replaces ten items", 200, move |n| {
                batch.numbered(100_000_000 + n).to_vec()
            })
        },
        case("page of the change feed", 200, move |_| following.changes(20, None)),
        case("filter that no index serves", 200, move |_| scanning.query(filter, None, 100, None)),
    ]
}

/// The same read over TLS, and the same read and create as frames.
fn over_tls(signer: &Signer, target: &Target) -> Vec<Case> {
    let (reader, direct_reader) = (signer.clone(), signer.clone());
    let (target, mut create) = (target.clone(), signer.create_frame(target));
    let of = |way, case| Case { way, ..case };
    vec![
        of(Way::Tls, case("point read over TLS", 200, move |n| reader.read(n % ITEMS))),
        of(
            Way::Direct,
            case("point read in Direct mode", 200, move |n| {
                direct_reader.read_frame(&target, n % ITEMS)
            }),
        ),
        of(
            Way::Direct,
            case("create in Direct mode", 201, move |n| create.numbered(2_000_000 + n).to_vec()),
        ),
    ]
}
