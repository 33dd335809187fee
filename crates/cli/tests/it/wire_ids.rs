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
