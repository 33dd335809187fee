//! A client that writes authors and books under a model. Each client has its own, and computes from them what
//! the server must keep: the copied names, the counts and sums, what a delete takes along and what it is
//! refused for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::connection::{Connection, Ended, Query, Request, json, own, partition_header};
use crate::client::Answer;
use crate::random::Random;

pub(super) const AUTHORS: &str = "/dbs/d/colls/authors/docs";
pub(super) const BOOKS: &str = "/dbs/d/colls/books/docs";
const AUTHOR_COUNT: usize = 5;
const BOOK_COUNT: usize = 16;

/// Everything follows in the commit, so every answer can be predicted.
pub(super) const MODEL: &str = r#"{"version":1,
    "types":{"author":{"container":"authors"},"book":{"container":"books"}},
    "relations":[
    {"name":"author","from":"book","path":"/authorId","to":"author","onMissing":"reject",
     "onDelete":"cascade","propagate":"sync","maxFanout":1000,"copies":{"authorName":"t.name"},
     "inverse":{"name":"written"}},
    {"name":"editor","from":"book","path":"/editorId","to":"author","onMissing":"reject",
     "onDelete":"restrict","propagate":"sync","maxFanout":1000,"inverse":{"name":"edited"}}],
    "aggregates":[
    {"on":"author","path":"/countOfBooks","of":"written","value":"COUNT(1)","propagate":"sync",
     "maxFanout":1000},
    {"on":"author","path":"/sumOfPrices","of":"written","value":"SUM(c.price)","propagate":"sync",
     "maxFanout":1000}]}"#;

#[derive(Clone, Debug, PartialEq)]
struct Book {
    author: usize,
    editor: Option<usize>,
    price: i64,
}

/// What a client has stored: the names of its authors, and its books.
#[derive(Clone, Debug, Default, PartialEq)]
struct Library {
    authors: BTreeMap<usize, String>,
    books: BTreeMap<usize, Book>,
}

/// A write, and what it does to the library.
#[derive(Debug)]
enum Change {
    PutAuthor(usize, String),
    DeleteAuthor(usize),
    PutBook(usize, Book),
    /// Another price, and perhaps another author.
    PatchBook(usize, i64, Option<usize>),
    DeleteBook(usize),
}

impl Library {
    /// Applies a change and gives the status of its answer.
    fn apply(&mut self, change: &Change) -> u16 {
        match change {
            Change::PutAuthor(author, name) => {
                let before = self.authors.insert(*author, name.clone());
                if before.is_some() { 200 } else { 201 }
            }
            Change::DeleteAuthor(author) => self.delete_author(*author),
            Change::PutBook(number, book) => self.put_book(*number, book.clone()),
            Change::PatchBook(number, price, author) => {
                let Some(mut book) = self.books.get(number).cloned() else { return 404 };
                book.price = *price;
                book.author = author.unwrap_or(book.author);
                self.put_book(*number, book)
            }
            Change::DeleteBook(number) => match self.books.remove(number) {
                Some(_) => 204,
                None => 404,
            },
        }
    }

    fn put_book(&mut self, number: usize, book: Book) -> u16 {
        let mut references = [Some(book.author), book.editor].into_iter().flatten();
        if !references.all(|author| self.authors.contains_key(&author)) {
            return 400;
        }
        if self.books.insert(number, book).is_some() { 200 } else { 201 }
    }

    /// Who edits a book stays; who has written books takes them along.
    fn delete_author(&mut self, author: usize) -> u16 {
        if !self.authors.contains_key(&author) {
            return 404;
        }
        if self.books.values().any(|book| book.editor == Some(author)) {
            return 409;
        }
        self.authors.remove(&author);
        self.books.retain(|_, book| book.author != author);
        204
    }
}

/// One client and what it knows.
pub(super) struct LibraryClient {
    number: usize,
    random: Random,
    names: u64,
    library: Library,
    /// What there is if a write without an answer was executed.
    pending: Option<Library>,
    pub(super) unanswered: u64,
}

impl LibraryClient {
    pub(super) fn new(number: usize, seed: u64) -> Self {
        let (random, library) = (Random::new(seed), Library::default());
        Self { number, random, names: 0, library, pending: None, unanswered: 0 }
    }

