//! The answer a handler gives: a status, a body, and headers by their typed setters.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::Full;
use orrery_engine::items::Place;
use orrery_engine::{Container, Resource};
use orrery_types::Etag;

use crate::front::USUAL_HEADERS;
use crate::headers;
use crate::service::Response;

/// Room for the headers that an answer usually has, so that the map is made once.
const HEADERS_USUAL: usize = 36;

/// An answer on its way out.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    body: Bytes,
    headers: HeaderMap,
}

impl Reply {
    /// An answer without body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, body: Bytes::new(), headers: HeaderMap::with_capacity(HEADERS_USUAL) }
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

    /// Adds a header; text that cannot stand in one is left out.
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

    /// What a script logged, if it did.
    pub(crate) fn script_log(self, log: &str) -> Self {
        match headers::script_log(log) {
            Some(log) => self.value(HeaderName::from_static(headers::SCRIPT_LOG_RESULTS), log),
            None => self,
        }
    }

    pub(crate) fn etag(self, etag: Etag) -> Self {
        etag.with_text(|text| self.header(headers::ETAG, text))
    }

    pub(crate) fn charge(self, charge: f64) -> Self {
        self.header(headers::REQUEST_CHARGE, &charge_text(charge))
    }

    /// Who owns the resources of this answer: by rid and by names.
    pub(crate) fn owner(self, rid: &str, names: &str) -> Self {
        let names = wire_text(names);
        self.header(headers::CONTENT_PATH, rid).header(headers::ALT_CONTENT_PATH, &names)
    }

    /// That items of this container are answered: clients file session tokens under it.
    pub(crate) fn container(self, container: &Container) -> Self {
        self.owner(container.rid_text(), container.alt_link())
    }

    /// An item that was read or written.
    pub(crate) fn item(
        status: StatusCode,
        body: Bytes,
        etag: Etag,
        charge: f64,
        (container, place): (&Container, Place),
    ) -> Self {
        let own = [
            HeaderValue::from_static("application/json"),
            etag.with_text(header_text),
            header_text(&charge_text(charge)),
            header_text(container.rid_text()),
            header_text(&wire_text(container.alt_link())),
        ];
        Self { status, body, headers: ITEM_TEMPLATE.filled(own, place_values(container, place)) }
    }

    /// Where in its container an operation happened, and the session token for it.
    pub(crate) fn place(mut self, container: &Container, place: Place) -> Self {
        for (name, value) in PLACE_HEADERS.into_iter().zip(place_values(container, place)) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    pub(crate) fn into_response(self) -> Response {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

const EMPTY: HeaderValue = HeaderValue::from_static("");

fn header_text(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(EMPTY)
}

/// The headers of an item's answer that [`Reply::item`] fills itself, in its order.
const ITEM_HEADERS: [&str; 5] = [
    "content-type",
    headers::ETAG,
    headers::REQUEST_CHARGE,
    headers::CONTENT_PATH,
    headers::ALT_CONTENT_PATH,
];
/// Those that say where an operation happened.
const PLACE_HEADERS: [&str; 11] = [
    headers::PARTITION_KEY_RANGE_ID,
    headers::INTERNAL_PARTITION_ID,
    headers::PHYSICAL_PARTITION_ID,
    headers::SESSION_TOKEN,
    headers::LSN,
    headers::LOCAL_LSN,
    headers::QUORUM_ACKED_LSN,
    headers::QUORUM_ACKED_LOCAL_LSN,
    headers::GLOBAL_COMMITTED_LSN,
    headers::ITEM_LSN,
    headers::ITEM_LOCAL_LSN,
];

fn place_values(container: &Container, place: Place) -> [HeaderValue; PLACE_HEADERS.len()] {
    let id = HeaderValue::from(place.partition);
    let (lsn, item_lsn) = (HeaderValue::from(place.lsn.0), HeaderValue::from(place.item_lsn.0));
    [
        id.clone(),
        id.clone(),
        id,
        header_text(&container.token(place.partition, place.lsn)),
        lsn.clone(),
        lsn.clone(),
        lsn.clone(),
        lsn.clone(),
        lsn,
        item_lsn.clone(),
        item_lsn,
    ]
}

/// A map of headers to be copied and filled. Copying one is far cheaper than making it, name by
/// name; and answers about items are the most there are.
struct Template {
    headers: HeaderMap,
    /// For each header in the order of the map, which of the values it takes.
    takes: Vec<Option<usize>>,
}

static ITEM_TEMPLATE: LazyLock<Template> = LazyLock::new(|| {
    let mut map = HeaderMap::with_capacity(HEADERS_USUAL);
    let filled: Vec<&str> = ITEM_HEADERS.into_iter().chain(PLACE_HEADERS).collect();
    for name in &filled {
        map.insert(HeaderName::from_static(name), EMPTY);
    }
    for (name, value) in &*USUAL_HEADERS {
        map.entry(name).or_insert_with(|| value.clone());
    }
    let takes = map.keys().map(|key| filled.iter().position(|name| key == name)).collect();
    Template { headers: map, takes }
});

impl Template {
    fn filled(
        &self,
        mut item: [HeaderValue; ITEM_HEADERS.len()],
        mut place: [HeaderValue; PLACE_HEADERS.len()],
    ) -> HeaderMap {
        let mut headers = self.headers.clone();
        for (header, taken) in headers.values_mut().zip(&self.takes) {
            let Some(at) = *taken else { continue };
            let value = match at.checked_sub(ITEM_HEADERS.len()) {
                Some(at) => place.get_mut(at),
                None => item.get_mut(at),
            };
            if let Some(value) = value {
                std::mem::swap(header, value);
            }
        }
        headers
    }
}

/// A charge has two decimals at most.
fn charge_text(charge: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "out of range, the other branch is taken")]
    let hundredths = (charge * 100.0).round() as i64;
    let mut text = String::with_capacity(16);
    #[expect(clippy::cast_precision_loss, reason = "that is what is tested")]
    let exact = (hundredths as f64 / 100.0 - charge).abs() < f64::EPSILON * charge.abs().max(1.0);
    let written = match (hundredths / 100, hundredths % 100) {
        _ if !exact || hundredths < 0 => write!(text, "{charge}"),
        (whole, 0) => write!(text, "{whole}"),
        (whole, part) if part % 10 == 0 => write!(text, "{whole}.{}", part / 10),
        (whole, part) => write!(text, "{whole}.{part:02}"),
    };
    written.expect("a string takes any text");
    text
}

/// Names may hold anything; headers hold ASCII. Clients compare the decoded text.
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
        let item = std::array::from_fn(HeaderValue::from);
        let place = std::array::from_fn(|at| HeaderValue::from(at + ITEM_HEADERS.len()));
        let headers = ITEM_TEMPLATE.filled(item, place);
        for (at, name) in ITEM_HEADERS.into_iter().chain(PLACE_HEADERS).enumerate() {
            assert_eq!(headers.get(name), Some(&HeaderValue::from(at)), "{name}");
        }
        for (name, value) in &*USUAL_HEADERS {
            let own = ITEM_HEADERS.contains(&name.as_str());
            assert!(own || headers.get(name) == Some(value), "{name}");
        }
    }
}
