//! A client in Direct mode as SDKs are: one connection for the requests of many threads, ranges that it
//! believes in until it is told otherwise, and statuses that it hides by trying again. Those are the ones
//! that the SDKs for .NET and Java hide; every other one reaches the caller.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use bytes::BytesMut;
use orrery_direct::{
    ContextRequest, Frame, FrameKind, FrameProgress, FrameRequest, FrameResponse, next_frame,
};
use orrery_types::{
    Clock as _, EffectiveKey, KeyRange, PartitionKey, PartitionKeyDef, SystemClock,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Answer, Ask, LIMITS, context, tls_config, to_sign};
use crate::client::{self, http_date, signature};

/// Tries of one request. SDKs try for thirty seconds.
const TRIES: usize = 1000;

/// A frame on its way out, and who waits for its answer.
type Sent = (u32, BytesMut, oneshot::Sender<Frame>);

/// A client of one container, shared by threads.
pub(super) struct Session {
    runtime: Runtime,
    requests: mpsc::UnboundedSender<Sent>,
    next_id: AtomicU32,
    address: SocketAddr,
    key: String,
    definition: PartitionKeyDef,
    routes: RwLock<Routes>,
    /// How often each status and sub-status was hidden.
    pub(super) hidden: Mutex<BTreeMap<(u32, u32), usize>>,
}

/// What clients keep of a container.
#[derive(Default)]
struct Routes {
    rid: String,
    /// Of each range, its id and the path of its primary.
    ranges: Vec<(KeyRange, String, String)>,
}

