//! Frames that nobody should send. Each is refused for what is wrong with it, before anything is
//! waited for or set aside.

use bytes::BytesMut;
use orrery_direct::token::TokenType;
use orrery_direct::{
    DirectError, FrameKind, FrameLimits, FrameProgress, FrameRequest, RequestTokens, next_frame,
};

use crate::{REQUIRED, head, progress};

const ITEM: u16 = 3;
const READ: u16 = 3;

#[track_caller]
fn check(tokens: &[u8], expected: DirectError) {
    assert_eq!(FrameRequest::decode(&head(ITEM, READ, tokens)), Err(expected));
}

fn with_required(tokens: &[u8]) -> Vec<u8> {
    [tokens, REQUIRED].concat()
}

#[test]
fn a_head_of_4_gb_is_refused_as_soon_as_its_length_is_known() {
    let size = u32::MAX as usize;
    let max = FrameLimits::default().head_bytes_max;
    assert_eq!(progress(&[0xff; 4]), Err(DirectError::HeadSize { size, min: 24, max }));
}

#[test]
fn a_body_of_4_gb_is_refused_as_soon_as_its_length_is_known() {
    let mut bytes = head(ITEM, READ, &[2, 0, 0, 1]);
    bytes.extend([0xff; 4]);
    let max = FrameLimits::default().body_bytes_max;
    let size = u32::MAX as usize;
    assert_eq!(progress(&bytes), Err(DirectError::BodySize { size, max }));
}

#[test]
fn sizes_at_their_limits_are_taken_and_one_past_them_are_not() {
    let limits = FrameLimits { head_bytes_max: 35, body_bytes_max: 3 };
    let read = |bytes: &[u8]| next_frame(&mut BytesMut::from(bytes), FrameKind::Request, &limits);
    let mut bytes = head(ITEM, READ, &[2, 0, 0, 1, 0x4d, 0, 2, 9, 0, 0, 0]);
    assert_eq!(bytes.len(), 35);
    bytes.extend([3, 0, 0, 0, 1, 2, 3]);
    assert!(matches!(read(&bytes), Ok(FrameProgress::Whole(frame)) if frame.body == [1, 2, 3][..]));
    bytes[35] = 4;
    assert_eq!(read(&bytes), Err(DirectError::BodySize { size: 4, max: 3 }));
    bytes[0] = 36;
    assert_eq!(read(&bytes), Err(DirectError::HeadSize { size: 36, min: 24, max: 35 }));
}

#[test]
fn a_head_too_short_for_its_fixed_part_is_refused() {
    for size in [0_u32, 4, 23] {
        let max = FrameLimits::default().head_bytes_max;
        let refused = DirectError::HeadSize { size: size as usize, min: 24, max };
        assert_eq!(progress(&size.to_le_bytes()), Err(refused));
    }
    for length in 0..24 {
        let cut = &head(ITEM, READ, &[])[..length];
        assert!(matches!(FrameRequest::decode(cut), Err(DirectError::HeadSize { .. })), "{length}");
    }
}

#[test]
fn every_token_of_a_wrong_type_is_refused() {
    for row in RequestTokens::TABLE {
        for kind in TokenType::ALL.iter().filter(|kind| **kind != row.kind) {
            let mut tokens = row.id.to_le_bytes().to_vec();
            tokens.push(kind.code());
            // A value of length zero, or a number of zero.
            tokens.extend(std::iter::repeat_n(0, size_of_zero(*kind)));
            let expected = DirectError::WrongType { id: row.id, expected: row.kind, found: *kind };
            check(&tokens, expected);
        }
    }
}

fn size_of_zero(kind: TokenType) -> usize {
    match kind {
        TokenType::Byte | TokenType::SmallString | TokenType::SmallBytes => 1,
        TokenType::UShort | TokenType::String | TokenType::Bytes => 2,
        TokenType::ULong
        | TokenType::Long
        | TokenType::Float
        | TokenType::ULongString
        | TokenType::ULongBytes => 4,
        TokenType::ULongLong | TokenType::LongLong | TokenType::Double => 8,
        TokenType::Guid => 16,
    }
}

