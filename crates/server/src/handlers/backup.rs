//! Backups over HTTP: `POST /_backups` begins one, `GET /_backups/{id}/files/{n}` reads of its n-th
//! file what the header `Range` asks for, `DELETE /_backups/{id}` ends it. Ours alone; only a
//! read-write key opens it.

use http::StatusCode;
use orrery_types::{Error, Result};

use crate::backups::Backups;
use crate::call::Call;
use crate::wire::reply::Reply;

pub(crate) fn begin(call: &Call) -> Result<Reply> {
    let backup = backups(call)?.begin(call.engine(), call.shared.clock.now_s())?;
    Ok(Reply::json(StatusCode::CREATED, backup.to_json()))
}

pub(crate) fn read(call: &Call, id: &str, file: usize) -> Result<Reply> {
    let range = match call.request.headers.get(http::header::RANGE) {
        None => (0, u64::MAX),
        Some(value) => value.to_str().ok().and_then(range).ok_or_else(|| {
            Error::invalid("The header Range must be bytes=FIRST-LAST, both counted from 0.")
        })?,
    };
    let piece = backups(call)?.read((id, file), range, call.shared.clock.now_s())?;
    Ok(Reply::binary(StatusCode::OK, piece))
}

pub(crate) fn end(call: &Call, id: &str) -> Result<Reply> {
    backups(call)?.end(id)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn backups(call: &Call) -> Result<&Backups> {
    let none = || Error::NotImplemented("This server has no folder for backups.".into());
    call.shared.backups.as_deref().ok_or_else(none)
}

/// First byte and number of bytes.
fn range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((first, last.checked_sub(first)?.checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_its_first_and_its_last_byte() {
        assert_eq!(range("bytes=0-0"), Some((0, 1)));
        assert_eq!(range("bytes=10-19"), Some((10, 10)));
        for wrong in [
            "",
            "bytes=",
            "bytes=5-4",
            "bytes=-5",
            "bytes=5-",
            "items=0-1",
            "bytes=0-18446744073709551615",
        ] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }
}
