//! Integration tests of the query language through its public interface.

mod golden;
mod memory;
