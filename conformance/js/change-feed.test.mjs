// The change feed through the SDK's iterators, and its wire form.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ChangeFeedMode,
  ChangeFeedPolicy,
  ChangeFeedRetentionTimeSpan,
  ChangeFeedStartFrom,
} from "@azure/cosmos";
import { raw, scratch } from "./server.mjs";

const place = await scratch();

/** Reads with an iterator until there is nothing new; gives what it found and where it is. */
async function read(container, start, options = {}) {
  const iterator = container.items.getChangeFeedIterator({ changeFeedStartFrom: start, ...options });
  const found = [];
  for (;;) {
    const page = await iterator.readNext();
    if (page.statusCode === 304) return { found, token: page.continuationToken };
    assert.equal(page.statusCode, 200);
    if (options.maxItemCount) assert.ok(page.count <= options.maxItemCount);
    found.push(...page.result);
  }
}

const shown = ({ found }) => found.map(({ id, n }) => `${id}:${n}`);

const changesOf = (container, headers) =>
  raw("GET", `/dbs/${place.database.id}/colls/${container.id}/docs`, {
    headers: { "a-im": "Incremental Feed", ...headers },
  });

test("the change feed gives the newest state of each item, then only what is new", async () => {
  const changes = await place.container();
  for (const id of ["1", "2"]) await changes.items.create({ id, pk: "a", n: 1 });
  await changes.item("1", "a").replace({ id: "1", pk: "a", n: 2 });
  const all = await read(changes, ChangeFeedStartFrom.Beginning());
  assert.deepEqual(shown(all), ["2:1", "1:2"]);
  await changes.items.create({ id: "3", pk: "b", n: 1 });
  const next = await read(changes, ChangeFeedStartFrom.Continuation(all.token));
  assert.deepEqual(shown(next), ["3:1"]);
});

test("a deleted item leaves the feed", async () => {
  const changes = await place.container();
  for (const id of ["1", "2"]) await changes.items.create({ id, pk: "a", n: 1 });
  await changes.item("1", "a").delete();
  assert.deepEqual(shown(await read(changes, ChangeFeedStartFrom.Beginning())), ["2:1"]);
});

test("from now gives what comes after", async () => {
  const changes = await place.container();
  await changes.items.create({ id: "old", pk: "a", n: 1 });
  const now = await read(changes, ChangeFeedStartFrom.Now());
  assert.deepEqual(shown(now), []);
  await changes.items.create({ id: "new", pk: "a", n: 1 });
  assert.deepEqual(shown(await read(changes, ChangeFeedStartFrom.Continuation(now.token))), [
    "new:1",
  ]);
});

test("from a time gives what was written after it", async () => {
  const changes = await place.container();
  await changes.items.create({ id: "a", pk: "a", n: 1 });
  const hour = 3600_000;
  const from = (ms) => read(changes, ChangeFeedStartFrom.Time(new Date(Date.now() + ms)));
  assert.deepEqual(shown(await from(-hour)), ["a:1"]);
  assert.deepEqual(shown(await from(hour)), []);
});

test("pages of every size give every change once, in order, over several partitions", async () => {
  const changes = await place.container({ throughput: 18000 });
  const COUNT = 60;
  for (let n = 0; n < COUNT; n++) await changes.items.create({ id: `${n}`, pk: `p${n % 7}`, n });
  const { resources: ranges } = await changes.readPartitionKeyRanges().fetchAll();
  assert.equal(ranges.length, 3);
  for (const maxItemCount of [1, 7, 100]) {
    const { found } = await read(changes, ChangeFeedStartFrom.Beginning(), { maxItemCount });
    assert.equal(found.length, COUNT);
    for (let key = 0; key < 7; key++) {
      const numbers = found.filter(({ pk }) => pk === `p${key}`).map(({ n }) => n);
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => a - b),
      );
    }
  }
});

