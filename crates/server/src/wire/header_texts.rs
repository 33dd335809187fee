//! The values of a response's headers, written into one buffer that they share. A response has a dozen,
//! and an allocation for each would cost more than the rest of the response.

use bytes::Bytes;
use http::HeaderValue;

const EMPTY: HeaderValue = HeaderValue::from_static("");

/// `N` values in one buffer.
pub(crate) struct HeaderTexts<const N: usize> {
    bytes: Vec<u8>,
    ends: [usize; N],
    count: usize,
}

impl<const N: usize> HeaderTexts<N> {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: [0; N], count: 0 }
    }

    /// Adds the next text.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        if let Some(end) = self.ends.get_mut(self.count) {
            *end = self.bytes.len();
            self.count += 1;
        }
    }

    pub(crate) fn add_text(&mut self, text: &str) {
        self.add(|out| out.extend_from_slice(text.as_bytes()));
    }

    pub(crate) fn add_number(&mut self, number: u64) {
        self.add(|out| write_number(out, number));
    }

    /// The values in the order of the texts. One that cannot stand in a header is empty, and so are
    /// those that were not added.
    pub(crate) fn into_values(self) -> [HeaderValue; N] {
        let bytes = Bytes::from(self.bytes);
        let mut from = 0;
        self.ends.map(|end| {
            let text = bytes.slice(from..end.max(from));
            from = end.max(from);
            HeaderValue::from_maybe_shared(text).unwrap_or(EMPTY)
        })
    }
}

/// Writes a number in decimal digits.
pub(crate) fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_texts_in_order() {
        let mut texts = HeaderTexts::<4>::with_capacity(8);
        texts.add_text("a text longer than the room");
        texts.add_number(u64::MAX);
        texts.add_text("");
        texts.add(|out| out.extend_from_slice(b"not\na header"));
        let values = texts.into_values();
        let shown = values.each_ref().map(|value| value.to_str().unwrap());
        assert_eq!(shown, ["a text longer than the room", "18446744073709551615", "", ""]);
    }

    #[test]
    fn what_was_not_added_is_empty() {
        let mut texts = HeaderTexts::<2>::with_capacity(8);
        texts.add_text("one");
        let [one, two] = texts.into_values();
        assert_eq!((one.to_str().unwrap(), two.is_empty()), ("one", true));
    }
}
