//! Reads a request's body within its limits of size and time, and within the memory that all bodies
//! share. `front` calls [`BodyMemory::read`] and keeps the [`BodyReservation`] until it has answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use orrery_types::Error;
use tokio::time::timeout;

use crate::net::listener::Limits;

/// Buffer allocated before the first bytes arrive: a declared length alone reserves no more.
const RESERVE_BYTES: usize = 64 * 1024;

/// Counts the bytes of all bodies in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyMemory {
    bytes: Arc<AtomicUsize>,
}

/// A body's share of the count, released on drop.
pub(crate) struct BodyReservation {
    bodies: BodyMemory,
    bytes: usize,
}

impl BodyReservation {
    fn add(&mut self, bytes: usize, limits: &Limits) -> Result<(), Error> {
        self.bytes += bytes;
        let before = self.bodies.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= limits.bodies_bytes_max {
            return Ok(());
        }
        let message = "The server holds as many request bodies as it may. Try again soon.";
        Err(Error::Unavailable(message.into()))
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.bodies.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Whether the client waits for `100 Continue` before it sends its body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    Continue,
    None,
}

impl BodyMemory {
    /// Counts a body of so many bytes, unless that would be more than there may be.
    pub(crate) fn reserve(&self, bytes: usize, limits: &Limits) -> Result<BodyReservation, Error> {
        let mut reservation = BodyReservation { bodies: self.clone(), bytes: 0 };
        reservation.add(bytes, limits)?;
        Ok(reservation)
    }

    /// The whole body. After an error the connection cannot be used again.
    pub(crate) async fn read(
        &self,
        mut body: Incoming,
        expectation: Expectation,
        limits: &Limits,
    ) -> Result<(Bytes, BodyReservation), Error> {
        let mut reservation = BodyReservation { bodies: self.clone(), bytes: 0 };
        if body.is_end_stream() {
            return Ok((Bytes::new(), reservation));
        }
        let size = body.size_hint().exact();
        let declared = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        // A client that sent `Expect: 100-continue` is refused before it sends the body.
        if let Some(size) = declared
            && size > limits.body_bytes_max
            && expectation == Expectation::Continue
        {
            return Err(too_large(size, limits));
        }
        let within = async {
            match collect(&mut body, declared, &mut reservation, limits).await? {
                Collected::Whole(bytes) => Ok(bytes),
                Collected::TooLarge(size) => {
                    let size = discard(&mut body, size, limits).await;
                    Err(too_large(declared.unwrap_or(size), limits))
                }
            }
        };
        let bytes = timeout(limits.body_time, within).await.unwrap_or_else(|_| {
            let ms = limits.body_time.as_millis();
            let message = format!("The body of the request did not arrive within {ms} ms.");
            Err(Error::Timeout(message.into()))
        })?;
        Ok((bytes, reservation))
    }
}

enum Collected {
    Whole(Bytes),
    /// Over the limit; the number of bytes read so far.
    TooLarge(usize),
}

async fn collect(
    body: &mut Incoming,
    declared: Option<usize>,
    reservation: &mut BodyReservation,
    limits: &Limits,
) -> Result<Collected, Error> {
    if declared.is_some_and(|size| size > limits.body_bytes_max) {
        return Ok(Collected::TooLarge(0));
    }
    let Some(first) = next(body).await? else { return Ok(Collected::Whole(Bytes::new())) };
    reservation.add(first.len(), limits)?;
    // Most bodies arrive as one frame, which needs no copy.
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
        reservation.add(piece.as_ref().map_or(0, Bytes::len), limits)?;
    }
    Ok(Collected::Whole(whole.freeze()))
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("The body of the request broke off: {error}.");
            Error::invalid(message)
        })?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Reads and discards the rest, because most clients read the response only after they have sent the
/// whole body; closing the connection earlier would hide the response from them.
async fn discard(body: &mut Incoming, mut size: usize, limits: &Limits) -> usize {
    while size < limits.discard_bytes_max {
        let Ok(Some(bytes)) = next(body).await else { break };
        size = size.saturating_add(bytes.len());
    }
    size
}

fn too_large(size: usize, limits: &Limits) -> Error {
    let limit = limits.body_bytes_max;
    Error::TooLarge { what: "the body of the request", size, limit }
}
