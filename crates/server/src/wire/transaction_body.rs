//! The bodies of a distributed transaction on the wire: operations in, results out, both JSON. An operation
//! has the properties of one of a batch, and names its container.

use std::fmt::Write as _;

use bytes::Bytes;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::transaction::batch::{BatchAnswer, BatchOperation, Content};
use orrery_types::ids::Rid;
use orrery_types::json::write_json_string;
use orrery_types::{Error, PartitionKey, Result, limits};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::call::json_text;
use crate::wire::batch_body::{Draft, Kind, OperationList, Outcome, key_text, missing};
use crate::wire::error::WireError;
use crate::wire::link::{Address, ContainerAddress};

/// The status of a transaction that was aborted.
const ABORTED: u16 = 452;
/// The status and sub-status of an operation that another one's refusal has rolled back.
const ROLLED_BACK: (u16, u16) = (453, 5415);

/// One operation of a transaction.
pub struct ListedOperation {
    /// Its number, which its result repeats.
    pub index: usize,
    pub(crate) at: ContainerAddress,
    /// The rid of the container that the client means, as sent.
    pub(crate) container_rid: Option<String>,
    pub(crate) partition_key: PartitionKey,
    pub(crate) session_token: Option<String>,
    pub(crate) operation: BatchOperation,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "an object with the property 'operations'")]
struct JsonTransaction<'a> {
    #[serde(borrow)]
    operations: OperationList<JsonOperation<'a>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an operation, which is an object")]
struct JsonOperation<'a> {
    index: Option<usize>,
    operation_type: Option<String>,
    resource_type: Option<String>,
    database_name: Option<String>,
    collection_name: Option<String>,
    database_resource_id: Option<String>,
    collection_resource_id: Option<String>,
    id: Option<String>,
    #[serde(borrow)]
    partition_key: Option<&'a RawValue>,
    session_token: Option<String>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    #[serde(borrow)]
    resource_body: Option<&'a RawValue>,
}

/// Reads the operations.
pub fn decode(body: &Bytes) -> Result<Vec<ListedOperation>> {
    let text = json_text(body)?;
    let sent: JsonTransaction<'_> = serde_json::from_slice(&text).map_err(|e| {
        Error::invalid(format!("The body is not a transaction, which is a JSON object: {e}."))
    })?;
    let OperationList(sent) = sent.operations;
    let (count, limit) = (sent.len(), limits::DISTRIBUTED_OPERATIONS_MAX);
    if count > limit {
        return Err(Error::invalid(format!(
            "The transaction has more operations than the limit, which is {limit}."
        )));
    }
    let mut operations = Vec::with_capacity(count);
    let mut seen = vec![false; count];
    for (position, operation) in sent.into_iter().enumerate() {
        let operation = operation.read(position, &text).map_err(|error| match error {
            Error::Invalid(reason) => {
                Error::invalid(format!("Operation {position} of the transaction: {reason}"))
            }
            other => other,
        })?;
        match seen.get_mut(operation.index) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                return Err(Error::invalid(format!(
                    "Operation {position} of the transaction: The index {} is not one of 0 to {}, or \
                     another operation has it.",
                    operation.index,
                    count - 1
                )));
            }
        }
        operations.push(operation);
    }
    Ok(operations)
}

impl JsonOperation<'_> {
    fn read(self, position: usize, text: &Bytes) -> Result<ListedOperation> {
        if let Some(kind) = self.resource_type.filter(|kind| !kind.eq_ignore_ascii_case("Document"))
        {
            return Err(Error::invalid(format!(
                "The resource type is '{kind}'. A transaction holds operations on items only."
            )));
        }
        let key = self.partition_key.ok_or_else(|| missing("partitionKey"))?;
        let body = self.resource_body.map(|raw| text.slice_ref(raw.get().as_bytes()));
        check_id(self.id.as_deref(), self.resource_body)?;
        let draft = Draft {
            kind: self.operation_type.as_deref().map(Kind::from_name).transpose()?,
            id: self.id,
            partition_key: Some(key_text(key)?),
            conditions: Preconditions {
                if_match: self.if_match.map(Into::into),
                if_none_match: self.if_none_match.map(Into::into),
                ..Preconditions::default()
            },
            body,
            minimal: false,
        };
        // Results of writes hold no items.
        let mut operation = draft.into_operation(Content::Minimal)?;
        let partition_key =
            operation.partition_key.take().ok_or_else(|| missing("partitionKey"))?;
        let at = ContainerAddress {
            database: address("databaseName", self.database_name, self.database_resource_id)?,
            container: address(
                "collectionName",
                self.collection_name,
                self.collection_resource_id.clone(),
            )?,
        };
        let session_token = self.session_token.filter(|token| !token.trim().is_empty());
        Ok(ListedOperation {
            index: self.index.unwrap_or(position),
            at,
            container_rid: self.collection_resource_id,
            partition_key,
            session_token,
            operation,
        })
    }
}

