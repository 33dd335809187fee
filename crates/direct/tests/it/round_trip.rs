//! Anything that can be written is read back the same, in pieces of any size; and nothing that comes
//! makes the reader fail otherwise than with an error.

use bytes::BytesMut;
use orrery_direct::{
    ContextRequest, FrameKind, FrameLimits, FrameProgress, FrameRequest, FrameResponse,
    OperationCode, RequestTokens, ResourceCode, ResponseTokens, next_frame,
};
use proptest::prelude::*;

use crate::whole;

fn text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("\\PC{0,40}")
}

proptest! {
    #[test]
    fn a_request_reads_back(
        (session, continuation, item, key) in (text(), text(), text(), text()),
        (date, rid) in (proptest::option::of("[ -~]{0,255}"), proptest::option::of(any::<[u8; 8]>())),
        numbers in any::<(Option<u32>, Option<i64>, Option<[u8; 16]>, Option<u8>, u32)>(),
        (resource, operation) in (0..ResourceCode::ALL.len(), 0..OperationCode::ALL.len()),
        body in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)),
    ) {
        let (page_size, target_lsn, correlated_activity_id, is_batch_atomic, id) = numbers;
        let request = FrameRequest {
            resource: ResourceCode::ALL[resource],
            operation: OperationCode::ALL[operation],
            activity_id: [5; 16],
            tokens: RequestTokens {
                resource_id: rid.as_ref().map(|rid| &rid[..]),
                payload_present: Some(body.is_some().into()),
                date: date.as_deref(),
                page_size,
                session_token: session.as_deref(),
                continuation: continuation.as_deref(),
                item_name: item.as_deref(),
                partition_key: key.as_deref(),
                target_lsn,
                transport_request_id: Some(id),
                is_batch_atomic,
                correlated_activity_id,
                ..RequestTokens::default()
            },
        };
        let body = body.unwrap_or_default();
        let mut out = BytesMut::new();
        request.encode(&body, &mut out).expect("it fits");
        let frame = whole(&out, FrameKind::Request);
        prop_assert_eq!(FrameRequest::decode(&frame.head), Ok(request));
        prop_assert_eq!(&frame.body[..], &body[..]);
    }

    #[test]
    fn an_answer_reads_back(
        (etag, session, metrics) in (text(), text(), text()),
        numbers in any::<(Option<i64>, Option<u32>, u32, u16)>(),
        charge in proptest::option::of(0.0..1e9_f64),
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let (lsn, item_count, id, status) = numbers;
        let response = FrameResponse {
            status: status.into(),
            activity_id: [6; 16],
            tokens: ResponseTokens {
                payload_present: Some(u8::from(!body.is_empty())),
                transport_request_id: Some(id),
                etag: etag.as_deref(),
                session_token: session.as_deref(),
                query_metrics: metrics.as_deref(),
                lsn,
                item_count,
                request_charge: charge,
                ..ResponseTokens::default()
            },
        };
        let mut out = BytesMut::new();
        response.encode_head(body.len(), &mut out).expect("it fits");
        out.extend_from_slice(&body);
        let frame = whole(&out, FrameKind::Response);
        prop_assert_eq!(FrameResponse::decode(&frame.head), Ok(response));
        prop_assert_eq!(&frame.body[..], &body[..]);
    }

    #[test]
    fn frames_are_found_however_their_bytes_are_cut(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..6),
        cuts in proptest::collection::vec(1_usize..60, 1..40),
    ) {
        let mut stream = BytesMut::new();
        for (id, body) in (0..).zip(&bodies) {
            let tokens = RequestTokens {
                payload_present: Some(1),
                transport_request_id: Some(id),
                ..RequestTokens::default()
            };
            let (resource, operation) = (ResourceCode::Item, OperationCode::Create);
            let request = FrameRequest { resource, operation, activity_id: [1; 16], tokens };
            request.encode(body, &mut stream).expect("it fits");
        }
        let (mut buffer, mut found) = (BytesMut::new(), Vec::new());
        for cut in cuts.into_iter().chain(std::iter::repeat(64)) {
            let piece = stream.split_to(cut.min(stream.len()));
            let at_end = piece.is_empty();
            buffer.extend_from_slice(&piece);
            while let FrameProgress::Whole(frame) =
                next_frame(&mut buffer, FrameKind::Request, &FrameLimits::default()).expect("valid")
            {
                found.push(frame.body.to_vec());
            }
            if at_end {
                break;
            }
        }
        prop_assert_eq!(found, bodies);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let kinds = [
            FrameKind::ContextRequest,
            FrameKind::ContextResponse,
            FrameKind::Request,
            FrameKind::Response,
        ];
        for kind in kinds {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(FrameProgress::Whole(_)) =
                next_frame(&mut buffer, kind, &FrameLimits::default())
            {}
        }
        // The same behind a head that fits, so that tokens are reached.
        let head = crate::head(3, 3, &bytes);
        let _ = FrameRequest::decode(&head);
        let _ = FrameResponse::decode(&head);
        let _ = ContextRequest::decode(&crate::head(0, 0, &bytes));
    }
}