#[test]
fn a_type_that_does_not_exist_is_refused_even_under_an_unknown_number() {
    for code in 0x0f..=0xff {
        check(&[0xee, 0x7f, code, 0, 0], DirectError::UnknownType { id: 0x7fee, code });
    }
}

#[test]
fn unknown_tokens_are_skipped_whatever_they_hold() {
    for kind in TokenType::ALL {
        let mut tokens = vec![0xee, 0x7f, kind.code()];
        tokens.extend(std::iter::repeat_n(0, size_of_zero(*kind)));
        let bytes = head(ITEM, READ, &with_required(&tokens));
        let request = FrameRequest::decode(&bytes).expect("unknown tokens are skipped");
        assert_eq!(request.tokens.transport_request_id, Some(9));
    }
}

#[test]
fn a_token_that_comes_twice_is_refused_and_an_unknown_one_is_not() {
    let twice = [&[2, 0, 0, 0][..], REQUIRED].concat();
    check(&twice, DirectError::Duplicate { id: 2 });
    let unknown = [0xee, 0x7f, 0, 1, 0xee, 0x7f, 0, 2];
    assert!(FrameRequest::decode(&head(ITEM, READ, &with_required(&unknown))).is_ok());
}

#[test]
fn a_missing_token_is_named() {
    check(&[], DirectError::Missing { id: 2 });
    check(&[2, 0, 0, 0], DirectError::Missing { id: 0x4d });
    assert_eq!(progress(&head(ITEM, READ, &[])), Err(DirectError::Missing { id: 2 }));
}

#[test]
fn a_token_that_ends_after_its_frame_is_refused() {
    check(&[2], DirectError::Truncated { offset: 0 });
    check(&[2, 0, 0], DirectError::Truncated { offset: 0 });
    // A string of 65,535 bytes of which two are there, after one that is whole.
    let tokens = [&[2, 0, 0, 0][..], &[5, 0, 8, 0xff, 0xff, b'a', b'b']].concat();
    check(&tokens, DirectError::Truncated { offset: 4 });
    // 4 GB in one token.
    check(&[0xee, 0x7f, 0x0c, 0xff, 0xff, 0xff, 0xff], DirectError::Truncated { offset: 0 });
}

#[test]
fn a_token_can_hide_no_body() {
    // Behind a token that is cut short the flag cannot be found, so neither can the frame's end.
    let bytes = head(ITEM, READ, &[5, 0, 8, 0xff, 0xff, 2, 0, 0, 0]);
    assert_eq!(progress(&bytes), Err(DirectError::Truncated { offset: 0 }));
    let bytes = head(ITEM, READ, &[2, 0, 7, 0]);
    let expected =
        DirectError::WrongType { id: 2, expected: TokenType::Byte, found: TokenType::SmallString };
    assert_eq!(progress(&bytes), Err(expected));
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    check(&with_required(&[5, 0, 8, 1, 0, 0xff]), DirectError::NotUtf8 { id: 5 });
}

#[test]
fn unknown_codes_are_refused_by_number() {
    let refused = |resource, operation| {
        FrameRequest::decode(&head(resource, operation, REQUIRED)).expect_err("it is unknown")
    };
    assert_eq!(refused(0x7777, READ), DirectError::UnknownResource { code: 0x7777 });
    assert_eq!(refused(ITEM, 0x40), DirectError::UnknownOperation { code: 0x40 });
}

#[test]
fn text_longer_than_its_type_is_not_written() {
    let long = "x".repeat(0x1_0000);
    let mut tokens = RequestTokens { payload_present: Some(0), ..RequestTokens::default() };
    tokens.session_token = Some(&long[1..]);
    assert_eq!(tokens.encode(&mut BytesMut::new()), Ok(()));
    tokens.session_token = Some(&long);
    let refused = DirectError::TooLong { id: 5, size: 0x1_0000 };
    assert_eq!(tokens.encode(&mut BytesMut::new()), Err(refused));
    tokens.session_token = None;
    tokens.date = Some(&long[..256]);
    let refused = DirectError::TooLong { id: 3, size: 256 };
    assert_eq!(tokens.encode(&mut BytesMut::new()), Err(refused));
}
