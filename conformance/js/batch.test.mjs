// Transactional batches and bulk: all or nothing, and each for itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();

const create = (id, pk) => ({ operationType: "Create", resourceBody: { id, pk } });

test("a batch applies all its operations in order", async () => {
  const { code, result } = await container.items.batch(
    [
      create("1", "all"),
      { operationType: "Upsert", resourceBody: { id: "2", pk: "all", n: 1 } },
      { operationType: "Read", id: "1" },
      { operationType: "Replace", id: "2", resourceBody: { id: "2", pk: "all", n: 2 } },
      {
        operationType: "Patch",
        id: "2",
        resourceBody: { operations: [{ op: "incr", path: "/n", value: 40 }] },
      },
      { operationType: "Delete", id: "1" },
    ],
    "all",
  );
  assert.equal(code, 200);
  assert.deepEqual(result.map(({ statusCode }) => statusCode), [201, 201, 200, 200, 200, 204]);
  assert.equal((await container.item("2", "all").read()).resource.n, 42);
  assert.equal((await container.item("1", "all").read()).statusCode, 404);
});

test("a batch with one failure applies nothing", async () => {
  await container.items.create({ id: "2", pk: "none" });
  const operations = [create("1", "none"), create("2", "none"), create("3", "none")];
  const { code, result } = await container.items.batch(operations, "none");
  assert.equal(code, 207);
  assert.deepEqual(result.map(({ statusCode }) => statusCode), [424, 409, 424]);
  assert.equal((await container.item("1", "none").read()).statusCode, 404);
  assert.equal((await container.item("3", "none").read()).statusCode, 404);
});

test("bulk operations succeed and fail each for itself", async () => {
  await container.items.create({ id: "1", pk: "bulk-a" });
  const results = await container.items.executeBulkOperations([
    { ...create("1", "bulk-a"), partitionKey: "bulk-a" },
    { ...create("2", "bulk-a"), partitionKey: "bulk-a" },
    { ...create("1", "bulk-b"), partitionKey: "bulk-b" },
  ]);
  const statuses = results.map(({ response, error }) => response?.statusCode ?? error?.code);
  assert.deepEqual(statuses, [409, 201, 201]);
});
