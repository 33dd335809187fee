"""Books and their authors, kept true by the database.

A book names its authors, and every author has a count of books. Whoever adds a book must change all
of them, or none: a stored procedure does it in one transaction. A trigger refuses a book whose author
does not exist. The program makes the procedure fail at every one of its steps, and shows that nothing
was half-done.

    pip install azure-cosmos
    python examples/python/books_and_authors.py
"""

import os
import uuid

from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

ENDPOINT = os.environ.get("ORRERY_ENDPOINT", "http://localhost:8081/")
# The key that every emulator is known by; a server that listens on this machine only takes it.
KEY = os.environ.get(
    "ORRERY_KEY",
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
)

# Books and authors of one publisher share a partition key: that is what a transaction spans.
PUBLISHER = "mspress"

ADD_BOOK = """
function addBook(book, failAt) {
    const container = getContext().getCollection();
    const items = container.getAltLink() + "/docs/";
    let step = 0;

    function done(what) {
        step += 1;
        if (step === failAt) throw new Error(`failed on purpose after ${what}`);
    }

    function mustBeQueued(accepted) {
        if (!accepted) throw new Error("no time left");
    }

    mustBeQueued(container.createDocument(container.getSelfLink(), book, (error) => {
        if (error) throw error;
        done("the book");
        count(0);
    }));

    function count(i) {
        if (i === book.authors.length) {
            getContext().getResponse().setBody({ steps: step });
            return;
        }
        mustBeQueued(container.readDocument(items + book.authors[i], (error, author) => {
            if (error) throw error;
            author.countOfBooks += 1;
            mustBeQueued(container.replaceDocument(author._self, author, { etag: author._etag }, (error) => {
                if (error) throw error;
                done(author.id);
                count(i + 1);
            }));
        }));
    }
}
"""

REFUSE_DANGLING = """
function refuseDangling() {
    const container = getContext().getCollection();
    const book = getContext().getRequest().getBody();
    for (const author of book.authors || []) {
        container.readDocument(container.getAltLink() + "/docs/" + author, (error) => {
            if (error) throw new Error(error.number, `There is no author '${author}'.`);
        });
    }
}
"""


def state(container):
    """Who has how many books, and which books there are."""
    rows = container.query_items(
        "SELECT c.id, c.countOfBooks FROM c ORDER BY c.id", partition_key=PUBLISHER
    )
    return [(row["id"], row.get("countOfBooks")) for row in rows]


def main():
    client = CosmosClient(ENDPOINT, KEY, connection_verify=False)
    database = client.create_database(f"library-{uuid.uuid4().hex[:8]}")
    try:
        container = database.create_container("books", PartitionKey("/publisher"))
        scripts = container.scripts
        scripts.create_stored_procedure({"id": "addBook", "body": ADD_BOOK})
        scripts.create_trigger(
            {
                "id": "refuseDangling",
                "body": REFUSE_DANGLING,
                "triggerType": "Pre",
                "triggerOperation": "Create",
            }
        )
        for author in ("thomas", "sonja"):
            container.create_item({"id": author, "publisher": PUBLISHER, "countOfBooks": 0})
        before = state(container)

        book = {"id": "b1", "publisher": PUBLISHER, "authors": ["thomas", "sonja"]}
        for step in (1, 2, 3):
            try:
                scripts.execute_stored_procedure("addBook", PUBLISHER, [book, step])
                raise SystemExit(f"step {step} should have failed")
            except CosmosHttpResponseError as error:
                assert error.status_code == 400, error
                reason = error.message.split("Exception = ")[1].split("\\r\\n")[0]
            assert state(container) == before, "something was half-done"
            print(f"{reason}: nothing changed")

        answer = scripts.execute_stored_procedure("addBook", PUBLISHER, [book])
        print(f"all {answer['steps']} steps: {state(container)}")
        assert state(container) == [("b1", None), ("sonja", 1), ("thomas", 1)]

        dangling = {"id": "b2", "publisher": PUBLISHER, "authors": ["nobody"]}
        try:
            container.create_item(dangling, pre_trigger_include="refuseDangling")
            raise SystemExit("the trigger should have refused the book")
        except CosmosHttpResponseError as error:
            assert (error.status_code, error.sub_status) == (400, 404), error
            print("a book without author is refused")
        container.create_item({**dangling, "authors": ["sonja"]}, pre_trigger_include="refuseDangling")
        print("a book with author is not")
    finally:
        client.delete_database(database)


if __name__ == "__main__":
    main()
