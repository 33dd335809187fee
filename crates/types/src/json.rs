//! JSON text to [`Value`] and back. Reading is strict: one value, no duplicate property, nesting
//! within the limit, finite numbers. Writing is compact and keeps the order of properties.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::{Number, Object, Value, limits};

/// Why a string is not a JSON value that is accepted; the message is meant for its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(Box<str>);

impl Value {
    /// Reads exactly one JSON value.
    pub fn parse(text: &[u8]) -> Result<Self, JsonError> {
        let mut reader = sonic_rs::Deserializer::from_slice(text);
        let value = Seed { depth: 0 }.deserialize(&mut reader).map_err(first_line)?;
        reader.end().map_err(first_line)?;
        Ok(value)
    }

    /// Reads an object that is known to be well-formed, but of its properties only those with these
    /// names; the others are passed over, and what follows the last of them is not looked at.
    pub fn parse_members(text: &[u8], names: &[Arc<str>]) -> Result<Self, JsonError> {
        let mut entries = Vec::with_capacity(names.len());
        if names.len() <= SOUGHT_MAX {
            for name in names {
                match sonic_rs::get(text, [&**name]) {
                    Ok(found) => {
                        let value = Self::parse(found.as_raw_str().as_bytes())?;
                        entries.push((name.clone(), value));
                    }
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(first_line(error)),
                }
            }
            return Ok(Self::object(Object::from_distinct(entries)));
        }
        for property in sonic_rs::to_object_iter(text) {
            let (name, value) = property.map_err(first_line)?;
            if let Some(known) = names.iter().find(|known| ***known == *name) {
                entries.push((known.clone(), Self::parse(value.as_raw_str().as_bytes())?));
                if entries.len() == names.len() {
                    break;
                }
            }
        }
        Ok(Self::object(Object::from_distinct(entries)))
    }

    /// Appends the compact JSON text. Undefined writes nothing; non-finite numbers are written as
    /// strings, as the SDKs' own writers do.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Self::Undefined => {}
            Self::Null => out.push_str("null"),
            Self::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Self::Number(n) => write_number(*n, out),
            Self::String(s) => write_json_string(s, out),
            Self::Array(elements) => {
                out.push('[');
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    element.write_json(out);
                }
                out.push(']');
            }
            Self::Object(object) => {
                out.push('{');
                for (i, (name, value)) in object.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_json_string(name, out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }

    /// The compact JSON text; empty for undefined.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }
}

/// Properties that are sought one by one; to look at each in turn is dearer.
const SOUGHT_MAX: usize = 2;

/// From here on a double's shortest digits are not its exact value.
const TWO_53: f64 = 9_007_199_254_740_992.0;

fn write_number(number: Number, out: &mut String) {
    match number {
        Number::Int(i) => out.push_str(itoa::Buffer::new().format(i)),
        // Digits that fit 64 bits are read back as an integer, exactly: so they must be exact.
        Number::Float(f) if f.abs() >= TWO_53 && number.as_i64().is_some() => {
            out.push_str(itoa::Buffer::new().format(number.as_i64().unwrap_or_default()));
        }
        Number::Float(f) if f.is_finite() => match whole(f) {
            Some(i) => out.push_str(itoa::Buffer::new().format(i)),
            None => out.push_str(ryu_js::Buffer::new().format(f)),
        },
        Number::Float(_) => write_json_string(&number.to_string(), out),
    }
}

/// A float that is a whole number, of which the digits are found much faster.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is compared")]
#[expect(clippy::float_cmp, reason = "the very same number is meant")]
fn whole(f: f64) -> Option<i64> {
    let i = f as i64;
    (f.abs() < TWO_53 && i as f64 == f).then_some(i)
}

/// Appends a JSON string literal: quotes, backslashes and control characters escaped.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    loop {
        let (plain, escaped) = rest.split_at(plain_bytes(rest.as_bytes()));
        out.push_str(plain);
        let Some(byte) = escaped.bytes().next() else { break };
        write_escape(byte, out);
        // What is escaped is one byte long.
        rest = escaped.get(1..).unwrap_or_default();
    }
    out.push('"');
}

fn write_escape(byte: u8, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let escape = match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0c => "\\f",
        _ => {
            out.push_str("\\u00");
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
            return;
        }
    };
    out.push_str(escape);
}

/// How many bytes from the start need no escape. Most text needs none, so many bytes are looked at at once: a
/// chunk of long text, then words of eight.
fn plain_bytes(bytes: &[u8]) -> usize {
    let chunks = bytes.chunks_exact(CHUNK_BYTES);
    let is_plain = |chunk: &&[u8]| !any_byte(chunk, needs_escape);
    let plain = CHUNK_BYTES * chunks.take_while(is_plain).count();
    plain + plain_words(bytes.get(plain..).unwrap_or_default())
}

