//! The tables themselves: what clients insist on.

use orrery_direct::table::{Presence, TokenRow};
use orrery_direct::token::TokenType;
use orrery_direct::{OperationCode, RequestTokens, ResourceCode, ResponseTokens};

#[test]
fn request_tokens_are_written_in_ascending_order_as_the_sdks_do() {
    assert!(RequestTokens::TABLE.is_sorted_by(|a, b| a.id < b.id));
}

#[test]
fn no_number_of_an_answer_has_two_meanings_and_the_first_two_are_what_clients_look_for() {
    let mut ids: Vec<u16> = ResponseTokens::TABLE.iter().map(|row| row.id).collect();
    assert_eq!(ids[..2], [0x00, 0x35]);
    ids.sort_unstable();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

/// Clients decode answers by their own table; one token of another type and every read fails.
#[test]
fn the_types_of_an_answer_are_those_of_the_clients_table() {
    let rows: Vec<(u16, TokenType)> =
        ResponseTokens::TABLE.iter().map(|row| (row.id, row.kind)).collect();
    let text = TokenType::String;
    let (number, large) = (TokenType::ULong, TokenType::LongLong);
    let expected = [
        (0x00, TokenType::Byte),
        (0x35, number),
        (0x02, TokenType::SmallString),
        (0x03, text),
        (0x04, text),
        (0x0c, number),
        (0x0e, text),
        (0x0f, text),
        (0x13, large),
        (0x14, number),
        (0x15, TokenType::Double),
        (0x17, text),
        (0x18, text),
        (0x1a, large),
        (0x1c, number),
        (0x1d, number),
        (0x1e, number),
        (0x1f, number),
        (0x21, text),
        (0x25, text),
        (0x28, text),
        (0x32, large),
        (0x3a, large),
        (0x3b, large),
        (0x3c, large),
        (0x3e, text),
        (0x44, text),
        (0x66, TokenType::Byte),
        (0x75, text),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn tokens_that_make_clients_wait_for_other_regions_cannot_be_sent() {
    for id in [0x29, 0x30, 0x78] {
        assert!(ResponseTokens::TABLE.iter().all(|row| row.id != id), "{id:#x}");
    }
}

#[test]
fn what_is_required_is_what_frames_cannot_do_without() {
    let required = |table: &[TokenRow]| -> Vec<u16> {
        let rows = table.iter().filter(|row| row.presence == Presence::Required);
        rows.map(|row| row.id).collect()
    };
    assert_eq!(required(RequestTokens::TABLE), [0x02, 0x4d]);
    assert_eq!(required(ResponseTokens::TABLE), [0x00, 0x35]);
}

#[test]
fn every_code_reads_back() {
    for code in ResourceCode::ALL {
        assert_eq!(ResourceCode::from_code(code.code()), Some(*code));
    }
    for code in OperationCode::ALL {
        assert_eq!(OperationCode::from_code(code.code()), Some(*code));
    }
    for kind in TokenType::ALL {
        assert_eq!(TokenType::from_code(kind.code()), Some(*kind));
    }
}
