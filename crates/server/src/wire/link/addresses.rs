//! The link of `/addresses`: the query names the resource whose addresses a client in Direct mode requests.
//!
//! ```text
//! /addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd
//! //addresses/?$resolveFor=dbs%2f{db}%2fcolls%2f{container}%2fdocs&$filter=…&$partitionKeyRangeIds=0,1
//! ```
//!
//! The .NET SDK writes two slashes before the word. Type and link that are signed are those of what is
//! resolved.

use orrery_types::{Error, Result};

use super::{ContainerAddress, ResourceLink, Target, decode};

/// How the path begins.
pub(super) const WORD: &str = "addresses";
const RESOLVE_FOR: &str = "$resolveFor";
const RANGE_IDS: &str = "$partitionKeyRangeIds";

/// What addresses are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressesOf {
    /// Of everything but what is in containers.
    Master,
    /// Of ranges of a container: their ids with commas between, or nothing for all.
    Container(ContainerAddress, String),
}

impl ResourceLink {
    pub(super) fn of_addresses(path_and_query: &str) -> Result<Self> {
        let query = path_and_query.split_once('?').map_or("", |(_, query)| query);
        let (mut resolved, mut ids) = (None, String::new());
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match &*decode(name)? {
                RESOLVE_FOR => resolved = Some(decode(value)?),
                RANGE_IDS => ids = decode(value)?.into_owned(),
                _ => {}
            }
        }
        let missing = "The query must name what to resolve: $resolveFor=dbs, for instance.";
        let resolved = resolved.ok_or_else(|| Error::invalid(missing))?;
        let segments: Vec<&str> = resolved.split('/').filter(|part| !part.is_empty()).collect();
        let link = Self::of(&segments, None)?;
        let of = match link.target.container() {
            Some(at) => AddressesOf::Container(at.clone(), ids),
            None => AddressesOf::Master,
        };
        Ok(Self { target: Target::Addresses(of), ..link })
    }
}
