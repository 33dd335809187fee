// User-defined functions: as resources, and in queries.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();
const { userDefinedFunctions: functions } = container.scripts;
for (const [id, income] of [["1", 100], ["2", 300], ["3", undefined]]) {
  await container.items.create({ id, pk: "a", income });
}

const query = async (text) => (await container.items.query(text).fetchAll()).resources;

test("functions are created, read, replaced, listed and deleted", async () => {
  const { resource, userDefinedFunction } = await functions.create({ id: "crud", body: "function () {}" });
  assert.match(resource._self, /\/udfs\//);
  const { resource: replaced } = await userDefinedFunction.replace({ id: "crud", body: "function () { return 1 }" });
  assert.equal(replaced.body, "function () { return 1 }");
  assert.ok((await functions.readAll().fetchAll()).resources.some(({ id }) => id === "crud"));
  await userDefinedFunction.delete();
  await fails(userDefinedFunction.read(), 404);
});

test("a function computes, filters and may be undefined", async () => {
  await functions.create({
    id: "tax",
    body: function tax(income) {
      return income === undefined ? undefined : income * 0.2;
    },
  });
  assert.deepEqual(await query("SELECT c.id, udf.tax(c.income) AS tax FROM c ORDER BY c.id"), [
    { id: "1", tax: 20 },
    { id: "2", tax: 60 },
    { id: "3" },
  ]);
  assert.deepEqual(await query("SELECT VALUE c.id FROM c WHERE udf.tax(c.income) > 30"), ["2"]);
  assert.deepEqual(await query("SELECT VALUE SUM(udf.tax(c.income)) FROM c WHERE IS_DEFINED(c.income)"), [80]);
});

test("a new version of a function is used at once", async () => {
  const { userDefinedFunction } = await functions.create({ id: "v", body: "function () { return 1 }" });
  assert.deepEqual(await query("SELECT VALUE udf.v() FROM c WHERE c.id = '1'"), [1]);
  await userDefinedFunction.replace({ id: "v", body: "function () { return 2 }" });
  assert.deepEqual(await query("SELECT VALUE udf.v() FROM c WHERE c.id = '1'"), [2]);
});

test("functions that are missing, throw or never end fail the query", async () => {
  await functions.create({ id: "throws", body: "function () { throw new Error('no tax today') }" });
  await functions.create({ id: "spins", body: "function () { for (;;) ; }" });
  await fails(query("SELECT udf.none(1) FROM c"), 400);
  const error = await fails(query("SELECT udf.throws() FROM c"), 400);
  assert.match(error.body.message, /no tax today/);
  await fails(query("SELECT udf.spins() FROM c"), 408);
  assert.deepEqual(await query("SELECT VALUE COUNT(1) FROM c"), [3]);
});
