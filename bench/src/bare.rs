//! The handler that does nothing: the HTTP library of the server, its runtime and its answers byte
//! by byte, without a thought in between. How much of its rate the server keeps is what the
//! database costs.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::client::Answer;

/// Written by the library itself.
const OWN_HEADERS: [&str; 2] = ["content-length", "date"];

/// The answers to a GET and to a POST, as they are handed to the process.
pub(crate) fn input(answers: [Answer<'_>; 2]) -> Vec<u8> {
    let mut input = Vec::new();
    for answer in answers {
        add_part(&mut input, answer.head);
        add_part(&mut input, answer.body);
    }
    input
}

/// Adds a part of the input, which [`Parts`] takes off again.
pub(crate) fn add_part(input: &mut Vec<u8>, part: &[u8]) {
    input.extend(u32::try_from(part.len()).expect("answers are short").to_be_bytes());
    input.extend(part);
}

/// Serves until killed, after it has printed its address.
pub(crate) fn run() -> Result<()> {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    let mut parts = Parts(&input);
    let answers = Arc::new([response(&mut parts)?, response(&mut parts)?]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    // A connection stays with one thread, as in the server.
    let threads = serving_threads()?;
    for thread in threads.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let answers = Arc::clone(&answers);
        thread.spawn(async move {
            let stream = TcpStream::from_std(stream)?;
            let service = service_fn(|request| answer(request, &answers));
            // A connection that breaks off is the client's business.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            std::io::Result::Ok(())
        });
    }
    Ok(())
}

/// As many serving threads as the server has.
pub(crate) fn serving_threads() -> Result<Vec<Handle>> {
    (0..std::thread::available_parallelism()?.get()).map(|_| serving_thread()).collect()
}

/// A thread that serves what it is given until the process ends.
fn serving_thread() -> Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    Ok(handle)
}

async fn answer(
    request: Request<Incoming>,
    answers: &[Response<Full<Bytes>>; 2],
) -> Result<Response<Full<Bytes>>, Infallible> {
    let [read, created] = answers;
    if request.method() == Method::GET {
        return Ok(read.clone());
    }
    // What broke off is noticed by the client.
    let _ = request.into_body().collect().await;
    Ok(created.clone())
}

fn response(parts: &mut Parts<'_>) -> Result<Response<Full<Bytes>>> {
    let (head, body) = (parts.next()?, parts.next()?);
    let head = std::str::from_utf8(head)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?;
    let mut response = Response::builder().status(status);
    let headers = response.headers_mut().context("the status is wrong")?;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if !OWN_HEADERS.contains(&name) {
            headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
    }
    Ok(response.body(Full::new(Bytes::copy_from_slice(body)))?)
}

/// Takes the parts of the input one by one.
pub(crate) struct Parts<'i>(pub(crate) &'i [u8]);

impl<'i> Parts<'i> {
    pub(crate) fn next(&mut self) -> Result<&'i [u8]> {
        let (length, rest) = self.0.split_first_chunk().context("the input ends early")?;
        let length = usize::try_from(u32::from_be_bytes(*length))?;
        ensure!(rest.len() >= length, "the input ends within a part");
        let (part, rest) = rest.split_at(length);
        self.0 = rest;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_passes_through_the_input_unchanged() {
        let head = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\netag: \"1\"";
        let answer = Answer { status: 201, head, body: b"{}" };
        let input = input([answer, answer]);
        let mut parts = Parts(&input);
        let response = response(&mut parts).unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers().len(), 1, "the library counts the length itself");
        assert_eq!(response.headers()["etag"], "\"1\"");
    }
}
