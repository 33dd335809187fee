//! The link of a request in Direct mode, whose names come one by one in tokens, as they are and never
//! percent-encoded.

use orrery_direct::{FrameRequest, OperationCode, RequestTokens, ResourceCode};
use orrery_types::ids::Rid;
use orrery_types::{Error, Result};

use super::{ResourceLink, SEGMENTS_MAX};

/// Whether an operation addresses the resources of a kind together.
fn is_feed(operation: OperationCode) -> bool {
    match operation {
        OperationCode::Create
        | OperationCode::Upsert
        | OperationCode::ReadFeed
        | OperationCode::Query
        | OperationCode::SqlQuery
        | OperationCode::QueryPlan
        | OperationCode::Batch
        | OperationCode::HeadFeed => true,
        OperationCode::Connect
        | OperationCode::Patch
        | OperationCode::Read
        | OperationCode::Delete
        | OperationCode::Replace
        | OperationCode::Execute
        | OperationCode::Head => false,
    }
}

impl ResourceLink {
    /// The link of a request in Direct mode: by names if it has any, else by its rid.
    pub(crate) fn of_frame(sent: &FrameRequest<'_>) -> Result<Self> {
        let word = word_of(sent.resource)?;
        let tokens = &sent.tokens;
        let rids = match (tokens.database_name, tokens.resource_id) {
            (None, Some(rid)) => rid_levels(rid, word)?,
            _ => Vec::new(),
        };
        let names = named(tokens).into_iter().filter_map(|(word, name)| Some((word, name?)));
        let rids = rids.iter().map(|(word, rid)| (*word, rid.as_str()));
        let mut segments = [""; SEGMENTS_MAX];
        let mut count = 0;
        for segment in names.chain(rids).flat_map(|(word, name)| [word, name]) {
            *segments.get_mut(count).ok_or(Error::NotFound)? = segment;
            count += 1;
        }
        if is_feed(sent.operation) {
            *segments.get_mut(count).ok_or(Error::NotFound)? = word;
            count += 1;
        }
        let segments = &segments[..count];
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(Error::NotFound);
        }
        Self::of(segments, None)
    }
}

/// The names of a request with the words of their levels, the outermost first.
fn named<'a>(tokens: &RequestTokens<'a>) -> [(&'static str, Option<&'a str>); 12] {
    [
        ("dbs", tokens.database_name),
        ("colls", tokens.container_name),
        ("docs", tokens.item_name),
        ("attachments", tokens.attachment_name),
        ("users", tokens.user_name),
        ("permissions", tokens.permission_name),
        ("sprocs", tokens.procedure_name),
        ("triggers", tokens.trigger_name),
        ("udfs", tokens.udf_name),
        ("conflicts", tokens.conflict_name),
        ("pkranges", tokens.range_name),
        ("clientencryptionkeys", tokens.encryption_key_name),
    ]
}

/// The levels of a rid, each as a link has it.
fn rid_levels(bytes: &[u8], word: &'static str) -> Result<Vec<(&'static str, String)>> {
    let unknown = || Error::invalid("The token ResourceId is not a resource id.");
    let level =
        |length: usize| bytes.get(..length).and_then(Rid::from_bytes).map(|rid| rid.to_string());
    let mut levels = vec![("dbs", level(4).ok_or_else(unknown)?)];
    if bytes.len() >= 8 {
        let second = match Rid::from_bytes(&bytes[..8]) {
            Some(Rid::Container { .. }) => "colls",
            Some(Rid::User { .. }) => "users",
            Some(Rid::EncryptionKey { .. }) => "clientencryptionkeys",
            _ => return Err(unknown()),
        };
        levels.push((second, level(8).ok_or_else(unknown)?));
    }
    if bytes.len() > 8 {
        levels.push((word, level(bytes.len()).ok_or_else(unknown)?));
    }
    Ok(levels)
}

fn word_of(resource: ResourceCode) -> Result<&'static str> {
    Ok(match resource {
        ResourceCode::Database => "dbs",
        ResourceCode::Container => "colls",
        ResourceCode::Item => "docs",
        ResourceCode::Attachment => "attachments",
        ResourceCode::User => "users",
        ResourceCode::Permission => "permissions",
        ResourceCode::Procedure => "sprocs",
        ResourceCode::Trigger => "triggers",
        ResourceCode::Udf => "udfs",
        ResourceCode::Conflict => "conflicts",
        ResourceCode::Range => "pkranges",
        ResourceCode::EncryptionKey => "clientencryptionkeys",
        ResourceCode::Connection
        | ResourceCode::Account
        | ResourceCode::Offer
        | ResourceCode::PartitionKey => {
            let code = resource.code();
            let message = format!("The resource type {code:#06x} is served over HTTP only.");
            return Err(Error::invalid(message));
        }
    })
}
