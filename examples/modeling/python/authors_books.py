"""The hybrid: books hold copies of what is shown of their authors, authors hold the ids and the number of their books,
and one commit over all of them keeps it true.

    pip install azure-cosmos
    python examples/modeling/python/authors_books.py
"""

from server import all_rows, fresh_database, refused, store_model

MODEL = {
    "version": 1,
    "types": {
        "author": {"container": "library", "where": "c.type = 'author'"},
        "book": {"container": "library", "where": "c.type = 'book'"},
    },
    "relations": [
        {
            "name": "author",
            "from": "book",
            "path": "/authors/*/id",
            "to": "author",
            "onMissing": "reject",
            "onDelete": "pull",
            "copies": {
                "name": "CONCAT(t.firstName, ' ', t.lastName)",
                "thumbnailUrl": "t.images[0].thumbnail",
            },
            "propagate": "sync",
            "maxFanout": 100,
            "inverse": {"name": "written", "store": "/books", "maxItems": 500},
        }
    ],
    "aggregates": [
        {"on": "author", "path": "/countOfBooks", "of": "written", "value": "COUNT(1)", "propagate": "sync"}
    ],
}


def author(id, first, last):
    images = [{"thumbnail": f"https://images.example/{id}.png"}]
    return {"id": id, "type": "author", "firstName": first, "lastName": last, "images": images}


def main():
    [library] = fresh_database("authors-books", [("library", "/id")])
    store_model("authors-books", MODEL)
    library.create_item(author("a1", "Thomas", "Andersen"))
    library.create_item(author("a2", "William", "Wakefield"))
    for n in range(1, 5):
        library.create_item({"id": f"b{n}", "type": "book", "name": f"Book {n}", "authors": [{"id": "a1"}]})

    # One commit over three partitions.
    book = library.create_item({"id": "b5", "type": "book", "name": "Book 5", "authors": [{"id": "a1"}, {"id": "a2"}]})
    print("authors of b5:", ", ".join(a["name"] for a in book["authors"]))
    print("thumbnail:", book["authors"][0]["thumbnailUrl"])
    for id in ("a1", "a2"):
        stored = library.read_item(id, id)
        print(f"{id} has {stored['countOfBooks']} books:", ", ".join(stored["books"]))

    # Any failure: nothing.
    wrong = {"id": "b6", "type": "book", "name": "Book 6", "authors": [{"id": "a1"}, {"id": "nobody"}]}
    status, _ = refused(lambda: library.create_item(wrong))
    print(f"an author who is not there: {status}, a1 still has {library.read_item('a1', 'a1')['countOfBooks']} books")

    # A rename reaches every copy in the same commit.
    renamed = library.read_item("a1", "a1")
    renamed["firstName"] = "Tom"
    library.replace_item("a1", renamed)
    names = all_rows(library, "SELECT VALUE a.name FROM b JOIN a IN b.authors WHERE a.id = 'a1'")
    print(f"copies after the rename: {len(names)} times {', '.join(sorted(set(names)))}")
    query = (
        "SELECT a.id, ARRAY(SELECT VALUE k.name FROM k IN a.written WHERE k.id = 'b5') AS names "
        "FROM a WHERE a.id = 'a2'"
    )
    print("through the relation:", all_rows(library, query)[0]["names"][0])

    # A deleted author leaves the arrays of the books.
    library.delete_item("a2", "a2")
    print("authors of b5 after a2 is gone:", ", ".join(a["name"] for a in library.read_item("b5", "b5")["authors"]))


if __name__ == "__main__":
    main()