    /// How many authors and books it has.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.library.authors.len(), self.library.books.len()]
    }

    /// Works until the server is ended or all are to stop.
    pub(super) fn run(&mut self, connection: &mut Connection<'_>, is_over: impl Fn() -> bool) {
        while !is_over() {
            let done = match self.random.below(8) {
                0 => self.read_author(connection),
                1 => self.read_book(connection),
                2 => self.query(connection),
                _ => self.write(connection),
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Reads everything back, and compares it with what the model must have made of it.
    pub(super) fn settle(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        let text = format!("SELECT * FROM c WHERE c.owner = {}", self.number);
        let query = Query { text: &text, partition: None, page_size: 1000 };
        let mut found = Vec::new();
        for path in [AUTHORS, BOOKS] {
            found.extend(connection.query("comparison", path, &query)?.iter().map(own));
        }
        found.sort_by_key(|item| item["id"].as_str().map(str::to_owned));
        let pending = self.pending.take();
        self.unanswered += u64::from(pending.is_some());
        let known = self.items(&self.library);
        if found != known {
            let executed = pending.as_ref().map(|after| self.items(after));
            let is_executed = executed.as_ref() == Some(&found);
            assert!(is_executed, "stored {found:#?}\nknown {known:#?}\nunanswered {executed:#?}");
            self.library = pending.expect("what was executed");
        }
        Ok(())
    }

    /// All items as they must be stored, by id.
    fn items(&self, library: &Library) -> Vec<Value> {
        let authors = library.authors.keys().map(|author| self.author_item(library, *author));
        let books = library.books.keys().map(|book| self.book_item(library, *book));
        let mut items: Vec<Value> = authors.chain(books).collect();
        items.sort_by_key(|item| item["id"].as_str().map(str::to_owned));
        items
    }

    fn author_id(&self, author: usize) -> String {
        format!("a{}-{author}", self.number)
    }

    fn book_id(&self, book: usize) -> String {
        format!("b{}-{book}", self.number)
    }

    fn shelf(&self, book: usize) -> String {
        format!("s{}-{}", self.number, book % 5)
    }

    fn author_item(&self, library: &Library, author: usize) -> Value {
        let written = library.books.values().filter(|book| book.author == author);
        let prices: Vec<i64> = written.map(|book| book.price).collect();
        json!({"id": self.author_id(author), "owner": self.number, "name": library.authors[&author],
            "countOfBooks": prices.len(), "sumOfPrices": prices.iter().sum::<i64>()})
    }

    fn book_item(&self, library: &Library, number: usize) -> Value {
        let book = &library.books[&number];
        let mut item = self.book_body(number, book);
        item["authorName"] = json!(library.authors[&book.author]);
        item
    }

    /// A book as it is sent.
    fn book_body(&self, number: usize, book: &Book) -> Value {
        let mut body = json!({"id": self.book_id(number), "shelf": self.shelf(number),
            "owner": self.number, "authorId": self.author_id(book.author), "price": book.price});
        if let Some(editor) = book.editor {
            body["editorId"] = json!(self.author_id(editor));
        }
        body
    }

    fn change(&mut self) -> Change {
        let author = self.random.below(AUTHOR_COUNT);
        let book = self.random.below(BOOK_COUNT);
        let price = i64::try_from(self.random.below(1000)).unwrap();
        self.names += 1;
        match self.random.below(12) {
            0..3 => Change::PutAuthor(author, format!("N{}", self.names)),
            3 => Change::DeleteAuthor(author),
            4 => Change::DeleteBook(book),
            5..8 => {
                let other = self.random.one_in(2).then(|| self.random.below(AUTHOR_COUNT));
                // An author who edited the own book would be both a reason to delete and not to.
                let editor = self.library.books.get(&book).and_then(|book| book.editor);
                Change::PatchBook(book, price, other.filter(|other| editor != Some(*other)))
            }
            _ => {
                let editor = self.random.one_in(4).then(|| self.random.below(AUTHOR_COUNT));
                let editor = editor.filter(|editor| *editor != author);
                Change::PutBook(book, Book { author, editor, price })
            }
        }
    }

    fn write(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        let change = self.change();
        let mut after = self.library.clone();
        let expected = after.apply(&change);
        self.pending = Some(after);
        let answer = self.send(connection, &change)?;
        let after = self.pending.take().expect("what was sent");
        assert_eq!(answer.status, expected, "{change:?} on {:?}: {answer:?}", self.library);
        self.library = after;
        if matches!(expected, 200 | 201) {
            let item = match &change {
                Change::PutAuthor(author, _) => self.author_item(&self.library, *author),
                Change::PutBook(book, _) | Change::PatchBook(book, ..) => {
                    self.book_item(&self.library, *book)
                }
                Change::DeleteAuthor(_) | Change::DeleteBook(_) => return Ok(()),
            };
            assert_eq!(own(&json(&answer)), item, "{change:?}");
        }
        Ok(())
    }

    fn send(&self, connection: &mut Connection<'_>, change: &Change) -> Result<Answer, Ended> {
        let (key, item) = match change {
            Change::PutAuthor(author, _) | Change::DeleteAuthor(author) => {
                let id = self.author_id(*author);
                (id.clone(), format!("{AUTHORS}/{id}"))
            }
            Change::PutBook(book, _) | Change::PatchBook(book, ..) | Change::DeleteBook(book) => {
                (self.shelf(*book), format!("{BOOKS}/{}", self.book_id(*book)))
            }
        };
        let (method, path, body) = match change {
            Change::PutAuthor(author, name) => {
                let id = self.author_id(*author);
                ("POST", AUTHORS, json!({"id": id, "owner": self.number, "name": name}))
            }
            Change::PutBook(number, book) => ("POST", BOOKS, self.book_body(*number, book)),
            Change::PatchBook(_, price, author) => {
                let mut edits = vec![json!({"op": "set", "path": "/price", "value": price})];
                if let Some(author) = author {
                    let id = self.author_id(*author);
                    edits.push(json!({"op": "set", "path": "/authorId", "value": id}));
                }
                ("PATCH", &*item, json!({"operations": edits}))
            }
            Change::DeleteAuthor(_) | Change::DeleteBook(_) => ("DELETE", &*item, Value::Null),
        };
        let partition = partition_header(&key);
        let mut headers = vec![("x-ms-documentdb-partitionkey", &*partition)];
        if method == "POST" {
            headers.push(("x-ms-documentdb-is-upsert", "true"));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        connection.send("model write", &Request { method, path, headers: &headers, body: &body })
    }

    fn read_author(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        let author = self.random.below(AUTHOR_COUNT);
        let id = self.author_id(author);
        let is_known = self.library.authors.contains_key(&author);
        let expected = is_known.then(|| self.author_item(&self.library, author));
        read(connection, &format!("{AUTHORS}/{id}"), &id, expected.as_ref())
    }

    fn read_book(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        let book = self.random.below(BOOK_COUNT);
        let is_known = self.library.books.contains_key(&book);
        let expected = is_known.then(|| self.book_item(&self.library, book));
        let path = format!("{BOOKS}/{}", self.book_id(book));
        read(connection, &path, &self.shelf(book), expected.as_ref())
    }

    /// A query that follows the relation from every book to its author.
    fn query(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        let text = format!(
            "SELECT VALUE [b.id, b.author.name] FROM b WHERE b.owner = {} AND b.price < 500",
            self.number
        );
        let query = Query { text: &text, partition: None, page_size: 1 + self.random.below(20) };
        let mut rows = connection.query("model query", BOOKS, &query)?;
        let cheap = self.library.books.iter().filter(|(_, book)| book.price < 500);
        let row = |(number, book): (&usize, &Book)| {
            json!([self.book_id(*number), self.library.authors[&book.author]])
        };
        let mut known: Vec<Value> = cheap.map(row).collect();
        rows.sort_by_key(ToString::to_string);
        known.sort_by_key(ToString::to_string);
        assert_eq!(rows, known, "{text}");
        Ok(())
    }
}

fn read(
    connection: &mut Connection<'_>,
    path: &str,
    key: &str,
    expected: Option<&Value>,
) -> Result<(), Ended> {
    let partition = partition_header(key);
    let headers = [("x-ms-documentdb-partitionkey", &*partition)];
    let request = Request { method: "GET", path, headers: &headers, body: "" };
    let answer = connection.send("model read", &request)?;
    match expected {
        None => assert_eq!(answer.status, 404, "{path}: {answer:?}"),
        Some(expected) => {
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert_eq!(own(&json(&answer)), *expected, "{path}");
        }
    }
    Ok(())
}
