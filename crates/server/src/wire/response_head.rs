//! A reply becomes an HTTP response: its head, with the headers that every response has.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::Full;
use orrery_engine::Container;
use orrery_engine::partition::session::SessionToken;
use orrery_types::{Etag, Lsn};
use uuid::Uuid;

use crate::service::{Response, Scheme};
use crate::wire::header_texts::{HeaderTexts, write_number};
use crate::wire::headers;
use crate::wire::reply::{ContentKind, Reply, ReplyDetails, ReplyOwner, ReplyPlace};

/// What a response says of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseContext<'r> {
    pub(crate) activity_id: Uuid,
    /// How long it took.
    pub(crate) took: Duration,
    /// Where it was sent, if that is known.
    pub(crate) location: Option<(Scheme, &'r HeaderValue, &'r PathAndQuery)>,
}

/// Capacity for the headers of a typical response, so that the map is allocated once.
const HEADERS_USUAL: usize = 36;
const EMPTY: HeaderValue = HeaderValue::from_static("");

/// Headers of every response, unless it sets them itself.
static USUAL_HEADERS: LazyLock<[(HeaderName, HeaderValue); 8]> = LazyLock::new(|| {
    [
        (headers::REQUEST_CHARGE, "0"),
        (headers::VERSION, headers::PROTOCOL_VERSION),
        (headers::GATEWAY_VERSION, "version=2.14.0"),
        (headers::SERVICE_VERSION, headers::SERVICE_VERSION_VALUE),
        (headers::SCHEMA_VERSION, "1.19"),
        (headers::READ_REGIONS, "0"),
        ("cache-control", "no-store, no-cache"),
        ("server", headers::SERVER_AGENT),
    ]
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
});

/// The headers that hold the LSN of a partition. One node is its own quorum.
const LSN_HEADERS: [&str; 5] = [
    headers::LSN,
    headers::LOCAL_LSN,
    headers::QUORUM_ACKED_LSN,
    headers::QUORUM_ACKED_LOCAL_LSN,
    headers::GLOBAL_COMMITTED_LSN,
];

/// The quorum headers of a write: there is one node.
const WRITTEN_HEADERS: [(&str, &str); 2] =
    [(headers::WRITE_QUORUM, "1"), (headers::REPLICA_SET_SIZE, "1")];

/// The headers of an operation's partition, and the index of the text that each takes; those of the item
/// come last.
const PLACE_HEADERS: [(&str, usize); 11] = [
    (headers::PARTITION_KEY_RANGE_ID, 0),
    (headers::INTERNAL_PARTITION_ID, 0),
    (headers::PHYSICAL_PARTITION_ID, 0),
    (headers::SESSION_TOKEN, 1),
    (LSN_HEADERS[0], 2),
    (LSN_HEADERS[1], 2),
    (LSN_HEADERS[2], 2),
    (LSN_HEADERS[3], 2),
    (LSN_HEADERS[4], 2),
    (headers::ITEM_LSN, 3),
    (headers::ITEM_LOCAL_LSN, 3),
];
const PLACE_TEXTS: usize = 4;
/// Of these headers, how many are of the item.
const PLACE_ITEM_HEADERS: usize = 2;

/// The other headers of an item's response, and the index of the text that each takes, after those of the
/// partition.
const ITEM_HEADERS: [(&str, usize); 7] = [
    (headers::ETAG, PLACE_TEXTS),
    (headers::REQUEST_CHARGE, PLACE_TEXTS + 1),
    (headers::CONTENT_PATH, PLACE_TEXTS + 2),
    (headers::ALT_CONTENT_PATH, PLACE_TEXTS + 3),
    (headers::ACTIVITY_ID, PLACE_TEXTS + 4),
    (headers::REQUEST_DURATION_MS, PLACE_TEXTS + 5),
    (headers::CONTENT_LOCATION, PLACE_TEXTS + 6),
];
const ITEM_TEXTS: usize = PLACE_TEXTS + ITEM_HEADERS.len();

