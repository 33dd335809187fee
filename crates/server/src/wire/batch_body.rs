//! The bodies of a batch on the wire: operations in, results out, each as JSON or as `HybridRow`.
//! The first byte of a request tells which, and the answer has the same form.

use std::fmt;
use std::fmt::Write as _;
use std::marker::PhantomData;

use bytes::Bytes;
use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::item::read::Outcome as ItemOutcome;
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer, BatchOperation, Content};
use orrery_types::ids::Address;
use orrery_types::json::write_json_string;
use orrery_types::{Error, Etag, PartitionKey, Result, limits};
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::call::json_text;
use crate::wire::error::{self, WireError};
use crate::wire::hybrid_row::{self, OperationRow, ResultRow};

/// The form of a batch's bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BatchFormat {
    Json,
    HybridRow,
}

/// Reads the operations. `of_writes` is what the whole request says about the content of results;
/// an operation may ask for less.
pub fn decode(body: &Bytes, of_writes: Content) -> Result<(BatchFormat, Vec<BatchOperation>)> {
    let (form, drafts) = if body.first() == Some(&hybrid_row::VERSION) {
        let malformed = |e| Error::invalid(format!("The batch is not valid HybridRow: {e}."));
        let rows = hybrid_row::decode_operations(body).map_err(malformed)?;
        (BatchFormat::HybridRow, rows.into_iter().map(Draft::from_row).collect::<Vec<_>>())
    } else {
        (BatchFormat::Json, from_json(&json_text(body)?)?)
    };
    let operations = (0..).zip(drafts).map(|(at, draft)| {
        let operation = draft.and_then(|draft| draft.into_operation(of_writes));
        operation.map_err(|error| match error {
            Error::Invalid(text) => Error::invalid(format!("Operation {at} of the batch: {text}")),
            other => other,
        })
    });
    Ok((form, operations.collect::<Result<_>>()?))
}

/// An operation as either form has it.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) kind: Option<Kind>,
    pub(super) id: Option<String>,
    pub(super) partition_key: Option<String>,
    pub(super) conditions: Preconditions,
    pub(super) body: Option<Bytes>,
    pub(super) minimal: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Create,
    Upsert,
    Read,
    Replace,
    Patch,
    Delete,
}

impl Kind {
    pub(super) fn from_name(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "create" => Self::Create,
            "upsert" => Self::Upsert,
            "read" => Self::Read,
            "replace" => Self::Replace,
            "patch" => Self::Patch,
            "delete" => Self::Delete,
            _ => return Err(unknown_kind(&format!("'{name}'"))),
        })
    }

    fn from_number(number: i32) -> Result<Self> {
        Ok(match number {
            0 => Self::Create,
            1 => Self::Patch,
            2 => Self::Read,
            4 => Self::Delete,
            5 => Self::Replace,
            20 => Self::Upsert,
            other => return Err(unknown_kind(&other.to_string())),
        })
    }
}

fn unknown_kind(given: &str) -> Error {
    Error::invalid(format!(
        "The operation type {given} is unknown. It must be Create, Upsert, Read, Replace, Patch or \
         Delete."
    ))
}

impl Draft {
    fn from_row(row: OperationRow) -> Result<Self> {
        /// The number of items among the kinds of resources.
        const ITEM: i32 = 2;
        if row.resource_type.is_some_and(|kind| kind != ITEM) {
            return Err(Error::invalid("A batch holds operations on items only."));
        }
        let unsupported = [
            ("effectivePartitionKey", row.effective_partition_key.is_some()),
            ("binaryId", row.binary_id.is_some()),
            ("timeToLiveInSeconds", row.time_to_live_s.is_some()),
        ];
        if let Some((name, _)) = unsupported.iter().find(|(_, is_there)| *is_there) {
            return Err(Error::invalid(format!(
                "An operation has the property '{name}', which this server does not take."
            )));
        }
        let text = |text: Option<String>| text.map(String::into_boxed_str);
        Ok(Self {
            kind: row.operation_type.map(Kind::from_number).transpose()?,
            id: row.id,
            partition_key: row.partition_key,
            conditions: Preconditions {
                if_match: text(row.if_match),
                if_none_match: text(row.if_none_match),
                ..Preconditions::default()
            },
            body: row.resource_body.map(|body| json_text(&body.into())).transpose()?,
            minimal: row.minimal_return == Some(true),
        })
    }

