//! The answer to a request in the terms of the protocol and of no transport: handlers make it with typed
//! setters, `wire/response_head` writes it as the head of an HTTP response, and `direct/encode` as the
//! tokens of a frame.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use orrery_engine::item::read::CommitPosition;
use orrery_engine::partition::session::SessionToken;
use orrery_engine::{Container, Resource};
use orrery_types::{Etag, Lsn};

use crate::wire::headers;

/// An answer, whole or under construction.
#[derive(Debug)]
pub struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content: ContentKind,
    pub(crate) body: Bytes,
    /// In request units.
    pub(crate) charge: f64,
    pub(crate) etag: Option<Etag>,
    pub(crate) place: ReplyPlace,
    pub(crate) owner: ReplyOwner,
    /// Zero is not sent.
    pub(crate) sub_status: u16,
    /// Whether it answers a write, which has a quorum.
    pub(crate) is_write: bool,
    /// Whether it says where the request was answered: clients of several regions tell these apart by it.
    pub(crate) is_located: bool,
    /// Whether the connection cannot go on, because the rest of the request was not read.
    pub(crate) closes: bool,
    /// What answers about one item do not have.
    pub(crate) details: Option<Box<ReplyDetails>>,
}

/// What the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind {
    /// There is none.
    Empty,
    Json,
    Binary,
}

/// What a request has reached, and at which LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyPlace {
    Nothing,
    Catalog(Lsn),
    /// A partition. The LSN of an item is absent where the request was refused.
    Partition {
        token: SessionToken,
        item_lsn: Option<Lsn>,
    },
}

/// What owns the resources of an answer, by rid and by names.
#[derive(Debug)]
pub(crate) enum ReplyOwner {
    None,
    /// The container of the request, until the request is complete.
    Requested,
    /// That container: clients keep session tokens under it.
    Container(Arc<Container>),
    Resource {
        rid: String,
        names: String,
    },
}

/// What answers have that list something, are refused or explain themselves.
#[derive(Debug, Default)]
pub(crate) struct ReplyDetails {
    /// Where the next page begins.
    pub(crate) continuation: Option<String>,
    /// An etag that is none of a resource.
    pub(crate) etag: Option<String>,
    pub(crate) item_count: Option<usize>,
    /// The tokens of all partitions that were reached.
    pub(crate) session: Option<String>,
    /// The first of these partitions.
    pub(crate) range: Option<u32>,
    pub(crate) lsn: Option<Lsn>,
    pub(crate) retry_after_ms: Option<u64>,
    /// In percent.
    pub(crate) index_progress: Option<u8>,
    /// Whether the client has to merge the answers of several partitions.
    pub(crate) requires_distribution: Option<bool>,
    pub(crate) notes: Vec<(ReplyNote, String)>,
}

/// What only informs, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyNote {
    IdempotencyToken,
    IndexUtilization,
    MinThroughput,
    ModelWarnings,
    OfferReplacePending,
    Plan,
    QueryAdvice,
    QueryMetrics,
    ResourceQuota,
    ResourceUsage,
    ScriptLog,
    ShareThroughput,
}

impl ReplyNote {
    /// The header that holds it.
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::IdempotencyToken => headers::IDEMPOTENCY_TOKEN,
            Self::IndexUtilization => headers::INDEX_UTILIZATION,
            Self::MinThroughput => headers::MIN_THROUGHPUT,
            Self::ModelWarnings => headers::MODEL_WARNINGS,
            Self::OfferReplacePending => headers::OFFER_REPLACE_PENDING,
            Self::Plan => headers::PLAN,
            Self::QueryAdvice => headers::QUERY_ADVICE,
            Self::QueryMetrics => headers::QUERY_METRICS,
            Self::ResourceQuota => headers::RESOURCE_QUOTA,
            Self::ResourceUsage => headers::RESOURCE_USAGE,
            Self::ScriptLog => headers::SCRIPT_LOG_RESULTS,
            Self::ShareThroughput => headers::SHARE_THROUGHPUT,
        }
    }
}

/// An item's container, and where in it the item is.
pub(crate) type At<'c> = (&'c Container, CommitPosition);

