//! What roles permit: every operation of the server under every role at every scope, and under each action
//! alone, as a table in `golden/auth/roles.txt`. It is made of the operations' own table, so an operation
//! that is added has a row, and shows for whom it is open.

use std::fmt::Write as _;

use orrery_engine::catalog::role::{DATA_CONTRIBUTOR, DATA_READER, DataAction};
use orrery_server::Operation;
use orrery_types::Clock as _;

use crate::auth_golden::{Bench, samples};

const PATH: &str = "../../golden/auth/roles.txt";
const C: &str = "/dbs/d/colls/c";

/// A principal, and what it has.
struct Column {
    name: String,
    token: String,
}

fn assign(bench: &Bench, number: usize, role: &str, scope: &str) -> String {
    let principal = format!("principal {number}");
    let body =
        format!(r#"{{"roleDefinitionId":"{role}","principalId":"{principal}","scope":"{scope}"}}"#);
    bench.local.must("POST", "/_roleassignments", &[], &body);
    bench.local.issuer.token(&principal, bench.local.clock.now_s())
}

fn columns(bench: &Bench) -> Vec<Column> {
    let now_s = bench.local.clock.now_s();
    let nobody = bench.local.issuer.token("nobody", now_s);
    let mut columns = vec![Column { name: "no role".into(), token: nobody }];
    let scopes = ["/", "/dbs/d", C, "/dbs/d/colls/other", "/dbs/d/colls/gone", "/dbs/else"];
    for (role, name) in [(DATA_READER, "Data Reader"), (DATA_CONTRIBUTOR, "Data Contributor")] {
        for scope in scopes {
            let token = assign(bench, columns.len(), role, scope);
            columns.push(Column { name: format!("{name} at {scope}"), token });
        }
    }
    for (number, action) in DataAction::ALL.iter().enumerate() {
        let id = format!("11111111-0000-0000-0000-{number:012}");
        let body = format!(
            r#"{{"id":"{id}","roleName":"role {number}","assignableScopes":["/"],
                "permissions":[{{"dataActions":["{}"]}}]}}"#,
            action.name()
        );
        bench.local.must("POST", "/_roledefinitions", &[], &body);
        let token = assign(bench, columns.len(), &id, C);
        let name = action.name().replace("Microsoft.DocumentDB/databaseAccounts/", "");
        columns.push(Column { name: format!("{name} at {C}"), token });
    }
    columns
}

/// A row for each request, a column for each principal.
fn table(bench: &Bench) -> String {
    let columns = columns(bench);
    let mut text = String::from(
        "# The answer to every operation under every role: the sub-status where it is refused (5300 needs a\n\
         # key, 5301 metadata, 5302 and 5303 data), else the status. Written by `cargo xtask golden`.\n\n",
    );
    for (number, column) in columns.iter().enumerate() {
        writeln!(text, "{number:>2} {}", column.name).unwrap();
    }
    let row = |name: &str, cells: Vec<String>| {
        let cells: Vec<String> = cells.into_iter().map(|cell| format!("{cell:>4}")).collect();
        format!("{name:<36} {}\n", cells.join(" "))
    };
    text += "\n";
    text += &row("", (0..columns.len()).map(|number| number.to_string()).collect());
    for operation in Operation::ALL {
        for sample in samples(*operation, &bench.rids) {
            assert_eq!(sample.operation(), *operation);
            let cell = |column: &Column| {
                let answer = bench.send_as(&column.token, &sample);
                assert_ne!(answer.status, 500, "{operation:?} under {}", column.name);
                assert_ne!(answer.status, 401, "{operation:?} under {}", column.name);
                match answer.status {
                    403 => answer.header("x-ms-substatus").unwrap_or("403").to_owned(),
                    other => other.to_string(),
                }
            };
            let name = match sample.note {
                "" => format!("{operation:?}"),
                note => format!("{operation:?}, {note}"),
            };
            text += &row(&name, columns.iter().map(cell).collect());
        }
    }
    text
}

#[test]
fn every_operation_is_open_to_the_roles_that_the_golden_table_says() {
    let bench = Bench::filled();
    bench.local.must("DELETE", "/dbs/d/colls/gone", &[], "");
    let found = table(&bench);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(PATH, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(PATH).unwrap();
    for (expected, found) in expected.lines().zip(found.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}