    pub(super) fn into_operation(self, of_writes: Content) -> Result<BatchOperation> {
        let kind = self.kind.ok_or_else(|| missing("operationType"))?;
        let partition_key = self.partition_key.as_deref().map(|text| {
            PartitionKey::parse_header(text).map_err(|e| Error::invalid(e.to_string()))
        });
        let content = match (self.minimal, kind) {
            (true, _) => Content::Minimal,
            (false, Kind::Read) => Content::Full,
            (false, _) => of_writes,
        };
        let (id, body) = (self.id, self.body);
        let item = || id.clone().map(Address::Name).ok_or_else(|| missing("id"));
        let body = || body.clone().ok_or_else(|| missing("resourceBody"));
        let action = match kind {
            Kind::Create => BatchAction::Create(body()?),
            Kind::Upsert => BatchAction::Upsert(body()?),
            Kind::Read => BatchAction::Read(item()?),
            Kind::Replace => BatchAction::Replace(item()?, body()?),
            Kind::Patch => BatchAction::Patch(item()?, body()?),
            Kind::Delete => BatchAction::Delete(item()?),
        };
        let (conditions, partition_key) = (self.conditions, partition_key.transpose()?);
        Ok(BatchOperation { action, partition_key, conditions, content })
    }
}

pub(super) fn missing(name: &str) -> Error {
    Error::invalid(format!("The property '{name}' is missing."))
}

/// An operation in JSON. Bodies stay text: they are read as items are, with the same limits.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an operation, which is an object")]
struct JsonOperation<'a> {
    operation_type: Option<String>,
    id: Option<String>,
    #[serde(borrow)]
    partition_key: Option<&'a RawValue>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    #[serde(borrow)]
    resource_body: Option<&'a RawValue>,
    #[serde(default)]
    minimal_return_preference: Option<bool>,
}

/// Operations, and no more than one past the limit: a short body may hold very many.
pub(super) struct OperationList<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OperationList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of operations")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut operations = Vec::new();
                while operations.len() <= limits::BATCH_OPERATIONS_MAX
                    && let Some(operation) = list.next_element()?
                {
                    operations.push(operation);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(operations)
            }
        }
        from.deserialize_seq(List(PhantomData)).map(Self)
    }
}

fn from_json(text: &Bytes) -> Result<Vec<Result<Draft>>> {
    let OperationList(operations): OperationList<JsonOperation<'_>> = serde_json::from_slice(text)
        .map_err(|e| {
            Error::invalid(format!("The batch is not a valid JSON array of operations: {e}."))
        })?;
    let draft = |operation: JsonOperation<'_>| {
        Ok(Draft {
            kind: operation.operation_type.as_deref().map(Kind::from_name).transpose()?,
            id: operation.id,
            partition_key: operation.partition_key.map(key_text).transpose()?,
            conditions: Preconditions {
                if_match: operation.if_match.map(Into::into),
                if_none_match: operation.if_none_match.map(Into::into),
                ..Preconditions::default()
            },
            body: operation.resource_body.map(|raw| text.slice_ref(raw.get().as_bytes())),
            minimal: operation.minimal_return_preference == Some(true),
        })
    };
    Ok(operations.into_iter().map(draft).collect())
}

/// The key's array: SDKs send it as the text that the header would hold, in a string.
pub(super) fn key_text(raw: &RawValue) -> Result<String> {
    if raw.get().starts_with('"') {
        let text = serde_json::from_str(raw.get());
        return text.map_err(|e| Error::invalid(format!("A partition key is invalid: {e}.")));
    }
    Ok(raw.get().to_owned())
}

/// One result, in the terms of the wire.
pub(super) struct Outcome<'a> {
    pub(super) status: u16,
    pub(super) sub_status: u16,
    pub(super) etag: Option<Etag>,
    pub(super) body: &'a [u8],
    retry_after_ms: Option<u64>,
    pub(super) charge: f64,
    pub(super) message: Option<String>,
}

impl<'a> Outcome<'a> {
    pub(super) fn of(answer: &'a BatchAnswer) -> Self {
        let mut outcome = Outcome {
            status: error::status_of(answer),
            sub_status: 0,
            etag: None,
            body: &[],
            retry_after_ms: None,
            charge: answer.charge(),
            message: None,
        };
        match answer {
            BatchAnswer::Read(item) | BatchAnswer::NotModified(item) => {
                (outcome.etag, outcome.body) = (Some(item.stamp.etag), &item.body);
            }
            BatchAnswer::Written(item) if item.outcome != ItemOutcome::Deleted => {
                (outcome.etag, outcome.body) = (Some(item.stamp.etag), &item.body);
            }
            BatchAnswer::Failed(refusal) => {
                let wire = WireError::of(refusal);
                outcome.sub_status = wire.sub_status;
                outcome.retry_after_ms = wire.retry_after_ms;
                outcome.message = Some(error::text(refusal));
            }
            BatchAnswer::Written(_) | BatchAnswer::Dependent(_) => {}
        }
        outcome
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let mut text = format!("{{\"statusCode\":{}", self.status);
        if self.sub_status != 0 {
            let _ = write!(text, ",\"subStatusCode\":{}", self.sub_status);
        }
        let _ = write!(text, ",\"requestCharge\":{}", self.charge);
        if let Some(etag) = self.etag {
            text.push_str(",\"eTag\":");
            write_json_string(&etag.to_string(), &mut text);
        }
        if let Some(ms) = self.retry_after_ms {
            let _ = write!(text, ",\"retryAfterMilliseconds\":{ms}");
        }
        if let Some(message) = &self.message {
            text.push_str(",\"message\":");
            write_json_string(message, &mut text);
        }
        out.extend_from_slice(text.as_bytes());
        if !self.body.is_empty() {
            out.extend_from_slice(b",\"resourceBody\":");
            out.extend_from_slice(self.body);
        }
        out.push(b'}');
    }

