//! Settings of the directory, decided: which tokens are accepted, and whether keys are.

use orrery_types::limits;

use crate::auth::entra::DirectorySettings;
use crate::auth::entra::key_set::KeyLocation;
use crate::config::{Choices, ConfigError};

/// The settings of the directory, if there is one. Issuers, audiences and keys all belong to it.
pub(crate) fn settings(said: &Choices) -> Result<Option<DirectorySettings>, ConfigError> {
    let issuers = list(said.entra_issuers.as_ref());
    let audiences = list(said.entra_audiences.as_ref());
    let places = list(said.entra_jwks.as_ref());
    let keys_disabled = said.disable_keys.unwrap_or(false);
    if issuers.is_empty() && audiences.is_empty() && places.is_empty() {
        if keys_disabled {
            return Err(ConfigError::Conflict(
                "Keys are switched off, and no Entra ID issuer is named: nobody could sign in. Name \
                 one with --entra-issuers, or leave out --disable-keys.",
            ));
        }
        return Ok(None);
    }
    if issuers.is_empty() || audiences.is_empty() || places.is_empty() {
        return Err(ConfigError::Conflict(
            "Entra ID sign-in needs --entra-issuers, --entra-audiences and --entra-jwks: whose \
             tokens are accepted, for whom they must be, and with which keys they are signed.",
        ));
    }
    let key_locations = places.iter().map(|text| {
        KeyLocation::parse(text).ok_or_else(|| ConfigError::Value {
            name: "entra-jwks",
            value: text.clone(),
            expected: "a file or an https URL (http is for this machine only)",
        })
    });
    let key_locations = key_locations.collect::<Result<Vec<_>, _>>()?;
    if key_locations.len() > limits::JWKS_SOURCES_MAX {
        return Err(value("entra-jwks", &places.len().to_string(), "at most 16 places"));
    }
    let leeway_s = said.entra_leeway_s.unwrap_or(limits::JWT_LEEWAY_S_DEFAULT);
    if leeway_s > limits::JWT_LEEWAY_S_MAX {
        return Err(value("entra-leeway-s", &leeway_s.to_string(), "at most 900"));
    }
    let claim = |name: &Option<String>, usual: &str| {
        name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| usual.to_owned())
    };
    Ok(Some(DirectorySettings {
        issuers,
        audiences,
        key_locations,
        ca: said.entra_ca.clone(),
        leeway_s,
        principal_claim: claim(&said.entra_principal_claim, "oid"),
        groups_claim: claim(&said.entra_groups_claim, "groups"),
        administrators: list(said.entra_administrators.as_ref()),
        keys_disabled,
    }))
}

fn value(name: &'static str, value: &str, expected: &'static str) -> ConfigError {
    ConfigError::Value { name, value: value.to_owned(), expected }
}

fn list(said: Option<&Vec<String>>) -> Vec<String> {
    said.into_iter().flatten().filter(|text| !text.is_empty()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Choices {
        let one = |text: &str| Some(vec![text.to_owned()]);
        Choices {
            entra_issuers: one("https://issuer.example/"),
            entra_audiences: one("https://db.example"),
            entra_jwks: one("https://issuer.example/keys"),
            ..Choices::default()
        }
    }

    #[track_caller]
    fn check_refused(choices: &Choices, part: &str) {
        let error = settings(choices).map(drop);
        let text = error.expect_err(part).to_string();
        assert!(text.contains(part), "{text}");
    }

    #[test]
    fn issuers_audiences_and_keys_go_together() {
        assert!(settings(&Choices::default()).unwrap().is_none());
        let settings = settings(&said()).unwrap().unwrap();
        assert_eq!((&*settings.principal_claim, &*settings.groups_claim), ("oid", "groups"));
        assert_eq!(settings.leeway_s, 300);
        check_refused(&Choices { entra_issuers: None, ..said() }, "--entra-issuers");
        check_refused(&Choices { entra_audiences: None, ..said() }, "--entra-audiences");
        check_refused(&Choices { entra_jwks: Some(vec![]), ..said() }, "--entra-jwks");
    }

    #[test]
    fn keys_of_issuers_come_over_tls_or_from_this_machine() {
        let with = |place: &str| Choices { entra_jwks: Some(vec![place.to_owned()]), ..said() };
        for place in ["/etc/keys.json", "http://localhost:1/k", "http://[::1]/k", "https://a/k"] {
            assert!(settings(&with(place)).is_ok(), "{place}");
        }
        check_refused(&with("http://issuer.example/keys"), "https URL");
        check_refused(&with("ftp://issuer.example/keys"), "https URL");
    }

    #[test]
    fn keys_are_switched_off_only_where_somebody_can_sign_in() {
        let off = Choices { disable_keys: Some(true), ..Choices::default() };
        check_refused(&off, "nobody could sign in");
        let off = Choices { disable_keys: Some(true), ..said() };
        assert!(settings(&off).unwrap().unwrap().keys_disabled);
        assert!(!settings(&said()).unwrap().unwrap().keys_disabled);
        check_refused(&Choices { entra_leeway_s: Some(901), ..said() }, "at most 900");
    }
}
