//! `orrery import` of files that are not quite what they should be.

use crate::process::Running;
use crate::tool::{Tool, at, with};
use crate::transfer::{MEMORY, import, items};

#[test]
fn what_an_array_may_not_hold_is_a_bad_line() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let here = at(&server);
    let one = r#"{"id":"1","publisher":"p"}"#;
    let two = r#"{"id":"2","publisher":"p"}"#;
    let file = tool.write("two.json", &format!("[{one},,\n{two}]\n[{one}]"));
    let said = tool.run(&with(&import(&file, &[]), &here));
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.out.starts_with("2 created, 2 not taken"), "{said:?}");
    assert!(said.err.contains("line 1: there is nothing between two commas"), "{said:?}");
    assert!(said.err.contains("line 3: the file goes on after the end of its array"), "{said:?}");
}

#[test]
fn a_sheet_is_read_as_it_stands() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let here = at(&server);
    let twice = tool.write("twice.csv", "id,publisher,publisher\n1,p,q\n");
    tool.refused(&with(&import(&twice, &[]), &here), 1, "names 'publisher' twice");
    let sheet = tool.write("sheet.csv", "id,publisher, note\r\n1,p,\"x\r\"\r\n");
    tool.must(&with(&import(&sheet, &[]), &here));
    assert_eq!(items(&tool, &here), [r#"{"id":"1","publisher":"p"," note":"x\r"}"#]);
}

#[test]
fn an_item_of_full_size_is_taken_and_a_larger_one_is_a_bad_line() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let here = at(&server);
    let item = |id: usize, size: usize| {
        let head = format!(r#"{{"id":"{id}","publisher":"p","text":""#);
        format!("{head}{}\"}}\n", "x".repeat(size - head.len() - 2))
    };
    let most = orrery_types::limits::ITEM_SIZE_BYTES_MAX;
    let text: String = [100, most, 100, most + 10, 3 * most, 100]
        .iter()
        .enumerate()
        .map(|(id, size)| item(id, *size))
        .collect();
    let file = tool.write("large.jsonl", &text);
    let said = tool.run(&with(&import(&file, &[]), &here));
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.out.starts_with("4 created, 2 not taken in "), "{said:?}");
    assert!(said.err.contains("line 4: ") && said.err.contains("line 5: "), "{said:?}");
    let said = tool.run(&with(&import(&file, &["--existing", "replace"]), &here));
    assert!(said.out.starts_with("0 created, 4 replaced, 2 not taken in "), "{said:?}");
    let said = tool.run(&with(&import(&file, &["--existing", "refuse"]), &here));
    assert!(said.out.starts_with("0 created, 6 not taken in "), "{said:?}");
    let said = tool.run(&with(&import(&file, &[]), &here));
    assert!(said.out.starts_with("0 created, 4 already there, 2 not taken in "), "{said:?}");
}

#[test]
fn an_object_that_is_spread_over_lines_is_refused_with_advice() {
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let here = at(&server);
    let file = tool.write("one.json", "{\n  \"id\": \"1\",\n  \"publisher\": \"p\"\n}\n");
    tool.refused(&with(&import(&file, &[]), &here), 1, "put the items into an array");
    // Lines are lines, whatever the file is called.
    let file = tool.write("lines.json", "{\"id\":\"1\",\"publisher\":\"p\"}\n");
    tool.must(&with(&import(&file, &[]), &here));
}
