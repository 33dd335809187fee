//! Values as the index keeps them: like `encode`, but short. A term says enough to find the rows and
//! to keep the order, not enough to give every value back.
//!
//! ```text
//! scalar       its code                                    up to 256 bytes
//! long string  06 | escaped UTF-8, cut | 00 02
//! array        07
//! object       08
//! ```
//!
//! A string is cut at the last byte (not character) that leaves room for the mark, so that no string
//! kept whole begins with all of a cut one: the mark, which sorts right behind the terminator
//! `00 01`, then keeps the order of cut and whole strings. Two cut strings may share a term.

use orrery_types::{Value, limits};

use crate::StorageError;
use crate::encode::{ARRAY, END, ESCAPED_ZERO, OBJECT, STRING, corrupt, decode, encode};

/// After a zero byte: the text went on.
const CUT: u8 = 0x02;
/// Escaped bytes of a cut string: what is left beside its tag and its mark.
const CUT_BYTES: usize = limits::INDEX_TERM_BYTES_MAX - 3;

/// What a term tells of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum TermValue {
    /// Everything: a scalar, or undefined in a composite key.
    Whole(Value),
    /// The first bytes of a longer string; they may end within a character.
    Cut(Vec<u8>),
    /// Only that it is an array.
    Array,
    /// Only that it is an object.
    Object,
}

impl TermValue {
    /// The value, if the term tells it.
    pub fn whole(&self) -> Option<&Value> {
        match self {
            Self::Whole(value) => Some(value),
            Self::Cut(_) | Self::Array | Self::Object => None,
        }
    }
}

/// Whether the value's term stands for this value alone.
pub fn is_whole(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => !is_long(text),
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_long(text: &str) -> bool {
    let zeros = || text.bytes().filter(|b| *b == 0).count();
    text.len() > CUT_BYTES || text.len() * 2 > CUT_BYTES && text.len() + zeros() > CUT_BYTES
}

/// Appends the term of a value. No term is a prefix of another.
pub fn encode_term(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(_) => out.push(ARRAY),
        Value::Object(_) => out.push(OBJECT),
        Value::String(text) if is_long(text) => encode_cut(text.as_bytes(), out),
        scalar => encode(scalar, out),
    }
}

fn encode_cut(text: &[u8], out: &mut Vec<u8>) {
    out.push(STRING);
    if let Some(kept) = text.get(..CUT_BYTES).filter(|kept| !kept.contains(&0)) {
        out.extend_from_slice(kept);
        out.extend([END, CUT]);
        return;
    }
    let mut room = CUT_BYTES;
    for byte in text {
        let needed = if *byte == 0 { 2 } else { 1 };
        if needed > room {
            break;
        }
        room -= needed;
        out.push(*byte);
        if *byte == 0 {
            out.push(ESCAPED_ZERO);
        }
    }
    out.extend([END, CUT]);
}

/// Reads the term at the front and returns what follows it.
pub fn decode_term(bytes: &[u8]) -> Result<(TermValue, &[u8]), StorageError> {
    match bytes.split_first() {
        Some((&ARRAY, rest)) => Ok((TermValue::Array, rest)),
        Some((&OBJECT, rest)) => Ok((TermValue::Object, rest)),
        Some((&STRING, text)) if is_cut(text) => decode_cut(text),
        _ => decode(bytes).map(|(value, rest)| (TermValue::Whole(value), rest)),
    }
}

/// Whether escaped text ends in the mark of a cut.
fn is_cut(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(zero) = rest.iter().position(|b| *b == END) {
        match rest.get(zero + 1) {
            Some(&ESCAPED_ZERO) => rest = rest.get(zero + 2..).unwrap_or_default(),
            mark => return mark == Some(&CUT),
        }
    }
    false
}

