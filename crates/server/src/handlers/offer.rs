//! Throughput over HTTP, which the wire calls offers.

use http::StatusCode;
use orrery_engine::catalog::offer::OfferCatalog;
use orrery_engine::throughput::Migration;
use orrery_engine::{Resource, throughput::charge};
use orrery_types::ids::Rid;
use orrery_types::{Error, Result, Value};

use crate::call::Call;
use crate::wire::reply::{Reply, ReplyNote};
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
        .note(ReplyNote::MinThroughput, OfferCatalog::minimum(offer).to_string())
        .note(ReplyNote::OfferReplacePending, if is_pending(offer) { "true" } else { "false" })
}

/// Whether partitions are still to be split for it.
fn is_pending(offer: &Resource) -> bool {
    offer.body.get("content").get("isOfferReplacePending").is_true()
}

pub(crate) fn read(call: &Call, rid: Rid) -> Result<Reply> {
    let offer = call.engine().offers().read(number(rid)?)?;
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
    let offer = call.engine().offers().replace(number(rid)?, body, migration, &conditions)?;
    Ok(answered(&offer).charge(charge::catalog_write()))
}

pub(crate) fn list(call: &Call) -> Result<Reply> {
    resources::resources(None, LIST, call.engine().offers().list()?, &call.headers)
}

pub(crate) fn query(call: &Call) -> Result<Reply> {
    let offers = call.engine().offers().list()?;
    let bodies: Vec<Value> = offers.into_iter().map(|o| o.body).collect();
    let reply = super::query::resources(call, "", LIST, bodies)?;
    Ok(reply.note(ReplyNote::OfferReplacePending, "false"))
}