test("a partition key and a feed range have feeds of their own", async () => {
  const changes = await place.container({ throughput: 12000 });
  for (let n = 0; n < 20; n++) await changes.items.create({ id: `${n}`, pk: `p${n % 4}`, n });
  const one = await read(changes, ChangeFeedStartFrom.Beginning("p1"));
  assert.deepEqual(shown(one), ["1:1", "5:5", "9:9", "13:13", "17:17"]);
  await changes.items.create({ id: "x", pk: "p2", n: 0 });
  await changes.items.create({ id: "y", pk: "p1", n: 0 });
  assert.deepEqual(shown(await read(changes, ChangeFeedStartFrom.Continuation(one.token))), [
    "y:0",
  ]);
  const found = [];
  for (const range of await changes.getFeedRanges()) {
    found.push(...shown(await read(changes, ChangeFeedStartFrom.Beginning(range))));
  }
  assert.equal(found.length, 22);
  assert.equal(new Set(found).size, 22);
});

test("a prefix of a hierarchical key has a feed", async () => {
  const partitionKey = { paths: ["/pk", "/user"], kind: "MultiHash", version: 2 };
  const changes = await place.container({ partitionKey });
  for (const [id, pk, user] of [
    ["1", "a", "u"],
    ["2", "b", "u"],
    ["3", "a", "v"],
  ]) {
    await changes.items.create({ id, pk, user, n: 1 });
  }
  assert.deepEqual(shown(await read(changes, ChangeFeedStartFrom.Beginning(["a"]))), [
    "1:1",
    "3:1",
  ]);
  assert.deepEqual(shown(await read(changes, ChangeFeedStartFrom.Beginning(["a", "v"]))), ["3:1"]);
});

