"""The link on the side that does not grow: a book names its publisher, and the publisher's books are a virtual array.

    pip install azure-cosmos
    python examples/modeling/python/publisher_books.py
"""

import time

from server import all_rows, fresh_database, refused, store_model, yes

BOOKS = 1000
MODEL = {
    "version": 1,
    "types": {
        "publisher": {"container": "library", "where": "c.type = 'publisher'"},
        "book": {"container": "library", "where": "c.type = 'book'"},
    },
    "relations": [
        {
            "name": "publisher",
            "from": "book",
            "path": "/pub-id",
            "to": "publisher",
            "onMissing": "reject",
            "onDelete": "unset",
            "inverse": {"name": "books"},
        }
    ],
}


def main():
    [library] = fresh_database("publisher-books", [("library", "/id")])
    store_model("publisher-books", MODEL)
    publisher = {"id": "mspress", "type": "publisher", "name": "Microsoft Press"}
    library.create_item(publisher)
    for n in range(BOOKS):
        library.create_item({"id": f"b{n:04}", "type": "book", "name": f"Book {n}", "pub-id": "mspress"})
    stored = library.read_item("mspress", "mspress")
    print("the publisher holds no list:", yes(sorted(k for k in stored if k[0] != "_") == ["id", "name", "type"]))
    rows = all_rows(library, "SELECT VALUE COUNT(1) FROM b WHERE b.publisher.name = 'Microsoft Press'")
    print("books of the publisher:", rows[0])
    query = "SELECT VALUE ARRAY_LENGTH(p.books) FROM p WHERE p.id = 'mspress'"
    print("the same through the inverse:", all_rows(library, query)[0])
    first = all_rows(library, "SELECT b.name, b.publisher.name AS publisher FROM b WHERE b.id = 'b0000'")[0]
    print(f"{first['name']} is published by {first['publisher']}")
    status, _ = refused(lambda: library.create_item({"id": "x", "type": "book", "pub-id": "nobody"}))
    print(f"a book of nobody: {status}")

    library.delete_item("mspress", "mspress")
    gone = "SELECT VALUE COUNT(1) FROM b WHERE b.type = 'book' AND NOT IS_DEFINED(b.publisher)"
    print("books without publisher after its delete:", all_rows(library, gone)[0])
    # The references go too, in the same commit or soon after it.
    left = "SELECT VALUE COUNT(1) FROM b WHERE IS_DEFINED(b['pub-id'])"
    while all_rows(library, left)[0] > 0:
        time.sleep(0.1)
    print("a reference is left:", yes("pub-id" in library.read_item("b0000", "b0000")))


if __name__ == "__main__":
    main()
