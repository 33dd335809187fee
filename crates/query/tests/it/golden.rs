//! The golden cases under `golden/query`: items, a query, and its rows or its error. Each runs once
//! whole and once in pages of one row, which must give the same rows.

use std::path::Path;

use base64::Engine as _;
use orrery_index::IndexingPolicy;
use orrery_query::{
    BoundQuery, ComputedProperty, ContainerFacts, Geospatial, IndexedOrder, Metric, Query,
    QueryError, VectorPath,
};
use orrery_types::{Number, PropertyPath, Value};

use crate::memory::{all_rows, context};

#[test]
fn every_golden_case_holds() {
    let folder = Path::new("../../golden/query");
    let mut failures = Vec::new();
    let mut count = 0;
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the golden folder")
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read(&file).expect("a golden file");
        let cases = Value::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for case in cases.as_array().expect("an array of cases") {
            count += 1;
            if let Err(why) = check(case) {
                failures.push(format!("{}: {why}", case.get("name").to_json()));
            }
        }
    }
    assert!(count >= 351, "only {count} cases were found");
    assert!(failures.is_empty(), "{} of {count} fail:\n{}", failures.len(), failures.join("\n"));
}

fn check(case: &Value) -> Result<(), String> {
    let items = stored(case.get("docs"));
    let got = bind(case).and_then(|query| {
        let whole = all_rows(&query, &items, 1000, &context())?;
        Ok((whole, all_rows(&query, &items, 1, &context())?))
    });
    let expected_error = case.get("expectedError");
    match got {
        Err(error) if expected_error.is_undefined() => Err(format!("refused: {error}")),
        Err(error) => check_error(&error, expected_error),
        Ok((rows, _)) if !expected_error.is_undefined() => {
            Err(format!("gave rows instead of an error: {rows:?}"))
        }
        Ok((whole, paged)) => {
            check_rows(case, &whole)?;
            let shown = Value::array(paged.clone()).to_json();
            if case.get("query").to_json().contains("RAND") || whole == paged {
                Ok(())
            } else {
                Err(format!("pages of one row give other rows: {shown}"))
            }
        }
    }
}

fn bind(case: &Value) -> Result<BoundQuery, QueryError> {
    let setup = case.get("setup");
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parameters: Vec<(String, Value)> = list(case.get("parameters"))
        .iter()
        .map(|p| (text_of(p.get("name")), p.get("value").clone()))
        .collect();
    let computed: Vec<(String, String)> = list(setup.get("computedProperties"))
        .iter()
        .map(|p| (text_of(p.get("name")), text_of(p.get("query"))))
        .collect();
    let computed = ComputedProperty::parse_all(&computed)?;
    let embeddings = setup.get("vectorEmbeddingPolicy").get("vectorEmbeddings");
    let vectors: Vec<VectorPath> = list(embeddings)
        .iter()
        .map(|v| VectorPath {
            path: PropertyPath::parse(&text_of(v.get("path"))).expect("a path"),
            metric: Metric::parse(&text_of(v.get("distanceFunction"))).expect("a metric"),
        })
        .collect();
    let order = IndexedOrder::new(&policy(setup.get("indexingPolicy")));
    let has_udf = |name: &str| {
        list(setup.get("userDefinedFunctions")).iter().any(|f| f.get("id").as_str() == Some(name))
    };
    let facts = ContainerFacts {
        computed: &computed,
        has_udf: Some(&has_udf),
        order: Some(&order),
        vectors: &vectors,
        geospatial: match setup.get("geospatialConfig").get("type").as_str() {
            Some("Geometry") => Geospatial::Geometry,
            _ => Geospatial::Geography,
        },
        ..Default::default()
    };
    Query::parse(&text_of(case.get("query")))?.bind(&parameters, &facts)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_default()
}

/// The case's fragment over the default policy.
fn policy(fragment: &Value) -> IndexingPolicy {
    let default = br#"{"indexingMode":"consistent","automatic":true,
        "includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#;
    let mut policy = Value::parse(default).expect("the default policy");
    if let (Some(policy), Some(fragment)) = (policy.as_object_mut(), fragment.as_object()) {
        for (name, value) in fragment.iter() {
            policy.set(name, value.clone());
        }
    }
    IndexingPolicy::parse(&policy).expect("a policy")
}

/// Items as a store returns them, with system properties.
fn stored(docs: &Value) -> Vec<Value> {
    let with_system = |(number, doc): (usize, &Value)| {
        let mut rid = [7_u8; 16];
        rid[8..].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        let rid = base64::engine::general_purpose::STANDARD.encode(rid);
        let mut doc = doc.clone();
        let object = doc.as_object_mut().expect("an item is an object");
        object.set("_rid", rid.as_str().into());
        object.set("_self", "dbs/x/colls/y/docs/z/".into());
        object.set("_etag", "\"00000000-0000-0000-0000-000000000000\"".into());
        object.set("_attachments", "attachments/".into());
        object.set("_ts", Value::from(1_720_000_000));
        doc
    };
    list(docs).iter().enumerate().map(with_system).collect()
}

fn without_system(value: &Value) -> Value {
    let mut value = value.clone();
    match &mut value {
        Value::Object(_) => {
            let object = value.as_object_mut().expect("just matched");
            for name in ["_rid", "_self", "_etag", "_attachments", "_ts"] {
                object.remove(name);
            }
            let names: Vec<_> = object.iter().map(|(n, _)| n.clone()).collect();
            for name in names {
                let inner = without_system(object.get(&name).expect("just listed"));
                object.set(&name, inner);
            }
        }
        Value::Array(elements) => {
            return Value::array(elements.iter().map(without_system).collect());
        }
        _ => {}
    }
    value
}

fn check_error(error: &QueryError, expected: &Value) -> Result<(), String> {
    let says = expected.get("messageContains").as_str().unwrap_or_default();
    let code = expected.get("code").as_str();
    if !error.to_string().contains(says) {
        return Err(format!("the message is: {error}"));
    }
    if error.code() != code {
        return Err(format!("the code is {:?}: {error}", error.code()));
    }
    Ok(())
}

fn check_rows(case: &Value, rows: &[Value]) -> Result<(), String> {
    let tolerance = case.get("approx").as_number().map_or(0.0, Number::as_f64);
    let mut left: Vec<Value> = rows.iter().map(without_system).collect();
    let shown = Value::array(left.clone()).to_json();
    let expected = list(case.get("expected"));
    if left.len() != expected.len() {
        return Err(format!("gave {shown}"));
    }
    for row in expected {
        let same = |got: &Value| close(got, row, tolerance);
        let at = if case.get("ordered").is_true() {
            same(&left[0]).then_some(0)
        } else {
            left.iter().position(same)
        };
        match at {
            Some(at) => left.remove(at),
            None => return Err(format!("gave {shown}")),
        };
    }
    Ok(())
}

fn close(a: &Value, b: &Value, tolerance: f64) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if tolerance > 0.0 => {
            let (x, y) = (x.as_f64(), y.as_f64());
            (x - y).abs() <= tolerance * y.abs().max(1.0)
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| close(x, y, tolerance))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len()
                && x.iter().all(|(name, x)| y.get(name).is_some_and(|y| close(x, y, tolerance)))
        }
        _ => a == b,
    }
}
