//! Ids of items: what may be created can be read, whatever characters it has.

use orrery_types::Value;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use crate::wire_session::{THROUGHPUTS, json, with_container};

/// As clients that escape everything write it.
fn escaped(id: &str) -> String {
    percent_encode(id.as_bytes(), NON_ALPHANUMERIC).to_string()
}

#[test]
fn an_item_of_any_id_is_read_replaced_patched_and_deleted_by_it() {
    let long = "ü𝄞".repeat(170);
    let ids = [
        "Test ",
        " ",
        "a/b",
        "/",
        "a\\b",
        "a?b",
        "a#b",
        "Invalid#/\\?Id",
        "a%b",
        "a%2Fb",
        "100%",
        "tab\tid",
        "cr\rid",
        "lf\nid",
        "nul\0id",
        "\u{7f}",
        "é",
        "日本語",
        "a+b",
        "a&b=c",
        "\"quoted\"",
        "..",
        &long,
    ];
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        for id in ids {
            let text = Value::from(id).to_json();
            let body = format!(r#"{{"id":{text},"p":"p"}}"#);
            let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
            let path = format!("/dbs/d/colls/c/docs/{}", escaped(id));
            server.must("POST", "/dbs/d/colls/c/docs", &[key], &body);
            let read = server.must("GET", &path, &[key], "");
            assert_eq!(json(&read).get("id").as_str(), Some(id));
            server.must("PUT", &path, &[key], &body);
            let patch = r#"{"operations":[{"op":"set","path":"/n","value":1}]}"#;
            let patched = json(&server.must("PATCH", &path, &[key], patch));
            assert_eq!(patched.get("n").as_i64(), Some(1), "{id:?}");
            let query = format!(
                r#"{{"query":"SELECT VALUE c.id FROM c WHERE c.id = @id","parameters":[{{"name":"@id","value":{text}}}]}}"#
            );
            let found = server.must(
                "POST",
                "/dbs/d/colls/c/docs",
                &[key, ("x-ms-documentdb-isquery", "true")],
                &query,
            );
            assert_eq!(json(&found).get("_count").as_i64(), Some(1), "{id:?}");
            server.must("DELETE", &path, &[key], "");
            assert_eq!(server.send("GET", &path, &[key], "").status, 404, "{id:?}");
        }
        // As the .NET SDK sends it.
        let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
        server.must("POST", "/dbs/d/colls/c/docs", &[key], r#"{"id":"Disallowed?Chars","p":"p"}"#);
        server.must("GET", "/dbs/d/colls/c/docs/Disallowed?Chars", &[key], "");
    }
}

#[test]
fn control_characters_may_stand_raw_in_the_strings_of_a_body() {
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    let (docs, batch) = ("/dbs/d/colls/c/docs", ("x-ms-cosmos-is-batch-request", "true"));
    for (throughput, _) in THROUGHPUTS {
        let server = with_container(throughput);
        for id in ["tab\tid", "cr\rid", "lf\nid"] {
            let path = format!("{docs}/{}", escaped(id));
            let body = format!("{{\n\t\"id\":\"{id}\",\"p\":\"p\"}}");
            server.must("POST", docs, &[key], &body);
            server.must("PUT", &path, &[key], &body);
            let query = format!("{{\"query\":\"SELECT VALUE c.id FROM c WHERE c.id = '{id}'\"}}");
            let query =
                server.must("POST", docs, &[key, ("x-ms-documentdb-isquery", "true")], &query);
            let rows = json(&query);
            assert_eq!(rows.get("Documents").as_array().unwrap()[0].as_str(), Some(id));
            let operations = format!(
                "[{{\"operationType\":\"Upsert\",\"resourceBody\":{body}}},\
                 {{\"operationType\":\"Delete\",\"id\":\"{id}\"}}]"
            );
            let answer = server.must("POST", docs, &[key, batch], &operations);
            assert!(answer.body.contains("204"), "{answer:?}");
            assert_eq!(server.send("GET", &path, &[key], "").status, 404, "{id:?}");
        }
    }
}