impl Session {
    /// Connects to a server; `None` if it is gone.
    pub(super) fn open(
        address: SocketAddr,
        key: &str,
        definition: PartitionKeyDef,
    ) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut stream = runtime.block_on(connect(address)).ok()?;
        let (requests, receiver) = mpsc::unbounded_channel();
        runtime
            .block_on(async {
                let mut out = BytesMut::new();
                ContextRequest { activity_id: [3; 16], tokens: context() }
                    .encode(&mut out)
                    .unwrap();
                stream.write_all(&out).await?;
                stream.flush().await
            })
            .ok()?;
        runtime.spawn(run(stream, receiver));
        let session = Self {
            runtime,
            requests,
            next_id: AtomicU32::new(1),
            address,
            key: key.to_owned(),
            definition,
            routes: RwLock::default(),
            hidden: Mutex::default(),
        };
        session.refresh()?;
        Some(session)
    }

    /// Reads what clients keep anew; `None` if the server is gone.
    fn refresh(&self) -> Option<()> {
        let mut client = client::Client::open(self.address, &self.key).ok()?;
        let mut get = |path: &str| -> Option<serde_json::Value> {
            let answer = client.send("GET", path, &[], "").ok()?;
            // The server is stopping in order.
            (answer.status != 503).then(|| {
                assert_eq!(answer.status, 200, "{path}: {answer:?}");
                serde_json::from_str(&answer.body).unwrap()
            })
        };
        let rid = get("/dbs/d/colls/c")?["_rid"].as_str().unwrap().to_owned();
        let addresses =
            get("//addresses/?$filter=protocol%20eq%20rntbd&$resolveFor=dbs/d/colls/c/docs")?;
        let ranges = get("/dbs/d/colls/c/pkranges")?;
        let mut paths = HashMap::new();
        for address in addresses["Addresss"].as_array().unwrap() {
            if address["isPrimary"] == true {
                let uri = address["physcialUri"].as_str().unwrap();
                let (_, path) = uri.strip_prefix("rntbd://").unwrap().split_once('/').unwrap();
                let range = address["partitionKeyRangeId"].as_str().unwrap().to_owned();
                paths.insert(range, format!("/{}", path.trim_end_matches('/')));
            }
        }
        let bound = |range: &serde_json::Value, name: &str| {
            EffectiveKey::parse(range[name].as_str().unwrap()).unwrap()
        };
        let ranges = ranges["PartitionKeyRanges"].as_array().unwrap().iter().filter_map(|range| {
            let id = range["id"].as_str().unwrap();
            let keys =
                KeyRange { min: bound(range, "minInclusive"), max: bound(range, "maxExclusive") };
            // A range that was split between the two answers is learned of with the next one.
            Some((keys, id.to_owned(), paths.get(id)?.clone()))
        });
        let ranges = ranges.collect();
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = Routes { rid, ranges };
        Some(())
    }

    /// The ids of the ranges that the client believes in.
    pub(super) fn ranges(&self) -> Vec<String> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.ranges.iter().map(|(_, id, _)| id.clone()).collect()
    }

    /// The container's rid, and the path of the range of a request; `None` if no range is known for it.
    fn route(&self, ask: &Ask<'_>) -> Option<(String, String)> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let mut ranges = routes.ranges.iter();
        let found = match (ask.tokens.range_id, ask.tokens.partition_key) {
            (Some(range), _) => ranges.find(|(_, id, _)| id == range),
            (None, key) => {
                let key = PartitionKey::parse_header(key.expect("a key or a range")).unwrap();
                let key = self.definition.effective(&key);
                ranges.find(|(keys, _, _)| keys.contains(&key))
            }
        };
        found.map(|(_, _, path)| (routes.rid.clone(), path.clone()))
    }

    /// Sends a request until its answer is one that a caller sees. `None` if the connection ends before
    /// that, or if its range is no more: a caller that names one must ask which there are.
    pub(super) fn call(&self, ask: &Ask<'_>) -> Option<Answer> {
        for _ in 0..TRIES {
            let Some((rid, path)) = self.route(ask) else {
                self.refresh()?;
                if ask.tokens.range_id.is_some() {
                    return None;
                }
                continue;
            };
            let answer = self.send(ask, &rid, &path)?;
            let seen = (answer.status(), answer.tokens().sub_status.unwrap_or_default());
            match seen {
                (410, 0 | 1000 | 1007 | 1008) => self.refresh()?,
                (429 | 449, _) => std::thread::yield_now(),
                _ => return Some(answer),
            }
            let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
            *hidden.entry(seen).or_default() += 1;
        }
        panic!("{TRIES} tries, and no answer that a caller would see");
    }

    fn send(&self, ask: &Ask<'_>, rid: &str, path: &str) -> Option<Answer> {
        let (method, kind, link) = to_sign(ask);
        let date = http_date(SystemClock.now_s());
        let authorization = signature(&self.key, method, kind, &link, &date);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut tokens = ask.tokens;
        tokens.replica_path = Some(path);
        tokens.container_rid = Some(rid);
        tokens.authorization = Some(&authorization);
        tokens.date = Some(&date);
        tokens.transport_request_id = Some(id);
        tokens.payload_present = Some(u8::from(!ask.body.is_empty()));
        let Ask { resource, operation, body, .. } = *ask;
        let mut out = BytesMut::new();
        FrameRequest { resource, operation, activity_id: [7; 16], tokens }
            .encode(body, &mut out)
            .unwrap();
        let (sender, receiver) = oneshot::channel();
        self.requests.send((id, out, sender)).ok()?;
        self.runtime.block_on(receiver).ok().map(Answer)
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(Arc::new(tls_config()))
        .connect("localhost".try_into().unwrap(), stream)
        .await
}

/// Sends what threads ask and gives them the answers, until the connection ends. Then those that wait
/// get none.
async fn run(
    mut stream: TlsStream<TcpStream>,
    mut receiver: mpsc::UnboundedReceiver<Sent>,
) -> std::io::Result<()> {
    let mut waiting: HashMap<u32, oneshot::Sender<Frame>> = HashMap::new();
    let (mut input, mut kind) = (BytesMut::new(), FrameKind::ContextResponse);
    loop {
        input.reserve(4096);
        tokio::select! {
            sent = receiver.recv() => {
                let Some((id, bytes, sender)) = sent else { return Ok(()) };
                waiting.insert(id, sender);
                stream.write_all(&bytes).await?;
                stream.flush().await?;
            }
            read = stream.read_buf(&mut input) => if read? == 0 { return Ok(()) },
        }
        while let FrameProgress::Whole(frame) = next_frame(&mut input, kind, &LIMITS).unwrap() {
            if kind == FrameKind::ContextResponse {
                kind = FrameKind::Response;
                continue;
            }
            let id = FrameResponse::decode(&frame.head).unwrap().tokens.transport_request_id;
            let asked = waiting.remove(&id.unwrap());
            // The thread may have given up with its test.
            let _ = asked.expect("each request is answered once").send(frame);
        }
    }
}
