//! All settings as one struct. They come from flags, the environment (`ORRERY_*`), a TOML file
//! and defaults, in this order; the words are the same in all three. `cli` puts [`Choices`] into
//! its arguments and asks for [`Settings`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use orrery_types::limits;
use serde::Deserialize;

use crate::auth::keys::GivenKeys;
use crate::consistency::ConsistencyLevel;
use crate::net::tls::TlsSource;
use crate::telemetry::LogFormat;

/// Where a server listens that was not told.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:8081";
const LOG_DEFAULT: &str = "info";

/// Why the settings are no good.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, or says something unknown.
    #[error("Cannot use the settings in {path}: {reason}")]
    #[expect(missing_docs, reason = "the message says it")]
    File { path: PathBuf, reason: String },
    /// Two settings that cannot go together, or one that needs another.
    #[error("{0}")]
    Conflict(&'static str),
    /// A value that is not what it should be.
    #[error("The setting '{name}' is '{value}', which is not {expected}.")]
    #[expect(missing_docs, reason = "the message says it")]
    Value { name: &'static str, value: String, expected: &'static str },
    /// There is no place for data.
    #[error("There is no home folder to keep data in. Name one with --data, or use --memory.")]
    NoDataFolder,
}

/// What was said in one place; anything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Choices {
    /// Address and port to listen on [default: 127.0.0.1:8081]
    #[arg(long, env = "ORRERY_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Folder that holds the data [default: orrery in your data folder]
    #[arg(long, env = "ORRERY_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Keep everything in memory; nothing outlives the process
    #[arg(long, env = "ORRERY_MEMORY", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub memory: Option<bool>,

    /// Primary key of the account, in base64 [default: made at the first start]
    #[arg(long, env = "ORRERY_KEY", hide_env_values = true, value_name = "BASE64")]
    pub key: Option<String>,
    /// Secondary key
    #[arg(long, env = "ORRERY_SECONDARY_KEY", hide_env_values = true, value_name = "BASE64")]
    pub secondary_key: Option<String>,
    /// Primary read-only key
    #[arg(long, env = "ORRERY_READONLY_KEY", hide_env_values = true, value_name = "BASE64")]
    pub readonly_key: Option<String>,
    /// Secondary read-only key
    #[arg(
        long,
        env = "ORRERY_SECONDARY_READONLY_KEY",
        hide_env_values = true,
        value_name = "BASE64"
    )]
    pub secondary_readonly_key: Option<String>,
    /// Accept the key that every emulator is known by [default: only on a loopback address]
    #[arg(long, env = "ORRERY_ALLOW_WELL_KNOWN_KEY", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub allow_well_known_key: Option<bool>,

    /// Certificate chain in PEM [default: self-signed, made once]
    #[arg(long, env = "ORRERY_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, env = "ORRERY_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// More names and addresses for the self-signed certificate, with commas between
    #[arg(long, env = "ORRERY_TLS_NAMES", value_delimiter = ',', value_name = "NAMES")]
    pub tls_names: Option<Vec<String>>,
    /// Speak plain HTTP only
    #[arg(long, env = "ORRERY_NO_TLS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub no_tls: Option<bool>,
    /// Serve Gateway mode only: tell clients in Direct mode to use it
    #[arg(long, env = "ORRERY_NO_DIRECT", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub no_direct: Option<bool>,

    /// Endpoint that clients are told to use [default: the one they used]
    #[arg(long, env = "ORRERY_PUBLIC_ENDPOINT", value_name = "URL")]
    pub endpoint: Option<String>,
    /// Consistency level of the account; every one is kept [default: session]
    #[arg(long, env = "ORRERY_CONSISTENCY", value_name = "LEVEL")]
    pub consistency: Option<ConsistencyLevel>,
    /// Origins of pages that may call the server beside those of this machine; * for all
    #[arg(long, env = "ORRERY_CORS_ORIGINS", value_delimiter = ',', value_name = "ORIGINS")]
    pub cors_origins: Option<Vec<String>>,
    /// Connections served at once; more wait
    #[arg(long, env = "ORRERY_CONNECTIONS_MAX", value_name = "NUMBER")]
    pub connections_max: Option<usize>,
    /// Milliseconds that requests in flight get to end when the server stops
    #[arg(long, env = "ORRERY_DRAIN_MS", value_name = "NUMBER")]
    pub drain_ms: Option<u64>,
    /// Milliseconds that one script may run [default: 5000]
    #[arg(long, env = "ORRERY_SCRIPT_MS", value_name = "NUMBER")]
    pub script_ms: Option<u64>,

    /// Megabytes that all queries together may use [default: a quarter of the memory]
    #[arg(long, env = "ORRERY_QUERY_MEMORY_MB", value_name = "NUMBER")]
    pub query_memory_mb: Option<u64>,

    /// Refuse requests that exceed the throughput of their container or database, with 429
    #[arg(long, env = "ORRERY_ENFORCE_THROUGHPUT", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub enforce_throughput: Option<bool>,

    /// Count requests for orrery top and note them for the advisor, in bounded memory [default: true]
    #[arg(long, env = "ORRERY_STATISTICS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub statistics: Option<bool>,
    /// Ranges that a new container has at least [default: as its throughput asks for]
    #[arg(long, env = "ORRERY_RANGES", value_name = "NUMBER")]
    pub ranges: Option<u32>,
    /// Megabytes that a range holds before it is split [default: 51200]
    #[arg(long, env = "ORRERY_RANGE_MB_MAX", value_name = "NUMBER")]
    pub range_mb_max: Option<u64>,

    /// What to log: a level, or levels by module [default: info]
    #[arg(long, env = "ORRERY_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// How log lines look [default: text]
    #[arg(long, env = "ORRERY_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

