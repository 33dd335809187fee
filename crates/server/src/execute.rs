//! Runs requests: the one place that decides on which thread an operation runs, with which budget, and
//! what happens when it cannot complete there.
//!
//! | Placement | Operations | Runs on |
//! |---|---|---|
//! | `Inline` | point reads, reads of the catalog in memory | the connection's thread |
//! | `InlineWrite` | writes of one item | the connection's thread up to the commit, which is awaited; the commit too, if nobody else needs the thread |
//! | `InlineQuery` | queries with a short text | the connection's thread, within the inline budget |
//! | `Blocking` | everything else | a blocking thread |
//!
//! A change of threads costs more than a point read does, so short operations run inline. One that
//! turns out to be long, or to need a lock that another writer holds, moves to a blocking thread as a
//! [`Task`] with everything that was decoded: nothing is authorized, admitted, parsed or bound twice. When
//! the client disconnects, the cancellation token of its task is cancelled; requests that complete inline
//! have none.
//!
//! On a store that is reached over a network everything runs on blocking threads: even a resource token is
//! looked up.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use orrery_engine::transaction::point_write::{CommitAttempt, CommitResult};
use orrery_types::{CancellationToken, Error, Result, limits};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::api::{Api, Shared};
use crate::call::{Call, Labels};
use crate::dispatch;
use crate::handlers::item::{self, WriteRequest};
use crate::handlers::query::{self, ItemQuery};
use crate::operation::Operation;
use crate::service::{Answer, MaybeFuture, Request, Service};
use crate::statistics::RequestSample;
use crate::wire::error;
use crate::wire::link::Target;
use crate::wire::reply::Reply;

/// Where an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    Inline,
    InlineWrite,
    InlineQuery,
    Blocking,
}

/// How much work an operation may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// About a millisecond: other connections wait for the thread.
    Inline,
    /// What a page may take, until the request is cancelled.
    Page,
}

/// The work of a request on a blocking thread, with what was decoded of it already.
enum Task {
    /// All of it: nothing is authorized or decoded yet.
    Request,
    /// A write of one item.
    Write(WriteRequest),
    /// A query that exceeded the inline budget.
    Query(Box<ItemQuery>),
}

/// The state of a request after its inline part.
enum Progress {
    /// It is complete.
    Complete(Reply),
    /// Its commit is submitted.
    Committing(WriteRequest, oneshot::Receiver<CommitResult>),
    /// It needs a blocking thread.
    Blocking(Task),
}

/// The placement of a request's operation.
fn placement(call: &Call) -> Placement {
    let headers = &call.headers;
    let body_bytes = call.request.body.len();
    if !call.engine().reads_inline() {
        return Placement::Blocking;
    }
    match call.operation {
        // Relations may lead to many items.
        Operation::ReadItem if headers.model_expand.is_some() => Placement::Blocking,
        Operation::ReadItem
        | Operation::ReadAccount
        | Operation::ListAddresses
        | Operation::ListDatabases
        | Operation::ReadDatabase
        | Operation::ListContainers
        | Operation::ListRanges => Placement::Inline,
        // Both are counted from the store.
        Operation::ReadContainer
            if !headers.populate_quota_info && !headers.populate_range_statistics =>
        {
            Placement::Inline
        }
        Operation::QueryItems if body_bytes <= limits::INLINE_QUERY_BYTES_MAX => {
            Placement::InlineQuery
        }
        _ if body_bytes <= limits::INLINE_BODY_BYTES_MAX && is_plain_write(call) => {
            Placement::InlineWrite
        }
        _ => Placement::Blocking,
    }
}

/// Whether the operation writes one item and runs no script or query.
fn is_plain_write(call: &Call) -> bool {
    match call.operation {
        Operation::CreateItem
        | Operation::UpsertItem
        | Operation::ReplaceItem
        | Operation::DeleteItem => !item::names_triggers(call),
        // A condition is a query, which may take any time.
        Operation::PatchItem => !item::names_triggers(call) && !item::has_condition(call),
        _ => false,
    }
}

/// Runs the inline part of a request.
fn run_inline(call: &Call) -> Result<Progress> {
    let placement = placement(call);
    if placement == Placement::Blocking {
        return Ok(Progress::Blocking(Task::Request));
    }
    dispatch::authorize(call)?;
    match (placement, &call.link.target) {
        (Placement::InlineWrite, _) => start_write(call),
        (Placement::InlineQuery, Target::Items(at)) => {
            let mut query = query::decode(call, at)?;
            Ok(match query::try_page(call, &mut query, Budget::Inline)? {
                Some(reply) => Progress::Complete(reply),
                None => Progress::Blocking(Task::Query(Box::new(query))),
            })
        }
        _ => dispatch::dispatch(call).map(Progress::Complete),
    }
}

