//! Ctrl-C: a command ends at a safe place, says how far it got, and leaves nothing half done behind.

use std::fmt::Write as _;
use std::process::{Child, Command};

use crate::process::Running;
use crate::tool::{Tool, at, with};
use crate::transfer::{BOOKS, MEMORY, import};

/// Signals a command; one that has ended by itself cannot be.
fn interrupt(child: &Child, signal: &str) {
    let _ = Command::new("kill").args([signal, &child.id().to_string()]).output();
}

/// How it ended and what it said.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn many(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, r#"{{"id":"i{n}","publisher":"p{}","n":{n}}}"#, n % 7);
        text
    })
}

/// Whether the folder of notes holds one.
fn is_noted(tool: &Tool) -> bool {
    let notes = tool.folder.path().join("state/orrery/transfers");
    std::fs::read_dir(notes).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok()))
}

#[test]
fn an_import_says_how_far_it_got_and_continues() {
    let tool = Tool::new();
    let text = many(60_000);
    let file = tool.write("books.jsonl", &text);
    let data = tool.path("data");
    let arguments = import(&file, &["--data", &data, "--existing", "refuse"]);
    let mut child = tool.spawn(&arguments);
    while !is_noted(&tool) && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    if child.try_wait().unwrap().is_none() {
        interrupt(&child, "-INT");
        let (code, said) = ended(child);
        // It may have ended by itself at the same time.
        if code != Some(0) {
            assert_eq!(code, Some(130), "{said}");
            assert!(said.contains("interrupted: ") && said.contains(" created"), "{said}");
            assert!(said.contains("the same command continues after line "), "{said}");
            let said = tool.run(&arguments);
            assert!(said.code == 0 && said.err.contains("Continuing after line "), "{said:?}");
        }
    }
    let inspected = tool.must(&["inspect", &data, "--verify", "--json"]);
    assert!(inspected.contains(r#""items":60000,"#), "{inspected}");
}

/// A server with enough data that a backup takes a while.
fn filled(tool: &Tool) -> (Running, [String; 4]) {
    let data = tool.path("data");
    let filler = "x".repeat(500);
    let text = (0..20_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, r#"{{"id":"i{n}","publisher":"p{n}","t":"{n}{filler}{n}"}}"#);
        text
    });
    let file = tool.write("books.jsonl", &text);
    tool.must(&import(&file, &["--data", &data]));
    let server = Running::serve(tool.folder.path().join("data").as_path());
    let here = at(&server);
    (server, here)
}

#[test]
fn a_backup_and_a_restore_leave_nothing_half_done_behind() {
    let tool = Tool::new();
    let (_server, here) = filled(&tool);
    let whole = tool.path("whole.tar.zst");
    tool.must(&with(&["backup", &whole], &here));
    for signal in ["-INT", "-TERM"] {
        let file = tool.path("cut.tar.zst");
        let mut child = tool.spawn(&with(&["backup", &file], &here));
        let part = tool.folder.path().join("cut.tar.zst.part");
        while !part.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        interrupt(&child, signal);
        let (code, said) = ended(child);
        assert!(!part.exists(), "{said}");
        // What was complete before the signal came is there; otherwise nothing is.
        let is_whole = code == Some(0);
        assert_eq!(std::path::Path::new(&file).exists(), is_whole, "{code:?} {said}");
        if is_whole {
            std::fs::remove_file(&file).unwrap();
        } else {
            assert_eq!(code, Some(if signal == "-INT" { 130 } else { 143 }), "{said}");
            assert!(said.contains("interrupted; ") && said.contains("was not written"), "{said}");
        }

        let restored = tool.path("restored");
        let mut child = tool.spawn(&["restore", &whole, "--data", &restored]);
        let beside = tool.folder.path().join("restored/restore-in-progress");
        while !beside.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        interrupt(&child, signal);
        let (code, said) = ended(child);
        assert!(!beside.exists(), "{said}");
        if code == Some(0) {
            std::fs::remove_dir_all(&restored).unwrap();
        } else {
            assert!(!tool.folder.path().join("restored/store").exists(), "{said}");
            assert!(said.contains("interrupted"), "{said}");
        }
    }
}

#[test]
fn what_a_kill_has_left_is_replaced_by_the_next_attempt() {
    let tool = Tool::new();
    let (_server, here) = filled(&tool);
    let file = tool.path("b.tar.zst");
    tool.write("b.tar.zst.part", "left behind");
    tool.must(&with(&["backup", &file], &here));
    assert!(!tool.folder.path().join("b.tar.zst.part").exists());
    let beside = tool.folder.path().join("restored/restore-in-progress");
    std::fs::create_dir_all(beside.join("store")).unwrap();
    std::fs::write(beside.join("store/FORMAT"), "left behind").unwrap();
    let said = tool.must(&["restore", &file, "--data", &tool.path("restored")]);
    assert!(said.contains("20,000 items restored") && !beside.exists(), "{said}");
}

#[test]
fn a_feed_that_is_followed_ends_well_and_a_command_at_rest_ends_at_once() {
    use std::io::{BufRead as _, BufReader};
    let tool = Tool::new();
    let server = Running::start(&MEMORY);
    let server = at(&server);
    let file = tool.write("books.jsonl", &many(10));
    tool.must(&with(&import(&file, &[]), &server));
    let follow = [&["feed", "--follow"], &BOOKS[..]].concat();
    let mut child = tool.spawn(&with(&follow, &server));
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..10 {
        assert!(out.next().unwrap().unwrap().contains("\"publisher\""));
    }
    tool.must(&with(
        &[&["item", "write", r#"{"id":"new","publisher":"p"}"#], &BOOKS[..]].concat(),
        &server,
    ));
    assert!(out.next().unwrap().unwrap().contains("\"new\""));
    interrupt(&child, "-INT");
    let (code, said) = ended(child);
    assert_eq!((code, said.as_str()), (Some(0), "11 changes; stopped.\n"));
}
