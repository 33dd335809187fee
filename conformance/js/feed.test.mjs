// Feeds: pages, continuation tokens, partition key ranges, and the change feed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ChangeFeedStartFrom } from "@azure/cosmos";
import { raw, scratch } from "./server.mjs";

const place = await scratch();
const COUNT = 25;
const container = await place.container();
const path = `/dbs/${place.database.id}/colls/${container.id}`;
for (let n = 0; n < COUNT; n++) await container.items.create({ id: `${n}`, pk: `p${n % 5}`, n });

const everything = Array.from({ length: COUNT }, (_, n) => `${n}`).sort();

/** Reads a feed page by page without the SDK; gives the pages. */
async function pages(headers, size) {
  const found = [];
  let continuation;
  do {
    const paging = { "x-ms-max-item-count": String(size) };
    if (continuation) paging["x-ms-continuation"] = continuation;
    const reply = await raw("GET", `${path}/docs`, { headers: { ...headers, ...paging } });
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.body._count, reply.body.Documents.length);
    assert.ok(reply.body.Documents.length <= size);
    found.push(reply.body.Documents.map(({ id }) => id));
    continuation = reply.headers["x-ms-continuation"];
    assert.ok(found.length <= COUNT + 1, "the feed does not end");
  } while (continuation);
  return found;
}

test("a read feed gives every item once, in pages", async () => {
  for (const size of [1, 7, 25, 100]) {
    const found = (await pages({}, size)).flat();
    assert.deepEqual(found.toSorted(), everything, `page size ${size}`);
  }
});

test("a read feed of one logical partition gives its items", async () => {
  const found = (await pages({ "x-ms-documentdb-partitionkey": '["p3"]' }, 2)).flat();
  assert.deepEqual(found.toSorted(), ["13", "18", "23", "3", "8"]);
});

test("the SDK pages with a continuation token, also from a new iterator", async () => {
  const options = { maxItemCount: 10 };
  const first = await container.items.readAll(options).fetchNext();
  assert.ok(first.resources.length <= 10);
  let found = first.resources;
  let token = first.continuationToken;
  while (token) {
    const page = await container.items.readAll({ ...options, continuationToken: token }).fetchNext();
    found = found.concat(page.resources);
    token = page.continuationToken;
  }
  assert.deepEqual(found.map(({ id }) => id).toSorted(), everything);
});

test("a continuation token that nobody gave is refused", async () => {
  const headers = { "x-ms-continuation": "made up", "x-ms-max-item-count": "1" };
  const reply = await raw("GET", `${path}/docs`, { headers });
  assert.equal(reply.status, 400);
  assert.equal(reply.body.code, "BadRequest");
});

test("lists of databases and containers are paged too", async () => {
  for (let n = 0; n < 3; n++) await place.container();
  const { resources: all } = await place.database.containers.readAll().fetchAll();
  const iterator = place.database.containers.readAll({ maxItemCount: 2 });
  const found = [];
  while (iterator.hasMoreResults()) {
    const { resources = [] } = await iterator.fetchNext();
    assert.ok(resources.length <= 2);
    found.push(...resources.map(({ id }) => id));
  }
  assert.deepEqual(found.toSorted(), all.map(({ id }) => id).toSorted());
});

test("partition key ranges cover all keys without gap or overlap", async () => {
  const big = await place.container({ throughput: 12000 });
  for (const one of [container, big]) {
    const { resources } = await one.readPartitionKeyRanges().fetchAll();
    const ranges = resources.toSorted((a, b) => (a.minInclusive < b.minInclusive ? -1 : 1));
    assert.equal(ranges[0].minInclusive, "");
    assert.equal(ranges.at(-1).maxExclusive, "FF");
    ranges.slice(1).forEach((range, index) => {
      assert.equal(range.minInclusive, ranges[index].maxExclusive);
    });
    ranges.forEach((range) => assert.equal(typeof range.id, "string"));
  }
});

test("an incremental read of ranges ends with 304", async () => {
  const headers = { "a-im": "Incremental Feed", "x-ms-max-item-count": "-1" };
  const first = await raw("GET", `${path}/pkranges`, { headers });
  assert.equal(first.status, 200);
  const again = { ...headers, "if-none-match": first.headers.etag };
  const second = await raw("GET", `${path}/pkranges`, { headers: again });
  assert.equal(second.status, 304);
  assert.equal(second.text, "");
  assert.equal(second.headers.etag, first.headers.etag);
});

test("the items of all feed ranges together are the container", async () => {
  const { resources: ranges } = await container.readPartitionKeyRanges().fetchAll();
  const found = [];
  for (const { id } of ranges) {
    found.push(...(await pages({ "x-ms-documentdb-partitionkeyrangeid": id }, 10)).flat());
  }
  assert.deepEqual(found.toSorted(), everything);
});

test("a range that does not exist is gone", async () => {
  const headers = { "x-ms-documentdb-partitionkeyrangeid": "987654" };
  const reply = await raw("GET", `${path}/docs`, { headers });
  assert.equal(reply.status, 410);
  assert.equal(reply.headers["x-ms-substatus"], "1002");
});
