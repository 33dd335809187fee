//! Starts that cannot succeed: each ends with one line that says what to do.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::orrery;

/// Runs a start that must fail, and compares its one line.
#[track_caller]
fn check(mut command: Command, expected: &[&str]) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    let said = said.trim_end();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("orrery: "), "{said}");
    for part in expected {
        assert!(said.contains(part), "no '{part}' in: {said}");
    }
}

fn serve(data: &Path) -> Command {
    let data = data.to_str().unwrap();
    orrery(&["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data", data])
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["serve", "--memory", "--log", "error", "--listen", &address];
    check(orrery(&arguments), &[&address, "in use", "--listen"]);
}

#[test]
fn an_address_of_another_machine_is_named() {
    // Reserved for documentation, so no machine has it.
    let arguments = ["serve", "--memory", "--log", "error", "--listen", "192.0.2.1:8081"];
    check(orrery(&arguments), &["192.0.2.1:8081", "this machine has no such address", "--listen"]);
}

#[test]
fn data_of_a_newer_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("FORMAT"), "orrery-format 99\n").unwrap();
    check(serve(folder.path()), &["orrery-format 99", "version"]);
    assert_eq!(fs::read_to_string(store.join("FORMAT")).unwrap(), "orrery-format 99\n");
}

#[test]
fn a_file_in_place_of_the_folder_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    check(serve(file.path()), &[file.path().to_str().unwrap(), "choose another folder"]);
}

#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // The user who creates a file owns it.
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}

/// A command whose program lies where a user without rights reaches it; the target folder may be closed to that user.
#[cfg(unix)]
fn without_rights(folder: &Path, command: &Command) -> Command {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("orrery");
    fs::copy(env!("CARGO_BIN_EXE_orrery"), &program).unwrap();
    let mut moved = Command::new(program);
    moved.args(command.get_args());
    moved
}

/// Root may write anywhere, so there the server is started as a user without rights.
#[cfg(unix)]
#[test]
fn a_folder_of_somebody_else_is_named_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;

    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o500)).unwrap();
    let mut command = serve(&theirs);
    if is_root() {
        command = without_rights(folder.path(), &command);
        command.uid(65534).gid(65534);
    }
    check(command, &[theirs.to_str().unwrap(), "the user who owns the folder", "--data"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_port_that_needs_an_administrator_is_named() {
    use std::os::unix::process::CommandExt as _;

    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--log", "error", "--listen", "127.0.0.1:81"];
    let mut command = orrery(&arguments);
    if is_root() {
        command = without_rights(folder.path(), &command);
        command.uid(65534).gid(65534);
    }
    // Some systems let everybody have every port.
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u16>().unwrap() > 81 {
        check(command, &["127.0.0.1:81", "ports below 1024", "--listen"]);
    }
}

/// Runs a command in a mount namespace of its own with a file system over a folder.
#[cfg(target_os = "linux")]
fn check_mounted(options: &str, folder: &Path, plain: &Command, expected: &[&str]) {
    if !is_root() {
        return;
    }
    let data = folder.to_str().unwrap();
    let mut command = Command::new("unshare");
    let script = r#"mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@""#;
    command.args(["--mount", "sh", "-c", script, "sh", options, data]);
    command.arg(plain.get_program()).args(plain.get_args());
    check(command, &[&[data], expected].concat());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_is_read_only_or_full_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let start = serve(folder.path());
    check_mounted("ro", folder.path(), &start, &["read-only", "--data"]);
    // Room for the folder itself, and for nothing in it.
    check_mounted("size=4k,nr_inodes=2", folder.path(), &start, &["No space left", "--data"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_backup_and_a_restore_without_room_are_named_with_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    drop(crate::process::Running::start(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        data.path().to_str().unwrap(),
    ]));
    let full = tempfile::tempdir().unwrap();
    let [backup, inside] = [data.path().join("ours.tar.zst"), full.path().join("full.tar.zst")];
    let backup_to = |file: &Path| {
        orrery(&["backup", file.to_str().unwrap(), "--data", data.path().to_str().unwrap()])
    };
    assert!(backup_to(&backup).output().unwrap().status.success());
    let restore = ["restore", backup.to_str().unwrap(), "--data", full.path().to_str().unwrap()];
    let advice = ["No space left", "free some", "--data"];
    check_mounted("size=16k", full.path(), &orrery(&restore), &advice);
    let advice = ["full.tar.zst", "No space left", "free some space"];
    check_mounted("size=4k,nr_inodes=2", full.path(), &backup_to(&inside), &advice);
}
