//! The query language: text in, rows out. No I/O, no clock, no HTTP: items come from an
//! [`ItemSource`], the time and user-defined functions from an [`EvalContext`].
//!
//! The life of a query:
//!
//! 1. [`Query::parse`] turns text into the syntax tree of `ast` (`lexer`, `parser`).
//! 2. [`Query::bind`] resolves aliases, parameters and functions against [`ContainerFacts`] and
//!    checks every static rule; constants are folded on the way (`bind`, `rewrite`).
//! 3. [`execute`] pulls items through FROM, WHERE and a collector and returns one [`Page`] with a
//!    continuation (`exec`, `eval`, `functions`).
//!
//! Everything fails with [`QueryError`], which renders itself as the service does.

mod advice;
mod analysis;
pub mod ast;
mod bind;
mod bound;
mod computed;
mod display;
mod error;
mod eval;
mod exec;
mod facts;
pub mod functions;
mod gateway;
mod lexer;
mod memory;
mod parser;
mod plain_projection;
pub mod plan;
mod query;
mod relation;
mod required_members;
mod rewrite;
mod root_paths;
mod shape;
mod sort_value;

pub use analysis::QueryShape;
pub use computed::ComputedProperty;
pub use error::{Diagnostic, QueryError};
pub use eval::{EvalContext, UdfHost};
pub use exec::{
    AnyOrder, ItemSource, ItemsLeft, KeptItems, Page, PageLimits, Resume, ResumeFilter, Row, Run,
    SeekPosition, SourceItem, answer_aggregates, answer_rows, execute,
};
pub use facts::IndexedOrder;
pub use facts::{ContainerFacts, Geospatial, OrderKey, OrderSupport, VectorPath};
pub use functions::vector::Metric;
pub use gateway::{PlanTarget, query_plan};
pub use plain_projection::PlainProjection;
pub use query::{BoundQuery, Query};
pub use relation::{Followed, HolderStep, Navigation, RelationHost, Relations, SemiJoin};
pub use required_members::RequiredMembers;
pub use sort_value::SortValue;
