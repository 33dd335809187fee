// The account: what a client learns first, and who is let in.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, endpoint, fails, raw } from "./server.mjs";

test("the account names endpoints that the client can reach", async () => {
  const { status, body } = await raw("GET", "/");
  assert.equal(status, 200);
  for (const list of [body.writableLocations, body.readableLocations]) {
    assert.equal(list.length, 1);
    assert.equal(new URL(list[0].databaseAccountEndpoint).href, new URL(endpoint).href);
  }
  assert.equal(body.userConsistencyPolicy.defaultConsistencyLevel, "Session");
  assert.ok(JSON.parse(body.queryEngineConfiguration).maxSqlQueryInputLength > 0);
});

test("the SDK reads the account", async () => {
  const { resource } = await connect().getDatabaseAccount();
  assert.equal(resource.consistencyPolicy, "Session");
});

test("a wrong key is refused", async () => {
  const wrong = Buffer.from("not the key of this account").toString("base64");
  await fails(connect({ key: wrong }).databases.readAll().fetchAll(), 401);
});

test("a request without a signature is refused", async () => {
  for (const path of ["/", "/dbs", "/dbs/x/colls/y/docs/z"]) {
    const { status, body } = await raw("GET", path, { authorization: "" });
    assert.equal(status, 401, path);
    assert.equal(body.code, "Unauthorized");
  }
});

test("a malformed signature is refused", async () => {
  for (const authorization of ["nonsense", "type%3Dmaster%26ver%3D1.0%26sig%3D%3D", "%ff%fe"]) {
    const { status, body } = await raw("GET", "/dbs", { authorization });
    assert.equal(status, 401, authorization);
    assert.equal(body.code, "Unauthorized");
  }
});

test("a signature of yesterday is refused", async () => {
  const yesterday = new Date(Date.now() - 24 * 3600 * 1000).toUTCString();
  const { status } = await raw("GET", "/dbs", { headers: { "x-ms-date": yesterday } });
  assert.ok(status === 401 || status === 403, `status ${status}`);
});

test("every answer carries an activity id and a charge", async () => {
  for (const path of ["/dbs", "/dbs/missing"]) {
    const { headers } = await raw("GET", path);
    assert.match(headers["x-ms-activity-id"], /^[0-9a-f-]{36}$/i, path);
    assert.ok(Number(headers["x-ms-request-charge"]) >= 0, path);
    assert.equal(headers["content-type"].split(";")[0], "application/json", path);
    assert.ok(Number(headers["content-length"]) > 0, path);
  }
});
