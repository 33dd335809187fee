//! All settings as one struct. They come from flags, the environment (`ORRERY_*`), a TOML file
//! and defaults, in this order; the words are the same in all three. `cli` puts [`Choices`] into
//! its arguments and asks for [`Settings`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use orrery_types::limits;
use serde::Deserialize;

use crate::auth::entra::DirectorySettings;
use crate::auth::keys::GivenKeys;
use crate::consistency::ConsistencyLevel;
use crate::directory_config;
use crate::net::tls::TlsSource;
use crate::telemetry::LogFormat;

/// The default listening address.
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
    /// More addresses and ports that serve the same, with commas between
    #[arg(long, env = "ORRERY_ALSO_LISTEN", value_delimiter = ',', value_name = "ADDRESSES")]
    pub also_listen: Option<Vec<SocketAddr>>,
    /// Folder that holds the data [default: orrery in your data folder]
    #[arg(long, env = "ORRERY_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Keep everything in memory; nothing outlives the process
    #[arg(long, env = "ORRERY_MEMORY", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub memory: Option<bool>,
    /// Address of a Postgres database that holds the data, the keys and the certificate; there is no data
    /// folder then
    #[arg(long, env = "ORRERY_STORE", hide_env_values = true, value_name = "ADDRESS")]
    pub store: Option<String>,
    /// Schema of the database that holds the store [default: orrery]
    #[arg(long, env = "ORRERY_STORE_SCHEMA", value_name = "NAME")]
    pub store_schema: Option<String>,
    /// File with the password of the database [default: PGPASSWORD, PGPASSFILE or ~/.pgpass]
    #[arg(long, env = "ORRERY_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,
    /// Connections that the server may open to the database [default: 46]
    #[arg(long, env = "ORRERY_STORE_CONNECTIONS", value_name = "NUMBER")]
    pub store_connections: Option<usize>,

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

    /// Issuers whose Entra ID tokens, or those of any OIDC issuer, are accepted, with commas between
    #[arg(long, env = "ORRERY_ENTRA_ISSUERS", value_delimiter = ',', value_name = "URLS")]
    pub entra_issuers: Option<Vec<String>>,
    /// Audiences, one of which a token must be for, with commas between
    #[arg(long, env = "ORRERY_ENTRA_AUDIENCES", value_delimiter = ',', value_name = "NAMES")]
    pub entra_audiences: Option<Vec<String>>,
    /// Files or https URLs of the issuers' signing keys (JWKS), with commas between
    #[arg(long, env = "ORRERY_ENTRA_JWKS", value_delimiter = ',', value_name = "PLACES")]
    pub entra_jwks: Option<Vec<String>>,
    /// Certificates by which those URLs are trusted, as PEM [default: the system's]
    #[arg(long, env = "ORRERY_ENTRA_CA", value_name = "FILE")]
    pub entra_ca: Option<PathBuf>,
    /// Seconds by which clocks may differ [default: 300]
    #[arg(long, env = "ORRERY_ENTRA_LEEWAY_S", value_name = "NUMBER")]
    pub entra_leeway_s: Option<u64>,
    /// Claim that names the principal [default: oid]
    #[arg(long, env = "ORRERY_ENTRA_PRINCIPAL_CLAIM", value_name = "NAME")]
    pub entra_principal_claim: Option<String>,
    /// Claim that names the principal's groups [default: groups]
    #[arg(long, env = "ORRERY_ENTRA_GROUPS_CLAIM", value_name = "NAME")]
    pub entra_groups_claim: Option<String>,
    /// Principals and groups that may do what a read-write key may, with commas between
    #[arg(long, env = "ORRERY_ENTRA_ADMINISTRATORS", value_delimiter = ',', value_name = "IDS")]
    pub entra_administrators: Option<Vec<String>>,
    /// Refuse account keys and resource tokens: Entra ID tokens only
    #[arg(long, env = "ORRERY_DISABLE_KEYS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub disable_keys: Option<bool>,

    /// Certificate chain in PEM [default: self-signed, made once]
    #[arg(long, env = "ORRERY_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, env = "ORRERY_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Certificate chain and private key in one PKCS #12 file (.pfx, .p12)
    #[arg(long, env = "ORRERY_TLS_PFX", value_name = "FILE")]
    pub tls_pfx: Option<PathBuf>,
    /// Password of the PKCS #12 file [default: empty]
    #[arg(long, env = "ORRERY_TLS_PFX_PASSWORD", hide_env_values = true, value_name = "TEXT")]
    pub tls_pfx_password: Option<String>,
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
            also_listen: self.also_listen.or(there.also_listen),
            data: self.data.or(there.data),
            memory: self.memory.or(there.memory),
            store: self.store.or(there.store),
            store_schema: self.store_schema.or(there.store_schema),
            store_password_file: self.store_password_file.or(there.store_password_file),
            store_connections: self.store_connections.or(there.store_connections),
            key: self.key.or(there.key),
            secondary_key: self.secondary_key.or(there.secondary_key),
            readonly_key: self.readonly_key.or(there.readonly_key),
            secondary_readonly_key: self.secondary_readonly_key.or(there.secondary_readonly_key),
            allow_well_known_key: self.allow_well_known_key.or(there.allow_well_known_key),
            entra_issuers: self.entra_issuers.or(there.entra_issuers),
            entra_audiences: self.entra_audiences.or(there.entra_audiences),
            entra_jwks: self.entra_jwks.or(there.entra_jwks),
            entra_ca: self.entra_ca.or(there.entra_ca),
            entra_leeway_s: self.entra_leeway_s.or(there.entra_leeway_s),
            entra_principal_claim: self.entra_principal_claim.or(there.entra_principal_claim),
            entra_groups_claim: self.entra_groups_claim.or(there.entra_groups_claim),
            entra_administrators: self.entra_administrators.or(there.entra_administrators),
            disable_keys: self.disable_keys.or(there.disable_keys),
            tls_cert: self.tls_cert.or(there.tls_cert),
            tls_key: self.tls_key.or(there.tls_key),
            tls_pfx: self.tls_pfx.or(there.tls_pfx),
            tls_pfx_password: self.tls_pfx_password.or(there.tls_pfx_password),
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

