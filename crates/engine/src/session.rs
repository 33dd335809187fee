//! Session tokens: per physical partition, the LSN a client has seen. One node has one history, so
//! a token is only ever behind, or from the future.

use orrery_types::{Error, Lsn, Result};

use crate::partition::PhysicalPartition;
use crate::storage_error::storage;
use crate::{Container, Engine};

/// The version part of every token. All tokens of a container must carry the same, or clients
/// refuse to merge them.
const VERSION: &str = "-1";

impl Engine {
    /// The last LSN of a partition.
    pub(crate) fn shard_lsn(&self, partition: &PhysicalPartition) -> Result<Lsn> {
        let lsn = self.store.watch(partition.shard, Lsn(u64::MAX), 0);
        lsn.map_err(storage)
    }

    /// The token for everything that the container shows now.
    pub fn session_token(&self, container: &Container) -> Result<String> {
        let mut tokens = Vec::with_capacity(container.partitions.len());
        for partition in &container.partitions {
            tokens.push(token(partition.id, self.shard_lsn(partition)?));
        }
        Ok(tokens.join(","))
    }

    /// Refuses to read when the client has seen more than this server has. Tokens of partitions
    /// that are not there are of no concern: clients send all they know.
    pub fn check_session(&self, container: &Container, tokens: &str) -> Result<()> {
        for token in tokens.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            let (range, lsn) = parse(token)?;
            let Some(partition) = container.partitions.iter().find(|p| p.id == range) else {
                continue;
            };
            if lsn > self.shard_lsn(partition)? {
                return Err(Error::SessionNotAvailable);
            }
        }
        Ok(())
    }
}

/// One partition's token.
pub fn token(partition: u32, lsn: Lsn) -> String {
    format!("{partition}:{VERSION}#{}", lsn.0)
}

/// `range:version#lsn`, with regions behind it or without, or the old `range:lsn`.
fn parse(token: &str) -> Result<(u32, Lsn)> {
    let malformed = || Error::invalid(format!("The session token '{token}' is invalid."));
    let (range, vector) = token.split_once(':').ok_or_else(malformed)?;
    let range = range.parse().map_err(|_| malformed())?;
    let mut parts = vector.split('#');
    let first = parts.next().ok_or_else(malformed)?;
    let lsn = parts.next().unwrap_or(first);
    let lsn: i64 = lsn.parse().map_err(|_| malformed())?;
    Ok((range, Lsn(u64::try_from(lsn).unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_every_form_are_read() {
        assert_eq!(parse("0:-1#12"), Ok((0, Lsn(12))));
        assert_eq!(parse("3:1#12#0=11"), Ok((3, Lsn(12))));
        assert_eq!(parse("0:12"), Ok((0, Lsn(12))));
        assert_eq!(parse(&token(7, Lsn(5))), Ok((7, Lsn(5))));
        for bad in ["", "0", "x:1", "0:", "0:-1#", "0:-1#x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
