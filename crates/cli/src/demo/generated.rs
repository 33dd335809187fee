//! Data sets that are computed, because they are too large to be written down: always the same, so that
//! figures in documents stay true.

use anyhow::{Context as _, Result};
use orrery_types::Value;

/// A database of the demo.
pub(super) struct Generated {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Definitions of the containers.
    pub(super) containers: Vec<Value>,
    /// Items by container, in an order in which references lead to items that exist.
    pub(super) items: Vec<(&'static str, Vec<Value>)>,
    pub(super) model: Option<Value>,
}

pub(super) fn all() -> Result<Vec<Generated>> {
    Ok(vec![shop()?, unbounded_blog()?, legacy()?, sensors()?])
}

/// A number that looks random and is always the same.
fn noise(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

fn parse(text: &str) -> Result<Value> {
    Value::parse(text.as_bytes()).context("an item of the demo")
}

fn items(count: u64, item: impl Fn(u64) -> String) -> Result<Vec<Value>> {
    (0..count).map(|n| parse(&item(n))).collect()
}

fn container(name: &str, paths: &str) -> Value {
    crate::transfer::definition(name, paths)
}

fn pick(names: &[&'static str], n: u64) -> &'static str {
    let count = u64::try_from(names.len()).unwrap_or(1).max(1);
    usize::try_from(n % count).ok().and_then(|at| names.get(at)).copied().unwrap_or("")
}

const FIRST: [&str; 10] =
    ["Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Alan", "Radia", "Ken", "Margaret"];
const LAST: [&str; 8] = ["Byron", "Hill", "Dale", "Stone", "Marsh", "Field", "Wood", "Brook"];
const THINGS: [&str; 10] =
    ["lamp", "chair", "desk", "kettle", "clock", "shelf", "mirror", "rug", "vase", "stool"];
const COLOURS: [&str; 5] = ["red", "blue", "green", "black", "white"];

const CUSTOMERS: u64 = 2000;
const PRODUCTS: u64 = 500;
const ORDERS: u64 = 17_500;

/// A shop of 20,000 items: orders refer to customers and products, and the model keeps names, counts and
/// sums.
fn shop() -> Result<Generated> {
    let customers = items(CUSTOMERS, |n| {
        let (first, last) = (pick(&FIRST, n), pick(&LAST, n / 10));
        format!(r#"{{"id":"c{n}","name":"{first} {last}","city":"City {}"}}"#, n % 40)
    })?;
    let products = items(PRODUCTS, |n| {
        let (colour, thing) = (pick(&COLOURS, n / 10), pick(&THINGS, n));
        format!(r#"{{"id":"p{n}","name":"{colour} {thing} {n}","price":{}}}"#, 5 + noise(n) % 200)
    })?;
    let orders = items(ORDERS, |n| {
        format!(
            r#"{{"id":"o{n}","customerId":"c{}","productId":"p{}","amount":{},"date":"2025-{:02}-{:02}"}}"#,
            noise(n) % CUSTOMERS,
            noise(n + 7) % PRODUCTS,
            1 + noise(n + 3) % 400,
            1 + n % 12,
            1 + n % 28
        )
    })?;
    let model = parse(
        r#"{"version":1,
        "types":{"customer":{"container":"customers","schema":{"required":["name"]}},
                 "product":{"container":"products","schema":{"required":["name","price"]}},
                 "order":{"container":"orders","schema":{"required":["amount"]}}},
        "relations":[
          {"name":"customer","from":"order","path":"/customerId","to":"customer","onMissing":"reject",
           "onDelete":"restrict","copies":{"customerName":"t.name"},"inverse":{"name":"orders"}},
          {"name":"product","from":"order","path":"/productId","to":"product","onMissing":"reject",
           "onDelete":"restrict","copies":{"productName":"t.name"},"inverse":{"name":"orders"}}],
        "aggregates":[
          {"on":"customer","path":"/orderCount","of":"orders","value":"COUNT(1)"},
          {"on":"customer","path":"/spent","of":"orders","value":"SUM(c.amount)"},
          {"on":"product","path":"/sold","of":"orders","value":"COUNT(1)"}]}"#,
    )?;
    Ok(Generated {
        name: "shop",
        about: "20,000 items under a model: orders show names, customers their orders and what they spent",
        containers: vec![
            container("customers", "/id"),
            container("products", "/id"),
            container("orders", "/id"),
        ],
        items: vec![("customers", customers), ("products", products), ("orders", orders)],
        model: Some(model),
    })
}

/// Dated comments of a post, oldest first.
fn comments(count: u64) -> String {
    let comment = |i: u64| {
        let (month, day) = (1 + i / 28 % 12, 1 + i % 28);
        let author = pick(&FIRST, i);
        format!(
            r#"{{"id":{i},"author":"{author}","text":"Comment {i} on this","date":"2025-{month:02}-{day:02}T10:00:00Z"}}"#
        )
    };
    (0..count).map(comment).collect::<Vec<_>>().join(",")
}

/// Posts whose comments grow inside them.
fn unbounded_blog() -> Result<Generated> {
    let posts = items(40, |n| {
        let comments = comments(200 + n);
        format!(
            r#"{{"id":"post{n}","blogId":"b{}","type":"post","title":"Post {n}","comments":[{comments}]}}"#,
            n % 4
        )
    })?;
    Ok(Generated {
        name: "blog-before",
        about: "without a model: comments grow inside their posts; demo-blog keeps them in buckets",
        containers: vec![container("blog", "/blogId")],
        items: vec![("blog", posts)],
        model: None,
    })
}

/// Data as it is found: no model, and about everything that the advisor knows is in it.
fn legacy() -> Result<Generated> {
    let books_of =
        |author: u64| (0..100).filter(move |b| b % 10 == author || (b + 3) % 10 == author);
    let mut library = items(10, |n| {
        // Every fifth count is wrong.
        let count = u64::try_from(books_of(n).count()).unwrap_or(0) + u64::from(n % 5 == 0);
        let name = pick(&FIRST, n);
        format!(r#"{{"id":"a{n}","type":"author","firstName":"{name}","countOfBooks":{count}}}"#)
    })?;
    library.extend(items(100, |n| {
        format!(
            r#"{{"id":"b{n}","type":"book","title":"Title {n}","pages":{},
                "authors":[{{"id":"a{}"}},{{"id":"a{}"}}]}}"#,
            noise(n) % 900,
            n % 10,
            (n + 3) % 10
        )
    })?);
    library.extend(items(200, |n| {
        let (author, book) = (n % 10, n % 100);
        format!(r#"{{"id":"j{n}","type":"joining","authorId":"a{author}","bookId":"b{book}"}}"#)
    })?);
    let people = items(500, |n| {
        // Sometimes an object where others have an array.
        let contacts = if n % 20 == 0 {
            r#"{"email":"a@b.example"}"#
        } else {
            r#"[{"email":"a@b.example"},{"phone":"1"}]"#
        };
        let stock = if n == 17 { 99 } else { 1 + noise(n) % 30 };
        format!(
            r#"{{"id":"person{n}","type":"person","name":"{} {}","age":{},"contacts":{contacts},
                "holdings":[{{"numberHeld":{},"stockId":{stock}}}]}}"#,
            pick(&FIRST, n),
            pick(&LAST, n / 10),
            20 + n % 60,
            noise(n) % 30
        )
    })?;
    let stocks = items(31, |n| {
        format!(r#"{{"id":"{n}","type":"stock","symbol":"S{n}","open":{}}}"#, noise(n) % 500)
    })?;
    let portfolios = items(200, |n| {
        let holding = |i: u64| {
            // Prices are copied, and differ from copy to copy.
            let stock = noise(n * 7 + i) % 10;
            format!(
                r#"{{"numberHeld":{},"security":{{"code":"X{stock}","open":{},"high":{},"low":1}}}}"#,
                noise(n + i) % 90,
                noise(n * 3 + i) % 500,
                noise(n * 5 + i) % 500
            )
        };
        let holdings = (0..3).map(holding).collect::<Vec<_>>().join(",");
        format!(r#"{{"id":"f{n}","type":"portfolio","owner":"Owner {n}","holdings":[{holdings}]}}"#)
    })?;
    let mut catalogue = items(25, |n| {
        let ids = (0..150).map(|i| format!("\"k{}\"", n * 150 + i)).collect::<Vec<_>>().join(",");
        format!(r#"{{"id":"pub{n}","type":"publisher","name":"Publisher {n}","prints":[{ids}]}}"#)
    })?;
    catalogue.extend(items(25 * 150, |n| {
        format!(r#"{{"id":"k{n}","type":"print","title":"Print {n}"}}"#)
    })?);
    let posts = items(40, |n| {
        let comments = comments(200 + n);
        format!(r#"{{"id":"post{n}","type":"post","title":"Post {n}","comments":[{comments}]}}"#)
    })?;
    let names = ["library", "people", "stocks", "portfolios", "catalogue", "posts"];
    Ok(Generated {
        name: "legacy",
        about: "without a model, as data is found: the advisor has ten findings and more",
        containers: names.map(|name| container(name, "/id")).into(),
        items: vec![
            ("library", library),
            ("stocks", stocks),
            ("people", people),
            ("portfolios", portfolios),
            ("catalogue", catalogue),
            ("posts", posts),
        ],
        model: None,
    })
}

const SENSORS: u64 = 20;
const READINGS: u64 = 2000;

/// Readings by sensor and day, which expire; each sensor shows how many it has, and their average.
fn sensors() -> Result<Generated> {
    let sensors = items(SENSORS, |n| format!(r#"{{"id":"s{n}","place":"Room {n}","unit":"°C"}}"#))?;
    let readings = items(READINGS, |n| {
        let (sensor, number) = (n % SENSORS, n / SENSORS);
        let (day, hour) = (1 + number / 24, number % 24);
        format!(
            r#"{{"id":"r{n}","sensorId":"s{sensor}","day":"2025-03-{day:02}","time":"2025-03-{day:02}T{hour:02}:00:00Z","degrees":{}.{}}}"#,
            15 + noise(n) % 10,
            noise(n + 1) % 10
        )
    })?;
    let model = parse(
        r#"{"version":1,
        "types":{"sensor":{"container":"sensors"},
                 "reading":{"container":"readings","schema":{"required":["degrees","time"]}}},
        "relations":[{"name":"sensor","from":"reading","path":"/sensorId","to":"sensor",
          "onMissing":"reject","onDelete":"cascade","inverse":{"name":"readings"}}],
        "aggregates":[
          {"on":"sensor","path":"/readingCount","of":"readings","value":"COUNT(1)"},
          {"on":"sensor","path":"/average","of":"readings","value":"AVG(c.degrees)"}]}"#,
    )?;
    Ok(Generated {
        name: "sensors",
        about: "a time series: readings by sensor and day under a hierarchical key, averages kept",
        containers: vec![container("sensors", "/id"), container("readings", "/sensorId,/day")],
        items: vec![("sensors", sensors), ("readings", readings)],
        model: Some(model),
    })
}

#[cfg(test)]
mod tests {
    use orrery_modeling::Model;
    use orrery_modeling::advisor::Advisor;

    use super::*;

    #[test]
    fn the_shop_has_20_000_items_and_models_have_their_form() {
        let all = all().unwrap();
        let count = |g: &Generated| g.items.iter().map(|(_, items)| items.len()).sum::<usize>();
        assert_eq!(count(&all[0]), 20_000);
        for model in all.iter().filter_map(|generated| generated.model.as_ref()) {
            Model::parse(model).unwrap();
        }
    }

    #[test]
    fn data_without_a_model_has_findings_with_figures() {
        for (name, at_least) in [("blog-before", 1), ("legacy", 10)] {
            let all = all().unwrap();
            let data = all.iter().find(|generated| generated.name == name).unwrap();
            let mut advisor = Advisor::default();
            for (container, items) in &data.items {
                for item in items {
                    advisor.add(container, item.to_json().as_bytes()).unwrap();
                }
            }
            let report = advisor.finish(None).to_value();
            let findings = report.get("findings").as_array().unwrap();
            assert!(findings.len() >= at_least, "{name}: {}", report.to_json());
            for finding in findings {
                let counts = finding.get("counts").as_object().unwrap();
                assert!(counts.iter().next().is_some(), "{}", finding.to_json());
            }
        }
    }
}
