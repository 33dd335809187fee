//! A reply becomes a frame. Statuses, bodies and values are those of the HTTP response; what clients in
//! Direct mode need beyond that is added here.
//!
//! Every answer has an LSN of one at least, and where a partition was reached its session token: a
//! client takes an answer without them, an error above all, for one of a replica that lags behind, and
//! asks again for fifteen seconds.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use orrery_direct::frame::HEAD_BYTES_MIN;
use orrery_direct::{FrameResponse, ResponseTokens, request, token};
use orrery_types::Error;
use uuid::Uuid;

use super::replica::REPLICAS;
use crate::wire::reply::{Reply, ReplyDetails, ReplyNote, ReplyPlace};
use crate::wire::{error, header_texts};

/// What is needed of a request to answer it.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    /// By which the client finds the request.
    pub(super) transport_request_id: u32,
    /// As it stands on the wire.
    pub(super) activity_id: [u8; 16],
    /// The head of its frame.
    pub(super) head: Bytes,
}

impl Envelope {
    /// The session token of the request.
    fn session_token(&self) -> Option<&str> {
        let tokens = self.head.get(HEAD_BYTES_MIN..)?;
        token::find::<token::String>(tokens, request::SESSION_TOKEN).ok().flatten()
    }

    pub(super) fn activity(&self) -> Uuid {
        Uuid::from_bytes_le(self.activity_id)
    }
}

/// One node is its own quorum.
const WRITE_QUORUM: u32 = 1;
/// Clients take zero for an answer of no session.
const LSN_MIN: i64 = 1;
/// Bytes that a token of text holds.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;

/// Writes the frame of an answer.
pub(super) fn write(envelope: &Envelope, reply: &Reply, out: &mut BytesMut) {
    let from = out.len();
    if write_reply(envelope, reply, out).is_ok() {
        return;
    }
    // A value that does not fit into its token; nothing shorter would be true.
    out.truncate(from);
    let fault = Error::internal("an answer does not fit into a frame");
    let refusal = error::reply(&fault, envelope.activity(), "/");
    if write_reply(envelope, &refusal, out).is_err() {
        out.truncate(from);
    }
}

fn write_reply(
    envelope: &Envelope,
    reply: &Reply,
    out: &mut BytesMut,
) -> Result<(), orrery_direct::DirectError> {
    let body = &reply.body;
    // A refusal that reached no partition tells nothing of it. The client gets its own session back, so
    // that it does not take the answer for one of a replica that lags behind.
    let is_refusal = reply.status.is_client_error() || reply.status.is_server_error();
    let own_session = if is_refusal { envelope.session_token() } else { None };
    let texts = FrameTexts::of(reply);
    let frame = FrameResponse {
        status: reply.status.as_u16().into(),
        activity_id: envelope.activity_id,
        tokens: ResponseTokens {
            payload_present: Some((!body.is_empty()).into()),
            transport_request_id: Some(envelope.transport_request_id),
            ..tokens(reply, &texts, own_session)
        },
    };
    out.reserve(TYPICAL_HEAD_BYTES + body.len());
    frame.encode_head(body.len(), out)?;
    out.extend_from_slice(body);
    Ok(())
}

/// Room for the head of most answers.
const TYPICAL_HEAD_BYTES: usize = 320;

/// What frames hold as text and replies as numbers, in one buffer.
struct FrameTexts {
    bytes: Vec<u8>,
    etag_end: usize,
    range_end: usize,
}

impl FrameTexts {
    fn of(reply: &Reply) -> Self {
        let mut bytes = Vec::with_capacity(96);
        if let Some(etag) = reply.etag {
            etag.with_text(|text| bytes.extend_from_slice(text.as_bytes()));
        }
        let etag_end = bytes.len();
        if let Some(range) = reply.range_reached() {
            header_texts::write_number(&mut bytes, range.into());
        }
        let range_end = bytes.len();
        if let ReplyPlace::Partition { token, .. } = reply.place {
            token.write_version(&mut bytes);
        }
        Self { bytes, etag_end, range_end }
    }

    /// A part of the buffer, if there is anything in it.
    fn part(&self, part: Range<usize>) -> Option<&str> {
        let text = std::str::from_utf8(self.bytes.get(part)?).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }

    fn etag(&self) -> Option<&str> {
        self.part(0..self.etag_end)
    }

    fn range(&self) -> Option<&str> {
        self.part(self.etag_end..self.range_end)
    }

    /// The session token without its range. Clients put the range before it that they have asked.
    fn session(&self) -> Option<&str> {
        self.part(self.range_end..self.bytes.len())
    }
}

