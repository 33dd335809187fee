//! Distance of vectors, computed exactly.

use orrery_types::Value;

use super::Function;

/// The binder resolves the metric from the container's policy and the options.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("VectorDistance", 2, |_, _| None).up_to(4).of_the_place(),
    Function::new("_VectorScore", 2, |_, _| None).up_to(4).of_the_place(),
];

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The cosine of their angle; greater is nearer.
    Cosine,
    /// Their scalar product; greater is nearer.
    DotProduct,
    /// The length of their difference; smaller is nearer.
    Euclidean,
}

impl Metric {
    /// The metric as policies and options name it.
    pub fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "cosine" => Some(Self::Cosine),
            "dotproduct" => Some(Self::DotProduct),
            "euclidean" => Some(Self::Euclidean),
            _ => None,
        }
    }

    /// Whether the greater of two scores is the better one.
    pub(crate) fn greater_is_nearer(self) -> bool {
        self != Self::Euclidean
    }

    /// The score of two arrays of numbers of the same length; undefined for anything else.
    pub(crate) fn score(self, a: &Value, b: &Value) -> Option<Value> {
        let (a, b) = (a.as_array()?, b.as_array()?);
        if a.len() != b.len() || a.is_empty() {
            return None;
        }
        let (mut dot, mut a_squares, mut b_squares, mut differences) = (0.0, 0.0, 0.0, 0.0);
        for (x, y) in a.iter().zip(b) {
            let (x, y) = (x.as_number()?.as_f64(), y.as_number()?.as_f64());
            dot += x * y;
            a_squares += x * x;
            b_squares += y * y;
            differences += (x - y) * (x - y);
        }
        let score = match self {
            Self::Cosine => dot / length_product(a_squares, b_squares),
            Self::DotProduct => dot,
            Self::Euclidean => f64::sqrt(differences),
        };
        // The zero vector has no direction.
        score.is_finite().then(|| score.into())
    }
}

/// The product of two lengths of which the squares are given. One root is what the service takes: it
/// differs from two in the last digit.
fn length_product(a_squares: f64, b_squares: f64) -> f64 {
    let product = a_squares * b_squares;
    if product.is_normal() {
        f64::sqrt(product)
    } else {
        // Lengths may be within the numbers where the product of their squares is not.
        f64::sqrt(a_squares) * f64::sqrt(b_squares)
    }
}
