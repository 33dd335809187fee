//! Creates the tables of a store, and checks at the start that a server and its tables can be used.

use postgres::{Error, Row};

use crate::address::StoreAddress;
use crate::connection::{Connector, ServerConnection};
use crate::node_session;
use crate::store::PostgresOptions;

/// The version of the tables that this release reads and writes.
pub(crate) const VERSION: i32 = 3;
/// `PostgreSQL` 14.
const SERVER_VERSION_MIN: i32 = 140_000;
const TABLES: &str = include_str!("schema.sql");
const FUNCTIONS: &str = include_str!("functions.sql");

/// Why a store cannot be opened or created.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The address is not one.
    #[error("The address of the store is not valid: {0}")]
    Address(String),
    /// The server cannot be reached, or refuses the connection.
    #[error("Cannot connect to PostgreSQL: {0}")]
    Connect(String),
    /// The server has answered, and lets nobody in: the password, the user or the database is wrong.
    #[error("PostgreSQL refuses the connection: {0}")]
    Refused(String),
    /// A file with the password cannot be used.
    #[error("Cannot read the password of the store in {0}")]
    Password(String),
    /// The certificates that are trusted cannot be used.
    #[error("Cannot verify the certificate of PostgreSQL: {0}")]
    Certificates(String),
    /// The server is too old.
    #[error("PostgreSQL {0} is too old; version 14 or newer is needed.")]
    ServerTooOld(String),
    /// The server only reads.
    #[error(
        "The server is a standby or read-only, and takes no writes. Name the primary, or all hosts."
    )]
    Standby,
    /// The server may lose acknowledged writes.
    #[error(
        "The server runs with {name} = {value} and may lose acknowledged writes. Set it to {needed}."
    )]
    #[expect(missing_docs, reason = "the message says it")]
    Unsafe { name: &'static str, value: String, needed: &'static str },
    /// There are no tables.
    #[error("The database has no store in the schema '{0}'. Create it with: orrery store init")]
    NoStore(String),
    /// Some of the tables or functions are missing.
    #[error(
        "The store in the schema '{schema}' lacks {missing}. Restore a backup of the database."
    )]
    #[expect(missing_docs, reason = "the message says it")]
    Incomplete { schema: String, missing: String },
    /// The tables are of another version.
    #[error(
        "The store has version {found} of its tables; this release needs version {expected}. {}",
        remedy(*found, *expected)
    )]
    #[expect(missing_docs, reason = "the message says it")]
    Version { found: i32, expected: i32 },
    /// There are tables already.
    #[error("The schema '{0}' is in use already.")]
    Exists(String),
    /// The name may have letters, digits and underscores only.
    #[error("'{0}' is no name of a schema: use lower-case letters, digits and underscores.")]
    Name(String),
    /// The tables cannot be changed while a node runs.
    #[error(
        "A node uses the store{0}. Its tables change only while no node runs; stop all of them first. One that is \
         gone without a word gives the store free within a minute."
    )]
    InUse(String),
    /// Somebody changes the tables.
    #[error(
        "The tables of the store are being changed at this time. Try again when that has ended."
    )]
    Changing,
    /// The server has too few connections for one more node.
    #[error(
        "PostgreSQL takes {available} connections. This node may open {own}, and others may open {others}. Raise \
         max_connections, or run fewer nodes."
    )]
    #[expect(missing_docs, reason = "the message says it")]
    TooFewConnections { available: i64, own: usize, others: i64 },
    /// A statement failed.
    #[error("PostgreSQL refused a statement: {0}")]
    Statement(String),
}

fn remedy(found: i32, expected: i32) -> &'static str {
    if found < expected {
        "Change it with: orrery store migrate"
    } else {
        "It was changed by a newer release; use that one."
    }
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
pub(crate) fn statement(error: Error) -> PostgresOpenError {
    let message = error.as_db_error().map(|db| format!("{} ({})", db.message(), db.code().code()));
    PostgresOpenError::Statement(message.unwrap_or_else(|| error.to_string()))
}

