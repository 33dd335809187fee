//! What a server says at its start: on standard output how to connect, for people and for scripts that
//! wait for it; in the log where it is, which version it is, and where data and keys are. Keys stand on
//! standard output only, and not where that is read by a machine.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use orrery_server::auth::keys::{AccountKeys, WELL_KNOWN_KEY, WellKnownKey};
use orrery_server::config::Settings;
use orrery_server::telemetry::LogFormat;
use orrery_types::{Object, Value};

/// Announces a server that is ready.
pub(crate) fn ready(
    settings: &Settings,
    address: SocketAddr,
    keys: &AccountKeys,
    store: Option<&str>,
) -> std::io::Result<()> {
    let announcement = Announcement::new(settings, address, store);
    announcement.log();
    let text = match settings.log_format {
        LogFormat::Text => announcement.to_text(settings, address, keys),
        LogFormat::Json => announcement.to_json() + "\n",
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

struct Announcement {
    /// Clients are given the first.
    endpoints: Vec<String>,
    /// The data folder, the place of the store, or that there is none.
    data: String,
    /// Where the keys are.
    keys: String,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Announcement {
    fn new(settings: &Settings, address: SocketAddr, store: Option<&str>) -> Self {
        let reachable = reachable(address);
        let endpoints = match &settings.endpoint {
            Some(endpoint) => vec![endpoint.clone()],
            None if settings.tls.is_some() => {
                vec![format!("https://{reachable}/"), format!("http://{reachable}/")]
            }
            None => vec![format!("http://{reachable}/")],
        };
        let data = match (&settings.data, store) {
            (Some(folder), _) => folder.display().to_string(),
            (None, Some(place)) => place.to_owned(),
            (None, None) => "in memory; nothing outlives the process".to_owned(),
        };
        let keys = match (&settings.keys.primary, &settings.data) {
            (Some(_), _) => "in the settings".to_owned(),
            (None, Some(folder)) => AccountKeys::file(folder).display().to_string(),
            (None, None) if store.is_some() => "in the store".to_owned(),
            (None, None) => "in memory".to_owned(),
        };
        Self { endpoints, data, keys }
    }

    fn log(&self) {
        let Self { endpoints, data, keys } = self;
        let endpoint = endpoints.first().map_or("", String::as_str);
        tracing::info!(version = VERSION, endpoint, %data, %keys, "Orrery is ready");
    }

    /// One line, without a key: where logs are JSON, standard output is kept as well.
    fn to_json(&self) -> String {
        let mut object = Object::new();
        object.set("message", "Orrery is ready".into());
        object.set("version", VERSION.into());
        let endpoints = self.endpoints.iter().map(|endpoint| endpoint.as_str().into());
        object.set("endpoints", Value::array(endpoints.collect()));
        object.set("data", self.data.as_str().into());
        object.set("keys", self.keys.as_str().into());
        Value::object(object).to_json()
    }

    fn to_text(&self, settings: &Settings, address: SocketAddr, keys: &AccountKeys) -> String {
        let endpoint = self.endpoints.first().map_or("", String::as_str);
        let key = keys.primary().text();
        let takes_well_known = keys.well_known_use() != WellKnownKey::Refused;
        // Some clients choose the gateway by the emulator's key.
        let is_local = address.ip().is_loopback() && settings.endpoint.is_none();
        let shared = if takes_well_known && is_local { WELL_KNOWN_KEY } else { key };
        let mut lines = vec![format!("Orrery {VERSION} is ready.\n")];
        lines.push(format!("  Endpoint           {endpoint}"));
        let others = self.endpoints.iter().skip(1);
        lines.extend(others.map(|other| format!("                     {other}")));
        lines.push(format!("  Key                {key}"));
        if settings.directory.as_ref().is_some_and(|directory| directory.keys_disabled) {
            let off =
                "                     Keys are switched off; clients sign in with Entra ID tokens.";
            lines.push(off.to_owned());
        } else if takes_well_known && key != WELL_KNOWN_KEY {
            lines.push("                     and the key that the emulator is known by".to_owned());
        }
        lines.push(format!("  Connection string  AccountEndpoint={endpoint};AccountKey={shared};"));
        if !settings.is_direct {
            let gateway = "                     Clients must use Gateway mode; Direct mode is off.";
            lines.push(gateway.to_owned());
        }
        lines.push(format!("  Explorer           {endpoint}_explorer/"));
        lines.push(format!("  Data               {}\n", self.data));
        lines.join("\n")
    }
}

/// An address to connect to: a server on all addresses is reached on this machine's own.
fn reachable(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST | Ipv4Addr::UNSPECIFIED)
        | IpAddr::V6(Ipv6Addr::UNSPECIFIED) => format!("localhost:{port}"),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_connect_to_is_one_that_answers() {
        let check = |address: &str, expected: &str| {
            assert_eq!(reachable(address.parse().unwrap()), expected);
        };
        check("127.0.0.1:8081", "localhost:8081");
        check("0.0.0.0:8081", "localhost:8081");
        check("[::]:8081", "localhost:8081");
        check("[::1]:8081", "[::1]:8081");
        check("10.1.2.3:1", "10.1.2.3:1");
    }
}
