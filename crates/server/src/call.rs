//! One request, parsed and authenticated: its link, headers, principal and operation, and the container
//! and query that it turns out to be about. Handlers decode it; `execute` runs it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::HeaderValue;
use orrery_engine::partition::session::Sessions;
use orrery_engine::throughput::throttle::{Claim, Pass};
use orrery_engine::{Container, Engine, throughput::charge};
use orrery_types::json::escape_controls;
use orrery_types::{CancellationToken, Error, PartitionKey, Result, Value, limits};

use crate::api::{Shared, SharedRef};
use crate::auth::{Credentials, Principal, Transport};
use crate::consistency::ConsistencyLevel;
use crate::dispatch;
use crate::handlers::{addresses, item};
use crate::operation::Operation;
use crate::service::{Request, RequestParts};
use crate::wire::binary_json::{self, BinaryJsonError, BinaryJsonFault};
use crate::wire::error;
use crate::wire::headers::{ReplicaTarget, RequestHeaders};
use crate::wire::link::{ContainerAddress, ResourceLink, Target};
use crate::wire::reply::Reply;

/// One request, parsed and authenticated.
pub(crate) struct Call {
    pub(crate) shared: SharedRef,
    pub(crate) request: Request,
    pub(crate) headers: Box<RequestHeaders>,
    pub(crate) link: ResourceLink,
    pub(crate) operation: Operation,
    pub(crate) principal: Principal,
    pub(crate) labels: Labels,
    /// The body, once it is parsed: a request that moves to another thread takes it along.
    json: OnceLock<Value>,
    /// The consistency level at which it reads.
    consistency: ConsistencyLevel,
    /// The throughput that it is charged to, where throughput is enforced.
    pass: OnceLock<Pass>,
    /// Cancelled when the client closes the connection. Requests that complete inline have none.
    pub(crate) cancellation: Option<CancellationToken>,
}

