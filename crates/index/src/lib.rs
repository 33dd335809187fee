//! What is indexed and how: the policies of a container, read and checked, and the terms that each
//! write of an item puts and deletes in the item's own commit. [`IndexState`] tells a planner which
//! paths it may rely on; [`Dictionary`] gives the numbers under which their terms stand; `postings`
//! and `range` read them back, by row or by value.

pub mod composite;
pub mod dictionary;
pub mod full_text;
pub mod maintain;
pub mod numbers;
pub mod path;
pub mod path_tree;
pub mod policy;
pub mod postings;
pub mod range;
pub mod rules;
pub mod shapes;
pub mod span;
pub mod state;
pub mod stats;
pub mod stored_ids;
pub mod term_count;
pub mod terms;
pub mod vector;

pub use composite::CompositeIndex;
pub use dictionary::{Carried, Dictionary, Home};
pub use full_text::FullTextPolicy;
pub use path::{IndexPath, IndexStep};
pub use policy::{CompositePath, IndexingMode, IndexingPolicy, PolicyError};
pub use rules::Rules;
pub use span::Span;
pub use state::IndexState;
pub use term_count::TermCount;
pub use terms::{IndexedItem, Terms};
pub use vector::{VectorEmbeddingPolicy, VectorIndex};