impl Choices {
    /// What a file says. A word it should not hold is an error that names it.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let failed = |reason: String| ConfigError::File { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        toml::from_str(&text).map_err(|error| failed(error.to_string().trim_end().to_owned()))
    }

    /// What was said here, and for the rest what was said there.
    #[must_use]
    pub fn or(self, there: Self) -> Self {
        Self {
            listen: self.listen.or(there.listen),
            data: self.data.or(there.data),
            memory: self.memory.or(there.memory),
            key: self.key.or(there.key),
            secondary_key: self.secondary_key.or(there.secondary_key),
            readonly_key: self.readonly_key.or(there.readonly_key),
            secondary_readonly_key: self.secondary_readonly_key.or(there.secondary_readonly_key),
            allow_well_known_key: self.allow_well_known_key.or(there.allow_well_known_key),
            tls_cert: self.tls_cert.or(there.tls_cert),
            tls_key: self.tls_key.or(there.tls_key),
            tls_names: self.tls_names.or(there.tls_names),
            no_tls: self.no_tls.or(there.no_tls),
            no_direct: self.no_direct.or(there.no_direct),
            endpoint: self.endpoint.or(there.endpoint),
            consistency: self.consistency.or(there.consistency),
            cors_origins: self.cors_origins.or(there.cors_origins),
            connections_max: self.connections_max.or(there.connections_max),
            drain_ms: self.drain_ms.or(there.drain_ms),
            script_ms: self.script_ms.or(there.script_ms),
            query_memory_mb: self.query_memory_mb.or(there.query_memory_mb),
            enforce_throughput: self.enforce_throughput.or(there.enforce_throughput),
            statistics: self.statistics.or(there.statistics),
            ranges: self.ranges.or(there.ranges),
            range_mb_max: self.range_mb_max.or(there.range_mb_max),
            log: self.log.or(there.log),
            log_format: self.log_format.or(there.log_format),
        }
    }
}

