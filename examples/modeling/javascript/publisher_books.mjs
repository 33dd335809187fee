// The link on the side that does not grow: a book names its publisher, and the publisher's books are a virtual array.
//
//     cd examples/modeling/javascript && npm install
//     node publisher_books.mjs

import { allRows, client, freshDatabase, read, refused, storeModel } from "./server.mjs";

const books = 1000;
const model = {
  version: 1,
  types: {
    publisher: { container: "library", where: "c.type = 'publisher'" },
    book: { container: "library", where: "c.type = 'book'" },
  },
  relations: [
    {
      name: "publisher",
      from: "book",
      path: "/pub-id",
      to: "publisher",
      onMissing: "reject",
      onDelete: "unset",
      inverse: { name: "books" },
    },
  ],
};

const [library] = await freshDatabase("publisher-books", [["library", "/id"]]);
await storeModel("publisher-books", model);
await library.items.create({ id: "mspress", type: "publisher", name: "Microsoft Press" });
for (let n = 0; n < books; n += 1) {
  const id = `b${String(n).padStart(4, "0")}`;
  await library.items.create({ id, type: "book", name: `Book ${n}`, "pub-id": "mspress" });
}
const stored = Object.keys(await read(library, "mspress")).filter((name) => !name.startsWith("_"));
console.log("the publisher holds no list:", stored.toSorted().join() === "id,name,type");
const [count] = await allRows(library, "SELECT VALUE COUNT(1) FROM b WHERE b.publisher.name = 'Microsoft Press'");
console.log("books of the publisher:", count);
const [length] = await allRows(library, "SELECT VALUE ARRAY_LENGTH(p.books) FROM p WHERE p.id = 'mspress'");
console.log("the same through the inverse:", length);
const [first] = await allRows(
  library,
  "SELECT b.name, b.publisher.name AS publisher FROM b WHERE b.id = 'b0000'",
);
console.log(`${first.name} is published by ${first.publisher}`);
const { status } = await refused(() => library.items.create({ id: "x", type: "book", "pub-id": "nobody" }));
console.log(`a book of nobody: ${status}`);

await library.item("mspress", "mspress").delete();
const gone = "SELECT VALUE COUNT(1) FROM b WHERE b.type = 'book' AND NOT IS_DEFINED(b.publisher)";
console.log("books without publisher after its delete:", (await allRows(library, gone))[0]);
// The references go too, in the same commit or soon after it.
const left = "SELECT VALUE COUNT(1) FROM b WHERE IS_DEFINED(b['pub-id'])";
while ((await allRows(library, left))[0] > 0) await new Promise((done) => setTimeout(done, 100));
console.log("a reference is left:", "pub-id" in (await read(library, "b0000")));
client.dispose();