/// A database that holds the account.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// May hold a password.
    pub address: String,
    /// The schema of its tables.
    pub schema: String,
    /// The file with its password.
    pub password_file: Option<PathBuf>,
    /// Connections that a node may open.
    pub connections: usize,
}

impl StoreSettings {
    /// What the choices say of it.
    fn of(choices: &Choices) -> Result<Option<Self>, ConfigError> {
        let Some(address) = &choices.store else {
            let is_named = choices.store_schema.is_some()
                || choices.store_password_file.is_some()
                || choices.store_connections.is_some();
            let alone = "store-schema, store-password-file and store-connections need the address of \
                a store: --store.";
            return if is_named { Err(ConfigError::Conflict(alone)) } else { Ok(None) };
        };
        if choices.memory.unwrap_or(false) || choices.data.is_some() {
            let both = "A store and a data folder or memory were both asked for. Choose one.";
            return Err(ConfigError::Conflict(both));
        }
        let schema = choices.store_schema.clone().unwrap_or_else(|| "orrery".to_owned());
        let password_file = choices.store_password_file.clone();
        let connections = choices.store_connections.unwrap_or(limits::POSTGRES_CONNECTIONS);
        if connections < limits::POSTGRES_CONNECTIONS_MIN {
            let (name, value) = ("store-connections", connections.to_string());
            return Err(ConfigError::Value { name, value, expected: "a number from 8 up" });
        }
        Ok(Some(Self { address: address.clone(), schema, password_file, connections }))
    }
}

