//! Sign-in with tokens of a directory, and roles: in this process, and with the binary.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orrery_engine::catalog::role::{DATA_CONTRIBUTOR, DATA_READER};
use orrery_types::{Clock as _, Value};
use serde_json::json;

use crate::client::{Answer, Client, Connection};
use crate::issuer::{AUDIENCE, ISSUER, TestIssuer};
use crate::local::Local;
use crate::process::{Running, orrery};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
const READER: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const WRITER: &str = "aaaaaaaa-0000-0000-0000-000000000002";
const GROUP: &str = "bbbbbbbb-0000-0000-0000-000000000001";

fn sub_status(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.header("x-ms-substatus").unwrap_or("-"))
}

fn assign(local: &Local, role: &str, principal: &str, scope: &str) -> String {
    let body =
        format!(r#"{{"roleDefinitionId":"{role}","principalId":"{principal}","scope":"{scope}"}}"#);
    let made = local.must("POST", "/_roleassignments", &[], &body);
    let made = Value::parse(made.body.as_bytes()).unwrap();
    made.get("id").as_str().unwrap().to_owned()
}

/// A container with an item, a reader and a writer.
fn shop() -> Local {
    let local = Local::start();
    local.must("POST", "/dbs", &[], r#"{"id":"d"}"#);
    let container = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;
    local.must("POST", "/dbs/d/colls", &[], container);
    local.must("POST", DOCS, &[KEY], r#"{"id":"a","p":"p"}"#);
    assign(&local, DATA_READER, READER, "/dbs/d/colls/c");
    assign(&local, DATA_CONTRIBUTOR, WRITER, "/dbs/d");
    local
}

fn token(local: &Local, principal: &str) -> String {
    local.issuer.token(principal, local.clock.now_s())
}

#[test]
fn roles_decide_what_the_holder_of_a_token_does() {
    let local = shop();
    let (reader, writer) = (token(&local, READER), token(&local, WRITER));
    let item = format!("{DOCS}/a");
    assert_eq!(local.send_as(&reader, "GET", "/", &[], "").status, 200);
    assert_eq!(local.send_as(&reader, "GET", &item, &[KEY], "").status, 200);
    let refused = local.send_as(&reader, "POST", DOCS, &[KEY], r#"{"id":"b","p":"p"}"#);
    assert_eq!(sub_status(&refused), (403, "5302"));
    let expected = format!(
        "Request blocked by Auth orrery : Request is blocked because principal [{READER}] does not have \
         required RBAC permissions to perform action [Microsoft.DocumentDB/databaseAccounts/sqlDatabases/\
         containers/items/create] on resource [dbs/d/colls/c]. Learn more: \
         https://aka.ms/cosmos-native-rbac."
    );
    assert!(refused.body.contains(&expected), "{}", refused.body);
    assert_eq!(sub_status(&local.send_as(&reader, "GET", "/dbs/d", &[], "")), (403, "5301"));
    let made = local.send_as(&writer, "POST", DOCS, &[KEY], r#"{"id":"b","p":"p"}"#);
    assert_eq!(made.status, 201);
    let refused = local.send_as(&writer, "POST", "/dbs", &[], r#"{"id":"e"}"#);
    assert_eq!(sub_status(&refused), (403, "5300"));
    let expected = "The given request [POST /dbs] cannot be authorized by AAD token in data plane.";
    assert!(refused.body.contains(expected), "{}", refused.body);
    let nobody = token(&local, "nobody");
    let refused = local.send_as(&nobody, "GET", "/", &[], "");
    assert_eq!(sub_status(&refused), (403, "5301"));
    assert!(refused.body.contains("on any scope"), "{}", refused.body);
}

#[test]
fn a_batch_needs_the_action_of_each_of_its_operations() {
    let local = shop();
    let reader = token(&local, READER);
    let batch = ("x-ms-cosmos-is-batch-request", "True");
    let send = |token: &str, body: &str| {
        local.send_as(
            token,
            "POST",
            DOCS,
            &[KEY, batch, ("x-ms-cosmos-batch-atomic", "True")],
            body,
        )
    };
    let read = r#"{"operationType":"Read","id":"a"}"#;
    assert_eq!(send(&reader, &format!("[{read}]")).status, 200);
    let write = r#"{"operationType":"Create","resourceBody":{"id":"b","p":"p"}}"#;
    let refused = send(&reader, &format!("[{read},{write}]"));
    assert_eq!(sub_status(&refused), (403, "5302"));
    assert_eq!(local.send("GET", &format!("{DOCS}/b"), &[KEY], "").status, 404);
    assert_eq!(send(&token(&local, WRITER), &format!("[{read},{write}]")).status, 200);
    assert_eq!(sub_status(&send(&token(&local, "nobody"), &format!("[{read}]"))), (403, "5302"));
}

#[test]
fn a_write_with_triggers_needs_the_right_to_run_code() {
    let local = shop();
    let trigger =
        r#"{"id":"t","body":"function () {}","triggerType":"Pre","triggerOperation":"All"}"#;
    local.must("POST", "/dbs/d/colls/c/triggers", &[], trigger);
    let role = r#"{"id":"cccccccc-0000-0000-0000-000000000001","roleName":"creator",
        "assignableScopes":["/dbs/d"],"permissions":[{"dataActions":[
        "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create"]}]}"#;
    local.must("POST", "/_roledefinitions", &[], role);
    assign(&local, "cccccccc-0000-0000-0000-000000000001", "creator", "/dbs/d/colls/c");
    let creator = token(&local, "creator");
    let named = [KEY, ("x-ms-documentdb-pre-trigger-include", "t")];
    let refused = local.send_as(&creator, "POST", DOCS, &named, r#"{"id":"b","p":"p"}"#);
    assert_eq!(sub_status(&refused), (403, "5302"));
    assert!(refused.body.contains("executeStoredProcedure"), "{}", refused.body);
    let plain = local.send_as(&creator, "POST", DOCS, &[KEY], r#"{"id":"b","p":"p"}"#);
    assert_eq!(plain.status, 201);
    let writer = token(&local, WRITER);
    let made = local.send_as(&writer, "POST", DOCS, &named, r#"{"id":"x","p":"p"}"#);
    assert_eq!(made.status, 201);
}

#[test]
fn groups_have_roles_and_revocation_counts_at_once() {
    let local = shop();
    let now_s = local.clock.now_s();
    let mut claims = TestIssuer::claims("member", now_s);
    claims["groups"] = json!(["x", GROUP.to_uppercase()]);
    let member = local.issuer.sign(&claims);
    let item = format!("{DOCS}/a");
    assert_eq!(local.send_as(&member, "GET", &item, &[KEY], "").status, 403);
    let assignment = assign(&local, DATA_READER, GROUP, "/");
    assert_eq!(local.send_as(&member, "GET", &item, &[KEY], "").status, 200);
    local.must("DELETE", &format!("/_roleassignments/{assignment}"), &[], "");
    assert_eq!(local.send_as(&member, "GET", &item, &[KEY], "").status, 403);
}

#[test]
fn a_role_at_a_deleted_container_opens_nothing_until_its_name_exists_again() {
    let local = shop();
    let reader = token(&local, READER);
    let by_rid =
        Value::parse(local.must("GET", "/dbs/d/colls/c", &[], "").body.as_bytes()).unwrap();
    let by_rid = format!("/{}docs", by_rid.get("_self").as_str().unwrap());
    assert_eq!(local.send_as(&reader, "GET", &by_rid, &[KEY], "").status, 200);
    local.must("DELETE", "/dbs/d/colls/c", &[], "");
    assert_eq!(local.send_as(&reader, "GET", DOCS, &[KEY], "").status, 404);
    assert_eq!(sub_status(&local.send_as(&reader, "GET", &by_rid, &[KEY], "")), (403, "5303"));
    let container = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;
    local.must("POST", "/dbs/d/colls", &[], container);
    assert_eq!(local.send_as(&reader, "GET", DOCS, &[KEY], "").status, 200);
}

#[test]
fn tokens_that_are_not_accepted_have_the_sub_status_of_the_service() {
    let local = shop();
    let now_s = local.clock.now_s();
    let signed = |name: &str, value: serde_json::Value| {
        let mut claims = TestIssuer::claims(READER, now_s);
        claims[name] = value;
        local.issuer.sign(&claims)
    };
    let good = token(&local, READER);
    let stranger = TestIssuer::new().token(READER, now_s);
    let unknown = TestIssuer::with_key_id("k2").token(READER, now_s);
    for (token, expected) in [
        ("abc".to_owned(), "5003"),
        (stranger, "5004"),
        (unknown, "5200"),
        (signed("nbf", json!(now_s + 1000)), "5005"),
        (signed("exp", json!(now_s - 1000)), "5006"),
        (signed("iss", json!("https://evil.example/")), "5007"),
        (signed("aud", json!("https://cosmos.azure.com")), "5008"),
        (signed("oid", json!(null)), "5011"),
    ] {
        let answer = local.send_as(&token, "GET", "/", &[], "");
        assert_eq!(sub_status(&answer), (401, expected), "{}", answer.body);
        assert!(answer.body.contains(r#""code":"Unauthorized""#), "{}", answer.body);
    }
    // Replayed: accepted as long as it is valid, and not afterwards.
    assert_eq!(local.send_as(&good, "GET", "/", &[], "").status, 200);
    local.clock.advance_s(3600 + 299);
    assert_eq!(local.send_as(&good, "GET", "/", &[], "").status, 200);
    local.clock.advance_s(1);
    assert_eq!(sub_status(&local.send_as(&good, "GET", "/", &[], "")), (401, "5006"));
}

#[test]
fn roles_and_assignments_that_are_wrong_are_refused() {
    let local = shop();
    let action = "Microsoft.DocumentDB/databaseAccounts/readMetadata";
    let role = |more: &str| {
        format!(
            r#"{{"roleName":"r","assignableScopes":["/dbs/d"],"permissions":[{{"dataActions":["{action}"]}}]{more}}}"#
        )
    };
    let post = |path: &str, body: &str| local.send("POST", path, &[], body);
    let id = "cccccccc-0000-0000-0000-000000000001";
    let made = post("/_roledefinitions", &role(&format!(r#","id":"{id}""#)));
    assert_eq!(made.status, 201, "{}", made.body);
    // The same name, a malformed id, an unknown action, another type, exclusions, no scope.
    assert_eq!(post("/_roledefinitions", &role("")).status, 409);
    for body in [
        role(r#","id":"no guid""#),
        role("").replace("readMetadata", "write"),
        role(r#","type":"BuiltInRole""#),
        role("").replace(r#""]}"#, r#""],"notDataActions":["x"]}"#),
        role("").replace("/dbs/d", "dbs/d"),
        role("").replace(r#"["/dbs/d"]"#, "[]"),
        "[]".to_owned(),
    ] {
        let body = body.replace(r#""roleName":"r""#, r#""roleName":"s""#);
        assert_eq!(post("/_roledefinitions", &body).status, 400, "{body}");
    }
    let built_in = format!("/_roledefinitions/{DATA_READER}");
    assert_eq!(local.send("PUT", &built_in, &[], &role("")).status, 400);
    assert_eq!(local.send("DELETE", &built_in, &[], "").status, 400);
    let assignment = |role: &str, scope: &str| {
        format!(r#"{{"roleDefinitionId":"{role}","principalId":"x","scope":"{scope}"}}"#)
    };
    for (role, scope) in [(id, "/"), (id, "/dbs/e"), (READER, "/dbs/d"), (id, "/dbs/d/x/y")] {
        assert_eq!(post("/_roleassignments", &assignment(role, scope)).status, 400, "{scope}");
    }
    // As the management plane of the service has it.
    let account =
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.DocumentDB/databaseAccounts/a";
    let arm = format!(
        r#"{{"properties":{{"roleDefinitionId":"{account}/sqlRoleDefinitions/{id}","principalId":"x",
            "scope":"{account}/dbs/d"}}}}"#
    );
    let path = "/_roleassignments/cccccccc-0000-0000-0000-00000000000a";
    assert_eq!(local.send("PUT", path, &[], &arm).status, 201);
    assert_eq!(local.send("PUT", path, &[], &arm).status, 200);
    assert_eq!(post("/_roleassignments", &assignment(id, "/dbs/d")).status, 409);
    assert_eq!(local.send("DELETE", &format!("/_roledefinitions/{id}"), &[], "").status, 400);
    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    assert_eq!(local.send("DELETE", path, &stale, "").status, 412);
    assert_eq!(local.send("DELETE", path, &[], "").status, 204);
    assert_eq!(local.send("DELETE", path, &[], "").status, 404);
    assert_eq!(local.send("DELETE", &format!("/_roledefinitions/{id}"), &[], "").status, 204);
}

fn now_s() -> u64 {
    orrery_types::SystemClock.now_s()
}

/// A server of a directory's tokens alone.
fn serve(folder: &Path, jwks: &str, more: &[&str]) -> Running {
    let data = folder.join("data");
    let own = [
        "serve",
        "--data",
        data.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--log",
        "warn",
        "--entra-issuers",
        ISSUER,
        "--entra-audiences",
        AUDIENCE,
        "--entra-jwks",
        jwks,
        "--entra-administrators",
        "admin",
    ];
    Running::start(&[&own[..], more].concat())
}

fn ask(server: &Running, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = [("authorization".to_owned(), format!("type=aad&ver=1.0&sig={token}")), {
        let (name, value) = KEY;
        (name.to_owned(), value.to_owned())
    }];
    let mut connection = Connection::open(server.address()).unwrap();
    connection.send(method, path, &headers, body.as_bytes()).unwrap()
}

fn role(server: &Running, token: &str, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}", server.address());
    let server = ["--endpoint", &endpoint, "--token", token];
    orrery(&[&["role"], arguments, &server[..]].concat()).output().unwrap()
}

#[test]
fn with_keys_switched_off_an_administrator_gives_roles_which_outlive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = TestIssuer::new();
    let jwks = folder.path().join("jwks.json");
    issuer.write_key_set(&jwks);
    let jwks = jwks.to_str().unwrap();
    let server = serve(folder.path(), jwks, &["--disable-keys"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let refused = client.send("GET", "/dbs", &[], "").unwrap();
    assert_eq!(sub_status(&refused), (401, "5202"));
    assert!(refused.body.contains("Local Authorization is disabled."), "{}", refused.body);
    let (admin, user) = (issuer.token("admin", now_s()), issuer.token(READER, now_s()));
    assert_eq!(ask(&server, &admin, "POST", "/dbs", r#"{"id":"d"}"#).status, 201);
    let container = r#"{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}"#;
    assert_eq!(ask(&server, &admin, "POST", "/dbs/d/colls", container).status, 201);
    assert_eq!(ask(&server, &user, "GET", DOCS, "").status, 403);
    let create = ["create", "feed reader", "--actions", "readMetadata,readChangeFeed"];
    let made = role(&server, &admin, &create);
    assert!(made.status.success(), "{made:?}");
    let assign = ["assign", "feed reader", "--principal", READER, "--scope", "/dbs/d/colls/c"];
    let made = role(&server, &admin, &assign);
    assert!(made.status.success(), "{made:?}");
    assert_eq!(ask(&server, &user, "GET", DOCS, "").status, 200);
    let listed = role(&server, &admin, &["list", "--json"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("feed reader") && listed.contains(DATA_CONTRIBUTOR), "{listed}");
    let refused = role(&server, &user, &["list"]);
    assert!(!refused.status.success(), "a role gives no right to see roles");
    drop(server);
    let server = serve(folder.path(), jwks, &["--disable-keys"]);
    assert_eq!(ask(&server, &user, "GET", DOCS, "").status, 200);
    let shown = role(&server, &admin, &["show", "feed reader"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("readChangeFeed"), "{shown:?}");
    let revoked = role(&server, &admin, &["revoke", "--principal", READER]);
    assert!(revoked.status.success(), "{revoked:?}");
    assert_eq!(ask(&server, &user, "GET", DOCS, "").status, 403);
    assert!(role(&server, &admin, &["delete", "feed reader", "--yes"]).status.success());
}

#[test]
fn keys_that_an_issuer_rotates_in_its_file_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let jwks = folder.path().join("jwks.json");
    let (old, new) = (TestIssuer::new(), TestIssuer::with_key_id("k2"));
    old.write_key_set(&jwks);
    let server = serve(folder.path(), jwks.to_str().unwrap(), &[]);
    let (before, after) = (old.token("admin", now_s()), new.token("admin", now_s()));
    assert_eq!(ask(&server, &before, "GET", "/dbs", "").status, 200);
    assert_eq!(sub_status(&ask(&server, &after, "GET", "/dbs", "")), (401, "5200"));
    new.write_key_set(&jwks);
    until(|| ask(&server, &after, "GET", "/dbs", "").status == 200);
    assert_eq!(sub_status(&ask(&server, &before, "GET", "/dbs", "")), (401, "5200"));
    // A file that is broken leaves the keys as they are.
    std::fs::write(&jwks, "{").unwrap();
    let later = std::fs::metadata(&jwks).unwrap().modified().unwrap() + Duration::from_secs(5);
    std::fs::File::open(&jwks).unwrap().set_modified(later).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(ask(&server, &after, "GET", "/dbs", "").status, 200);
}

/// Waits until something is so.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it never is");
}

/// Serves a document and counts how often it is asked for.
fn publish(document: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let length = document.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{document}");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, asked)
}

#[test]
fn a_storm_of_unknown_keys_does_not_reach_the_issuer() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = TestIssuer::new();
    let (url, asked) = publish(issuer.key_set());
    let server = serve(folder.path(), &url, &[]);
    let admin = issuer.token("admin", now_s());
    until(|| ask(&server, &admin, "GET", "/dbs", "").status == 200);
    for n in 0..300 {
        let token = TestIssuer::with_key_id(&format!("unknown {n}")).token("admin", now_s());
        assert_eq!(sub_status(&ask(&server, &token, "GET", "/dbs", "")), (401, "5200"));
    }
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(ask(&server, &admin, "GET", "/dbs", "").status, 200);
}

#[test]
fn settings_without_which_tokens_prove_nothing_keep_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.json");
    let refused = |arguments: &[&str]| {
        let own = ["serve", "--memory", "--listen", "127.0.0.1:0"];
        let output = orrery(&[&own[..], arguments].concat()).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--disable-keys"]).contains("nobody could sign in"));
    assert!(refused(&["--entra-issuers", ISSUER]).contains("--entra-audiences"));
    let whole = ["--entra-issuers", ISSUER, "--entra-audiences", AUDIENCE, "--entra-jwks"];
    let with = |place: &str| refused(&[&whole[..], &[place]].concat());
    assert!(with(missing.to_str().unwrap()).contains("missing.json"));
    assert!(with("http://issuer.example/keys").contains("https URL"));
}
