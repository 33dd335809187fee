// Items: the point operations, with keys and values of every shape.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();

test("an item is created, read, replaced and deleted", async () => {
  const created = await container.items.create({ id: "life", pk: "a", n: 1 });
  assert.equal(created.statusCode, 201);
  for (const name of ["_rid", "_self", "_etag", "_ts", "_attachments"]) {
    assert.ok(name in created.resource, name);
  }
  assert.equal(created.headers.etag, created.resource._etag);

  const item = container.item("life", "a");
  assert.deepEqual((await item.read()).resource, created.resource);

  const replaced = await item.replace({ id: "life", pk: "a", n: 2 });
  assert.equal(replaced.statusCode, 200);
  assert.equal(replaced.resource.n, 2);
  assert.notEqual(replaced.resource._etag, created.resource._etag);
  assert.equal(replaced.resource._rid, created.resource._rid);

  assert.equal((await item.delete()).statusCode, 204);
  const gone = await item.read();
  assert.equal(gone.statusCode, 404);
  assert.equal(gone.resource, undefined);
  await fails(item.delete(), 404);
  await fails(item.replace({ id: "life", pk: "a" }), 404);
});

test("an item that exists is not created again", async () => {
  await container.items.create({ id: "twice", pk: "a", n: 1 });
  await fails(container.items.create({ id: "twice", pk: "a", n: 2 }), 409);
  assert.equal((await container.item("twice", "a").read()).resource.n, 1);
});

test("the same id lives once in every logical partition", async () => {
  for (const pk of ["x", "y"]) await container.items.create({ id: "same", pk });
  await container.item("same", "x").delete();
  assert.equal((await container.item("same", "y").read()).resource.pk, "y");
});

test("an upsert creates and then replaces", async () => {
  assert.equal((await container.items.upsert({ id: "up", pk: "a", n: 1 })).statusCode, 201);
  assert.equal((await container.items.upsert({ id: "up", pk: "a", m: 2 })).statusCode, 200);
  const { resource } = await container.item("up", "a").read();
  assert.equal(resource.m, 2);
  assert.ok(!("n" in resource), "an upsert replaces the whole item");
});

test("values come back as they were stored", async () => {
  const value = {
    text: "日本 \u0000 \" \\ \u{1F680} é",
    numbers: [0, -1, 1.5, 1e21, 5e-324, 9007199254740991, -0.1],
    nothing: null,
    truth: [true, false],
    nested: { a: { b: [{ c: [] }, {}] } },
    "odd name / ? # ~": 1,
    "": "empty name",
  };
  await container.items.create({ id: "values", pk: "a", value });
  assert.deepEqual((await container.item("values", "a").read()).resource.value, value);
});

test("system properties that a client sends are overwritten", async () => {
  const sent = { id: "system", pk: "a", _rid: "mine", _etag: "mine", _ts: 1, _self: "mine" };
  const { resource } = await container.items.create(sent);
  for (const name of ["_rid", "_etag", "_ts", "_self"]) {
    assert.notEqual(resource[name], sent[name], name);
  }
});

test("ids with unusual letters work in every operation", async () => {
  const ids = ["a b", "50%", "a+b", "ünïcode", "日本", "a&b=c", "'quote'", '"double"', "a;b", "@", "~"];
  for (const id of ids) {
    await container.items.create({ id, pk: "ids" });
    const item = container.item(id, "ids");
    assert.equal((await item.read()).resource?.id, id);
    assert.equal((await item.replace({ id, pk: "ids", n: 1 })).resource.n, 1);
    assert.equal((await item.delete()).statusCode, 204);
  }
});

test("partition keys of every type reach their item", async () => {
  const keys = ["text", "", "ä €", 0, 7, -0.5, 1e300, true, false, null];
  for (const pk of keys) {
    await container.items.create({ id: "typed", pk });
    assert.equal((await container.item("typed", pk).read()).resource?.pk, pk, String(pk));
  }
  assert.equal((await container.item("typed", "7").read()).statusCode, 404, "7 is not \"7\"");
});

test("an item without the partition key has its own partition", async () => {
  const { resource } = await container.items.create({ id: "keyless" });
  assert.ok(!("pk" in resource));
  assert.equal((await container.item("keyless", undefined).read()).resource?.id, "keyless");
  assert.equal((await container.item("keyless", null).read()).statusCode, 404);
});

test("a hierarchical key reaches its item", async () => {
  const paths = ["/tenant", "/user"];
  const visits = await place.container({ partitionKey: { paths, kind: "MultiHash", version: 2 } });
  await visits.items.create({ id: "1", tenant: "t", user: "u" });
  assert.equal((await visits.item("1", ["t", "u"]).read()).resource?.user, "u");
  assert.equal((await visits.item("1", ["t", "v"]).read()).statusCode, 404);
});

test("a nested partition key reaches its item", async () => {
  const nested = await place.container({ partitionKey: { paths: ["/address/city"] } });
  await nested.items.create({ id: "1", address: { city: "Bern" } });
  assert.equal((await nested.item("1", "Bern").read()).resource?.address.city, "Bern");
});

test("a replace may change the id of an item, never its key", async () => {
  const { resource: first } = await container.items.create({ id: "fixed", pk: "a" });
  await container.items.create({ id: "taken", pk: "a" });
  await fails(container.item("fixed", "a").replace({ id: "fixed", pk: "b" }), 400);
  await fails(container.item("fixed", "a").replace({ id: "taken", pk: "a" }), 409);
  assert.equal((await container.item("fixed", "a").read()).resource.pk, "a");
  const { resource: renamed } = await container.item("fixed", "a").replace({ id: "other", pk: "a" });
  assert.equal(renamed._rid, first._rid);
  assert.equal((await container.item("other", "a").read()).resource._rid, first._rid);
  assert.equal((await container.item("fixed", "a").read()).statusCode, 404);
});

test("an item in a container that does not exist is not found", async () => {
  const missing = place.database.container("missing");
  await fails(missing.items.create({ id: "1", pk: "a" }), 404);
});
