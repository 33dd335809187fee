//! The law: a query over relations answers what a join by hand would. Items are random, references
//! lead somewhere or nowhere; the test joins them itself, puts the targets into the items as plain
//! properties, and asks the same question of those.

use std::collections::BTreeMap;

use orrery_engine::query::QueryRequest;
use orrery_engine::query::read_feed::PageSize;
use orrery_types::{Object, Value};

use crate::expansion::Shelf;
use crate::random::Random;
use crate::world::{World, json};

const QUERIES: [&str; 22] = [
    "SELECT c.id, c.publisher.name AS p FROM c WHERE c.publisher.name = 'P1'",
    "SELECT c.id FROM c WHERE c.publisher.rank > 1 AND c.year < 5",
    "SELECT c.id FROM c WHERE (c.publisher.rank BETWEEN 1 AND 2) OR c.year = 3",
    "SELECT c.id FROM c WHERE NOT IS_DEFINED(c.publisher) AND c.type = 'book'",
    "SELECT c.id, c.publisher.country.name AS n FROM c WHERE c.publisher.country.name = 'C1'",
    "SELECT VALUE c.publisher.country.region.name FROM c",
    "SELECT c.id, a.author.firstName FROM c JOIN a IN c.authors",
    "SELECT c.id, a.author.firstName AS n FROM c JOIN a IN c.authors WHERE a.author.firstName = 'F2'",
    "SELECT c.id FROM c WHERE EXISTS(SELECT VALUE a FROM a IN c.authors WHERE a.author.rank = 1)",
    "SELECT VALUE COUNT(1) FROM c WHERE c.publisher.rank = 1",
    "SELECT c.publisher.name AS p, COUNT(1) AS n FROM c WHERE c.type = 'book' GROUP BY c.publisher.name",
    "SELECT DISTINCT VALUE c.publisher.rank FROM c",
    "SELECT c.id, ARRAY(SELECT VALUE k.id FROM k IN c.books) AS ids FROM c WHERE c.type = 'publisher'",
    "SELECT c.id, ARRAY_LENGTH(c.books) AS n FROM c WHERE ARRAY_LENGTH(c.books) > 1",
    "SELECT c.id, k.year FROM c JOIN k IN c.books WHERE k.year > 2",
    "SELECT c.id, (SELECT VALUE MAX(k.year) FROM k IN c.written) AS last FROM c WHERE c.type = 'author'",
    "SELECT VALUE r.name FROM c JOIN r IN c.related",
    "SELECT c.id, c.authors[0].author.firstName AS f FROM c WHERE c.authors[0].author.rank < 2",
    "SELECT VALUE SUM(c.publisher.rank) FROM c",
    "SELECT c.id FROM c WHERE c.publisher.name IN ('P0', 'P2') AND c.publisher.rank != 2",
    "SELECT c.id FROM c WHERE c.publisher.name LIKE 'P%' AND STARTSWITH(c.name, 'N1')",
    "SELECT c.year, c.publisher.name AS p FROM c WHERE c.publisher.rank >= 1 ORDER BY c.year",
];

/// Everything that is stored, by container and id.
type Items = BTreeMap<String, Value>;

