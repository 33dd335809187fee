//! The published vectors, and every way credentials are refused.

use http::HeaderValue;
use orrery_types::ManualClock;
use orrery_types::ids::Rid;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::*;
use crate::auth::keys::{GivenKeys, WELL_KNOWN_KEY};

const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";
const DATE_S: u64 = 1_493_254_272;

fn authenticator_at(now_s: u64) -> Authenticator {
    let keys = AccountKeys::open(None, &GivenKeys::default(), WellKnownKey::Accepted).unwrap();
    Authenticator::new(keys, Arc::new(ManualClock::at_s(now_s)))
}

fn encoded(text: &str) -> HeaderValue {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string().parse().unwrap()
}

fn headers_with(authorization: HeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::AUTHORIZATION, authorization);
    headers.insert(headers::DATE, HeaderValue::from_static(DATE));
    headers
}

fn signed(key: &str, payload: &str) -> HeaderMap {
    let signature = BASE64.encode(Key::parse(key).unwrap().sign(payload.as_bytes()));
    headers_with(encoded(&format!("type=master&ver=1.0&sig={signature}")))
}

#[track_caller]
fn check(method: &Method, path: &str, signature: &str) {
    let link = ResourceLink::parse(path).unwrap();
    let text = format!("type=master&ver=1.0&sig={signature}");
    let auth = authenticator_at(DATE_S);
    for header in [encoded(&text), text.parse().unwrap()] {
        let answer = auth.authenticate(method, &link, &headers_with(header), Transport::Private);
        assert_eq!(answer, Ok(Principal::Master), "{method} {path}");
    }
    let other = if method == Method::GET { Method::DELETE } else { Method::GET };
    let answer =
        auth.authenticate(&other, &link, &headers_with(encoded(&text)), Transport::Private);
    assert!(matches!(answer, Err(Error::Unauthenticated(_))), "{other} {path}");
}

#[test]
fn the_published_vectors_are_accepted() {
    check(&Method::GET, "/dbs/ToDoList", "mM0rMK/7o1MZhQwDitGRoGisPRPx09os/86Jk0YwquY=");
    check(&Method::GET, "/", "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=");
    check(&Method::POST, "/dbs/db1/colls/c1/docs/", "pTGQzKdYvdxaLYLD3NjExGL/mezZdIeS3Mak7aIS7VA=");
    check(
        &Method::GET,
        "/dbs/db1/colls/c1/docs/a%20b",
        "SBny2blEduZoZuZYoXskn09UROyNHsH4b8eVVndxDVc=",
    );
    check(
        &Method::GET,
        "/dbs/AQAAAA==/colls/AQAAAIAAAAE=/pkranges",
        "2/m838X6hpBK8D8nYUplFMYiM2FLKqbWCa/EIqQgwQ0=",
    );
    check(&Method::PUT, "/offers/Xy12", "g23P9qCH+BGWB0yW9xOZ7Tu04hHKTpykGd8fIYZtNZQ=");
}

#[test]
fn a_link_signed_undecoded_is_accepted_too() {
    let payload = format!("get\ndbs\ndbs/a%20b\n{}\n\n", DATE.to_lowercase());
    let link = ResourceLink::parse("/dbs/a%20b").unwrap();
    let answer = authenticator_at(DATE_S).authenticate(
        &Method::GET,
        &link,
        &signed(WELL_KNOWN_KEY, &payload),
        Transport::Private,
    );
    assert_eq!(answer, Ok(Principal::Master));
}

#[test]
fn delete_by_partition_key_may_be_signed_under_either_type() {
    let link = ResourceLink::parse("/dbs/d/colls/c/operations/partitionkeydelete").unwrap();
    for kind in ["colls", "partitionkey"] {
        let payload = format!("post\n{kind}\ndbs/d/colls/c\n{}\n\n", DATE.to_lowercase());
        let headers = signed(WELL_KNOWN_KEY, &payload);
        let answer = authenticator_at(DATE_S).authenticate(
            &Method::POST,
            &link,
            &headers,
            Transport::Private,
        );
        assert_eq!(answer, Ok(Principal::Master), "{kind}");
    }
}

