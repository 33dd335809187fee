//! The answer a handler gives: a status, a body, and headers by their typed setters.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::Full;
use orrery_engine::items::Place;
use orrery_engine::{Container, Resource};
use orrery_types::Etag;

use crate::headers;
use crate::service::Response;

/// Room for the headers that an item's answer has, so that the map is made once.
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
        self.header(headers::ETAG, &etag.to_string())
    }

    pub(crate) fn charge(self, charge: f64) -> Self {
        self.header(headers::REQUEST_CHARGE, &charge.to_string())
    }

    /// Who owns the resources of this answer: by rid and by names.
    pub(crate) fn owner(self, rid: &str, names: &str) -> Self {
        let names = wire_text(names);
        self.header(headers::CONTENT_PATH, rid).header(headers::ALT_CONTENT_PATH, &names)
    }

    /// That items of this container are answered: clients file session tokens under it.
    pub(crate) fn container(self, container: &Container) -> Self {
        self.owner(&container.rid().to_string(), &container.alt_link())
    }

    /// Where in its container an operation happened, and the session token for it.
    pub(crate) fn place(self, container: &Container, place: Place) -> Self {
        let id = HeaderValue::from(place.partition);
        let (lsn, item_lsn) = (HeaderValue::from(place.lsn.0), HeaderValue::from(place.item_lsn.0));
        // Names that the compiler has checked: an item's answer has many, and is sent often.
        macro_rules! name {
            ($name:ident) => {
                const { HeaderName::from_static(headers::$name) }
            };
        }
        self.value(name!(PARTITION_KEY_RANGE_ID), id.clone())
            .value(name!(INTERNAL_PARTITION_ID), id.clone())
            .value(name!(PHYSICAL_PARTITION_ID), id)
            .header(headers::SESSION_TOKEN, &container.token(place.partition, place.lsn))
            .value(name!(LSN), lsn.clone())
            .value(name!(LOCAL_LSN), lsn.clone())
            .value(name!(QUORUM_ACKED_LSN), lsn.clone())
            .value(name!(QUORUM_ACKED_LOCAL_LSN), lsn.clone())
            .value(name!(GLOBAL_COMMITTED_LSN), lsn)
            .value(name!(ITEM_LSN), item_lsn.clone())
            .value(name!(ITEM_LOCAL_LSN), item_lsn)
    }

    pub(crate) fn into_response(self) -> Response {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Names may hold anything; headers hold ASCII. Clients compare the decoded text.
fn wire_text(names: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b'%').add(b'"');
    if names.is_ascii() && !names.contains(|c: char| c.is_control()) {
        return names.to_owned();
    }
    percent_encoding::utf8_percent_encode(names, KEPT).to_string()
}
