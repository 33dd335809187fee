// Several clients at once: nothing is lost, nothing is doubled.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();
const clients = Array.from({ length: 8 }, () =>
  connect().database(place.database.id).container(container.id),
);

test("creates of many clients are all there", async () => {
  const work = clients.map(async (client, who) => {
    for (let n = 0; n < 20; n++) await client.items.create({ id: `${who}-${n}`, pk: `p${n % 4}` });
  });
  await Promise.all(work);
  const { resources } = await container.items.readAll().fetchAll();
  assert.equal(new Set(resources.map(({ id }) => id)).size, 160);
});

test("increments of many clients add up", async () => {
  await container.items.create({ id: "sum", pk: "sum", n: 0 });
  const work = clients.map(async (client) => {
    for (let n = 0; n < 10; n++) {
      await client.item("sum", "sum").patch([{ op: "incr", path: "/n", value: 1 }]);
    }
  });
  await Promise.all(work);
  assert.equal((await container.item("sum", "sum").read()).resource.n, 80);
});

test("a read-modify-write loop with etags loses nothing", async () => {
  await container.items.create({ id: "loop", pk: "loop", n: 0 });
  const increment = async (client) => {
    for (;;) {
      const { resource } = await client.item("loop", "loop").read();
      const next = { ...resource, n: resource.n + 1 };
      const accessCondition = { type: "IfMatch", condition: resource._etag };
      try {
        return await client.item("loop", "loop").replace(next, { accessCondition });
      } catch (error) {
        if (error.code !== 412) throw error;
      }
    }
  };
  await Promise.all(clients.flatMap((client) => [increment(client), increment(client)]));
  assert.equal((await container.item("loop", "loop").read()).resource.n, 16);
});

test("of many creates of one id exactly one wins", async () => {
  const creates = clients.map((client, who) => client.items.create({ id: "one", pk: "one", who }));
  const outcomes = await Promise.allSettled(creates);
  const winners = outcomes.filter(({ status }) => status === "fulfilled");
  assert.equal(winners.length, 1);
  const { resource } = await container.item("one", "one").read();
  assert.equal(resource.who, winners[0].value.resource.who);
});
