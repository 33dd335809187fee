//! A sum of doubles without any rounding: a fixed-point number wide enough for every double there is.
//! What was added can be taken away again, in any order, and the sum is the same to the last bit; so
//! a stored sum and a recomputed one never differ.

/// Bits below the point: the smallest double is 2^-1074.
const FRACTION_BITS: usize = 1074;
/// Limbs: 1074 bits below the point, 1024 above, and room for 2^60 terms.
const LIMBS: usize = 34;
/// Bits of a double's mantissa that are stored.
const MANTISSA_BITS: u32 = 52;

/// The sum, in two's complement, lowest limb first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactSum {
    limbs: [u64; LIMBS],
}

impl Default for ExactSum {
    fn default() -> Self {
        Self { limbs: [0; LIMBS] }
    }
}

/// The sum of any doubles, which does not depend on their order: of finite ones without rounding on
/// the way; with an infinite one or none at all among them, as doubles add up.
#[derive(Clone, Debug, Default)]
pub struct DoubleSum {
    finite: ExactSum,
    rest: f64,
}

impl DoubleSum {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        if number.is_finite() {
            self.finite.add(number);
        } else {
            self.rest += number;
        }
    }

    /// The double nearest to the sum.
    pub fn value(&self) -> f64 {
        if self.rest == 0.0 { self.finite.value() } else { self.rest }
    }
}

impl ExactSum {
    /// Adds a finite number; others are passed over.
    pub fn add(&mut self, number: f64) {
        if number.is_finite() {
            let (mantissa, shift) = parts(number);
            self.shifted(mantissa, shift, number.is_sign_negative());
        }
    }

    /// Adds an integer, every digit of it.
    pub fn add_integer(&mut self, number: i64) {
        let magnitude = number.unsigned_abs();
        self.shifted(magnitude, FRACTION_BITS, number < 0);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.plus(&other.limbs);
    }

    /// The same with the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self { limbs: negated(&self.limbs) }
    }

    /// The sum, if it is an integer of 64 bits.
    pub fn integer(&self) -> Option<i64> {
        let (limb, bit) = (FRACTION_BITS / 64, FRACTION_BITS % 64);
        let whole = self.limbs[limb] >> bit | self.limbs[limb + 1] << (64 - bit);
        let mut back = Self::default();
        back.add_integer(whole.cast_signed());
        (back == *self).then_some(whole.cast_signed())
    }

    /// The double nearest to the sum, ties to even; infinite if it is too large.
    pub fn value(&self) -> f64 {
        let negative = self.limbs[LIMBS - 1] >> 63 == 1;
        let magnitude = if negative { negated(&self.limbs) } else { self.limbs };
        let Some(top) = (0..LIMBS * 64).rev().find(|bit| is_set(&magnitude, *bit)) else {
            return 0.0;
        };
        // 54 bits from the top: the mantissa and the bit that decides on rounding.
        let low = top.saturating_sub(53);
        let mut taken = 0_u64;
        for bit in (low..=top).rev() {
            taken = taken << 1 | u64::from(is_set(&magnitude, bit));
        }
        let mut exponent = i32::try_from(low).unwrap_or(i32::MAX) - 1074;
        if top >= 53 {
            let half = taken & 1 == 1;
            let below = (0..low).any(|bit| is_set(&magnitude, bit));
            taken >>= 1;
            exponent += 1;
            if half && (below || taken & 1 == 1) {
                taken += 1;
            }
        }
        let value = scaled(taken, exponent);
        if negative { -value } else { value }
    }

    /// The sum as bytes: limbs that only repeat the sign and zeros below are left out.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sign = if self.limbs[LIMBS - 1] >> 63 == 1 { u64::MAX } else { 0 };
        let used = self.limbs.iter().rposition(|limb| *limb != sign).map_or(0, |at| at + 1);
        let skipped = self.limbs[..used].iter().take_while(|limb| **limb == 0).count();
        let skipped_byte = u8::try_from(skipped).expect("there are few limbs");
        let mut bytes = vec![if sign == 0 { b'+' } else { b'-' }, skipped_byte];
        for limb in &self.limbs[skipped..used] {
            bytes.extend(limb.to_be_bytes());
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([sign, skipped], rest) = bytes.split_first_chunk::<2>()?;
        let fill = match sign {
            b'+' => 0,
            b'-' => u64::MAX,
            _ => return None,
        };
        let (stored, odd) = rest.as_chunks::<8>();
        let skipped = usize::from(*skipped);
        if !odd.is_empty() || skipped + stored.len() > LIMBS {
            return None;
        }
        let mut limbs = [fill; LIMBS];
        limbs[..skipped].fill(0);
        for (limb, bytes) in limbs[skipped..].iter_mut().zip(stored) {
            *limb = u64::from_be_bytes(*bytes);
        }
        Some(Self { limbs })
    }

    fn shifted(&mut self, mantissa: u64, shift: usize, negative: bool) {
        let wide = u128::from(mantissa) << (shift % 64);
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
        let halves = [wide as u64, (wide >> 64) as u64];
        let mut over = false;
        for (nth, limb) in self.limbs[shift / 64..].iter_mut().enumerate() {
            let term = halves.get(nth).copied();
            if term.is_none() && !over {
                break;
            }
            let term = term.unwrap_or_default();
            let (sum, first) =
                if negative { limb.overflowing_sub(term) } else { limb.overflowing_add(term) };
            let carry = u64::from(over);
            let (sum, second) =
                if negative { sum.overflowing_sub(carry) } else { sum.overflowing_add(carry) };
            *limb = sum;
            over = first || second;
        }
    }

    fn plus(&mut self, term: &[u64; LIMBS]) {
        let mut carry = false;
        for (limb, add) in self.limbs.iter_mut().zip(term) {
            let (sum, over) = limb.overflowing_add(*add);
            let (sum, over_carry) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = over || over_carry;
        }
    }
}