/// Every setting, decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where data lives; none is memory.
    pub data: Option<PathBuf>,
    /// Keys that stand in for the kept ones.
    pub keys: GivenKeys,
    /// Whether the well-known key is accepted, where the settings say.
    pub allow_well_known_key: Option<bool>,
    /// Where the certificate comes from; none is plain HTTP only.
    pub tls: Option<TlsSource>,
    /// Whether Direct mode is served. It needs TLS.
    pub is_direct: bool,
    /// What the account answer names instead of the address the client used. Ends in a slash.
    pub endpoint: Option<String>,
    /// The consistency level of the account.
    pub consistency: ConsistencyLevel,
    /// Pages that may call the server.
    pub cors_origins: Vec<String>,
    /// Connections at once, where the settings say.
    pub connections_max: Option<usize>,
    /// Time to drain, where the settings say.
    pub drain_ms: Option<u64>,
    /// Milliseconds that one script may run.
    pub script_ms: Option<u64>,
    /// Megabytes that all queries together may use, where the settings say.
    pub query_memory_mb: Option<u64>,
    /// Whether throughput is enforced for offers that do not say otherwise.
    pub enforce_throughput: bool,
    /// Whether requests are counted for `orrery top` and noted for the advisor.
    pub statistics: bool,
    /// Ranges that a new container has at least.
    pub ranges: Option<u32>,
    /// Megabytes that a range holds before it is split.
    pub range_mb_max: Option<u64>,
    /// What to log.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Settings {
    /// Decides: what flags and environment say, then the file, then the defaults.
    pub fn resolve(said: Choices, file: Option<&Path>) -> Result<Self, ConfigError> {
        let choices = match file {
            Some(path) => said.or(Choices::from_file(path)?),
            None => said,
        };
        let data = data_folder(&choices)?;
        let tls = tls_source(&choices, data.as_deref())?;
        let has_tls = tls.is_some();
        let listen = match choices.listen {
            Some(listen) => listen,
            None => LISTEN_DEFAULT.parse().expect("the default is an address"),
        };
        if choices.connections_max == Some(0) {
            return Err(wrong("connections-max", "0", "at least 1"));
        }
        if choices.ranges.is_some_and(|n| !(1..=limits::PARTITIONS_FIRST_MAX).contains(&n)) {
            let given = choices.ranges.unwrap_or_default().to_string();
            return Err(wrong("ranges", &given, "from 1 to 100"));
        }
        if choices.query_memory_mb == Some(0) {
            return Err(wrong("query-memory-mb", "0", "at least 1"));
        }
        if choices.range_mb_max == Some(0) {
            return Err(wrong("range-mb-max", "0", "at least 1"));
        }
        Ok(Self {
            listen,
            data,
            keys: GivenKeys {
                primary: choices.key,
                secondary: choices.secondary_key,
                primary_readonly: choices.readonly_key,
                secondary_readonly: choices.secondary_readonly_key,
            },
            allow_well_known_key: choices.allow_well_known_key,
            tls,
            is_direct: has_tls && !choices.no_direct.unwrap_or(false),
            endpoint: choices.endpoint.map(endpoint).transpose()?,
            consistency: choices.consistency.unwrap_or_default(),
            cors_origins: choices.cors_origins.unwrap_or_default(),
            connections_max: choices.connections_max,
            drain_ms: choices.drain_ms,
            script_ms: choices.script_ms,
            query_memory_mb: choices.query_memory_mb,
            enforce_throughput: choices.enforce_throughput.unwrap_or(false),
            statistics: choices.statistics.unwrap_or(true),
            ranges: choices.ranges,
            range_mb_max: choices.range_mb_max,
            log: choices.log.unwrap_or_else(|| LOG_DEFAULT.to_owned()),
            log_format: choices.log_format.unwrap_or_default(),
        })
    }
}

fn wrong(name: &'static str, value: &str, expected: &'static str) -> ConfigError {
    ConfigError::Value { name, value: value.to_owned(), expected }
}

fn data_folder(choices: &Choices) -> Result<Option<PathBuf>, ConfigError> {
    match (choices.memory.unwrap_or(false), &choices.data) {
        (true, Some(_)) => {
            Err(ConfigError::Conflict("Memory and a data folder were both asked for. Choose one."))
        }
        (true, None) => Ok(None),
        (false, Some(folder)) => Ok(Some(folder.clone())),
        (false, None) => {
            let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            let home = variable("XDG_DATA_HOME")
                .or_else(|| variable("LOCALAPPDATA"))
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")));
            home.map(|home| Some(home.join("orrery"))).ok_or(ConfigError::NoDataFolder)
        }
    }
}

