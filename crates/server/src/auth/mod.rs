//! Authentication: the `Authorization` header becomes a [`Principal`]. `call` calls
//! [`Authenticator::authenticate`] with the parsed link; `dispatch` then asks the principal whether it may
//! run the operation.
//!
//! The signature is checked before the date, so that only the holder of a key learns that a clock
//! is wrong. Signatures are compared in constant time.

pub mod entra;
pub mod keys;
pub mod token;
mod emulator_token;
pub mod private_file;
pub mod records;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use orrery_types::limits::CLOCK_SKEW_S_MAX;
use orrery_types::{Clock, Error, Result, TokenFault};
use subtle::ConstantTimeEq as _;

use crate::auth::emulator_token::EmulatorToken;
use crate::auth::entra::{DirectoryPrincipal, TokenVerifier};
use crate::auth::keys::{AccountKeys, Key, KeyRole, WellKnownKey};
use crate::auth::token::{Grant, GrantMode, TokenIssuer};
use crate::service::{Request, Scheme};
use crate::wire::headers;
use crate::wire::link::{ResourceLink, Target};

/// More than an HMAC-SHA256 has; whatever is longer is no signature.
const SIGNATURE_BYTES_MAX: usize = 48;

const MISSING: &str = "Required Header authorization is missing. Ensure a valid Authorization \
                       token is passed.";
/// The vendor's own wording, slip included: tests of clients look for it.
pub(crate) const MALFORMED: &str = "Authorization header doesn't confirm to the required format. \
                                    Please verify and try again.";
const NO_DATE: &str = "Required Header x-ms-date or Date is missing. Send the time of the request \
                       as in RFC 1123.";
const NO_DIRECTORY: &str = "This server accepts no Entra ID (type=aad) tokens: it was started without \
                            --entra-issuers. Sign the request with an account key or use a \
                            resource token. On localhost a token whose signature is an account key \
                            is accepted, as the emulator does.";
const OPEN_TRANSPORT: &str = "An Entra ID token was sent in plain text: whoever saw it can use it. Connect \
                              by https, and ask the issuer for a new token.";
/// The service's own words, which clients' tests look for.
const KEYS_DISABLED: &str =
    "Local Authorization is disabled. Use an AAD token to authorize all requests.";
const SECRET: &str = "Insufficient permissions provided in the authorization header for the \
                      corresponding request. Permissions and backups are not for read-only keys: \
                      what they hold opens more than reading.";
const READ_ONLY: &str = "Insufficient permissions provided in the authorization header for the \
                         corresponding request. The request writes, and a read-only key signed it.";

/// What an operation does to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Access {
    Read,
    /// Reads what lets its reader do more than read: the tokens of permissions, and the files of a
    /// backup, which hold everything.
    ReadSecret,
    Write,
}

/// The authenticated sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Holds a read-write key.
    Master,
    /// Holds a read-only key.
    ReadOnly,
    /// Holds a resource token. What it covers is for the operation to check, by rids.
    Grant(Grant),
    /// Holds a token of a directory. What its roles permit is for the operation to check.
    Directory(Arc<DirectoryPrincipal>),
}

impl Principal {
    /// Refuses a kind of access that the principal does not have at all.
    pub fn allow(&self, access: Access) -> Result<()> {
        match (self, access) {
            (Self::Master, _)
            | (Self::ReadOnly | Self::Grant(_), Access::Read)
            | (Self::Grant(Grant { mode: GrantMode::All, .. }), Access::Write)
            // Each operation has an action, which a role permits or not.
            | (Self::Directory(_), Access::Read | Access::Write) => Ok(()),
            (Self::ReadOnly, Access::Write) => Err(Error::Denied(READ_ONLY.into())),
            (Self::ReadOnly, Access::ReadSecret) => Err(Error::Denied(SECRET.into())),
            (Self::Grant(Grant { mode: GrantMode::Read, .. }), Access::Write)
            | (Self::Grant(_) | Self::Directory(_), Access::ReadSecret) => Err(denied()),
        }
    }
}

/// The refusal for a token that does not permit the operation.
pub fn denied() -> Error {
    let message = "Insufficient permissions provided in the authorization header for the \
                   corresponding request. Please retry with another authorization header.";
    Error::Denied(message.into())
}

