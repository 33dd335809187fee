//! Numbers as the query language sees them: one type, IEEE doubles, except that integers within
//! the signed 64-bit range keep every digit. `1` and `1.0` are the same number.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A JSON number. An `Int` and a `Float` of the same numeric value are equal.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer that was written without fraction and fits 64 bits.
    Int(i64),
    /// Everything else, including the non-finite results of arithmetic.
    Float(f64),
}

impl Number {
    /// The nearest double; integers beyond 2^53 lose digits.
    #[expect(clippy::cast_precision_loss, reason = "the language computes in doubles")]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Float(f) => f,
        }
    }

    /// The exact integer, when the number is one that fits (5.0 counts as 5).
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(i),
            Self::Float(f) if f.fract() == 0.0 && (-TWO_63..TWO_63).contains(&f) => Some(f as i64),
            Self::Float(_) => None,
        }
    }

    /// Whether the number is neither NaN nor an infinity.
    pub fn is_finite(self) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Float(f) => f.is_finite(),
        }
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

impl From<i64> for Number {
    fn from(i: i64) -> Self {
        Self::Int(i)
    }
}

impl From<f64> for Number {
    fn from(f: f64) -> Self {
        Self::Float(f)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    /// Numeric order, exact between integers and doubles. NaN is below every number and equal to
    /// itself; the two zeros are equal.
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => compare_floats(a, b),
            (Self::Int(a), Self::Float(b)) => compare_int_float(a, b),
            (Self::Float(a), Self::Int(b)) => compare_int_float(b, a).reverse(),
        }
    }
}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if let Some(i) = self.as_i64() {
            i.hash(state);
            return;
        }
        let f = self.as_f64();
        let canonical = if f.is_nan() { f64::NAN } else { f };
        canonical.to_bits().hash(state);
    }
}

fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn compare_int_float(int: i64, float: f64) -> Ordering {
    if float.is_nan() {
        return Ordering::Greater;
    }
    if float >= TWO_63 {
        return Ordering::Less;
    }
    if float < -TWO_63 {
        return Ordering::Greater;
    }
    let whole = float.trunc();
    int.cmp(&(whole as i64)).then_with(|| {
        let fraction = float - whole;
        0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)
    })
}

impl fmt::Display for Number {
    /// Integral doubles print without fraction, others as the shortest text that reads back the
    /// same; the non-finite ones as `NaN`, `Infinity` and `-Infinity`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Int(i) => f.write_str(itoa::Buffer::new().format(i)),
            Self::Float(x) => f.write_str(ryu_js::Buffer::new().format(x)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_compare_exactly() {
        let big = 9_007_199_254_740_993_i64; // 2^53 + 1 has no double
        assert!(Number::Int(big) > Number::Float(9_007_199_254_740_992.0));
        assert!(Number::Int(i64::MAX) < Number::Float(TWO_63));
        assert_eq!(Number::Int(1), Number::Float(1.0));
        assert!(Number::Int(-1) > Number::Float(-1.5));
        assert!(Number::Int(1) < Number::Float(1.5));
        assert!(Number::Float(f64::NAN) < Number::Float(f64::NEG_INFINITY));
        assert_eq!(Number::Float(f64::NAN), Number::Float(f64::NAN));
    }

    #[test]
    fn numbers_print_as_json_writers_of_the_sdks_do() {
        let check = |n: Number, text: &str| assert_eq!(n.to_string(), text);
        check(Number::Float(1.0), "1");
        check(Number::Float(0.1 + 0.2), "0.30000000000000004");
        check(Number::Float(-0.0), "0");
        check(Number::Float(1e300), "1e+300");
        check(Number::Int(i64::MIN), "-9223372036854775808");
        check(Number::Float(f64::NEG_INFINITY), "-Infinity");
    }
}
