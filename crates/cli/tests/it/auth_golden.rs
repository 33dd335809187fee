//! Who may do what: every operation of the server under every kind of credential, as a table of
//! statuses in `golden/auth/matrix.txt`. 401 and 403 are refusals; any other status means that the
//! request was let through, and requests that would change something are made to fail after that.
//!
//! Routes beside the protocol need no credentials, and are the last rows.
//!
//! A new operation has no row until [`samples`] has a request for it, and does not compile before.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use orrery_engine::Engine;
use orrery_engine::throughput::ThroughputRequest;
use orrery_server::auth::keys::WELL_KNOWN_KEY;
use orrery_server::consistency::ConsistencyLevel;
use orrery_server::wire::headers::RequestHeaders;
use orrery_server::wire::link::{Address, ResourceLink};
use orrery_server::{Operation, SideRoute};
use orrery_types::{Clock as _, Value};

use crate::client::{Answer, Connection, http_date, signature, signed};
use crate::local::{Local, PRIMARY, READ_ONLY, SECONDARY, SECONDARY_READ_ONLY};

const PATH: &str = "../../golden/auth/matrix.txt";
const CONTAINER: &str = "/dbs/d/colls/c";
const ITEM: &str = "/dbs/d/colls/c/docs/one";
const ITEMS: &str = "/dbs/d/colls/c/docs";
const KEY: &str = "x-ms-documentdb-partitionkey";
/// Lets a write through to the check of its etag, and no further.
const STALE: (&str, &str) = ("if-match", "\"00000000-0000-0000-0000-000000000000\"");
const QUERY: (&str, &str) = ("x-ms-documentdb-isquery", "true");
const QUERY_BODY: &str = r#"{"query":"SELECT * FROM c"}"#;

const TRANSACTION: &str = "x-ms-cosmos-operation-type";
const READ_P: &str = r#"{"operations":[{"databaseName":"d","collectionName":"c","id":"one","partitionKey":["p"],
    "operationType":"Read"}]}"#;
const READ_Q: &str = r#"{"operations":[{"databaseName":"d","collectionName":"c","id":"one","partitionKey":["q"],
    "operationType":"Read"}]}"#;
const READ_BOTH: &str = r#"{"operations":[{"databaseName":"d","collectionName":"c","id":"one","partitionKey":["p"],
    "operationType":"Read"},{"databaseName":"d","collectionName":"other","id":"one","partitionKey":["p"],
    "operationType":"Read"}]}"#;
/// The item has another key than the operation.
const CREATE_P: &str = r#"{"operations":[{"databaseName":"d","collectionName":"c","id":"one","partitionKey":["p"],
    "operationType":"Create","resourceBody":{"id":"one","p":"other"}}]}"#;
/// None of the two exists.
const DELETE_BOTH: &str = r#"{"operations":[{"databaseName":"d","collectionName":"c","id":"no","partitionKey":["p"],
    "operationType":"Delete"},{"databaseName":"d","collectionName":"other","id":"no","partitionKey":["p"],
    "operationType":"Delete"}]}"#;

fn transaction(body: &'static str) -> Sample {
    let token = "11111111-2222-3333-4444-555555555555";
    sample("POST", "/operations/dtc").with("x-ms-cosmos-idempotency-token", token).body(body)
}

fn read_transactions() -> Vec<Sample> {
    let bodies = [(READ_P, "key p"), (READ_Q, "key q"), (READ_BOTH, "two containers")];
    let read = |(body, note)| transaction(body).with(TRANSACTION, "Read").note(note);
    bodies.into_iter().map(read).collect()
}

/// A request that shows whether an operation is allowed.
pub(crate) struct Sample {
    pub(crate) note: &'static str,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
}

fn sample(method: &'static str, path: impl Into<String>) -> Sample {
    Sample { note: "", method, path: path.into(), headers: Vec::new(), body: "" }
}

impl Sample {
    fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn stale(self) -> Self {
        self.with(STALE.0, STALE.1)
    }

    fn body(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    fn query(self) -> Self {
        self.with(QUERY.0, QUERY.1).body(QUERY_BODY)
    }

    /// The same under key p, under another key, and under none.
    fn under_keys(self) -> Vec<Self> {
        let under = |note, key: Option<&'static str>| {
            let mut headers = self.headers.clone();
            headers.extend(key.map(|key| (KEY, key)));
            Self { note, method: self.method, path: self.path.clone(), headers, body: self.body }
        };
        vec![
            under("key p", Some("[\"p\"]")),
            under("key q", Some("[\"q\"]")),
            under("no key", None),
        ]
    }

