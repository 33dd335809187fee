//! The items that queries look for: a thousand goods in each of many categories. What a query finds
//! does not grow with the container, so its time should not either.

use orrery_types::Value;

/// Items of one logical partition, which is also how many a batch loads.
pub(crate) const PARTITION_ITEMS: u64 = 100;
/// Items of one category.
pub(crate) const CATEGORY_ITEMS: u64 = 10_000;
/// Brands; each has ten items in every category.
pub(crate) const BRANDS: u64 = 1_000;
/// Items are padded to this size.
const ITEM_BYTES: usize = 1024;
/// How the text of an item ends.
const END: &str = "\"}";

pub(crate) fn partition(number: u64) -> String {
    format!("p-{:07}", number / PARTITION_ITEMS)
}

pub(crate) fn category(number: u64) -> String {
    format!("category-{:04}", number / CATEGORY_ITEMS)
}

pub(crate) fn brand(number: u64) -> String {
    format!("brand-{:03}", number % BRANDS)
}

/// Distinct for each item, and in no order that follows from its number.
pub(crate) fn sku(number: u64) -> String {
    format!("sku-{:016x}", scramble(number))
}

/// Between 0 and 1,000,000, spread evenly, in no order that follows from the number.
#[expect(clippy::cast_precision_loss, reason = "two decimals of a million are exact")]
pub(crate) fn price(number: u64) -> f64 {
    (scramble(number ^ 0x5a5a) % 100_000_000) as f64 / 100.0
}

pub(crate) fn kind(number: u64) -> &'static str {
    ["solid", "liquid", "gas", "plasma"][usize::try_from(number % 4).expect("below four")]
}

/// An item as a client sends it.
pub(crate) fn text(number: u64) -> String {
    let mut text = format!(
        r#"{{"id":"item-{number:09}","pk":"{}","sku":"{}","category":"{}","brand":"{}","kind":"{}","price":{},"stock":{},"#,
        partition(number),
        sku(number),
        category(number),
        brand(number),
        kind(number),
        Value::from(price(number)).to_json(),
        number % 50,
    );
    text += r#""tags":["blue","large","new"],"size":{"width":12.5,"height":80,"depth":3},"#;
    text += r#""available":true,"supplier":null,"text":""#;
    let words = "the quick brown fox jumps over the lazy dog and runs away ".chars().cycle();
    text.extend(words.take(ITEM_BYTES - text.len() - END.len()));
    text + END
}

/// Mixes the bits of a number; no two numbers give the same.
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_json_of_its_size() {
        for number in [0, 9_999, 123_456_789] {
            let text = text(number);
            assert_eq!(text.len(), ITEM_BYTES);
            let item = Value::parse(text.as_bytes()).expect("JSON");
            assert_eq!(item.get("sku").as_str(), Some(&*sku(number)));
        }
    }
}
