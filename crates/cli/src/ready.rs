//! `orrery ready`: asks the server of this machine whether it serves requests. It is for health checks
//! and for scripts that wait for a start, on machines that have no other program to ask with.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use orrery_server::auth::keys::WELL_KNOWN_KEY;
use orrery_server::config::{Choices, LISTEN_DEFAULT};

use crate::exit::{Exit, Failure};
use crate::remote::{Ask, Remote};

/// How long one answer may take; a server that is alive gives it at once.
const ANSWER_TIME: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
const TRIES_PER_SECOND: u64 = 10;

/// Arguments of `ready`: as far as they are the server's settings, they are called the same.
#[derive(Debug, Args)]
pub(crate) struct ReadyArguments {
    /// File with the server's settings in TOML; flags and environment count over it
    #[arg(long, env = "ORRERY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port that the server listens on [default: 127.0.0.1:8081]
    #[arg(long, env = "ORRERY_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where the server answers, instead of the server of this machine [default: `ORRERY_ENDPOINT`, if
    /// neither an address nor settings are given]
    #[arg(long, value_name = "URL", conflicts_with_all = ["listen", "config"])]
    endpoint: Option<String>,
    /// Certificate that an https endpoint is trusted by, as PEM
    #[arg(long, env = "ORRERY_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Seconds to wait for it to become ready
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    wait: u64,
}

/// Succeeds when the server is ready, at once or within the time to wait.
pub(crate) fn run(arguments: &ReadyArguments) -> Result<()> {
    let mut server = arguments.server()?;
    let mut answer = server.ask();
    for _ in 0..arguments.wait.saturating_mul(TRIES_PER_SECOND) {
        if is_ready(&answer) {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
        answer = server.ask();
    }
    let name = server.name();
    match answer {
        answer if is_ready(&answer) => Ok(()),
        Ok(answer) => {
            let status = answer.lines().next().unwrap_or_default();
            bail!("The server at {name} is not ready: it answered '{status}'.")
        }
        Err(error) => {
            let message = format!("No server answers at {name}: {error:#}.");
            Err(Failure::new(Exit::Unreachable, message).into())
        }
    }
}

impl ReadyArguments {
    /// What is asked: an endpoint that was named, else the server by its own settings, else the
    /// endpoint of the environment.
    fn server(&self) -> Result<Asked> {
        let from_file = match &self.config {
            Some(path) if self.listen.is_none() => Choices::from_file(path)?.listen,
            _ => None,
        };
        let named = std::env::var("ORRERY_ENDPOINT").ok().filter(|text| !text.is_empty());
        let named = named.filter(|_| self.listen.is_none() && self.config.is_none());
        if let Some(endpoint) = self.endpoint.clone().or(named) {
            // No key is needed, and none is sent that is not public.
            let ca = self.ca.as_deref();
            let mut remote = Remote::connect(&endpoint, Some(WELL_KNOWN_KEY), ca)?;
            remote.wait_at_most(ANSWER_TIME);
            return Ok(Asked::Endpoint(endpoint, Box::new(remote)));
        }
        let default = || LISTEN_DEFAULT.parse().expect("the default is an address");
        Ok(Asked::Address(reachable(self.listen.or(from_file).unwrap_or_else(default))))
    }
}

/// The server that is asked.
enum Asked {
    Address(SocketAddr),
    Endpoint(String, Box<Remote>),
}

impl Asked {
    fn name(&self) -> String {
        match self {
            Self::Address(address) => address.to_string(),
            Self::Endpoint(endpoint, _) => endpoint.clone(),
        }
    }

    /// The first line of its answer, as HTTP/1.1 writes it, and whatever follows.
    fn ask(&mut self) -> Result<String> {
        match self {
            Self::Address(address) => Ok(ask(*address)?),
            Self::Endpoint(_, remote) => {
                let (method, path, headers, body) = ("GET", "/readyz", &[][..], &b""[..]);
                let answer = remote.request(&Ask {
                    method,
                    path,
                    id: None,
                    kind: "",
                    link: "",
                    headers,
                    body,
                })?;
                Ok(format!("HTTP/1.1 {} ", answer.status))
            }
        }
    }
}

fn is_ready(answer: &Result<String>) -> bool {
    answer.as_ref().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

/// The port speaks plain HTTP whatever else it speaks, so that no certificate matters here.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIME)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A server on all addresses is asked on the one of this machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_asked_on_this_machine() {
        let check = |listen: &str, expected: &str| {
            assert_eq!(reachable(listen.parse().unwrap()), expected.parse().unwrap());
        };
        check("0.0.0.0:8081", "127.0.0.1:8081");
        check("[::]:8081", "[::1]:8081");
        check("10.1.2.3:80", "10.1.2.3:80");
    }
}