/// The response that a reply becomes.
pub(crate) fn response(mut reply: Reply, context: &ResponseContext<'_>) -> Response {
    let body = std::mem::take(&mut reply.body);
    let status = reply.status;
    let headers = match ItemHead::of(&reply) {
        Some(item) => item.headers(context),
        None => headers(reply, context),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Adds the headers of every response.
pub(crate) fn add_usual(headers: &mut HeaderMap, activity_id: Uuid, took: Duration) {
    let mut texts = HeaderTexts::<2>::with_capacity(64);
    texts.add(|out| write_activity_id(out, activity_id));
    texts.add(|out| write_ms(out, took));
    let [id, ms] = texts.into_values();
    headers.insert(const { HeaderName::from_static(headers::ACTIVITY_ID) }, id);
    headers.insert(const { HeaderName::from_static(headers::REQUEST_DURATION_MS) }, ms);
    for (name, value) in &*USUAL_HEADERS {
        headers.entry(name).or_insert_with(|| value.clone());
    }
}

/// The headers of any reply, one after the other.
fn headers(reply: Reply, context: &ResponseContext<'_>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(HEADERS_USUAL);
    let kind = match reply.content {
        ContentKind::Empty => None,
        ContentKind::Json => Some("application/json"),
        ContentKind::Binary => Some("application/octet-stream"),
    };
    if let Some(kind) = kind {
        map.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(etag) = reply.etag {
        etag.with_text(|text| put(&mut map, headers::ETAG, HeaderValue::from_str(text)));
    }
    if reply.sub_status != 0 {
        map.insert(headers::SUB_STATUS, reply.sub_status.into());
    }
    if let Some(details) = reply.details {
        add_details(&mut map, *details);
    }
    if reply.is_write {
        for (name, value) in WRITTEN_HEADERS {
            map.insert(name, HeaderValue::from_static(value));
        }
    }
    let owner = reply.owner.texts();
    let mut texts = HeaderTexts::<3>::with_capacity(64);
    texts.add(|out| write_charge(out, reply.charge));
    if let Some((rid, names)) = owner {
        texts.add_text(rid);
        texts.add_text(&wire_text(names));
    }
    let [charge, rid, names] = texts.into_values();
    map.insert(headers::REQUEST_CHARGE, charge);
    if owner.is_some() {
        map.insert(headers::CONTENT_PATH, rid);
        map.insert(headers::ALT_CONTENT_PATH, names);
    }
    add_place_headers(&mut map, reply.place);
    if reply.closes {
        map.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    add_usual(&mut map, context.activity_id, context.took);
    map
}

fn add_details(map: &mut HeaderMap, details: ReplyDetails) {
    let ReplyDetails { continuation, etag, item_count, session, range, lsn, .. } = details;
    let texts = [
        (headers::ETAG, etag),
        (headers::CONTINUATION, continuation),
        (headers::SESSION_TOKEN, session),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            put(map, name, HeaderValue::try_from(text));
        }
    }
    let numbers = [
        (headers::ITEM_COUNT, item_count.and_then(|count| u64::try_from(count).ok())),
        (headers::PARTITION_KEY_RANGE_ID, range.map(u64::from)),
        (headers::LSN, lsn.map(|lsn| lsn.0)),
        (headers::RETRY_AFTER_MS, details.retry_after_ms),
        (headers::INDEX_PROGRESS, details.index_progress.map(u64::from)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            map.insert(name, number.into());
        }
    }
    if let Some(requires) = details.requires_distribution {
        let text = if requires { "True" } else { "False" };
        map.insert(headers::REQUIRES_DISTRIBUTION, HeaderValue::from_static(text));
    }
    for (note, text) in details.notes {
        put(map, note.header(), HeaderValue::try_from(text));
    }
}

/// Adds a header; a value that is not valid in a header is omitted.
fn put<E>(map: &mut HeaderMap, name: &'static str, value: Result<HeaderValue, E>) {
    if let Ok(value) = value {
        map.insert(name, value);
    }
}

fn add_place_headers(map: &mut HeaderMap, place: ReplyPlace) {
    match place {
        ReplyPlace::Nothing => {}
        ReplyPlace::Catalog(lsn) => {
            let value = HeaderValue::from(lsn.0);
            for name in LSN_HEADERS {
                map.insert(name, value.clone());
            }
        }
        ReplyPlace::Partition { token, item_lsn } => {
            let mut texts = HeaderTexts::<PLACE_TEXTS>::with_capacity(64);
            add_place(&mut texts, token, item_lsn.unwrap_or_default());
            let values = texts.into_values();
            let left_out = if item_lsn.is_some() { 0 } else { PLACE_ITEM_HEADERS };
            for (name, text) in &PLACE_HEADERS[..PLACE_HEADERS.len() - left_out] {
                map.insert(*name, values[*text].clone());
            }
        }
    }
}

fn add_place<const N: usize>(texts: &mut HeaderTexts<N>, token: SessionToken, item_lsn: Lsn) {
    texts.add_number(token.partition.into());
    texts.add(|out| token.write(out));
    texts.add_number(token.lsn.0);
    texts.add_number(item_lsn.0);
}

/// The head of an answer that holds one item and nothing else.
struct ItemHead<'r> {
    etag: Etag,
    charge: f64,
    container: &'r Container,
    token: SessionToken,
    item_lsn: Lsn,
    is_write: bool,
    is_located: bool,
}

impl<'r> ItemHead<'r> {
    fn of(reply: &'r Reply) -> Option<Self> {
        let Reply { etag, charge, is_write, is_located, .. } = *reply;
        let is_plain = reply.sub_status == 0 && !reply.closes && reply.details.is_none();
        let ReplyOwner::Container(container) = &reply.owner else { return None };
        let ReplyPlace::Partition { token, item_lsn } = reply.place else { return None };
        if !is_plain || reply.content != ContentKind::Json {
            return None;
        }
        let (etag, item_lsn) = (etag?, item_lsn?);
        Some(Self { etag, charge, container, token, item_lsn, is_write, is_located })
    }

    fn headers(&self, context: &ResponseContext<'_>) -> HeaderMap {
        let location = context.location.filter(|_| self.is_located);
        let template = match location {
            _ if self.is_write => &WRITTEN_ITEM_TEMPLATE,
            Some(_) => &LOCATED_ITEM_TEMPLATE,
            None => &ITEM_TEMPLATE,
        };
        template.filled(&self.values(context, location))
    }

    fn values(
        &self,
        context: &ResponseContext<'_>,
        location: Option<(Scheme, &HeaderValue, &PathAndQuery)>,
    ) -> [HeaderValue; ITEM_TEXTS] {
        let mut texts = HeaderTexts::<ITEM_TEXTS>::with_capacity(320);
        add_place(&mut texts, self.token, self.item_lsn);
        self.etag.with_text(|text| texts.add_text(text));
        texts.add(|out| write_charge(out, self.charge));
        texts.add_text(self.container.rid_text());
        texts.add_text(&wire_text(self.container.alt_link()));
        texts.add(|out| write_activity_id(out, context.activity_id));
        texts.add(|out| write_ms(out, context.took));
        if let Some((scheme, host, path)) = location {
            let path = path.as_str().as_bytes();
            let pieces = [scheme.as_str().as_bytes(), b"://", host.as_bytes(), path];
            texts.add(|out| pieces.iter().for_each(|piece| out.extend_from_slice(piece)));
        }
        texts.into_values()
    }
}

/// A header map that is cloned and filled. Cloning is far cheaper than inserting name by name, and most
/// responses are about items.
struct Template {
    headers: HeaderMap,
    /// For each header in the order of the map, the index of its value.
    takes: Vec<Option<usize>>,
}

static LOCATED_ITEM_TEMPLATE: LazyLock<Template> =
    LazyLock::new(|| Template::new(&ITEM_HEADERS, &[]));
static ITEM_TEMPLATE: LazyLock<Template> =
    LazyLock::new(|| Template::new(&ITEM_HEADERS[..ITEM_HEADERS.len() - 1], &[]));
static WRITTEN_ITEM_TEMPLATE: LazyLock<Template> =
    LazyLock::new(|| Template::new(&ITEM_HEADERS[..ITEM_HEADERS.len() - 1], &WRITTEN_HEADERS));

impl Template {
    fn new(own: &[(&'static str, usize)], fixed: &[(&'static str, &'static str)]) -> Self {
        let mut headers = HeaderMap::with_capacity(HEADERS_USUAL);
        let filled: Vec<(&str, usize)> = PLACE_HEADERS.iter().chain(own).copied().collect();
        for (name, _) in &filled {
            headers.insert(HeaderName::from_static(name), EMPTY);
        }
        let json = HeaderValue::from_static("application/json");
        headers.insert(http::header::CONTENT_TYPE, json);
        for (name, value) in fixed {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        for (name, value) in &*USUAL_HEADERS {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        let text = |key: &HeaderName| filled.iter().find(|(name, _)| key == name);
        let takes = headers.keys().map(|key| text(key).map(|(_, text)| *text)).collect();
        Self { headers, takes }
    }

    fn filled(&self, values: &[HeaderValue; ITEM_TEXTS]) -> HeaderMap {
        let mut headers = self.headers.clone();
        for (header, taken) in headers.values_mut().zip(&self.takes) {
            if let Some(value) = taken.and_then(|at| values.get(at)) {
                header.clone_from(value);
            }
        }
        headers
    }
}

fn write_activity_id(out: &mut Vec<u8>, id: Uuid) {
    let mut buffer = Uuid::encode_buffer();
    out.extend_from_slice(id.hyphenated().encode_lower(&mut buffer).as_bytes());
}

/// A time in milliseconds, with three decimals.
fn write_ms(out: &mut Vec<u8>, time: Duration) {
    let us = time.as_micros();
    write_number(out, u64::try_from(us / 1000).unwrap_or(u64::MAX));
    // Four digits, of which the first is overwritten by the point.
    let from = out.len();
    write_number(out, u64::try_from(us % 1000).unwrap_or(0) + 1000);
    if let Some(first) = out.get_mut(from) {
        *first = b'.';
    }
}

/// A charge has two decimals at most.
fn write_charge(out: &mut Vec<u8>, charge: f64) {
    #[expect(clippy::cast_possible_truncation, reason = "out of range, the other branch is taken")]
    let hundredths = (charge * 100.0).round() as i64;
    #[expect(clippy::cast_precision_loss, reason = "that is what is tested")]
    let exact = (hundredths as f64 / 100.0 - charge).abs() < f64::EPSILON * charge.abs().max(1.0);
    let Some(hundredths) = u64::try_from(hundredths).ok().filter(|_| exact) else {
        out.extend_from_slice(charge.to_string().as_bytes());
        return;
    };
    write_number(out, hundredths / 100);
    match hundredths % 100 {
        0 => {}
        part if part % 10 == 0 => {
            out.push(b'.');
            write_number(out, part / 10);
        }
        part => {
            out.extend_from_slice(if part < 10 { b".0" } else { b"." });
            write_number(out, part);
        }
    }
}

/// Names hold any character, headers ASCII. Clients compare the decoded text.
fn wire_text(names: &str) -> Cow<'_, str> {
    const KEPT: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b'%').add(b'"');
    if names.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_control()) {
        return names.into();
    }
    percent_encoding::utf8_percent_encode(names, KEPT).into()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::wire::reply::ReplyNote;

    fn charge_text(charge: f64) -> String {
        let mut out = Vec::new();
        write_charge(&mut out, charge);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn charges_are_written_as_numbers_are() {
        for charge in [0.0, 1.0, 1.08, 2.5, 10.29, 5.3, 1234.56, 1e300, -1.5] {
            assert_eq!(charge_text(charge).parse::<f64>().ok(), Some(charge), "{charge}");
        }
        assert_eq!((charge_text(3.0), charge_text(2.50)), ("3".into(), "2.5".into()));
        assert_eq!((charge_text(1.08), charge_text(0.1 + 0.2)), ("1.08".into(), "0.3".into()));
    }

    #[test]
    fn a_filled_template_has_every_value_under_its_name() {
        let values: [HeaderValue; ITEM_TEXTS] = std::array::from_fn(HeaderValue::from);
        let headers = LOCATED_ITEM_TEMPLATE.filled(&values);
        for (name, text) in PLACE_HEADERS.into_iter().chain(ITEM_HEADERS) {
            assert_eq!(headers.get(name), Some(&HeaderValue::from(text)), "{name}");
        }
        for (name, value) in &*USUAL_HEADERS {
            let own = ITEM_HEADERS.iter().any(|(own, _)| name == own);
            assert!(own || headers.get(name) == Some(value), "{name}");
        }
        let plain = ITEM_TEMPLATE.filled(&values);
        assert_eq!(plain.get(headers::CONTENT_LOCATION), None);
        assert_eq!(plain.len() + 1, headers.len());
        let written = WRITTEN_ITEM_TEMPLATE.filled(&values);
        assert_eq!(written.len(), plain.len() + WRITTEN_HEADERS.len());
        for (name, value) in WRITTEN_HEADERS {
            assert_eq!(written.get(name), Some(&HeaderValue::from_static(value)), "{name}");
        }
    }

    #[test]
    fn a_value_that_no_header_may_hold_is_left_out_and_the_others_stay() {
        let took = Duration::from_micros(12_034);
        let context = ResponseContext { activity_id: Uuid::nil(), took, location: None };
        let reply = Reply::json(StatusCode::OK, "[]")
            .item_count(3)
            .continuation(Some("a\nb".into()))
            .note(ReplyNote::QueryMetrics, "steps=1");
        let response = response(reply, &context);
        let text = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!((text(headers::CONTINUATION), text(headers::ITEM_COUNT)), (None, Some("3")));
        assert_eq!(text(headers::QUERY_METRICS), Some("steps=1"));
        assert_eq!(text(headers::REQUEST_DURATION_MS), Some("12.034"));
        assert_eq!(text(headers::REQUEST_CHARGE), Some("0"));
        assert_eq!(text(headers::GATEWAY_VERSION), Some("version=2.14.0"));
    }
}
