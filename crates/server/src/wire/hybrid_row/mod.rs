//! The binary form in which the .NET SDK sends a batch and wants its results: `HybridRow` rows in
//! a `RecordIO` stream. `handlers/batch` decodes a body that begins with [`VERSION`], which no JSON
//! text does, and answers in kind. Only the two schemas of the batch protocol are known here.
//!
//! ```text
//! stream  = segment (segment | record)*
//! segment = 81 f0d8ff7f 01 <i32 length of all of it> <comment>*
//! record  = 81 f1d8ff7f <i32 length of the row> <u32 CRC-32 of the row> row
//! row     = 81 <u32 schema> <presence bits> <i32> <i32> variable* sparse*
//! variable = <varuint length> bytes                      only where the presence bit is set
//! sparse   = <type> <varuint path> value                 path: the column's number from 1, or
//!                                                        (columns + 1 + length) and a name
//! ```
//!
//! All numbers are little-endian. Both directions of both schemas are here, so that each is tested
//! against the other.

mod cursor;
mod error;
mod record_io;
mod row;
#[cfg(test)]
mod tests;

pub use error::{HybridRowError, HybridRowFault};

use row::{Cell, Column, Row, Schema};

/// The first byte of every stream and every row.
pub const VERSION: u8 = 0x81;

/// One operation of a batch, as its row has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns' own names")]
pub struct OperationRow {
    pub operation_type: Option<i32>,
    pub resource_type: Option<i32>,
    /// The JSON array of the header form.
    pub partition_key: Option<String>,
    pub effective_partition_key: Option<Vec<u8>>,
    pub id: Option<String>,
    pub binary_id: Option<Vec<u8>>,
    pub resource_body: Option<Vec<u8>>,
    pub indexing_directive: Option<String>,
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
    pub time_to_live_s: Option<i32>,
    pub minimal_return: Option<bool>,
}

/// One result of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the columns' own names")]
pub struct ResultRow {
    pub status: i32,
    pub sub_status: i32,
    pub etag: Option<String>,
    pub resource_body: Option<Vec<u8>>,
    pub retry_after_ms: Option<u32>,
    pub request_charge: Option<f64>,
}

const OPERATION: Schema = Schema {
    id: 2_145_473_648,
    columns: &[
        Column::Fixed("operationType"),
        Column::Fixed("resourceType"),
        Column::Text("partitionKey"),
        Column::Bytes("effectivePartitionKey"),
        Column::Text("id"),
        Column::Bytes("binaryId"),
        Column::Bytes("resourceBody"),
        Column::Sparse("indexingDirective"),
        Column::Sparse("ifMatch"),
        Column::Sparse("ifNoneMatch"),
        Column::Sparse("timeToLiveInSeconds"),
        Column::Sparse("minimalReturnPreference"),
    ],
};

const RESULT: Schema = Schema {
    id: 2_145_473_649,
    columns: &[
        Column::Fixed("statusCode"),
        Column::Fixed("subStatusCode"),
        Column::Text("eTag"),
        Column::Bytes("resourceBody"),
        Column::Sparse("retryAfterMilliseconds"),
        Column::Sparse("requestCharge"),
    ],
};

/// Reads the body of a batch request.
pub fn decode_operations(stream: &[u8]) -> Result<Vec<OperationRow>, HybridRowError> {
    record_io::rows(stream, |bytes, at| {
        let row = Row::read(&OPERATION, bytes, at)?;
        Ok(OperationRow {
            operation_type: row.int32(0)?,
            resource_type: row.int32(1)?,
            partition_key: row.text(2)?,
            effective_partition_key: row.bytes(3)?,
            id: row.text(4)?,
            binary_id: row.bytes(5)?,
            resource_body: row.bytes(6)?,
            indexing_directive: row.text(7)?,
            if_match: row.text(8)?,
            if_none_match: row.text(9)?,
            time_to_live_s: row.int32(10)?,
            minimal_return: row.boolean(11)?,
        })
    })
}

/// Writes the body of a batch request.
pub fn encode_operations(operations: &[OperationRow]) -> Vec<u8> {
    record_io::stream(operations, |operation, out| {
        let text = |text: &'_ Option<String>| text.clone().map(Cell::text);
        let bytes = |bytes: &'_ Option<Vec<u8>>| bytes.clone().map(Cell::Bytes);
        let cells = vec![
            operation.operation_type.map(Cell::Int32),
            operation.resource_type.map(Cell::Int32),
            text(&operation.partition_key),
            bytes(&operation.effective_partition_key),
            text(&operation.id),
            bytes(&operation.binary_id),
            bytes(&operation.resource_body),
            text(&operation.indexing_directive),
            text(&operation.if_match),
            text(&operation.if_none_match),
            operation.time_to_live_s.map(Cell::Int32),
            operation.minimal_return.map(Cell::Bool),
        ];
        row::write(&OPERATION, &cells, out);
    })
}

/// Reads the body of a batch response.
pub fn decode_results(stream: &[u8]) -> Result<Vec<ResultRow>, HybridRowError> {
    record_io::rows(stream, |bytes, at| {
        let row = Row::read(&RESULT, bytes, at)?;
        Ok(ResultRow {
            status: row.int32(0)?.unwrap_or_default(),
            sub_status: row.int32(1)?.unwrap_or_default(),
            etag: row.text(2)?,
            resource_body: row.bytes(3)?,
            retry_after_ms: row.uint32(4)?,
            request_charge: row.float64(5)?,
        })
    })
}

/// Writes the body of a batch response.
pub fn encode_results(results: &[ResultRow]) -> Vec<u8> {
    record_io::stream(results, |result, out| {
        let cells = vec![
            Some(Cell::Int32(result.status)),
            Some(Cell::Int32(result.sub_status)),
            result.etag.clone().map(Cell::text),
            result.resource_body.clone().map(Cell::Bytes),
            result.retry_after_ms.map(Cell::UInt32),
            result.request_charge.map(Cell::Float64),
        ];
        row::write(&RESULT, &cells, out);
    })
}
