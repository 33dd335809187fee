//! A frame becomes a [`Request`]: the link, the headers and the credentials that the same request over
//! HTTP would have. Values are read from tokens, never by way of text or a map of headers.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use orrery_direct::{Frame, FrameRequest, OperationCode, RequestTokens, ResourceCode};
use orrery_types::{Error, Result, limits};
use uuid::Uuid;

use super::connection::DirectPeer;
use super::replica;
use crate::consistency::ConsistencyLevel;
use crate::service::{Request, RequestParts, Scheme};
use crate::wire::headers::{
    FeedMode, IndexMetrics, IndexingDirective, Priority, ReadKeyType, ReplicaTarget,
    RequestHeaders, parse_date,
};
use crate::wire::link::ResourceLink;

const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// The value of `PageSize` that leaves the size to the server.
const PAGE_SIZE_ANY: u32 = u32::MAX;

/// The request of a frame. `may_block` says whether its thread may wait for the disk.
pub(super) fn request(frame: &Frame, peer_info: &DirectPeer, may_block: bool) -> Result<Request> {
    let sent = FrameRequest::decode(&frame.head).map_err(|e| Error::invalid(e.to_string()))?;
    let tokens = &sent.tokens;
    let link = ResourceLink::of_frame(&sent)?;
    let method = method(sent.operation)?;
    let headers = headers(&sent)?;
    let part = |text: &str| frame.head.slice_ref(text.as_bytes());
    let parts = RequestParts {
        link,
        headers,
        authorization: tokens.authorization.map(part),
        date: tokens.date.map(part),
        host: peer_info.server_name.clone(),
    };
    Ok(Request {
        activity_id: Uuid::from_bytes_le(sent.activity_id),
        method,
        path_and_query: path(tokens.replica_path.map(part)),
        authority: None,
        headers: HeaderMap::new(),
        body: frame.body.clone(),
        scheme: Scheme::Https,
        peer: peer_info.peer,
        may_block,
        parts: Some(Box::new(parts)),
    })
}

/// What error messages call the address of the request: the path of the replica.
pub(super) fn path(replica: Option<Bytes>) -> PathAndQuery {
    let path = replica.and_then(|bytes| PathAndQuery::from_maybe_shared(bytes).ok());
    path.unwrap_or_else(|| PathAndQuery::from_static("/"))
}

fn method(operation: OperationCode) -> Result<Method> {
    Ok(match operation {
        OperationCode::Read | OperationCode::ReadFeed => Method::GET,
        OperationCode::Create
        | OperationCode::Upsert
        | OperationCode::Query
        | OperationCode::SqlQuery
        | OperationCode::QueryPlan
        | OperationCode::Batch
        | OperationCode::Execute => Method::POST,
        OperationCode::Replace => Method::PUT,
        OperationCode::Patch => Method::PATCH,
        OperationCode::Delete => Method::DELETE,
        OperationCode::Head | OperationCode::HeadFeed => Method::HEAD,
        OperationCode::Connect => {
            return Err(Error::invalid("A connection has one context request, and it is over."));
        }
    })
}

fn headers(sent: &FrameRequest<'_>) -> Result<Box<RequestHeaders>> {
    let tokens = &sent.tokens;
    let mut headers = Box::new(RequestHeaders {
        is_query: matches!(sent.operation, OperationCode::Query | OperationCode::SqlQuery),
        is_query_plan: sent.operation == OperationCode::QueryPlan,
        is_upsert: sent.operation == OperationCode::Upsert,
        is_batch: sent.operation == OperationCode::Batch,
        batch_atomic: tokens.is_batch_atomic.map(|flag| flag != 0),
        batch_ordered: flag(tokens.is_batch_ordered),
        batch_continue_on_error: flag(tokens.batch_continue_on_error),
        session_token: text(tokens.session_token),
        prefer_minimal: tokens.return_preference == Some(1),
        script_logging: flag(tokens.enable_logging),
        ..RequestHeaders::default()
    });
    read_scope(sent, &mut headers)?;
    read_conditions(sent, &mut headers)?;
    read_query(tokens, &mut headers);
    read_settings(sent, &mut headers)?;
    Ok(headers)
}

fn read_scope(sent: &FrameRequest<'_>, headers: &mut RequestHeaders) -> Result<()> {
    let tokens = &sent.tokens;
    headers.partition_key = text(tokens.partition_key);
    headers.partition_key_range_id = text(tokens.range_id);
    headers.read_key_type = match tokens.read_key_type {
        Some(1) => Some(ReadKeyType::ResourceId),
        Some(2) => Some(ReadKeyType::EffectivePartitionKey),
        Some(3) => Some(ReadKeyType::EffectivePartitionKeyRange),
        _ => None,
    };
    let is_text = headers.read_key_type == Some(ReadKeyType::EffectivePartitionKeyRange);
    let key = |bytes: &[u8]| effective_key(bytes, is_text);
    headers.start_epk = tokens.start_epk.map(key).transpose()?;
    headers.end_epk = tokens.end_epk.map(key).transpose()?;
    headers.intended_collection_rid = text(tokens.intended_container_rid);
    // What is kept in the master partition knows no range, and its clients no container.
    if sent.resource != ResourceCode::Container {
        headers.replica = Some(ReplicaTarget {
            container_rid: text(tokens.container_rid),
            range: tokens.replica_path.and_then(replica::range),
        });
    }
    Ok(())
}