/// A double as a whole number of units of 2^-1074: the mantissa and by how many bits it is shifted.
fn parts(number: f64) -> (u64, usize) {
    let bits = number.to_bits();
    let fraction = bits & ((1 << MANTISSA_BITS) - 1);
    let exponent = usize::try_from((bits >> MANTISSA_BITS) & 0x7ff).unwrap_or(0);
    match exponent {
        0 => (fraction, 0),
        exponent => (fraction | 1 << MANTISSA_BITS, exponent - 1),
    }
}

fn negated(limbs: &[u64; LIMBS]) -> [u64; LIMBS] {
    let mut out = limbs.map(|limb| !limb);
    for limb in &mut out {
        let (sum, over) = limb.overflowing_add(1);
        *limb = sum;
        if !over {
            break;
        }
    }
    out
}

fn is_set(limbs: &[u64; LIMBS], bit: usize) -> bool {
    limbs[bit / 64] >> (bit % 64) & 1 == 1
}

/// `mantissa` × 2^`exponent`, in steps so that no step rounds.
fn scaled(mantissa: u64, exponent: i32) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "it has 53 bits, or 54 with the last one zero")]
    let mut value = mantissa as f64;
    let mut left = exponent;
    while left != 0 && value.is_finite() {
        let step = left.clamp(-500, 500);
        value *= 2_f64.powi(step);
        left -= step;
    }
    value
}

const _: () = assert!(FRACTION_BITS + 1024 + 60 < LIMBS * 64, "every double fits");

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums are exact")]
mod tests {
    use super::*;

    fn sum(numbers: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        for n in numbers {
            sum.add(*n);
        }
        sum
    }

    #[test]
    fn a_sum_is_that_of_the_numbers_and_does_not_depend_on_their_order() {
        assert_eq!(sum(&[]).value(), 0.0);
        assert_eq!(sum(&[1.5, 2.25, -7.0]).value(), -3.25);
        assert_eq!(sum(&[1e308, 1.0, -1e308]).value(), 1.0);
        assert_eq!(sum(&[1.0, -1e308, 1e308]).value(), 1.0);
        assert_eq!(sum(&[5e-324, 5e-324]).value(), 1e-323);
        assert_eq!(sum(&[0.1; 10]).value(), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX]).value(), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]).value(), f64::MAX);
        // A tie goes to the even neighbour, and a bit below it breaks the tie.
        assert_eq!(sum(&[2_f64.powi(53), 1.0]).value(), 2_f64.powi(53));
        assert_eq!(sum(&[2_f64.powi(53), 1.0, 1e-300]).value(), 2_f64.powi(53) + 2.0);
    }

    #[test]
    fn what_is_not_finite_adds_up_as_doubles_do() {
        let sum = |numbers: &[f64]| {
            let mut sum = DoubleSum::default();
            for number in numbers {
                sum.add(*number);
            }
            sum.value()
        };
        assert_eq!(sum(&[1e16, -1e16, 1.0]), 1.0);
        assert_eq!(sum(&[1e16, 1.0, -1e16]), 1.0);
        assert_eq!(sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[f64::NAN, 1.0]).is_nan());
    }

    #[test]
    fn every_number_alone_is_its_own_sum() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let number = f64::from_bits(bits);
            if number.is_finite() {
                let alone = sum(&[number]);
                assert_eq!(alone.value(), number, "{number:e}");
                assert_eq!(ExactSum::from_bytes(&alone.to_bytes()), Some(alone), "{number:e}");
            }
        }
    }

    #[test]
    fn what_was_added_can_be_taken_away() {
        let mut all = sum(&[0.1, 1e300, -3.7e-310, 42.0]);
        for number in [42.0, 0.1, -3.7e-310, 1e300] {
            all.merge(&sum(&[number]).negated());
        }
        assert_eq!(all, ExactSum::default());
        for bad in [&b""[..], b"x\0", b"+", b"+\0abc", b"+\x22aaaaaaaa"] {
            assert_eq!(ExactSum::from_bytes(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn integers_keep_every_digit() {
        for number in [0, 1, -1, i64::MAX, i64::MIN, 9_007_199_254_740_993] {
            let mut sum = ExactSum::default();
            sum.add_integer(number);
            assert_eq!(sum.integer(), Some(number));
            sum.add(0.5);
            assert_eq!(sum.integer(), None);
            sum.add(-0.5);
            sum.add_integer(number);
            assert_eq!(sum.integer(), number.checked_mul(2));
        }
    }
}
