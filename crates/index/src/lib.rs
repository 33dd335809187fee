//! What is indexed and how: the policies of a container, parsed and checked, and the terms that each write of
//! an item puts and deletes in the item's own commit. [`IndexState`] says which paths a planner may use;
//! [`Dictionary`] assigns the path ids of the terms; `postings` and `range` read the terms, by row or by
//! value.

pub mod composite;
pub mod dictionary;
pub mod full_text;
pub mod maintain;
pub mod path;
pub mod path_tree;
pub mod policy;
pub mod postings;
pub mod range;
pub mod read_error;
pub mod rules;
pub mod shapes;
pub mod state;
pub mod stats;
pub mod stored_ids;
pub mod stored_numbers;
pub mod terms;
pub mod value_range;
pub mod vector;

pub use composite::CompositeIndex;
pub use dictionary::{Dictionary, DictionaryShard, PendingPathIds};
pub use full_text::FullTextPolicy;
pub use maintain::TermCount;
pub use path::{IndexPath, IndexStep};
pub use policy::{CompositePath, IndexingMode, IndexingPolicy, PolicyError};
pub use read_error::ReadError;
pub use rules::IndexRules;
pub use state::IndexState;
pub use terms::{IndexedItem, Terms};
pub use value_range::ValueRange;
pub use vector::{VectorEmbeddingPolicy, VectorIndex};