/// A bound of effective partition keys: hexadecimal text already, or bytes.
fn effective_key(bytes: &[u8], is_text: bool) -> Result<String> {
    if !is_text {
        let digit = |digit: u8| char::from(HEX_DIGITS[usize::from(digit & 0xf)]);
        return Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect());
    }
    let text = std::str::from_utf8(bytes).ok();
    text.map(str::to_owned).ok_or_else(|| Error::invalid("An effective partition key is not text."))
}

fn read_conditions(sent: &FrameRequest<'_>, headers: &mut RequestHeaders) -> Result<()> {
    let tokens = &sent.tokens;
    // One token serves for both conditions; which is meant depends on the operation.
    let condition = text(tokens.match_etag);
    match sent.operation {
        OperationCode::Read | OperationCode::ReadFeed => headers.if_none_match = condition,
        _ => headers.if_match = condition,
    }
    if let Some(date) = tokens.if_modified_since {
        let since = parse_date(date)
            .and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok())
            .ok_or_else(|| wrong("IfModifiedSince", date, "a date as in RFC 1123"))?;
        headers.if_modified_since_s = Some(since.as_secs());
    }
    headers.a_im = match tokens.a_im {
        None => None,
        Some(mode) if mode.eq_ignore_ascii_case("Incremental Feed") => Some(FeedMode::Incremental),
        Some(mode) if mode.eq_ignore_ascii_case("Full-Fidelity Feed") => {
            Some(FeedMode::FullFidelity)
        }
        Some(mode) => return Err(wrong("A_IM", mode, "Incremental Feed or Full-Fidelity Feed")),
    };
    headers.change_feed_format = text(tokens.change_feed_format);
    headers.pre_triggers = list(tokens.pre_trigger_include);
    headers.post_triggers = list(tokens.post_trigger_include);
    headers.indexing_directive = match tokens.indexing_directive {
        None => None,
        Some(0) => Some(IndexingDirective::Default),
        Some(1) => Some(IndexingDirective::Include),
        Some(2) => Some(IndexingDirective::Exclude),
        Some(other) => return Err(wrong("IndexingDirective", &other.to_string(), "0, 1 or 2")),
    };
    Ok(())
}

fn read_query(tokens: &RequestTokens<'_>, headers: &mut RequestHeaders) {
    headers.max_item_count = tokens.page_size.map(|size| match size {
        PAGE_SIZE_ANY => -1,
        size => i64::from(size),
    });
    headers.continuation = text(tokens.continuation);
    headers.continuation_limit_kb = tokens.continuation_limit_kb.map(u64::from);
    headers.names_capabilities = tokens.capabilities.is_some();
    headers.enable_scan = flag(tokens.enable_scan) || flag(tokens.force_query_scan);
    headers.optimistic_direct_execute = flag(tokens.optimistic_direct_execute);
    headers.query_version = text(tokens.query_version);
    headers.supported_query_features = list(tokens.supported_query_features);
    headers.populate_quota_info = flag(tokens.populate_quota_info);
    headers.populate_range_statistics = flag(tokens.populate_range_statistics);
    headers.populate_query_metrics = flag(tokens.populate_query_metrics);
    headers.populate_query_advice = flag(tokens.populate_query_advice);
    headers.populate_index_metrics = match tokens.populate_index_metrics_v2 {
        Some(1..) => Some(IndexMetrics::Second),
        _ => flag(tokens.populate_index_metrics).then_some(IndexMetrics::First),
    };
}

fn read_settings(sent: &FrameRequest<'_>, headers: &mut RequestHeaders) -> Result<()> {
    let tokens = &sent.tokens;
    if tokens.binary_id.is_some() {
        return Err(Error::invalid("The token BinaryId is not supported."));
    }
    headers.priority = match tokens.priority {
        Some(1) => Some(Priority::High),
        Some(2) => Some(Priority::Low),
        _ => None,
    };
    if let Some(bucket) = tokens.throughput_bucket {
        if !(1..=limits::THROUGHPUT_BUCKETS_MAX).contains(&usize::from(bucket)) {
            let shown = bucket.to_string();
            return Err(wrong("ThroughputBucket", &shown, "a whole number from 1 to 5"));
        }
        headers.throughput_bucket = Some(bucket);
    }
    // Clients ask for the strongest level wherever the master partition is read.
    if is_in_container(sent.resource)
        && let Some(level) = tokens.consistency_level
    {
        let level = ConsistencyLevel::from_code(level)
            .ok_or_else(|| wrong("ConsistencyLevel", &level.to_string(), "from 0 to 4"))?;
        headers.consistency_level = Some(level.to_string());
    }
    Ok(())
}

fn is_in_container(resource: ResourceCode) -> bool {
    matches!(
        resource,
        ResourceCode::Item
            | ResourceCode::Procedure
            | ResourceCode::Trigger
            | ResourceCode::Udf
            | ResourceCode::Conflict
    )
}

fn flag(byte: Option<u8>) -> bool {
    byte.is_some_and(|byte| byte != 0)
}

/// An empty text is none, as an empty header is.
fn text(value: Option<&str>) -> Option<String> {
    value.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn list(value: Option<&str>) -> Vec<String> {
    let names = value.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn wrong(name: &str, shown: &str, expected: &str) -> Error {
    Error::invalid(format!("The token '{name}' holds '{shown}', which is not {expected}."))
}
