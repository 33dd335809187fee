// The hybrid: books hold copies of what is shown of their authors, authors hold the ids and the number of their books,
// and one commit over all of them keeps it true.
//
//     cd examples/modeling/javascript && npm install
//     node authors_books.mjs

import { allRows, client, freshDatabase, read, refused, storeModel } from "./server.mjs";

const model = {
  version: 1,
  types: {
    author: { container: "library", where: "c.type = 'author'" },
    book: { container: "library", where: "c.type = 'book'" },
  },
  relations: [
    {
      name: "author",
      from: "book",
      path: "/authors/*/id",
      to: "author",
      onMissing: "reject",
      onDelete: "pull",
      copies: { name: "CONCAT(t.firstName, ' ', t.lastName)", thumbnailUrl: "t.images[0].thumbnail" },
      propagate: "sync",
      maxFanout: 100,
      inverse: { name: "written", store: "/books", maxItems: 500 },
    },
  ],
  aggregates: [{ on: "author", path: "/countOfBooks", of: "written", value: "COUNT(1)", propagate: "sync" }],
};
const author = (id, firstName, lastName) => {
  const images = [{ thumbnail: `https://images.example/${id}.png` }];
  return { id, type: "author", firstName, lastName, images };
};
const book = (n, ...authors) => ({ id: `b${n}`, type: "book", name: `Book ${n}`, authors: authors.map((id) => ({ id })) });
const names = (of) => of.authors.map(({ name }) => name).join(", ");

const [library] = await freshDatabase("authors-books", [["library", "/id"]]);
await storeModel("authors-books", model);
await library.items.create(author("a1", "Thomas", "Andersen"));
await library.items.create(author("a2", "William", "Wakefield"));
for (let n = 1; n < 5; n += 1) await library.items.create(book(n, "a1"));

// One commit over three partitions.
const { resource: fifth } = await library.items.create(book(5, "a1", "a2"));
console.log("authors of b5:", names(fifth));
console.log("thumbnail:", fifth.authors[0].thumbnailUrl);
for (const id of ["a1", "a2"]) {
  const stored = await read(library, id);
  console.log(`${id} has ${stored.countOfBooks} books:`, stored.books.join(", "));
}

// Any failure: nothing.
const { status } = await refused(() => library.items.create(book(6, "a1", "nobody")));
const left = (await read(library, "a1")).countOfBooks;
console.log(`an author who is not there: ${status}, a1 still has ${left} books`);

// A rename reaches every copy in the same commit.
await library.item("a1", "a1").replace({ ...(await read(library, "a1")), firstName: "Tom" });
const copies = await allRows(library, "SELECT VALUE a.name FROM b JOIN a IN b.authors WHERE a.id = 'a1'");
console.log(`copies after the rename: ${copies.length} times ${[...new Set(copies)].join(", ")}`);
const [second] = await allRows(
  library,
  "SELECT a.id, ARRAY(SELECT VALUE k.name FROM k IN a.written WHERE k.id = 'b5') AS names FROM a WHERE a.id = 'a2'",
);
console.log("through the relation:", second.names[0]);

// A deleted author leaves the arrays of the books.
await library.item("a2", "a2").delete();
console.log("authors of b5 after a2 is gone:", names(await read(library, "b5")));
client.dispose();
