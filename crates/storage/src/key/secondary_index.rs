//! Keys of global secondary indexes, in the shards of the source container. `index` is the number of the index
//! container within its database. The module comment of `key` has the layout.

use super::Bounds;

const PLACE: u8 = 0x0a;
const POSITION: u8 = 0x21;
const DELETION: u8 = 0x22;
const HELD: u8 = 0x23;

/// Key, in every shard of the source, of how far its feed has been applied to an index.
pub fn secondary_position(index: u32) -> Vec<u8> {
    of_index(POSITION, index)
}

/// The index whose position a key holds; `None` if it is no such key.
pub fn parse_secondary_position(key: &[u8]) -> Option<u32> {
    let index = key.strip_prefix(&[POSITION])?;
    index.try_into().ok().map(u32::from_be_bytes)
}

/// All positions of a shard.
pub fn secondary_positions() -> Bounds {
    Bounds::prefix(vec![POSITION])
}

/// Key saying that a source item was deleted, which the feed of latest versions does not tell.
pub fn secondary_deletion(index: u32, item: &[u8]) -> Vec<u8> {
    beside(DELETION, index, item)
}

/// All deletions that an index has still to follow.
pub fn secondary_deletions(index: u32) -> Bounds {
    Bounds::prefix(of_index(DELETION, index))
}

/// Key of a source item that an index cannot hold.
pub fn secondary_held(index: u32, item: &[u8]) -> Vec<u8> {
    beside(HELD, index, item)
}

/// All source items that an index cannot hold.
pub fn secondary_held_of(index: u32) -> Bounds {
    Bounds::prefix(of_index(HELD, index))
}

/// Key, in the index space, that leads from a source item to the key of its item in an index.
pub fn secondary_place(index: u32, item: &[u8]) -> Vec<u8> {
    beside(PLACE, index, item)
}

/// All places of an index in a shard of its source.
pub fn secondary_places(index: u32) -> Bounds {
    Bounds::prefix(of_index(PLACE, index))
}

/// The index and the key of the source item in the key of a deletion, of a held item or of a place; `None`
/// if it is none of these.
pub fn parse_secondary(key: &[u8]) -> Option<(u32, &[u8])> {
    let (tag, rest) = key.split_first()?;
    let (index, item) = rest.split_first_chunk::<4>()?;
    matches!(*tag, PLACE | DELETION | HELD).then(|| (u32::from_be_bytes(*index), item))
}

fn of_index(tag: u8, index: u32) -> Vec<u8> {
    let mut key = vec![tag];
    key.extend(index.to_be_bytes());
    key
}

fn beside(tag: u8, index: u32, item: &[u8]) -> Vec<u8> {
    let mut key = of_index(tag, index);
    key.extend_from_slice(item);
    key
}

#[cfg(test)]
mod tests {
    use super::super::{item_beside, rule_of};
    use super::*;

    #[test]
    fn keys_read_back_and_stand_beside_their_items() {
        let item = b"\x01a\0\x01item";
        for (key, bounds) in [
            (secondary_deletion(7, item), secondary_deletions(7)),
            (secondary_held(7, item), secondary_held_of(7)),
            (secondary_place(7, item), secondary_places(7)),
        ] {
            assert_eq!(parse_secondary(&key), Some((7, &item[..])));
            assert_eq!(item_beside(&key).as_deref(), Some(&item[..]));
            assert_eq!(rule_of(&key), None, "no model keeps it");
            assert!(bounds.from <= key && key < bounds.to);
        }
        let position = secondary_position(7);
        assert_eq!(parse_secondary_position(&position), Some(7));
        assert_eq!((parse_secondary(&position), item_beside(&position)), (None, None));
        let all = secondary_positions();
        assert!(all.from <= position && position < all.to);
        assert_eq!(parse_secondary_position(&secondary_deletion(7, item)), None);
    }
}
