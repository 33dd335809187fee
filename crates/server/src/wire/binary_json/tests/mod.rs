//! Bodies byte by byte, and refusals with their places. `writer` makes bodies in every form for
//! the laws at the end: what a writer makes is read back, and no bytes make the reader panic.

mod writer;

use proptest::prelude::*;

use super::*;

/// Hexadecimal digits by the byte, after the preamble.
fn body(hex: &str) -> Vec<u8> {
    let bytes = hex.split_whitespace().map(|b| u8::from_str_radix(b, 16).expect("a byte"));
    std::iter::once(PREAMBLE).chain(bytes).collect()
}

/// What a body stands for; nothing shorter and nothing longer stands for anything.
fn check(hex: &str, expected: &str) {
    let mut bytes = body(hex);
    let value = decode(&bytes).unwrap_or_else(|e| panic!("{hex}: {e}"));
    assert_eq!(value.to_json(), expected, "{hex}");
    check_truncations(&bytes);
    bytes.push(0);
    assert_eq!(decode(&bytes), Err(BinaryJsonFault::Trailing(1).at(bytes.len() - 1)), "{hex}");
}

fn check_truncations(bytes: &[u8]) {
    for end in 0..bytes.len() {
        assert!(decode(&bytes[..end]).is_err(), "{end} bytes of {bytes:02x?} are enough");
    }
}

fn check_refused(hex: &str, fault: BinaryJsonFault, offset: usize) {
    assert_eq!(decode(&body(hex)), Err(fault.at(offset)), "{hex}");
}

#[test]
fn literals_and_small_integers_are_one_byte() {
    check("d0", "null");
    check("d1", "false");
    check("d2", "true");
    check("00", "0");
    check("1f", "31");
}

#[test]
fn numbers_are_little_endian() {
    check("c8 ff", "255");
    check("c9 00 80", "-32768");
    check("ca ff ff ff 7f", "2147483647");
    check("cb 00 00 00 00 00 00 00 80", "-9223372036854775808");
    check("cb 20 00 00 00 00 00 00 00", "32");
    check("c7 2a 00 00 00 00 00 00 00", "42");
    check("c7 00 00 00 00 00 00 00 80", "9223372036854776000");
    check("cc 00 00 00 00 00 00 e0 bf", "-0.5");
    check("cc 00 00 00 00 00 00 45 40", "42");
    check("cd 00 00 20 41", "10");
    check("ce 00 00 00 00 00 00 04 40", "2.5");
    check("d7 80", "128");
    check("d8 80", "-128");
    check("d9 fe ff", "-2");
    check("da fd ff ff ff", "-3");
    check("db fc ff ff ff ff ff ff ff", "-4");
    check("dc ff ff ff ff", "4294967295");
}

#[test]
fn a_number_that_json_does_not_have_is_refused() {
    check_refused("cc 00 00 00 00 00 00 f8 7f", BinaryJsonFault::NotFinite, 1);
    check_refused("e1 cd 00 00 80 7f", BinaryJsonFault::NotFinite, 2);
    check_refused("f0 cd 01 00 00 80 ff", BinaryJsonFault::NotFinite, 2);
}

