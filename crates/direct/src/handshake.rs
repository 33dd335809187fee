//! The context request, with which a connection begins, and its answer. Both sides say who they are;
//! nothing is proven by it.
//!
//! ```text
//! > | n: u32 | 0: u16 | 0: u16 | activity id | 00 version, 01 client version, 02 user agent, … |
//! < | n: u32 | status: u32     | activity id | 02 server agent, 03 server version, …           |
//!            | m: u32, m bytes of JSON: only if the status is not from 200 to 399              |
//! ```

use bytes::{BufMut as _, BytesMut};

use crate::code::{OperationCode, ResourceCode};
use crate::error::DirectError;
use crate::frame::{FrameHead, write_length};
use crate::table::token_table;

/// The only version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

token_table! {
    /// The tokens of a context request.
    ContextRequestTokens {
        0x00 protocol_version: ULong, Required;
        0x01 client_version: SmallString, Required;
        0x02 user_agent: SmallString, Required;
        0x03 caller_id: Byte, Optional;
        0x04 enable_multiplexing: Byte, Optional;
    }
}

token_table! {
    /// The tokens of its answer. Clients drop a connection whose answer lacks the server's agent or
    /// version.
    ContextResponseTokens {
        0x00 protocol_version: ULong, Optional;
        0x01 client_version: SmallString, Optional;
        0x02 server_agent: SmallString, Required;
        0x03 server_version: SmallString, Required;
        0x04 idle_timeout_s: ULong, Optional;
        0x05 unauthenticated_timeout_s: ULong, Optional;
    }
}

/// A context request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextRequest<'a> {
    /// The activity id, as it stands on the wire.
    pub activity_id: [u8; 16],
    /// Who the client is.
    pub tokens: ContextRequestTokens<'a>,
}

impl<'a> ContextRequest<'a> {
    /// Reads the head of the first frame of a connection.
    pub fn decode(head: &'a [u8]) -> Result<Self, DirectError> {
        let FrameHead { first, second, activity_id, tokens } = FrameHead::read(head)?;
        if (first, second) != (ResourceCode::Connection.code(), OperationCode::Connect.code()) {
            return Err(DirectError::NoContext);
        }
        let tokens = ContextRequestTokens::decode(tokens)?;
        match tokens.protocol_version {
            Some(PROTOCOL_VERSION) | None => Ok(Self { activity_id, tokens }),
            Some(version) => Err(DirectError::ProtocolVersion { version }),
        }
    }

    /// Writes the frame.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), DirectError> {
        let from = out.len();
        out.put_u32_le(0);
        out.put_u16_le(ResourceCode::Connection.code());
        out.put_u16_le(OperationCode::Connect.code());
        out.extend_from_slice(&self.activity_id);
        self.tokens.encode(out)?;
        write_length(from, out)
    }
}

/// The answer to a context request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextResponse<'a> {
    /// The status, as over HTTP.
    pub status: u32,
    /// That of the request.
    pub activity_id: [u8; 16],
    /// Who the server is.
    pub tokens: ContextResponseTokens<'a>,
}

impl<'a> ContextResponse<'a> {
    /// Whether a client goes on after this status; otherwise it expects a body.
    pub const fn accepts(status: u32) -> bool {
        matches!(status, 200..=399)
    }

    /// Reads the head of the frame, as a client does.
    pub fn decode(head: &'a [u8]) -> Result<Self, DirectError> {
        let FrameHead { first, second, activity_id, tokens } = FrameHead::read(head)?;
        let status = u32::from(first) | u32::from(second) << 16;
        Ok(Self { status, activity_id, tokens: ContextResponseTokens::decode(tokens)? })
    }

    /// Writes the frame. `error` is the JSON that explains a refusal.
    pub fn encode(&self, error: &[u8], out: &mut BytesMut) -> Result<(), DirectError> {
        let from = out.len();
        out.put_u32_le(0);
        out.put_u32_le(self.status);
        out.extend_from_slice(&self.activity_id);
        self.tokens.encode(out)?;
        write_length(from, out)?;
        if !Self::accepts(self.status) {
            let too_large = |_| DirectError::BodySize { size: error.len(), max: u32::MAX as usize };
            out.put_u32_le(u32::try_from(error.len()).map_err(too_large)?);
            out.extend_from_slice(error);
        }
        Ok(())
    }
}
