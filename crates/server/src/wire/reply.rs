//! The response of a handler: a status, a body, and headers by typed setters.

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::Full;
use orrery_engine::item::read::CommitPosition;
use orrery_engine::{Container, Resource};
use orrery_types::{Etag, Lsn};

use crate::net::front::USUAL_HEADERS;
use crate::service::Response;
use crate::wire::header_texts::{HeaderTexts, write_number};
use crate::wire::headers;

/// Capacity for the headers of a typical response, so that the map is allocated once.
const HEADERS_USUAL: usize = 36;

/// A response under construction.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    body: Bytes,
    headers: HeaderMap,
    /// Its charge in request units.
    charge: f64,
}

impl Reply {
    /// An answer without body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        let headers = HeaderMap::with_capacity(HEADERS_USUAL);
        Self { status, body: Bytes::new(), headers, charge: 0.0 }
    }

    /// An answer with a JSON body.
    pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let mut reply = Self::empty(status);
        reply.body = body.into();
        let json = HeaderValue::from_static("application/json");
        reply.headers.insert(http::header::CONTENT_TYPE, json);
        reply
    }

    /// An answer with a body in a binary form.
    pub(crate) fn binary(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let mut reply = Self::json(status, body);
        let binary = HeaderValue::from_static("application/octet-stream");
        reply.headers.insert(http::header::CONTENT_TYPE, binary);
        reply
    }

    /// A resource of the catalog.
    pub(crate) fn resource(status: StatusCode, resource: &Resource) -> Self {
        Self::json(status, resource.body.to_json()).etag(resource.stamp.etag)
    }

    /// Adds a header; a value that is not valid in a header is omitted.
    pub(crate) fn header(self, name: &'static str, value: &str) -> Self {
        match HeaderValue::try_from(value) {
            Ok(value) => self.value(HeaderName::from_static(name), value),
            Err(_) => self,
        }
    }

    fn value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(crate) fn header_if(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    /// The log of a script, if it is not empty.
    pub(crate) fn script_log(self, log: &str) -> Self {
        match headers::script_log(log) {
            Some(log) => self.value(HeaderName::from_static(headers::SCRIPT_LOG_RESULTS), log),
            None => self,
        }
    }

    pub(crate) fn etag(self, etag: Etag) -> Self {
        etag.with_text(|text| self.header(headers::ETAG, text))
    }

    pub(crate) fn charge(mut self, charge: f64) -> Self {
        self.charge = charge;
        let mut text = HeaderTexts::<1>::with_capacity(8);
        text.add(|out| write_charge(out, charge));
        let [text] = text.into_values();
        self.value(HeaderName::from_static(headers::REQUEST_CHARGE), text)
    }

    /// The owner of the resources of this response: by rid and by names.
    pub(crate) fn owner(self, rid: &str, names: &str) -> Self {
        let names = wire_text(names);
        self.header(headers::CONTENT_PATH, rid).header(headers::ALT_CONTENT_PATH, &names)
    }

    /// The container that owns the items of this response: clients keep session tokens under it.
    pub(crate) fn container(self, container: &Container) -> Self {
        self.owner(container.rid_text(), container.alt_link())
    }

    /// An item.
    pub(crate) fn item(body: Bytes, etag: Etag, charge: f64, at: At<'_>) -> Self {
        let headers = ITEM_TEMPLATE.filled(&item_values(etag, charge, at, [].into_iter()));
        Self { status: StatusCode::OK, body, headers, charge }
    }

    /// An item that was written.
    pub(crate) fn written_item(
        status: StatusCode,
        body: Bytes,
        etag: Etag,
        charge: f64,
        at: At<'_>,
    ) -> Self {
        let headers = WRITTEN_ITEM_TEMPLATE.filled(&item_values(etag, charge, at, [].into_iter()));
        Self { status, body, headers, charge }
    }

    /// The quorum of a write.
    pub(crate) fn written(mut self) -> Self {
        for (name, value) in WRITTEN_HEADERS {
            self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        self
    }

    /// An item that was read, with its URL in pieces.
    pub(crate) fn located_item<'l>(
        body: Bytes,
        etag: Etag,
        charge: f64,
        at: At<'_>,
        location: impl Iterator<Item = &'l [u8]>,
    ) -> Self {
        let headers = LOCATED_ITEM_TEMPLATE.filled(&item_values(etag, charge, at, location));
        Self { status: StatusCode::OK, body, headers, charge }
    }

    /// Where in its container an operation happened, and the session token for it.
    pub(crate) fn place(self, container: &Container, place: CommitPosition) -> Self {
        self.place_headers(container, place, &PLACE_HEADERS)
    }

    /// The same for an operation that was refused: there is no item to speak of.
    pub(crate) fn refused_at(self, container: &Container, place: CommitPosition) -> Self {
        self.place_headers(container, place, &PLACE_HEADERS[..PLACE_HEADERS.len() - 2])
    }

    fn place_headers(
        mut self,
        container: &Container,
        place: CommitPosition,
        headers: &[(&'static str, usize)],
    ) -> Self {
        let mut texts = HeaderTexts::<PLACE_TEXTS>::with_capacity(64);
        add_place(&mut texts, container, place);
        let values = texts.into_values();
        for (name, text) in headers {
            self.headers.insert(HeaderName::from_static(name), values[*text].clone());
        }
        self
    }

    /// The LSN of the catalog.
    pub(crate) fn catalog_lsn(mut self, lsn: Lsn) -> Self {
        let value = HeaderValue::from(lsn.0);
        for name in LSN_HEADERS {
            self.headers.insert(HeaderName::from_static(name), value.clone());
        }
        self
    }

    /// The response and its charge.
    pub(crate) fn into_response(self) -> (Response, f64) {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        (response, self.charge)
    }
}

/// An item's container, and where in it the item is.
pub(crate) type At<'c> = (&'c Container, CommitPosition);

const EMPTY: HeaderValue = HeaderValue::from_static("");

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

fn add_place<const N: usize>(
    texts: &mut HeaderTexts<N>,
    container: &Container,
    place: CommitPosition,
) {
    texts.add_number(place.partition.into());
    texts.add_text(&container.token(place.partition, place.lsn));
    texts.add_number(place.lsn.0);
    texts.add_number(place.item_lsn.0);
}

/// The other headers of an item's response, and the index of the text that each takes, after those of the
/// partition.
const ITEM_HEADERS: [(&str, usize); 5] = [
    (headers::ETAG, PLACE_TEXTS),
    (headers::REQUEST_CHARGE, PLACE_TEXTS + 1),
    (headers::CONTENT_PATH, PLACE_TEXTS + 2),
    (headers::ALT_CONTENT_PATH, PLACE_TEXTS + 3),
    (headers::CONTENT_LOCATION, PLACE_TEXTS + 4),
];
const ITEM_TEXTS: usize = PLACE_TEXTS + ITEM_HEADERS.len();

fn item_values<'l>(
    etag: Etag,
    charge: f64,
    (container, place): At<'_>,
    location: impl Iterator<Item = &'l [u8]>,
) -> [HeaderValue; ITEM_TEXTS] {
    let mut texts = HeaderTexts::<ITEM_TEXTS>::with_capacity(256);
    add_place(&mut texts, container, place);
    etag.with_text(|text| texts.add_text(text));
    texts.add(|out| write_charge(out, charge));
    texts.add_text(container.rid_text());
    texts.add_text(&wire_text(container.alt_link()));
    texts.add(|out| location.for_each(|piece| out.extend_from_slice(piece)));
    texts.into_values()
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
        // The front sets these on every response; a clone has no spare capacity for them.
        for name in [headers::ACTIVITY_ID, headers::REQUEST_DURATION_MS] {
            headers.insert(HeaderName::from_static(name), EMPTY);
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
    use super::*;

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
}
