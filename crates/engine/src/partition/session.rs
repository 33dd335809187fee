//! Session tokens: per physical partition, the LSN a client has seen. One node has one history, so
//! a token is only ever behind, or from the future.
//!
//! ```text
//! <partition>:<number of the container>#<LSN>
//! ```
//! Clients call the middle part the version: of two tokens the one with the higher version counts.
//! The number of the container makes it so that a token of a deleted container never stands in the
//! way of one that was made later under the same name.

use orrery_types::{Error, Lsn, Result};

use crate::catalog::SYSTEM_SHARD;
use crate::error::storage;
use crate::item::read::CommitPosition;
use crate::partition::PhysicalPartition;
use crate::partition::scope::ScopeRequest;
use crate::{Container, Engine};

/// Session tokens, and how far shards have come.
#[derive(Clone, Copy)]
pub struct Sessions<'e> {
    pub(crate) engine: &'e Engine,
}

impl Sessions<'_> {
    /// The last LSN of a partition.
    pub(crate) fn shard_lsn(self, partition: &PhysicalPartition) -> Result<Lsn> {
        self.engine.store.lsn(partition.shard).map_err(storage)
    }

    /// The partition that a request addresses, as it is now; `None` if that is not exactly one, or
    /// nobody can tell. Clients take the session token of a refusal for that of one partition.
    pub fn addressed(self, container: &Container, part: &ScopeRequest) -> Option<CommitPosition> {
        let place = self.engine.epochs().retry_on_gone_shard(container, &mut |now| {
            if let [only] = &now.partitions[..] {
                return self.engine.transactions().place_now(only).map(Some);
            }
            let Some(range) = now.scope(part)?.range else { return Ok(None) };
            let mut held = now.partitions.iter().filter(|p| p.range.intersect(&range).is_some());
            match (held.next(), held.next()) {
                (Some(one), None) => self.engine.transactions().place_now(one).map(Some),
                _ => Ok(None),
            }
        });
        place.ok().flatten()
    }

    /// The last LSN of everything that is no item: databases, containers and what is beside them.
    pub fn catalog_lsn(self) -> Result<Lsn> {
        self.engine.store.lsn(SYSTEM_SHARD).map_err(storage)
    }

    /// Refuses to read when the client has seen more than this server has. A token of a partition that
    /// was split or merged holds for those that took its place; one of a partition that never was is
    /// of no concern: clients send all they know.
    pub fn check(self, container: &Container, tokens: &str) -> Result<()> {
        self.engine.epochs().retry_on_gone_shard(container, &mut |now| self.check_of(now, tokens))
    }

    /// Refuses what is no session token. A write needs nothing of what its client has seen, but clients
    /// send their session with it.
    pub fn check_form(tokens: &str) -> Result<()> {
        parts(tokens).try_for_each(|token| parse(token).map(drop))
    }

    fn check_of(self, container: &Container, tokens: &str) -> Result<()> {
        for token in parts(tokens) {
            let Token { partition: range, version, lsn } = parse(token)?;
            // A version that is not a container's number comes from elsewhere and is compared.
            if version > 0 && version != i64::from(container.number) {
                continue;
            }
            if lsn > self.reached(container, range, lsn)?.unwrap_or(Lsn(u64::MAX)) {
                return Err(Error::SessionNotAvailable);
            }
        }
        Ok(())
    }

    /// How far a partition is, at least if it is as far as `least`, or those that took its place, which go on
    /// counting where it ended; `None` if the container never had it.
    fn reached(self, container: &Container, id: u32, least: Lsn) -> Result<Option<Lsn>> {
        let mut reached = None;
        for partition in container.partitions.iter().filter(|p| p.id == id || p.descends_from(id)) {
            let lsn = self.engine.store.lsn_at_least(partition.shard, least).map_err(storage)?;
            reached = reached.max(Some(lsn));
        }
        Ok(reached)
    }
}

impl Container {
    /// The token for what one partition shows at an LSN.
    pub fn session_token(&self, partition: u32, lsn: Lsn) -> SessionToken {
        SessionToken { partition, container: self.number, lsn }
    }

    /// The same as text.
    pub fn token(&self, partition: u32, lsn: Lsn) -> String {
        let mut text = Vec::with_capacity(24);
        self.session_token(partition, lsn).write(&mut text);
        String::from_utf8(text).expect("digits are text")
    }
}

/// What one partition shows at an LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionToken {
    /// Number of the physical partition.
    pub partition: u32,
    /// Number of the container.
    pub container: u32,
    /// The LSN.
    pub lsn: Lsn,
}

impl SessionToken {
    /// Appends the whole token.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self.partition).as_bytes());
        out.push(b':');
        self.write_version(out);
    }

    /// Appends what follows the partition: a client in Direct mode knows which one it has asked.
    pub fn write_version(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self.container).as_bytes());
        out.push(b'#');
        out.extend_from_slice(itoa::Buffer::new().format(self.lsn.0).as_bytes());
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Token {
    partition: u32,
    version: i64,
    lsn: Lsn,
}

/// The tokens of a list.
fn parts(tokens: &str) -> impl Iterator<Item = &str> {
    tokens.split(',').map(str::trim).filter(|token| !token.is_empty())
}

/// `partition:version#lsn`, with regions behind it or without, or the old `partition:lsn`.
fn parse(token: &str) -> Result<Token> {
    let malformed = || Error::invalid(format!("The session token provided '{token}' is invalid."));
    let number = |text: &str| text.parse::<i64>().map_err(|_| malformed());
    let (partition, vector) = token.split_once(':').ok_or_else(malformed)?;
    let partition = partition.parse().map_err(|_| malformed())?;
    let mut parts = vector.split('#');
    let first = number(parts.next().ok_or_else(malformed)?)?;
    let (version, lsn) = match parts.next() {
        Some(lsn) => (first, number(lsn)?),
        None => (-1, first),
    };
    Ok(Token { partition, version, lsn: Lsn(u64::try_from(lsn).unwrap_or(0)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_written_with_its_partition_or_without() {
        let token = SessionToken { partition: 3, container: 7, lsn: Lsn(15) };
        let (mut whole, mut version) = (Vec::new(), Vec::new());
        token.write(&mut whole);
        token.write_version(&mut version);
        assert_eq!((&whole[..], &version[..]), (&b"3:7#15"[..], &b"7#15"[..]));
    }

    #[test]
    fn tokens_of_every_form_are_read() {
        let check = |text: &str, partition, version, lsn| {
            assert_eq!(parse(text), Ok(Token { partition, version, lsn: Lsn(lsn) }), "{text}");
        };
        check("0:-1#12", 0, -1, 12);
        check("3:1#12#0=11", 3, 1, 12);
        check("0:12", 0, -1, 12);
        for bad in ["", "0", "x:1", "0:", "0:-1#", "0:-1#x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
