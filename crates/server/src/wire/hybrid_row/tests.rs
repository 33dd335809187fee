//! Streams byte by byte, refusals with their places, and the laws: what is written is read back,
//! and no bytes make the reader panic.

use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits are ASCII");
        u8::from_str_radix(text, 16).expect("a byte")
    };
    digits.chunks(2).map(byte).collect()
}

/// A record around a row, after a segment.
fn stream(row: &[u8]) -> Vec<u8> {
    let mut stream = bytes("81 f0d8ff7f 01 0a000000 81 f1d8ff7f");
    stream.extend(u32::try_from(row.len()).expect("short").to_le_bytes());
    stream.extend(crc32fast::hash(row).to_le_bytes());
    stream.extend(row);
    stream
}

/// Where a row begins in a stream with one record.
const ROW_AT: usize = 23;

fn check_refused(stream: &[u8], fault: HybridRowFault, offset: usize) {
    assert_eq!(decode_operations(stream), Err(fault.at(offset)), "{stream:02x?}");
}

#[test]
fn a_result_is_written_as_the_format_says() {
    let result = ResultRow {
        status: 201,
        etag: Some("\"e\"".to_owned()),
        resource_body: Some(br#"{"id":"a"}"#.to_vec()),
        request_charge: Some(1.0),
        ..ResultRow::default()
    };
    let expected = bytes(
        "81F0D8FF7F010A000000 81F1D8FF7F27000000 40BA1998 817154E17F0FC900000000000000 03226522 \
         0A7B226964223A2261227D 1006000000000000F03F",
    );
    assert_eq!(encode_results(std::slice::from_ref(&result)), expected);
    assert_eq!(decode_results(&expected), Ok(vec![result]));
}

#[test]
fn an_operation_is_read_with_all_its_columns() {
    let row = bytes(
        "81 7054e17f 7f 05000000 02000000 05 5b2270225d 01 aa 01 69 02 bbcc 02 7b7d \
         14 09 03 226d22 14 0a 01 2a 14 08 07 4578636c756465 07 0b 3c000000 03 0c",
    );
    let operation = OperationRow {
        operation_type: Some(5),
        resource_type: Some(2),
        partition_key: Some(r#"["p"]"#.to_owned()),
        effective_partition_key: Some(vec![0xaa]),
        id: Some("i".to_owned()),
        binary_id: Some(vec![0xbb, 0xcc]),
        resource_body: Some(b"{}".to_vec()),
        indexing_directive: Some("Exclude".to_owned()),
        if_match: Some("\"m\"".to_owned()),
        if_none_match: Some("*".to_owned()),
        time_to_live_s: Some(60),
        minimal_return: Some(true),
    };
    assert_eq!(decode_operations(&stream(&row)), Ok(vec![operation]));
}

#[test]
fn absent_columns_keep_the_room_of_fixed_ones_only() {
    let row = bytes("81 7054e17f 10 00000000 00000000 01 69");
    let operation = OperationRow { id: Some("i".to_owned()), ..OperationRow::default() };
    assert_eq!(decode_operations(&stream(&row)), Ok(vec![operation]));
}

#[test]
fn a_segment_may_say_more_and_may_come_again() {
    let mut stream = bytes("81 f0d8ff7f 01 0d000000 140201");
    stream.extend(bytes("81 f0d8ff7f 01 0a000000"));
    assert_eq!(decode_operations(&stream), Ok(vec![]));
}

#[test]
fn unknown_sparse_properties_are_passed_over() {
    // By a name of its own, by the empty path, as null, and in types of every width.
    let row = bytes(
        "81 7054e17f 00 00000000 00000000 07 0e 78 01000000 08 0f 7879 0000000000000000 \
         14 00 01 61 01 09 0d 0e 7a ff01 05 0e 7a 01 18 0e 7a 000000000000000000000000",
    );
    assert_eq!(decode_operations(&stream(&row)), Ok(vec![OperationRow::default()]));
}

#[test]
fn a_known_name_may_be_spelled_out() {
    let row = bytes("81 7054e17f 00 00000000 00000000 14 14 69664d61746368 01 2a");
    let operation = OperationRow { if_match: Some("*".to_owned()), ..OperationRow::default() };
    assert_eq!(decode_operations(&stream(&row)), Ok(vec![operation]));
}

#[test]
fn malformed_streams_are_refused_with_their_place() {
    check_refused(b"", HybridRowFault::Truncated { needed: 1, left: 0 }, 0);
    check_refused(b"[", HybridRowFault::Version(b'['), 0);
    check_refused(&bytes("81 7054e17f"), HybridRowFault::Schema(2_145_473_648), 0);
    check_refused(&bytes("81 f0d8ff7f 01 09000000"), HybridRowFault::Length(9), 0);
    check_refused(&bytes("81 f0d8ff7f 01 ffffffff"), HybridRowFault::Length(-1), 0);
    let truncated = HybridRowFault::Truncated { needed: 0x7fff_fff5, left: 0 };
    check_refused(&bytes("81 f0d8ff7f 01 ffffff7f"), truncated, 10);
    let stream_of = |row: &str| stream(&bytes(row));
    check_refused(&stream_of("81 7154e17f 00"), HybridRowFault::Schema(2_145_473_649), ROW_AT);
    check_refused(&stream_of("80"), HybridRowFault::Version(0x80), ROW_AT);
    let fixed = "81 7054e17f 00 00000000 00000000";
    let at = ROW_AT + 14;
    check_refused(&stream_of(&format!("{fixed} 1e 09")), HybridRowFault::Type(0x1e), at);
    check_refused(&stream_of(&format!("{fixed} 14 09 01 ff")), HybridRowFault::Utf8, at + 2);
    let endless = format!("{fixed} 14 ff ff ff ff ff ff ff ff ff ff 01");
    check_refused(&stream_of(&endless), HybridRowFault::VarUInt, at + 1);
    check_refused(
        &stream_of(&format!("{fixed} 07 09 00000000")),
        HybridRowFault::WrongType("ifMatch"),
        ROW_AT,
    );
    let twice = format!("{fixed} 03 0c 02 0c");
    check_refused(&stream_of(&twice), HybridRowFault::Duplicate("minimalReturnPreference"), at + 2);
}

#[test]
fn a_row_that_was_changed_on_its_way_is_refused() {
    let mut stream = stream(&bytes("81 7054e17f 10 00000000 00000000 01 69"));
    *stream.last_mut().expect("not empty") = b'j';
    let error = decode_operations(&stream).expect_err("the checksum is another");
    assert!(matches!(error.fault, HybridRowFault::Checksum { .. }), "{error}");
}

fn text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("\\PC{0,200}")
}

fn binary() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300))
}

