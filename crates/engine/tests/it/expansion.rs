//! Relations as virtual properties: in queries, and put into whole items that are read.

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::partition::scope::ScopeRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::relations::Reach;
use orrery_engine::query::{Paging, PreparedQuery, QueryPage, QueryRequest};
use orrery_types::{Error, KeyComponent, PartitionKey, Result, Value};

use crate::world::{World, json, name};

pub(crate) const MODEL: &str = r#"{"version":1,"types":{
    "region":{"container":"geo","where":"c.type = 'region'"},
    "country":{"container":"geo","where":"c.type = 'country'"},
    "publisher":{"container":"library","where":"c.type = 'publisher'"},
    "author":{"container":"library","where":"c.type = 'author'"},
    "book":{"container":"library","where":"c.type = 'book'"},
    "person":{"container":"people"},"stock":{"container":"stocks"}},
  "relations":[
    {"name":"region","from":"country","path":"/regionId","to":"region"},
    {"name":"country","from":"publisher","path":"/countryId","to":"country",
     "inverse":{"name":"publishers"}},
    {"name":"publisher","from":"book","path":"/pub-id","to":"publisher","inverse":{"name":"books"}},
    {"name":"author","from":"book","path":"/authors/*/id","to":"author",
     "inverse":{"name":"written"}},
    {"name":"related","from":"book","path":"/relatedIds/*","to":"book"},
    {"name":"stock","from":"person","path":"/holdings/*/stockId","to":"stock","coerce":"string",
     "partitionKey":["/holdings/*/market"]}]}"#;

pub(crate) struct Shelf(pub(crate) World);

impl Shelf {
    pub(crate) fn new(world: World) -> Self {
        let mut world = world;
        world.database();
        for (id, key) in
            [("geo", "/id"), ("library", "/id"), ("people", "/id"), ("stocks", "/market")]
        {
            let body = format!(
                r#"{{"id":"{id}","defaultTtl":-1,"partitionKey":{{"paths":["{key}"],"kind":"Hash"}}}}"#
            );
            world.create_container(&body, (id == "library").then_some(18_000));
        }
        let shelf = Self(world);
        let none = Preconditions::default();
        shelf
            .0
            .engine()
            .models()
            .store(&name("d"), &json(MODEL), &none)
            .expect("the model is taken");
        shelf
    }