fn tokens<'a>(
    reply: &'a Reply,
    texts: &'a FrameTexts,
    own_session: Option<&'a str>,
) -> ResponseTokens<'a> {
    let (owner_id, owner_full_name) = reply.owner.texts().unzip();
    let own = ResponseTokens {
        etag: texts.etag(),
        request_charge: Some(reply.charge),
        owner_full_name,
        owner_id,
        sub_status: (reply.sub_status != 0).then_some(reply.sub_status.into()),
        write_quorum: Some(WRITE_QUORUM),
        replica_set_size: Some(REPLICAS),
        range_id: texts.range(),
        session_token: texts.session(),
        ..ResponseTokens::default()
    };
    let details = reply.details.as_deref();
    let listed = details.and_then(|details| details.session.as_deref()).or(own_session);
    let listed = listed.and_then(first_session).filter(|_| own.session_token.is_none());
    let lsn = lsn(reply, listed.map(|(_, token)| token));
    let mut tokens = ResponseTokens {
        lsn: Some(lsn),
        local_lsn: Some(lsn),
        quorum_acked_lsn: Some(lsn),
        quorum_acked_local_lsn: Some(lsn),
        range_id: own.range_id.or(listed.map(|(range, _)| range)),
        session_token: own.session_token.or(listed.map(|(_, token)| token)),
        ..own
    };
    if let Some(details) = details {
        add_details(&mut tokens, details);
    }
    tokens
}

/// The LSN of an answer: that of what it has reached, or else of its session.
fn lsn(reply: &Reply, session: Option<&str>) -> i64 {
    let listed = reply.details.as_ref().and_then(|details| details.lsn);
    let known = match reply.place {
        ReplyPlace::Partition { token, .. } => Some(token.lsn),
        ReplyPlace::Catalog(lsn) => Some(lsn),
        ReplyPlace::Nothing => listed,
    };
    let of_session = || session?.rsplit_once('#')?.1.parse().ok();
    let lsn = known.and_then(|lsn| i64::try_from(lsn.0).ok()).or_else(of_session);
    lsn.map_or(LSN_MIN, |lsn| lsn.max(LSN_MIN))
}

fn add_details<'a>(tokens: &mut ResponseTokens<'a>, details: &'a ReplyDetails) {
    // What only informs is left out where it is too long.
    let note = |note: ReplyNote| {
        let found = details.notes.iter().find(|(kind, _)| *kind == note);
        found.map(|(_, text)| &**text).filter(|text| text.len() <= TEXT_BYTES_MAX)
    };
    tokens.continuation = details.continuation.as_deref();
    tokens.etag = details.etag.as_deref().or(tokens.etag);
    tokens.retry_after_ms = details.retry_after_ms.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX));
    tokens.item_count = details.item_count.and_then(|count| u32::try_from(count).ok());
    tokens.index_progress = details.index_progress.map(u32::from);
    tokens.requires_distribution = details.requires_distribution.map(u8::from);
    tokens.resource_quota = note(ReplyNote::ResourceQuota);
    tokens.resource_usage = note(ReplyNote::ResourceUsage);
    tokens.log_results = note(ReplyNote::ScriptLog);
    tokens.query_metrics = note(ReplyNote::QueryMetrics);
    tokens.index_utilization = note(ReplyNote::IndexUtilization);
    tokens.query_advice = note(ReplyNote::QueryAdvice);
}