fn operation() -> impl Strategy<Value = OperationRow> {
    let numbers = any::<(Option<i32>, Option<i32>, Option<i32>, Option<bool>)>();
    (numbers, [text(), text(), text(), text(), text()], [binary(), binary(), binary()]).prop_map(
        |(numbers, texts, binaries)| {
            let (operation_type, resource_type, time_to_live_s, minimal_return) = numbers;
            let [partition_key, id, indexing_directive, if_match, if_none_match] = texts;
            let [effective_partition_key, binary_id, resource_body] = binaries;
            OperationRow {
                operation_type,
                resource_type,
                partition_key,
                effective_partition_key,
                id,
                binary_id,
                resource_body,
                indexing_directive,
                if_match,
                if_none_match,
                time_to_live_s,
                minimal_return,
            }
        },
    )
}

fn result() -> impl Strategy<Value = ResultRow> {
    let numbers = any::<(i32, i32, Option<u32>)>();
    let charge = proptest::option::of(-1e300..1e300);
    (numbers, text(), binary(), charge).prop_map(
        |(numbers, etag, resource_body, request_charge)| {
            let (status, sub_status, retry_after_ms) = numbers;
            ResultRow { status, sub_status, etag, resource_body, retry_after_ms, request_charge }
        },
    )
}

proptest! {
    #[test]
    fn operations_are_read_back(operations in proptest::collection::vec(operation(), 0..5)) {
        prop_assert_eq!(decode_operations(&encode_operations(&operations)), Ok(operations));
    }

    #[test]
    fn results_are_read_back(results in proptest::collection::vec(result(), 0..5)) {
        prop_assert_eq!(decode_results(&encode_results(&results)), Ok(results));
    }

    #[test]
    fn no_part_of_a_stream_is_a_stream(operations in proptest::collection::vec(operation(), 1..3),
        cut in any::<proptest::sample::Index>(),
    ) {
        let stream = encode_operations(&operations);
        let cut = cut.index(stream.len());
        match decode_operations(&stream[..cut]) {
            // Cut between two records: then it has fewer.
            Ok(fewer) => prop_assert_eq!(&fewer[..], &operations[..fewer.len()]),
            Err(error) => prop_assert!(error.offset <= cut, "{} in {} bytes", error, cut),
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_operations(&bytes);
        let _ = decode_results(&bytes);
        // Behind a true head and a true checksum they reach the row's own reader.
        let mut row = vec![VERSION, 0x70, 0x54, 0xe1, 0x7f];
        row.extend(bytes);
        let _ = decode_operations(&stream(&row));
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic(
        operation in operation(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let good = encode_operations(&[operation]);
        let mut changed = good.clone();
        *at.get_mut(&mut changed) = byte;
        let _ = decode_operations(&changed);
        // The same change under a checksum that agrees with it.
        let mut row = good[ROW_AT..].to_vec();
        *at.get_mut(&mut row) = byte;
        let _ = decode_operations(&stream(&row));
    }
}
