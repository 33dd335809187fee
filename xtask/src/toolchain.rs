//! The tools of other languages: is one here, and is it new enough? Suites and examples that need one
//! are skipped where it is missing, with the sentence that is made here.

use std::process::Command;

/// A language whose tools are not part of what `scripts/setup.sh` installs, or not everywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Go,
    Java,
    JavaScript,
    Python,
}

/// A program, how it tells its version, the least that will do, and what installs it on Debian.
struct Tool {
    program: &'static str,
    question: &'static str,
    min: (u32, u32),
    package: &'static str,
}

impl Language {
    /// The official SDKs set the versions: the Go SDK asks for 1.25, the tests in Java are written
    /// for 17.
    fn tools(self) -> &'static [Tool] {
        match self {
            Self::Go => {
                &[Tool { program: "go", question: "version", min: (1, 25), package: "golang-go" }]
            }
            Self::Java => &[
                Tool {
                    program: "javac",
                    question: "-version",
                    min: (17, 0),
                    package: "openjdk-17-jdk-headless",
                },
                Tool { program: "mvn", question: "--version", min: (3, 6), package: "maven" },
            ],
            Self::JavaScript => &[
                Tool { program: "node", question: "--version", min: (20, 0), package: "nodejs" },
                Tool { program: "npm", question: "--version", min: (9, 0), package: "npm" },
            ],
            Self::Python => &[Tool {
                program: "python3",
                question: "--version",
                min: (3, 10),
                package: "python3-venv",
            }],
        }
    }

    /// What this machine lacks to run something in the language, as a sentence; nothing if all is
    /// there.
    pub(crate) fn lack(self) -> Option<String> {
        self.tools().iter().find_map(Tool::lack)
    }
}

impl Tool {
    fn lack(&self) -> Option<String> {
        let Self { program, question, min, package } = self;
        let needed = format!("{}.{} or newer is needed (Debian: {package})", min.0, min.1);
        let Ok(output) = Command::new(program).arg(question).output() else {
            return Some(format!("`{program}` is missing; {needed}"));
        };
        // Some tell their version on standard error.
        let text = [output.stdout, output.stderr].concat();
        match version(&String::from_utf8_lossy(&text)) {
            None => Some(format!("`{program} {question}` tells no version; {needed}")),
            Some(found) if found < *min => {
                Some(format!("`{program}` {}.{} is too old; {needed}", found.0, found.1))
            }
            Some(_) => None,
        }
    }
}

/// The first number of the first word that has one, and the number behind its dot; a lone number
/// counts as x.0. Colours, which Maven sends even into a pipe, are no numbers.
fn version(text: &str) -> Option<(u32, u32)> {
    let words = text.split_whitespace().filter(|word| !word.starts_with('\u{1b}'));
    let word = words.into_iter().find(|word| word.contains(|c: char| c.is_ascii_digit()))?;
    let mut parts = word.split(|c: char| !c.is_ascii_digit()).skip_while(|part| part.is_empty());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, expected) in [
            ("go version go1.26.8 linux/amd64\n", Some((1, 26))),
            ("javac 17.0.15\n", Some((17, 0))),
            ("javac 21\n", Some((21, 0))),
            ("\u{1b}[1mApache Maven 3.8.7\u{1b}[m\n", Some((3, 8))),
            ("Apache Maven 3.8.7\n", Some((3, 8))),
            ("v20.19.2\n", Some((20, 19))),
            ("Python 3.11.2\n", Some((3, 11))),
            ("command not found", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_or_too_old_is_named_with_its_package() {
        let tool = |program, min| Tool { program, question: "--version", min, package: "some" };
        let missing = tool("no-such-program-anywhere", (1, 0)).lack();
        assert_eq!(
            missing.as_deref(),
            Some("`no-such-program-anywhere` is missing; 1.0 or newer is needed (Debian: some)")
        );
        assert!(tool("cargo", (1, 0)).lack().is_none());
        let old = tool("cargo", (999, 0)).lack().unwrap();
        assert!(old.starts_with("`cargo` 1.") && old.contains("is too old"), "{old}");
    }
}