/// The range of a session token and the token without it.
fn first_session(tokens: &str) -> Option<(&str, &str)> {
    tokens.split(',').next()?.split_once(':')
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use orrery_direct::{FrameKind, FrameLimits, FrameProgress, next_frame};
    use orrery_engine::partition::session::SessionToken;
    use orrery_types::{Etag, Lsn};

    use super::*;

    /// A request that was sent with a session token, or without one.
    fn envelope(session_token: Option<&str>) -> Envelope {
        let mut head = BytesMut::from(&[0; HEAD_BYTES_MIN][..]);
        if let Some(session) = session_token {
            token::write::<token::String>(request::SESSION_TOKEN, session, &mut head)
                .expect("it fits");
        }
        Envelope { transport_request_id: 7, activity_id: [9; 16], head: head.freeze() }
    }

    /// A reply of a partition.
    fn of_partition(reply: Reply, partition: u32, lsn: u64) -> Reply {
        let token = SessionToken { partition, container: 7, lsn: Lsn(lsn) };
        Reply { place: ReplyPlace::Partition { token, item_lsn: None }, ..reply }
    }

    fn check(reply: &Reply, check: impl FnOnce(u32, ResponseTokens<'_>, &[u8])) {
        check_with(None, reply, check);
    }

    fn check_with(
        session_token: Option<&str>,
        reply: &Reply,
        check: impl FnOnce(u32, ResponseTokens<'_>, &[u8]),
    ) {
        let mut out = BytesMut::new();
        write(&envelope(session_token), reply, &mut out);
        let limits = FrameLimits { head_bytes_max: 1 << 20, body_bytes_max: 1 << 20 };
        let Ok(FrameProgress::Whole(frame)) = next_frame(&mut out, FrameKind::Response, &limits)
        else {
            panic!("no frame was written");
        };
        assert!(out.is_empty());
        let response = FrameResponse::decode(&frame.head).expect("it is ours");
        assert_eq!(response.tokens.transport_request_id, Some(7));
        assert_eq!(response.activity_id, [9; 16]);
        check(response.status, response.tokens, &frame.body);
    }

    #[test]
    fn every_answer_has_an_lsn_of_one_at_least_and_says_how_many_replicas_there_are() {
        let missing = || Reply::json(StatusCode::NOT_FOUND, "{}");
        let replies = [
            missing(),
            missing().catalog_lsn(Lsn(0)),
            missing().lsn(Some(Lsn(0))).sessions("0:7#0".into()),
            missing().sessions("0:7#0".into()),
            of_partition(missing(), 0, 0),
        ];
        for reply in replies {
            check(&reply, |status, tokens, body| {
                assert_eq!((status, body), (404, &b"{}"[..]));
                let lsns = [tokens.lsn, tokens.local_lsn, tokens.quorum_acked_lsn];
                assert_eq!(lsns, [Some(1); 3], "{reply:?}");
                assert_eq!(tokens.quorum_acked_local_lsn, Some(1));
                assert_eq!((tokens.write_quorum, tokens.replica_set_size), (Some(1), Some(2)));
                assert_eq!(tokens.request_charge, Some(0.0));
            });
        }
    }

    #[test]
    fn a_session_token_goes_without_its_range_and_gives_the_lsn() {
        let listed = Reply::empty(StatusCode::OK).sessions("3:7#15,4:7#20".into());
        let reached = of_partition(Reply::empty(StatusCode::OK), 3, 15);
        for reply in [listed, reached] {
            check(&reply, |_, tokens, body| {
                assert_eq!(tokens.session_token, Some("7#15"));
                assert_eq!(tokens.range_id, Some("3"));
                assert_eq!(tokens.lsn, Some(15));
                assert_eq!((tokens.payload_present, body), (Some(0), &b""[..]));
            });
        }
    }

    #[test]
    fn a_page_of_changes_says_which_range_it_is_of_and_how_far_that_has_come() {
        let reply = Reply::empty(StatusCode::NOT_MODIFIED)
            .etag_text("\"15\"".into())
            .item_count(0)
            .range(Some(3))
            .lsn(Some(Lsn(15)))
            .sessions("3:7#12".into());
        check(&reply, |status, tokens, _| {
            assert_eq!((status, tokens.etag, tokens.item_count), (304, Some("\"15\""), Some(0)));
            assert_eq!((tokens.range_id, tokens.session_token), (Some("3"), Some("7#12")));
            assert_eq!((tokens.lsn, tokens.local_lsn), (Some(15), Some(15)));
        });
    }

    #[test]
    fn an_etag_and_the_names_of_an_owner_are_text_as_they_are() {
        let etag = Etag { node: 1, stamp: 2 };
        let reply = Reply::json(StatusCode::OK, "{}").etag(etag);
        let reply = reply.owner("AAAAAA==".into(), "dbs/größe".into());
        check(&reply, |_, tokens, _| {
            assert_eq!(tokens.etag, Some(&*etag.to_string()));
            assert_eq!(tokens.owner_id, Some("AAAAAA=="));
            assert_eq!(tokens.owner_full_name, Some("dbs/größe"));
        });
    }

    #[test]
    fn a_refusal_that_reached_no_partition_gives_the_client_its_own_session_back() {
        let own = Some("3:7#15");
        let refusal = |status| Reply::json(status, "{}");
        check_with(own, &refusal(StatusCode::FORBIDDEN), |status, tokens, _| {
            assert_eq!((status, tokens.session_token), (403, Some("7#15")));
            assert_eq!((tokens.lsn, tokens.local_lsn), (Some(15), Some(15)));
        });
        // What is known of the partition counts more, and a success claims nothing.
        let known = of_partition(refusal(StatusCode::NOT_FOUND), 3, 12);
        check_with(own, &known, |_, tokens, _| {
            assert_eq!((tokens.session_token, tokens.lsn), (Some("7#12"), Some(12)));
        });
        check_with(own, &refusal(StatusCode::OK), |_, tokens, _| {
            assert_eq!((tokens.session_token, tokens.lsn), (None, Some(1)));
        });
    }

    #[test]
    fn overload_says_when_to_try_again() {
        let error = Error::RateLimited { retry_after_ms: 120 };
        check(&error::reply(&error, Uuid::nil(), "/"), |status, tokens, _| {
            assert_eq!(status, 429);
            assert_eq!((tokens.retry_after_ms, tokens.sub_status), (Some(120), Some(3200)));
        });
    }

    #[test]
    fn what_only_informs_is_left_out_if_it_is_too_long_and_a_continuation_is_not() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let page = || Reply::json(StatusCode::OK, "[]");
        let reply = page().note(ReplyNote::IndexUtilization, &*long);
        check(&reply, |status, tokens, _| {
            assert_eq!((status, tokens.index_utilization), (200, None));
        });
        check(&page().continuation(Some(long)), |status, tokens, _| {
            assert_eq!((status, tokens.continuation), (500, None));
        });
    }
}
