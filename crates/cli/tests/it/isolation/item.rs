//! The items that transactions work on. Each is an account with a balance and the list of the
//! transfers that made it what it is; an element tells its amount, so every item that anybody ever
//! reads shows by itself whether its balance and its list belong together.

use orrery_types::Value;

use super::history::{Element, Key, List};

pub(crate) const INITIAL_BALANCE: i64 = 1000;
/// Amounts are below this, in both directions.
const AMOUNT_END: i64 = 500;

/// The element of a transfer: the number of its step, which is nobody else's, and its amount.
pub(crate) fn element(number: u64, amount: i64) -> Element {
    assert!(amount.abs() < AMOUNT_END);
    number * 1000 + (amount + AMOUNT_END).unsigned_abs()
}

fn amount(element: Element) -> i64 {
    i64::try_from(element % 1000).unwrap() - AMOUNT_END
}

pub(crate) fn id(key: Key) -> String {
    format!("account-{key}")
}

/// The text of an item with a list.
pub(crate) fn text(partition: &str, key: Key, list: &[Element]) -> String {
    let balance = balance(list);
    let list: Vec<String> = list.iter().map(u64::to_string).collect();
    format!(
        r#"{{"id":"{}","p":"{partition}","balance":{balance},"list":[{}]}}"#,
        id(key),
        list.join(",")
    )
}

/// What an account with these transfers has.
pub(crate) fn balance(list: &[Element]) -> i64 {
    INITIAL_BALANCE + list.iter().map(|element| amount(*element)).sum::<i64>()
}

/// Reads an item; its balance must be that of its list.
pub(crate) fn read(item: &Value) -> (Key, List) {
    let id = item.get("id").as_str().unwrap();
    let key = id.strip_prefix("account-").unwrap().parse().unwrap();
    let list = item.get("list").as_array().unwrap().iter();
    let list: List = list.map(|element| element.as_i64().unwrap().unsigned_abs()).collect();
    let found = item.get("balance").as_i64();
    assert_eq!(
        found,
        Some(balance(&list)),
        "{id}: its balance and its list do not belong together"
    );
    (key, list)
}
