//! Text of a container that is to be searched: languages and paths. The search itself comes with
//! the search capability.

use orrery_types::Value;

use crate::path::IndexPath;
use crate::policy::{PolicyError, invalid_path, parse_list, path_text};

type Result<T> = std::result::Result<T, PolicyError>;

/// The full-text policy, echoed as it was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FullTextPolicy {
    /// Paths whose text is analysed.
    pub paths: Vec<Box<str>>,
    sent: Value,
}

const LANGUAGES: [&str; 7] = ["en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-PT", "pt-BR"];

impl FullTextPolicy {
    /// Reads the policy; undefined or null means none.
    pub fn parse(value: &Value) -> Result<Self> {
        if matches!(value, Value::Undefined | Value::Null) {
            return Ok(Self::default());
        }
        check_language(value.get("defaultLanguage"), "The Full Text Policy's default language")?;
        let paths = parse_list(value, "fullTextPaths", |entry| {
            let path = path_text(entry)?;
            if IndexPath::parse(path, true).is_none() || path.contains('*') || path.contains("[]") {
                return Err(PolicyError::new(format!(
                    "The Full Text Policy contains an invalid Path: {path}. {}",
                    invalid_path(path)
                )));
            }
            check_language(entry.get("language"), "The Full Text Policy's path language")?;
            Ok(path.into())
        })?;
        Ok(Self { paths, sent: value.clone() })
    }

    /// As it was sent; undefined when there is none.
    pub fn to_value(&self) -> Value {
        self.sent.clone()
    }

    /// Every full-text index needs a path of the policy.
    pub fn check_indexes(&self, indexes: &[IndexPath]) -> Result<()> {
        match indexes.iter().find(|i| !self.paths.contains(&i.text)) {
            None => Ok(()),
            Some(index) => Err(PolicyError::new(format!(
                "The path of the Full Text Index {index} does not match the path specified in the \
                 Full Text Policy."
            ))),
        }
    }
}

fn check_language(value: &Value, what: &str) -> Result<()> {
    match value {
        Value::Undefined | Value::Null => Ok(()),
        Value::String(s) if LANGUAGES.contains(&&**s) => Ok(()),
        other => Err(PolicyError::new(format!(
            "{what} {} is not supported. Supported languages are: {}.",
            other.to_json(),
            LANGUAGES.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_languages_are_checked() {
        let parse = |json: &str| FullTextPolicy::parse(&Value::parse(json.as_bytes()).expect(json));
        let good =
            r#"{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t","language":"fr-FR"}]}"#;
        let policy = parse(good).expect("good");
        assert_eq!(policy.to_value().to_json(), good);
        let index = |p| IndexPath::parse(p, true).expect(p);
        assert!(policy.check_indexes(&[index("/t")]).is_ok());
        assert!(policy.check_indexes(&[index("/u")]).is_err());
        assert!(parse(r#"{"defaultLanguage":"xx"}"#).is_err());
        assert!(parse(r#"{"defaultLanguage":"en-US","fullTextPaths":[{"path":"t"}]}"#).is_err());
    }
}