    fn filled() -> Self {
        let shelf = Self::new(World::memory());
        shelf.put("geo", r#"{"id":"am","type":"region","name":"Americas"}"#);
        shelf.put("geo", r#"{"id":"us","type":"country","name":"States","regionId":"am"}"#);
        shelf.put(
            "library",
            r#"{"id":"mspress","type":"publisher","name":"Microsoft Press","countryId":"us"}"#,
        );
        shelf.put("library", r#"{"id":"other","type":"publisher","name":"Other"}"#);
        shelf.put("library", r#"{"id":"a1","type":"author","firstName":"Thomas","lastName":"A"}"#);
        shelf.put("library", r#"{"id":"a2","type":"author","firstName":"William","lastName":"W"}"#);
        shelf.put(
            "library",
            r#"{"id":"b1","type":"book","name":"One","pub-id":"mspress","year":1,
                "authors":[{"id":"a1"},{"id":"a2"}]}"#,
        );
        shelf.put(
            "library",
            r#"{"id":"b2","type":"book","name":"Two","pub-id":"mspress","year":2,
                "authors":[{"id":"a1"},{"id":"gone"}],"relatedIds":["b1","gone","b3"]}"#,
        );
        shelf
            .put("library", r#"{"id":"b3","type":"book","name":"Three","pub-id":"gone","year":3}"#);
        shelf.put(
            "library",
            r#"{"id":"m1","type":"magazine","name":"M","publisher":{"name":"Other"}}"#,
        );
        shelf.put("stocks", r#"{"id":"1","market":"n","high":10}"#);
        shelf.put("stocks", r#"{"id":"2","market":"n","high":20}"#);
        shelf.put("stocks", r#"{"id":"1","market":"f","high":7}"#);
        shelf.put(
            "people",
            r#"{"id":"p1","holdings":[{"stockId":1,"market":"n","held":3},
                {"stockId":2,"market":"n","held":2},{"stockId":"1","market":"f","held":1},
                {"stockId":9,"market":"n","held":5}]}"#,
        );
        shelf
    }

    pub(crate) fn put(&self, container: &str, item: &str) {
        let container = self.0.container(container);
        let none = Preconditions::default();
        self.0.engine().items().upsert(&container, None, item.as_bytes(), &none).expect(item);
    }

    pub(crate) fn page(
        &self,
        container: &str,
        text: &str,
        items: usize,
        paging: &Paging<'_>,
    ) -> Result<QueryPage> {
        let (container, request, scope) = self.request(container, text)?;
        let paging = Paging { crosses: true, ..*paging };
        self.0.engine().queries().query_items(
            &container,
            &scope,
            &request,
            PageSize { items },
            &paging,
        )
    }

    /// The same on the thread of a connection.
    fn inline_page(
        &self,
        container: &str,
        text: &str,
        items: usize,
        paging: &Paging<'_>,
    ) -> Result<Option<QueryPage>> {
        let (container, request, scope) = self.request(container, text)?;
        let (size, paging) = (PageSize { items }, Paging { crosses: true, ..*paging });
        let mut query = PreparedQuery::new(container, scope, request, size);
        self.0.engine().queries().run_inline(&mut query, &paging)
    }

    fn request(
        &self,
        container: &str,
        text: &str,
    ) -> Result<(
        std::sync::Arc<orrery_engine::Container>,
        QueryRequest,
        orrery_engine::partition::scope::Scope,
    )> {
        let container = self.0.container(container);
        let mut body = orrery_types::Object::new();
        body.set("query", text.into());
        let request = QueryRequest::parse(&Value::object(body))?;
        let scope = container.scope(&ScopeRequest::default())?;
        Ok((container, request, scope))
    }

    /// All rows, page by page.
    pub(crate) fn rows(&self, container: &str, text: &str, items: usize) -> Result<Vec<String>> {
        let (mut rows, mut token) = (Vec::new(), None::<String>);
        loop {
            let paging = Paging { continuation: token.as_deref(), ..Paging::default() };
            let page = self.page(container, text, items, &paging)?;
            assert!(page.rows.len() <= items, "{text}");
            rows.extend(page.rows);
            token = page.continuation;
            if token.is_none() {
                return Ok(rows);
            }
        }
    }

    #[track_caller]
    fn check(&self, container: &str, text: &str, expected: &[&str]) {
        for items in [1, 2, 100] {
            let mut rows = self.rows(container, text, items).expect(text);
            rows.sort();
            assert_eq!(rows, expected, "{text}");
        }
    }

    #[track_caller]
    fn refuse(&self, container: &str, text: &str, says: &str) {
        match self.rows(container, text, 100) {
            Err(Error::Query(message) | Error::Invalid(message)) => {
                assert!(message.contains(says), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    fn plan(&self, container: &str, text: &str) -> String {
        let paging = Paging { explains: true, ..Paging::default() };
        let page = self.page(container, text, 100, &paging).expect(text);
        page.report.plan.expect("a plan").to_text()
    }

    fn read(&self, container: &str, id: &str, expand: &str) -> Result<Value> {
        let container = self.0.container(container);
        let key = PartitionKey(vec![KeyComponent::String(id.into())]);
        let engine = self.0.engine();
        let read = engine.queries().read_item_expanded(
            &container,
            Some(&key),
            &name(id),
            expand,
            Reach::Database,
        );
        read.map(|read| Value::parse(&read.body).expect("JSON"))
    }
}

#[test]
fn a_relation_is_a_property_in_every_clause() {
    let shelf = Shelf::filled();
    shelf.check(
        "library",
        "SELECT b.name, b.publisher.name AS publisher FROM b \
         WHERE b.publisher.name = 'Microsoft Press'",
        &[
            r#"{"name":"One","publisher":"Microsoft Press"}"#,
            r#"{"name":"Two","publisher":"Microsoft Press"}"#,
        ],
    );
    shelf.check(
        "people",
        "SELECT p.id, h.held * h.stock.high AS worth FROM p JOIN h IN p.holdings",
        &[
            r#"{"id":"p1","worth":30}"#,
            r#"{"id":"p1","worth":40}"#,
            r#"{"id":"p1","worth":7}"#,
            r#"{"id":"p1"}"#,
        ],
    );
    shelf.check(
        "library",
        "SELECT a.id, ARRAY(SELECT VALUE k.year FROM k IN a.written WHERE k.year < 2) AS y \
         FROM a WHERE a.id = 'a1'",
        &[r#"{"id":"a1","y":[1]}"#],
    );
    shelf.check(
        "library",
        "SELECT VALUE w.name FROM a JOIN w IN a.written WHERE a.id = 'a1'",
        &[r#""One""#, r#""Two""#],
    );
    shelf.check(
        "library",
        "SELECT VALUE COUNT(1) FROM b WHERE b.publisher.name = 'Microsoft Press'",
        &["2"],
    );
    shelf.check(
        "library",
        "SELECT COUNT(1) AS n, b.publisher.name AS p FROM b WHERE b.type = 'book' \
         GROUP BY b.publisher.name",
        &[r#"{"n":1}"#, r#"{"n":2,"p":"Microsoft Press"}"#],
    );
    shelf.check(
        "library",
        "SELECT DISTINCT VALUE b.publisher.name FROM b",
        &[r#""Microsoft Press""#, r#""Other""#],
    );
    // An array of references leads to an array of items, those that are there.
    shelf.check(
        "library",
        "SELECT VALUE r.name FROM b JOIN r IN b.related",
        &[r#""One""#, r#""Three""#],
    );
    shelf.check("library", "SELECT VALUE b.related[1].name FROM b", &[r#""Three""#]);
    shelf.check("people", "SELECT VALUE p.holdings[1]['stock'].high FROM p", &["20"]);
    shelf.check(
        "library",
        "SELECT b.name FROM b WHERE EXISTS(SELECT VALUE a FROM a IN b.authors \
         WHERE a.author.firstName = 'William')",
        &[r#"{"name":"One"}"#],
    );
}

#[test]
fn names_are_virtual() {
    let shelf = Shelf::filled();
    let rows =
        shelf.rows("library", "SELECT * FROM b WHERE b.publisher.name = 'Other'", 9).unwrap();
    // On an item of another type the name is the property that is stored there.
    assert_eq!(rows.len(), 1);
    assert!(rows[0].contains(r#""id":"m1""#), "{rows:?}");
    let rows =
        shelf.rows("library", "SELECT b, b.publisher.id FROM b WHERE b.id = 'b1'", 9).unwrap();
    let row = json(&rows[0]);
    assert_eq!(row.get("id").as_str(), Some("mspress"));
    assert!(row.get("b").get("publisher").is_undefined());
    shelf.check(
        "library",
        "SELECT VALUE IS_DEFINED(b.publisher) FROM b WHERE b.id = 'b3'",
        &["false"],
    );
    shelf.check(
        "library",
        "SELECT VALUE b.id FROM b WHERE b.type = 'book' AND NOT IS_DEFINED(b.publisher)",
        &[r#""b3""#],
    );
}

#[test]
fn relations_follow_one_another_three_times() {
    let shelf = Shelf::filled();
    shelf.check(
        "library",
        "SELECT VALUE b.publisher.country.region.name FROM b WHERE b.id = 'b1'",
        &[r#""Americas""#],
    );
    shelf.check(
        "geo",
        "SELECT VALUE a.author.lastName FROM c JOIN p IN c.publishers JOIN b IN p.books \
         JOIN a IN b.authors WHERE c.id = 'us' AND b.id = 'b1'",
        &[r#""A""#, r#""W""#],
    );
    shelf.refuse(
        "library",
        "SELECT VALUE a.author.written[0].publisher.country FROM b JOIN a IN b.authors",
        "relation number 4",
    );
    shelf.refuse("library", "SELECT * FROM b ORDER BY b.publisher.name", "declare a copy");
}

#[test]
fn expired_and_missing_targets_are_undefined() {
    let shelf = Shelf::filled();
    shelf.put("stocks", r#"{"id":"2","market":"n","high":20,"ttl":10}"#);
    let text = "SELECT VALUE h.stock.high FROM p JOIN h IN p.holdings";
    shelf.check("people", text, &["10", "20", "7"]);
    shelf.0.clock.advance_s(11);
    shelf.check("people", text, &["10", "7"]);
    shelf.put("library", r#"{"id":"b9","type":"book","pub-id":"mspress","ttl":10}"#);
    let text = "SELECT VALUE ARRAY_LENGTH(p.books) FROM p WHERE p.id = 'mspress'";
    shelf.check("library", text, &["3"]);
    shelf.0.clock.advance_s(11);
    shelf.check("library", text, &["2"]);
}

#[test]
fn a_filter_on_targets_is_turned_round() {
    let shelf = Shelf::filled();
    let text = "SELECT VALUE h.held FROM p JOIN h IN p.holdings WHERE h.stock.high = 20";
    shelf.check("people", text, &["2"]);
    let plan = shelf.plan("people", text);
    assert!(plan.contains("Expand /holdings/*/stock to stock"), "{plan}");
    assert!(plan.contains("SemiJoin /holdings/*/stock: 1 targets, 1 references"), "{plan}");
    // A magazine stores what is a name on books: then references do not tell everything.
    let text = "SELECT VALUE b.id FROM b WHERE b.publisher.name = 'Microsoft Press' ORDER BY b.id";
    let plan = shelf.plan("library", text);
    assert!(!plan.contains("SemiJoin"), "{plan}");
    let none = Preconditions::default();
    let key = PartitionKey(vec![KeyComponent::String("m1".into())]);
    let library = shelf.0.container("library");
    shelf
        .0
        .engine()
        .items()
        .delete(&library, Some(&key), &name("m1"), &none)
        .expect("it is deleted");
    let plan = shelf.plan("library", text);
    assert!(plan.contains("SemiJoin /publisher: 1 targets, 2 references"), "{plan}");
    shelf.check("library", text, &[r#""b1""#, r#""b2""#]);
    shelf.check(
        "library",
        "SELECT VALUE b.id FROM b WHERE b.publisher.name = 'Microsoft Press' ORDER BY b.year DESC",
        &[r#""b1""#, r#""b2""#],
    );
    // What holds without a target cannot be found by references.
    let text = "SELECT VALUE b.id FROM b WHERE (b.publisher.name ?? 'x') = 'x' AND b.type = 'book'";
    assert!(!shelf.plan("library", text).contains("SemiJoin"));
    shelf.check("library", text, &[r#""b3""#]);
}

#[test]
fn what_a_page_may_load_is_bounded() {
    let shelf = Shelf::new(World::memory());
    shelf.put("library", r#"{"id":"big","type":"publisher"}"#);
    for n in 0..1100 {
        shelf.put("library", &format!(r#"{{"id":"p{n}","type":"publisher","name":"P{n}"}}"#));
        shelf.put(
            "library",
            &format!(r#"{{"id":"b{n}","type":"book","pub-id":"p{n}","relatedIds":["p{n}"]}}"#),
        );
    }
    let text = "SELECT VALUE b.publisher.name FROM b WHERE b.type = 'book'";
    let page = shelf.page("library", text, 2000, &Paging::default()).expect("a page");
    assert!(page.rows.len() <= 1000 && page.continuation.is_some(), "{}", page.rows.len());
    let mut rows = shelf.rows("library", text, 2000).expect("all");
    rows.sort();
    rows.dedup();
    assert_eq!(rows.len(), 1100);
    // Whoever must see all of it first is refused.
    shelf.refuse("library", "SELECT VALUE MAX(b.publisher.name) FROM b", "more than 1000 items");
    for n in 0..1100 {
        shelf.put("library", &format!(r#"{{"id":"b{n}","type":"book","pub-id":"big"}}"#));
    }
    shelf.refuse(
        "library",
        "SELECT VALUE p.books FROM p WHERE p.id = 'big'",
        "more than 1000 items",
    );
}

#[test]
fn a_page_that_is_to_take_little_is_given_up_when_it_takes_more() {
    let shelf = Shelf::filled();
    let holdings = |count: usize| {
        let holding = |n: usize| format!(r#"{{"stockId":"{n}","market":"n","held":1}}"#);
        (0..count).map(holding).collect::<Vec<_>>().join(",")
    };
    for (id, count) in [("few", 60), ("many", 70)] {
        shelf.put("people", &format!(r#"{{"id":"{id}","holdings":[{}]}}"#, holdings(count)));
    }
    let paging = Paging::default();
    let rows = |text: &str| {
        let page = shelf.inline_page("people", text, 10_000, &paging).expect(text);
        page.map(|page| page.rows.len())
    };
    let prices = "SELECT VALUE h.stock.high FROM p JOIN h IN p.holdings WHERE p.id = ";
    assert_eq!(rows(&format!("{prices}'few'")), Some(2));
    assert_eq!(rows(&format!("{prices}'many'")), None, "it leads to more than 64 items");
    let pairs = "SELECT VALUE 1 FROM p JOIN h IN p.holdings JOIN g IN p.holdings WHERE p.id = ";
    assert_eq!(rows(&format!("{pairs}'p1'")), Some(16));
    assert_eq!(rows(&format!("{pairs}'many'")), None, "it takes more than 16,384 steps");
    let whole = |id: &str| {
        let (text, expand) = (format!("SELECT * FROM p WHERE p.id = '{id}'"), Some("stock"));
        let page = shelf.inline_page("people", &text, 10, &Paging { expand, ..paging });
        page.expect(&text).map(|page| page.rows.len())
    };
    assert_eq!((whole("few"), whole("many")), (Some(1), None), "so does a header");
    let turned = "SELECT VALUE p.id FROM p JOIN h IN p.holdings WHERE h.stock.high = 20";
    assert_eq!(rows(turned), None, "it does not name its items");
    for text in [format!("{prices}'many'"), format!("{pairs}'many'"), turned.to_owned()] {
        let page = shelf.page("people", &text, 10_000, &Paging::default()).expect(&text);
        assert!(!page.rows.is_empty(), "{text}");
    }
}

#[test]
fn charges_count_what_relations_load() {
    let shelf = Shelf::filled();
    let page = |text: &str| shelf.page("people", text, 100, &Paging::default()).expect(text);
    let plain = page("SELECT VALUE h.held FROM p JOIN h IN p.holdings");
    let expanded = page("SELECT VALUE h.stock.high FROM p JOIN h IN p.holdings");
    assert_eq!((plain.items_read, expanded.items_read), (1, 4));
    assert!(expanded.charge > plain.charge);
}

#[test]
fn a_header_puts_relations_into_whole_items() {
    let shelf = Shelf::filled();
    let book = shelf.read("library", "b1", "publisher, author(firstName,written(name))").unwrap();
    assert_eq!(book.get("publisher").get("name").as_str(), Some("Microsoft Press"));
    let author = book.get("authors").at(0).get("author");
    assert_eq!(author.get("firstName").as_str(), Some("Thomas"));
    assert!(author.get("lastName").is_undefined());
    let mut written = author.get("written").as_array().expect("a list").to_vec();
    written.sort();
    assert_eq!(Value::array(written).to_json(), r#"[{"name":"One"},{"name":"Two"}]"#);
    // Saved back it is the same item.
    let before = shelf.rows("library", "SELECT * FROM c WHERE c.id = 'b1'", 9).unwrap();
    shelf.put("library", &book.to_json());
    let after = shelf.rows("library", "SELECT * FROM c WHERE c.id = 'b1'", 9).unwrap();
    let plain = |rows: &[String]| {
        let mut item = json(&rows[0]);
        let object = item.as_object_mut().expect("an object");
        for name in ["_etag", "_ts"] {
            object.remove(name);
        }
        item
    };
    assert_eq!(plain(&before), plain(&after));
    let person = shelf.read("people", "p1", "stock(high)").unwrap();
    assert_eq!(person.get("holdings").at(2).get("stock").to_json(), r#"{"high":7}"#);
    assert!(person.get("holdings").at(3).get("stock").is_undefined());
    let country = shelf.read("geo", "us", "publishers(books(author)),region").unwrap();
    let book = country.get("publishers").at(0).get("books").at(0);
    assert_eq!(book.get("authors").at(0).get("author").get("firstName").as_str(), Some("Thomas"));
    for (expand, says) in [
        ("publisher,nobody", "'nobody' is no relation of the container 'library'; there are: "),
        ("publisher(", "must be a list of relations"),
        (",", "must be a list of relations"),
        ("publisher)", "must be a list of relations"),
        ("publisher(country(x(y)))", "'x' is no relation"),
    ] {
        let refused = shelf.read("library", "b1", expand);
        assert!(
            matches!(&refused, Err(Error::Invalid(text)) if text.contains(says)),
            "{refused:?}"
        );
    }
    assert_eq!(shelf.read("library", "none", "publisher").map(drop), Err(Error::NotFound));
}

#[test]
fn a_header_expands_the_rows_of_select_star() {
    let shelf = Shelf::filled();
    let paging = Paging { expand: Some("publisher(name)"), ..Paging::default() };
    let text = "SELECT * FROM c WHERE c.type = 'book' AND c.year < 3 ORDER BY c.year";
    let page = shelf.page("library", text, 100, &paging).expect("a page");
    for row in &page.rows {
        assert_eq!(json(row).get("publisher").to_json(), r#"{"name":"Microsoft Press"}"#);
    }
    assert_eq!(page.rows.len(), 2);
    let refused = shelf.page("library", "SELECT c.id FROM c", 100, &paging);
    assert!(matches!(refused, Err(Error::Invalid(text)) if text.contains("SELECT *")));
}

#[test]
fn a_token_for_one_resource_leads_no_further() {
    let shelf = Shelf::filled();
    let read = |container: &str, text: &str, reach: Reach| {
        shelf.page(container, text, 100, &Paging { reach, ..Paging::default() }).map(drop)
    };
    let within = "SELECT VALUE b.publisher.name FROM b";
    let beyond = "SELECT VALUE b.publisher.country.name FROM b";
    let denied = |result: Result<()>| matches!(result, Err(Error::Denied(_)));
    assert_eq!(read("library", within, Reach::Container), Ok(()));
    assert!(denied(read("library", beyond, Reach::Container)));
    assert!(denied(read("library", within, Reach::Nothing)));
    assert_eq!(read("library", "SELECT VALUE b.name FROM b", Reach::Nothing), Ok(()));
}

#[test]
fn an_inverse_is_refused_until_all_references_are_written_down() {
    let mut shelf = Shelf::new(World::memory());
    let none = Preconditions::default();
    shelf.0.engine().models().delete(&name("d"), &none).expect("a database without a model");
    shelf.put("library", r#"{"id":"mspress","type":"publisher"}"#);
    // More than is brought under a model before it is answered.
    for n in 0..2100 {
        shelf.put("library", &format!(r#"{{"id":"b{n}","type":"book","pub-id":"mspress"}}"#));
    }
    shelf.0.engine().models().store(&name("d"), &json(MODEL), &none).expect("it is being built");
    let books = |shelf: &Shelf| {
        let text = "SELECT VALUE ARRAY_LENGTH(p.books) FROM p WHERE p.id = 'mspress'";
        shelf.page("library", text, 10, &Paging::default()).map(|page| page.rows)
    };
    let refused = books(&shelf).expect_err("not all of them are known");
    let says = refused.to_string();
    assert!(says.contains("'books' cannot be followed yet") && says.contains("% are"), "{says}");
    // A reference itself leads on from the first moment, and so does a filter on it.
    let text = "SELECT VALUE COUNT(1) FROM b WHERE b.publisher.id = 'mspress'";
    let counted = shelf.page("library", text, 10, &Paging::default());
    assert_eq!(counted.expect(text).rows, ["2100"]);
    shelf.0.run_tasks();
    for n in 900..2100 {
        let (library, id) = (shelf.0.container("library"), format!("b{n}"));
        let key = PartitionKey(vec![KeyComponent::String(id.as_str().into())]);
        shelf.0.engine().items().delete(&library, Some(&key), &name(&id), &none).expect("a book");
    }
    assert_eq!(books(&shelf), Ok(vec!["900".to_owned()]));
}

#[test]
fn a_script_follows_no_relation() {
    let shelf = Shelf::filled();
    let library = shelf.0.container("library");
    let key = PartitionKey(vec![KeyComponent::String("b1".into())]);
    let ask = |text: &str| {
        let request = QueryRequest::parse(&json(&format!(r#"{{"query":"{text}"}}"#)))?;
        let transacted =
            shelf.0.engine().transactions().transact(&library, &key, &mut |transaction| {
                transaction.query(&request, PageSize { items: 10 }, None).map(|page| page.rows)
            });
        transacted.map(|done| done.value)
    };
    let refused = ask("SELECT VALUE b.publisher.name FROM b").expect_err("it leads elsewhere");
    assert!(refused.to_string().contains("'/publisher'"), "{refused}");
    assert_eq!(ask("SELECT VALUE b.name FROM b"), Ok(vec!["\"One\"".to_owned()]));
}
