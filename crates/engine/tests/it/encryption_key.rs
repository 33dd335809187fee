//! Client encryption keys from creation to deletion: kept as they were sent, never opened.

use orrery_engine::resource::Preconditions;
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
    let made = engine.create_encryption_key(&database, &json(&key("AAA="))).expect("a key");
    assert_eq!(made.body.get("wrappedDataEncryptionKey").as_str(), Some("AAA="));
    let again = engine.create_encryption_key(&database, &json(&key("BBB=")));
    assert_eq!(again.err(), Some(Error::AlreadyExists));
    let refused = engine.create_encryption_key(&database, &json(r#"{"id":"other"}"#));
    assert!(matches!(refused, Err(Error::Invalid(_))), "a key without its parts");
    let new = engine.replace_encryption_key(&database, &name("k"), &json(&key("CCC=")), &any);
    assert_ne!(new.expect("a replaced key").stamp.etag, made.stamp.etag);
    let read = engine.read_encryption_key(&database, &Address::Rid(made.rid)).expect("by rid");
    assert_eq!(read.body.get("wrappedDataEncryptionKey").as_str(), Some("CCC="));
    assert_eq!(engine.list_encryption_keys(&database).expect("a list").1.len(), 1);
    engine.delete_encryption_key(&database, &name("k"), &any).expect("a deletion");
    let gone = engine.read_encryption_key(&database, &name("k"));
    assert_eq!(gone.err(), Some(Error::NotFound));
}
