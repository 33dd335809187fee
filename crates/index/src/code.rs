//! Codes of values in index terms: the ordered encoding, but for values whose code would be long.
//! Arrays and objects have the code of their type alone. A string is cut after so many bytes; a cut
//! code ends with a mark that no whole one has, and sorts behind the whole string of its length.

use orrery_storage::StorageError;
use orrery_storage::encode::{decode, encoded};
use orrery_storage::key::{Bounds, prefix_end};
use orrery_types::Value;

/// The code of every array.
pub const ARRAY: u8 = 0x07;
/// The code of every object.
pub const OBJECT: u8 = 0x08;
const STRING: u8 = 0x06;

/// Bytes of a code that are kept: with the terminator, the longest whole code.
const KEPT: usize = 254;
/// Ends a cut code; a whole one ends with `00 01`.
const CUT: [u8; 2] = [0x00, 0x02];

/// The code of a value, and whether it stands for that value alone.
pub fn of(value: &Value) -> (Vec<u8>, bool) {
    match value {
        Value::Array(_) => (vec![ARRAY], false),
        Value::Object(_) => (vec![OBJECT], false),
        _ => {
            let mut code = encoded(value);
            if code.len() <= KEPT + 2 {
                return (code, true);
            }
            code.truncate(KEPT);
            code.extend(CUT);
            (code, false)
        }
    }
}

/// Codes of the strings that begin with a text, and whether they are of those alone.
pub fn with_prefix(text: &str) -> (Bounds, bool) {
    let mut code = encoded(&Value::string(text));
    code.truncate(code.len() - 2);
    let exact = code.len() <= KEPT;
    code.truncate(KEPT);
    (Bounds { to: prefix_end(&code), from: code }, exact)
}

/// What a code says of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The value itself, undefined included.
    Value(Value),
    /// Some array, some object, or a string of which only the beginning is known.
    Inexact,
}

/// Takes a code off the front of an entry's codes.
pub fn decode_code(bytes: &[u8]) -> Result<(Decoded, &[u8]), StorageError> {
    match bytes.first() {
        Some(&(ARRAY | OBJECT)) => Ok((Decoded::Inexact, &bytes[1..])),
        Some(&STRING) if bytes.get(KEPT..KEPT + 2) == Some(&CUT[..]) && is_cut(bytes) => {
            Ok((Decoded::Inexact, &bytes[KEPT + 2..]))
        }
        _ => decode(bytes).map(|(value, rest)| (Decoded::Value(value), rest)),
    }
}

/// Whether the mark is one: no terminator stands before it.
fn is_cut(bytes: &[u8]) -> bool {
    let mut at = 1;
    while at < KEPT {
        match (bytes[at], bytes[at + 1]) {
            (0, 0xff) => at += 2,
            (0, _) => return false,
            _ => at += 1,
        }
    }
    at == KEPT
}