/// Whether others can read what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TLS, or a connection within this machine.
    Private,
    /// Plain text over a network.
    Open,
}

impl Transport {
    /// That of a request.
    pub(crate) fn of(request: &Request) -> Self {
        if request.scheme == Scheme::Https || request.peer.ip().to_canonical().is_loopback() {
            Self::Private
        } else {
            Self::Open
        }
    }
}

/// What a request says about its sender, wherever it says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials<'a> {
    pub(crate) authorization: Option<&'a [u8]>,
    /// The date that the protocol has for itself.
    pub(crate) own_date: Option<&'a str>,
    /// The date that HTTP has.
    pub(crate) standard_date: Option<&'a str>,
    /// The name of the server that the client used, with or without a port.
    pub(crate) host: Option<&'a [u8]>,
    /// How it came.
    pub(crate) transport: Transport,
}

impl<'a> Credentials<'a> {
    fn of(headers: &'a HeaderMap, transport: Transport) -> Self {
        let bytes = |name: HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            authorization: bytes(http::header::AUTHORIZATION),
            own_date: text(const { HeaderName::from_static(headers::DATE) }),
            standard_date: text(http::header::DATE),
            host: bytes(http::header::HOST),
            transport,
        }
    }
}

/// Checks credentials.
pub struct Authenticator {
    keys: ArcSwap<AccountKeys>,
    tokens: TokenIssuer,
    clock: Arc<dyn Clock>,
    /// Verifies tokens of a directory, if there is one.
    directory: Option<Arc<TokenVerifier>>,
}

impl Authenticator {
    /// An authenticator for these keys.
    pub fn new(keys: AccountKeys, clock: Arc<dyn Clock>) -> Self {
        let tokens = TokenIssuer::new(keys.token().clone());
        Self { keys: ArcSwap::from_pointee(keys), tokens, clock, directory: None }
    }

    /// The same with a directory whose tokens are accepted.
    #[must_use]
    pub fn with_directory(mut self, directory: Arc<TokenVerifier>) -> Self {
        self.directory = Some(directory);
        self
    }

