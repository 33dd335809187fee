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

/** Makes the server refuse what exceeds the throughput of a container; ours, see docs/throughput.md. */
async function enforce(container, content = {}) {
  const { resource: offer } = await container.readOffer();
  Object.assign(offer.content, { orreryEnforced: true }, content);
  await place.client.offer(offer.id).replace(offer);
}

test("who exceeds the throughput waits as long as told, and all is done", async () => {
  const { id } = await place.container({ throughput: 400 });
  const retryOptions = { maxRetryAttemptCount: 9 };
  const patient = connect({ connectionPolicy: { retryOptions, enableBackgroundEndpointRefreshing: false } });
  const container = patient.database(place.database.id).container(id);
  await enforce(container);
  const ids = Array.from({ length: 120 }, (_, n) => `item ${n}`);
  const made = await Promise.all(ids.map((id) => container.items.create({ id, pk: "p" })));
  assert.ok(made.every(({ statusCode }) => statusCode === 201));
  // 120 writes cost more than the 400 units that a second holds.
  const statistics = made.map(({ diagnostics }) => diagnostics.clientSideRequestStatistics);
  const attempts = statistics.flatMap(({ retryDiagnostics }) => retryDiagnostics.failedAttempts);
  const codes = attempts.map(({ statusCode }) => statusCode);
  assert.ok(codes.length > 0 && codes.every((code) => code === 429), `${codes}`);
  const { resources } = await container.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll();
  assert.deepEqual(resources, [120]);
  patient.dispose();
});

test("who does not wait is told to, by the bucket too", async () => {
  const container = await place.container({ throughput: 400 });
  await enforce(container, { throughputBuckets: [{ id: 1, maxThroughputPercentage: 1 }] });
  // It costs more than four seconds of what the bucket may use.
  const large = { id: "large", pk: "p", text: "x".repeat(60_000) };
  await container.items.create(large, { throughputBucket: 1 });
  await container.items.create({ id: "small", pk: "p" });
  const again = container.item("large", "p").read({ throughputBucket: 1 });
  const error = await fails(again, 429, 3212);
  assert.ok(error.retryAfterInMs > 0);
  await container.item("large", "p").read();
});
