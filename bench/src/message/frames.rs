//! The same requests as frames of Direct mode.

use anyhow::{Context as _, Result};
use bytes::BytesMut;
use orrery_direct::{FrameRequest, OperationCode, RequestTokens, ResourceCode};

use crate::client::Client;

use super::{CONTAINER, DATABASE, Numbered, Signer, body, id, key_header, partition};

/// What a client in Direct mode knows of a container.
#[derive(Clone)]
pub(crate) struct Target {
    /// The container's rid.
    pub(crate) rid: String,
    /// The path of a replica of its first range.
    pub(crate) path: String,
}

impl Target {
    /// The container of the first item: answers name it by its rid.
    pub(crate) async fn find(client: &mut Client, signer: &Signer) -> Result<Self> {
        let answer = client.expect(&signer.read(0), 200).await?;
        let head = std::str::from_utf8(answer.head)?;
        let rid = head.lines().find_map(|line| line.strip_prefix("x-ms-content-path: "));
        Ok(Self::new(rid.context("an item without a container")?))
    }

    fn new(rid: &str) -> Self {
        let service = rid.trim_end_matches('=');
        let path = format!("/apps/orrery/services/{service}/partitions/0/replicas/1p");
        Self { rid: rid.to_owned(), path }
    }
}

impl Signer {
    /// The frame of [`Signer::read`].
    pub(crate) fn read_frame(&self, target: &Target, number: u64) -> Vec<u8> {
        let (item, key) = (id(number), key_header(&partition(number)));
        let tokens = RequestTokens { item_name: Some(&item), ..RequestTokens::default() };
        self.frame(target, OperationCode::Read, "GET", Some(&item), &key, &tokens, "")
    }

    /// The frame of [`Signer::create`].
    pub(crate) fn create_frame(&self, target: &Target) -> Numbered {
        let key = key_header(&partition(0));
        let tokens = RequestTokens::default();
        let body = body(0);
        Numbered::new(self.frame(target, OperationCode::Create, "POST", None, &key, &tokens, &body))
    }

    /// The frame of a query over one logical partition.
    pub(crate) fn query_frame(
        &self,
        target: &Target,
        body: &str,
        partition: &str,
        page: u32,
    ) -> Vec<u8> {
        let key = key_header(partition);
        let tokens = RequestTokens { page_size: Some(page), ..RequestTokens::default() };
        self.frame(target, OperationCode::Query, "POST", None, &key, &tokens, body)
    }

    #[expect(clippy::too_many_arguments, reason = "they are the parts of a frame")]
    fn frame(
        &self,
        target: &Target,
        operation: OperationCode,
        verb: &str,
        item: Option<&str>,
        key: &str,
        tokens: &RequestTokens<'_>,
        body: &str,
    ) -> Vec<u8> {
        let container = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let link =
            item.map_or_else(|| container.clone(), |item| format!("{container}/docs/{item}"));
        let authorization = self.authorization(verb, "docs", &link);
        let tokens = RequestTokens {
            authorization: Some(&authorization),
            payload_present: Some(u8::from(!body.is_empty())),
            date: Some(&self.date),
            replica_path: Some(&target.path),
            database_name: Some(DATABASE),
            container_name: Some(CONTAINER),
            partition_key: Some(key),
            container_rid: Some(&target.rid),
            transport_request_id: Some(1),
            ..*tokens
        };
        let request =
            FrameRequest { resource: ResourceCode::Item, operation, activity_id: [7; 16], tokens };
        let mut out = BytesMut::new();
        request.encode(body.as_bytes(), &mut out).expect("every part is short");
        out.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_create_carries_its_number_everywhere() {
        let mut create = Signer::now().create_frame(&Target::new("AAAAAA=="));
        assert_eq!(create.places.len(), 3, "the token, the id and the partition key");
        let bytes = create.numbered(42).to_vec();
        assert!(bytes.ends_with(body(42).as_bytes()));
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let head = &bytes[..usize::try_from(length).unwrap()];
        let request = FrameRequest::decode(head).unwrap();
        assert_eq!(request.tokens.partition_key, Some("[\"p-000000042\"]"));
    }
}
