//! The shell as a person uses it: on a terminal, with editing, completion, history and Ctrl-C.

use crate::process::{Running, orrery};
use crate::terminal::Terminal;
use crate::tool::{Tool, at, with};
use crate::transfer::{BOOKS, MEMORY, import, lines};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const UP: &str = "\u{1b}[A";

struct Shell {
    tool: Tool,
    server: [String; 4],
    _running: Running,
}

impl Shell {
    /// A server with 50 books.
    fn new() -> Self {
        let (tool, running) = (Tool::new(), Running::start(&MEMORY));
        let server = at(&running);
        let file = tool.write("books.jsonl", &lines(0..50));
        tool.must(&with(&import(&file, &[]), &server));
        Self { tool, server, _running: running }
    }

    fn open(&self, no_color: bool) -> Terminal {
        let arguments = [&["query"], &BOOKS[..]].concat();
        let mut command = orrery(&with(&arguments, &self.server));
        command.env("XDG_STATE_HOME", self.tool.folder.path().join("state"));
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let mut terminal = Terminal::start(command);
        terminal.wait_for("shop/books> ");
        terminal
    }
}

#[test]
fn lines_are_edited_completed_and_remembered() {
    let shell = Shell::new();
    let mut terminal = shell.open(false);
    // Tab completes the keyword; what is open goes on in the next line.
    terminal.press("sel\t VALUE COUNT(\r1) FROM c\r");
    terminal.wait_for("50");
    terminal.wait_for("shop/books> ");
    // Names of properties are known from the rows.
    terminal.press("SELECT TOP 1 * FROM c\r");
    terminal.wait_for("1 row in ");
    terminal.wait_for("shop/books> ");
    terminal.press("SELECT VALUE MAX(c.publ\t) FROM c\r");
    terminal.wait_for("p6");
    terminal.wait_for("shop/books> ");
    // Ctrl-C abandons the line, and nothing else.
    terminal.press(&format!("SELECT nonsense{CTRL_C}"));
    terminal.wait_for("shop/books> ");
    terminal.press(CTRL_D);
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");

    let mut terminal = shell.open(false);
    terminal.press(&format!("{UP}{UP}{UP}\r"));
    terminal.wait_for("50");
    terminal.press("\\quit\r");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let history = shell.tool.folder.path().join("state/orrery/history");
        let mode = std::fs::metadata(history).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn items_are_written_read_and_deleted() {
    let shell = Shell::new();
    let typed = "\\get b1 p1\n\
        \\put {\"id\":\"new\",\n \"publisher\":\"p9\",\"n\":1}\n\
        \\create {\"id\":\"new\",\"publisher\":\"p9\"}\n\
        \\put {\"id\":\"new\",\"publisher\":\"p9\",\"n\":2}\n\
        \\key p9\n\
        SELECT VALUE c.n FROM c\n\
        \\get new\n\
        \\delete new\n\
        \\delete new\n\
        \\key\n\
        \\get b1\n\
        \\put [1]\n\
        \\put\n\
        \\table\n\
        \\x\n\
        SELECT TOP 1 c.id, c.n FROM c WHERE c.id = 'b2'\n";
    let arguments = [&["query", "--lines"], &BOOKS[..]].concat();
    // Without a container on the command line, standard input is a shell's.
    let arguments: Vec<&str> =
        arguments.into_iter().filter(|a| *a != "-c" && *a != "books").collect();
    let typed = format!("\\use shop/books\n{typed}");
    let said = shell.tool.run_with(&with(&arguments, &shell.server), &typed);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains(r#"{"id":"b1","publisher":"p1""#), "{said:?}");
    assert!(said.out.contains("\n2\n") && said.out.contains("Item 'new' is deleted."), "{said:?}");
    assert!(said.out.contains("─[ 1 ]─") && said.out.contains("\nid     b2\n"), "{said:?}");
    for expected in [
        "an item with this id exists",
        "check id and partition key",
        "name the partition key, which is /publisher",
        "orrery import",
        "write \\put JSON",
    ] {
        assert!(said.err.contains(expected), "{expected}: {said:?}");
    }
}

#[test]
fn colours_are_shown_unless_no_color_is_set() {
    let shell = Shell::new();
    for no_color in [false, true] {
        let mut terminal = shell.open(no_color);
        terminal.press("\\get b1 p1\r");
        let shown = terminal.wait_for("\"p1\"");
        assert_eq!(shown.contains("\u{1b}[36m\"publisher\""), !no_color, "{shown:?}");
        terminal.press("\\quit\r");
        assert!(terminal.end().0.success());
    }
}

#[test]
fn q_ends_top_and_leaves_the_terminal_as_it_was() {
    let shell = Shell::new();
    let command = orrery(&with(&["top", "--interval", "0.2"], &shell.server));
    let mut terminal = Terminal::start(command);
    terminal.wait_for("operations/s");
    terminal.press("q");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");
}
