//! The index as the engine calls it.

mod dictionary;
mod prop;
mod shapes;
