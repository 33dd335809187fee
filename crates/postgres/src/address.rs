//! The address of a store: a URL or a list of settings as `libpq` has them, with several hosts. What the driver does
//! not know is taken out here: how the server's certificate is verified, and the file of passwords.
//!
//! ```text
//! postgres://orrery@db1,db2/orrery?sslmode=verify-full&sslrootcert=/etc/orrery/root.crt
//! host=/run/postgresql user=orrery dbname=orrery
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use postgres::Config;
use postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::password;
use crate::schema::PostgresOpenError;

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Not at all: for a socket, a loopback address, or a network that the operator trusts.
    Plain,
    /// Encrypted; the certificate of the server is not looked at.
    Unverified,
    /// The certificate is one of an authority that is trusted; its name is not looked at.
    Authority,
    /// The certificate is trusted and names the host.
    Host,
}

/// A parsed address. Its password shows nowhere.
#[derive(Clone)]
pub(crate) struct StoreAddress {
    pub(crate) config: Config,
    pub(crate) protection: Protection,
    /// The file of the authorities that are trusted; without it, those that the machine trusts.
    pub(crate) authorities: Option<PathBuf>,
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreAddress({self})")
    }
}

/// Hosts, database and user; never the password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.config.get_ports();
        let host = |(nth, host): (usize, &Host)| match host {
            Host::Tcp(name) => {
                let port = ports.get(nth).or_else(|| ports.first()).copied();
                port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"))
            }
            #[cfg(unix)]
            Host::Unix(folder) => folder.display().to_string(),
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(host).collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "PostgreSQL at {}, database {database}", hosts.join(","))
    }
}

/// Where an address is not one. `text` may hold a password, so nothing of it is repeated.
fn wrong(reason: impl Into<String>) -> PostgresOpenError {
    PostgresOpenError::Address(reason.into())
}

/// Settings that the driver does not know, as they were given.
#[derive(Default)]
struct Own {
    mode: Option<String>,
    authorities: Option<String>,
    password_file: Option<String>,
    session: Option<String>,
}

impl Own {
    /// Keeps a setting if it is one of these.
    fn take(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.authorities,
            "passfile" => &mut self.password_file,
            "target_session_attrs" => &mut self.session,
            _ => return false,
        };
        *place = Some(value.to_owned());
        true
    }
}

/// Takes our settings out of an address, and leaves the rest as it was.
fn split(text: &str) -> Result<(String, Own), PostgresOpenError> {
    let mut own = Own::default();
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        let rest = split_list(text, &mut own)?;
        return Ok((rest, own));
    }
    let Some((base, query)) = text.split_once('?') else { return Ok((text.to_owned(), own)) };
    let mut rest = Vec::new();
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let decoded = percent_decode_str(value).decode_utf8();
        let decoded = decoded.map_err(|_| wrong(format!("'{name}' is not valid UTF-8")))?;
        if !own.take(name, &decoded) {
            rest.push(setting);
        }
    }
    let rest = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((rest, own))
}

/// The same for a list of settings: `name=value`, where a value may stand in single quotes and a backslash takes
/// the next character as it is.
fn split_list(text: &str, own: &mut Own) -> Result<String, PostgresOpenError> {
    let mut rest = String::new();
    let mut chars = text.char_indices().peekable();
    loop {
        while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        let Some(&(start, _)) = chars.peek() else { return Ok(rest) };
        let mut name = String::new();
        while let Some((_, c)) = chars.next_if(|(_, c)| *c != '=' && !c.is_whitespace()) {
            name.push(c);
        }
        while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        if chars.next_if(|(_, c)| *c == '=').is_none() {
            return Err(wrong("a setting has no value; write NAME=VALUE, or a URL postgres://…"));
        }
        while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        let quoted = chars.next_if(|(_, c)| *c == '\'').is_some();
        let mut value = String::new();
        loop {
            match chars.next_if(|(_, c)| quoted || !c.is_whitespace()) {
                Some((_, '\'')) if quoted => break,
                Some((_, '\\')) => value.extend(chars.next().map(|(_, c)| c)),
                Some((_, c)) => value.push(c),
                None if quoted => return Err(wrong("a quoted value has no end")),
                None => break,
            }
        }
        let end = chars.peek().map_or(text.len(), |(at, _)| *at);
        if !own.take(&name, &value) {
            rest.push_str(&text[start..end]);
            rest.push(' ');
        }
    }
}

/// Whether what is sent to a host stays on this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The file that `libpq` keeps in the home folder under this name.
pub(crate) fn home_file(name: &str) -> Option<PathBuf> {
    Some(PathBuf::from(variable("HOME")?).join(name))
}

