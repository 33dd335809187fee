//! Bytes as decimal digits. Positions of the feed are sent so because clients expect a number: the
//! Python SDK takes a continuation for one of a partition only if it is all digits.

use std::fmt::Write as _;

/// Five digits for two bytes, three for the last one of an odd number.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 5 / 2 + 1);
    for chunk in bytes.chunks(2) {
        let _ = match *chunk {
            [high, low] => write!(text, "{:05}", u16::from_be_bytes([high, low])),
            [last] => write!(text, "{last:03}"),
            _ => Ok(()),
        };
    }
    text
}

/// The bytes again; `None` if the digits stand for none.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 5 * 2 + 1);
    for chunk in text.as_bytes().chunks(5) {
        let digits = std::str::from_utf8(chunk).ok()?;
        match chunk.len() {
            5 => bytes.extend(digits.parse::<u16>().ok()?.to_be_bytes()),
            3 => bytes.push(digits.parse().ok()?),
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        for bytes in [&[][..], &[0], &[255], &[0, 1, 2], &[255, 255, 9, 0]] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
        for bad in ["1", "12", "1234", "65536", "256", "0000x"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
