//! `GET /addresses`: where clients in Direct mode find the replicas of a partition. The answer comes from
//! the catalog in memory, and every address is the one that the client used for this request, so that
//! mapped ports and names of containers work and the certificate fits.

use http::StatusCode;
use orrery_types::{Error, Result};
use serde_json::{Value, json};

use crate::call::Call;
use crate::direct::replica::{self, MASTER_RANGE};
use crate::service::Scheme;
use crate::wire::link::{AddressesOf, Target};
use crate::wire::reply::Reply;

/// The refusal of a server without Direct mode. A 404 would be worse: clients take it for a partition
/// that has moved, and ask again without end.
pub(crate) fn gateway_only() -> Error {
    Error::invalid(
        "This server speaks Gateway mode only. Set ConnectionMode.Gateway (.NET: \
         CosmosClientOptions.ConnectionMode; Java: CosmosClientBuilder.gatewayMode()).",
    )
}

pub(crate) fn list(call: &Call) -> Result<Reply> {
    let Target::Addresses(of) = &call.link.target else { return Err(Error::MethodNotAllowed) };
    let authority = authority(call)?;
    let addresses = match of {
        AddressesOf::Master => addresses_of(&authority, None, MASTER_RANGE),
        AddressesOf::Container(at, ids) => {
            let container = call.container(at)?;
            let ranges = ranges(container.range_ids(), ids)?;
            let rid = Some(container.rid_text());
            ranges.iter().flat_map(|range| addresses_of(&authority, rid, range)).collect()
        }
    };
    let body = json!({ "_rid": "", "_count": addresses.len(), "Addresss": addresses });
    Ok(Reply::json(StatusCode::OK, body.to_string()))
}

/// The requested ranges, or all of them. A range that no longer exists is an error by which the client
/// learns that its list of ranges is outdated.
fn ranges(online: impl Iterator<Item = u32>, asked: &str) -> Result<Vec<String>> {
    let online: Vec<String> = online.map(|id| id.to_string()).collect();
    if asked.is_empty() {
        return Ok(online);
    }
    let asked = asked.split(',').map(str::trim).filter(|id| !id.is_empty());
    let known = |id: &str| online.iter().any(|range| range == id);
    asked.map(|id| known(id).then(|| id.to_owned()).ok_or(Error::PartitionGone)).collect()
}

/// The names of the members are those that clients expect, misspelt as they are.
fn addresses_of(authority: &str, container: Option<&str>, range: &str) -> Vec<Value> {
    let address = |(path, is_primary): (String, bool)| {
        json!({
            "isPrimary": is_primary,
            "protocol": "rntbd",
            "physcialUri": format!("rntbd://{authority}{path}"),
            "partitionKeyRangeId": range,
            "partitionIndex": format!("{range}@0"),
        })
    };
    replica::paths(container, range).map(address).collect()
}

/// The host and port of the endpoint, which clients need both.
fn authority(call: &Call) -> Result<String> {
    let endpoint = super::account::endpoint(call)?;
    let uri: http::Uri = endpoint.parse().map_err(|_| {
        Error::invalid("The request names no host that can be an address: send the header Host.")
    })?;
    let authority = uri
        .authority()
        .ok_or_else(|| Error::invalid("The request names no host: send the header Host."))?;
    let is_plain = uri.scheme_str() == Some(Scheme::Http.as_str());
    let port = authority.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    Ok(format!("{}:{port}", authority.host()))
}
