//! What is indexed and how. For now: the indexing policy, read, validated and echoed.

pub mod code;
pub mod full_text;
pub mod path;
pub mod policy;
pub mod postings;
pub mod range;
pub mod span;
pub mod vector;

pub use full_text::FullTextPolicy;
pub use path::{IndexPath, IndexStep};
pub use policy::{IndexingMode, IndexingPolicy, PolicyError};
pub use vector::{VectorEmbeddingPolicy, VectorIndex};
