//! The account's keys: four that clients sign with and one that signs our resource tokens. Made
//! at the first start and kept in `keys.toml` in the data folder, or among the [`AccountRecords`] of a store
//! that has none; `auth` asks them.
//!
//! A key given in the settings stands in for the kept one while the process runs and is never
//! written down. The key every emulator is known by opens the account only when asked for.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use orrery_types::limits::KEY_BYTES_MIN;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::auth::private_file;
use crate::auth::records::AccountRecords;

/// The key that the vendor's emulator publishes and that tools have built in.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

const KEY_FILE: &str = "keys.toml";
/// The name of the keys among the records of an account.
const KEY_RECORD: &str = "keys";
const KEY_BYTES: usize = 64;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A key in the settings is no key.
    #[error("The {0} is not a key: it must be at least {KEY_BYTES_MIN} bytes in base64.")]
    Malformed(&'static str),
    /// The file exists and does not hold keys.
    #[error("{path} does not hold account keys: {reason}")]
    #[expect(missing_docs, reason = "the message says it")]
    File { path: PathBuf, reason: String },
    /// The file cannot be read or written.
    #[error("Cannot keep the account keys in {path}: {source}")]
    #[expect(missing_docs, reason = "the message says it")]
    Io { path: PathBuf, source: std::io::Error },
    /// The records of the account cannot be read or written, or hold no keys.
    #[error("Cannot keep the account keys in {place}: {reason}")]
    #[expect(missing_docs, reason = "the message says it")]
    Record { place: String, reason: String },
    /// The system gives no random bytes.
    #[error("The system gives no random bytes to make keys of.")]
    Random,
}

/// Keys from the settings; each stands in for the kept one.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct GivenKeys {
    pub primary: Option<String>,
    pub secondary: Option<String>,
    pub primary_readonly: Option<String>,
    pub secondary_readonly: Option<String>,
}

/// One secret, ready to sign. Its text is shown only by [`Key::text`], never by `Debug`.
#[derive(Clone)]
pub struct Key {
    text: Box<str>,
    mac: Hmac<Sha256>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// Reads a key from base64.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text).ok().filter(|bytes| bytes.len() >= KEY_BYTES_MIN)?;
        let mac = Hmac::new_from_slice(&bytes).ok()?;
        Some(Self { text: text.into(), mac })
    }

    /// The key as clients are given it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// HMAC-SHA256 of a text under this key.
    pub(crate) fn sign(&self, text: &[u8]) -> [u8; 32] {
        let mut mac = self.mac.clone();
        mac.update(text);
        mac.finalize().into_bytes().into()
    }
}

/// The holder of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRole {
    /// May do everything.
    ReadWrite,
    /// May read and query.
    ReadOnly,
}

/// A key of the account that clients sign with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum KeyName {
    Primary,
    Secondary,
    PrimaryReadonly,
    SecondaryReadonly,
}

impl KeyName {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Primary, Self::Secondary, Self::PrimaryReadonly, Self::SecondaryReadonly];
}

/// All keys of the account.
#[derive(Clone, Debug)]
pub struct AccountKeys {
    primary: Key,
    secondary: Key,
    primary_readonly: Key,
    secondary_readonly: Key,
    /// Signs resource tokens; never leaves the server.
    token: Key,
    well_known: Key,
    well_known_use: WellKnownKey,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    primary: String,
    secondary: String,
    primary_readonly: String,
    secondary_readonly: String,
    token: String,
}

impl KeyFile {
    fn key(&mut self, name: KeyName) -> &mut String {
        match name {
            KeyName::Primary => &mut self.primary,
            KeyName::Secondary => &mut self.secondary,
            KeyName::PrimaryReadonly => &mut self.primary_readonly,
            KeyName::SecondaryReadonly => &mut self.secondary_readonly,
        }
    }

    fn to_text(&self) -> Result<String, String> {
        let note = "# The account's keys. Whoever has them has the data.\n";
        toml::to_string(self).map(|text| format!("{note}{text}")).map_err(|error| error.to_string())
    }