impl std::fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreSettings").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Every setting, decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Further addresses to listen on.
    pub also_listen: Vec<SocketAddr>,
    /// The folder where data lives; none is memory, or another store.
    pub data: Option<PathBuf>,
    /// The database where data lives instead of a folder.
    pub store: Option<StoreSettings>,
    /// Keys that stand in for the kept ones.
    pub keys: GivenKeys,
    /// Whether the well-known key is accepted, where the settings say.
    pub allow_well_known_key: Option<bool>,
    /// Whose tokens are accepted beside keys.
    pub directory: Option<DirectorySettings>,
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
    /// The address by which it is decided whom the server is open to: one that others can reach, if there
    /// is one.
    pub fn widest_address(&self) -> SocketAddr {
        let mut all = std::iter::once(&self.listen).chain(&self.also_listen);
        *all.find(|address| !address.ip().is_loopback()).unwrap_or(&self.listen)
    }

    /// Decides: what flags and environment say, then the file, then the defaults.
    pub fn resolve(said: Choices, file: Option<&Path>) -> Result<Self, ConfigError> {
        let choices = match file {
            Some(path) => said.or(Choices::from_file(path)?),
            None => said,
        };
        let store = StoreSettings::of(&choices)?;
        let data = if store.is_some() { None } else { data_folder(&choices)? };
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
        let directory = directory_config::settings(&choices)?;
        Ok(Self {
            listen,
            also_listen: choices.also_listen.unwrap_or_default(),
            data,
            store,
            keys: GivenKeys {
                primary: choices.key,
                secondary: choices.secondary_key,
                primary_readonly: choices.readonly_key,
                secondary_readonly: choices.secondary_readonly_key,
            },
            allow_well_known_key: choices.allow_well_known_key,
            directory,
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
    if let Some(file) = &choices.tls_pfx {
        if choices.tls_cert.is_some() || choices.tls_key.is_some() {
            return Err(ConfigError::Conflict("tls-pfx and tls-cert were both given. Choose one."));
        }
        if is_off {
            return Err(ConfigError::Conflict("A certificate and plain HTTP were both asked for."));
        }
        let password = choices.tls_pfx_password.clone().unwrap_or_default();
        return Ok(Some(TlsSource::Pfx { file: file.clone(), password }));
    }
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
        let store = Some("postgres://u:secret@h/d".to_owned());
        check_refused(Choices { store, ..in_memory() }, "both asked for");
        check_refused(Choices { store_schema: Some("s".into()), ..in_memory() }, "--store");
        check_refused(Choices { store_connections: Some(20), ..in_memory() }, "--store");
        let few = Choices {
            store: Some("postgres://h/d".to_owned()),
            store_connections: Some(7),
            ..Choices::default()
        };
        check_refused(few, "a number from 8 up");
        let endpoint = Some("localhost:8081".to_owned());
        check_refused(Choices { endpoint, ..in_memory() }, "'localhost:8081'");
        check_refused(Choices { connections_max: Some(0), ..in_memory() }, "connections-max");
        check_refused(Choices { ranges: Some(0), ..in_memory() }, "'ranges' is '0'");
        check_refused(Choices { ranges: Some(101), ..in_memory() }, "'ranges' is '101'");
        check_refused(Choices { range_mb_max: Some(0), ..in_memory() }, "range-mb-max");
        check_refused(Choices { query_memory_mb: Some(0), ..in_memory() }, "query-memory-mb");
    }

    #[test]
    fn a_store_takes_the_place_of_the_data_folder_and_its_address_is_not_shown() {
        let store = Some("postgres://u:secret@h/d".to_owned());
        let settings = Settings::resolve(Choices { store, ..Choices::default() }, None).unwrap();
        assert!(settings.data.is_none());
        assert_eq!(settings.store.as_ref().map(|store| &*store.schema), Some("orrery"));
        assert!(!format!("{settings:?}").contains("secret"), "{settings:?}");
    }

    #[test]
    fn direct_mode_needs_tls_and_can_be_turned_off() {
        let is_direct = |said| Settings::resolve(said, None).unwrap().is_direct;
        assert!(is_direct(in_memory()));
        assert!(!is_direct(Choices { no_tls: Some(true), ..in_memory() }));
        assert!(!is_direct(Choices { no_direct: Some(true), ..in_memory() }));
    }

    #[test]
    fn an_address_that_others_reach_decides_whichever_place_it_has() {
        let widest = |listen: &str, also: &[&str]| {
            let also_listen = also.iter().map(|address| address.parse().unwrap()).collect();
            let listen = Some(listen.parse().unwrap());
            let said = Choices { listen, also_listen: Some(also_listen), ..in_memory() };
            Settings::resolve(said, None).unwrap().widest_address().to_string()
        };
        assert_eq!(widest("127.0.0.1:1", &[]), "127.0.0.1:1");
        assert_eq!(widest("127.0.0.1:1", &["[::1]:2"]), "127.0.0.1:1");
        assert_eq!(widest("127.0.0.1:1", &["[::1]:2", "0.0.0.0:3"]), "0.0.0.0:3");
        assert_eq!(widest("10.0.0.1:1", &["127.0.0.1:2"]), "10.0.0.1:1");
    }

    #[test]
    fn a_pfx_file_is_a_certificate_of_its_own() {
        let tls_pfx = Some(PathBuf::from("c.pfx"));
        let said = Choices { tls_pfx: tls_pfx.clone(), ..in_memory() };
        let settings = Settings::resolve(said, None).unwrap();
        assert!(matches!(settings.tls, Some(TlsSource::Pfx { .. })));
        check_refused(
            Choices { tls_pfx: tls_pfx.clone(), no_tls: Some(true), ..in_memory() },
            "plain HTTP",
        );
        let tls_cert = Some(PathBuf::from("c.pem"));
        check_refused(Choices { tls_cert, tls_pfx, ..in_memory() }, "both given");
    }

    #[test]
    fn an_endpoint_ends_in_a_slash() {
        let endpoint = Some("https://db.example:8081".to_owned());
        let settings = Settings::resolve(Choices { endpoint, ..in_memory() }, None).unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("https://db.example:8081/"));
    }
}