/// By name; by rid if it has none.
fn address(property: &str, name: Option<String>, rid: Option<String>) -> Result<Address> {
    if let Some(name) = name {
        return Ok(Address::Name(name));
    }
    let rid = rid.ok_or_else(|| missing(property))?;
    let parsed = rid.parse::<Rid>();
    parsed.map(Address::Rid).map_err(|_| Error::invalid(format!("'{rid}' is not a resource id.")))
}

/// The id beside a body is that of the item in it: a transaction renames nothing.
fn check_id(id: Option<&str>, body: Option<&RawValue>) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Item {
        id: Option<String>,
    }
    let (Some(id), Some(body)) = (id, body) else { return Ok(()) };
    // Whatever else is wrong with the body is refused where items are read.
    match serde_json::from_str::<Item>(body.get()) {
        Ok(Item { id: Some(own) }) if own != id => Err(Error::invalid(format!(
            "The id of the operation is '{id}', and that in its resourceBody '{own}'."
        ))),
        _ => Ok(()),
    }
}

/// Whether a transaction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionKind {
    Read,
    Write,
}

/// The result of one operation.
pub(crate) struct ListedResult {
    pub(crate) index: usize,
    pub(crate) answer: BatchAnswer,
    /// The range where it took place, and the session token for it.
    pub(crate) place: Option<(u32, String)>,
}

/// A whole answer: what the head of the response says too, and its body.
pub(crate) struct Envelope {
    pub(crate) status: u16,
    pub(crate) sub_status: u16,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) body: Vec<u8>,
}

/// The answer to a transaction that has ended.
pub(crate) fn encode(
    kind: TransactionKind,
    token: Option<Uuid>,
    results: &[ListedResult],
    charge: f64,
) -> Envelope {
    let status = status_of(kind, results);
    let mut text = head(status, 0, token, charge, false);
    text.push_str(",\"operationResponses\":[");
    let mut body = text.into_bytes();
    for (at, result) in results.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        write_result(kind, result, &mut body);
    }
    body.extend_from_slice(b"]}");
    Envelope { status, sub_status: 0, retry_after_ms: None, body }
}

/// The answer to a transaction that may be sent again with the same token: if it was committed, it is not
/// done twice.
pub(crate) fn encode_retriable(error: &Error, token: Option<Uuid>, indexes: &[usize]) -> Envelope {
    let WireError { status, sub_status, code, retry_after_ms } = WireError::of(error);
    let mut text = head(status, sub_status, token, 0.0, true);
    text.push_str(",\"code\":");
    write_json_string(code, &mut text);
    text.push_str(",\"message\":");
    write_json_string(&crate::wire::error::text(error), &mut text);
    text.push_str(",\"operationResponses\":[");
    for (at, index) in indexes.iter().enumerate() {
        let separator = if at > 0 { "," } else { "" };
        let _ = write!(
            text,
            "{separator}{{\"index\":{index},\"statusCode\":{status},\"subStatusCode\":{sub_status},\
             \"requestCharge\":0}}"
        );
    }
    text.push_str("]}");
    Envelope { status, sub_status, retry_after_ms, body: text.into_bytes() }
}

fn head(status: u16, sub_status: u16, token: Option<Uuid>, charge: f64, retriable: bool) -> String {
    let mut text = String::from("{");
    if let Some(token) = token {
        let _ = write!(text, "\"idempotencyToken\":\"{token}\",");
    }
    let _ = write!(
        text,
        "\"statusCode\":{status},\"subStatusCode\":{sub_status},\"requestCharge\":{charge},\
         \"isRetriable\":{retriable}"
    );
    text
}

/// The status of the whole. A read whose items the client has all is 207 as well: HTTP has no body with 304,
/// and clients take an answer without one for broken.
fn status_of(kind: TransactionKind, results: &[ListedResult]) -> u16 {
    let statuses: Vec<u16> =
        results.iter().map(|result| Outcome::of(&result.answer).status).collect();
    let failed: Vec<u16> =
        statuses.iter().copied().filter(|status| *status >= 400 && *status != 424).collect();
    match (kind, failed.first()) {
        (TransactionKind::Write, None) => 200,
        (TransactionKind::Write, Some(_)) => ABORTED,
        (TransactionKind::Read, None) if statuses.iter().all(|status| *status == 200) => 200,
        (TransactionKind::Read, Some(first)) if failed.iter().all(|status| status == first) => {
            *first
        }
        (TransactionKind::Read, _) => 207,
    }
}

