//! Throughput over HTTP, which the wire calls offers.

use http::StatusCode;
use orrery_engine::throughput::Migration;
use orrery_engine::{Engine, Resource, charge};
use orrery_types::ids::Rid;
use orrery_types::{Error, Result, Value};

use crate::call::Call;
use crate::wire::headers;
use crate::wire::reply::Reply;
use crate::wire::resources;

const LIST: &str = "Offers";

fn number(rid: Rid) -> Result<u32> {
    match rid {
        Rid::Offer(number) => Ok(number),
        _ => Err(Error::NotFound),
    }
}

fn answered(offer: &Resource) -> Reply {
    Reply::resource(StatusCode::OK, offer)
        .header(headers::MIN_THROUGHPUT, &Engine::offer_minimum(offer).to_string())
        .header(headers::OFFER_REPLACE_PENDING, if is_pending(offer) { "true" } else { "false" })
}

/// Whether partitions are still to be split for it.
fn is_pending(offer: &Resource) -> bool {
    offer.body.get("content").get("isOfferReplacePending").is_true()
}

pub(crate) fn read(call: &Call, rid: Rid) -> Result<Reply> {
    let offer = call.engine().read_offer(number(rid)?)?;
    Ok(answered(&offer).charge(charge::catalog_read()))
}

pub(crate) fn replace(call: &Call, rid: Rid) -> Result<Reply> {
    let migration = match (call.headers.migrate_to_autopilot, call.headers.migrate_to_manual) {
        (true, true) => {
            return Err(Error::invalid("An offer cannot be migrated to both kinds of throughput."));
        }
        (true, false) => Migration::ToAutoscale,
        (false, true) => Migration::ToManual,
        (false, false) => Migration::None,
    };
    let (body, conditions) = (call.json()?, call.conditions());
    let offer = call.engine().replace_offer(number(rid)?, body, migration, &conditions)?;
    Ok(answered(&offer).charge(charge::catalog_write()))
}

pub(crate) fn list(call: &Call) -> Result<Reply> {
    resources::resources(None, LIST, call.engine().list_offers()?, &call.headers)
}

pub(crate) fn query(call: &Call) -> Result<Reply> {
    let offers = call.engine().list_offers()?;
    let bodies: Vec<Value> = offers.into_iter().map(|o| o.body).collect();
    let reply = super::query::resources(call, "", LIST, bodies)?;
    Ok(reply.header(headers::OFFER_REPLACE_PENDING, "false"))
}
