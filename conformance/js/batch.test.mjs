// Transactional batches and bulk: all or nothing, and each for itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { raw, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();

const create = (id, pk) => ({ operationType: "Create", resourceBody: { id, pk } });
const statuses = (result) => result.map(({ statusCode }) => statusCode);

test("a batch applies all its operations in order", async () => {
  const { code, result, headers } = await container.items.batch(
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
  assert.deepEqual(statuses(result), [201, 201, 200, 200, 200, 204]);
  assert.equal(result[2].resourceBody.id, "1");
  assert.equal(result[4].resourceBody.n, 42);
  const { resource, etag } = await container.item("2", "all").read();
  assert.equal(resource.n, 42);
  assert.equal(result[4].eTag, etag);
  assert.equal((await container.item("1", "all").read()).statusCode, 404);
  const charges = result.reduce((sum, { requestCharge }) => sum + requestCharge, 0);
  assert.ok(Math.abs(charges - Number(headers["x-ms-request-charge"])) < 0.01);
  assert.match(headers["x-ms-session-token"], /^\d+:\d+#\d+$/);
});

test("a batch with one failure applies nothing", async () => {
  await container.items.create({ id: "2", pk: "none" });
  const operations = [create("1", "none"), create("2", "none"), create("3", "none")];
  const { code, result } = await container.items.batch(operations, "none");
  assert.equal(code, 207);
  assert.deepEqual(statuses(result), [424, 409, 424]);
  assert.equal((await container.item("1", "none").read()).statusCode, 404);
  assert.equal((await container.item("3", "none").read()).statusCode, 404);
});

test("operations of a batch have conditions of their own", async () => {
  const { resource } = await container.items.create({ id: "1", pk: "etag", n: 1 });
  const replace = (ifMatch, n) => ({
    operationType: "Replace",
    id: "1",
    ifMatch,
    resourceBody: { id: "1", pk: "etag", n },
  });
  const stale = await container.items.batch([create("2", "etag"), replace('"stale"', 2)], "etag");
  assert.deepEqual(statuses(stale.result), [424, 412]);
  const fresh = await container.items.batch([create("2", "etag"), replace(resource._etag, 2)], "etag");
  assert.deepEqual(statuses(fresh.result), [201, 200]);
  const known = [{ operationType: "Read", id: "1", ifNoneMatch: fresh.result[1].eTag }];
  assert.deepEqual(statuses((await container.items.batch(known, "etag")).result), [304]);
  const inserted = [{ operationType: "Upsert", ifNoneMatch: "*", resourceBody: { id: "1", pk: "etag" } }];
  assert.deepEqual(statuses((await container.items.batch(inserted, "etag")).result), [412]);
});

test("a batch in a hierarchical partition", async () => {
  const nested = await place.container({
    partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 },
  });
  const item = { id: "1", a: "x", b: 7 };
  const operations = [{ operationType: "Create", resourceBody: item }, { operationType: "Read", id: "1" }];
  const { result } = await nested.items.batch(operations, ["x", 7]);
  assert.deepEqual(statuses(result), [201, 200]);
  await assert.rejects(nested.items.batch([{ operationType: "Read", id: "1" }], ["x"]));
});

test("a batch that is too large, too long or empty is refused", async () => {
  const path = `/dbs/${place.database.id}/colls/${container.id}/docs`;
  const headers = {
    "x-ms-cosmos-is-batch-request": "True",
    "x-ms-cosmos-batch-atomic": "True",
    "x-ms-documentdb-partitionkey": '["p"]',
  };
  const send = (body) => raw("POST", path, { headers, body });
  assert.equal((await send([])).status, 400);
  assert.equal((await send(Array.from({ length: 101 }, (_, n) => create(`${n}`, "p")))).status, 400);
  const filler = "x".repeat(1024 * 1024);
  const large = [1, 2, 3].map((n) => ({
    operationType: "Create",
    resourceBody: { id: `${n}`, pk: "p", filler },
  }));
  assert.equal((await send(large)).status, 413);
  assert.equal((await container.item("1", "p").read()).statusCode, 404);
});

test("results hold no item where none is wanted", async () => {
  const path = `/dbs/${place.database.id}/colls/${container.id}/docs`;
  const headers = {
    "x-ms-cosmos-is-batch-request": "True",
    "x-ms-cosmos-batch-atomic": "True",
    "x-ms-documentdb-partitionkey": '["minimal"]',
    prefer: "return=minimal",
  };
  const body = [create("1", "minimal"), { operationType: "Read", id: "1" }];
  const { body: results } = await raw("POST", path, { headers, body });
  assert.deepEqual(statuses(results), [201, 200]);
  assert.equal(results[0].resourceBody, undefined);
  assert.equal(results[0].eTag, results[1].eTag);
  assert.equal(results[1].resourceBody.id, "1");
});

test("bulk operations succeed and fail each for itself", async () => {
  await container.items.create({ id: "1", pk: "bulk-a" });
  const results = await container.items.executeBulkOperations([
    { ...create("1", "bulk-a"), partitionKey: "bulk-a" },
    { ...create("2", "bulk-a"), partitionKey: "bulk-a" },
    { ...create("1", "bulk-b"), partitionKey: "bulk-b" },
  ]);
  const found = results.map(({ response, error }) => response?.statusCode ?? error?.code);
  assert.deepEqual(found, [409, 201, 201]);
});

test("bulk of every kind over several physical partitions", async () => {
  const wide = (await place.database.containers.create(
    { id: "wide", partitionKey: { paths: ["/pk"] } },
    { offerThroughput: 18000 },
  )).container;
  const ids = Array.from({ length: 250 }, (_, n) => `${n}`);
  const bulk = (operation) =>
    wide.items.executeBulkOperations(ids.map((id) => ({ ...operation(id), partitionKey: `p${id}` })));
  const codes = (results) => new Set(results.map(({ response, error }) => response?.statusCode ?? error?.code));
  const made = await bulk((id) => create(id, `p${id}`));
  assert.deepEqual(codes(made), new Set([201]));
  assert.ok(made.every(({ response }) => response.eTag && response.requestCharge > 0));
  const operations = [{ op: "set", path: "/n", value: 1 }];
  const patched = await bulk((id) => ({ operationType: "Patch", id, resourceBody: { operations } }));
  assert.deepEqual(codes(patched), new Set([200]));
  const read = await bulk((id) => ({ operationType: "Read", id }));
  assert.deepEqual(codes(read), new Set([200]));
  assert.ok(read.every(({ response }, n) => response.resourceBody.id === ids[n] && response.resourceBody.n === 1));
  const { resources } = await wide.items.query("SELECT VALUE COUNT(1) FROM c WHERE c.n = 1").fetchAll();
  assert.deepEqual(resources, [250]);
  assert.deepEqual(codes(await bulk((id) => ({ operationType: "Delete", id }))), new Set([204]));
  assert.deepEqual(codes(await bulk((id) => ({ operationType: "Read", id }))), new Set([404]));
});

test("the older form of bulk", async () => {
  const operations = [
    { operationType: "Create", resourceBody: { id: "1", pk: "old" } },
    { operationType: "Upsert", resourceBody: { id: "2", pk: "older" } },
    { operationType: "Read", id: "1", partitionKey: "old" },
    { operationType: "Delete", id: "none", partitionKey: "old" },
  ];
  const results = await container.items.bulk(operations);
  assert.deepEqual(statuses(results), [201, 201, 200, 404]);
  const stopped = await container.items.bulk(
    [
      { operationType: "Delete", id: "none", partitionKey: "old" },
      { operationType: "Delete", id: "1", partitionKey: "old" },
    ],
    { continueOnError: false },
  );
  assert.deepEqual(statuses(stopped), [404, 424]);
});
