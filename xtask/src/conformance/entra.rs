//! A server whose keys are switched off, and the issuer whose tokens it accepts. The suites sign in there with
//! the credential interface of their SDK.

use super::Options;
use super::issuer::{ISSUER, Issuer};
use crate::project;
use crate::server::{Announced, Server};
use anyhow::Result;
use std::process::Command;

/// The audiences that the server accepts: its own name, which is what SDKs ask for by themselves, and that of
/// an application, for which they have a setting.
const AUDIENCES: &str = "https://localhost,https://db.example";
/// The principal that makes databases and gives roles.
const ADMINISTRATOR: &str = "00000000-0000-4000-8000-00000000000a";

pub(super) struct EntraServer {
    server: Server,
    issuer: Issuer,
}

impl EntraServer {
    pub(super) fn start(options: &Options) -> Result<Self> {
        let folder = project::cache("conformance/entra")?;
        // Another run beside this one has keys of its own.
        let issuer = Issuer::start(folder.join(format!("keys-{}.json", std::process::id())))?;
        let server = options.start_server_with(
            Announced::AsAsked,
            &[
                "--disable-keys",
                "--entra-issuers",
                ISSUER,
                "--entra-audiences",
                AUDIENCES,
                "--entra-jwks",
                &issuer.key_set().to_string_lossy(),
                "--entra-administrators",
                ADMINISTRATOR,
            ],
        )?;
        Ok(Self { server, issuer })
    }

    /// SDKs send tokens over TLS only.
    pub(super) fn endpoint(&self) -> String {
        self.server.endpoint("https")
    }

    /// Tells a suite where both are.
    pub(super) fn name_to(&self, suite: &mut Command) {
        suite
            .env("ORRERY_ENTRA_ENDPOINT", self.endpoint())
            .env("ORRERY_ISSUER", self.issuer.endpoint())
            .env("ORRERY_ADMINISTRATOR", ADMINISTRATOR);
    }
}

impl Drop for EntraServer {
    fn drop(&mut self) {
        // A key set without its issuer is of no use, and harmless where it stays.
        let _ = std::fs::remove_file(self.issuer.key_set());
    }
}