fn needs_escape(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Whether a byte has a property. It does not stop at the first one, so that many bytes are compared at once.
fn any_byte(bytes: &[u8], has: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(0, |found, byte| found | u8::from(has(*byte))) != 0
}

fn plain_words(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    // The high bits of bytes below a limit of up to 0x80. A borrow may mark bytes above one that is below,
    // which changes nothing: there is one.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH_BITS;
    let is = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let (words, _) = bytes.as_chunks::<8>();
    let has_escape = |word: &&[u8; 8]| {
        let word = u64::from_le_bytes(**word);
        below(word, 0x20) | is(word, b'"') | is(word, b'\\') != 0
    };
    let plain = 8 * words.iter().take_while(|word| !has_escape(word)).count();
    let rest = bytes.get(plain..).unwrap_or_default();
    plain + rest.iter().take_while(|byte| !needs_escape(**byte)).count()
}

/// Bytes that are compared at once.
const CHUNK_BYTES: usize = 64;

/// The text with the control characters inside its strings escaped; `None` if there are none. The service
/// takes them raw, and clients that build JSON by hand send them.
pub fn escape_controls(text: &[u8]) -> Option<Vec<u8>> {
    // Few bodies have any, and this test is a fraction of the cost of the other.
    let has_control = |chunk: &[u8]| any_byte(chunk, |byte| byte < b' ');
    if !text.chunks(CHUNK_BYTES).any(has_control) {
        return None;
    }
    let (mut out, mut written) = (Vec::new(), 0);
    let (mut is_string, mut is_escaped) = (false, false);
    for (at, byte) in text.iter().copied().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'"' => is_string = !is_string,
            b'\\' => is_escaped = is_string,
            0..b' ' if is_string => {
                out.extend_from_slice(text.get(written..at).unwrap_or_default());
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                written = at + 1;
            }
            _ => {}
        }
    }
    if written == 0 {
        return None;
    }
    out.extend_from_slice(text.get(written..).unwrap_or_default());
    Some(out)
}

/// The parser's messages go on with an excerpt of the text over several lines; the first says it.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn first_line(error: sonic_rs::Error) -> JsonError {
    let text = error.to_string();
    JsonError(text.lines().next().unwrap_or("malformed JSON").into())
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Seed { depth: 0 }.deserialize(deserializer)
    }
}

/// Reads one value at a known depth, so that nesting is refused before the stack feels it.
#[derive(Clone, Copy)]
struct Seed {
    depth: usize,
}

impl Seed {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= limits::NESTING_DEPTH_MAX {
            return Err(E::custom(format_args!(
                "nesting is deeper than {} levels",
                limits::NESTING_DEPTH_MAX
            )));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, i: i64) -> Result<Value, E> {
        Ok(Value::from(i))
    }

    #[expect(clippy::cast_precision_loss, reason = "beyond 64 signed bits a number is a double")]
    fn visit_u64<E>(self, u: u64) -> Result<Value, E> {
        Ok(i64::try_from(u).map_or_else(|_| Value::from(u as f64), Value::from))
    }

