//! Scripts against a host that keeps its items in a map.

mod api;
mod bad;
mod bodies;
mod host;
mod query;
mod trigger;
mod udf;