fn write_result(kind: TransactionKind, result: &ListedResult, out: &mut Vec<u8>) {
    let outcome = Outcome::of(&result.answer);
    let is_undone = matches!(result.answer, BatchAnswer::Dependent(_));
    let (status, sub_status) = match kind {
        TransactionKind::Write if is_undone => ROLLED_BACK,
        _ => (outcome.status, outcome.sub_status),
    };
    let mut text = format!(
        "{{\"index\":{},\"statusCode\":{status},\"subStatusCode\":{sub_status},\"requestCharge\":{}",
        result.index, outcome.charge
    );
    if let Some(etag) = outcome.etag {
        text.push_str(",\"Etag\":");
        write_json_string(&etag.to_string(), &mut text);
    }
    if let Some((range, token)) = &result.place {
        let _ = write!(text, ",\"partitionKeyRangeId\":\"{range}\",\"sessionToken\":");
        write_json_string(token, &mut text);
    }
    if let Some(message) = &outcome.message {
        text.push_str(",\"message\":");
        write_json_string(message, &mut text);
    }
    out.extend_from_slice(text.as_bytes());
    if !outcome.body.is_empty() {
        out.extend_from_slice(b",\"resourceBody\":");
        out.extend_from_slice(outcome.body);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use orrery_engine::transaction::batch::BatchAction;

    use super::*;

    fn decoded(text: &str) -> Result<Vec<ListedOperation>> {
        decode(&Bytes::copy_from_slice(text.as_bytes()))
    }

    fn operation(more: &str) -> String {
        format!(
            r#"{{"databaseName":"d","collectionName":"c","partitionKey":["p"],"operationType":"Create","id":"a",
               "resourceBody":{{"id":"a"}}{more}}}"#
        )
    }

    fn refusal(text: &str) -> String {
        match decoded(text) {
            Err(Error::Invalid(reason)) => reason.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was taken: {text}"),
        }
    }

    #[test]
    fn an_operation_has_its_container_its_key_and_its_conditions() {
        let text = operation(
            r#","index":1,"ifMatch":"e","sessionToken":"0:1#2","resourceType":"Document",
               "collectionResourceId":"x","databaseResourceId":"y""#,
        );
        let text = format!(r#"{{"operations":[{text},{}]}}"#, operation(r#","index":0,"later":1"#));
        let operations = decoded(&text).expect("two operations");
        assert_eq!((operations[0].index, operations[1].index), (1, 0));
        assert_eq!(operations[0].partition_key.to_header(), r#"["p"]"#);
        assert_eq!(operations[0].session_token.as_deref(), Some("0:1#2"));
        assert_eq!(operations[0].container_rid.as_deref(), Some("x"));
        assert_eq!(operations[0].operation.conditions.if_match.as_deref(), Some("e"));
        assert_eq!(operations[0].at.container, Address::Name("c".into()));
        let BatchAction::Create(body) = &operations[1].operation.action else { panic!("a create") };
        assert_eq!(body, r#"{"id":"a"}"#.as_bytes());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_operation() {
        for (operations, expected) in [
            ("7", "expected an array of operations"),
            ("[7]", "expected an operation"),
            (
                r#"[{"operationType":"Create"}]"#,
                "Operation 0 of the transaction: The property 'partitionKey'",
            ),
            (r#"[{"partitionKey":["p"],"operationType":"Drop"}]"#, "'Drop' is unknown"),
            (
                r#"[{"partitionKey":["p"],"operationType":"Delete","id":"a"}]"#,
                "'databaseName' is missing",
            ),
            (
                r#"[{"partitionKey":["p"],"operationType":"Delete","id":"a","databaseName":"d"}]"#,
                "'collectionName' is missing",
            ),
        ] {
            let reason = refusal(&format!(r#"{{"operations":{operations}}}"#));
            assert!(reason.contains(expected), "{reason}");
        }
        for (more, expected) in
            [(r#","index":7"#, "The index 7"), (r#","resourceType":"Trigger""#, "'Trigger'")]
        {
            let reason = refusal(&format!(r#"{{"operations":[{}]}}"#, operation(more)));
            assert!(reason.contains(expected), "{reason}");
        }
        let other = operation("").replace(r#""id":"a","#, r#""id":"b","#);
        let reason = refusal(&format!(r#"{{"operations":[{other}]}}"#));
        assert!(reason.contains("is 'b'") && reason.contains("'a'"), "{reason}");
        let twice = operation(r#","index":0"#);
        let reason = refusal(&format!(r#"{{"operations":[{twice},{twice}]}}"#));
        assert!(reason.contains("another operation has it"), "{reason}");
        let many = vec![operation(""); limits::DISTRIBUTED_OPERATIONS_MAX + 1].join(",");
        assert!(refusal(&format!(r#"{{"operations":[{many}]}}"#)).contains("the limit"));
        assert!(refusal("[]").contains("a transaction, which is a JSON object"));
    }

    fn result(answer: BatchAnswer) -> ListedResult {
        ListedResult { index: 0, answer, place: None }
    }

    #[test]
    fn the_status_of_the_whole_follows_from_those_of_the_operations() {
        let failed = |error: Error| result(BatchAnswer::Failed(error));
        let undone = || result(BatchAnswer::Dependent(0.0));
        let check = |kind, results: &[ListedResult], expected| {
            assert_eq!(encode(kind, None, results, 0.0).status, expected);
        };
        check(TransactionKind::Write, &[failed(Error::NotFound), undone()], 452);
        check(TransactionKind::Read, &[failed(Error::NotFound), undone()], 404);
        let mixed = [failed(Error::NotFound), failed(Error::PreconditionFailed)];
        check(TransactionKind::Read, &mixed, 207);
        let body = encode(TransactionKind::Write, None, &[undone()], 0.0).body;
        let body = String::from_utf8(body).expect("JSON is UTF-8");
        assert!(body.contains(r#""statusCode":453,"subStatusCode":5415"#), "{body}");
    }
}
