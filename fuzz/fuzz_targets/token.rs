//! Tokens: the authorization header, session tokens and continuations are refused or taken, and no
//! credential that was not issued opens anything.
#![no_main]

mod account;

use std::sync::{Arc, OnceLock};

use account::{container, engine};
use http::{HeaderMap, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use orrery_engine::query::continuation;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_server::auth::{Authenticator, Transport};
use orrery_server::auth::keys::{AccountKeys, GivenKeys, WellKnownKey};
use orrery_server::wire::link::ResourceLink;
use orrery_types::SystemClock;

fn authenticator() -> &'static Authenticator {
    static OWN: OnceLock<Authenticator> = OnceLock::new();
    OWN.get_or_init(|| {
        let keys = AccountKeys::open(None, &GivenKeys::default(), WellKnownKey::Refused);
        Authenticator::new(keys.expect("keys"), Arc::new(SystemClock))
    })
}

fn read(token: &str) {
    let container = container();
    let whole = container.scope(&ScopeRequest::default()).expect("the whole container");
    let _ = engine().queries().read_items(&container, &whole, PageSize { items: 2 }, Some(token));
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::AUTHORIZATION, value);
        let link = ResourceLink::parse("/dbs/d/colls/a/docs").expect("a link of our own");
        let opened = authenticator().authenticate(&Method::GET, &link, &headers, Transport::Private);
        assert!(opened.is_err(), "a credential that nobody issued");
    }
    let sealed = continuation::encode("fuzz", bytes);
    assert_eq!(continuation::decode("fuzz", &sealed).expect("our own token"), bytes);
    read(&sealed);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = authenticator().tokens().verify(text, 0);
    let _ = engine().sessions().check(&container(), text);
    let _ = continuation::decode("fuzz", text);
    read(text);
});
