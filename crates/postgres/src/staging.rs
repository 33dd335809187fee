//! A store that is filled before anybody may open it: in a schema beside the one that it is for, which takes that name
//! once it is whole. One that was left behind is replaced by the next.

use postgres::Error;

use crate::connection::{Connector, ServerConnection};
use crate::schema::{self, PostgresOpenError};
use crate::store::PostgresOptions;

/// What the name of the schema ends with until the store is whole.
const SUFFIX: &str = "_incoming";
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtext('orrery copy'), hashtext($1::text))";
const IS_USED: &str =
    "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace($1::text))";

/// A store that is being filled. Dropped before it is published, it stays behind and nobody opens it.
pub struct StagingStore {
    connector: Connector,
    /// Holds the lock that tells a second one of this one.
    connection: ServerConnection,
    schema: String,
    options: PostgresOptions,
    place: String,
}

impl StagingStore {
    /// Creates an empty store for a schema that is not in use.
    pub fn create(address: &str, options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let (shown, connector) = schema::connector(address, options)?;
        let schema = options.schema.clone();
        let staging = PostgresOptions { schema: format!("{schema}{SUFFIX}"), ..options.clone() };
        schema::check_name(&staging.schema)?;
        let mut connection = connector.connect().map_err(schema::connect)?;
        if is_used(&mut connection, &schema).map_err(schema::statement)? {
            return Err(PostgresOpenError::Exists(schema));
        }
        let locked = connection.query(LOCK, &[&staging.schema]).map_err(schema::statement)?;
        if !locked.first().is_some_and(|row| row.get(0)) {
            return Err(PostgresOpenError::InUse(": a copy into it is being made".into()));
        }
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", staging.schema);
        connection.execute(&drop).map_err(schema::statement)?;
        crate::init(address, &staging)?;
        let place = format!("{shown}, schema {schema}");
        Ok(Self { connector, connection, schema, options: staging, place })
    }

    /// How the store is opened until it is published.
    pub fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// Where it will be: hosts, database and schema; never a password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Gives the store its name, which nobody has open.
    pub fn publish(mut self) -> Result<(), PostgresOpenError> {
        if !self.connection.is_usable() {
            self.connection = self.connector.connect().map_err(schema::connect)?;
        }
        let (schema, staging) = (self.schema.clone(), &self.options.schema);
        let made_way = format!("DROP SCHEMA IF EXISTS {schema}");
        let named = format!("ALTER SCHEMA {staging} RENAME TO {schema}");
        // Somebody may have used the name meanwhile: then the first statement fails.
        let published = self.connection.transaction(|connection| {
            connection.execute(&made_way)?;
            connection.execute(&named)
        });
        published.map_err(schema::statement)
    }

    /// Removes it.
    pub fn discard(mut self) -> Result<(), PostgresOpenError> {
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.options.schema);
        self.connection.execute(&drop).map_err(schema::statement)
    }
}

fn is_used(connection: &mut ServerConnection, schema: &str) -> Result<bool, Error> {
    let rows = connection.query(IS_USED, &[&schema])?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}
