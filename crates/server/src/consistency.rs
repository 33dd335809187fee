//! The five consistency levels. One node has one history, so every read is as fresh as the strongest
//! of them asks for; what is left is the rule that a request may weaken the account's level and not
//! strengthen it.

use std::fmt;

use orrery_types::{Error, Result};
use serde::Deserialize;

/// A level, the weakest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum ConsistencyLevel {
    Eventual,
    ConsistentPrefix,
    #[default]
    Session,
    BoundedStaleness,
    Strong,
}

impl ConsistencyLevel {
    const ALL: [Self; 5] = [
        Self::Eventual,
        Self::ConsistentPrefix,
        Self::Session,
        Self::BoundedStaleness,
        Self::Strong,
    ];

    /// The level with this number, as Direct mode has it: the strongest is zero.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Strong),
            1 => Some(Self::BoundedStaleness),
            2 => Some(Self::Session),
            3 => Some(Self::Eventual),
            4 => Some(Self::ConsistentPrefix),
            _ => None,
        }
    }

    /// The level of a request to an account with this level, whether it names one or not.
    pub(crate) fn admit(self, header: Option<&str>) -> Result<Self> {
        let Some(text) = header else { return Ok(self) };
        let known = Self::ALL.into_iter().find(|l| l.to_string().eq_ignore_ascii_case(text));
        let level = known
            .ok_or_else(|| Error::invalid(format!("The consistency level '{text}' is unknown.")))?;
        if level > self {
            return Err(Error::invalid(format!(
                "ConsistencyLevel {level} specified in the request is invalid when the service is \
                 configured with consistency level {self}. Ensure the request consistency level is \
                 not stronger than the service consistency level."
            )));
        }
        Ok(level)
    }

    /// Whether a read of this level asks two replicas at the original, and costs twice as much.
    pub(crate) fn doubles_reads(self) -> bool {
        self >= Self::BoundedStaleness
    }
}

impl fmt::Display for ConsistencyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_a_number_in_direct_mode() {
        let mut levels: Vec<_> = (0..=5).filter_map(ConsistencyLevel::from_code).collect();
        levels.sort_unstable();
        assert_eq!(levels, ConsistencyLevel::ALL);
        assert_eq!(ConsistencyLevel::from_code(0), Some(ConsistencyLevel::Strong));
    }

    #[test]
    fn a_request_may_weaken_the_account_and_not_strengthen_it() {
        for account in ConsistencyLevel::ALL {
            assert_eq!(account.admit(None), Ok(account));
            for asked in ConsistencyLevel::ALL {
                let text = asked.to_string().to_lowercase();
                let level = account.admit(Some(&text)).ok();
                assert_eq!(level, Some(asked).filter(|asked| *asked <= account), "{asked}");
            }
            assert!(account.admit(Some("Stronger")).is_err());
        }
    }
}
