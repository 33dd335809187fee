//! A request: what it is about, what it does, and its tokens.
//!
//! ```text
//! | n: u32 | resource: u16 | operation: u16 | activity id: 16 bytes | tokens … n |
//! ```

use bytes::{BufMut as _, BytesMut};

use crate::code::{OperationCode, ResourceCode};
use crate::error::DirectError;
use crate::frame::{FrameHead, write_length};
use crate::table::token_table;

/// The number of the token that says whether a body follows.
pub const PAYLOAD_PRESENT: u16 = 0x02;
/// The number of the token that says what the client has seen.
pub const SESSION_TOKEN: u16 = 0x05;
/// The number of the token by which an answer names its request.
pub const TRANSPORT_REQUEST_ID: u16 = 0x4d;

token_table! {
    /// The tokens of a request that this server understands, in the order in which clients write
    /// them. Numbers on which the SDKs disagree (0x59, 0xDC, 0xE7) are left out, and so skipped.
    RequestTokens {
        0x00 resource_id: Bytes, Optional;
        0x01 authorization: String, Optional;
        0x02 payload_present: Byte, Required;
        0x03 date: SmallString, Optional;
        0x04 page_size: ULong, Optional;
        0x05 session_token: String, Optional;
        0x06 continuation: String, Optional;
        0x07 indexing_directive: Byte, Optional;
        0x08 match_etag: String, Optional;
        0x09 pre_trigger_include: String, Optional;
        0x0a post_trigger_include: String, Optional;
        0x0e pre_trigger_exclude: String, Optional;
        0x0f post_trigger_exclude: String, Optional;
        0x10 consistency_level: Byte, Optional;
        0x13 replica_path: String, Optional;
        0x15 database_name: String, Optional;
        0x16 container_name: String, Optional;
        0x17 item_name: String, Optional;
        0x18 attachment_name: String, Optional;
        0x19 user_name: String, Optional;
        0x1a permission_name: String, Optional;
        0x1b procedure_name: String, Optional;
        0x1c udf_name: String, Optional;
        0x1d trigger_name: String, Optional;
        0x1e enable_scan: Byte, Optional;
        0x20 conflict_name: String, Optional;
        0x28 client_version: SmallString, Optional;
        0x2b partition_key: String, Optional;
        0x2c range_id: String, Optional;
        0x35 container_rid: String, Optional;
        0x36 range_name: String, Optional;
        0x3e enable_logging: Byte, Optional;
        0x3f a_im: String, Optional;
        0x40 populate_quota_info: Byte, Optional;
        0x42 populate_query_metrics: Byte, Optional;
        0x43 continuation_limit_kb: ULong, Optional;
        0x44 populate_range_statistics: Byte, Optional;
        0x47 if_modified_since: String, Optional;
        0x49 remaining_time_ms: ULong, Optional;
        0x4a retry_attempt_count: ULong, Optional;
        0x4b target_lsn: LongLong, Optional;
        0x4c target_global_committed_lsn: LongLong, Optional;
        0x4d transport_request_id: ULong, Required;
        0x52 is_read_only_script: Byte, Optional;
        0x54 force_query_scan: Byte, Optional;
        0x58 binary_id: Bytes, Optional;
        0x5a effective_partition_key: Bytes, Optional;
        0x5e enumeration_direction: Byte, Optional;
        0x5f start_id: Bytes, Optional;
        0x60 end_id: Bytes, Optional;
        0x62 start_epk: Bytes, Optional;
        0x63 end_epk: Bytes, Optional;
        0x64 read_key_type: Byte, Optional;
        0x65 content_format: Byte, Optional;
        0x66 allow_tentative_writes: Byte, Optional;
        0x73 is_batch_atomic: Byte, Optional;
        0x74 batch_continue_on_error: Byte, Optional;
        0x75 is_batch_ordered: Byte, Optional;
        0x80 encryption_key_name: String, Optional;
        0x82 return_preference: Byte, Optional;
        0x87 is_client_encrypted: Byte, Optional;
        0x9a start_full_fidelity: String, Optional;
        0x9d intended_container_rid: String, Optional;
        0xa2 capabilities: ULong, Optional;
        0xa9 populate_index_metrics: Byte, Optional;
        0xb0 correlated_activity_id: Guid, Optional;
        0xb2 change_feed_format: String, Optional;
        0xbf priority: Byte, Optional;
        0xc2 populate_index_metrics_v2: Byte, Optional;
        0xc4 supported_formats: Byte, Optional;
        0xc8 optimistic_direct_execute: Byte, Optional;
        0xda populate_query_advice: Byte, Optional;
        0xdb throughput_bucket: Byte, Optional;
        0xfe read_consistency_strategy: Byte, Optional;
        0xff supported_query_features: String, Optional;
        0x100 query_version: SmallString, Optional;
    }
}

/// A request, borrowed from its frame. The body stays with the frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameRequest<'a> {
    /// What it is about.
    pub resource: ResourceCode,
    /// What it does.
    pub operation: OperationCode,
    /// The client's name for it, as it stands on the wire.
    pub activity_id: [u8; 16],
    /// Everything else.
    pub tokens: RequestTokens<'a>,
}

impl<'a> FrameRequest<'a> {
    /// Reads the head of a frame.
    pub fn decode(head: &'a [u8]) -> Result<Self, DirectError> {
        let FrameHead { first, second, activity_id, tokens } = FrameHead::read(head)?;
        let unknown = DirectError::UnknownResource { code: first };
        let resource = ResourceCode::from_code(first).ok_or(unknown)?;
        let unknown = DirectError::UnknownOperation { code: second };
        let operation = OperationCode::from_code(second).ok_or(unknown)?;
        let tokens = RequestTokens::decode(tokens)?;
        Ok(Self { resource, operation, activity_id, tokens })
    }

    /// Writes the whole frame. Whether a body follows is what `payload_present` says.
    pub fn encode(&self, body: &[u8], out: &mut BytesMut) -> Result<(), DirectError> {
        let from = out.len();
        out.put_u32_le(0);
        out.put_u16_le(self.resource.code());
        out.put_u16_le(self.operation.code());
        out.extend_from_slice(&self.activity_id);
        self.tokens.encode(out)?;
        write_length(from, out)?;
        if self.tokens.payload_present.is_some_and(|flag| flag != 0) {
            let size = body.len();
            let length = u32::try_from(size);
            let too_large = |_| DirectError::BodySize { size, max: u32::MAX as usize };
            out.put_u32_le(length.map_err(too_large)?);
            out.extend_from_slice(body);
        }
        Ok(())
    }
}