/// Why there is no connection; the server's own words if it has answered.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
pub(crate) fn connect(error: Error) -> PostgresOpenError {
    if let Some(db) = error.as_db_error() {
        let message = db.message().to_owned();
        // Wrong password or user, no such database, no right to connect.
        let is_refused = ["28000", "28P01", "3D000", "42501"].contains(&db.code().code());
        return if is_refused {
            PostgresOpenError::Refused(message)
        } else {
            PostgresOpenError::Connect(message)
        };
    }
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let cause = cause.unwrap_or_else(|| error.to_string());
    if cause.contains("does not allow writes") {
        PostgresOpenError::Standby
    } else if cause.contains("password missing") {
        let remedy =
            "it asks for a password; give it with --store-password-file, PGPASSWORD or PGPASSFILE";
        PostgresOpenError::Refused(remedy.into())
    } else {
        PostgresOpenError::Connect(cause)
    }
}

/// The name of a schema is part of statements and session settings.
pub(crate) fn check_name(schema: &str) -> Result<(), PostgresOpenError> {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && schema.len() <= 63 && schema.chars().all(is_fine) {
        Ok(())
    } else {
        Err(PostgresOpenError::Name(schema.to_owned()))
    }
}

/// A connector for a store, after its address and schema are checked.
pub(crate) fn connector(
    address: &str,
    options: &PostgresOptions,
) -> Result<(StoreAddress, Connector), PostgresOpenError> {
    check_name(&options.schema)?;
    let address = StoreAddress::parse(address, options.password_file.as_deref())?;
    let connector = Connector::new(&address, &options.schema)?;
    Ok((address, connector))
}

/// Creates an empty store in a schema that is new or empty.
pub fn init(address: &str, options: &PostgresOptions) -> Result<(), PostgresOpenError> {
    let (_, connector) = connector(address, options)?;
    let schema = &options.schema;
    let mut connection = connector.connect().map_err(connect)?;
    ServerFacts::read(&mut connection)?.check_server()?;
    let used =
        "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace($1::text))";
    let rows = connection.query(used, &[schema]).map_err(statement)?;
    if rows.first().is_some_and(|row| row.get(0)) {
        return Err(PostgresOpenError::Exists(schema.to_owned()));
    }
    let create = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
    let created = connection.transaction(|connection| {
        connection.execute(&create)?;
        connection.execute(TABLES)?;
        connection.execute(FUNCTIONS)
    });
    created.map_err(statement)
}

/// Changes the tables of an older release into those of this one; returns the version that was found. No node may
/// use the store meanwhile.
pub fn migrate(address: &str, options: &PostgresOptions) -> Result<i32, PostgresOpenError> {
    let (_, connector) = connector(address, options)?;
    let mut connection = connector.connect().map_err(connect)?;
    let facts = ServerFacts::read(&mut connection)?;
    facts.check_server()?;
    if read_version(&mut connection, &facts, &options.schema)? == VERSION {
        return Ok(VERSION);
    }
    node_session::lock_alone(&mut connection)?;
    // Another command may have been faster.
    let found = read_version(&mut connection, &facts, &options.schema)?;
    if found == VERSION {
        return Ok(found);
    }
    let first = usize::try_from(found - 1).unwrap_or(usize::MAX);
    let steps = MIGRATIONS.get(first..);
    let steps = steps.ok_or(PostgresOpenError::Version { found, expected: VERSION })?;
    let changed = connection.transaction(|connection| {
        for step in steps {
            connection.execute(step)?;
        }
        connection.execute(FUNCTIONS)?;
        connection.execute(&format!("UPDATE meta SET version = {VERSION}"))
    });
    changed.map_err(statement)?;
    Ok(found)
}