    /// Reads what [`KeyFile::to_text`] has written, and checks every key.
    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let Self { primary, secondary, primary_readonly, secondary_readonly, token } = &file;
        for (name, key) in [
            ("primary", primary),
            ("secondary", secondary),
            ("primary_readonly", primary_readonly),
            ("secondary_readonly", secondary_readonly),
            ("token", token),
        ] {
            if Key::parse(key).is_none() {
                return Err(format!("`{name}` is not a key in base64"));
            }
        }
        Ok(file)
    }

    fn write(&self, path: &Path) -> Result<(), KeyError> {
        let text = self.to_text();
        let text = text.map_err(|reason| KeyError::File { path: path.to_owned(), reason })?;
        private_file::write(path, &text)
            .map_err(|source| KeyError::Io { path: path.to_owned(), source })
    }

    fn generate() -> Result<Self, KeyError> {
        Ok(Self {
            primary: random_key()?,
            secondary: random_key()?,
            primary_readonly: random_key()?,
            secondary_readonly: random_key()?,
            token: random_key()?,
        })
    }
}

fn random_key() -> Result<String, KeyError> {
    let mut bytes = [0; KEY_BYTES];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(BASE64.encode(bytes))
}

/// Where the well-known emulator key opens the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WellKnownKey {
    /// Nowhere.
    Refused,
    /// For clients that name this machine as such, by address or as `localhost`. A page whose
    /// own name was made to point at this machine is none of them.
    Local,
    /// For every client that can connect.
    Accepted,
}

impl WellKnownKey {
    /// On a loopback address only, unless the settings say otherwise.
    pub fn decide(listen: SocketAddr, asked_for: Option<bool>) -> Self {
        match asked_for {
            Some(true) => Self::Accepted,
            None if listen.ip().is_loopback() => Self::Local,
            Some(false) | None => Self::Refused,
        }
    }
}

impl AccountKeys {
    /// The keys kept in the data folder, made and kept now if there are none. Without a folder
    /// they last as long as the process.
    pub fn open(
        data: Option<&Path>,
        given: &GivenKeys,
        well_known: WellKnownKey,
    ) -> Result<Self, KeyError> {
        let file = match data {
            Some(folder) => Self::kept(&folder.join(KEY_FILE))?,
            None => KeyFile::generate()?,
        };
        Self::of(&file, given, well_known)
    }

    /// The keys kept among the records of an account, made and kept now if there are none. Of several processes
    /// that make them at the same time, the first counts.
    pub fn open_records(
        records: &dyn AccountRecords,
        given: &GivenKeys,
        well_known: WellKnownKey,
    ) -> Result<Self, KeyError> {
        let failed = |reason: String| KeyError::Record { place: records.place(), reason };
        let text = if let Some(text) = records.read(KEY_RECORD).map_err(failed)? {
            text
        } else {
            let fresh = KeyFile::generate()?.to_text().map_err(failed)?;
            records.create(KEY_RECORD, &fresh).map_err(failed)?
        };
        Self::of(&KeyFile::parse(&text).map_err(failed)?, given, well_known)
    }

