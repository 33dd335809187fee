//! Published ports: whoever copies a line of ours that starts a container must not open the server, whose
//! well-known key is public, to the network. A port is published on this machine only.

use super::File;
use regex::Regex;
use std::sync::LazyLock;

/// `-p`, `--publish`, or a port in a list of a compose file; the part before the ports is the address.
static PUBLISHED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:(?:\s-p|--publish)[ =]"?|- "|\["|", ")((?:[\w.\[\]:]+:)?)(\d+:\d+)\b"#)
        .expect("the pattern is valid")
});

pub(super) fn check(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| starts_containers(file)).flat_map(check_file).collect()
}

fn starts_containers(file: &File) -> bool {
    let is_recipe = matches!(file.extension(), "md" | "yaml" | "yml" | "sh" | "json");
    is_recipe || file.path.ends_with("Dockerfile")
}

fn check_file(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for found in PUBLISHED.captures_iter(line) {
            if &found[1] != "127.0.0.1:" && &found[1] != "[::1]:" {
                let (path, ports) = (&file.path, &found[2]);
                complaints.push(format!(
                    "{path}:{number}: publishes {ports} on all interfaces; write 127.0.0.1:{ports}"
                ));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_port_on_all_interfaces_is_found_in_every_form() {
        for open in [
            "docker run -p 8081:8081 orrery",
            "docker run --publish=8081:8081 orrery",
            "docker run -p 0.0.0.0:8081:8081 orrery",
            "      - \"8081:8081\"",
            "    ports: [\"8081:8081\", \"127.0.0.1:1234:1234\"]",
            "    ports: [\"127.0.0.1:8081:8081\", \"1234:1234\"]",
        ] {
            assert_eq!(check(&[file("docs/start.md", open)]).len(), 1, "{open}");
        }
        for closed in [
            "docker run -p 127.0.0.1:8081:8081 orrery",
            "      - \"127.0.0.1:8081:8081\"",
            "    ports: [\"127.0.0.1:8081:8081\", \"127.0.0.1:1234:1234\"]",
            "at 10:20, or {\"a\": \"12:30\"}",
        ] {
            assert_eq!(check(&[file("packaging/compose.yaml", closed)]).len(), 0, "{closed}");
        }
        assert_eq!(check(&[file("Dockerfile", "#   docker run -p 8081:8081 orrery")]).len(), 1);
    }
}
