//! An answer becomes a frame. Statuses, bodies and values are those of the HTTP answer; what clients in
//! Direct mode need beyond that is added here.
//!
//! Every answer has an LSN of one at least, and where a partition was reached its session token: a
//! client takes an answer without them, an error above all, for one of a replica that lags behind, and
//! asks again for fifteen seconds.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt as _;
use orrery_direct::frame::HEAD_BYTES_MIN;
use orrery_direct::{FrameResponse, ResponseTokens, request, token};
use orrery_types::Error;
use uuid::Uuid;

use super::replica::REPLICAS;
use crate::service::{Answer, Response};
use crate::wire::{error, headers};

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
pub(super) fn write(envelope: &Envelope, answer: &mut Answer, out: &mut BytesMut) {
    let from = out.len();
    if write_response(envelope, &mut answer.response, out).is_ok() {
        return;
    }
    // A value that does not fit into its token; nothing shorter would be true.
    out.truncate(from);
    let fault = Error::internal("an answer does not fit into a frame");
    answer.response = error::response(&fault, envelope.activity(), "/");
    if write_response(envelope, &mut answer.response, out).is_err() {
        out.truncate(from);
    }
}

fn write_response(
    envelope: &Envelope,
    response: &mut Response,
    out: &mut BytesMut,
) -> Result<(), orrery_direct::DirectError> {
    let body = take_body(response);
    // A refusal that reached no partition tells nothing of it. The client gets its own session back, so
    // that it does not take the answer for one of a replica that lags behind.
    let status = response.status();
    let is_refusal = status.is_client_error() || status.is_server_error();
    let own_session = if is_refusal { envelope.session_token() } else { None };
    let frame = FrameResponse {
        status: response.status().as_u16().into(),
        activity_id: envelope.activity_id,
        tokens: ResponseTokens {
            payload_present: Some((!body.is_empty()).into()),
            transport_request_id: Some(envelope.transport_request_id),
            ..tokens(response.headers(), own_session)
        },
    };
    out.reserve(TYPICAL_HEAD_BYTES + body.len());
    frame.encode_head(body.len(), out)?;
    out.extend_from_slice(&body);
    Ok(())
}

/// Room for the head of most answers.
const TYPICAL_HEAD_BYTES: usize = 320;

/// The body, which is whole and so there at once.
fn take_body(response: &mut Response) -> Bytes {
    let body = std::mem::take(response.body_mut());
    let mut frames = std::pin::pin!(body.collect());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match frames.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Ok(collected)) => collected.to_bytes(),
        std::task::Poll::Ready(Err(never)) => match never {},
        std::task::Poll::Pending => Bytes::new(),
    }
}

fn tokens<'a>(map: &'a HeaderMap, own_session: Option<&'a str>) -> ResponseTokens<'a> {
    let text = |name: &str| map.get(name).and_then(|value| value.to_str().ok());
    // What only informs is left out where it is too long.
    let note = |name: &str| text(name).filter(|text| text.len() <= TEXT_BYTES_MAX);
    let session = text(headers::SESSION_TOKEN).or(own_session).and_then(first_session);
    let lsn = number::<i64>(map, headers::LSN)
        .or_else(|| session.and_then(|(_, token)| token.rsplit_once('#')?.1.parse().ok()))
        .map_or(LSN_MIN, |lsn| lsn.max(LSN_MIN));
    ResponseTokens {
        continuation: text(headers::CONTINUATION),
        etag: text(headers::ETAG),
        retry_after_ms: number(map, headers::RETRY_AFTER_MS),
        resource_quota: note(headers::RESOURCE_QUOTA),
        resource_usage: note(headers::RESOURCE_USAGE),
        lsn: Some(lsn),
        item_count: number(map, headers::ITEM_COUNT),
        request_charge: number(map, headers::REQUEST_CHARGE).or(Some(0.0)),
        owner_full_name: note(headers::ALT_CONTENT_PATH),
        owner_id: note(headers::CONTENT_PATH),
        quorum_acked_lsn: Some(lsn),
        sub_status: number(map, headers::SUB_STATUS),
        index_progress: number(map, headers::INDEX_PROGRESS),
        write_quorum: Some(WRITE_QUORUM),
        replica_set_size: Some(REPLICAS),
        range_id: text(headers::PARTITION_KEY_RANGE_ID).or(session.map(|(range, _)| range)),
        log_results: note(headers::SCRIPT_LOG_RESULTS),
        query_metrics: note(headers::QUERY_METRICS),
        local_lsn: Some(lsn),
        quorum_acked_local_lsn: Some(lsn),
        session_token: session.map(|(_, token)| token),
        index_utilization: note(headers::INDEX_UTILIZATION),
        requires_distribution: text(headers::REQUIRES_DISTRIBUTION)
            .map(|text| text.eq_ignore_ascii_case("true").into()),
        query_advice: note(headers::QUERY_ADVICE),
        ..ResponseTokens::default()
    }
}

