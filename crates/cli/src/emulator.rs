//! `orrery emulator`: the server as the vendor's emulator image is started, so that a compose file, a test
//! container or an application host works after a change of the image's name. Flags and environment are
//! the emulator's; what Orrery's own settings (`ORRERY_…`) say counts over them. `docs/emulator-image.md`
//! lists each and what becomes of it.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgAction, Args, ValueEnum};
use orrery_server::auth::keys::WELL_KNOWN_KEY;
use orrery_server::config::{Choices, Settings};

use crate::ServeArguments;
use crate::exit::usage;

/// Arguments of `emulator`.
#[derive(Debug, Args)]
pub(crate) struct EmulatorArguments {
    /// Port of the endpoint
    #[arg(long, env = "PORT", default_value_t = 8081, value_name = "NUMBER")]
    port: u16,
    /// Port of the Data Explorer
    #[arg(long, env = "EXPLORER_PORT", default_value_t = 1234, value_name = "NUMBER")]
    explorer_port: u16,
    /// Port where /alive, /ready and /status are answered
    #[arg(long, env = "HEALTH_PORT", default_value_t = 8080, value_name = "NUMBER")]
    health_port: u16,
    /// The protocol that is announced; each port answers both
    #[arg(long, env = "PROTOCOL", default_value = "http", value_name = "PROTOCOL")]
    protocol: Protocol,
    /// The protocol of the Data Explorer; its port answers both
    #[arg(long, env = "EXPLORER_PROTOCOL", value_name = "PROTOCOL")]
    explorer_protocol: Option<Protocol>,
    /// Certificate with its private key as PKCS #12 (.pfx), or in PEM [default: self-signed]
    #[arg(long, env = "CERT_PATH", value_name = "FILE", value_parser = path)]
    cert_path: Option<PathBuf>,
    /// Password of the certificate's file
    #[arg(long, env = "CERT_SECRET", hide_env_values = true, value_name = "TEXT")]
    cert_secret: Option<String>,
    /// File with the account key in base64 [default: the emulator's well-known key]
    #[arg(long, env = "KEY_FILE", value_name = "FILE", value_parser = path)]
    key_file: Option<PathBuf>,
    /// Folder that holds the data
    #[arg(long, env = "DATA_PATH", default_value = "/data", value_name = "FOLDER")]
    data_path: PathBuf,
    /// Whether data outlives the process; false keeps it in memory
    #[arg(long, env = "AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", value_name = "BOOL",
          value_parser = boolean, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", default_value = "true")]
    enable_data_persistence: bool,
    /// Whether the port of the Data Explorer is opened
    #[arg(long, env = "ENABLE_EXPLORER", value_name = "BOOL", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
          default_value = "true")]
    enable_explorer: bool,
    /// What is logged
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: LogLevel,
    #[command(flatten)]
    choices: Choices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Http,
    Https,
    HttpsInsecure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Quiet,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    fn filter(self) -> &'static str {
        match self {
            Self::Quiet => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Settings of the emulator that mean nothing here, and why. The log gives the reason for each one that is set.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "containers are not limited in number"),
    ("AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", "clients are told the address that they used"),
    ("GATEWAY_PUBLIC_ENDPOINT", "clients are told the address that they used"),
    ("ENABLE_TELEMETRY", "nothing is ever sent"),
    ("ENABLE_OTLP_EXPORTER", "metrics are at /metrics"),
    ("ENABLE_CONSOLE_EXPORTER", "metrics are at /metrics"),
];

/// What a server that stands in for the emulator does beside serving.
#[derive(Clone, Debug)]
pub(crate) struct Emulator {
    protocol: Protocol,
    notices: Vec<String>,
}

impl Emulator {
    /// Says in the log which settings have no effect.
    pub(crate) fn log_notices(&self) {
        for notice in &self.notices {
            tracing::info!("{notice}");
        }
    }

    /// Prints the lines by which tools recognise a started emulator, whatever the log level is. The end of
    /// the line is part of what some look for.
    pub(crate) fn announce(&self, settings: &Settings) -> std::io::Result<()> {
        let scheme = if self.protocol == Protocol::Http { "http" } else { "https" };
        let port = settings.listen.port();
        let mut out = std::io::stdout().lock();
        write!(out, "Now listening on: {scheme}://0.0.0.0:{port}\r\nStarted\r\n")?;
        out.flush()
    }
}

/// The same server, with the emulator's settings.
pub(crate) fn serve_arguments(arguments: EmulatorArguments) -> Result<ServeArguments> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let notices = notices(&set);
    let protocol = arguments.protocol;
    let emulated = choices(&arguments)?;
    Ok(ServeArguments {
        config: None,
        accept_log_damage: false,
        stop_at_eof: false,
        choices: arguments.choices.or(emulated),
        emulator: Some(Emulator { protocol, notices }),
    })
}

fn notices(is_set: &dyn Fn(&str) -> bool) -> Vec<String> {
    let found = WITHOUT_EFFECT.iter().filter(|(name, _)| is_set(name));
    found.map(|(name, reason)| format!("{name} has no effect: {reason}")).collect()
}