test("the wire: 200 with an etag, then 304 with an etag and no body", async () => {
  const changes = await place.container();
  await changes.items.create({ id: "1", pk: "a", n: 1 });
  const first = await changesOf(changes, {});
  assert.equal(first.status, 200, first.text);
  assert.equal(first.body._count, 1);
  assert.equal(first.headers["x-ms-item-count"], "1");
  assert.equal(typeof first.body.Documents[0]._lsn, "number");
  assert.match(first.headers.etag, /^"\d+"$/);
  const second = await changesOf(changes, { "if-none-match": first.headers.etag });
  assert.equal(second.status, 304);
  assert.equal(second.text, "");
  assert.match(second.headers.etag, /^"\d+"$/);
  // One token for each range; a single range is named as well.
  const tokens = second.headers["x-ms-session-token"].split(",");
  for (const token of tokens) assert.match(token, /^\d+:\d+#\d+$/);
  const range = second.headers["x-ms-documentdb-partitionkeyrangeid"];
  assert.equal(range, tokens.length === 1 ? "0" : undefined);
});

test("a position that nobody gave, or of another container, is refused", async () => {
  // Of one range a position is an LSN, which any container may have; of several it names its container.
  const wide = () => place.container({ throughput: 12000 });
  const [one, other] = [await wide(), await wide()];
  const { etag } = (await changesOf(one, { "if-none-match": "*" })).headers;
  assert.equal((await changesOf(one, { "if-none-match": etag })).status, 304);
  const edited = etag.replace(/\d"$/, (end) => `${(Number(end[0]) + 1) % 10}"`);
  for (const [container, position] of [
    [other, etag],
    [one, edited],
    [one, '"12"'],
    [one, '"made up"'],
  ]) {
    const reply = await changesOf(container, { "if-none-match": position });
    assert.equal(reply.status, 400, position);
    assert.equal(reply.body.code, "BadRequest");
  }
});

test("a feed of keys that a partition does not hold is gone", async () => {
  const partitionKey = { paths: ["/pk"], version: 2 };
  const changes = await place.container({ throughput: 12000, partitionKey });
  const headers = (id, start, end) => ({
    "x-ms-documentdb-partitionkeyrangeid": id,
    "x-ms-read-key-type": "EffectivePartitionKeyRange",
    "x-ms-start-epk": start,
    "x-ms-end-epk": end,
  });
  assert.equal((await changesOf(changes, headers("0", "05", "10"))).status, 304);
  for (const [id, start, end] of [
    ["0", "", "FF"],
    ["1", "05", "10"],
    ["987", "05", "10"],
  ]) {
    const reply = await changesOf(changes, headers(id, start, end));
    assert.equal(reply.status, 410, `${id} ${start} ${end}`);
    assert.equal(reply.headers["x-ms-substatus"], "1002");
  }
});

const ALL = ChangeFeedMode.AllVersionsAndDeletes;
const keepingVersions = () =>
  place.container({
    changeFeedPolicy: new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(10)),
    defaultTtl: -1,
  });

test("all versions: creates, replaces and deletes, each with what it left", async () => {
  const changes = await keepingVersions();
  const start = await read(changes, ChangeFeedStartFrom.Now(), { changeFeedMode: ALL });
  assert.deepEqual(start.found, []);
  await changes.items.create({ id: "1", pk: "a", n: 1 });
  await changes.item("1", "a").replace({ id: "1", pk: "a", n: 2 });
  await changes.items.upsert({ id: "2", pk: "a", n: 3 });
  await changes.item("1", "a").delete();
  const from = ChangeFeedStartFrom.Continuation(start.token);
  const { found } = await read(changes, from, { changeFeedMode: ALL, maxItemCount: 3 });
  assert.deepEqual(
    found.map(({ metadata }) => metadata.operationType),
    ["create", "replace", "create", "delete"],
  );
  assert.deepEqual(
    found.map(({ current }) => current.n),
    [1, 2, 3, undefined],
  );
  const [created, replaced, , deleted] = found;
  assert.equal(created.metadata.previousImageLSN, undefined);
  assert.equal(replaced.metadata.previousImageLSN, created.metadata.lsn);
  assert.equal(deleted.metadata.previousImageLSN, replaced.metadata.lsn);
  assert.ok(found.every(({ metadata }) => Math.abs(metadata.crts - Date.now() / 1000) < 60));
  assert.equal(replaced.previous, undefined);
  assert.deepEqual(deleted.current, {});
  assert.equal(deleted.previous.n, 2);
  assert.deepEqual(deleted.metadata.partitionKey, { pk: "a" });
  assert.equal(deleted.metadata.id, "1");
  assert.equal(deleted.metadata.timeToLiveExpired, false);
});

test("all versions: an item whose time is over is told apart", async () => {
  const changes = await keepingVersions();
  const start = await read(changes, ChangeFeedStartFrom.Now(), { changeFeedMode: ALL });
  await changes.items.create({ id: "1", pk: "a", n: 1, ttl: 1 });
  const from = ChangeFeedStartFrom.Continuation(start.token);
  let found = [];
  for (let tries = 0; tries < 50 && found.length < 2; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    ({ found } = await read(changes, from, { changeFeedMode: ALL }));
  }
  assert.deepEqual(
    found.map(({ metadata }) => [metadata.operationType, metadata.timeToLiveExpired]),
    [
      ["create", undefined],
      ["delete", true],
    ],
  );
});

test("all versions need a policy, and start from now", async () => {
  const without = await place.container();
  const options = { changeFeedMode: ALL };
  await assert.rejects(read(without, ChangeFeedStartFrom.Now(), options), { code: 400 });
  const changes = await keepingVersions();
  await assert.rejects(read(changes, ChangeFeedStartFrom.Beginning(), options), { code: 400 });
});

test("everything with a partition key is deleted at once", async () => {
  const items = await place.container();
  for (let n = 0; n < 10; n++) await items.items.create({ id: `${n}`, pk: `p${n % 2}`, n });
  const { statusCode } = await items.deleteAllItemsForPartitionKey("p1");
  assert.equal(statusCode, 200);
  const { resources } = await items.items.readAll().fetchAll();
  assert.deepEqual(resources.map(({ n }) => n).toSorted(), [0, 2, 4, 6, 8]);
  await items.items.create({ id: "1", pk: "p1", n: 11 });
  assert.equal((await items.item("1", "p1").read()).resource.n, 11);
});
