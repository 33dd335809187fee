// Bad input: refused with the right status and a reason, never stored, and the server lives on.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, raw, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();
const docs = `/dbs/${place.database.id}/colls/${container.id}/docs`;

const inPartition = (key) => ({ "x-ms-documentdb-partitionkey": JSON.stringify([key]) });

/** Posts a body as it is; it must be refused, with a reason in JSON, and store nothing. */
async function refused(body, status = 400, headers = inPartition("bad")) {
  const reply = await raw("POST", docs, { headers, body });
  assert.equal(reply.status, status, `${String(body).slice(0, 80)} → ${reply.text.slice(0, 200)}`);
  assert.equal(typeof reply.body?.code, "string", "an error body is JSON with a code");
  assert.ok(reply.body.message.length > 0);
  const { resources } = await container.items.readAll({ partitionKey: "bad" }).fetchAll();
  assert.deepEqual(resources, []);
  return reply;
}

test("what is not a JSON object is refused", async () => {
  const bodies = ["", "{", "not json", "[]", '"text"', "7", "null", '{"id":"1","pk":"bad"', "\u0000"];
  for (const body of bodies) await refused(body);
});

test("an id must be a text of the right length", async () => {
  for (const id of [undefined, null, 7, true, {}, [], "", "x".repeat(1024)]) {
    await refused(JSON.stringify({ id, pk: "bad" }));
  }
});

test("a key that differs between header and item is refused", async () => {
  const body = JSON.stringify({ id: "1", pk: "other" });
  const reply = await refused(body);
  assert.equal(reply.headers["x-ms-substatus"], "1001");
});

test("a key header that is no key is refused", async () => {
  const body = JSON.stringify({ id: "1", pk: "bad" });
  for (const header of ["bad", "{}", '["bad","extra"]', '[["bad"]]', '["bad"', "7"]) {
    await refused(body, 400, { "x-ms-documentdb-partitionkey": header });
  }
});

test("an object or array in the key's place is no key", async () => {
  // The SDKs compute it so themselves: the item lies in the partition of items without key.
  const pks = [{}, { a: 1 }, [], ["bad"]];
  for (const [i, pk] of pks.entries()) {
    const reply = await raw("POST", docs, { body: JSON.stringify({ id: `none ${i}`, pk }) });
    assert.equal(reply.status, 201, reply.text);
    await refused(JSON.stringify({ id: `none ${i}`, pk }));
  }
});

test("an item over two megabytes is refused", async () => {
  const body = JSON.stringify({ id: "1", pk: "bad", text: "x".repeat(2 * 1024 * 1024) });
  await refused(body, 413);
});

test("an item just under two megabytes is stored", async () => {
  const text = "x".repeat(2 * 1024 * 1024 - 2048);
  const { statusCode } = await container.items.create({ id: "big", pk: "big", text });
  assert.equal(statusCode, 201);
  assert.equal((await container.item("big", "big").read()).resource.text.length, text.length);
});

test("nesting without end is refused and does not end the server", async () => {
  const depth = 100_000;
  await refused(`{"id":"1","pk":"bad","x":${"[".repeat(depth)}${"]".repeat(depth)}}`);
});

test("a read without a key is refused", async () => {
  await container.items.create({ id: "keyed", pk: "a" });
  const { status, body } = await raw("GET", `${docs}/keyed`);
  assert.equal(status, 400);
  assert.match(body.message, /PartitionKey/);
});

test("paths that mean nothing are answered in JSON", async () => {
  const paths = ["/nonsense", "/dbs/x/nonsense", "/dbs/x/colls/y/docs/z/w/v", "/dbs//colls", "/%00"];
  for (const path of paths) {
    const { status, body } = await raw("GET", path);
    assert.ok(status >= 400 && status < 500, `${path} → ${status}`);
    assert.equal(typeof body?.code, "string", path);
  }
});

test("methods that mean nothing are answered in JSON", async () => {
  for (const [method, path] of [
    ["PATCH", "/dbs"],
    ["DELETE", docs],
    ["PUT", docs],
  ]) {
    const { status, body } = await raw(method, path);
    assert.ok(status >= 400 && status < 500, `${method} ${path} → ${status}`);
    assert.equal(typeof body?.code, "string");
  }
});

test("ids of databases and containers follow their rules", async () => {
  for (const id of ["", "a/b", "a\\b", "a?b", "a#b", "x".repeat(256), 7, null, undefined]) {
    for (const path of ["/dbs", `/dbs/${place.database.id}/colls`]) {
      const body = { id, partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } };
      const reply = await raw("POST", path, { body });
      assert.equal(reply.status, 400, `${path} ${String(id).slice(0, 20)}: ${reply.text}`);
      assert.equal(reply.body.code, "BadRequest");
    }
  }
});

test("errors name what is missing", async () => {
  const missing = place.database.container("missing");
  await fails(missing.read(), 404);
  await fails(place.client.database("missing").read(), 404);
  const error = await fails(container.item("missing", "a").delete(), 404);
  assert.equal(error.body.code, "NotFound");
  const inMissing = await raw("GET", `/dbs/${place.database.id}/colls/missing/docs/1`, {
    headers: inPartition("a"),
  });
  assert.equal(inMissing.status, 404);
});

test("numeric and boolean headers that are neither are refused or ignored, never fatal", async () => {
  const headers = {
    "x-ms-max-item-count": "many",
    "x-ms-documentdb-query-enablecrosspartition": "perhaps",
  };
  const { status } = await raw("GET", docs, { headers });
  assert.ok(status === 200 || status === 400, `status ${status}`);
});
