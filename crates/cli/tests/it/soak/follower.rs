//! A reader of the change feed that goes on from its position through splits, merges and restarts.

use std::collections::BTreeMap;

use super::connection::{Connection, Ended, Request, json};
use super::items::{ITEMS, ItemClient};

/// The last version of an item that the feed has shown.
struct Version {
    /// The number of the write that made it.
    n: u64,
    etag: String,
}

#[derive(Default)]
pub(super) struct Follower {
    position: Option<String>,
    /// By partition key and id.
    latest: BTreeMap<(String, String), Version>,
    pub(super) changes: u64,
}

impl Follower {
    /// Follows until the server is ended or all are to stop.
    pub(super) fn run(&mut self, connection: &mut Connection<'_>, is_over: impl Fn() -> bool) {
        while !is_over() {
            match self.page(connection) {
                Ok(true) => {}
                Ok(false) => std::thread::sleep(std::time::Duration::from_millis(5)),
                Err(Ended) => return,
            }
        }
    }

    /// Reads one page; false if there is nothing new.
    fn page(&mut self, connection: &mut Connection<'_>) -> Result<bool, Ended> {
        let mut headers = vec![("a-im", "Incremental Feed"), ("x-ms-max-item-count", "100")];
        headers.extend(self.position.as_deref().map(|etag| ("if-none-match", etag)));
        let request = Request { method: "GET", path: ITEMS, headers: &headers, body: "" };
        let answer = connection.send("change feed", &request)?;
        assert!([200, 304].contains(&answer.status), "{answer:?}");
        self.position = answer.header("etag").map(str::to_owned);
        if answer.status == 304 {
            return Ok(false);
        }
        for item in json(&answer)["Documents"].as_array().unwrap() {
            let text = |name: &str| item[name].as_str().unwrap().to_owned();
            let version = Version { n: item["n"].as_u64().unwrap(), etag: text("_etag") };
            let key = (text("p"), text("id"));
            if let Some(before) = self.latest.get(&key) {
                assert!(before.n <= version.n, "an older version after {}: {item}", before.n);
            }
            self.latest.insert(key, version);
            self.changes += 1;
        }
        Ok(true)
    }

    /// Reads to the end while nobody writes; then the last version of every item has been seen.
    pub(super) fn settle(
        &mut self,
        connection: &mut Connection<'_>,
        clients: &[ItemClient],
    ) -> Result<(), Ended> {
        while self.page(connection)? {}
        for (partition, id, item) in clients.iter().flat_map(ItemClient::items) {
            let seen = self.latest.get(&(partition, id.clone()));
            let etag = seen.map(|version| version.etag.as_str());
            assert_eq!(etag, Some(item.etag.as_str()), "{id} is not in the change feed: {item:?}");
        }
        Ok(())
    }
}
