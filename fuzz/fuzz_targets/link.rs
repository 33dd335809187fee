//! Paths of requests: each is refused or reads into a link that says what is signed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_server::wire::link::ResourceLink;

fuzz_target!(|text: &str| {
    for path in [text.to_owned(), format!("/dbs/d/colls/c/{text}"), format!("/dbs/{text}")] {
        if let Ok(link) = ResourceLink::parse(&path) {
            assert!(!link.signed_type.contains('/'), "{path}");
        }
    }
});
