//! Scripts that run out of time again and again are blocked for a while, as the service blocks them: each
//! attempt would hold a thread, and a logical partition, for all of its time. A new version of the script
//! begins anew.

use orrery_types::{Etag, limits};
use quick_cache::sync::Cache;

use crate::compiled::Script;
use crate::deadline::Deadline;
use crate::error::ScriptError;

/// The versions of scripts whose last call ran out of time.
pub(crate) struct Overruns {
    by_version: Cache<Etag, Overrun>,
}

#[derive(Clone, Copy)]
struct Overrun {
    /// Calls in a row.
    count: u32,
    /// For how long it counts.
    until: Deadline,
}

impl Default for Overruns {
    fn default() -> Self {
        Self { by_version: Cache::new(limits::SCRIPT_OVERRUNS_KEPT) }
    }
}

impl Overruns {
    /// Runs a script unless it is blocked, and notes how it went.
    pub(crate) fn watch<T>(
        &self,
        script: &Script<'_>,
        run: impl FnOnce() -> Result<T, ScriptError>,
    ) -> Result<T, ScriptError> {
        let before = self.by_version.get(&script.version).filter(|o| !o.until.is_over());
        if before.is_some_and(|o| o.count >= limits::SCRIPT_OVERRUNS_MAX) {
            return Err(ScriptError::Blocked(script.name.into()));
        }
        let result = run();
        if matches!(result, Err(ScriptError::Timeout(_))) {
            let count = before.map_or(0, |o| o.count) + 1;
            let until = Deadline::after_ms(limits::SCRIPT_BLOCKED_MS);
            self.by_version.insert(script.version, Overrun { count, until });
        } else if before.is_some() {
            self.by_version.remove(&script.version);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(stamp: u64) -> Script<'static> {
        Script { name: "s", body: "", version: Etag { node: 1, stamp } }
    }

    #[test]
    fn a_script_that_runs_out_of_time_again_and_again_is_blocked_until_it_is_replaced() {
        let overruns = Overruns::default();
        let late = || Err::<(), _>(ScriptError::Timeout(5));
        for _ in 1..limits::SCRIPT_OVERRUNS_MAX {
            assert_eq!(overruns.watch(&script(1), late), late());
        }
        // A call that ends in time, well or not, begins the count anew.
        assert_eq!(overruns.watch(&script(1), || Ok(())), Ok(()));
        for _ in 0..limits::SCRIPT_OVERRUNS_MAX {
            assert_eq!(overruns.watch(&script(1), late), late());
        }
        let blocked = overruns.watch(&script(1), || -> Result<(), _> { panic!("it ran") });
        assert_eq!(blocked, Err(ScriptError::Blocked("s".into())));
        assert_eq!(overruns.watch(&script(2), || Ok(())), Ok(()));
    }
}
