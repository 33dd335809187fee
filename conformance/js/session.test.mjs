// Session tokens: who carries one reads at least what its writer wrote.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, raw, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();

const TOKEN = /^\d+:-?\d+#\d+(#\d+=-?\d+)*$/;
const lsn = (token) => Number(token.split("#")[1]);

test("every write answers with a token that rises", async () => {
  let last = 0;
  for (let n = 0; n < 5; n++) {
    const { headers } = await container.items.upsert({ id: "rising", pk: "a", n });
    const token = headers["x-ms-session-token"];
    assert.match(token, TOKEN);
    assert.ok(lsn(token) > last, `${token} after ${last}`);
    last = lsn(token);
  }
});

test("another client with the token sees the write", async () => {
  const { headers } = await container.items.create({ id: "seen", pk: "a", n: 1 });
  const reader = connect({ consistencyLevel: "Session" });
  const item = reader.database(place.database.id).container(container.id).item("seen", "a");
  const { resource } = await item.read({ sessionToken: headers["x-ms-session-token"] });
  assert.equal(resource.n, 1);
});

test("a client with session consistency reads its own writes", async () => {
  const client = connect({ consistencyLevel: "Session" });
  const own = client.database(place.database.id).container(container.id);
  for (let n = 0; n < 10; n++) {
    await own.items.upsert({ id: "own", pk: "a", n });
    assert.equal((await own.item("own", "a").read()).resource.n, n);
  }
});

test("a token of the future is not available yet", async () => {
  const { headers } = await container.items.create({ id: "future", pk: "a" });
  const token = headers["x-ms-session-token"].replace(/#\d+/, "#999999999");
  const path = `/dbs/${place.database.id}/colls/${container.id}/docs/future`;
  const reply = await raw("GET", path, {
    headers: { "x-ms-documentdb-partitionkey": '["a"]', "x-ms-session-token": token },
  });
  assert.equal(reply.status, 404);
  assert.equal(reply.headers["x-ms-substatus"], "1002");
});

test("errors carry a token too", async () => {
  await container.items.create({ id: "conflict", pk: "a" });
  await assert.rejects(container.items.create({ id: "conflict", pk: "a" }), (error) => {
    assert.match(error.headers["x-ms-session-token"], TOKEN);
    return error.code === 409;
  });
});