    /// What the server takes the request for.
    pub(crate) fn operation(&self) -> Operation {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let headers = RequestHeaders::parse(&headers).unwrap();
        let link = ResourceLink::parse(&self.path).unwrap();
        Operation::of(&Method::from_bytes(self.method.as_bytes()).unwrap(), &link.target, &headers)
    }
}

/// The same request to resources of the three kinds of scripts.
fn scripts(make: impl Fn(&str) -> Sample) -> Vec<Sample> {
    let of = |word, note| make(word).note(note);
    vec![of("sprocs", "procedure"), of("triggers", "trigger"), of("udfs", "function")]
}

/// The requests of an operation.
pub(crate) fn samples(operation: Operation, rids: &Rids) -> Vec<Sample> {
    use Operation as O;
    let one = |sample: Sample| vec![sample];
    match operation {
        O::ReadAccount => one(sample("GET", "/")),
        O::ListAddresses => vec![
            sample("GET", "/addresses/?$resolveFor=dbs").note("master"),
            sample("GET", "/addresses/?$resolveFor=dbs/d/colls/c/docs").note("container"),
        ],
        O::ListDatabases => one(sample("GET", "/dbs")),
        O::QueryDatabases => one(sample("POST", "/dbs").query()),
        O::CreateDatabase => one(sample("POST", "/dbs").body("{}")),
        O::ReadDatabase => one(sample("GET", "/dbs/d")),
        O::ReplaceDatabase => one(sample("PUT", "/dbs/d").stale().body("{}")),
        O::DeleteDatabase => one(sample("DELETE", "/dbs/d").stale()),
        O::ListContainers => one(sample("GET", "/dbs/d/colls")),
        O::QueryContainers => one(sample("POST", "/dbs/d/colls").query()),
        O::CreateContainer => one(sample("POST", "/dbs/d/colls").body("{}")),
        O::ReadContainer => one(sample("GET", CONTAINER)),
        O::ReplaceContainer => one(sample("PUT", CONTAINER).stale().body("{}")),
        O::DeleteContainer => one(sample("DELETE", CONTAINER).stale()),
        O::ListRanges => one(sample("GET", "/dbs/d/colls/c/pkranges")),
        O::QueryRanges => one(sample("POST", "/dbs/d/colls/c/pkranges").query()),
        O::SplitRange => one(sample("POST", "/dbs/d/colls/c/operations/split").body("[]")),
        O::MergeRanges => one(sample("POST", "/dbs/d/colls/c/operations/merge").body("[]")),
        O::ListUsers
        | O::QueryUsers
        | O::CreateUser
        | O::ReadUser
        | O::ReplaceUser
        | O::DeleteUser
        | O::ListPermissions
        | O::QueryPermissions
        | O::CreatePermission
        | O::ReadPermission
        | O::ReplacePermission
        | O::DeletePermission
        | O::ListEncryptionKeys
        | O::QueryEncryptionKeys
        | O::CreateEncryptionKey
        | O::ReadEncryptionKey
        | O::ReplaceEncryptionKey
        | O::DeleteEncryptionKey
        | O::ListOffers
        | O::QueryOffers
        | O::ReadOffer
        | O::ReplaceOffer => database_samples(operation, rids),
        O::ListRoleDefinitions
        | O::CreateRoleDefinition
        | O::ReadRoleDefinition
        | O::StoreRoleDefinition
        | O::DeleteRoleDefinition
        | O::ListRoleAssignments
        | O::CreateRoleAssignment
        | O::ReadRoleAssignment
        | O::StoreRoleAssignment
        | O::DeleteRoleAssignment => role_samples(operation),
        O::ReadStatistics
        | O::ListTasks
        | O::RetryTasks
        | O::ListNodes
        | O::BeginBackup
        | O::EndBackup
        | O::ReadBackupFile
        | O::BeginCopy
        | O::ContinueCopy
        | O::EndCopy => server_samples(operation),
        O::ReadModel => one(sample("GET", "/dbs/d/_model")),
        O::StoreModel => one(sample("PUT", "/dbs/d/_model").body("[]")),
        O::DeleteModel => one(sample("DELETE", "/dbs/d/_model").stale()),
        O::ReadAdvice => one(sample("GET", "/dbs/d/_advisor")),
        O::Unsupported => one(sample("PATCH", "/dbs")),
        O::ListConflicts | O::QueryConflicts | O::ReadConflict | O::DeleteConflict => {
            conflict_samples(operation)
        }
        O::Attachments => one(sample("GET", "/dbs/d/colls/c/docs/one/attachments")),
        O::ListItems
        | O::ReadChanges
        | O::PlanQuery
        | O::QueryItems
        | O::RunBatch
        | O::CreateItem
        | O::UpsertItem
        | O::ReadItem
        | O::ReplaceItem
        | O::PatchItem
        | O::DeleteItem
        | O::DeletePartitionKey => item_samples(operation, rids),
        O::ReadTransaction => read_transactions(),
        O::CommitTransaction => vec![
            transaction(CREATE_P).note("create, key p"),
            transaction(DELETE_BOTH).note("delete, two containers"),
        ],
        O::ListScripts
        | O::QueryScripts
        | O::CreateScript
        | O::ReadScript
        | O::ReplaceScript
        | O::DeleteScript
        | O::ExecuteProcedure => script_samples(operation),
    }
}