fn tls_source(choices: &Choices, data: Option<&Path>) -> Result<Option<TlsSource>, ConfigError> {
    let is_off = choices.no_tls.unwrap_or(false);
    match (&choices.tls_cert, &choices.tls_key) {
        (Some(_), _) | (_, Some(_)) if is_off => {
            Err(ConfigError::Conflict("A certificate and plain HTTP were both asked for."))
        }
        (Some(certificate), Some(key)) => {
            Ok(Some(TlsSource::Files { certificate: certificate.clone(), key: key.clone() }))
        }
        (None, None) if is_off => Ok(None),
        (None, None) => Ok(Some(TlsSource::SelfSigned {
            folder: data.map(Path::to_owned),
            names: choices.tls_names.clone().unwrap_or_default(),
        })),
        (Some(_), None) | (None, Some(_)) => {
            Err(ConfigError::Conflict("tls-cert and tls-key go together; one is missing."))
        }
    }
}

fn endpoint(text: String) -> Result<String, ConfigError> {
    let is_url = text.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some()
    });
    if !is_url {
        return Err(wrong("endpoint", &text, "an http or https URL"));
    }
    Ok(if text.ends_with('/') { text } else { text + "/" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn in_memory() -> Choices {
        Choices { memory: Some(true), ..Choices::default() }
    }

    #[test]
    fn what_was_said_counts_over_the_file_and_the_file_over_defaults() {
        let file = file("listen = \"0.0.0.0:9000\"\nlog = \"debug\"\nlog-format = \"json\"\n");
        let said = Choices { log: Some("warn".into()), ..in_memory() };
        let settings = Settings::resolve(said, Some(file.path())).unwrap();
        assert_eq!(settings.listen.to_string(), "0.0.0.0:9000");
        assert_eq!(settings.log, "warn");
        assert_eq!(settings.log_format, LogFormat::Json);
        assert!(settings.data.is_none());
        let defaults = Settings::resolve(in_memory(), None).unwrap();
        assert_eq!(defaults.listen.to_string(), LISTEN_DEFAULT);
        assert_eq!(defaults.log, LOG_DEFAULT);
        assert!(matches!(defaults.tls, Some(TlsSource::SelfSigned { folder: None, .. })));
    }

    #[test]
    fn an_unknown_word_in_the_file_is_named() {
        let file = file("memory = true\nlissen = \"127.0.0.1:1\"\n");
        let error = Settings::resolve(Choices::default(), Some(file.path())).unwrap_err();
        assert!(error.to_string().contains("lissen"), "{error}");
    }

    #[track_caller]
    fn check_refused(said: Choices, expected: &str) {
        let error = Settings::resolve(said, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let data = Some(PathBuf::from("x"));
        check_refused(Choices { data, ..in_memory() }, "both asked for");
        let tls_cert = Some(PathBuf::from("c.pem"));
        check_refused(Choices { tls_cert: tls_cert.clone(), ..in_memory() }, "go together");
        check_refused(Choices { tls_cert, no_tls: Some(true), ..in_memory() }, "plain HTTP");
        let endpoint = Some("localhost:8081".to_owned());
        check_refused(Choices { endpoint, ..in_memory() }, "'localhost:8081'");
        check_refused(Choices { connections_max: Some(0), ..in_memory() }, "connections-max");
        check_refused(Choices { ranges: Some(0), ..in_memory() }, "'ranges' is '0'");
        check_refused(Choices { ranges: Some(101), ..in_memory() }, "'ranges' is '101'");
        check_refused(Choices { range_mb_max: Some(0), ..in_memory() }, "range-mb-max");
        check_refused(Choices { query_memory_mb: Some(0), ..in_memory() }, "query-memory-mb");
    }

    #[test]
    fn direct_mode_needs_tls_and_can_be_turned_off() {
        let is_direct = |said| Settings::resolve(said, None).unwrap().is_direct;
        assert!(is_direct(in_memory()));
        assert!(!is_direct(Choices { no_tls: Some(true), ..in_memory() }));
        assert!(!is_direct(Choices { no_direct: Some(true), ..in_memory() }));
    }

    #[test]
    fn an_endpoint_ends_in_a_slash() {
        let endpoint = Some("https://db.example:8081".to_owned());
        let settings = Settings::resolve(Choices { endpoint, ..in_memory() }, None).unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("https://db.example:8081/"));
    }
}
