//! An answer: its status and its tokens.
//!
//! ```text
//! | n: u32 | status: u32 | activity id: 16 bytes | tokens … n | m: u32 | m bytes of body |
//! ```
//!
//! Clients read an answer by their own table and take a token of another type for a broken answer, so
//! the types below are exact. The first two tokens stand first, because clients look for them before
//! anything else.

use bytes::{BufMut as _, BytesMut};

use crate::error::DirectError;
use crate::frame::{FrameHead, write_length};
use crate::table::token_table;

/// The number of the token that says whether a body follows.
pub const PAYLOAD_PRESENT: u16 = 0x00;

token_table! {
    /// The tokens of an answer. Those that tell a client of further regions (0x29, 0x30, 0x78) are
    /// not among them: they make it send requests that wait for those regions.
    ResponseTokens {
        0x00 payload_present: Byte, Required;
        0x35 transport_request_id: ULong, Required;
        0x02 last_state_change: SmallString, Optional;
        0x03 continuation: String, Optional;
        0x04 etag: String, Optional;
        0x0c retry_after_ms: ULong, Optional;
        0x0e resource_quota: String, Optional;
        0x0f resource_usage: String, Optional;
        0x13 lsn: LongLong, Optional;
        0x14 item_count: ULong, Optional;
        0x15 request_charge: Double, Optional;
        0x17 owner_full_name: String, Optional;
        0x18 owner_id: String, Optional;
        0x1a quorum_acked_lsn: LongLong, Optional;
        0x1c sub_status: ULong, Optional;
        0x1d index_progress: ULong, Optional;
        0x1e write_quorum: ULong, Optional;
        0x1f replica_set_size: ULong, Optional;
        0x21 range_id: String, Optional;
        0x25 log_results: String, Optional;
        0x28 query_metrics: String, Optional;
        0x32 item_lsn: LongLong, Optional;
        0x3a local_lsn: LongLong, Optional;
        0x3b quorum_acked_local_lsn: LongLong, Optional;
        0x3c item_local_lsn: LongLong, Optional;
        0x3e session_token: String, Optional;
        0x44 index_utilization: String, Optional;
        0x66 requires_distribution: Byte, Optional;
        0x75 query_advice: String, Optional;
    }
}

/// An answer, borrowed from whatever holds its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameResponse<'a> {
    /// The status, as over HTTP.
    pub status: u32,
    /// That of the request.
    pub activity_id: [u8; 16],
    /// Everything else.
    pub tokens: ResponseTokens<'a>,
}

impl<'a> FrameResponse<'a> {
    /// Reads the head of a frame, as a client does.
    pub fn decode(head: &'a [u8]) -> Result<Self, DirectError> {
        let FrameHead { first, second, activity_id, tokens } = FrameHead::read(head)?;
        let status = u32::from(first) | u32::from(second) << 16;
        Ok(Self { status, activity_id, tokens: ResponseTokens::decode(tokens)? })
    }

    /// Writes the head and, if `payload_present` says that a body follows, its length. The body itself
    /// is left to the caller, who need not copy it.
    pub fn encode_head(&self, body_bytes: usize, out: &mut BytesMut) -> Result<(), DirectError> {
        let from = out.len();
        out.put_u32_le(0);
        out.put_u32_le(self.status);
        out.extend_from_slice(&self.activity_id);
        self.tokens.encode(out)?;
        write_length(from, out)?;
        if self.tokens.payload_present.is_some_and(|flag| flag != 0) {
            let too_large = |_| DirectError::BodySize { size: body_bytes, max: u32::MAX as usize };
            out.put_u32_le(u32::try_from(body_bytes).map_err(too_large)?);
        }
        Ok(())
    }
}
