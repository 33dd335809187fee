//! Distributed transactions, a preview of the SDK: all operations on several containers and partitions, or
//! none.

use crate::{Order, order};
use azure_data_cosmos::clients::{
    DistributedTransactionOperationOptions, DistributedTransactionResponse,
};
use azure_data_cosmos::options::Precondition;
use azure_data_cosmos::{DistributedReadTransaction, DistributedWriteTransaction, Result};
use orrery_conformance_rust::{block_on, client, container, database};

/// Status and sub-status of each operation.
fn statuses(response: &DistributedTransactionResponse) -> Vec<u16> {
    let result = |at| response.operation_result(at).expect("a result for each operation");
    (0..response.len()).map(|at| u16::from(result(at).status_code())).collect()
}

#[test]
fn a_transaction_writes_to_two_containers_and_reads_them_back() -> Result<()> {
    block_on(async {
        let client = client().await?;
        let database = database(&client).await?;
        let orders = container(&database, "orders", "/customer").await?;
        let archive = container(&database, "archive", "/customer").await?;
        let write = DistributedWriteTransaction::new()
            .create_item(&orders, "contoso", "1", order("1", "contoso", 1.0), None)?
            .upsert_item(&orders, "fabrikam", "2", order("2", "fabrikam", 2.0), None)?
            .create_item(&archive, "contoso", "1", order("1", "contoso", 3.0), None)?;
        let written = client.commit_distributed_write(write).await?;
        assert!(written.is_success_status_code(), "{:?}", written.error_message());
        assert_eq!(statuses(&written), [201, 201, 201]);
        let first = written.operation_result(0).expect("a result");
        assert!(first.etag().is_some() && first.session_token().is_some());
        assert!(first.partition_key_range_id().is_some() && first.request_charge().is_some());

        let read = DistributedReadTransaction::new()
            .read_item(&orders, "contoso", "1", None)
            .read_item(&archive, "contoso", "1", None)
            .read_item(&orders, "fabrikam", "2", None);
        let found = client.execute_distributed_read(read).await?;
        assert_eq!(statuses(&found), [200, 200, 200]);
        let item = |at| found.operation_result(at).expect("a result").resource::<Order>();
        assert_eq!(item(0)?, Some(order("1", "contoso", 1.0)));
        assert_eq!(item(1)?, Some(order("1", "contoso", 3.0)));

        let etag = first.etag().expect("an etag").clone();
        let same = DistributedTransactionOperationOptions::default()
            .with_precondition(Precondition::if_match(etag));
        let change = DistributedWriteTransaction::new()
            .replace_item(&orders, "contoso", "1", order("1", "contoso", 4.0), Some(same))?
            .delete_item(&archive, "contoso", "1", None);
        let changed = client.commit_distributed_write(change).await?;
        assert_eq!(statuses(&changed), [200, 204]);
        let read: Order = orders.read_item("contoso", "1", None).await?.into_model()?;
        assert_eq!(read, order("1", "contoso", 4.0));
        database.delete(None).await?;
        Ok(())
    })
}

#[test]
fn a_transaction_with_one_failure_writes_nothing() -> Result<()> {
    block_on(async {
        let client = client().await?;
        let database = database(&client).await?;
        let orders = container(&database, "orders", "/customer").await?;
        let archive = container(&database, "archive", "/customer").await?;
        archive.create_item("contoso", "1", &order("1", "contoso", 1.0), None).await?;
        let write = DistributedWriteTransaction::new()
            .create_item(&orders, "fabrikam", "2", order("2", "fabrikam", 2.0), None)?
            .create_item(&archive, "contoso", "1", order("1", "contoso", 3.0), None)?;
        let refused = client.commit_distributed_write(write).await?;
        assert!(!refused.is_success_status_code() && !refused.is_retriable());
        assert_eq!(statuses(&refused), [453, 409]);
        let absent = orders.read_item("fabrikam", "2", None).await.expect_err("rolled back");
        assert!(absent.status().is_not_found(), "{absent}");
        let read = DistributedReadTransaction::new()
            .read_item(&archive, "contoso", "1", None)
            .read_item(&orders, "fabrikam", "2", None);
        let missing = client.execute_distributed_read(read).await?;
        assert_eq!(statuses(&missing), [424, 404]);
        database.delete(None).await?;
        Ok(())
    })
}
