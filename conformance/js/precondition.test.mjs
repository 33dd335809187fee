// Etags: a write that names an old version is refused, a read that names the current one is empty.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch, unique } from "./server.mjs";

const place = await scratch();
const container = await place.container();

const ifMatch = (condition) => ({ accessCondition: { type: "IfMatch", condition } });
const ifNoneMatch = (condition) => ({ accessCondition: { type: "IfNoneMatch", condition } });

/** An item that was replaced once; gives the old and the current etag. */
async function replacedOnce() {
  const id = unique("etag");
  const { resource: old } = await container.items.create({ id, pk: "a", n: 1 });
  const { resource: current } = await container.item(id, "a").replace({ id, pk: "a", n: 2 });
  return { id, item: container.item(id, "a"), old: old._etag, current: current._etag };
}

test("a write with the current etag applies", async () => {
  const { id, item, current } = await replacedOnce();
  const { resource } = await item.replace({ id, pk: "a", n: 3 }, ifMatch(current));
  assert.equal(resource.n, 3);
  const patched = await item.patch(
    [{ op: "incr", path: "/n", value: 1 }],
    ifMatch(resource._etag),
  );
  assert.equal(patched.resource.n, 4);
  assert.equal((await item.delete(ifMatch(patched.resource._etag))).statusCode, 204);
});

test("a write with an old etag is refused and changes nothing", async () => {
  const { id, item, old, current } = await replacedOnce();
  await fails(item.replace({ id, pk: "a", n: 3 }, ifMatch(old)), 412);
  await fails(container.items.upsert({ id, pk: "a", n: 3 }, ifMatch(old)), 412);
  await fails(item.patch([{ op: "set", path: "/n", value: 3 }], ifMatch(old)), 412);
  await fails(item.delete(ifMatch(old)), 412);
  const { resource } = await item.read();
  assert.equal(resource.n, 2);
  assert.equal(resource._etag, current);
});

test("a read with the current etag answers 304 without a body", async () => {
  const { item, old, current } = await replacedOnce();
  const unchanged = await item.read(ifNoneMatch(current));
  assert.equal(unchanged.statusCode, 304);
  assert.equal(unchanged.headers.etag, current);
  const changed = await item.read(ifNoneMatch(old));
  assert.equal(changed.statusCode, 200);
  assert.equal(changed.resource.n, 2);
});

test("of many writers with one etag exactly one wins", async () => {
  const { id, item, current } = await replacedOnce();
  const writers = Array.from({ length: 16 }, (_, n) =>
    item.replace({ id, pk: "a", n: 100 + n }, ifMatch(current)),
  );
  const outcomes = await Promise.allSettled(writers);
  const winners = outcomes.filter(({ status }) => status === "fulfilled");
  assert.equal(winners.length, 1);
  for (const { reason } of outcomes.filter(({ status }) => status === "rejected")) {
    assert.equal(reason.code, 412, reason.message);
  }
  assert.equal((await item.read()).resource.n, winners[0].value.resource.n);
});