    /// Whether keys, and what is signed with them, are refused.
    fn keys_disabled(&self) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.keys_disabled())
    }

    /// Replaces the keys. Issued tokens stay valid: the key that signs them does not change.
    pub fn replace_keys(&self, keys: AccountKeys) {
        self.keys.store(Arc::new(keys));
    }

    /// The issuer of resource tokens, for permissions.
    pub fn tokens(&self) -> &TokenIssuer {
        &self.tokens
    }

    /// Authenticates the sender of a request with these headers.
    pub fn authenticate(
        &self,
        method: &Method,
        link: &ResourceLink,
        headers: &HeaderMap,
        transport: Transport,
    ) -> Result<Principal> {
        self.verify(method, link, &Credentials::of(headers, transport))
    }

    /// The principal of a request with these credentials.
    pub(crate) fn verify(
        &self,
        method: &Method,
        link: &ResourceLink,
        credentials: &Credentials<'_>,
    ) -> Result<Principal> {
        let malformed = || Error::Unauthenticated(MALFORMED.into());
        let header = credentials.authorization;
        let header = header.ok_or_else(|| Error::Unauthenticated(MISSING.into()))?;
        let header = std::str::from_utf8(header).map_err(|_| malformed())?;
        let header = decoded(header).ok_or_else(malformed)?;
        let (kind, signature) = parts(&header).ok_or_else(malformed)?;
        match kind {
            "master" | "resource" if self.keys_disabled() => {
                Err(entra::refused(TokenFault::KeysDisabled, KEYS_DISABLED))
            }
            "master" => {
                let mut bytes = [0; SIGNATURE_BYTES_MAX];
                // A text too long for the room is no signature either.
                let length = BASE64.decode_slice(signature, &mut bytes).map_err(|_| malformed())?;
                self.master(method, link, credentials, &bytes[..length])
            }
            "resource" => self.tokens.verify(signature, self.clock.now_s()).map(Principal::Grant),
            "aad" => match self.emulator_token(signature, credentials)? {
                Some(principal) => Ok(principal),
                None => self.directory_token(signature, credentials),
            },
            _ => Err(malformed()),
        }
    }

    /// The holder of a token of the directory.
    fn directory_token(&self, token: &str, credentials: &Credentials<'_>) -> Result<Principal> {
        let Some(directory) = &self.directory else {
            return Err(entra::refused(TokenFault::NoDirectory, NO_DIRECTORY));
        };
        if credentials.transport == Transport::Open {
            return Err(Error::Unauthenticated(OPEN_TRANSPORT.into()));
        }
        let principal = directory.verify(token, self.clock.now_s())?;
        Ok(if principal.is_administrator() {
            Principal::Master
        } else {
            Principal::Directory(principal)
        })
    }

    /// The holder of a token whose signature is a key, where the well-known key is accepted.
    fn emulator_token(
        &self,
        token: &str,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Principal>> {
        if self.keys_disabled() || self.well_known(credentials).is_err() {
            return Ok(None);
        }
        let Some(token) = EmulatorToken::parse(token) else { return Ok(None) };
        let keys = self.keys.load();
        let is_it = |key: &Key| bool::from(key.text().as_bytes().ct_eq(&token.key));
        let own = keys.roles().find(|(key, _)| is_it(key)).map(|(_, role)| role);
        let principal = match own {
            Some(KeyRole::ReadOnly) => Principal::ReadOnly,
            Some(KeyRole::ReadWrite) => Principal::Master,
            None if is_it(keys.well_known()) => Principal::Master,
            None => return Ok(None),
        };
        if token.expires_s.is_some_and(|expires_s| self.clock.now_s() >= expires_s) {
            let message = "The authorization token is not valid at the current time. The Entra ID \
                           token has expired; create another one.";
            return Err(entra::refused(TokenFault::Expired, message));
        }
        Ok(Some(principal))
    }

    fn master(
        &self,
        method: &Method,
        link: &ResourceLink,
        credentials: &Credentials<'_>,
        signature: &[u8],
    ) -> Result<Principal> {
        let dates = Dates::read(credentials)?;
        let payload = dates.payload(method, &link.signed_type, &link.signed_link);
        let signer = self
            .signer(&payload, signature)
            .or_else(|| {
                let raw = link.signed_link_raw.as_deref()?;
                self.signer(&dates.payload(method, &link.signed_type, raw), signature)
            })
            .or_else(|| {
                let Target::PartitionKeyDelete(_) = link.target else { return None };
                let payload = dates.payload(method, "partitionkey", &link.signed_link);
                self.signer(&payload, signature)
            });
        let Some(signer) = signer else {
            let shown = payload.replace('\n', "\\n");
            let message = format!(
                "The input authorization token can't serve the request. The wrong key is being \
                 used or the expected payload is not built as per the protocol. Server used the \
                 following payload to sign: '{shown}'"
            );
            return Err(Error::Unauthenticated(message.into()));
        };
        let principal = match signer {
            Signer::Role(KeyRole::ReadWrite) => Principal::Master,
            Signer::Role(KeyRole::ReadOnly) => Principal::ReadOnly,
            Signer::WellKnown => self.well_known(credentials)?,
        };
        dates.check(self.clock.now_s())?;
        Ok(principal)
    }

    fn signer(&self, payload: &str, signature: &[u8]) -> Option<Signer> {
        let signed = |key: &Key| key.sign(payload.as_bytes()).as_slice().ct_eq(signature).into();
        let keys = self.keys.load();
        let own = keys.roles().find(|(key, _)| signed(key));
        own.map(|(_, role)| Signer::Role(role))
            .or_else(|| signed(keys.well_known()).then_some(Signer::WellKnown))
    }

    /// A client that signs with the well-known key signs correctly, so the refusal says what to do.
    fn well_known(&self, credentials: &Credentials<'_>) -> Result<Principal> {
        let message = match self.keys.load().well_known_use() {
            WellKnownKey::Accepted => return Ok(Principal::Master),
            WellKnownKey::Local if names_this_machine(credentials.host) => {
                return Ok(Principal::Master);
            }
            WellKnownKey::Local => {
                "The emulator's well-known key is accepted only from clients that connect to \
                 localhost or to an address. Use the account's own key, or start the server with \
                 --allow-well-known-key."
            }
            WellKnownKey::Refused => {
                "This server does not accept the emulator's well-known key, because it can be \
                 reached from other machines or was told not to. Use the account's own key, or \
                 start the server with --allow-well-known-key."
            }
        };
        Err(Error::Unauthenticated(message.into()))
    }
}