/// What leads from each version to the next, the first from 1 to 2. The functions are recreated after all of them.
const MIGRATIONS: [&str; 2] = [ACCOUNT, MANY_NODES];
/// The table that version 2 has brought.
const ACCOUNT: &str = "CREATE TABLE account (name text PRIMARY KEY, value text NOT NULL)";
/// Version 3 lets several nodes use a store: heads have no owner any more, and the journal is a table. What the
/// last node was making or had closed nobody goes on with, and what it had changed of the catalog is not known.
const MANY_NODES: &str = "\
    DROP FUNCTION kv_commit; DROP FUNCTION kv_resolve; DROP FUNCTION kv_trim; \
    ALTER TABLE meta DROP COLUMN owner; \
    ALTER TABLE head DROP COLUMN owner, ADD COLUMN journal uuid, ADD COLUMN journal_until timestamptz; \
    UPDATE head SET control = lsn, state = CASE state WHEN 0 THEN 3 WHEN 2 THEN 1 ELSE state END; \
    CREATE TABLE journal (shard int NOT NULL, lsn bigint NOT NULL, key bytea NOT NULL, tail bytea); \
    CREATE INDEX journal_lsn ON journal (shard, lsn)";

/// What a store consists of, beside its version.
const PARTS: &str = "SELECT \
    coalesce(string_agg(kind || ' ' || name, ', ') FILTER (WHERE is_missing), ''), \
    bool_and(is_missing) FROM (VALUES \
    ('the table', 'kv', to_regclass('kv') IS NULL), \
    ('the table', 'head', to_regclass('head') IS NULL), \
    ('the table', 'log', to_regclass('log') IS NULL), \
    ('the table', 'account', to_regclass('account') IS NULL), \
    ('the table', 'journal', to_regclass('journal') IS NULL), \
    ('the function', 'kv_commit', to_regproc('kv_commit') IS NULL), \
    ('the function', 'kv_resolve', to_regproc('kv_resolve') IS NULL), \
    ('the function', 'kv_trim', to_regproc('kv_trim') IS NULL)) part(kind, name, is_missing)";

/// What a server says of itself.
pub(crate) struct ServerFacts {
    version_number: i32,
    pub(crate) version: String,
    pub(crate) is_standby: bool,
    pub(crate) fsync: String,
    pub(crate) full_page_writes: String,
    pub(crate) synchronous_commit: String,
    has_meta: bool,
}

impl ServerFacts {
    pub(crate) fn read(connection: &mut ServerConnection) -> Result<Self, PostgresOpenError> {
        let text = "SELECT current_setting('server_version_num')::int, \
            current_setting('server_version'), \
            pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', \
            current_setting('fsync'), current_setting('full_page_writes'), \
            current_setting('synchronous_commit'), to_regclass('meta') IS NOT NULL";
        let rows = connection.query(text, &[]).map_err(statement)?;
        let none = || PostgresOpenError::Statement("the server says nothing of itself".into());
        let row: &Row = rows.first().ok_or_else(none)?;
        Ok(Self {
            version_number: row.get(0),
            version: row.get(1),
            is_standby: row.get(2),
            fsync: row.get(3),
            full_page_writes: row.get(4),
            synchronous_commit: row.get(5),
            has_meta: row.get(6),
        })
    }

    fn check_server(&self) -> Result<(), PostgresOpenError> {
        if self.version_number < SERVER_VERSION_MIN {
            return Err(PostgresOpenError::ServerTooOld(self.version.clone()));
        }
        if self.is_standby { Err(PostgresOpenError::Standby) } else { Ok(()) }
    }

    /// Whether what the server acknowledges is durable.
    pub(crate) fn check_durability(&self) -> Result<(), PostgresOpenError> {
        let switches = [("fsync", &self.fsync), ("full_page_writes", &self.full_page_writes)];
        for (name, value) in switches {
            if value != "on" {
                let value = value.clone();
                return Err(PostgresOpenError::Unsafe { name, value, needed: "on" });
            }
        }
        let (name, value) = ("synchronous_commit", self.synchronous_commit.clone());
        if ["on", "remote_apply"].contains(&&*value) {
            return Ok(());
        }
        Err(PostgresOpenError::Unsafe { name, value, needed: "on or remote_apply" })
    }
}