    fn visit_f64<E: serde::de::Error>(self, f: f64) -> Result<Value, E> {
        if f.is_finite() { Ok(Value::from(f)) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::String(s.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element_seed(seed)? {
            elements.push(element);
        }
        Ok(Value::Array(Arc::new(elements)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
        let mut seen = Names::default();
        while let Some(name) = map.next_key_seed(NameSeed)? {
            if !seen.insert(&name, &entries) {
                return Err(A::Error::custom(format_args!("the property '{name}' occurs twice")));
            }
            entries.push((name, map.next_value_seed(seed)?));
        }
        Ok(Value::object(Object::from_distinct(entries)))
    }
}

/// Property names met so far. Few are compared one by one; many go through a set, so that an
/// object of 100,000 properties is not a quadratic trap.
#[derive(Default)]
struct Names {
    set: HashSet<Arc<str>>,
}

impl Names {
    const FEW: usize = 16;

    fn insert(&mut self, name: &Arc<str>, entries: &[(Arc<str>, Value)]) -> bool {
        if entries.len() < Self::FEW {
            return !entries.iter().any(|(n, _)| n == name);
        }
        if self.set.is_empty() {
            self.set.extend(entries.iter().map(|(n, _)| n.clone()));
        }
        self.set.insert(name.clone())
    }
}

struct NameSeed;

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Arc<str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Arc<str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a property name")
    }

    fn visit_str<E>(self, s: &str) -> Result<Arc<str>, E> {
        Ok(s.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(text: &str, says: &str) {
        let error = Value::parse(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }

    #[test]
    fn text_comes_back_as_it_was_written() {
        for text in [
            r#"{"b":1,"a":[true,false,null,"x\n\u0001\"\\"],"n":-1.5e-9,"é":"😀"}"#,
            "9223372036854775807",
            "0.1",
            "[]",
        ] {
            assert_eq!(Value::parse(text.as_bytes()).expect(text).to_json(), text);
        }
    }

    /// Words of eight bytes and chunks of many are looked at at once: every character at every place in such a word,
    /// behind it and about the ends of chunks, between plain ones and beside others that are escaped or not ASCII.
    #[test]
    fn a_string_is_escaped_wherever_its_characters_stand() {
        let escape = |c: char| match c {
            '"' | '\\' => format!("\\{c}"),
            '\n' => "\\n".into(),
            '\r' => "\\r".into(),
            '\t' => "\\t".into(),
            '\u{8}' => "\\b".into(),
            '\u{c}' => "\\f".into(),
            c if c < ' ' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        };
        let characters = (0..=0x100).chain([0x7ff, 0x20ac, 0x1f600]).filter_map(char::from_u32);
        for c in characters {
            for at in (0..20).chain([62, 63, 64, 65, 127, 128]) {
                for beside in ["", "\"", "\u{1}", "é", "\u{7f}"] {
                    let text = format!("{}{c}{beside}{}", "a".repeat(at), "b".repeat(17 - at % 17));
                    let expected: String = text.chars().map(escape).collect();
                    let mut out = String::new();
                    write_json_string(&text, &mut out);
                    assert_eq!(out, format!("\"{expected}\""), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn a_large_double_equals_itself_after_a_round_trip() {
        for f in [9.291_987_328_646_22e16, -9.007_199_254_740_994e15, 9.2e18, 1e19, 1.5e300] {
            let value = Value::from(f);
            let back = Value::parse(value.to_json().as_bytes()).expect("json");
            assert_eq!(back, value, "{}", value.to_json());
        }
    }

    #[test]
    fn control_characters_are_escaped_inside_strings_alone() {
        let check = |text: &str, expected: Option<&str>| {
            let escaped = escape_controls(text.as_bytes()).map(String::from_utf8);
            assert_eq!(escaped.transpose().expect("UTF-8").as_deref(), expected, "{text:?}");
        };
        check("{\r\n\t\"a\" : \"b\"\n}", None);
        check(r#"{"a\"":"\t\\"}"#, None);
        check(
            "{\n\"a\tb\":\"\r\n\u{0}é\"}\n",
            Some("{\n\"a\\u0009b\":\"\\u000d\\u000a\\u0000é\"}\n"),
        );
        check("[\"\\\\\t\",\"\\\"\u{1f}\"]", Some("[\"\\\\\\u0009\",\"\\\"\\u001f\"]"));
        // What is no JSON stays none.
        check("\"\\\t\"", None);
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in ["", "{", "{\"a\":}", "[1,]", "nul", "1 2", "{'a':1}", "01", "\"\u{1}\"", "+1"]
        {
            assert!(Value::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Value::parse(b"\"\xff\"").is_err(), "invalid UTF-8");
        check_refused("1e999", "");
    }

    #[test]
    fn a_property_may_occur_only_once() {
        check_refused(r#"{"a":1,"a":2}"#, "'a' occurs twice");
        let many: Vec<_> = (0..40).map(|i| format!("\"p{}\":1", i % 39)).collect();
        check_refused(&format!("{{{}}}", many.join(",")), "'p0' occurs twice");
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Value::parse(nested(limits::NESTING_DEPTH_MAX).as_bytes()).is_ok());
        check_refused(&nested(limits::NESTING_DEPTH_MAX + 1), "nesting is deeper");
        check_refused(&nested(100_000), "nesting is deeper");
    }

    #[test]
    fn members_are_those_of_the_whole_however_many_are_picked() {
        let mut item = Object::new();
        for (name, text) in [
            ("plain", r#"{"plain":2}"#),
            ("a\"b\\c", "[1,{\"x\":null}]"),
            ("\u{1}\n\t", r#""a\"},{\"plain\":3""#),
            ("é 😀", "1.5"),
            ("", "0"),
            ("0", "true"),
            ("x", "null"),
        ] {
            item.set(name, Value::parse(text.as_bytes()).expect(text));
        }
        let item = Value::object(item);
        let text = item.to_json();
        let mut names: Vec<Arc<str>> =
            item.as_object().expect("an object").iter().map(|(name, _)| name.clone()).collect();
        names.extend(["y".into(), "plai".into(), "plain ".into()]);
        for first in 0..names.len() {
            for end in first..=names.len() {
                let wanted = &names[first..end];
                let found = Value::parse_members(text.as_bytes(), wanted).expect(&text);
                for name in &names {
                    let expected =
                        if wanted.contains(name) { item.get(name) } else { &Value::Undefined };
                    assert_eq!(found.get(name), expected, "{name} of {wanted:?}");
                }
            }
        }
    }
}