fn number<N: std::str::FromStr>(map: &HeaderMap, name: &str) -> Option<N> {
    map.get(name)?.to_str().ok()?.parse().ok()
}

/// The range of a session token and the token without it. Clients put the range before it that they
/// have asked.
fn first_session(tokens: &str) -> Option<(&str, &str)> {
    tokens.split(',').next()?.split_once(':')
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};
    use http_body_util::Full;
    use orrery_direct::{FrameKind, FrameLimits, FrameProgress, next_frame};

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

    fn answer(status: StatusCode, sent: &[(&'static str, &str)], body: &'static [u8]) -> Answer {
        let mut response = Response::new(Full::new(Bytes::from_static(body)));
        *response.status_mut() = status;
        for (name, value) in sent {
            let value = HeaderValue::try_from(*value).expect("a header");
            response.headers_mut().insert(*name, value);
        }
        Answer { response, operation: "item", charge: 1.0, is_authenticated: true }
    }

    fn check(answer: Answer, check: impl FnOnce(u32, ResponseTokens<'_>, &[u8])) {
        check_with(None, answer, check);
    }

    fn check_with(
        session_token: Option<&str>,
        mut answer: Answer,
        check: impl FnOnce(u32, ResponseTokens<'_>, &[u8]),
    ) {
        let mut out = BytesMut::new();
        write(&envelope(session_token), &mut answer, &mut out);
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
        let sent: [&[(&str, &str)]; 3] = [
            &[],
            &[(headers::LSN, "0"), (headers::SESSION_TOKEN, "0:7#0")],
            &[(headers::SESSION_TOKEN, "0:7#0")],
        ];
        for sent in sent {
            check(answer(StatusCode::NOT_FOUND, sent, b"{}"), |status, tokens, body| {
                assert_eq!((status, body), (404, &b"{}"[..]));
                let lsns = [tokens.lsn, tokens.local_lsn, tokens.quorum_acked_lsn];
                assert_eq!(lsns, [Some(1); 3], "{sent:?}");
                assert_eq!(tokens.quorum_acked_local_lsn, Some(1));
                assert_eq!((tokens.write_quorum, tokens.replica_set_size), (Some(1), Some(2)));
                assert_eq!(tokens.request_charge, Some(0.0));
            });
        }
    }

    #[test]
    fn a_session_token_goes_without_its_range_and_gives_the_lsn() {
        let sent = [(headers::SESSION_TOKEN, "3:7#15,4:7#20")];
        check(answer(StatusCode::OK, &sent, b""), |_, tokens, body| {
            assert_eq!(tokens.session_token, Some("7#15"));
            assert_eq!(tokens.range_id, Some("3"));
            assert_eq!(tokens.lsn, Some(15));
            assert_eq!((tokens.payload_present, body), (Some(0), &b""[..]));
        });
    }

    #[test]
    fn a_refusal_that_reached_no_partition_gives_the_client_its_own_session_back() {
        let own = Some("3:7#15");
        check_with(own, answer(StatusCode::FORBIDDEN, &[], b"{}"), |status, tokens, _| {
            assert_eq!((status, tokens.session_token), (403, Some("7#15")));
            assert_eq!((tokens.lsn, tokens.local_lsn), (Some(15), Some(15)));
        });
        // What is known of the partition counts more, and a success claims nothing.
        let known = [(headers::SESSION_TOKEN, "3:7#12")];
        check_with(own, answer(StatusCode::NOT_FOUND, &known, b"{}"), |_, tokens, _| {
            assert_eq!((tokens.session_token, tokens.lsn), (Some("7#12"), Some(12)));
        });
        check_with(own, answer(StatusCode::OK, &[], b"{}"), |_, tokens, _| {
            assert_eq!((tokens.session_token, tokens.lsn), (None, Some(1)));
        });
    }

    #[test]
    fn overload_says_when_to_try_again() {
        let sent = [(headers::RETRY_AFTER_MS, "120"), (headers::SUB_STATUS, "3200")];
        check(answer(StatusCode::TOO_MANY_REQUESTS, &sent, b"{}"), |status, tokens, _| {
            assert_eq!(status, 429);
            assert_eq!((tokens.retry_after_ms, tokens.sub_status), (Some(120), Some(3200)));
        });
    }

    #[test]
    fn what_only_informs_is_left_out_if_it_is_too_long_and_a_continuation_is_not() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let sent = [(headers::INDEX_UTILIZATION, &*long)];
        check(answer(StatusCode::OK, &sent, b"[]"), |status, tokens, _| {
            assert_eq!((status, tokens.index_utilization), (200, None));
        });
        let sent = [(headers::CONTINUATION, &*long)];
        check(answer(StatusCode::OK, &sent, b"[]"), |status, tokens, _| {
            assert_eq!((status, tokens.continuation), (500, None));
        });
    }
}
