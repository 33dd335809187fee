//! The model of a database: what its items are, how they refer to each other, and which of their
//! properties follow from others. Everything here is pure: a model and images of items go in, checks
//! and values come out. The engine reads and writes; it gives this crate the expressions of the query
//! language through [`Expressions`] and what it must know of containers through [`Containers`].
//!
//! 1. [`Model::parse`] reads the JSON of `PUT /dbs/{db}/_model` (`document`).
//! 2. [`Rules::compile`] checks it against the database and makes it ready (`rules`, `ownership`,
//!    `cycles`).
//! 3. For every write the engine asks the rules for types, references, copies and aggregates.
//!
//! [`advisor`] goes the other way: from items to a model that would suit them. [`diagram`] draws both.

pub mod advisor;
mod bucket;
mod bucket_schema;
mod cycles;
pub mod diagram;
mod document;
mod error;
mod expression;
mod navigation;
mod ownership;
pub mod patch;
mod path;
mod reader;
pub mod reference;
mod rules;
mod schema;
mod schema_cost;
mod tally;

pub use bucket::{BUCKET_MARKER, BucketRule, Marker};
pub use document::{
    Action, Aggregate, AggregateKind, Bucket, ClientWrites, Inverse, ItemType, Level, Model,
    OnDelete, OnMissing, OnOverflow, Propagate, Relation, SizeLimits, Validation,
};
pub use error::ModelError;
pub use expression::{Containers, Expression, Expressions, PathRead};
pub use path::{ElementPath, ModelPath, ModelStep};
pub use rules::{AggregateRule, AggregateSource, RelationRule, Rules, TypeRule};
pub use schema::{Complaint, Schema};
pub use tally::Tally;