/// Prepares a write and submits its commit.
fn start_write(call: &Call) -> Result<Progress> {
    let request = item::decode_write(call)?;
    let WriteRequest { container, partition_key, write } = &request;
    let engine = call.engine();
    let Some(prepared) = engine.point_writes().prepare(container, partition_key.as_ref(), write)?
    else {
        return Ok(Progress::Blocking(Task::Write(request)));
    };
    let prepared = if call.request.may_block {
        match prepared.try_commit(engine) {
            CommitAttempt::Complete(result) => return finish_write(call, request, result),
            CommitAttempt::Busy(prepared) => prepared,
        }
    } else {
        prepared
    };
    let (sender, receiver) = oneshot::channel();
    // The client may have disconnected when the commit completes; the write stands.
    engine.point_writes().submit(prepared, move |result| drop(sender.send(result)));
    Ok(Progress::Committing(request, receiver))
}

/// What follows from the result of a write's commit: its reply, or another attempt on a blocking thread
/// if another writer was faster and nothing was written.
fn finish_write(call: &Call, request: WriteRequest, result: CommitResult) -> Result<Progress> {
    let written = call.engine().point_writes().finish(result)?;
    Ok(match written {
        Some(written) => Progress::Complete(item::encode_write(call, &request.container, written)),
        None => Progress::Blocking(Task::Write(request)),
    })
}

/// The same for a commit that was submitted.
async fn await_commit(
    call: &Call,
    request: WriteRequest,
    receiver: oneshot::Receiver<CommitResult>,
) -> Result<Progress> {
    let result = receiver.await.map_err(|_| Error::internal("a commit was not answered"))?;
    finish_write(call, request, result)
}

impl Task {
    /// Runs the work to its end.
    fn run(self, call: &Call) -> Result<Reply> {
        match self {
            Self::Request => dispatch::authorize(call).and_then(|()| dispatch::dispatch(call)),
            Self::Write(request) => item::run_write(call, &request),
            Self::Query(mut query) => query::run_page(call, &mut query),
        }
    }
}

/// Runs a task on a blocking thread. Their number bounds the operations at once; more wait.
async fn run_blocking(mut call: Call, task: Task, completion: Completion) -> Answer {
    let cancellation = call.cancellation.insert(CancellationToken::default()).clone();
    let _cancel_on_drop = cancellation.cancel_on_drop();
    let shared = call.shared.clone();
    let (activity_id, uri) = (call.request.activity_id, call.request.path_and_query.clone());
    let run = move || {
        let mut result = task.run(&call);
        if matches!(result, Err(Error::OwnerNotFound)) && call.forget_container() {
            // Another process has deleted it, and may have made another one under its name.
            result = Task::Request.run(&call);
        }
        (call.reply(result), call.labels)
    };
    let (reply, labels) = shared.blocking.spawn_blocking(run).await.unwrap_or_else(|_| {
        let panicked = Error::internal("an operation panicked");
        (error::reply(&panicked, activity_id, uri.as_str()), Labels::default())
    });
    completion.answer(reply, &shared, labels)
}

/// Runs a request that is parsed and authenticated, whichever front it came through.
pub(crate) fn run(call: Call, began: Instant) -> MaybeFuture<Answer> {
    let completion = Completion::new(&call, began);
    match run_inline(&call) {
        Ok(Progress::Complete(reply)) => MaybeFuture::Ready(completion.end(call, Ok(reply))),
        Err(error) => MaybeFuture::Ready(completion.end(call, Err(error))),
        Ok(Progress::Blocking(task)) => MaybeFuture::boxed(run_blocking(call, task, completion)),
        Ok(Progress::Committing(request, receiver)) => MaybeFuture::boxed(async move {
            match await_commit(&call, request, receiver).await {
                Ok(Progress::Complete(reply)) => completion.end(call, Ok(reply)),
                Ok(Progress::Blocking(task)) => run_blocking(call, task, completion).await,
                Ok(Progress::Committing(..)) => unreachable!("the commit has ended"),
                Err(error) => completion.end(call, Err(error)),
            }
        }),
    }
}

impl Service for Api {
    fn call(self: &Arc<Self>, request: Request) -> MaybeFuture<Answer> {
        let began = Instant::now();
        let (activity_id, uri) = (request.activity_id, request.path_and_query.clone());
        match Call::read(self.shared_ref(), request) {
            Ok(call) => run(call, began),
            Err(error) => MaybeFuture::Ready(Answer {
                reply: error::reply(&error, activity_id, uri.as_str()),
                operation: "other",
                is_authenticated: false,
            }),
        }
    }

    fn is_writable(&self) -> bool {
        self.shared.engine.is_writable()
    }
}

/// What is done with every reply: it is counted, and that to a HEAD loses its body.
struct Completion {
    began: Instant,
    name: &'static str,
    operation: &'static str,
    is_head: bool,
}

