//! The hash of a value by which the service compares arrays and objects: `MurmurHash3` over 128 bits,
//! seeded at each level with what stands around the value. Equal values have equal hashes; the
//! order of an object's properties does not count. The numbers below are the service's.

use orrery_types::{Number, Value};

const ROOT: u128 = seed(0xbfc2_359e_afc0_e2b7, 0x8846_e002_84c4_cf1f);
const NULL: u128 = seed(0x1380_f68b_b3b0_cfe4, 0x156c_918b_f564_ee48);
const FALSE: u128 = seed(0xc1be_517f_e893_b40c, 0xe9fc_8a4c_531c_d0dd);
const TRUE: u128 = seed(0xf86d_4abf_9a41_2e74, 0x7884_8836_5c8a_985d);
const NUMBER: u128 = seed(0x2400_e8b8_94ce_9c2a, 0x790b_e1ea_bd7b_9481);
const STRING: u128 = seed(0x61f5_3f0a_4420_4cfb, 0x0948_1be8_ef4b_56dd);
const ARRAY: u128 = seed(0xfa57_3b01_4c4d_c18e, 0xa014_512c_858e_b115);
const OBJECT: u128 = seed(0x77b2_85ac_511a_ef30, 0x3dcf_1872_4582_2449);
const ARRAY_INDEX: u128 = seed(0xfe05_7204_216d_b999, 0x5b1c_c317_8bd9_c593);
const PROPERTY_NAME: u128 = seed(0xc915_dde0_5849_2a8a, 0x7c8b_e2eb_a72e_4634);

const fn seed(low: u64, high: u64) -> u128 {
    low as u128 | (high as u128) << 64
}

/// The hash of a value, its least byte first.
pub(super) fn of(value: &Value) -> [u8; 16] {
    hash(value, ROOT).to_le_bytes()
}

fn hash(value: &Value, seed: u128) -> u128 {
    let typed = |kind: u128| murmur(&kind.to_le_bytes(), seed);
    match value {
        // Undefined stands in no array or object.
        Value::Undefined => seed,
        Value::Null => typed(NULL),
        Value::Bool(false) => typed(FALSE),
        Value::Bool(true) => typed(TRUE),
        Value::Number(number) => murmur(&number_bytes(*number), typed(NUMBER)),
        Value::String(text) => murmur(text.as_bytes(), typed(STRING)),
        Value::Array(elements) => {
            let element = |whole: u128, (index, element): (u128, &Value)| {
                let own = hash(element, ARRAY_INDEX.wrapping_add(index));
                murmur(&own.to_le_bytes(), whole)
            };
            (0..).zip(elements.iter()).fold(typed(ARRAY), element)
        }
        Value::Object(object) => {
            let name_seed = murmur(&STRING.to_le_bytes(), PROPERTY_NAME);
            let properties = object.iter().fold(0, |all, (name, value)| {
                all ^ hash(value, murmur(name.as_bytes(), name_seed))
            });
            match properties {
                0 => typed(OBJECT),
                _ => murmur(&properties.to_le_bytes(), typed(OBJECT)),
            }
        }
    }
}

/// A double, and the ten further bits of an integer that no double tells.
fn number_bytes(number: Number) -> [u8; 10] {
    let (double, extra) = match number {
        Number::Int(integer) => extended(integer),
        // Both zeros are one number.
        Number::Float(float) => (float + 0.0, 0),
    };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&double.to_le_bytes());
    bytes[8..].copy_from_slice(&extra.to_le_bytes());
    bytes
}

#[expect(clippy::cast_precision_loss, reason = "only where nothing is lost")]
fn extended(integer: i64) -> (f64, u16) {
    let size = integer.unsigned_abs();
    // Of zero no bit is significant.
    let significant = 64_u32.saturating_sub(size.leading_zeros() + size.trailing_zeros());
    if significant <= 53 {
        return (integer as f64, 0);
    }
    let exponent = size.ilog2();
    let mantissa = (size << (62 - exponent)) & 0x3fff_ffff_ffff_ffff;
    let sign = u64::from(integer < 0) << 63;
    let bits = sign | (u64::from(exponent) + 1023) << 52 | mantissa >> 10;
    (f64::from_bits(bits), u16::try_from((mantissa & 0x3ff) << 6).unwrap_or(u16::MAX))
}

/// `MurmurHash3_x64_128` with a seed as wide as its state.
#[expect(clippy::cast_possible_truncation, reason = "the halves of the state")]
fn murmur(bytes: &[u8], seed: u128) -> u128 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let first = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let second = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let (mut h1, mut h2) = (seed as u64, (seed >> 64) as u64);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 = (h1 ^ first(block as u64)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ second((block >> 64) as u64)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    let last = u128::from_le_bytes(last);
    h2 ^= second((last >> 64) as u64);
    h1 ^= first(last as u64);
    let length = bytes.len() as u64;
    (h1, h2) = (h1 ^ length, h2 ^ length);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (mixed(h1), mixed(h2));
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    u128::from(h1) | u128::from(h2) << 64
}

fn mixed(mut h: u64) -> u64 {
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected hashes are those of the .NET SDK, which writes the greatest byte first.
    #[test]
    fn hashes_are_those_of_the_service() {
        let check = |text: &str, expected: &str| {
            let hash = hash(&Value::parse(text.as_bytes()).unwrap(), ROOT);
            assert_eq!(format!("{hash:032X}"), expected.replace('-', ""), "{text}");
        };
        let text = "\"asdfasdfasdfasdfasdfasdf\"";
        check("null", "898EFBF2680DAEA39E24D6AE6653417D");
        check("true", "CD4D51AB869F071FF019C3E4A55C0125");
        check("\"\"", "A78446CF287029A585B395A161A2A9A1");
        check(text, "8F124368401E0B91AD580CA542E035DB");
        check("1234", "A94BF61335C9FBA42C28D7D9895D1434");
        check("1234.0", "A94BF61335C9FBA42C28D7D9895D1434");
        check("[]", "7D54F729FF4A63FFA2EF3CA359538082");
        check("[null]", "3E8E8C77472338352F80EA6235FB6E41");
        check("[[]]", "51667C83CA3C85E958EC39854AEE937C");
        check("{}", "14B86A60AA01A7381438743E80B965D8");
        check("{\"prop\":1234}", "9B7CCCD51368EBABD9848C1D0F56DCAA");
        let list = format!("[null,false,true,1234,{text}]");
        check(&list, "A9407916DE27F316CC5A8E4EB9AFD5E6");
        check(&format!("[{list}]"), "C9F0AB8253C9A4654185473ED51BE7D3");
        let object = format!(
            "{{\"cosmosNumber\":1234,\"null\":null,\"false\":false,\"true\":true,\
             \"cosmosString\":{text}}}"
        );
        check(&object, "3B6AA9F4F43AAEC0E48EBE2BC020D55C");
        check(&format!("{{\"prop\":{object}}}"), "EB61A935CABD7814CF677F1B8676ECF1");
    }

    #[test]
    fn integers_beyond_doubles_keep_their_last_bits() {
        assert_eq!(extended(1 << 53), (9_007_199_254_740_992.0, 0));
        assert_eq!(extended((1 << 53) + 1), (9_007_199_254_740_992.0, 1 << 15));
        assert_eq!(extended(-(1 << 53) - 1), (-9_007_199_254_740_992.0, 1 << 15));
        assert_eq!(extended(i64::MIN), (-9_223_372_036_854_775_808.0, 0));
        assert_eq!(extended(0), (0.0, 0));
    }
}