fn decode_cut(text: &[u8]) -> Result<(TermValue, &[u8]), StorageError> {
    let mut out = Vec::with_capacity(CUT_BYTES);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == END {
            match bytes.next() {
                Some(&ESCAPED_ZERO) => {}
                Some(&CUT) => return Ok((TermValue::Cut(out), bytes.as_slice())),
                _ => return Err(corrupt()),
            }
        }
        out.push(*byte);
    }
    Err(corrupt())
}

/// Appends a component of a composite key: the term of the value, every bit inverted if the
/// component runs downwards.
pub fn encode_component(value: &Value, descending: bool, out: &mut Vec<u8>) {
    let from = out.len();
    encode_term(value, out);
    if descending {
        out.iter_mut().skip(from).for_each(|byte| *byte = !*byte);
    }
}

/// Reads the component at the front and returns what follows it.
pub fn decode_component(
    bytes: &[u8],
    descending: bool,
) -> Result<(TermValue, &[u8]), StorageError> {
    if !descending {
        return decode_term(bytes);
    }
    let upright: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    let (value, rest) = decode_term(&upright)?;
    Ok((value, bytes.get(bytes.len() - rest.len()..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        encode_term(value, &mut out);
        out
    }

    fn parse(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn bytes_are_those_that_the_format_names() {
        assert_eq!(encoded(&"a".into()), b"\x06a\0\x01");
        assert_eq!(encoded(&parse("[1,[2]]")), b"\x07");
        assert_eq!(encoded(&parse(r#"{"a":1}"#)), b"\x08");
        let long = encoded(&"x".repeat(300).as_str().into());
        assert_eq!(long.len(), limits::INDEX_TERM_BYTES_MAX);
        assert!(long.ends_with(b"xx\0\x02"));
        let mut descending = Vec::new();
        encode_component(&Value::Null, true, &mut descending);
        assert_eq!(descending, [!0x02]);
    }

    /// Strings around the length at which they are cut, with zeros and long characters.
    fn strings() -> Vec<String> {
        let mut all: Vec<String> = vec![String::new(), "a".into(), "\0".into(), "z".into()];
        for length in 120..130 {
            all.push("\0".repeat(length));
            all.push(format!("{}b", "\0".repeat(length)));
        }
        for length in CUT_BYTES - 4..CUT_BYTES + 4 {
            for tail in ["", "\0", "\0\0", "a", "b", "é", "€", "😀", "\u{1}", "\0zz", "azz", "ézz"]
            {
                all.push(format!("{}{tail}", "m".repeat(length)));
            }
        }
        all
    }

    #[test]
    fn the_order_of_terms_never_contradicts_the_order_of_strings() {
        let strings = strings();
        for a in &strings {
            for b in &strings {
                let (x, y) = (encoded(&a.as_str().into()), encoded(&b.as_str().into()));
                if a < b {
                    assert!(x <= y, "{a:?} {b:?}");
                }
                let told = is_whole(&a.as_str().into()) || is_whole(&b.as_str().into());
                if a != b && told {
                    assert_ne!(x, y, "a term of a whole string is its own: {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn a_term_tells_whether_it_is_whole() {
        for text in strings() {
            let value = Value::from(text.as_str());
            let term = encoded(&value);
            assert!(term.len() <= limits::INDEX_TERM_BYTES_MAX);
            for descending in [false, true] {
                let mut bytes = Vec::new();
                encode_component(&value, descending, &mut bytes);
                bytes.extend(b"rest");
                let (read, rest) = decode_component(&bytes, descending).expect("a term");
                assert_eq!(rest, b"rest");
                match read {
                    TermValue::Whole(read) => {
                        assert!(is_whole(&value));
                        assert_eq!(read, value);
                    }
                    TermValue::Cut(prefix) => {
                        assert!(!is_whole(&value));
                        assert!(text.as_bytes().starts_with(&prefix) && prefix.len() < text.len());
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let array = decode_term(&encoded(&parse("[]"))).expect("a term").0;
        assert_eq!(array, TermValue::Array);
        assert!(decode_term(&[]).is_err());
        assert!(decode_term(b"\x06abc\0\x03").is_err());
    }
}