    fn to_row(&self) -> ResultRow {
        ResultRow {
            status: self.status.into(),
            sub_status: self.sub_status.into(),
            etag: self.etag.map(|etag| etag.to_string()),
            resource_body: (!self.body.is_empty()).then(|| self.body.to_vec()),
            retry_after_ms: self.retry_after_ms.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)),
            request_charge: Some(self.charge),
        }
    }
}

/// Writes the results.
pub(crate) fn encode(form: BatchFormat, answers: &[BatchAnswer]) -> Vec<u8> {
    let outcomes = answers.iter().map(Outcome::of);
    match form {
        BatchFormat::HybridRow => {
            let rows: Vec<ResultRow> = outcomes.map(|outcome| outcome.to_row()).collect();
            hybrid_row::encode_results(&rows)
        }
        BatchFormat::Json => {
            let mut out = vec![b'['];
            for (at, outcome) in outcomes.enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                outcome.write_json(&mut out);
            }
            out.push(b']');
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Vec<BatchOperation>> {
        let text = Bytes::copy_from_slice(text.as_bytes());
        decode(&text, Content::Full).map(|(_, operations)| operations)
    }

    #[test]
    fn bodies_are_the_text_that_was_sent() {
        let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        for body in [r#"{ "id" : "a" , "n": 1.0 }"#, "7", &deep] {
            let operations = format!(r#"[{{"resourceBody":{body},"operationType":"create"}}]"#);
            let operations = decoded(&operations).expect("an operation");
            let BatchAction::Create(found) = &operations[0].action else { panic!("a create") };
            assert_eq!(found, body.as_bytes());
        }
    }

    #[test]
    fn a_partition_key_is_an_array_or_a_text_that_holds_one() {
        for key in [r#""[\"p\"]""#, r#"["p"]"#, r#" [ "p" ]"#] {
            let text = format!(r#"[{{"operationType":"Read","id":"a","partitionKey":{key}}}]"#);
            let operation = decoded(&text).expect(key).remove(0);
            assert_eq!(operation.partition_key.expect(key).to_header(), r#"["p"]"#);
        }
        for key in ["7", r#""p""#, "{}", r#""[[]]""#] {
            let text = format!(r#"[{{"operationType":"Read","id":"a","partitionKey":{key}}}]"#);
            assert!(decoded(&text).is_err(), "{key}");
        }
    }

    #[test]
    fn what_is_null_is_not_there() {
        let text = r#"[{"operationType":"Read","id":"a","partitionKey":null,"ifMatch":null,
            "resourceBody":null,"minimalReturnPreference":null,"later":[{}]}]"#;
        let operation = decoded(text).expect("a read").remove(0);
        assert!(operation.partition_key.is_none() && operation.conditions.if_match.is_none());
    }

    #[test]
    fn operations_past_the_limit_are_counted_and_not_kept() {
        let text = format!("[{}1]", r#"{"operationType":"Read","id":"a"},"#.repeat(50_000));
        assert_eq!(decoded(&text).expect("operations").len(), limits::BATCH_OPERATIONS_MAX + 1);
    }

    #[test]
    fn a_result_leaves_out_what_it_has_not() {
        let answers = [
            BatchAnswer::Dependent(0.0),
            BatchAnswer::Failed(Error::RateLimited { retry_after_ms: 12 }),
            BatchAnswer::Failed(Error::internal("a secret")),
        ];
        let text = String::from_utf8(encode(BatchFormat::Json, &answers)).expect("JSON is UTF-8");
        let (first, rest) = text.split_once(r#",{"statusCode":429"#).expect("three results");
        assert_eq!(first, r#"[{"statusCode":424,"requestCharge":0}"#);
        assert!(
            rest.starts_with(r#","subStatusCode":3200,"requestCharge":1,"retryAfterM"#),
            "{rest}"
        );
        assert!(rest.contains(r#"{"statusCode":500,"#) && !rest.contains("secret"), "{rest}");
        let rows =
            hybrid_row::decode_results(&encode(BatchFormat::HybridRow, &answers)).expect("rows");
        let found: Vec<_> = rows.iter().map(|row| (row.status, row.retry_after_ms)).collect();
        assert_eq!(found, [(424, None), (429, Some(12)), (500, None)]);
    }
}