impl Completion {
    fn new(call: &Call, began: Instant) -> Self {
        Self {
            began,
            name: dispatch::name(&call.link.target),
            operation: dispatch::statistic(call),
            is_head: call.request.method == Method::HEAD,
        }
    }

    fn end(self, call: Call, result: Result<Reply>) -> Answer {
        let reply = call.reply(result);
        self.answer(reply, &call.shared, call.labels)
    }

    fn answer(self, mut reply: Reply, shared: &Shared, labels: Labels) -> Answer {
        let statistics = &shared.statistics;
        if statistics.is_on() {
            statistics.record(&RequestSample {
                container: labels.container.get().map(|c| (c.rid(), c.alt_link())),
                operation: self.operation,
                shape: labels.shape.get(),
                status: reply.status,
                charge: reply.charge,
                took: self.began.elapsed(),
            });
        }
        if self.is_head {
            reply.body = Bytes::new();
        }
        reply.set_container(labels.container.into_inner());
        Answer { reply, operation: self.name, is_authenticated: true }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use http::{HeaderMap, HeaderName, HeaderValue};
    use orrery_engine::Engine;
    use orrery_storage::{MemoryStore, RocksOptions, RocksStore, Store};
    use orrery_types::ManualClock;
    use tokio::runtime::Runtime;

    use super::*;
    use crate::auth::Authenticator;
    use crate::auth::keys::{AccountKeys, GivenKeys, Key, WELL_KNOWN_KEY, WellKnownKey};
    use crate::consistency::ConsistencyLevel;
    use crate::service::Scheme;
    use crate::wire::headers;
    use crate::wire::link::ResourceLink;

    const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";
    const DATE_S: u64 = 1_493_254_272;
    const DOCS: &str = "/dbs/d/colls/c/docs";
    const KEY: (&str, &str) = (headers::PARTITION_KEY, r#"["p"]"#);
    const QUERY: (&str, &str) = (headers::IS_QUERY, "true");

    struct Fixture {
        runtime: Runtime,
        api: Arc<Api>,
    }

    impl Fixture {
        /// A service with a container and an item `a` in it.
        fn new() -> Self {
            Self::over(Arc::new(MemoryStore::new()))
        }

        fn over(store: Arc<dyn Store>) -> Self {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let clock = Arc::new(ManualClock::at_s(DATE_S));
            let engine = Engine::open(store, clock.clone(), 1).unwrap();
            let keys = AccountKeys::open(None, &GivenKeys::default(), WellKnownKey::Accepted);
            let authenticator = Authenticator::new(keys.unwrap(), clock.clone());
            let (level, blocking) = (ConsistencyLevel::default(), runtime.handle().clone());
            let api = Api::new(Arc::new(engine), authenticator, clock, None, level, blocking);
            let fixture = Self { runtime, api: Arc::new(api) };
            let container = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;
            assert_eq!(fixture.send("POST", "/dbs", &[], r#"{"id":"d"}"#).1, 201);
            assert_eq!(fixture.send("POST", "/dbs/d/colls", &[], container).1, 201);
            assert_eq!(fixture.send("POST", DOCS, &[KEY], r#"{"id":"a","p":"p","n":1}"#).1, 201);
            fixture
        }

        fn call(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Call {
            let link = ResourceLink::parse(path).unwrap();
            let date = DATE.to_lowercase();
            let (kind, signed) = (&link.signed_type, &link.signed_link);
            let payload = format!("{}\n{kind}\n{signed}\n{date}\n\n", method.to_lowercase());
            let signature = Key::parse(WELL_KNOWN_KEY).unwrap().sign(payload.as_bytes());
            let signature = base64::engine::general_purpose::STANDARD.encode(signature);
            let authorization = format!("type=master&ver=1.0&sig={signature}");
            let mut headers = HeaderMap::new();
            let own = [("authorization", &*authorization), (headers::DATE, DATE)];
            for (name, value) in own.iter().chain(more) {
                let name = HeaderName::try_from(*name).unwrap();
                headers.insert(name, HeaderValue::try_from(*value).unwrap());
            }
            let request = Request {
                activity_id: uuid::Uuid::nil(),
                method: method.parse().unwrap(),
                path_and_query: path.parse().unwrap(),
                authority: None,
                headers,
                body: Bytes::copy_from_slice(body.as_bytes()),
                scheme: Scheme::Http,
                peer: "127.0.0.1:1".parse().unwrap(),
                may_block: false,
                parts: None,
            };
            Call::read(self.api.shared_ref(), request).unwrap()
        }

        /// Whether the request completed inline, its status, and its body.
        fn send(
            &self,
            method: &str,
            path: &str,
            more: &[(&str, &str)],
            body: &str,
        ) -> (bool, u16, String) {
            self.finish(run(self.call(method, path, more, body), Instant::now()))
        }

        fn finish(&self, future: MaybeFuture<Answer>) -> (bool, u16, String) {
            let (is_inline, answer) = match future {
                MaybeFuture::Ready(answer) => (true, answer),
                MaybeFuture::Future(answer) => (false, self.runtime.block_on(answer)),
            };
            let Reply { status, body, .. } = answer.reply;
            (is_inline, status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
        }
    }

    #[test]
    fn short_operations_complete_inline_and_long_ones_on_another_thread() {
        let fixture = Fixture::new();
        let item = "/dbs/d/colls/c/docs/a";
        let query = |text: &str| format!(r#"{{"query":"{text}"}}"#);
        let patch = r#"{"operations":[{"op":"incr","path":"/n","value":1}]"#;
        for (method, path, more, body, is_inline, status) in [
            ("GET", item, &[KEY][..], String::new(), true, 200),
            ("GET", "/dbs/d/colls/c", &[], String::new(), true, 200),
            ("POST", DOCS, &[KEY], r#"{"id":"a","p":"p"}"#.into(), true, 409),
            ("POST", DOCS, &[KEY], r#"{"id":"b","p":"p"}"#.into(), false, 201),
            ("POST", DOCS, &[KEY, QUERY], query("SELECT * FROM c"), true, 200),
            ("POST", DOCS, &[KEY, QUERY], query("SELECT * FROM"), true, 400),
            (
                "POST",
                DOCS,
                &[KEY, QUERY],
                query("SELECT * FROM c WHERE RegexMatch(c.id, 'a')"),
                false,
                200,
            ),
            ("PATCH", item, &[KEY], format!("{patch}}}"), false, 200),
            (
                "PATCH",
                item,
                &[KEY],
                format!("{patch},\"condition\":\"FROM c WHERE c.n = 2\"}}"),
                false,
                200,
            ),
            ("GET", DOCS, &[KEY], String::new(), false, 200),
        ] {
            let answer = fixture.send(method, path, more, &body);
            assert_eq!((answer.0, answer.1), (is_inline, status), "{method} {path} {body}");
        }
        let read = fixture.send("GET", item, &[KEY], "").2;
        assert!(read.contains(r#""n":3"#), "each patch was applied once: {read}");
    }

    #[test]
    fn a_write_is_committed_inline_only_where_no_other_request_needs_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let store = RocksStore::open(folder.path(), &RocksOptions::default()).unwrap();
        let fixture = Fixture::over(Arc::new(store));
        let create = |id: usize, may_block| {
            let body = format!(r#"{{"id":"b{id}","p":"p","n":1}}"#);
            let mut call = fixture.call("POST", DOCS, &[KEY], &body);
            call.request.may_block = may_block;
            fixture.finish(run(call, Instant::now()))
        };
        let shared = create(0, false);
        assert_eq!((shared.0, shared.1), (false, 201));
        // The commit before may end a little after its answer.
        let alone = (1..1000).map(|id| create(id, true)).find(|(is_inline, ..)| *is_inline);
        let (_, status, body) = alone.expect("no other commit is under way");
        assert!(status == 201 && body.contains("_etag"), "{status} {body}");
        let twice = create(0, true);
        assert_eq!(twice.1, 409);
    }

    /// Runs the inline part, then the rest with a body that nobody could parse.
    fn moved(mut call: Call) -> Result<Reply> {
        let Ok(Progress::Blocking(task)) = run_inline(&call) else { panic!("it completed inline") };
        call.request.body = Bytes::from_static(b"{");
        task.run(&call)
    }

    #[test]
    fn a_request_that_moves_to_another_thread_is_not_parsed_again() {
        let fixture = Fixture::new();
        // Its new property needs a path number, which only a blocking thread assigns.
        let create = r#"{"id":"b","p":"p","unseen":1}"#;
        let query = r#"{"query":"SELECT * FROM c WHERE RegexMatch(c.id, 'a')"}"#;
        let patch = r#"{"operations":[{"op":"incr","path":"/n","value":1}],"condition":"FROM c WHERE c.n = 1"}"#;
        for (method, path, more, body, status) in [
            ("POST", DOCS, &[KEY][..], create, 201),
            ("POST", DOCS, &[KEY, QUERY], query, 200),
            ("PATCH", "/dbs/d/colls/c/docs/a", &[KEY], patch, 200),
        ] {
            let reply = moved(fixture.call(method, path, more, body));
            assert_eq!(reply.unwrap().status, status, "{body}");
        }
        let read = fixture.send("GET", "/dbs/d/colls/c/docs/b", &[KEY], "");
        assert!(read.1 == 200 && read.2.contains(r#""unseen":1"#), "{read:?}");
    }
}