pub(crate) fn read_version(
    connection: &mut ServerConnection,
    facts: &ServerFacts,
    schema: &str,
) -> Result<i32, PostgresOpenError> {
    if !facts.has_meta {
        let parts = connection.query(PARTS, &[]).map_err(statement)?;
        // Without any of its parts it was never there; else somebody has dropped one.
        if parts.first().is_some_and(|row| row.get(1)) {
            return Err(PostgresOpenError::NoStore(schema.to_owned()));
        }
        return Err(incomplete(schema, "the table meta"));
    }
    let rows = connection.query("SELECT version FROM meta", &[]).map_err(statement)?;
    rows.first()
        .map(|row| row.get(0))
        .ok_or_else(|| incomplete(schema, "the row of the table meta"))
}

fn incomplete(schema: &str, missing: &str) -> PostgresOpenError {
    let (schema, missing) = (schema.to_owned(), missing.to_owned());
    PostgresOpenError::Incomplete { schema, missing }
}

/// Checks the server and the tables.
pub(crate) fn check(
    connector: &Connector,
    options: &PostgresOptions,
) -> Result<ServerConnection, PostgresOpenError> {
    let mut connection = connector.connect().map_err(connect)?;
    let facts = ServerFacts::read(&mut connection)?;
    facts.check_server()?;
    facts.check_durability()?;
    let found = read_version(&mut connection, &facts, &options.schema)?;
    if found != VERSION {
        return Err(PostgresOpenError::Version { found, expected: VERSION });
    }
    let rows = connection.query(PARTS, &[]).map_err(statement)?;
    let missing: String = rows.first().map_or_else(String::new, |row| row.get(0));
    if missing.is_empty() { Ok(connection) } else { Err(incomplete(&options.schema, &missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ServerFacts {
        let on = || "on".to_owned();
        ServerFacts {
            version_number: 150_004,
            version: "15.4".into(),
            is_standby: false,
            fsync: on(),
            full_page_writes: on(),
            synchronous_commit: on(),
            has_meta: true,
        }
    }

    #[test]
    fn a_server_that_is_too_old_or_may_forget_is_refused() {
        facts().check_server().unwrap();
        facts().check_durability().unwrap();
        let old = ServerFacts { version_number: 130_011, version: "13.11".into(), ..facts() };
        let error = old.check_server().unwrap_err().to_string();
        assert_eq!(error, "PostgreSQL 13.11 is too old; version 14 or newer is needed.");
        let standby = ServerFacts { is_standby: true, ..facts() };
        assert!(matches!(standby.check_server(), Err(PostgresOpenError::Standby)));
        let check = |facts: ServerFacts, setting: &str| {
            let error = facts.check_durability().unwrap_err().to_string();
            assert!(error.contains(setting), "{error}");
        };
        check(ServerFacts { fsync: "off".into(), ..facts() }, "fsync = off");
        check(ServerFacts { full_page_writes: "off".into(), ..facts() }, "full_page_writes = off");
        for value in ["off", "local", "remote_write"] {
            let expected = format!("synchronous_commit = {value}");
            check(ServerFacts { synchronous_commit: value.into(), ..facts() }, &expected);
        }
        let more = ServerFacts { synchronous_commit: "remote_apply".into(), ..facts() };
        more.check_durability().unwrap();
    }

    #[test]
    fn the_tables_say_the_version_that_the_code_expects() {
        assert!(TABLES.contains(&format!("INSERT INTO meta VALUES ({VERSION})")));
        assert_eq!(MIGRATIONS.len() + 1, usize::try_from(VERSION).unwrap());
        let alike = |step: &str| {
            step.split("; ")
                .filter(|s| s.trim().starts_with("CREATE"))
                .all(|s| TABLES.contains(s.trim()))
        };
        assert!(
            MIGRATIONS.into_iter().all(alike),
            "a new store and an old one get the same tables"
        );
    }
}
