//! A query on its way to the server and back, page by page. The server answers whole queries over
//! all partitions, so nothing is merged here.

use anyhow::{Context as _, Result, bail};
use orrery_server::wire::headers;
use orrery_types::{Object, Value};
use percent_encoding::percent_decode_str;

use super::mistake;
use crate::account;
use crate::remote::Remote;

/// Rows asked for at once.
const PAGE_ROWS: usize = 1000;

/// What is asked, and of which part of which container.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) database: String,
    pub(crate) container: String,
    pub(crate) text: String,
    pub(crate) parameters: Vec<(String, Value)>,
    /// As the header spells it.
    pub(crate) partition_key: Option<String>,
    pub(crate) explain: bool,
}

/// One page of the answer.
#[derive(Debug)]
pub(crate) struct ResultPage {
    pub(crate) rows: Vec<Value>,
    pub(crate) charge: f64,
    pub(crate) plan: Option<Value>,
}

/// The pages of an answer, each fetched when it is asked for.
pub(crate) struct Pages<'r> {
    remote: &'r mut Remote,
    question: &'r Question,
    continuation: Option<String>,
    ended: bool,
}

impl<'r> Pages<'r> {
    pub(crate) fn new(remote: &'r mut Remote, question: &'r Question) -> Self {
        Self { remote, question, continuation: None, ended: false }
    }

    /// The next page; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<ResultPage>> {
        if self.ended {
            return Ok(None);
        }
        let Question { database, container, text, partition_key, explain, .. } = self.question;
        let path = format!("/dbs/{database}/colls/{container}/docs");
        let count = PAGE_ROWS.to_string();
        let mut sent = vec![
            ("content-type", "application/query+json"),
            (headers::IS_QUERY, "true"),
            (headers::ENABLE_CROSS_PARTITION, "true"),
            (headers::MAX_ITEM_COUNT, &*count),
        ];
        sent.extend(partition_key.as_deref().map(|key| (headers::PARTITION_KEY, key)));
        sent.extend(self.continuation.as_deref().map(|token| (headers::CONTINUATION, token)));
        if *explain {
            sent.push((headers::EXPLAIN, "true"));
        }
        let answer =
            account::send(self.remote, "POST", &path, &sent, self.question.body().as_bytes())?;
        if answer.status >= 400 {
            return Err(mistake::explained(text, &path, &answer));
        }
        self.continuation = answer.header(headers::CONTINUATION).map(str::to_owned);
        self.ended = self.continuation.is_none();
        let body = Value::parse(&answer.body).context("the server's answer is not JSON")?;
        let Some(rows) = body.get("Documents").as_array() else {
            return Err(account::not_an_account());
        };
        let plan = answer.header(headers::PLAN).map(read_plan).transpose()?;
        if *explain && plan.is_none() {
            bail!("the server sent no plan: --explain works with Orrery only");
        }
        let charge = answer.header(headers::REQUEST_CHARGE).and_then(|text| text.parse().ok());
        Ok(Some(ResultPage { rows: rows.to_vec(), charge: charge.unwrap_or(0.0), plan }))
    }
}

impl Question {
    fn body(&self) -> String {
        let parameter = |(name, value): &(String, Value)| {
            let mut object = Object::new();
            object.set("name", name.as_str().into());
            object.set("value", value.clone());
            Value::object(object)
        };
        let mut object = Object::new();
        object.set("query", self.text.as_str().into());
        object.set("parameters", Value::array(self.parameters.iter().map(parameter).collect()));
        Value::object(object).to_json()
    }
}

fn read_plan(header: &str) -> Result<Value> {
    let text = percent_decode_str(header).decode_utf8().context("the plan is not text")?;
    Value::parse(text.as_bytes()).context("the plan is not JSON")
}

/// A value as people type it: JSON, or else a text that needs no quotes.
pub(crate) fn typed(text: &str) -> Value {
    Value::parse(text.as_bytes()).unwrap_or_else(|_| text.into())
}

/// A parameter as `name=value`; the name may have its `@` or not.
pub(crate) fn parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as name=value")?;
    let name = name.trim();
    if name.trim_start_matches('@').is_empty() {
        return Err("the name before '=' is missing".into());
    }
    let name = if name.starts_with('@') { name.to_owned() } else { format!("@{name}") };
    Ok((name, typed(value)))
}

/// A partition key as the header spells it: a list, from a list or from one value.
pub(crate) fn partition_key(text: &str) -> String {
    match typed(text) {
        Value::Array(levels) => Value::Array(levels).to_json(),
        one => Value::array(vec![one]).to_json(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_json_or_plain_text() {
        let check = |text: &str, name: &str, value: &str| {
            let (found, given) = parameter(text).unwrap();
            assert_eq!((found.as_str(), given.to_json().as_str()), (name, value));
        };
        check("max=50", "@max", "50");
        check("@name=Ada", "@name", "\"Ada\"");
        check("name=\"50\"", "@name", "\"50\"");
        check("list=[1,2]", "@list", "[1,2]");
        check("expr=a=b", "@expr", "\"a=b\"");
        assert!(parameter("alone").is_err() && parameter("=1").is_err());
    }

    #[test]
    fn a_partition_key_becomes_a_list() {
        let check = |text, expected| assert_eq!(partition_key(text), expected, "{text}");
        check("mspress", "[\"mspress\"]");
        check("12", "[12]");
        check("\"12\"", "[\"12\"]");
        check("[\"a\",null]", "[\"a\",null]");
    }
}