fn fill(shelf: &Shelf, random: &mut Random) -> (Items, Items) {
    let (mut geo, mut library) = (Items::new(), Items::new());
    let mut put = |shelf: &Shelf, container: &str, text: &str| {
        shelf.put(container, text);
        let item = json(text);
        let id = item.get("id").as_str().expect("an id").to_owned();
        if container == "geo" { &mut geo } else { &mut library }.insert(id, item);
    };
    for n in 0..2 {
        put(shelf, "geo", &format!(r#"{{"id":"r{n}","type":"region","name":"R{n}"}}"#));
    }
    for n in 0..3 {
        let region = random.below(3);
        let text =
            format!(r#"{{"id":"c{n}","type":"country","name":"C{n}","regionId":"r{region}"}}"#);
        put(shelf, "geo", &text);
    }
    for n in 0..5 {
        let (country, rank) = (random.below(5), random.below(4));
        let text = format!(
            r#"{{"id":"p{n}","type":"publisher","name":"P{n}","rank":{rank},"countryId":"c{country}"}}"#
        );
        put(shelf, "library", &text);
        let text = format!(r#"{{"id":"a{n}","type":"author","firstName":"F{n}","rank":{rank}}}"#);
        put(shelf, "library", &text);
    }
    for n in 0..40 {
        let reference = |random: &mut Random, kind: &str| format!(r#""{kind}{}""#, random.below(7));
        let authors: Vec<String> = (0..random.below(4))
            .map(|_| format!(r#"{{"id":{},"role":{}}}"#, reference(random, "a"), random.below(3)))
            .collect();
        let related: Vec<String> =
            (0..random.below(3)).map(|_| format!(r#""b{}""#, random.below(50))).collect();
        let publisher = match random.below(6) {
            0 => String::new(),
            1 => r#","pub-id":null"#.to_owned(),
            2 => r#","pub-id":7"#.to_owned(),
            _ => format!(r#","pub-id":{}"#, reference(random, "p")),
        };
        let text = format!(
            r#"{{"id":"b{n}","type":"book","name":"N{}","year":{},"authors":[{}],"relatedIds":[{}]{publisher}}}"#,
            random.below(20),
            random.below(7),
            authors.join(","),
            related.join(",")
        );
        put(shelf, "library", &text);
    }
    (geo, library)
}

fn with(mut item: Value, name: &str, value: Value) -> Value {
    if let Some(object) = item.as_object_mut() {
        object.set(name, value);
    }
    item
}

/// The library with every relation put into its items by hand.
fn joined(geo: &Items, library: &Items) -> Vec<Value> {
    let of = |items: &Items, id: &Value, kind: &str| -> Value {
        let found = id.as_str().and_then(|id| items.get(id));
        found.filter(|item| item.get("type").as_str() == Some(kind)).cloned().unwrap_or_default()
    };
    let country = |id: &Value| {
        let country = of(geo, id, "country");
        let region = of(geo, country.get("regionId"), "region");
        with(country, "region", region)
    };
    let books = |holds: &dyn Fn(&Value) -> bool| {
        let is_book = |item: &&Value| item.get("type").as_str() == Some("book");
        Value::array(library.values().filter(is_book).filter(|b| holds(b)).cloned().collect())
    };
    let names = |book: &Value, id: &Value| {
        book.get("authors").as_array().unwrap_or_default().iter().any(|a| a.get("id") == id)
    };
    let join = |item: &Value| {
        let id = item.get("id").clone();
        match item.get("type").as_str() {
            Some("publisher") => with(item.clone(), "books", books(&|b| *b.get("pub-id") == id)),
            Some("author") => with(item.clone(), "written", books(&|b| names(b, &id))),
            _ => {
                let publisher = of(library, item.get("pub-id"), "publisher");
                let publisher =
                    with(publisher.clone(), "country", country(publisher.get("countryId")));
                let authors = item.get("authors").as_array().unwrap_or_default().iter();
                let authors = authors
                    .map(|a| with(a.clone(), "author", of(library, a.get("id"), "author")))
                    .collect();
                let related = item.get("relatedIds").as_array().unwrap_or_default().iter();
                let related = related.map(|id| of(library, id, "book")).collect();
                let item = with(item.clone(), "publisher", publisher);
                with(with(item, "authors", Value::array(authors)), "related", Value::array(related))
            }
        }
    };
    library.values().map(join).collect()
}

/// A row whose arrays are sorted: the order in which items refer is not promised.
fn settled(value: &Value) -> Value {
    match value {
        Value::Array(elements) => {
            let mut elements: Vec<Value> = elements.iter().map(settled).collect();
            elements.sort();
            Value::array(elements)
        }
        Value::Object(object) => {
            let mut sorted = Object::new();
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(name, _)| (*name).clone());
            for (name, value) in entries {
                sorted.set(name, settled(value));
            }
            Value::object(sorted)
        }
        other => other.clone(),
    }
}

fn law(world: World, random: &mut Random) {
    let shelf = Shelf::new(world);
    let (geo, library) = fill(&shelf, random);
    let joined = joined(&geo, &library);
    for text in QUERIES {
        let mut body = Object::new();
        body.set("query", text.into());
        let request = QueryRequest::parse(&Value::object(body)).expect(text);
        let expected = {
            let all = PageSize { items: usize::MAX };
            let page =
                shelf.0.engine().queries().query_values(joined.clone(), &request, all, "", None);
            page.expect(text).0
        };
        let mut expected: Vec<String> = expected.iter().map(|row| settled(row).to_json()).collect();
        expected.sort();
        for items in [1, 7, 1000] {
            let rows = shelf.rows("library", text, items).expect(text);
            let mut rows: Vec<String> = rows.iter().map(|r| settled(&json(r)).to_json()).collect();
            rows.sort();
            assert_eq!(rows, expected, "{text} by {items}");
        }
    }
}

#[test]
fn a_query_over_relations_answers_as_a_join_by_hand() {
    let mut random = Random::from_environment("expansion law");
    for _ in 0..6 {
        law(World::memory(), &mut random);
    }
}

#[test]
fn and_so_it_does_on_disk() {
    let mut random = Random::from_environment("expansion law on disk");
    law(World::rocks(), &mut random);
}