/// Whose key a request is signed with.
#[derive(Clone, Copy)]
enum Signer {
    Role(KeyRole),
    WellKnown,
}

/// Whether `Host` is an address or `localhost`. Browsers send the name of the page they show, and
/// the owner of a name can make it point at this machine; an address points where it says.
fn names_this_machine(host: Option<&[u8]>) -> bool {
    let Some(host) = host else { return true };
    let authority = http::uri::Authority::try_from(host);
    authority.is_ok_and(|authority| {
        let host = authority.host().trim_matches(['[', ']']);
        let name = host.to_ascii_lowercase();
        name == "localhost" || name.ends_with(".localhost") || host.parse::<IpAddr>().is_ok()
    })
}

/// The header without its percent-encoding. A plus is a plus: it is not form-encoded.
fn decoded(header: &str) -> Option<Cow<'_, str>> {
    let mut pieces = header.split('%');
    let plain = pieces.next()?;
    if plain.len() == header.len() {
        return Some(header.into());
    }
    let mut text = Vec::with_capacity(header.len());
    text.extend_from_slice(plain.as_bytes());
    for piece in pieces.map(str::as_bytes) {
        let byte = match *piece {
            [high, low, ..] => hex(high).zip(hex(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        text.push(byte.unwrap_or(b'%'));
        text.extend_from_slice(&piece[if byte.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8(text).ok().map(Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// `type=…&ver=…&sig=…`: the signature is all that follows `sig=`, as base64 has `=` in it.
fn parts(header: &str) -> Option<(&str, &str)> {
    let rest = header.strip_prefix("type=")?;
    let (kind, rest) = rest.split_once('&')?;
    let (version, rest) = rest.strip_prefix("ver=")?.split_once('&')?;
    let signature = rest.strip_prefix("sig=")?;
    (matches!(version, "1.0" | "1") && !signature.is_empty()).then_some((kind, signature))
}

/// The date a client signed: `x-ms-date`, or else `Date`.
struct Dates<'a> {
    own: &'a str,
    standard: &'a str,
}

impl<'a> Dates<'a> {
    fn read(credentials: &Credentials<'a>) -> Result<Self> {
        match (credentials.own_date, credentials.standard_date) {
            (Some(own), _) => Ok(Self { own, standard: "" }),
            (None, Some(standard)) => Ok(Self { own: "", standard }),
            (None, None) => Err(Error::Unauthenticated(NO_DATE.into())),
        }
    }

    /// What was signed: method and dates in lower case, the rest as it is.
    fn payload(&self, method: &Method, kind: &str, link: &str) -> String {
        let mut payload = String::with_capacity(kind.len() + link.len() + 64);
        let lines = [(method.as_str(), true), (kind, false), (link, false)];
        for (line, lower) in lines.into_iter().chain([(self.own, true), (self.standard, true)]) {
            let from = payload.len();
            payload.push_str(line);
            if let (true, Some(added)) = (lower, payload.get_mut(from..)) {
                added.make_ascii_lowercase();
            }
            payload.push('\n');
        }
        payload
    }

    fn check(&self, now_s: u64) -> Result<()> {
        let text = if self.own.is_empty() { self.standard } else { self.own };
        let then_s = headers::parse_date(text)
            .and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok())
            .map(|since| since.as_secs());
        let Some(then_s) = then_s else {
            let message = format!(
                "The authorization token is not valid at the current time. The date '{text}' is \
                 not as in RFC 1123, such as 'Thu, 27 Apr 2017 00:51:12 GMT'."
            );
            return Err(Error::OutsideTime(message.into()));
        };
        if then_s.abs_diff(now_s) <= CLOCK_SKEW_S_MAX {
            return Ok(());
        }
        let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now_s);
        let message = format!(
            "The authorization token is not valid at the current time. Please create another token \
             and retry (token start time: {text}, current server time: {}).",
            httpdate::fmt_http_date(now)
        );
        Err(Error::OutsideTime(message.into()))
    }
}

#[cfg(test)]
mod tests;
