// Patch: the six operations, conditions, and what must not be patched.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch, unique } from "./server.mjs";

const place = await scratch();
const container = await place.container();

const start = () => ({ n: 1, text: "t", list: [1, 2, 3], object: { a: 1 } });

/** Patches a fresh item and compares its own properties with the expected ones. */
async function check(operations, expected) {
  const id = unique("patch");
  await container.items.create({ id, pk: "p", ...start() });
  const { resource, statusCode } = await container.item(id, "p").patch(operations);
  assert.equal(statusCode, 200);
  const { resource: stored } = await container.item(id, "p").read();
  assert.deepEqual(stored, resource, "the answer is the stored item");
  const own = Object.entries(stored).filter(([name]) => !name.startsWith("_"));
  assert.deepEqual(Object.fromEntries(own), { id, pk: "p", ...expected });
}

/** The patch must be refused and leave the item as it was. */
async function refused(operations, status = 400) {
  const id = unique("patch");
  const { resource: before } = await container.items.create({ id, pk: "p", ...start() });
  await fails(container.item(id, "p").patch(operations), status);
  assert.deepEqual((await container.item(id, "p").read()).resource, before);
}

test("add adds a property, replaces one, and inserts into an array", async () => {
  await check([{ op: "add", path: "/new", value: { x: [] } }], { ...start(), new: { x: [] } });
  await check([{ op: "add", path: "/n", value: null }], { ...start(), n: null });
  await check([{ op: "add", path: "/list/1", value: 9 }], { ...start(), list: [1, 9, 2, 3] });
  await check([{ op: "add", path: "/list/-", value: 9 }], { ...start(), list: [1, 2, 3, 9] });
  await check([{ op: "add", path: "/list/3", value: 9 }], { ...start(), list: [1, 2, 3, 9] });
});

test("set replaces an array element instead of inserting", async () => {
  await check([{ op: "set", path: "/list/1", value: 9 }], { ...start(), list: [1, 9, 3] });
  await check([{ op: "set", path: "/new", value: 1 }], { ...start(), new: 1 });
  await check([{ op: "set", path: "/object/b", value: 2 }], { ...start(), object: { a: 1, b: 2 } });
});

test("replace needs its target", async () => {
  await check([{ op: "replace", path: "/text", value: "u" }], { ...start(), text: "u" });
  await refused([{ op: "replace", path: "/missing", value: 1 }]);
});

test("remove needs its target", async () => {
  const { text, ...rest } = start();
  await check([{ op: "remove", path: "/text" }], rest);
  await check([{ op: "remove", path: "/list/0" }], { ...start(), list: [2, 3] });
  await refused([{ op: "remove", path: "/missing" }]);
  await refused([{ op: "remove", path: "/list/3" }]);
});

test("incr adds to a number and creates one", async () => {
  await check([{ op: "incr", path: "/n", value: 41 }], { ...start(), n: 42 });
  await check([{ op: "incr", path: "/n", value: -1.5 }], { ...start(), n: -0.5 });
  await check([{ op: "incr", path: "/new", value: 5 }], { ...start(), new: 5 });
  await refused([{ op: "incr", path: "/text", value: 1 }]);
  await refused([{ op: "incr", path: "/n", value: "1" }]);
});

test("move takes a value from one place to another", async () => {
  const { text, ...rest } = start();
  await check([{ op: "move", from: "/text", path: "/object/b" }], {
    ...rest,
    object: { a: 1, b: "t" },
  });
  await refused([{ op: "move", from: "/missing", path: "/x" }]);
  await refused([{ op: "move", from: "/object", path: "/object/inner" }]);
});

test("operations apply in order, all or none", async () => {
  await check(
    [
      { op: "add", path: "/a", value: 1 },
      { op: "incr", path: "/a", value: 1 },
      { op: "move", from: "/a", path: "/b" },
    ],
    { ...start(), b: 2 },
  );
  await refused([
    { op: "set", path: "/n", value: 100 },
    { op: "remove", path: "/missing" },
  ]);
});

test("a condition decides whether the patch applies", async () => {
  const operations = [{ op: "set", path: "/n", value: 2 }];
  await check({ condition: "from c where c.n = 1", operations }, { ...start(), n: 2 });
  await refused({ condition: "from c where c.n = 7", operations }, 412);
});

test("id, partition key and system properties are not patched", async () => {
  for (const path of ["/id", "/pk", "/_ts", "/_etag", "/_rid", "/_self"]) {
    await refused([{ op: "set", path, value: "x" }]);
  }
});

test("a patch has one to ten operations with paths", async () => {
  const many = (count) =>
    Array.from({ length: count }, (_, i) => ({ op: "set", path: `/p${i}`, value: i }));
  const added = Object.fromEntries(many(10).map(({ path, value }) => [path.slice(1), value]));
  await check(many(10), { ...start(), ...added });
  await refused(many(11));
  await refused([]);
  await refused([{ op: "set", path: "no slash", value: 1 }]);
  await refused([{ op: "explode", path: "/n", value: 1 }]);
  await refused([{ op: "set", path: "/missing/deeper", value: 1 }]);
});

test("what is not there cannot be patched", async () => {
  const patch = container.item("missing", "p").patch([{ op: "set", path: "/n", value: 1 }]);
  await fails(patch, 404);
});