#[test]
fn the_plain_date_header_is_signed_on_the_fifth_line() {
    let payload = format!("get\n\n\n\n{}\n", DATE.to_lowercase());
    let mut headers = signed(WELL_KNOWN_KEY, &payload);
    headers.remove(headers::DATE);
    headers.insert(http::header::DATE, HeaderValue::from_static(DATE));
    let link = ResourceLink::parse("/").unwrap();
    let auth = authenticator_at(DATE_S);
    assert_eq!(
        auth.authenticate(&Method::GET, &link, &headers, Transport::Private),
        Ok(Principal::Master)
    );
    headers.remove(http::header::DATE);
    let answer = auth.authenticate(&Method::GET, &link, &headers, Transport::Private);
    assert!(matches!(answer, Err(Error::Unauthenticated(text)) if text.contains("x-ms-date")));
}

#[test]
fn every_key_has_its_role() {
    let auth = authenticator_at(DATE_S);
    let link = ResourceLink::parse("/").unwrap();
    let payload = format!("get\n\n\n{}\n\n", DATE.to_lowercase());
    for (key, role) in auth.keys.load().roles() {
        let answer = auth.authenticate(
            &Method::GET,
            &link,
            &signed(key.text(), &payload),
            Transport::Private,
        );
        let expected = match role {
            KeyRole::ReadWrite => Principal::Master,
            KeyRole::ReadOnly => Principal::ReadOnly,
        };
        assert_eq!(answer, Ok(expected));
    }
    assert_eq!(auth.keys.load().roles().count(), 4);
}

#[test]
fn the_well_known_key_opens_what_it_was_allowed_to_open() {
    let payload = format!("get\n\n\n{}\n\n", DATE.to_lowercase());
    let link = ResourceLink::parse("/").unwrap();
    let check = |allowed: WellKnownKey, host: Option<&str>, expected: bool| {
        let keys = AccountKeys::open(None, &GivenKeys::default(), allowed).unwrap();
        let auth = Authenticator::new(keys, Arc::new(ManualClock::at_s(DATE_S)));
        let mut headers = signed(WELL_KNOWN_KEY, &payload);
        if let Some(host) = host {
            headers.insert(http::header::HOST, host.parse().unwrap());
        }
        match auth.authenticate(&Method::GET, &link, &headers, Transport::Private) {
            Ok(principal) => assert!(expected && principal == Principal::Master, "{host:?}"),
            Err(Error::Unauthenticated(text)) => {
                assert!(!expected && text.contains("--allow-well-known-key"), "{host:?}: {text}");
            }
            Err(other) => panic!("{other}"),
        }
    };
    for host in ["localhost:8081", "LOCALHOST", "db.localhost:1", "127.0.0.1:8081", "[::1]:8081"] {
        check(WellKnownKey::Local, Some(host), true);
        check(WellKnownKey::Refused, Some(host), false);
    }
    for host in ["evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example", "a b"] {
        check(WellKnownKey::Local, Some(host), false);
        check(WellKnownKey::Accepted, Some(host), true);
    }
    check(WellKnownKey::Local, None, true);
    check(WellKnownKey::Refused, None, false);
}

#[test]
fn a_date_outside_the_window_is_forbidden() {
    let link = ResourceLink::parse("/").unwrap();
    let payload = format!("get\n\n\n{}\n\n", DATE.to_lowercase());
    let headers = signed(WELL_KNOWN_KEY, &payload);
    let at = |now_s| {
        authenticator_at(now_s).authenticate(&Method::GET, &link, &headers, Transport::Private)
    };
    assert_eq!(at(DATE_S + CLOCK_SKEW_S_MAX), Ok(Principal::Master));
    assert_eq!(at(DATE_S - CLOCK_SKEW_S_MAX), Ok(Principal::Master));
    for now_s in [DATE_S + CLOCK_SKEW_S_MAX + 1, DATE_S - CLOCK_SKEW_S_MAX - 1] {
        let answer = at(now_s);
        let expected = "The authorization token is not valid at the current time.";
        assert!(matches!(answer, Err(Error::OutsideTime(text)) if text.starts_with(expected)));
    }
}

#[test]
fn a_wrong_signature_is_told_what_the_server_signed() {
    let link = ResourceLink::parse("/dbs/d").unwrap();
    let headers = signed(WELL_KNOWN_KEY, "something else");
    let error = authenticator_at(DATE_S)
        .authenticate(&Method::GET, &link, &headers, Transport::Private)
        .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("The input authorization token can't serve the request."), "{text}");
    let payload = format!("'get\\ndbs\\ndbs/d\\n{}\\n\\n'", DATE.to_lowercase());
    assert!(text.ends_with(&payload), "{text}");
}