impl Call {
    /// Parses and authenticates a request.
    pub(crate) fn read(shared: SharedRef, mut request: Request) -> Result<Self> {
        let (link, principal, headers) = match request.parts.take() {
            Some(parts) => authenticate_parts(&shared, &request, *parts)?,
            None => authenticate_http(&shared, &request)?,
        };
        let operation = Operation::of(&request.method, &link.target, &headers);
        let consistency = shared.consistency.admit(headers.consistency_level.as_deref())?;
        Ok(Self {
            shared,
            request,
            headers,
            link,
            operation,
            principal,
            labels: Labels::default(),
            json: OnceLock::new(),
            consistency,
            pass: OnceLock::new(),
            cancellation: None,
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// The container of a path, for an operation on what is in it.
    pub(crate) fn container(&self, address: &ContainerAddress) -> Result<&Arc<Container>> {
        let found = self.engine().containers().read(&address.database, &address.container);
        let mut container = found.map_err(|_| Error::OwnerNotFound)?;
        let range = self.headers.partition_key_range_id.as_deref();
        if range.is_some_and(|id| container.partition_by_id(id).is_err()) {
            // Another process may have made it.
            self.engine().refresh_catalog()?;
            let found = self.engine().containers().read(&address.database, &address.container);
            container = found.map_err(|_| Error::OwnerNotFound)?;
        }
        if let Some(intended) = &self.headers.intended_collection_rid
            && intended != container.rid_text()
        {
            return Err(Error::ContainerRecreated);
        }
        if let Some(replica) = &self.headers.replica {
            check_replica(&container, replica)?;
        }
        let rid = container.rid();
        let container = self.labels.container.get_or_init(|| container);
        debug_assert_eq!(container.rid(), rid, "a request is about one container");
        match &self.headers.session_token {
            None => {}
            Some(token) if self.operation.reads() => {
                self.engine().sessions().check(container, token)?;
            }
            Some(token) => Sessions::check_form(token)?,
        }
        if self.engine().throughput().throttles() && dispatch::spends(self) {
            self.admit(container)?;
        }
        Ok(container)
    }

    /// Forgets which container the request was found to be about; whether there was one.
    pub(crate) fn forget_container(&mut self) -> bool {
        self.pass = OnceLock::new();
        self.labels.container.take().is_some()
    }

    /// Refuses the request if its container has no throughput left.
    fn admit(&self, container: &Container) -> Result<()> {
        // The handler reports what is wrong with the scope.
        let Ok(part) = item::scope_request(self) else { return Ok(()) };
        let priority = self.headers.priority.unwrap_or_default();
        let claim = Claim { priority, bucket: self.headers.throughput_bucket };
        if let Some(pass) = self.engine().throughput().admit(container, &part, claim)? {
            let _ = self.pass.set(pass);
        }
        Ok(())
    }

    pub(crate) fn set_shape(&self, shape: Arc<str>) {
        let _ = self.labels.shape.set(shape);
    }

    /// Charges the request to its throughput, now that its cost is known.
    fn pay(&self, reply: &Reply) {
        if let Some(pass) = self.pass.get() {
            self.engine().throughput().spend(pass, reply.charge, reply.range_reached());
        }
    }

    /// What a read costs at the level of the request.
    pub(crate) fn read_charge(&self, charge: f64) -> f64 {
        if self.consistency.doubles_reads() { charge::doubled(charge) } else { charge }
    }

    /// The partition key of the header, if there is one.
    pub(crate) fn partition_key(&self) -> Result<Option<PartitionKey>> {
        let parse = |text: &String| {
            PartitionKey::parse_header(text).map_err(|e| Error::invalid(e.to_string()))
        };
        self.headers.partition_key.as_ref().map(parse).transpose()
    }

    /// The body as JSON text, whichever encoding it has.
    pub(crate) fn body(&self) -> Result<Bytes> {
        json_text(&self.request.body)
    }

    /// The body as JSON, parsed once.
    pub(crate) fn json(&self) -> Result<&Value> {
        if let Some(json) = self.json.get() {
            return Ok(json);
        }
        let json = Value::parse(&self.body()?)
            .map_err(|e| Error::invalid(format!("The request body is not valid JSON: {e}.")))?;
        Ok(self.json.get_or_init(|| json))
    }

    /// The reply to a result, charged to the throughput of the request.
    pub(crate) fn reply(&self, result: Result<Reply>) -> Reply {
        let reply = match result {
            Ok(reply) => self.with_catalog_lsn(reply),
            Err(error) => self.failure(&error),
        };
        self.pay(&reply);
        reply
    }

    /// Adds the LSN of the catalog to replies about what it holds.
    fn with_catalog_lsn(&self, reply: Reply) -> Reply {
        if !dispatch::is_of_catalog(self) {
            return reply;
        }
        match self.engine().sessions().catalog_lsn() {
            Ok(lsn) if self.operation.reads() => reply.catalog_lsn(lsn),
            Ok(lsn) => reply.catalog_lsn(lsn).written(),
            Err(_) => reply,
        }
    }

    /// The reply to a failed request. It has the LSN and session token of the partition that it
    /// addressed; a query that the client is to merge has reached no partition, and neither has a request
    /// for one that is gone.
    fn failure(&self, error: &Error) -> Reply {
        let uri = self.request.path_and_query.as_str();
        let charge = if error::is_free(error) { 0.0 } else { charge::REFUSED };
        let is_elsewhere =
            matches!(error, Error::PartitionGone | Error::ContainerStale | Error::RangeStale);
        let reached = !is_elsewhere && !matches!(error, Error::CrossPartition(_));
        let reached = reached && !dispatch::is_of_catalog(self);
        let container = self.labels.container.get().filter(|_| reached);
        let place = container.and_then(|at| Some((at, item::addressed(self, at)?)));
        let reply = error::reply(error, self.request.activity_id, uri).charge(charge);
        match place {
            Some((container, place)) => reply.refused_at(container, place),
            None => self.with_catalog_lsn(reply),
        }
    }
}

type Authenticated = (ResourceLink, Principal, Box<RequestHeaders>);

/// Reads the parts of an HTTP request. Headers are parsed only for whom the credentials prove to be
/// somebody.
fn authenticate_http(shared: &Shared, request: &Request) -> Result<Authenticated> {
    let link = ResourceLink::parse(request.path_and_query.as_str())?;
    if matches!(link.target, Target::Addresses(_)) && !shared.is_direct {
        return Err(addresses::gateway_only());
    }
    let (method, transport) = (&request.method, Transport::of(request));
    let principal =
        shared.authenticator.authenticate(method, &link, &request.headers, transport)?;
    Ok((link, principal, RequestHeaders::parse(&request.headers)?))
}

/// Checks the credentials of a request that came as a frame.
fn authenticate_parts(
    shared: &Shared,
    request: &Request,
    parts: RequestParts,
) -> Result<Authenticated> {
    let RequestParts { link, headers, authorization, date, host } = parts;
    let credentials = Credentials {
        authorization: authorization.as_deref(),
        own_date: date.as_deref().and_then(|date| std::str::from_utf8(date).ok()),
        standard_date: None,
        host: host.as_ref().map(HeaderValue::as_bytes),
        transport: Transport::of(request),
    };
    let principal = shared.authenticator.verify(&request.method, &link, &credentials)?;
    Ok((link, principal, headers))
}

/// Refuses a request in Direct mode that is meant for a container or range which is no more, so that its
/// client reads anew what it believes.
fn check_replica(container: &Container, replica: &ReplicaTarget) -> Result<()> {
    if replica.container_rid.as_ref().is_some_and(|rid| rid != container.rid_text()) {
        return Err(Error::ContainerStale);
    }
    match replica.range {
        Some(range) if !container.range_ids().any(|id| id == range) => Err(Error::RangeStale),
        _ => Ok(()),
    }
}

/// What a request turned out to be about, for its statistics and for the headers of a failure.
#[derive(Default)]
pub(crate) struct Labels {
    pub(crate) container: OnceLock<Arc<Container>>,
    /// Its query without constants.
    pub(crate) shape: OnceLock<Arc<str>>,
    /// The partition key in the body of a write that has none in its headers; `None` if the body is
    /// not an item.
    pub(crate) body_key: OnceLock<Option<PartitionKey>>,
}

/// A body as JSON text. Text is passed on as it is and not validated, but that control characters in its
/// strings are escaped.
pub(crate) fn json_text(body: &Bytes) -> Result<Bytes> {
    if body.first() != Some(&binary_json::PREAMBLE) {
        return Ok(escape_controls(body).map_or_else(|| body.clone(), Bytes::from));
    }
    match binary_json::decode(body) {
        Ok(value) => Ok(value.to_json().into()),
        Err(BinaryJsonError { fault: BinaryJsonFault::TooLarge { text_bytes: size }, .. }) => {
            let limit = limits::REQUEST_BODY_BYTES_MAX;
            Err(Error::TooLarge { what: "the body of the request as text", size, limit })
        }
        Err(e) => Err(Error::invalid(format!("The request body is not valid binary JSON: {e}."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &[u8], expected: std::result::Result<&str, &str>) {
        let text = json_text(&Bytes::copy_from_slice(body)).map_err(|e| e.to_string());
        let text = text.map(|t| String::from_utf8(t.to_vec()).expect("JSON is UTF-8"));
        assert_eq!(text.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn a_text_body_is_passed_on_as_it_is() {
        check(b"", Ok(""));
        check(b" {\"a\" : 1}", Ok(" {\"a\" : 1}"));
        check(b"{ not JSON", Ok("{ not JSON"));
    }

    #[test]
    fn raw_control_characters_in_strings_are_taken_as_if_they_were_escaped() {
        check(b"{\n\t\"id\":\"a\tb\"}", Ok("{\n\t\"id\":\"a\\u0009b\"}"));
    }

    #[test]
    fn a_binary_body_becomes_text() {
        check(b"\x80\xed\x06\x02\x2c\x81a\x81n\x07", Ok(r#"{"id":"a","n":7}"#));
    }

    #[test]
    fn a_malformed_binary_body_is_refused_and_the_place_is_named() {
        let body = b"\x80\xe9\x2c\xff";
        let message = "The request body is not valid binary JSON: unknown marker 0xff at offset 3.";
        check(body, Err(message));
        let error = json_text(&Bytes::from_static(body)).expect_err("it is malformed");
        assert_eq!(error::reply(&error, uuid::Uuid::nil(), "/").status(), 400);
    }

    #[test]
    fn a_binary_body_that_stands_for_too_much_text_is_too_large() {
        // One string of 64 kB, and a hundred references to it.
        let mut body = vec![0x80, 0xe4, 0, 0, 0, 0, 0xc1, 0xff, 0xff];
        body.resize(body.len() + 0xffff, b'x');
        body.extend([0xc3, 6].repeat(100));
        let length = u32::try_from(body.len() - 6).expect("it is short");
        body[2..6].copy_from_slice(&length.to_le_bytes());
        let error = json_text(&body.into()).expect_err("it is too large");
        assert_eq!(error::reply(&error, uuid::Uuid::nil(), "/").status(), 413);
    }
}
