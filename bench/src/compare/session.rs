//! One connection to a system, and how an operation is said to it.

use anyhow::{Context as _, Result, ensure};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Statement};

use super::operation::{Operation, changed};
use crate::client::Client;
use crate::message::{Signer, Writing};
use crate::query::cases::Case;
use crate::query::goods;

/// Rows that a query may bring back in one page; more than any of them has.
const ROWS_MAX: usize = 1000;

/// A connection.
pub(super) enum Session {
    /// Orrery and other servers of its protocol.
    Http(Box<HttpSession>),
    Postgres(Box<PostgresSession>),
}

pub(super) struct HttpSession {
    client: Client,
    signer: Signer,
    /// Changes with every upsert.
    stamp: u64,
}

pub(super) struct PostgresSession {
    client: tokio_postgres::Client,
    read: Statement,
    upsert: Statement,
    create: Statement,
    equality: Statement,
    in_partition: Statement,
    stamp: u64,
}

pub(super) fn http(client: Client) -> Session {
    Session::Http(Box::new(HttpSession { client, signer: Signer::now(), stamp: 0 }))
}

pub(super) async fn postgres(address: &str, table: &str) -> Result<Session> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    // An error of the connection is also one of the next call.
    tokio::spawn(async move { drop(connection.await) });
    let insert = format!("INSERT INTO {table} (id, pk, doc) VALUES ($1, $2, $3::text::jsonb)");
    let upsert = format!("{insert} ON CONFLICT (id) DO UPDATE SET doc = excluded.doc");
    let of_table = |case: Case| case.statement().replace("FROM items", &format!("FROM {table}"));
    let session = PostgresSession {
        read: client.prepare(&format!("SELECT doc::text FROM {table} WHERE id = $1")).await?,
        upsert: client.prepare(&upsert).await?,
        create: client.prepare(&insert).await?,
        equality: client.prepare(&of_table(Case::TwoEqualities)).await?,
        in_partition: client.prepare(&of_table(Case::SinglePartition)).await?,
        client,
        stamp: 0,
    };
    Ok(Session::Postgres(Box::new(session)))
}

impl Session {
    /// Creates what holds the items, where it is not there yet.
    pub(super) async fn set_up(&mut self) -> Result<()> {
        let Self::Http(session) = self else { return Ok(()) };
        for request in session.signer.setup() {
            session.client.expect(&request, 201).await?;
        }
        Ok(())
    }

    /// Does it once, for the item with a number; returns how many rows a query has found.
    pub(super) async fn call(&mut self, operation: Operation, number: u64) -> Result<usize> {
        match self {
            Self::Http(session) => session.call(operation, number).await,
            Self::Postgres(session) => session.call(operation, number).await,
        }
    }
}

impl HttpSession {
    async fn call(&mut self, operation: Operation, number: u64) -> Result<usize> {
        self.stamp += 1;
        let partition = goods::partition(number);
        let (request, status) = match operation {
            Operation::PointRead => (self.signer.read_in(&partition, number), 200),
            Operation::Upsert => {
                let body = changed(number, self.stamp);
                (self.signer.write_in(&partition, &body, Writing::Upsert), 200)
            }
            Operation::Create => {
                let body = goods::text(number);
                (self.signer.write_in(&partition, &body, Writing::Create), 201)
            }
            Operation::Equality | Operation::InPartition => {
                let (case, _) = operation.query().context("it is a query")?;
                let key = (operation == Operation::InPartition).then_some(&*partition);
                (self.signer.query(&case.query(number), key, ROWS_MAX, None), 200)
            }
        };
        let answer = self.client.expect(&request, status).await?;
        Ok(if operation.query().is_some() { rows(answer.body) } else { 1 })
    }
}

/// Rows of a page, by the number that stands in it.
fn rows(body: &[u8]) -> usize {
    let name = b"\"_count\":";
    let at = memchr::memmem::find(body, name).map_or(body.len(), |at| at + name.len());
    let digits = body[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

impl PostgresSession {
    async fn call(&mut self, operation: Operation, number: u64) -> Result<usize> {
        self.stamp += 1;
        let id = crate::message::id(number);
        let statement = match operation {
            Operation::PointRead => &self.read,
            Operation::Upsert => &self.upsert,
            Operation::Create => &self.create,
            Operation::Equality => &self.equality,
            Operation::InPartition => &self.in_partition,
        };
        let parameters = match operation {
            Operation::PointRead => vec![id],
            Operation::Upsert => vec![id, goods::partition(number), changed(number, self.stamp)],
            Operation::Create => vec![id, goods::partition(number), goods::text(number)],
            Operation::Equality | Operation::InPartition => {
                operation.query().context("it is a query")?.0.parameters(number)
            }
        };
        let parameters: Vec<&(dyn ToSql + Sync)> =
            parameters.iter().map(|text| text as &(dyn ToSql + Sync)).collect();
        match operation {
            Operation::Upsert | Operation::Create => {
                let written = self.client.execute(statement, &parameters).await?;
                ensure!(written == 1, "{written} rows were written");
                Ok(1)
            }
            _ => Ok(self.client.query(statement, &parameters).await?.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_page_are_those_that_it_counts() {
        assert_eq!(rows(br#"{"_rid":"","Documents":[{"a":1}],"_count":10}"#), 10);
        assert_eq!(rows(b"{}"), 0);
    }
}
