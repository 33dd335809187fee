//! Throughput: what requests cost, and who has used up what they may spend. The settings themselves are
//! resources of the catalog (`catalog/offer`).

pub mod charge;
pub mod throttle;

pub use crate::catalog::offer::{Migration, Throughput, ThroughputRequest};
