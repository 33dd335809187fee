//! The resources of an account by their paths: what is signed follows from the path, and a refusal
//! becomes an error that says what to do.

use anyhow::{Result, anyhow};
use orrery_server::wire::headers;
use orrery_types::Value;

use crate::exit::{Exit, Failure, is_interrupted};
use crate::remote::{Ask, Remote, RemoteAnswer};

/// Sends one request and reads its answer, whatever the status. `path` is not escaped.
pub(crate) fn send(
    remote: &mut Remote,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<RemoteAnswer> {
    let (kind, link) = signed(path);
    request(remote, &Ask { method, path, id: None, kind: &kind, link: &link, headers, body })
}

/// The same for one item of a container, whose id may hold anything.
pub(crate) fn send_item(
    remote: &mut Remote,
    method: &str,
    container: &str,
    id: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<RemoteAnswer> {
    let path = format!("{container}/docs");
    let link = format!("{}/{id}", path.trim_start_matches('/'));
    let ask = Ask { method, path: &path, id: Some(id), kind: "docs", link: &link, headers, body };
    request(remote, &ask)
}

fn request(remote: &mut Remote, ask: &Ask<'_>) -> Result<RemoteAnswer> {
    remote.request(ask).map_err(|error| {
        if is_interrupted(&error) {
            return error;
        }
        let message = format!("{error:#}; is the server running, and --endpoint right?");
        Failure::new(Exit::Unreachable, message).into()
    })
}

/// The same, where only success will do.
pub(crate) fn must(
    remote: &mut Remote,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<RemoteAnswer> {
    let answer = send(remote, method, path, headers, body)?;
    if answer.status < 400 { Ok(answer) } else { Err(refusal(path, &answer)) }
}

/// What is signed for a path: the type of the resource and its link. Types stand at the even
/// places; a path of an odd number of segments is a feed, signed by its parent.
fn signed(path: &str) -> (String, String) {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    // What is done to a container as a whole is signed as the container is.
    let segments = match &segments[..] {
        [container @ .., "operations", _] => container,
        all => all,
    };
    let is_feed = segments.len() % 2 == 1;
    let kind = segments.len().checked_sub(if is_feed { 1 } else { 2 });
    let kind = kind.and_then(|at| segments.get(at)).copied().unwrap_or_default();
    let link = match segments {
        // Offers are signed by their rid alone.
        ["offers", rid] => rid.to_lowercase(),
        feed if is_feed => feed[..feed.len() - 1].join("/"),
        resource => resource.join("/"),
    };
    (kind.to_owned(), link)
}

/// A refusal as an error: the server's words, and what helps.
pub(crate) fn refusal(path: &str, answer: &RemoteAnswer) -> anyhow::Error {
    let message = message(&answer.body);
    let advice = match answer.status {
        401 => "; check --key: `orrery keys list` on the server's machine prints it",
        403 => "; a read-only key may not do this, nor a principal without a role for it",
        404 => "; check the names of database and container",
        _ => "",
    };
    let text = format!("the server refuses {path} ({}): {message}{advice}", answer.status);
    Failure::new(Exit::Refused, text).into()
}

/// The message of an error body, without what wraps it and the tail that only a log needs.
pub(crate) fn message(body: &[u8]) -> String {
    let value = Value::parse(body).unwrap_or(Value::Undefined);
    let whole = String::from_utf8_lossy(body);
    let text = value.get("message").as_str().unwrap_or(&whole);
    let text = text.split("\r\nActivityId").next().unwrap_or(text).trim();
    let list = text.strip_prefix("Message: ").and_then(|json| Value::parse(json.as_bytes()).ok());
    let list = list.as_ref().and_then(|object| object.get("Errors").as_array());
    let first = list.and_then(|errors| errors.first()?.as_str());
    first.unwrap_or(text).trim_end_matches('.').to_owned()
}

/// The ids of all resources of a feed.
pub(crate) fn names(remote: &mut Remote, path: &str, list: &str) -> Result<Vec<String>> {
    let resources = list_all(remote, path, list)?;
    let id = |resource: &Value| resource.get("id").as_str().map(str::to_owned);
    resources.iter().map(|r| id(r).ok_or_else(|| anyhow!("a resource has no id"))).collect()
}

/// All resources of a feed, page by page.
pub(crate) fn list_all(remote: &mut Remote, path: &str, list: &str) -> Result<Vec<Value>> {
    let (mut found, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let mut sent = vec![(headers::MAX_ITEM_COUNT, "-1")];
        sent.extend(continuation.as_deref().map(|token| (headers::CONTINUATION, token)));
        let answer = must(remote, "GET", path, &sent, b"")?;
        let body = Value::parse(&answer.body).map_err(|_| not_an_account())?;
        let Some(page) = body.get(list).as_array() else { return Err(not_an_account()) };
        found.extend_from_slice(page);
        continuation = answer.header(headers::CONTINUATION).map(str::to_owned);
        if continuation.is_none() {
            return Ok(found);
        }
    }
}

pub(crate) fn not_an_account() -> anyhow::Error {
    anyhow!("the answer is not that of an account; check --endpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_follows_from_the_path() {
        let check = |path: &str, kind: &str, link: &str| {
            assert_eq!(signed(path), (kind.to_owned(), link.to_owned()), "{path}");
        };
        check("/", "", "");
        check("/dbs", "dbs", "");
        check("/dbs/shop", "dbs", "dbs/shop");
        check("/dbs/my shop/colls", "colls", "dbs/my shop");
        check("/dbs/shop/colls/books/docs", "docs", "dbs/shop/colls/books");
        check("/offers", "offers", "");
        check("/offers/xY12", "offers", "xy12");
    }

    #[test]
    fn a_message_loses_its_wrapping() {
        let body = br#"{"code":"NotFound","message":"It is gone.\r\nActivityId: 1, more"}"#;
        assert_eq!(message(body), "It is gone");
        let body = br#"{"message":"Message: {\"Errors\":[\"No.\"]}\r\nActivityId: 1"}"#;
        assert_eq!(message(body), "No");
        assert_eq!(message(b"plain"), "plain");
    }
}
