//! Integration tests of the query language through its public interface.

mod bounds;
mod compat;
mod golden;
mod golden_planner;
mod memory;
mod one_of;
mod pages;
mod peak;
mod plan_corpus;
mod plan_text;
mod prop;
mod rules;
