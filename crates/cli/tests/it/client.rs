//! A client of HTTP/1.1 that sends exactly what a test says, and signs it as the protocol asks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A wait that no test should come near; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    /// Empty if it is no text.
    pub(crate) body: String,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// The value of an `Authorization` header. `link` is the resource that is signed: the parent of a
/// feed, the resource itself otherwise.
pub(crate) fn signature(key: &str, method: &str, kind: &str, link: &str, date: &str) -> String {
    let key = BASE64.decode(key).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let (method, date) = (method.to_lowercase(), date.to_lowercase());
    mac.update(format!("{method}\n{kind}\n{link}\n{date}\n\n").as_bytes());
    let signature = BASE64.encode(mac.finalize().into_bytes());
    let escaped = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("type%3Dmaster%26ver%3D1.0%26sig%3D{escaped}")
}

/// What is signed for a path: the type of the resource and its link. Names of types stand at the
/// even places; a path of an odd number of segments is a feed, signed by its parent.
pub(crate) fn signed(path: &str) -> (String, String) {
    // Addresses are signed as what they are of.
    let path = path.split_once("$resolveFor=").map_or(path, |(_, resolved)| resolved);
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    // A transaction is of the account: its type is signed, and no link.
    if segments == ["operations", "dtc"] {
        return ("distributedtransactionbatch".to_owned(), String::new());
    }
    // What is done to a container is signed as the container is.
    let segments = match &segments[..] {
        [container @ .., "operations", "partitionkeydelete" | "split" | "merge"] => container,
        all => all,
    };
    let feed = segments.len() % 2 == 1;
    let kind = segments.len().checked_sub(if feed { 1 } else { 2 });
    let kind = kind.map_or("", |at| segments[at]);
    let link = if feed { &segments[..segments.len() - 1] } else { segments };
    let link = match link {
        // Offers are signed by their rid alone, in lower case.
        ["offers", rid] => rid.to_lowercase(),
        link => link.join("/"),
    };
    (kind.to_owned(), link)
}

/// A time as the protocol writes it.
pub(crate) fn http_date(now_s: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now_s))
}

/// A connection to a server.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> std::io::Result<Self> {
        Self::open_for(address, PATIENCE)
    }

    /// A connection that waits for so long at most.
    fn open_for(address: SocketAddr, patience: Duration) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one request and reads its answer. The server may answer, and close, before it has read
    /// everything.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> std::io::Result<Answer> {
        let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
        for (name, value) in headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend_from_slice(body);
        let sent = self.stream.get_mut().write_all(&bytes);
        self.answer().or_else(|error| sent.and(Err(error)))
    }

    fn answer(&mut self) -> std::io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let mut answer = Answer { status, head, body: String::new(), bytes: Vec::new() };
        let length = answer.header("content-length").and_then(|text| text.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut body)?;
        if answer.header("content-type") != Some("application/octet-stream") {
            answer.body = String::from_utf8(body.clone()).expect("answers are text");
        }
        answer.bytes = body;
        Ok(answer)
    }
}

/// A connection with a key: what an SDK is at heart.
pub(crate) struct Client {
    connection: Connection,
    key: String,
}

impl Client {
    pub(crate) fn open(address: SocketAddr, key: &str) -> std::io::Result<Self> {
        Self::open_for(address, key, PATIENCE)
    }

    /// The same with a connection that waits for so long at most.
    pub(crate) fn open_for(
        address: SocketAddr,
        key: &str,
        patience: Duration,
    ) -> std::io::Result<Self> {
        Ok(Self { connection: Connection::open_for(address, patience)?, key: key.to_owned() })
    }

    /// Sends a signed request.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> std::io::Result<Answer> {
        use orrery_types::Clock as _;
        let date = http_date(orrery_types::SystemClock.now_s());
        let (kind, link) = signed(path);
        let authorization = signature(&self.key, method, &kind, &link, &date);
        let mut headers = vec![
            ("authorization".to_owned(), authorization),
            ("x-ms-date".to_owned(), date),
            ("x-ms-version".to_owned(), "2020-07-15".to_owned()),
        ];
        headers.extend(more.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        self.connection.send(method, path, &headers, body.as_ref())
    }

    /// Sends a request that must succeed.
    #[track_caller]
    pub(crate) fn must(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let answer = self.send(method, path, more, body).unwrap();
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        answer
    }

    /// All resources of a feed, page by page, by `id`.
    pub(crate) fn feed(&mut self, path: &str, list: &str) -> Vec<orrery_types::Value> {
        let (mut found, mut continuation) = (Vec::new(), None::<String>);
        loop {
            let mut headers = vec![("x-ms-max-item-count", "-1")];
            headers.extend(continuation.as_deref().map(|token| ("x-ms-continuation", token)));
            let page = self.must("GET", path, &headers, "");
            let body = orrery_types::Value::parse(page.body.as_bytes()).unwrap();
            found.extend_from_slice(body.get(list).as_array().unwrap());
            continuation = page.header("x-ms-continuation").map(str::to_owned);
            if continuation.is_none() {
                return found;
            }
        }
    }
}
