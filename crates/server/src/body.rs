//! Reading a request's body within its limits of size and time. `front` calls [`read`].

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use orrery_types::Error;
use tokio::time::timeout;

use crate::listener::Limits;

/// What is set aside at once; a client that only says it will send much gets no more.
const RESERVE_BYTES: usize = 64 * 1024;

/// Why there is no body.
pub(crate) struct BodyError {
    pub(crate) error: Error,
}

/// Whether the client waits to be told to send its body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    Continue,
    None,
}

/// The whole body. After an error the connection cannot be used again.
pub(crate) async fn read(
    mut body: Incoming,
    expectation: Expectation,
    limits: &Limits,
) -> Result<Bytes, BodyError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let declared = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    // Who asked first is refused without having sent anything.
    if let Some(size) = declared
        && size > limits.body_bytes_max
        && expectation == Expectation::Continue
    {
        return Err(too_large(size, limits));
    }
    let within = async {
        match collect(&mut body, declared, limits).await? {
            Collected::Whole(bytes) => Ok(bytes),
            Collected::TooLarge(size) => {
                let size = discard(&mut body, size, limits).await;
                Err(too_large(declared.unwrap_or(size), limits))
            }
        }
    };
    timeout(limits.body_time, within).await.unwrap_or_else(|_| {
        let message = format!(
            "The body of the request did not arrive within {} ms.",
            limits.body_time.as_millis()
        );
        Err(BodyError { error: Error::Timeout(message.into()) })
    })
}

enum Collected {
    Whole(Bytes),
    /// More than the limit, of which so much was read.
    TooLarge(usize),
}

async fn collect(
    body: &mut Incoming,
    declared: Option<usize>,
    limits: &Limits,
) -> Result<Collected, BodyError> {
    if declared.is_some_and(|size| size > limits.body_bytes_max) {
        return Ok(Collected::TooLarge(0));
    }
    let Some(first) = next(body).await? else { return Ok(Collected::Whole(Bytes::new())) };
    // Most bodies are one piece, which needs no copy.
    if body.is_end_stream() && first.len() <= limits.body_bytes_max {
        return Ok(Collected::Whole(first));
    }
    let reserve = declared.unwrap_or(RESERVE_BYTES).min(RESERVE_BYTES).max(first.len());
    let mut whole = BytesMut::with_capacity(reserve);
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        let size = whole.len().saturating_add(bytes.len());
        if size > limits.body_bytes_max {
            return Ok(Collected::TooLarge(size));
        }
        whole.extend_from_slice(&bytes);
        piece = next(body).await?;
    }
    Ok(Collected::Whole(whole.freeze()))
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("The body of the request broke off: {error}.");
            BodyError { error: Error::invalid(message) }
        })?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Reads on without keeping, because most clients look for an answer only after they have sent
/// all; a closed connection would hide the answer from them.
async fn discard(body: &mut Incoming, mut size: usize, limits: &Limits) -> usize {
    while size < limits.discard_bytes_max {
        let Ok(Some(bytes)) = next(body).await else { break };
        size = size.saturating_add(bytes.len());
    }
    size
}

fn too_large(size: usize, limits: &Limits) -> BodyError {
    let limit = limits.body_bytes_max;
    BodyError { error: Error::TooLarge { what: "the body of the request", size, limit } }
}