fn conflict_samples(operation: Operation) -> Vec<Sample> {
    use Operation as O;
    let one = |sample: Sample| vec![sample];
    match operation {
        O::ListConflicts => one(sample("GET", "/dbs/d/colls/c/conflicts")),
        O::QueryConflicts => one(sample("POST", "/dbs/d/colls/c/conflicts").query()),
        O::ReadConflict => one(sample("GET", "/dbs/d/colls/c/conflicts/x")),
        O::DeleteConflict => one(sample("DELETE", "/dbs/d/colls/c/conflicts/x")),
        other => panic!("{other:?} is not about conflicts"),
    }
}

/// Of what is asked of the server as such, and not of an account.
fn server_samples(operation: Operation) -> Vec<Sample> {
    use Operation as O;
    let one = |sample: Sample| vec![sample];
    match operation {
        O::ReadStatistics => one(sample("GET", "/_orrery/statistics")),
        O::ListTasks => one(sample("GET", "/_orrery/tasks")),
        O::RetryTasks => one(sample("POST", "/_orrery/tasks")),
        O::ListNodes => one(sample("GET", "/_orrery/nodes")),
        O::BeginBackup => one(sample("POST", "/_backups")),
        O::EndBackup => one(sample("DELETE", "/_backups/none")),
        O::ReadBackupFile => one(sample("GET", "/_backups/none/files/0")),
        O::BeginCopy => one(sample("POST", "/_copies")),
        O::ContinueCopy => one(sample("POST", "/_copies/none/steps/close")),
        O::EndCopy => one(sample("DELETE", "/_copies/none")),
        other => panic!("{other:?} is about an account"),
    }
}

/// Of what belongs to a database or the account beside containers.
fn database_samples(operation: Operation, rids: &Rids) -> Vec<Sample> {
    use Operation as O;
    let one = |sample: Sample| vec![sample];
    match operation {
        O::ListUsers => one(sample("GET", "/dbs/d/users")),
        O::QueryUsers => one(sample("POST", "/dbs/d/users").query()),
        O::CreateUser => one(sample("POST", "/dbs/d/users").body("{}")),
        O::ReadUser => one(sample("GET", "/dbs/d/users/u")),
        O::ReplaceUser => one(sample("PUT", "/dbs/d/users/u").stale().body("{}")),
        O::DeleteUser => one(sample("DELETE", "/dbs/d/users/u").stale()),
        O::ListPermissions => one(sample("GET", "/dbs/d/users/u/permissions")),
        O::QueryPermissions => one(sample("POST", "/dbs/d/users/u/permissions").query()),
        O::CreatePermission => one(sample("POST", "/dbs/d/users/u/permissions").body("{}")),
        O::ReadPermission => one(sample("GET", "/dbs/d/users/u/permissions/p")),
        O::ReplacePermission => {
            one(sample("PUT", "/dbs/d/users/u/permissions/p").stale().body("{}"))
        }
        O::DeletePermission => one(sample("DELETE", "/dbs/d/users/u/permissions/p").stale()),
        O::ListEncryptionKeys => one(sample("GET", "/dbs/d/clientencryptionkeys")),
        O::QueryEncryptionKeys => one(sample("POST", "/dbs/d/clientencryptionkeys").query()),
        O::CreateEncryptionKey => one(sample("POST", "/dbs/d/clientencryptionkeys").body("{}")),
        O::ReadEncryptionKey => one(sample("GET", "/dbs/d/clientencryptionkeys/k")),
        O::ReplaceEncryptionKey => {
            one(sample("PUT", "/dbs/d/clientencryptionkeys/k").stale().body("{}"))
        }
        O::DeleteEncryptionKey => one(sample("DELETE", "/dbs/d/clientencryptionkeys/k").stale()),
        O::ListOffers => one(sample("GET", "/offers")),
        O::QueryOffers => one(sample("POST", "/offers").query()),
        O::ReadOffer => one(sample("GET", format!("/offers/{}", rids.offer))),
        _ => one(sample("PUT", format!("/offers/{}", rids.offer)).body("{}")),
    }
}

