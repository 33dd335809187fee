//! The vocabulary every other crate shares: values, numbers and their sums, paths, partition keys,
//! ids, limits, time, budgets, cancellation and the domain error. Nothing here does I/O and nothing here uses another crate
//! of ours.

pub mod budget;
pub mod calendar;
pub mod cancellation;
pub mod clock;
pub mod effective_key;
pub mod error;
pub mod exact_sum;
pub mod ids;
pub mod json;
pub mod limits;
pub mod number;
pub mod partition_key;
pub mod path;
pub mod stopwatch;
pub mod thread_slot;
pub mod value;

pub use budget::{BudgetLimits, Exceeded, ExecutionBudget, MemoryPool, Reservation};
pub use cancellation::{CancelOnDrop, CancellationToken};
pub use clock::{Clock, ManualClock, SystemClock};
pub use effective_key::{EffectiveKey, KeyRange};
pub use error::{Error, Result, RoleDenial, ScriptFailure, TokenFault};
pub use exact_sum::{DoubleSum, ExactSum};
pub use ids::{Epoch, Etag, Lsn, ShardId};
pub use json::JsonError;
pub use number::Number;
pub use partition_key::{KeyComponent, PartitionKey, PartitionKeyDef, PartitionKeyKind};
pub use path::PropertyPath;
pub use value::{Object, Value};
