//! Where the signing keys of issuers come from: files, which are read again when they change, and URLs, which
//! are fetched at the start, every ten minutes, and when a token names an unknown key. Tokens cannot make
//! the server fetch more often than twice a minute, and nothing in a token names where to fetch from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use http::Uri;
use orrery_types::limits;
use rustls::RootCertStore;
use tokio::time::Instant;

use super::fetch::fetch;
use super::signing_key::SigningKey;
use super::{DirectorySettings, TokenVerifier};
use crate::net::trust::trusted_roots;

/// How often files are looked at.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// A place of a set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum KeyLocation {
    File(PathBuf),
    Url(Uri),
}

impl KeyLocation {
    /// Reads a path or a URL. Keys that come in plain text could be anybody's, so http is for this machine.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.contains("://") {
            return Some(Self::File(text.into()));
        }
        let uri: Uri = text.parse().ok()?;
        let host = uri.host()?.trim_matches(['[', ']']);
        let is_local = host == "localhost"
            || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        match uri.scheme_str() {
            Some("https") => Some(Self::Url(uri)),
            Some("http") if is_local => Some(Self::Url(uri)),
            _ => None,
        }
    }
}

impl fmt::Display for KeyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(uri) => uri.fmt(f),
        }
    }
}

/// Why there are no signing keys.
#[derive(Debug, thiserror::Error)]
#[error("Cannot use the signing keys of {location}: {reason}")]
#[expect(missing_docs, reason = "the message says it")]
pub struct KeySetError {
    pub location: String,
    pub reason: String,
}

/// The keys of each place, as they were last read.
pub struct KeySets {
    locations: Vec<KeyLocation>,
    roots: Option<Arc<RootCertStore>>,
    found: Vec<Vec<SigningKey>>,
    /// When each file was changed.
    changed: Vec<Option<SystemTime>>,
    fetched: Option<Instant>,
}

impl KeySets {
    /// Reads the files; URLs are fetched later. A file that has no keys, or certificates that cannot be
    /// read, are errors: they are settings.
    pub fn open(settings: &DirectorySettings) -> Result<Self, KeySetError> {
        let locations = settings.key_locations.clone();
        let has_url = locations.iter().any(|at| matches!(at, KeyLocation::Url(_)));
        let roots = has_url.then(|| trusted_roots(settings.ca.as_deref())).transpose();
        let roots = roots.map_err(|reason| {
            let location = settings.ca.as_deref().unwrap_or(Path::new("this machine"));
            KeySetError { location: location.display().to_string(), reason }
        })?;
        let mut sets = Self {
            found: vec![Vec::new(); locations.len()],
            changed: vec![None; locations.len()],
            roots: roots.map(Arc::new),
            locations,
            fetched: None,
        };
        for at in 0..sets.locations.len() {
            sets.read_file(at)?;
        }
        Ok(sets)
    }

    /// Reads a place if it is a file that has changed; whether it has.
    fn read_file(&mut self, at: usize) -> Result<bool, KeySetError> {
        let KeyLocation::File(path) = self.locations[at].clone() else { return Ok(false) };
        let changed = std::fs::metadata(&path).and_then(|about| about.modified()).ok();
        if changed.is_some() && changed == self.changed[at] {
            return Ok(false);
        }
        // One that is broken is reported once, and read again when it changes.
        self.changed[at] = changed;
        let failed = |reason: String| KeySetError { location: path.display().to_string(), reason };
        let text = read_bounded(&path).map_err(|error| failed(error.to_string()))?;
        self.found[at] = SigningKey::read_set(&text).map_err(failed)?;
        Ok(true)
    }

    fn all(&self) -> Vec<SigningKey> {
        self.found.iter().flatten().take(limits::JWKS_KEYS_MAX).cloned().collect()
    }

    /// Whether URLs are to be fetched now.
    fn is_due(&self, has_missed: bool) -> bool {
        let Some(fetched) = self.fetched else { return true };
        let has_none = || {
            let places = self.locations.iter().zip(&self.found);
            places
                .into_iter()
                .any(|(at, keys)| matches!(at, KeyLocation::Url(_)) && keys.is_empty())
        };
        let pause_s = if has_missed || has_none() {
            limits::JWKS_PAUSE_S_MIN
        } else {
            limits::JWKS_REFRESH_S
        };
        fetched.elapsed() >= Duration::from_secs(pause_s)
    }

    /// Fetches every URL; whether one has answered with keys. The keys of one that fails stay.
    async fn fetch(&mut self) -> bool {
        self.fetched = Some(Instant::now());
        let mut has_new = false;
        for (at, location) in self.locations.iter().enumerate() {
            let (KeyLocation::Url(uri), Some(roots)) = (location, &self.roots) else { continue };
            let text = fetch(uri, roots.clone()).await;
            match text.and_then(|text| SigningKey::read_set(&text)) {
                Ok(keys) => {
                    self.found[at] = keys;
                    has_new = true;
                }
                Err(reason) => {
                    tracing::warn!(%location, reason, "cannot fetch signing keys; earlier ones stay");
                }
            }
        }
        has_new
    }
}

fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    let limit = limits::JWKS_BYTES_MAX as u64;
    std::fs::File::open(path)?.take(limit + 1).read_to_end(&mut text)?;
    if text.len() > limits::JWKS_BYTES_MAX {
        let reason = format!("it has more than {limit} bytes");
        return Err(std::io::Error::other(reason));
    }
    Ok(text)
}

impl TokenVerifier {
    /// Takes the keys of the files.
    pub fn use_keys(&self, sets: &KeySets) {
        self.replace_keys(sets.all());
    }

    /// Keeps the keys up to date, for ever.
    pub async fn follow(self: Arc<Self>, mut sets: KeySets) {
        loop {
            let mut is_new = false;
            for at in 0..sets.locations.len() {
                match sets.read_file(at) {
                    Ok(changed) => is_new |= changed,
                    Err(error) => {
                        tracing::warn!(%error, "the signing keys before stay in use");
                    }
                }
            }
            if sets.roots.is_some() && sets.is_due(self.has_missed.load(Ordering::Relaxed)) {
                is_new |= sets.fetch().await;
            }
            if is_new {
                self.use_keys(&sets);
                tracing::info!(keys = self.keys.load().len(), "signing keys of the directory read");
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}
