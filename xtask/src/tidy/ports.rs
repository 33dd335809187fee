//! Published ports: a line of ours that starts a container and is copied must not open the server to the
//! network by accident, because its well-known key is public. A port is published on this machine only.

use super::File;
use regex::Regex;
use std::sync::LazyLock;

/// `-p`, `--publish`, or a port in a list of a compose file; the part before the ports is the address.
static PUBLISHED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:(?:\s-p|--publish)[ =]"?|- "|\["|", ")((?:[\w.\[\]:]+:)?)(\d+:\d+)\b"#)
        .expect("the pattern is valid")
});

/// The one recipe for other machines, without the well-known key, says so by its address.
const FOR_OTHERS: (&str, &str) = ("docs/operate.md", "0.0.0.0:");

pub(super) fn check(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| starts_containers(file)).flat_map(check_file).collect()
}

fn starts_containers(file: &File) -> bool {
    let is_recipe = matches!(file.extension(), "md" | "yaml" | "yml" | "sh");
    is_recipe || file.path.ends_with("Dockerfile") || file.path.ends_with("devcontainer.json")
}

fn check_file(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for found in PUBLISHED.captures_iter(line) {
            let is_local = matches!(&found[1], "127.0.0.1:" | "[::1]:");
            if !is_local && (file.path.as_str(), &found[1]) != FOR_OTHERS {
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
        let open = "docker run --publish 0.0.0.0:8081:8081 orrery";
        assert_eq!(check(&[file("docs/operate.md", open)]).len(), 0);
        assert_eq!(check(&[file("Dockerfile", "#   docker run -p 8081:8081 orrery")]).len(), 1);
    }
}
