//! What the database tells about itself: advice on models, notes on requests, sizes, and whether everything
//! that is derived agrees with its items.

pub mod advice;
pub mod usage;
pub mod verify;
pub(crate) mod workload;

use crate::Engine;

/// What is known about the data: advice, usage, verification.
#[derive(Clone, Copy)]
pub struct Insight<'e> {
    pub(crate) engine: &'e Engine,
}