    fn of(file: &KeyFile, given: &GivenKeys, well_known: WellKnownKey) -> Result<Self, KeyError> {
        let key = |given: &Option<String>, kept: &str, name: &'static str| {
            Key::parse(given.as_deref().unwrap_or(kept)).ok_or(KeyError::Malformed(name))
        };
        Ok(Self {
            primary: key(&given.primary, &file.primary, "primary key")?,
            secondary: key(&given.secondary, &file.secondary, "secondary key")?,
            primary_readonly: key(
                &given.primary_readonly,
                &file.primary_readonly,
                "primary read-only key",
            )?,
            secondary_readonly: key(
                &given.secondary_readonly,
                &file.secondary_readonly,
                "secondary read-only key",
            )?,
            token: key(&None, &file.token, "token key")?,
            well_known: key(&None, WELL_KNOWN_KEY, "well-known key")?,
            well_known_use: well_known,
        })
    }

    fn kept(path: &Path) -> Result<KeyFile, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        if let Some(text) = private_file::read(path).map_err(io)? {
            let broken = |reason: String| KeyError::File { path: path.to_owned(), reason };
            return KeyFile::parse(&text).map_err(broken);
        }
        let file = KeyFile::generate()?;
        file.write(path)?;
        Ok(file)
    }

    /// The keys kept in a data folder; an error if it keeps none.
    pub fn list(data: &Path) -> Result<Vec<(KeyName, String)>, KeyError> {
        let mut file = Self::existing(data)?;
        Ok(KeyName::ALL.map(|name| (name, file.key(name).clone())).into())
    }

    /// Puts a new key in the place of one that a data folder keeps, and returns it.
    pub fn rotate(data: &Path, name: KeyName) -> Result<String, KeyError> {
        let mut file = Self::existing(data)?;
        let fresh = random_key()?;
        file.key(name).clone_from(&fresh);
        file.write(&data.join(KEY_FILE))?;
        Ok(fresh)
    }

    /// The keys among the records of an account; an error if there are none.
    pub fn list_records(records: &dyn AccountRecords) -> Result<Vec<(KeyName, String)>, KeyError> {
        let (_, mut file) = Self::existing_record(records)?;
        Ok(KeyName::ALL.map(|name| (name, file.key(name).clone())).into())
    }

    /// Puts a new key in the place of one among the records of an account, and returns it.
    pub fn rotate_record(records: &dyn AccountRecords, name: KeyName) -> Result<String, KeyError> {
        let failed = |reason: String| KeyError::Record { place: records.place(), reason };
        let (old, mut file) = Self::existing_record(records)?;
        let fresh = random_key()?;
        file.key(name).clone_from(&fresh);
        let new = file.to_text().map_err(failed)?;
        if records.replace(KEY_RECORD, &old, &new).map_err(failed)? {
            return Ok(fresh);
        }
        Err(failed("they were changed at the same time; look at them and try again".into()))
    }

    fn existing_record(records: &dyn AccountRecords) -> Result<(String, KeyFile), KeyError> {
        let failed = |reason: String| KeyError::Record { place: records.place(), reason };
        let none = || failed("there are none; the server makes them at its first start".into());
        let text = records.read(KEY_RECORD).map_err(failed)?.ok_or_else(none)?;
        let file = KeyFile::parse(&text).map_err(failed)?;
        Ok((text, file))
    }

    fn existing(data: &Path) -> Result<KeyFile, KeyError> {
        let path = data.join(KEY_FILE);
        if !path.exists() {
            let reason = "there is no such file; the server makes it at its first start".to_owned();
            return Err(KeyError::File { path, reason });
        }
        Self::kept(&path)
    }

    /// The file in which a data folder keeps its keys.
    pub fn file(data: &Path) -> PathBuf {
        data.join(KEY_FILE)
    }

    /// The key to print at start.
    pub fn primary(&self) -> &Key {
        &self.primary
    }

    /// The read-only key to print when asked.
    pub fn primary_readonly(&self) -> &Key {
        &self.primary_readonly
    }

    /// Where the well-known emulator key opens the account.
    pub fn well_known_use(&self) -> WellKnownKey {
        self.well_known_use
    }

    /// The well-known emulator key, accepted or not.
    pub(crate) fn well_known(&self) -> &Key {
        &self.well_known
    }

    /// The key that signs resource tokens.
    pub(crate) fn token(&self) -> &Key {
        &self.token
    }

    /// Every key of the account's own that a client may sign with, the likeliest first.
    pub(crate) fn roles(&self) -> impl Iterator<Item = (&Key, KeyRole)> {
        [
            (&self.primary, KeyRole::ReadWrite),
            (&self.secondary, KeyRole::ReadWrite),
            (&self.primary_readonly, KeyRole::ReadOnly),
            (&self.secondary_readonly, KeyRole::ReadOnly),
        ]
        .into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_kept_for_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let first =
            AccountKeys::open(Some(folder.path()), &GivenKeys::default(), WellKnownKey::Refused)
                .unwrap();
        let second =
            AccountKeys::open(Some(folder.path()), &GivenKeys::default(), WellKnownKey::Refused)
                .unwrap();
        let texts = |keys: &AccountKeys| -> Vec<String> {
            keys.roles().map(|(key, _)| key.text().to_owned()).collect()
        };
        assert_eq!(texts(&first), texts(&second));
        assert_eq!(texts(&first).len(), 4);
        assert_eq!(BASE64.decode(first.primary().text()).unwrap().len(), 64);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let path = folder.path().join(KEY_FILE);
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn records_keep_keys_as_a_folder_does() {
        let records = crate::auth::records::tests::MemoryRecords::default();
        let error = AccountKeys::list_records(&records).unwrap_err();
        assert!(error.to_string().contains("first start"), "{error}");
        let open = || {
            let none = GivenKeys::default();
            AccountKeys::open_records(&records, &none, WellKnownKey::Refused).unwrap()
        };
        let first = open().primary().text().to_owned();
        assert_eq!(open().primary().text(), first);
        let before = AccountKeys::list_records(&records).unwrap();
        let fresh = AccountKeys::rotate_record(&records, KeyName::Secondary).unwrap();
        let after = AccountKeys::list_records(&records).unwrap();
        for ((name, old), (_, new)) in before.iter().zip(&after) {
            assert_eq!(*name == KeyName::Secondary, old != new, "{name:?}");
        }
        assert_eq!(after[1], (KeyName::Secondary, fresh));
        let text = records.read(KEY_RECORD).unwrap().unwrap();
        assert!(records.replace(KEY_RECORD, &text, "primary = \"x\"").unwrap());
        let broken =
            AccountKeys::open_records(&records, &GivenKeys::default(), WellKnownKey::Refused);
        assert!(matches!(broken, Err(KeyError::Record { .. })));
    }

    #[test]
    fn without_a_folder_every_start_has_keys_of_its_own() {
        let open =
            || AccountKeys::open(None, &GivenKeys::default(), WellKnownKey::Refused).unwrap();
        assert_ne!(open().primary().text(), open().primary().text());
    }

    #[test]
    fn a_key_is_replaced_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let error = AccountKeys::rotate(folder.path(), KeyName::Primary).unwrap_err();
        assert!(error.to_string().contains("first start"), "{error}");
        AccountKeys::open(Some(folder.path()), &GivenKeys::default(), WellKnownKey::Refused)
            .unwrap();
        let before = AccountKeys::list(folder.path()).unwrap();
        let fresh = AccountKeys::rotate(folder.path(), KeyName::Secondary).unwrap();
        let after = AccountKeys::list(folder.path()).unwrap();
        for ((name, old), (_, new)) in before.iter().zip(&after) {
            assert_eq!(*name == KeyName::Secondary, old != new, "{name:?}");
        }
        assert_eq!(after[1], (KeyName::Secondary, fresh));
    }

    #[test]
    fn a_given_key_stands_in_and_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let given = GivenKeys { primary: Some(WELL_KNOWN_KEY.into()), ..GivenKeys::default() };
        let keys = AccountKeys::open(Some(folder.path()), &given, WellKnownKey::Refused).unwrap();
        assert_eq!(keys.primary().text(), WELL_KNOWN_KEY);
        let kept = std::fs::read_to_string(folder.path().join(KEY_FILE)).unwrap();
        assert!(!kept.contains(WELL_KNOWN_KEY));
    }

    #[test]
    fn a_key_that_is_no_key_is_refused_by_name() {
        for text in ["", "not base64!", "c2hvcnQ="] {
            let given = GivenKeys { secondary: Some(text.into()), ..GivenKeys::default() };
            let error = AccountKeys::open(None, &given, WellKnownKey::Refused).unwrap_err();
            assert!(error.to_string().starts_with("The secondary key is not a key"), "{error}");
        }
    }

    #[test]
    fn a_broken_key_file_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_FILE);
        std::fs::write(&path, "primary = \"x\"").unwrap();
        let error =
            AccountKeys::open(Some(folder.path()), &GivenKeys::default(), WellKnownKey::Refused);
        assert!(matches!(error, Err(KeyError::File { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "primary = \"x\"");
    }

    #[test]
    fn the_well_known_key_opens_loopback_or_what_was_asked_for() {
        let check = |listen: &str, asked, expected| {
            assert_eq!(WellKnownKey::decide(listen.parse().unwrap(), asked), expected, "{listen}");
        };
        check("127.0.0.1:1", None, WellKnownKey::Local);
        check("[::1]:1", None, WellKnownKey::Local);
        check("0.0.0.0:1", None, WellKnownKey::Refused);
        check("10.0.0.1:1", Some(true), WellKnownKey::Accepted);
        check("127.0.0.1:1", Some(false), WellKnownKey::Refused);
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let keys = AccountKeys::open(None, &GivenKeys::default(), WellKnownKey::Accepted).unwrap();
        assert!(!format!("{keys:?}").contains(keys.primary().text()));
    }
}
