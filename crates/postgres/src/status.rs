//! What a store looks like to its operator, whether a node runs on it or not.

use orrery_storage::Head;
use orrery_types::ShardId;
use postgres::Row;

use crate::connection::ServerConnection;
use crate::heads::{head_of, shard_id};
use crate::node_session::{CONNECTIONS, NODES};
use crate::schema::{self, PostgresOpenError, ServerFacts};
use crate::store::{ALL_HEADS, PostgresOptions};

/// The session of a node that uses the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct NodeOfStore {
    pub pid: i32,
    pub application: String,
    /// None for a connection by a socket.
    pub host: Option<String>,
    /// When it began, in UTC.
    pub since: String,
}

/// A store as it is now.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct StoreStatus {
    pub place: String,
    pub server_version: String,
    pub is_standby: bool,
    pub is_encrypted: bool,
    pub fsync: String,
    pub full_page_writes: String,
    pub synchronous_commit: String,
    /// Standbys that a commit waits for; empty if it waits for none.
    pub synchronous_standbys: String,
    /// The version of the tables, and the one that this release needs.
    pub version: i32,
    pub version_needed: i32,
    /// The nodes that use it.
    pub nodes: Vec<NodeOfStore>,
    /// Connections that nodes may open, and those that the server has for everybody.
    pub connections_declared: i64,
    pub connections_available: i64,
    pub heads: Vec<(ShardId, Head)>,
    pub size_bytes: i64,
    /// Why a node could not run on it, if it could not.
    pub problem: Option<String>,
}

const SIZES: &str = "SELECT \
    pg_total_relation_size('kv') + pg_total_relation_size('head') + pg_total_relation_size('log'), \
    current_setting('synchronous_standby_names'), \
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)";

/// Looks at a store. It is an error if there is none.
pub fn status(address: &str, options: &PostgresOptions) -> Result<StoreStatus, PostgresOpenError> {
    let (address, connector) = schema::connector(address, options)?;
    let mut connection = connector.connect().map_err(schema::connect)?;
    let facts = ServerFacts::read(&mut connection)?;
    let version = schema::read_version(&mut connection, &facts, &options.schema)?;
    let nodes = connection.query(NODES, &[]).map_err(schema::statement)?;
    let nodes = nodes.iter().map(|row| NodeOfStore {
        pid: row.get(0),
        application: row.get(1),
        host: row.get(2),
        since: row.get(3),
    });
    let none = || PostgresOpenError::Statement("the server says nothing of its tables".into());
    let sizes = one(&mut connection, SIZES)?.ok_or_else(none)?;
    let connections = one(&mut connection, CONNECTIONS)?.ok_or_else(none)?;
    // Older tables have other columns.
    let heads = if version == schema::VERSION {
        connection.query(ALL_HEADS, &[]).map_err(schema::statement)?
    } else {
        vec![]
    };
    let heads = heads.iter().map(|row| (shard_id(row, 0), head_of(row, 1))).collect();
    let problem = schema::check(&connector, options).err().map(|error| error.to_string());
    Ok(StoreStatus {
        place: format!("{address}, schema {}", options.schema),
        server_version: facts.version,
        is_standby: facts.is_standby,
        is_encrypted: sizes.get(2),
        fsync: facts.fsync,
        full_page_writes: facts.full_page_writes,
        synchronous_commit: facts.synchronous_commit,
        synchronous_standbys: sizes.get(1),
        version,
        version_needed: schema::VERSION,
        nodes: nodes.collect(),
        connections_declared: connections.get(1),
        connections_available: connections.get(0),
        heads,
        size_bytes: sizes.get(0),
        problem,
    })
}

fn one(
    connection: &mut ServerConnection,
    text: &'static str,
) -> Result<Option<Row>, PostgresOpenError> {
    Ok(connection.query(text, &[]).map_err(schema::statement)?.into_iter().next())
}
