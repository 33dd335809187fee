//! Two writers of the binary form. One writes as the Rust SDK does: always the plain forms. The
//! other picks among all forms by a seed, as the .NET SDK and others may.

use std::collections::HashMap;

use orrery_types::{Number, Value};

use crate::wire::binary_json::PREAMBLE;
use crate::wire::binary_json::system_string::SYSTEM_STRINGS;

pub(super) fn verbose(value: &Value) -> Vec<u8> {
    write(value, None)
}

pub(super) fn mixed(value: &Value, seed: u64) -> Vec<u8> {
    write(value, Some(seed))
}

fn write(value: &Value, seed: Option<u64>) -> Vec<u8> {
    let mut writer = Writer { out: vec![PREAMBLE], seed, strings: HashMap::new() };
    writer.value(value);
    writer.out
}

struct Writer {
    out: Vec<u8>,
    seed: Option<u64>,
    /// Where a string was written first.
    strings: HashMap<String, usize>,
}

impl Writer {
    /// Whether to use a compact form; never for the plain writer.
    fn likes(&mut self) -> bool {
        let Some(seed) = &mut self.seed else { return false };
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 63 == 1
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Undefined | Value::Null => self.out.push(0xd0),
            Value::Bool(b) => self.out.push(0xd1 + u8::from(*b)),
            Value::Number(Number::Int(i)) => self.integer(*i),
            Value::Number(Number::Float(f)) => {
                self.out.push(if self.seed.is_some() { 0xce } else { 0xcc });
                self.out.extend(f.to_le_bytes());
            }
            Value::String(s) => self.string(s),
            Value::Array(elements) => self.container(0xe0, elements.len(), &|writer| {
                elements.iter().for_each(|element| writer.value(element));
            }),
            Value::Object(object) => self.container(0xe8, object.len(), &|writer| {
                for (name, value) in object.iter() {
                    writer.string(name);
                    writer.value(value);
                }
            }),
        }
    }

    fn integer(&mut self, i: i64) {
        if let Ok(literal @ 0..32) = u8::try_from(i) {
            self.out.push(literal);
        } else if let (Ok(byte), true) = (u8::try_from(i), self.likes()) {
            self.out.extend([0xc8, byte]);
        } else if let (Ok(short), true) = (i16::try_from(i), self.likes()) {
            self.out.push(0xc9);
            self.out.extend(short.to_le_bytes());
        } else {
            self.out.push(0xcb);
            self.out.extend(i.to_le_bytes());
        }
    }

    /// Tries ever wider lengths, since the members must be written where they will stand.
    fn container(&mut self, marker: u8, count: usize, members: &dyn Fn(&mut Self)) {
        if count < 2 && self.likes() {
            self.out.push(marker + u8::from(count == 1));
            return members(self);
        }
        let is_counted = self.seed.is_none() || self.likes();
        for (step, width) in [(0, 1), (1, 2), (2, 4_usize)] {
            let (start, seed, strings) = (self.out.len(), self.seed, self.strings.clone());
            self.out.push(marker + 2 + step + if is_counted { 3 } else { 0 });
            let head = self.out.len();
            let fields = if is_counted { 2 } else { 1 };
            self.out.resize(head + width * fields, 0);
            members(self);
            let length = self.out.len() - head - width * fields;
            if length.max(count) < 1 << (8 * width) {
                self.out[head..head + width].copy_from_slice(&length.to_le_bytes()[..width]);
                if is_counted {
                    let at = head + width;
                    self.out[at..at + width].copy_from_slice(&count.to_le_bytes()[..width]);
                }
                return;
            }
            self.out.truncate(start);
            (self.seed, self.strings) = (seed, strings);
        }
        panic!("no container of a test needs more than four bytes for its length");
    }

    fn string(&mut self, text: &str) {
        if let (Some(at), true) = (self.strings.get(text).copied(), self.likes()) {
            let width = (1..4).find(|width| at < 1 << (8 * width)).expect("bodies are short");
            self.out.push(0xc2 + u8::try_from(width).expect("it is at most 3"));
            return self.out.extend(&at.to_le_bytes()[..width]);
        }
        self.strings.entry(text.to_owned()).or_insert(self.out.len());
        let system = SYSTEM_STRINGS.iter().zip(0x20..).find(|(system, _)| **system == text);
        if let (Some((_, marker)), true) = (system, self.likes()) {
            return self.out.push(marker);
        }
        if text.is_ascii() && text.len() < 256 && self.likes() {
            return self.packed(text.as_bytes());
        }
        self.plain(text);
    }

    fn plain(&mut self, text: &str) {
        let length = text.len();
        match length {
            0..64 => self.out.push(0x80 + u8::try_from(length).expect("it is below 64")),
            64..256 => self.out.extend([0xc0, u8::try_from(length).expect("it is below 256")]),
            _ => {
                self.out.push(0xc1);
                self.out.extend(u16::try_from(length).expect("names are short").to_le_bytes());
            }
        }
        self.out.extend(text.as_bytes());
    }

    /// As few bits a character as the range of the characters allows.
    fn packed(&mut self, ascii: &[u8]) {
        let length = u8::try_from(ascii.len()).expect("it is below 256");
        let base = ascii.iter().min().copied().unwrap_or(0);
        let range = ascii.iter().max().copied().unwrap_or(0) - base;
        let (bits, base) = match range {
            0..16 => (4, base),
            16..32 => (5, base),
            32..64 => (6, base),
            _ => (7, 0),
        };
        self.out.extend([0x7b + bits - 4, length]);
        if bits < 7 {
            self.out.push(base);
        }
        let bit = |i: usize| {
            let (character, shift) = (i / usize::from(bits), i % usize::from(bits));
            // The .NET SDK leaves ones after the last character.
            ascii.get(character).is_none_or(|c| ((c - base) >> shift) & 1 == 1)
        };
        let size = (ascii.len() * usize::from(bits)).div_ceil(8);
        self.out
            .extend((0..size).map(|at| (0..8).map(|i| u8::from(bit(at * 8 + i)) << i).sum::<u8>()));
    }
}