#[test]
fn plain_strings_have_their_length_in_the_marker_or_behind_it() {
    check("80", r#""""#);
    check("82 c3 a4", r#""ä""#);
    check("c0 02 68 69", r#""hi""#);
    check("c1 02 00 68 69", r#""hi""#);
    check("c2 02 00 00 00 68 69", r#""hi""#);
    let longest = "61 ".repeat(63);
    check(&format!("bf {longest}"), &format!("\"{}\"", "a".repeat(63)));
    check_refused("e1 82 c3 28", BinaryJsonFault::Utf8, 2);
    check_refused(
        "c2 ff ff ff ff 61",
        BinaryJsonFault::Truncated { needed: 0xffff_ffff, left: 1 },
        6,
    );
}

#[test]
fn system_strings_are_one_byte() {
    check("20", r#""$s""#);
    check("2c", r#""id""#);
    check("34", r#""MultiPolygon""#);
    check("3f", r#""_id""#);
}

#[test]
fn a_reference_is_the_offset_of_a_string_that_came_before() {
    check("e2 05 82 68 69 c3 03", r#"["hi","hi"]"#);
    check("e2 06 82 68 69 c4 03 00", r#"["hi","hi"]"#);
    check("e2 07 82 68 69 c5 03 00 00", r#"["hi","hi"]"#);
    check("e2 08 82 68 69 c6 03 00 00 00", r#"["hi","hi"]"#);
    check("ea 09 82 68 69 c3 03 81 61 c3 03", r#"{"hi":"hi","a":"hi"}"#);
}

#[test]
fn a_reference_to_anything_but_an_earlier_string_is_refused() {
    let refused =
        |hex, target, offset| check_refused(hex, BinaryJsonFault::Reference(target), offset);
    refused("c3 00", 0, 1);
    refused("c3 01", 1, 1);
    refused("e2 05 82 68 69 c3 04", 4, 6);
    refused("e2 04 c3 05 81 61", 5, 3);
    refused("e2 06 81 61 c3 03 c3 05", 5, 7);
    refused("e2 03 07 c3 03", 3, 4);
    refused("e2 04 81 61 c3 ff", 255, 5);
}

#[test]
fn guids_are_sixteen_bytes() {
    let digits = "10 32 54 76 98 ba dc fe 10 32 54 76 98 ba dc fe";
    check(&format!("75 {digits}"), r#""01234567-89ab-cdef-0123-456789abcdef""#);
    check(&format!("76 {digits}"), r#""01234567-89AB-CDEF-0123-456789ABCDEF""#);
    check(&format!("77 {digits}"), r#""\"01234567-89ab-cdef-0123-456789abcdef\"""#);
    check(&format!("d3 {digits}"), r#""76543210-ba98-fedc-1032-547698badcfe""#);
}

#[test]
fn base64_is_written_as_what_it_stands_for() {
    check("71 01 00 fb ef be", r#""++++""#);
    check("72 01 00 00 fb ef be", r#""++++""#);
    check("73 01 00 fb ef be", r#""----""#);
    check("74 01 00 00 fb ef be", r#""----""#);
    check("71 01 01 66 6f", r#""Zm8=""#);
    check("71 01 02 66", r#""Zg==""#);
    check("71 01 fe 66 6f", r#""Zm8""#);
    check("71 01 fd 66", r#""Zg""#);
    check("71 00 00", r#""""#);
    check_refused("71 01 03 66 6f 6f", BinaryJsonFault::Padding, 1);
    check_refused("71 00 01", BinaryJsonFault::Padding, 1);
}

#[test]
fn bytes_are_read_as_base64() {
    check("dd 00", r#""""#);
    check("dd 03 66 6f 6f", r#""Zm9v""#);
    check("de 01 00 66", r#""Zg==""#);
    check("df 01 00 00 00 66", r#""Zg==""#);
}

#[test]
fn packed_strings_have_fewer_than_eight_bits_a_character() {
    check("78 03 1a 0f", r#""a1f""#);
    check("79 04 1a ef", r#""A1FE""#);
    check("7a 0b 13 73 2c c2 62 0e", r#""2026-11-15T""#);
    check("7b 02 61 10", r#""ab""#);
    check("7c 03 41 20 08", r#""ABC""#);
    check("7d 02 30 40 00", r#""01""#);
    check("7e 02 e8 34", r#""hi""#);
    check("7f 02 00 e8 34", r#""hi""#);
    check("7e 00", r#""""#);
}

#[test]
fn bits_after_the_last_character_may_be_anything() {
    check("7e 02 e8 f4", r#""hi""#);
    check("7c 01 41 e0", r#""A""#);
}

#[test]
fn a_packed_string_of_wrong_characters_is_refused() {
    check_refused("7b 01 78 0f", BinaryJsonFault::NotAscii, 1);
    check_refused("7d 01 f0 3f", BinaryJsonFault::NotAscii, 1);
    check_refused("78 01 10", BinaryJsonFault::Padding, 1);
}

#[test]
fn containers_are_empty_or_single_or_have_a_length_and_a_count() {
    check("e0", "[]");
    check("e1 e1 07", "[[7]]");
    check("e2 02 01 02", "[1,2]");
    check("e3 02 00 01 02", "[1,2]");
    check("e4 02 00 00 00 01 02", "[1,2]");
    check("e5 02 02 01 02", "[1,2]");
    check("e6 02 00 02 00 01 02", "[1,2]");
    check("e7 02 00 00 00 02 00 00 00 01 02", "[1,2]");
    check("e5 00 00", "[]");
    check("e8", "{}");
    check("e9 2c e8", r#"{"id":{}}"#);
    check("ea 04 2c 01 35 02", r#"{"id":1,"name":2}"#);
    check("eb 02 00 2c 01", r#"{"id":1}"#);
    check("ec 02 00 00 00 2c 01", r#"{"id":1}"#);
    check("ed 04 01 82 69 64 00", r#"{"id":0}"#);
    check("ee 02 00 01 00 2c 01", r#"{"id":1}"#);
    check("ef 02 00 00 00 01 00 00 00 2c 01", r#"{"id":1}"#);
    check("ed 00 00", "{}");
}

#[test]
fn what_is_in_a_container_stays_within_it() {
    check_refused("e2 03 01 02", BinaryJsonFault::Length(3), 1);
    check_refused("e2 02 e2 02 01 02", BinaryJsonFault::Length(2), 3);
    check_refused("e2 02 82 61 62", BinaryJsonFault::Truncated { needed: 2, left: 1 }, 4);
    check_refused("ea 01 2c 01", BinaryJsonFault::Truncated { needed: 1, left: 0 }, 4);
    check_refused("e5 02 03 01 02", BinaryJsonFault::Count { told: 3, found: 2 }, 1);
    check_refused("ed 02 00 2c 01", BinaryJsonFault::Count { told: 0, found: 1 }, 1);
}

#[test]
fn a_property_has_a_name_and_no_other_has_the_same() {
    check_refused("e9 01 02", BinaryJsonFault::Name(0x01), 2);
    check_refused("e9 d0 02", BinaryJsonFault::Name(0xd0), 2);
    check_refused("ea 06 2c 01 82 69 64 02", BinaryJsonFault::Duplicate("id".into()), 5);
    // Past the number of names that are compared one by one.
    let names = (0..40).fold(String::new(), |hex, i| hex + &format!("81 {:02x} 00 ", b'A' + i));
    check_refused(&format!("ea 7b {names} 81 61 00"), BinaryJsonFault::Duplicate("a".into()), 123);
}

#[test]
fn arrays_of_one_type_of_number_have_its_marker_once() {
    check("f0 d7 03 01 02 ff", "[1,2,255]");
    check("f0 d8 02 80 7f", "[-128,127]");
    check("f1 d9 02 00 ff ff 00 01", "[-1,256]");
    check("f0 da 01 fe ff ff ff", "[-2]");
    check("f0 db 01 fe ff ff ff ff ff ff ff", "[-2]");
    check("f0 dc 01 00 00 00 80", "[2147483648]");
    check("f0 cd 02 00 00 20 41 00 00 00 3f", "[10,0.5]");
    check("f0 ce 01 00 00 00 00 00 00 04 40", "[2.5]");
    check("f0 d7 00", "[]");
    check("f2 f0 d7 02 03 01 02 03 04 05 06", "[[1,2],[3,4],[5,6]]");
    check("f3 f1 d9 01 00 02 00 01 00 02 00", "[[1],[2]]");
    check("f2 f0 d7 00 02", "[[],[]]");
}

#[test]
fn a_marker_that_means_nothing_is_named_with_its_place() {
    for marker in [0x68, 0x70, 0xcf, 0xd4, 0xd6, 0xf4, 0xf7, 0xf8, 0xff_u8] {
        check_refused(&format!("e1 {marker:02x}"), BinaryJsonFault::Marker(marker), 2);
    }
    for marker in [0x40, 0x5f, 0x60, 0x67_u8] {
        check_refused(&format!("e1 {marker:02x} 00"), BinaryJsonFault::UserString(marker), 2);
    }
    // Only some markers may be the type of an array's numbers.
    check_refused("f0 c8 01 01", BinaryJsonFault::Marker(0xc8), 2);
    check_refused("f2 f1 d7 01 01 01", BinaryJsonFault::Marker(0xf1), 2);
    let error = decode(&body("e1 ff")).expect_err("the marker is unknown");
    assert_eq!(error.to_string(), "unknown marker 0xff at offset 2");
}

#[test]
fn a_body_is_a_preamble_and_one_value() {
    assert_eq!(decode(b""), Err(BinaryJsonFault::Truncated { needed: 1, left: 0 }.at(0)));
    assert_eq!(decode(b"{}"), Err(BinaryJsonFault::Preamble.at(0)));
    assert_eq!(decode(b"\x80"), Err(BinaryJsonFault::Truncated { needed: 1, left: 0 }.at(1)));
}

#[test]
fn nesting_ends_where_that_of_text_ends() {
    for (open, innermost) in [("e1 ", "e0"), ("e9 2c ", "e8"), ("e1 ", "f0 d7 00")] {
        let nested = |depth: usize| body(&(open.repeat(depth - 1) + innermost));
        let deepest = decode(&nested(limits::NESTING_DEPTH_MAX)).expect("it is within the limit");
        assert_eq!(Value::parse(deepest.to_json().as_bytes()).as_ref(), Ok(&deepest));
        let error = decode(&nested(limits::NESTING_DEPTH_MAX + 1)).expect_err("it is too deep");
        assert_eq!(error.fault, BinaryJsonFault::Depth);
    }
    let many = decode(&body(&"e1 ".repeat(1_000_000))).expect_err("it is too deep");
    assert_eq!(many.fault, BinaryJsonFault::Depth);
}

#[test]
fn few_bytes_cannot_stand_for_very_much() {
    let array_of = |first: &[u8], again: &[u8]| {
        let members = [first, &again.repeat(200_000 / again.len())].concat();
        let length = u32::try_from(members.len()).expect("it is short").to_le_bytes();
        decode(&[&[PREAMBLE, 0xe4], &length[..], &members].concat())
    };
    let long = [&[0xc1, 0xe8, 0x03][..], &[b'x'; 1000]].concat();
    for bomb in [
        array_of(&long, &[0xc3, 6]),
        array_of(&[], &[0xf3, 0xf1, 0xd7, 0, 0, 0xff, 0xff]),
        array_of(&[], &[0x2b]),
    ] {
        let error = bomb.expect_err("it is too large");
        assert!(matches!(error.fault, BinaryJsonFault::TooLarge { .. }), "{error}");
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-300..300_i64).prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::array),
            prop::collection::btree_map(name(), inner, 0..12).prop_map(|properties| {
                let named = properties.into_iter().map(|(name, value)| (name.into(), value));
                Value::object(Object::from_distinct(named.collect()))
            }),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", "[ -~]{0,80}", "[0-9a-f]{0,40}", "\\PC{0,30}", "id|name|_etag|Point"]
}

proptest! {
    #[test]
    fn what_a_writer_makes_is_read_back(value in json(), seed: u64) {
        for bytes in [writer::verbose(&value), writer::mixed(&value, seed)] {
            let read = decode(&bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(read.to_json(), value.to_json());
        }
    }

    #[test]
    fn a_body_that_is_cut_short_is_refused(value in json(), seed: u64) {
        check_truncations(&writer::mixed(&value, seed));
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 1..400)) {
        bytes[0] = PREAMBLE;
        let _ = decode(&bytes);
    }

    #[test]
    fn a_damaged_body_is_refused_or_means_something_valid(
        value in json(),
        seed: u64,
        place: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = writer::mixed(&value, seed);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(read) = decode(&bytes) {
            prop_assert!(Value::parse(read.to_json().as_bytes()).is_ok());
        }
    }
}
