//! The JSON shapes that hold several resources: feeds and their pages.

use orrery_engine::{Resource, query::continuation, throughput::charge};
use orrery_types::ids::Rid;
use orrery_types::{Result, Value};

use http::StatusCode;
use orrery_engine::query::read_feed::PageSize;

use crate::wire::headers::RequestHeaders;
use crate::wire::reply::Reply;

/// Writes `{"_rid":…,"<list>":[…],"_count":n}` around items that are JSON text already.
pub(crate) fn feed_text<'i>(
    rid: &str,
    list: &str,
    items: impl ExactSizeIterator<Item = &'i [u8]>,
    size_hint: usize,
) -> Vec<u8> {
    let count = items.len();
    let mut out = Vec::with_capacity(size_hint + count + 64);
    out.extend_from_slice(format!("{{\"_rid\":\"{rid}\",\"{list}\":[").as_bytes());
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.extend_from_slice(format!("],\"_count\":{count}}}").as_bytes());
    out
}

/// A feed of values, whole.
pub(crate) fn values(rid: &str, list: &str, values: &[Value]) -> Reply {
    let texts: Vec<String> = values.iter().map(Value::to_json).collect();
    texts_of(rid, list, &texts)
}

/// A feed of values that are JSON text already, whole.
pub(crate) fn texts_of(rid: &str, list: &str, texts: &[String]) -> Reply {
    let size = texts.iter().map(String::len).sum();
    let body = feed_text(rid, list, texts.iter().map(String::as_bytes), size);
    Reply::json(StatusCode::OK, body).item_count(texts.len())
}

/// A page of a feed of catalog resources, which come in the order of their rids.
pub(crate) fn resources(
    parent: Option<Rid>,
    list: &str,
    resources: Vec<Resource>,
    request: &RequestHeaders,
) -> Result<Reply> {
    let parent = parent.map_or_else(String::new, |rid| rid.to_string());
    let owner = format!("resources {list} {parent}");
    let size = PageSize::from_header(request.max_item_count)?;
    let after: Option<Rid> = match request.continuation.as_deref() {
        None => None,
        Some(token) => {
            let state = continuation::decode(&owner, token)?;
            String::from_utf8_lossy(&state).parse().ok()
        }
    };
    let rest: Vec<Resource> =
        resources.into_iter().filter(|r| after.is_none_or(|last| r.rid > last)).collect();
    let more = rest.len() > size.items;
    let page: Vec<Value> = rest.iter().take(size.items).map(|r| r.body.clone()).collect();
    let last = rest.get(page.len().wrapping_sub(1)).map(|r| r.rid.to_string());
    let token = last.filter(|_| more).map(|rid| continuation::encode(&owner, rid.as_bytes()));
    let reply = values(&parent, list, &page).charge(charge::catalog_read());
    Ok(reply.continuation(token))
}