impl StoreAddress {
    /// Reads an address. The password comes from the address, or from the given file, or from where `libpq` would
    /// look for it: `PGPASSWORD`, then the file that `PGPASSFILE` names, then `~/.pgpass`.
    pub(crate) fn parse(
        text: &str,
        password_file: Option<&Path>,
    ) -> Result<Self, PostgresOpenError> {
        let (rest, own) = split(text)?;
        let mut config: Config = rest.parse().map_err(|error: postgres::Error| {
            // The name of an unknown setting may be a piece of a password that was not quoted.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let is_safe = !rest.contains("password") && !rest.contains('@');
            wrong(cause.filter(|_| is_safe).unwrap_or_else(|| {
                "a setting is unknown or has no valid value; special characters of a password in a URL \
                 must be percent-encoded"
                    .into()
            }))
        })?;
        if config.get_hosts().is_empty() {
            return Err(wrong("it names no host; write postgres://USER@HOST/DATABASE"));
        }
        let is_remote = !config.get_hosts().iter().all(is_local);
        let mode = own.mode.or_else(|| variable("PGSSLMODE"));
        let protection = match mode.as_deref() {
            None if is_remote => Protection::Host,
            None | Some("disable" | "allow" | "prefer") => Protection::Plain,
            Some("require") => Protection::Unverified,
            Some("verify-ca") => Protection::Authority,
            Some("verify-full") => Protection::Host,
            Some(_) => {
                let modes = "disable, require, verify-ca or verify-full";
                return Err(wrong(format!("sslmode must be {modes}")));
            }
        };
        let weak = matches!(mode.as_deref(), Some("allow" | "prefer"));
        if weak && is_remote {
            return Err(wrong(
                "sslmode=allow and prefer may send everything in clear; choose verify-full, or disable if the \
                 network is trusted",
            ));
        }
        let encrypts = protection != Protection::Plain;
        config.ssl_mode(if encrypts { SslMode::Require } else { SslMode::Disable });
        let session = own.session.as_deref();
        config.target_session_attrs(match session {
            None if config.get_hosts().len() > 1 => TargetSessionAttrs::ReadWrite,
            None | Some("any") => TargetSessionAttrs::Any,
            Some("read-write" | "primary") => TargetSessionAttrs::ReadWrite,
            Some(_) => {
                return Err(wrong("target_session_attrs must be read-write, primary or any"));
            }
        });
        if config.get_password().is_none() {
            let file = own.password_file.map(PathBuf::from);
            if let Some(found) = password::find(&config, password_file, file)? {
                config.password(found);
            }
        }
        let authorities = own.authorities.or_else(|| variable("PGSSLROOTCERT"));
        let authorities = match authorities.as_deref() {
            Some("system") => None,
            Some(file) => Some(PathBuf::from(file)),
            None => home_file(".postgresql/root.crt").filter(|file| file.exists()),
        };
        Ok(Self { config, protection, authorities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StoreAddress, PostgresOpenError> {
        StoreAddress::parse(text, None)
    }

    #[test]
    fn hosts_and_database_are_shown_and_a_password_is_not() {
        let address = "postgres://orrery:s%65cret@db1:5433,db2:5434/shop?sslmode=verify-full";
        let address = parse(address).unwrap();
        assert_eq!(address.to_string(), "PostgreSQL at db1:5433,db2:5434, database shop");
        assert!(!format!("{address:?}").contains("secret"), "{address:?}");
        assert_eq!(address.config.get_password(), Some(&b"secret"[..]));
        let list = parse(r"host=/run/pg user=u password='a\'b c' dbname=d").unwrap();
        assert_eq!(list.to_string(), "PostgreSQL at /run/pg, database d");
        assert_eq!(list.config.get_password(), Some(&b"a'b c"[..]));
    }

    #[test]
    fn other_machines_are_verified_unless_the_address_says_otherwise() {
        let check = |text: &str, expected| {
            assert_eq!(parse(text).unwrap().protection, expected, "{text}");
        };
        check("postgres://u:p@localhost/d", Protection::Plain);
        check("postgres://u:p@127.0.0.1/d", Protection::Plain);
        check("host=/run/pg user=u", Protection::Plain);
        check("postgres://u:p@db.example/d", Protection::Host);
        check("postgres://u:p@localhost,db.example/d", Protection::Host);
        check("postgres://u:p@db.example/d?sslmode=disable", Protection::Plain);
        check("postgres://u:p@db.example/d?sslmode=require", Protection::Unverified);
        check("host=db.example user=u sslmode = 'verify-ca'", Protection::Authority);
        let file = parse("postgres://u:p@h/d?sslrootcert=%2Fa%20b&connect_timeout=3").unwrap();
        assert_eq!(file.authorities.as_deref(), Some(Path::new("/a b")));
    }

    #[test]
    fn several_hosts_mean_the_one_that_takes_writes() {
        let session = |text: &str| parse(text).unwrap().config.get_target_session_attrs();
        assert_eq!(session("postgres://u:p@a,b/d"), TargetSessionAttrs::ReadWrite);
        assert_eq!(session("postgres://u:p@a/d"), TargetSessionAttrs::Any);
        let primary = "postgres://u:p@a/d?target_session_attrs=primary";
        assert_eq!(session(primary), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        let addresses = [
            "",
            "postgres://u:secret@h/d?sslmode=maybe",
            "postgres://u:secret@h/d?sslmode=prefer",
            "postgres://u:secret@h/d?target_session_attrs=standby",
            "postgres://u:secret@h/d?secret=1",
            "host=h password=a secret=b",
            "host=h password='secret",
            "host=h secret",
            "user=u password=secret",
        ];
        for text in addresses {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with("The address of the store is not valid: "), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
