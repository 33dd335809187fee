// Throughput: manual and autoscale, read and replaced.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, fails, scratch, unique } from "./server.mjs";

const place = await scratch();

test("a container has the throughput it was given", async () => {
  const container = await place.container({ throughput: 700 });
  const { resource: offer } = await container.readOffer();
  assert.equal(offer.content.offerThroughput, 700);
  const { resource } = await container.read();
  assert.equal(offer.resource, resource._self);
  assert.equal(offer.offerResourceId, resource._rid);
  assert.equal(offer.offerVersion, "V2");
});

test("a container without a wish has the least throughput", async () => {
  const { resource: offer } = await (await place.container()).readOffer();
  assert.equal(offer.content.offerThroughput, 400);
});

test("throughput is replaced", async () => {
  const container = await place.container({ throughput: 400 });
  const { resource: offer } = await container.readOffer();
  offer.content.offerThroughput = 1000;
  const { resource, statusCode } = await place.client.offer(offer.id).replace(offer);
  assert.equal(statusCode, 200);
  assert.equal(resource.content.offerThroughput, 1000);
  const { resource: read } = await place.client.offer(offer.id).read();
  assert.equal(read.content.offerThroughput, 1000);
});

test("autoscale has a maximum, which is replaced", async () => {
  const container = await place.container({ maxThroughput: 4000 });
  const { resource: offer } = await container.readOffer();
  assert.equal(offer.content.offerAutopilotSettings.maxThroughput, 4000);
  offer.content.offerAutopilotSettings.maxThroughput = 6000;
  const { resource } = await place.client.offer(offer.id).replace(offer);
  assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 6000);
});

test("a database may have throughput of its own", async () => {
  const client = connect();
  const { database } = await client.databases.create({ id: unique("shared"), throughput: 500 });
  assert.equal((await database.readOffer()).resource.content.offerThroughput, 500);
  await database.delete();
  const { resource: none } = await place.database.readOffer();
  assert.equal(none, undefined, "a database without throughput has no offer");
});

test("offers are listed, and go with their container", async () => {
  const container = await place.container();
  const { resource: offer } = await container.readOffer();
  const ids = async () => {
    const { resources } = await place.client.offers.readAll().fetchAll();
    return resources.map(({ id }) => id);
  };
  assert.ok((await ids()).includes(offer.id));
  await container.delete();
  assert.ok(!(await ids()).includes(offer.id));
});

test("throughput that is too small or uneven is refused", async () => {
  for (const throughput of [100, 450, -1]) {
    const definition = { id: unique("bad"), partitionKey: "/pk", throughput };
    await fails(place.database.containers.create(definition), 400);
  }
  const container = await place.container();
  const { resource: offer } = await container.readOffer();
  offer.content.offerThroughput = 150;
  await fails(place.client.offer(offer.id).replace(offer), 400);
});