#[test]
fn headers_that_are_no_credentials_are_refused_in_the_known_words() {
    let auth = authenticator_at(DATE_S);
    let link = ResourceLink::parse("/").unwrap();
    let missing = auth.authenticate(&Method::GET, &link, &HeaderMap::new(), Transport::Private);
    assert_eq!(missing, Err(Error::Unauthenticated(MISSING.into())));
    for text in [
        "",
        "Bearer abc",
        "type=master",
        "type=master&ver=1.0",
        "type=master&ver=1.0&sig=",
        "type=master&ver=1.0&sig=%%%",
        "type=master&ver=9&sig=AAAA",
        "type=sas&ver=1.0&sig=AAAA",
        "type=resource&ver=1&sig=AAAA",
        "type%3Dmaster%ff",
    ] {
        let answer = auth.authenticate(
            &Method::GET,
            &link,
            &headers_with(text.parse().unwrap()),
            Transport::Private,
        );
        assert_eq!(answer, Err(Error::Unauthenticated(MALFORMED.into())), "{text}");
    }
    let header = "type=aad&ver=1.0&sig=a.b.c".parse().unwrap();
    let answer = auth.authenticate(&Method::GET, &link, &headers_with(header), Transport::Private);
    assert_eq!(answer, Err(entra::refused(TokenFault::NoDirectory, NO_DIRECTORY)));
}

#[test]
fn a_token_of_the_emulator_is_taken_where_its_key_is() {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let link = ResourceLink::parse("/").unwrap();
    let check = |allowed: WellKnownKey, host: &str, key: &str, now_s: u64| {
        let keys = AccountKeys::open(None, &GivenKeys::default(), allowed).unwrap();
        let key = match key {
            "own" => keys.primary().text().to_owned(),
            other => other.to_owned(),
        };
        let auth = Authenticator::new(keys, Arc::new(ManualClock::at_s(now_s)));
        let claims = format!(r#"{{"aud":"https://localhost.localhost","exp":{}}}"#, DATE_S + 60);
        let parts = [r#"{"typ":"JWT","alg":"RS256"}"#, &claims, &key];
        let token = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let mut headers = headers_with(encoded(&format!("type=aad&ver=1.0&sig={token}")));
        headers.insert(http::header::HOST, host.parse().unwrap());
        let answer = auth.authenticate(&Method::GET, &link, &headers, Transport::Private);
        assert!(matches!(answer, Ok(Principal::Master) | Err(Error::TokenRefused(..))));
        answer.is_ok()
    };
    for key in [WELL_KNOWN_KEY, "own"] {
        assert!(check(WellKnownKey::Local, "localhost:8081", key, DATE_S));
        assert!(check(WellKnownKey::Accepted, "db.example", key, DATE_S));
        assert!(!check(WellKnownKey::Local, "evil.example", key, DATE_S));
        assert!(!check(WellKnownKey::Refused, "localhost:8081", key, DATE_S));
        assert!(!check(WellKnownKey::Local, "localhost:8081", key, DATE_S + 60));
    }
    for key in ["", "x", &WELL_KNOWN_KEY.replace("C2y6", "C2y7")] {
        assert!(!check(WellKnownKey::Local, "localhost:8081", key, DATE_S), "{key}");
    }
}

#[test]
fn a_resource_token_becomes_its_grant() {
    let auth = authenticator_at(DATE_S);
    let grant = Grant {
        permission: Rid::Permission { database: 1, user: 1, permission: 1 },
        etag: "\"1\"".into(),
        resource: "dbs/AQAAAA==/colls/AQAAAIAAAAE=/".into(),
        mode: GrantMode::Read,
        partition_key: None,
    };
    let token = auth.tokens().issue(&grant, DATE_S + 60);
    let link = ResourceLink::parse("/").unwrap();
    let answer =
        auth.authenticate(&Method::GET, &link, &headers_with(encoded(&token)), Transport::Private);
    assert_eq!(answer, Ok(Principal::Grant(grant)));
}

#[test]
fn only_those_who_may_write_write() {
    let grant = |mode| {
        Principal::Grant(Grant {
            permission: Rid::Permission { database: 1, user: 1, permission: 1 },
            etag: "\"1\"".into(),
            resource: "dbs/x".into(),
            mode,
            partition_key: None,
        })
    };
    for (principal, may_write) in [
        (Principal::Master, true),
        (Principal::ReadOnly, false),
        (grant(GrantMode::All), true),
        (grant(GrantMode::Read), false),
    ] {
        assert_eq!(principal.allow(Access::Read), Ok(()));
        let answer = principal.allow(Access::Write);
        assert_eq!(answer.is_ok(), may_write, "{principal:?}");
        assert!(may_write || matches!(answer, Err(Error::Denied(_))));
    }
}
