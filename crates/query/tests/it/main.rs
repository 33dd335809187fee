//! Integration tests of the query language through its public interface.

mod bounds;
mod compat;
mod golden;
mod memory;
mod pages;
mod prop;
mod rules;