/// Of roles; none of them exists but the built-in ones, which cannot be changed.
fn role_samples(operation: Operation) -> Vec<Sample> {
    use Operation as O;
    const DEFINITION: &str = "/_roledefinitions/00000000-0000-0000-0000-000000000001";
    const ASSIGNMENT: &str = "/_roleassignments/00000000-0000-0000-0000-000000000001";
    vec![match operation {
        O::ListRoleDefinitions => sample("GET", "/_roledefinitions"),
        O::CreateRoleDefinition => sample("POST", "/_roledefinitions").body("{}"),
        O::ReadRoleDefinition => sample("GET", DEFINITION),
        O::StoreRoleDefinition => sample("PUT", DEFINITION).body("{}"),
        O::DeleteRoleDefinition => sample("DELETE", DEFINITION),
        O::ListRoleAssignments => sample("GET", "/_roleassignments"),
        O::CreateRoleAssignment => sample("POST", "/_roleassignments").body("{}"),
        O::ReadRoleAssignment => sample("GET", ASSIGNMENT),
        O::StoreRoleAssignment => sample("PUT", ASSIGNMENT).body("{}"),
        _ => sample("DELETE", ASSIGNMENT),
    }]
}

fn item_samples(operation: Operation, rids: &Rids) -> Vec<Sample> {
    use Operation as O;
    let post = || sample("POST", ITEMS);
    match operation {
        O::ListItems => sample("GET", ITEMS).under_keys(),
        O::ReadChanges => sample("GET", ITEMS).with("a-im", "Incremental Feed").under_keys(),
        O::PlanQuery => {
            post().with("x-ms-cosmos-is-query-plan-request", "True").query().under_keys()
        }
        O::QueryItems => {
            post().query().with("x-ms-documentdb-query-enablecrosspartition", "true").under_keys()
        }
        O::RunBatch => post()
            .with("x-ms-cosmos-is-batch-request", "True")
            .body(r#"[{"operationType":"Read","id":"one"}]"#)
            .under_keys(),
        O::CreateItem => post().body("{}").under_keys(),
        O::UpsertItem => post().with("x-ms-documentdb-is-upsert", "true").body("{}").under_keys(),
        O::ReplaceItem => sample("PUT", ITEM).stale().body("{}").under_keys(),
        O::PatchItem => sample("PATCH", ITEM).stale().body("{}").under_keys(),
        O::DeleteItem => sample("DELETE", ITEM).stale().under_keys(),
        O::DeletePartitionKey => {
            sample("POST", "/dbs/d/colls/c/operations/partitionkeydelete").under_keys()
        }
        _ => {
            let mut reads = sample("GET", ITEM).under_keys();
            let key_p = |path: String| sample("GET", path).with(KEY, "[\"p\"]");
            reads.push(key_p(rids.item.clone()).note("by rid"));
            reads.push(key_p(format!("{ITEMS}/three")).note("another item"));
            reads.push(key_p("/dbs/d/colls/other/docs/one".into()).note("another container"));
            reads
        }
    }
}

fn script_samples(operation: Operation) -> Vec<Sample> {
    use Operation as O;
    const P: &str = "[\"p\"]";
    match operation {
        O::ListScripts => scripts(|word| sample("GET", format!("{CONTAINER}/{word}")).with(KEY, P)),
        O::QueryScripts => {
            scripts(|word| sample("POST", format!("{CONTAINER}/{word}")).with(KEY, P).query())
        }
        O::CreateScript => {
            scripts(|word| sample("POST", format!("{CONTAINER}/{word}")).with(KEY, P).body("{}"))
        }
        O::ReadScript => {
            let mut reads =
                scripts(|word| sample("GET", format!("{CONTAINER}/{word}/s")).with(KEY, P));
            let other = format!("{CONTAINER}/sprocs/other");
            reads.push(sample("GET", other).with(KEY, P).note("another procedure"));
            reads
        }
        O::ReplaceScript => scripts(|word| {
            sample("PUT", format!("{CONTAINER}/{word}/s")).with(KEY, P).stale().body("{}")
        }),
        O::DeleteScript => {
            scripts(|word| sample("DELETE", format!("{CONTAINER}/{word}/s")).with(KEY, P).stale())
        }
        _ => {
            let mut runs = sample("POST", format!("{CONTAINER}/sprocs/s")).body("[]").under_keys();
            let other = format!("{CONTAINER}/sprocs/other");
            runs.push(sample("POST", other).with(KEY, P).body("[]").note("another procedure"));
            runs
        }
    }
}

/// Links that the server has given out.
pub(crate) struct Rids {
    offer: String,
    item: String,
}

/// How a request is signed.
enum Signing {
    Key(&'static str),
    Header(String),
    None,
}

struct Credential {
    name: &'static str,
    signing: Signing,
}

/// A database, user and permissions that releases before the grammar let in.
fn with_old_permissions(engine: Engine) -> Engine {
    let value = |text: &str| Value::parse(text.as_bytes()).unwrap();
    let database = Address::Name("d".into());
    engine.databases().create(&value(r#"{"id":"d"}"#), &ThroughputRequest::default()).unwrap();
    for (user, resource) in [("old1", "dbs/d"), ("old2", "dbs"), ("old3", ITEM)] {
        let body = value(&format!(r#"{{"id":"{user}"}}"#));
        engine.users().create(&database, &body, false).unwrap();
        let body = value(&format!(
            r#"{{"id":"p","permissionMode":"All","resource":"{}"}}"#,
            resource.trim_matches('/')
        ));
        let user = Address::Name(user.into());
        engine.permissions().create(&database, &user, &body, false).unwrap();
    }
    engine
}

pub(crate) struct Bench {
    pub(crate) local: Local,
    credentials: Vec<Credential>,
    pub(crate) rids: Rids,
}

impl Bench {
    /// A server with everything that the requests are about.
    pub(crate) fn filled() -> Self {
        let local = Local::start_direct(ConsistencyLevel::default(), with_old_permissions);
        let (credentials, rids) = (Vec::new(), Rids { offer: String::new(), item: String::new() });
        let mut bench = Self { local, credentials, rids };
        bench.fill();
        bench
    }

    fn start() -> Self {
        let mut bench = Self::filled();
        bench.keys();
        bench.tokens();
        bench
    }

    fn must(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = self.local.must(method, path, &[], body);
        Value::parse(answer.body.as_bytes()).unwrap_or_default()
    }

    fn fill(&mut self) {
        for container in ["c", "other", "gone"] {
            let body = format!(
                r#"{{"id":"{container}","partitionKey":{{"paths":["/p"],"kind":"Hash","version":2}}}}"#
            );
            self.must("POST", "/dbs/d/colls", &body);
            for (id, key) in [("one", "p"), ("one", "q"), ("three", "p")] {
                let made = self.must(
                    "POST",
                    &format!("/dbs/d/colls/{container}/docs"),
                    &format!(r#"{{"id":"{id}","p":"{key}"}}"#),
                );
                if (container, id, key) == ("c", "one", "p") {
                    self.rids.item = format!("/{}", made.get("_self").as_str().unwrap());
                    self.rids.item = self.rids.item.trim_end_matches('/').to_owned();
                }
            }
        }
        let offers = self.must("GET", "/offers", "");
        let offer = &offers.get("Offers").as_array().unwrap()[0];
        offer.get("_rid").as_str().unwrap().clone_into(&mut self.rids.offer);
        let body = "function () { getContext().getResponse().setBody(1); }";
        for id in ["s", "other"] {
            let start = format!(r#"{{"id":"{id}","body":"{body}""#);
            for (word, rest) in [
                ("sprocs", "}"),
                ("udfs", "}"),
                ("triggers", r#","triggerType":"Pre","triggerOperation":"All"}"#),
            ] {
                self.must("POST", &format!("{CONTAINER}/{word}"), &format!("{start}{rest}"));
            }
        }
        self.must("POST", "/dbs/d/users", r#"{"id":"u"}"#);
        self.must("POST", "/dbs/d/users/u/permissions", &all("dbs/d/colls/other"));
    }

    fn keys(&mut self) {
        for (name, signing) in [
            ("primary key", Signing::Key(PRIMARY)),
            ("secondary key", Signing::Key(SECONDARY)),
            ("primary read-only key", Signing::Key(READ_ONLY)),
            ("secondary read-only key", Signing::Key(SECONDARY_READ_ONLY)),
            ("no credentials", Signing::None),
            ("a key of another account", Signing::Key(WELL_KNOWN_KEY)),
            ("a signature of something else", {
                let text = signature(PRIMARY, "GET", "dbs", "dbs/else", "then");
                Signing::Header(text)
            }),
        ] {
            self.credentials.push(Credential { name, signing });
        }
    }

    /// A user with a permission, and its token.
    fn token(&mut self, name: &'static str, permission: &str) -> String {
        self.token_for(name, permission, "3600")
    }

    fn token_for(&mut self, name: &'static str, permission: &str, life_s: &str) -> String {
        let user = format!("user{}", self.credentials.len());
        self.must("POST", "/dbs/d/users", &format!(r#"{{"id":"{user}"}}"#));
        let user = format!("/dbs/d/users/{user}");
        let life = [("x-ms-documentdb-expiry-seconds", life_s)];
        let made = self.local.must("POST", &format!("{user}/permissions"), &life, permission);
        self.add_token(name, &Value::parse(made.body.as_bytes()).unwrap());
        user
    }

    fn add_token(&mut self, name: &'static str, permission: &Value) {
        let token = permission.get("_token").as_str().unwrap();
        let signing = Signing::Header(escaped(token));
        self.credentials.push(Credential { name, signing });
    }

    fn tokens(&mut self) {
        let container = "dbs/d/colls/c";
        let item = "dbs/d/colls/c/docs/one";
        let item_rid = self.rids.item.clone();
        let (p, q) = (Some(r#"["p"]"#), Some(r#"["q"]"#));
        for (name, mode, resource, key) in [
            ("token: container, All", "All", container, None),
            ("token: container, Read", "Read", container, None),
            ("token: container, All, key p", "All", container, p),
            ("token: container, Read, key p", "Read", container, p),
            ("token: another container, All", "All", "dbs/d/colls/other", None),
            ("token: a container that does not exist, All", "All", "dbs/d/colls/none", None),
            ("token: item, All, key p", "All", item, p),
            ("token: item, Read, key p", "Read", item, p),
            ("token: item of the same id, All, key q", "All", item, q),
            ("token: item by rid, All", "All", &item_rid, None),
            ("token: procedure, All", "All", "dbs/d/colls/c/sprocs/s", None),
            ("token: procedure, Read", "Read", "dbs/d/colls/c/sprocs/s", None),
            ("token: procedure, All, key p", "All", "dbs/d/colls/c/sprocs/s", p),
            ("token: trigger, All", "All", "dbs/d/colls/c/triggers/s", None),
            ("token: function, All", "All", "dbs/d/colls/c/udfs/s", None),
        ] {
            self.token(name, &permission(mode, resource, key));
        }
        for (name, user) in [
            ("token of an old release: database, All", "old1"),
            ("token of an old release: all databases, All", "old2"),
            ("token of an old release: item, All, no key", "old3"),
        ] {
            let path = format!("/dbs/d/users/{user}/permissions/p");
            let read = self.must("GET", &path, "");
            self.add_token(name, &read);
        }
        self.lost_tokens(container);
    }

    /// Tokens that were good once.
    fn lost_tokens(&mut self, container: &str) {
        let user = self.token("token: container, All; permission deleted", &all(container));
        self.must("DELETE", &format!("{user}/permissions/p"), "");
        let user = self.token("token: container, All; user deleted", &all(container));
        self.must("DELETE", &user, "");
        let user = self.token("token: container, All; permission now reads only", &all(container));
        let read = permission("Read", container, None);
        self.must("PUT", &format!("{user}/permissions/p"), &read);
        let user =
            self.token("token: container, All; permission replaced by the same", &all(container));
        self.must("PUT", &format!("{user}/permissions/p"), &all(container));
        let path = "/dbs/d/colls/gone";
        self.token("token: container, All; container deleted", &all(path));
        self.local.must("DELETE", path, &[], "");
        // The others live longer.
        self.token_for("token: container, All; expired", &all(container), "10");
        self.local.clock.advance_s(11);
    }

    /// The answer to the holder of a token.
    pub(crate) fn send_as(&self, token: &str, sample: &Sample) -> Answer {
        self.local.send_as(token, sample.method, &sample.path, &sample.headers, sample.body)
    }

    fn status(&self, credential: &Credential, sample: &Sample) -> u16 {
        let date = http_date(self.local.clock.now_s());
        let (kind, mut link) = signed(&sample.path);
        if sample.path == self.rids.item {
            // A link by rids is signed by its last rid alone.
            link = link.rsplit('/').next().unwrap().to_lowercase();
        }
        let mut headers = vec![("x-ms-date".to_owned(), date.clone())];
        let authorization = match &credential.signing {
            Signing::Key(key) => Some(signature(key, sample.method, &kind, &link, &date)),
            Signing::Header(text) => Some(text.clone()),
            Signing::None => None,
        };
        headers.extend(authorization.map(|text| ("authorization".to_owned(), text)));
        headers.extend(sample.headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let mut connection = Connection::open(self.local.address).unwrap();
        let body = sample.body.as_bytes();
        connection.send(sample.method, &sample.path, &headers, body).unwrap().status
    }
}

fn all(resource: &str) -> String {
    permission("All", resource.trim_matches('/'), None)
}

fn permission(mode: &str, resource: &str, key: Option<&str>) -> String {
    let key = key.map(|key| format!(r#","resourcePartitionKey":{key}"#)).unwrap_or_default();
    let resource = resource.trim_matches('/');
    format!(r#"{{"id":"p","permissionMode":"{mode}","resource":"{resource}"{key}}}"#)
}

/// A token as clients put it into the header.
fn escaped(token: &str) -> String {
    let escape = |c: char| match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' => c.to_string(),
        other => format!("%{:02X}", u32::from(other)),
    };
    token.chars().map(escape).collect()
}

/// A table: a row for each request, a column for each credential.
fn matrix(bench: &Bench) -> String {
    let mut text = String::from(
        "# The status of every operation under every kind of credential. 401 and 403 are refusals;\n\
         # anything else was let through. Written by `cargo xtask golden`.\n\n",
    );
    for (number, credential) in bench.credentials.iter().enumerate() {
        writeln!(text, "{number:>2} {}", credential.name).unwrap();
    }
    let row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| format!("{cell:>3}")).collect();
        format!("{name:<36} {}\n", cells.join(" "))
    };
    let mut numbers = (0..bench.credentials.len()).map(|number| number.to_string());
    text += "\n";
    text += &row("", &mut numbers);
    for operation in Operation::ALL {
        for sample in samples(*operation, &bench.rids) {
            assert_eq!(sample.operation(), *operation, "{} {}", sample.method, sample.path);
            let mut statuses = bench.credentials.iter().map(|credential| {
                let status = bench.status(credential, &sample);
                assert_ne!(status, 500, "{operation:?} under {}", credential.name);
                status.to_string()
            });
            let name = match sample.note {
                "" => format!("{operation:?}"),
                note => format!("{operation:?}, {note}"),
            };
            text += &row(&name, &mut statuses);
        }
    }
    for route in SideRoute::ALL {
        let sample = sample("GET", route.path());
        let statuses = bench.credentials.iter().map(|credential| bench.status(credential, &sample));
        text += &row(route.path(), &mut statuses.map(|status| status.to_string()));
    }
    text
}

#[test]
fn every_operation_is_open_to_whom_the_golden_table_says() {
    let found = matrix(&Bench::start());
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(PATH, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(PATH).unwrap();
    for (expected, found) in expected.lines().zip(found.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}
