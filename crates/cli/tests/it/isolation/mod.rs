//! The isolation of transactions within a logical partition.

mod checker;
mod history;
mod planted;