impl Reply {
    /// An answer without body.
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            content: ContentKind::Empty,
            body: Bytes::new(),
            charge: 0.0,
            etag: None,
            place: ReplyPlace::Nothing,
            owner: ReplyOwner::None,
            sub_status: 0,
            is_write: false,
            is_located: false,
            closes: false,
            details: None,
        }
    }

    /// An answer with a JSON body.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { content: ContentKind::Json, body: body.into(), ..Self::empty(status) }
    }

    /// An answer with a body in a binary form.
    pub(crate) fn binary(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { content: ContentKind::Binary, ..Self::json(status, body) }
    }

    /// A resource of the catalog.
    pub(crate) fn resource(status: StatusCode, resource: &Resource) -> Self {
        Self::json(status, resource.body.to_json()).etag(resource.stamp.etag)
    }

    /// An item.
    pub(crate) fn item(
        status: StatusCode,
        body: Bytes,
        etag: Etag,
        charge: f64,
        at: At<'_>,
    ) -> Self {
        let (container, place) = at;
        Self {
            content: ContentKind::Json,
            body,
            charge,
            etag: Some(etag),
            place: ReplyPlace::item(container, place),
            owner: ReplyOwner::Requested,
            ..Self::empty(status)
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    fn details(&mut self) -> &mut ReplyDetails {
        self.details.get_or_insert_default()
    }

    fn with_details(mut self, change: impl FnOnce(&mut ReplyDetails)) -> Self {
        change(self.details());
        self
    }

    pub(crate) fn etag(self, etag: Etag) -> Self {
        Self { etag: Some(etag), ..self }
    }

    /// An etag that is none of a resource.
    pub(crate) fn etag_text(self, etag: String) -> Self {
        self.with_details(|details| details.etag = Some(etag))
    }

    pub(crate) fn charge(self, charge: f64) -> Self {
        Self { charge, ..self }
    }

    pub(crate) fn sub_status(self, sub_status: u16) -> Self {
        Self { sub_status, ..self }
    }

    pub(crate) fn retry_after_ms(mut self, ms: Option<u64>) -> Self {
        if ms.is_some() {
            self.details().retry_after_ms = ms;
        }
        self
    }

    pub(crate) fn continuation(mut self, token: Option<String>) -> Self {
        if token.is_some() {
            self.details().continuation = token;
        }
        self
    }

    pub(crate) fn item_count(self, count: usize) -> Self {
        self.with_details(|details| details.item_count = Some(count))
    }

    /// The session tokens of all partitions that were reached.
    pub(crate) fn sessions(mut self, tokens: String) -> Self {
        if !tokens.is_empty() {
            self.details().session = Some(tokens);
        }
        self
    }

    /// The same, with the first of the partitions: clients that find no range in an answer which they
    /// know of read the list of ranges anew each time.
    pub(crate) fn sessions_and_range(self, tokens: String) -> Self {
        let range = tokens.split_once(':').and_then(|(range, _)| range.parse().ok());
        self.sessions(tokens).range(range)
    }

    pub(crate) fn range(mut self, range: Option<u32>) -> Self {
        if range.is_some() {
            self.details().range = range;
        }
        self
    }

    pub(crate) fn lsn(mut self, lsn: Option<Lsn>) -> Self {
        if lsn.is_some() {
            self.details().lsn = lsn;
        }
        self
    }

    pub(crate) fn index_progress(self, percent: u8) -> Self {
        self.with_details(|details| details.index_progress = Some(percent))
    }

    pub(crate) fn requires_distribution(self, requires: bool) -> Self {
        self.with_details(|details| details.requires_distribution = Some(requires))
    }

    pub(crate) fn note(self, note: ReplyNote, text: impl Into<String>) -> Self {
        self.with_details(|details| details.notes.push((note, text.into())))
    }

    pub(crate) fn note_if(self, note: ReplyNote, text: Option<impl Into<String>>) -> Self {
        match text {
            Some(text) => self.note(note, text),
            None => self,
        }
    }

    /// The log of a script, if it is not empty.
    pub(crate) fn script_log(self, log: &str) -> Self {
        self.note_if(ReplyNote::ScriptLog, headers::script_log(log))
    }

    /// The owner of the resources of this answer: by rid and by names.
    pub(crate) fn owner(self, rid: String, names: String) -> Self {
        Self { owner: ReplyOwner::Resource { rid, names }, ..self }
    }

    /// The container of the request owns the items of this answer.
    pub(crate) fn of_container(self) -> Self {
        Self { owner: ReplyOwner::Requested, ..self }
    }

    /// The quorum of a write.
    pub(crate) fn written(self) -> Self {
        Self { is_write: true, ..self }
    }

    /// An answer that says where it was made.
    pub(crate) fn located(self) -> Self {
        Self { is_located: true, ..self }
    }

    /// An answer after which the connection ends.
    pub(crate) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// Where in its container an operation happened, and the session token for it.
    pub(crate) fn place(self, container: &Container, place: CommitPosition) -> Self {
        Self { place: ReplyPlace::item(container, place), ..self }
    }

    /// The same for an operation that was refused: there is no item to speak of.
    pub(crate) fn refused_at(self, container: &Container, place: CommitPosition) -> Self {
        let token = container.session_token(place.partition, place.lsn);
        Self { place: ReplyPlace::Partition { token, item_lsn: None }, ..self }
    }

    /// The LSN of the catalog.
    pub(crate) fn catalog_lsn(self, lsn: Lsn) -> Self {
        Self { place: ReplyPlace::Catalog(lsn), ..self }
    }

    /// The range that it names, for the throughput that it is charged to.
    pub(crate) fn range_reached(&self) -> Option<u32> {
        match self.place {
            ReplyPlace::Partition { token, .. } => Some(token.partition),
            _ => self.details.as_ref()?.range,
        }
    }

    /// Says what the container of the request is, now that the request is complete.
    pub(crate) fn set_container(&mut self, container: Option<Arc<Container>>) {
        if matches!(self.owner, ReplyOwner::Requested) {
            self.owner = container.map_or(ReplyOwner::None, ReplyOwner::Container);
        }
    }
}

impl ReplyOwner {
    /// By rid and by names.
    pub(crate) fn texts(&self) -> Option<(&str, &str)> {
        match self {
            Self::None | Self::Requested => None,
            Self::Container(container) => Some((container.rid_text(), container.alt_link())),
            Self::Resource { rid, names } => Some((rid, names)),
        }
    }
}

impl ReplyPlace {
    fn item(container: &Container, place: CommitPosition) -> Self {
        let token = container.session_token(place.partition, place.lsn);
        Self::Partition { token, item_lsn: Some(place.item_lsn) }
    }
}
