//! Client encryption keys from creation to deletion: kept as they were sent, never opened.

use orrery_engine::catalog::resource::Preconditions;
use orrery_types::Error;
use orrery_types::ids::Address;

use crate::world::{World, json, name};

fn key(wrapped: &str) -> String {
    format!(
        r#"{{"id":"k","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256","wrappedDataEncryptionKey":"{wrapped}","keyWrapMetadata":{{"type":"t","name":"n","value":"v"}}}}"#
    )
}

#[test]
fn a_key_is_kept_replaced_and_deleted() {
    let mut world = World::memory();
    world.database();
    let (engine, database, any) = (world.engine(), name("d"), Preconditions::default());
    let made = engine.encryption_keys().create(&database, &json(&key("AAA="))).expect("a key");
    assert_eq!(made.body.get("wrappedDataEncryptionKey").as_str(), Some("AAA="));
    let again = engine.encryption_keys().create(&database, &json(&key("BBB=")));
    assert_eq!(again.err(), Some(Error::AlreadyExists));
    let refused = engine.encryption_keys().create(&database, &json(r#"{"id":"other"}"#));
    assert!(matches!(refused, Err(Error::Invalid(_))), "a key without its parts");
    let new = engine.encryption_keys().replace(&database, &name("k"), &json(&key("CCC=")), &any);
    let new = new.expect("a replaced key");
    assert_ne!(new.stamp.etag, made.stamp.etag);
    let created = made.body.get("_cts").as_i64();
    assert_eq!(created, i64::try_from(made.stamp.ts).ok(), "in seconds, as `_ts`");
    assert_eq!(new.body.get("_cts").as_i64(), created, "a replaced key keeps it");
    let read = engine.encryption_keys().read(&database, &Address::Rid(made.rid)).expect("by rid");
    assert_eq!(read.body.get("wrappedDataEncryptionKey").as_str(), Some("CCC="));
    assert_eq!(engine.encryption_keys().list(&database).expect("a list").1.len(), 1);
    engine.encryption_keys().delete(&database, &name("k"), &any).expect("a deletion");
    let gone = engine.encryption_keys().read(&database, &name("k"));
    assert_eq!(gone.err(), Some(Error::NotFound));
}