fn choices(arguments: &EmulatorArguments) -> Result<Choices> {
    let everywhere = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let explorer = arguments.enable_explorer.then_some(arguments.explorer_port);
    let also = explorer.into_iter().chain([arguments.health_port]);
    let also = also.filter(|port| *port != arguments.port).map(everywhere).collect();
    let own = &arguments.choices;
    // A key of one's own replaces the public one; the setting by its name decides over both.
    let takes_well_known = own.allow_well_known_key.unwrap_or(arguments.key_file.is_none());
    let key = match &arguments.key_file {
        Some(file) => Some(read_key(file)?),
        None => takes_well_known.then(|| WELL_KNOWN_KEY.to_owned()),
    };
    let has_store = own.store.is_some();
    let is_kept = arguments.enable_data_persistence && own.memory != Some(true) && !has_store;
    let has_certificate = own.tls_cert.is_some() || own.tls_pfx.is_some();
    let certificate = arguments.cert_path.clone().filter(|_| !has_certificate);
    let is_pem = certificate.as_deref().is_some_and(is_pem);
    let (pem, pfx) = if is_pem { (certificate, None) } else { (None, certificate) };
    Ok(Choices {
        listen: Some(everywhere(arguments.port)),
        also_listen: Some(also),
        data: is_kept.then(|| arguments.data_path.clone()),
        memory: (!is_kept && own.data.is_none() && !has_store).then_some(true),
        key,
        allow_well_known_key: Some(takes_well_known),
        tls_cert: pem.clone(),
        tls_key: pem,
        tls_pfx_password: pfx.as_ref().and(arguments.cert_secret.clone()),
        tls_pfx: pfx,
        log: Some(arguments.log_level.filter().to_owned()),
        ..Choices::default()
    })
}

/// Whether a file holds PEM, which is text; with certificate and key in one file.
fn is_pem(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|bytes| bytes.windows(10).any(|window| window == b"-----BEGIN"))
}

fn read_key(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        usage(format!("KEY_FILE is '{}', which cannot be read: {error}", file.display()))
    })?;
    Ok(text.trim().to_owned())
}

/// A path; an empty text, as compose files pass on what is not set, is none.
fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text.into()) }
}

/// Whatever people write for true and false.
fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" | "" => Ok(false),
        _ => Err("say true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: EmulatorArguments,
    }

    fn chosen(line: &[&str]) -> Choices {
        let line = Line::parse_from([&["emulator"], line].concat());
        serve_arguments(line.arguments).unwrap().choices
    }

    #[test]
    fn without_settings_it_is_where_the_emulator_is() {
        let choices = chosen(&[]);
        assert_eq!(choices.listen.unwrap().to_string(), "0.0.0.0:8081");
        let also: Vec<_> = choices.also_listen.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(also, ["0.0.0.0:1234", "0.0.0.0:8080"]);
        assert_eq!(choices.data.as_deref(), Some(Path::new("/data")));
        assert_eq!(choices.memory, None);
        assert_eq!(choices.key.as_deref(), Some(WELL_KNOWN_KEY));
        assert_eq!(choices.allow_well_known_key, Some(true));
        assert_eq!(choices.log.as_deref(), Some("info"));
    }

    #[test]
    fn the_settings_of_the_emulator_are_translated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "c2VjcmV0\n").unwrap();
        let choices = chosen(&[
            "--port=9000",
            "--enable-explorer=false",
            "--enable-data-persistence=0",
            "--log-level=quiet",
            "--cert-path=c.pfx",
            "--cert-secret=secret",
            "--key-file",
            file.path().to_str().unwrap(),
        ]);
        assert_eq!(choices.listen.unwrap().port(), 9000);
        assert_eq!(choices.also_listen.unwrap().len(), 1);
        assert_eq!((choices.memory, choices.data), (Some(true), None));
        assert_eq!(choices.tls_pfx.as_deref(), Some(Path::new("c.pfx")));
        assert_eq!(choices.tls_pfx_password.as_deref(), Some("secret"));
        assert_eq!(choices.key.as_deref(), Some("c2VjcmV0"));
        assert_eq!(choices.allow_well_known_key, Some(false));
        assert_eq!(choices.log.as_deref(), Some("off"));
    }

    #[test]
    fn a_setting_of_our_own_counts_over_the_emulators() {
        let choices = chosen(&["--listen=127.0.0.1:7", "--allow-well-known-key=false", "--memory"]);
        assert_eq!(choices.listen.unwrap().to_string(), "127.0.0.1:7");
        assert_eq!((choices.key, choices.allow_well_known_key), (None, Some(false)));
        assert_eq!((choices.memory, choices.data), (Some(true), None));
    }

    #[test]
    fn what_has_no_effect_is_said_with_the_reason() {
        let said = notices(&|name| name == "AZURE_COSMOS_EMULATOR_PARTITION_COUNT");
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("has no effect: containers"), "{said:?}");
        assert!(notices(&|_| false).is_empty());
    }

    #[test]
    fn a_word_that_is_neither_true_nor_false_is_refused() {
        for (text, expected) in [("True", Ok(true)), ("0", Ok(false)), ("", Ok(false))] {
            assert_eq!(boolean(text), expected, "{text}");
        }
        assert!(boolean("maybe").is_err());
    }
}
