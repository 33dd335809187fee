//! `GET /`: the properties of the account, which SDKs read first, above all its endpoints. The endpoint
//! is the one that the request used, so that container names and mapped ports work.

use http::StatusCode;
use orrery_types::{Error, Result};
use serde_json::json;

use crate::call::Call;
use crate::direct::replica::REPLICAS;
use crate::wire::reply::Reply;

/// SDKs cache and route by an account's id, unless it is `localhost`.
pub(super) const ID: &str = "orrery";
/// The one region. Some SDKs know no region by another name.
const REGION: &str = "South Central US";

/// Replicas of the service, which clients in Gateway mode never meet.
const REPLICAS_GATEWAY: u32 = 4;

pub(crate) fn read(call: &Call) -> Result<Reply> {
    let endpoint = endpoint(call)?;
    let location = json!([{ "name": REGION, "databaseAccountEndpoint": endpoint }]);
    // Clients in Direct mode expect as many addresses of a partition.
    let replicas = if call.shared.is_direct { REPLICAS } else { REPLICAS_GATEWAY };
    let body = json!({
        "_self": "",
        "id": ID,
        "_rid": format!("{ID}.documents.azure.com"),
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": location,
        "readableLocations": location,
        "enableMultipleWriteLocations": false,
        "continuousBackupEnabled": false,
        "enableNRegionSynchronousCommit": false,
        "enablePerPartitionFailoverBehavior": false,
        "userReplicationPolicy":
            { "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": replicas },
        "userConsistencyPolicy": { "defaultConsistencyLevel": call.shared.consistency.to_string() },
        "systemReplicationPolicy": { "minReplicaSetSize": 1, "maxReplicasetSize": replicas },
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": query_engine_configuration(),
    });
    Ok(Reply::json(StatusCode::OK, body.to_string()))
}

/// Where the client is to send its requests.
pub(super) fn endpoint(call: &Call) -> Result<String> {
    if let Some(endpoint) = &call.shared.endpoint {
        return Ok(endpoint.clone());
    }
    let authority = call.request.host().filter(|a| !a.is_empty());
    let authority = authority
        .ok_or_else(|| Error::invalid("The request names no host: send the header Host."))?;
    Ok(format!("{}://{authority}/", call.request.scheme.as_str()))
}

/// A JSON object inside a string; the .NET SDK refuses to query when it is missing or empty.
fn query_engine_configuration() -> String {
    json!({
        "maxSqlQueryInputLength": 262_144,
        "maxJoinsPerSqlQuery": 10,
        "maxLogicalAndPerSqlQuery": 2_147_483_647,
        "maxLogicalOrPerSqlQuery": 2_147_483_647,
        "maxUdfRefPerSqlQuery": 10,
        "maxInExpressionItemsCount": 2_147_483_647,
        "queryMaxInMemorySortDocumentCount": 500,
        "maxQueryRequestTimeoutFraction": 0.9,
        "sqlAllowNonFiniteNumbers": false,
        "sqlAllowAggregateFunctions": true,
        "sqlAllowSubQuery": true,
        "sqlAllowScalarSubQuery": true,
        "allowNewKeywords": true,
        "sqlAllowLike": true,
        "sqlAllowGroupByClause": true,
        "maxSpatialQueryCells": 12,
        "spatialMaxGeometryPointCount": 256,
        "sqlAllowTop": true,
        "queryEnableFullText": true,
        "enableSpatialIndexing": true,
        "queryEnableFullText": true,
    })
    .to_string()
}
