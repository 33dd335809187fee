// Time to live: an expired item is gone from reads, feeds and unique ids.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch, until } from "./server.mjs";

const place = await scratch();
const isGone = ({ statusCode }) => statusCode === 404;

test("an item with its own time to live expires", async () => {
  const container = await place.container({ defaultTtl: -1 });
  await container.items.create({ id: "short", pk: "a", ttl: 1 });
  await container.items.create({ id: "long", pk: "a" });
  const gone = await until(isGone, () => container.item("short", "a").read());
  assert.equal(gone.statusCode, 404);
  const { resources } = await container.items.readAll().fetchAll();
  assert.deepEqual(resources.map(({ id }) => id), ["long"]);
  const again = await container.items.create({ id: "short", pk: "a" });
  assert.equal(again.statusCode, 201, "the id of an expired item is free");
});

test("the container's default applies where the item says nothing", async () => {
  const container = await place.container({ defaultTtl: 1 });
  await container.items.create({ id: "default", pk: "a" });
  await container.items.create({ id: "never", pk: "a", ttl: -1 });
  const gone = await until(isGone, () => container.item("default", "a").read());
  assert.equal(gone.statusCode, 404);
  assert.equal((await container.item("never", "a").read()).statusCode, 200);
});

test("without a container setting items do not expire", async () => {
  const container = await place.container();
  await container.items.create({ id: "kept", pk: "a", ttl: 1 });
  const read = await until(isGone, () => container.item("kept", "a").read(), 2.5);
  assert.equal(read.statusCode, 200);
});

test("a time to live that is no positive whole number is refused", async () => {
  const container = await place.container({ defaultTtl: -1 });
  for (const ttl of [0, -2, 1.5, "10", true]) {
    await fails(container.items.create({ id: "bad", pk: "a", ttl }), 400);
  }
  assert.equal((await container.item("bad", "a").read()).statusCode, 404);
});
