//! Requests of the benchmark of models: orders that refer to customers, and comments of posts.

use super::{DATABASE, KEY_HEADER, Numbered, Signer, key_header};

/// Orders are padded to about this size.
const ORDER_BYTES: usize = 1024;
const PEOPLE: u64 = 50;
const STOCKS: u64 = 500;
/// Holdings of a person.
pub(crate) const HOLDINGS: u64 = 20;

/// What is asked about a person.
#[derive(Clone, Copy)]
pub(crate) enum Portfolio {
    /// The item as it is.
    Whole,
    /// A row for each holding, out of the item itself.
    Holdings,
    /// The same rows with a price from each holding's stock.
    Prices,
}

/// Every post is of this blog, so that all are in one logical partition.
const BLOG: &str = "b";

impl Signer {
    /// What makes the database, its containers and its model, a customer for each client in each of
    /// two containers, and the posts.
    pub(crate) fn model_setup(&self, customers: u64, rounds: usize) -> Vec<Vec<u8>> {
        let link = format!("dbs/{DATABASE}");
        let database = format!(r#"{{"id":"{DATABASE}"}}"#);
        let mut all = vec![self.request("POST", ("dbs", ""), "dbs", &[], &database)];
        let containers = [
            ("plain", "/id"),
            ("counted", "/id"),
            ("summed", "/id"),
            ("counting", "/id"),
            ("summing", "/id"),
            ("blog", "/blogId"),
            ("people", "/id"),
            ("stocks", "/id"),
        ];
        for (id, path) in containers {
            let body = format!(
                r#"{{"id":"{id}","partitionKey":{{"paths":["{path}"],"kind":"Hash","version":2}}}}"#
            );
            all.push(self.request("POST", ("colls", &link), &format!("{link}/colls"), &[], &body));
        }
        let path = format!("{link}/_model");
        all.push(self.request("PUT", ("_model", &link), &path, &[], MODEL));
        for customer in 0..customers {
            for container in ["counting", "summing"] {
                let id = customer_id(customer);
                let body = format!(r#"{{"id":"{id}","name":"Customer {customer}"}}"#);
                all.push(self.create_at(container, &id, &body));
            }
        }
        for stock in 0..STOCKS {
            let body = format!(r#"{{"id":"s{stock}","open":{stock}.25,"high":{stock}.75}}"#);
            all.push(self.create_at("stocks", &format!("s{stock}"), &body));
        }
        for person in 0..PEOPLE {
            let holding = |n: u64| {
                let stock = (person * HOLDINGS + n) % STOCKS;
                format!(r#"{{"stockId":"s{stock}","numberHeld":{}}}"#, n + 1)
            };
            let holdings: Vec<String> = (0..HOLDINGS).map(holding).collect();
            let (id, holdings) = (format!("p{person}"), holdings.join(","));
            let body = format!(r#"{{"id":"{id}","name":"A person","holdings":[{holdings}]}}"#);
            all.push(self.create_at("people", &id, &body));
        }
        let posts = (0..rounds).map(|round| format!("few-{round}")).chain(["many".to_owned()]);
        for post in posts {
            let body = format!(r#"{{"id":"{post}","blogId":"{BLOG}","type":"post"}}"#);
            all.push(self.create_at("blog", BLOG, &body));
        }
        all
    }

    /// What makes the database, two containers, a model with one relation, a copy and a count, and a
    /// customer.
    pub(crate) fn counted_setup(&self) -> Vec<Vec<u8>> {
        let link = format!("dbs/{DATABASE}");
        let database = format!(r#"{{"id":"{DATABASE}"}}"#);
        let mut all = vec![self.request("POST", ("dbs", ""), "dbs", &[], &database)];
        for id in ["counted", "counting"] {
            let body = format!(
                r#"{{"id":"{id}","partitionKey":{{"paths":["/id"],"kind":"Hash","version":2}}}}"#
            );
            all.push(self.request("POST", ("colls", &link), &format!("{link}/colls"), &[], &body));
        }
        let path = format!("{link}/_model");
        all.push(self.request("PUT", ("_model", &link), &path, &[], COUNTED_MODEL));
        let id = customer_id(0);
        let body = format!(r#"{{"id":"{id}","name":"Customer 0"}}"#);
        all.push(self.create_at("counting", &id, &body));
        all
    }

    /// Queries of one kind, one for each person.
    pub(crate) fn portfolios(&self, kind: Portfolio) -> Vec<Vec<u8>> {
        let link = format!("dbs/{DATABASE}/colls/people");
        let path = format!("{link}/docs");
        let text = match kind {
            Portfolio::Whole => "SELECT * FROM p WHERE p.id = @id",
            Portfolio::Holdings => {
                "SELECT p.id, h.numberHeld * 2 AS v FROM p JOIN h IN p.holdings WHERE p.id = @id"
            }
            Portfolio::Prices => {
                "SELECT p.id, h.numberHeld * h.stock.high AS v FROM p JOIN h IN p.holdings WHERE p.id = @id"
            }
        };
        let query = |person: u64| {
            let body = format!(
                r#"{{"query":"{text}","parameters":[{{"name":"@id","value":"p{person}"}}]}}"#
            );
            let key = key_header(&format!("p{person}"));
            let headers = [("x-ms-documentdb-isquery", "True"), (KEY_HEADER, &*key)];
            self.request("POST", ("docs", &link), &path, &headers, &body)
        };
        (0..PEOPLE).map(query).collect()
    }

    fn create_at(&self, container: &str, key: &str, body: &str) -> Vec<u8> {
        self.post_at(container, key, &[], body)
    }

    fn post_at(&self, container: &str, key: &str, more: &[(&str, &str)], body: &str) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{container}");
        let key = key_header(key);
        let path = format!("{link}/docs");
        let headers = [&[(KEY_HEADER, &*key)], more].concat();
        self.request("POST", ("docs", &link), &path, &headers, body)
    }

    /// Creates an order of a client's customer. In the plain container the client writes the copy
    /// itself, so that all orders have the same index terms.
    pub(crate) fn order(&self, container: &str, client: u64) -> Numbered {
        self.posted_order(container, client, &[])
    }

    /// The same by an upsert.
    pub(crate) fn upserted_order(&self, container: &str, client: u64) -> Numbered {
        self.posted_order(container, client, &[("x-ms-documentdb-is-upsert", "True")])
    }

    fn posted_order(&self, container: &str, client: u64, more: &[(&str, &str)]) -> Numbered {
        let (id, customer) = (super::id(0), customer_id(client));
        let copy = match container {
            "plain" => format!(r#","name":"Customer {client}""#),
            _ => String::new(),
        };
        let mut body = format!(
            r#"{{"id":"{id}","customer":{{"id":"{customer}"{copy}}},"price":129.95,"stock":12,"tags":["blue","new"],"text":""#
        );
        let words = "the quick brown fox jumps over the lazy dog and runs away ".chars().cycle();
        body.extend(words.take(ORDER_BYTES.saturating_sub(body.len())));
        Numbered::new(self.post_at(container, &id, more, &(body + super::END)))
    }

    /// Appends a comment to a post.
    pub(crate) fn append(&self, post: &str) -> Numbered {
        Numbered::new(self.append_many(post, 0, 1))
    }

    /// Appends several.
    pub(crate) fn append_many(&self, post: &str, first: u64, count: u64) -> Vec<u8> {
        let operation = |number: u64| {
            let id = super::id(number);
            format!(
                r#"{{"op":"add","path":"/comments/-","value":{{"id":"{id}","author":"somebody","text":"what I always wanted to say"}}}}"#
            )
        };
        let operations: Vec<String> = (first..first + count).map(operation).collect();
        let link = format!("dbs/{DATABASE}/colls/blog/docs/{post}");
        let (key, body) = (key_header(BLOG), format!("[{}]", operations.join(",")));
        self.request("PATCH", ("docs", &link), &link, &[(KEY_HEADER, &key)], &body)
    }
}

fn customer_id(number: u64) -> String {
    format!("customer-{number}")
}

const COUNTED_MODEL: &str = r#"{"version":1,"types":{
    "counting":{"container":"counting"},"counted":{"container":"counted"}},
  "relations":[
    {"name":"account","from":"counted","path":"/customer/id","to":"counting","onMissing":"reject",
     "copies":{"name":"t.name"},"propagate":"sync","inverse":{"name":"orders"}}],
  "aggregates":[
    {"on":"counting","path":"/orderCount","of":"orders","value":"COUNT(1)","propagate":"sync"}]}"#;

const MODEL: &str = r#"{"version":1,"types":{
    "counting":{"container":"counting"},"counted":{"container":"counted"},
    "summing":{"container":"summing"},"summed":{"container":"summed"},
    "post":{"container":"blog","where":"c.type = 'post'"},
    "person":{"container":"people"},"stock":{"container":"stocks"}},
  "relations":[
    {"name":"stock","from":"person","path":"/holdings/*/stockId","to":"stock","onMissing":"reject",
     "onDelete":"restrict"},
    {"name":"account","from":"counted","path":"/customer/id","to":"counting","onMissing":"reject",
     "copies":{"name":"t.name"},"propagate":"sync","inverse":{"name":"orders"}},
    {"name":"account","from":"summed","path":"/customer/id","to":"summing","onMissing":"reject",
     "copies":{"name":"t.name"},"propagate":"sync","inverse":{"name":"orders"}}],
  "aggregates":[
    {"on":"counting","path":"/orderCount","of":"orders","value":"COUNT(1)","propagate":"sync"},
    {"on":"summing","path":"/turnover","of":"orders","value":"SUM(c.price)","propagate":"sync"}],
  "buckets":[{"on":"post","array":"/comments","elementKey":"id",
    "recent":{"path":"/recentComments","keep":3},"count":"/commentCount",
    "bucket":{"items":100,"link":"/postId","idFormat":"{id}~c{seq:06}"}}]}"#;
