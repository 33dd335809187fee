// Stored procedures: as resources, and as transactions that happen whole or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, raw, scratch, unique } from "./server.mjs";

const place = await scratch();
const container = await place.container();
const { scripts } = container;

/** Makes a procedure out of a function and returns its client. */
async function procedure(body) {
  const made = await scripts.storedProcedures.create({ id: unique("p"), body });
  return made.storedProcedure;
}

const execute = async (body, args, options, pk = "a") =>
  (await procedure(body)).execute(pk, args, options);

async function ids(pk = "a") {
  const query = "SELECT VALUE c.id FROM c ORDER BY c.id";
  return (await container.items.query(query, { partitionKey: pk }).fetchAll()).resources;
}

test("procedures are created, read, replaced, listed, queried and deleted", async () => {
  const { resource, storedProcedure } = await scripts.storedProcedures.create({
    id: "crud",
    body: function () {
      getContext().getResponse().setBody(1);
    },
  });
  assert.match(resource._self, /^dbs\/[^/]+\/colls\/[^/]+\/sprocs\/[^/]+\/$/);
  assert.equal((await storedProcedure.read()).resource._etag, resource._etag);
  await fails(scripts.storedProcedures.create({ id: "crud", body: "function () {}" }), 409);
  const replaced = await storedProcedure.replace({ id: "crud", body: "function () { return 2 }" });
  assert.equal(replaced.resource.body, "function () { return 2 }");
  assert.notEqual(replaced.resource._etag, resource._etag);
  const all = (await scripts.storedProcedures.readAll().fetchAll()).resources;
  assert.ok(all.some(({ id }) => id === "crud"));
  const query = { query: "SELECT * FROM r WHERE r.id = @id", parameters: [{ name: "@id", value: "crud" }] };
  assert.equal((await scripts.storedProcedures.query(query).fetchAll()).resources.length, 1);
  assert.equal((await storedProcedure.delete()).statusCode, 204);
  await fails(storedProcedure.read(), 404);
});

test("a text that does not compile is refused", async () => {
  const error = await fails(scripts.storedProcedures.create({ id: "bad", body: "function () { oops oops }" }), 400, 65535);
  assert.match(error.body.message, /SyntaxError/);
});

test("arguments go in and the body comes out", async () => {
  const echo = function (a, b) {
    getContext().getResponse().setBody({ a, b });
  };
  assert.deepEqual((await execute(echo, [{ n: 1 }, "two"])).resource, { a: { n: 1 }, b: "two" });
  assert.equal((await execute("function () { getContext().getResponse().setBody('hello') }")).resource, "hello");
  assert.equal((await execute("function () {}")).resource, "");
  assert.equal((await execute("async () => { await null; __.response.setBody(7) }")).resource, 7);
});

test("items are created, read, replaced, upserted, queried and deleted", async () => {
  const body = function (pk) {
    const collection = getContext().getCollection();
    const link = collection.getSelfLink();
    const steps = [
      (next) => collection.createDocument(link, { id: "x", pk, n: 1 }, next),
      (next, doc) => collection.replaceDocument(doc._self, { ...doc, n: 2 }, { etag: doc._etag }, next),
      (next, doc) => collection.readDocument(`${collection.getAltLink()}/docs/x`, next),
      (next, doc) => collection.upsertDocument(link, { id: "y", pk, n: doc.n }, next),
      (next) => collection.queryDocuments(link, "SELECT VALUE SUM(c.n) FROM c", next),
      (next, [sum]) => collection.deleteDocument(`${collection.getAltLink()}/docs/y`, (error) => next(error, sum)),
    ];
    (function run(i, value) {
      if (i === steps.length) {
        getContext().getResponse().setBody(value);
        return;
      }
      const accepted = steps[i]((error, result) => {
        if (error) throw error;
        run(i + 1, result);
      }, value);
      if (!accepted) throw new Error("not accepted");
    })(0);
  };
  const { resource, headers } = await execute(body, ["crud"], {}, "crud");
  assert.equal(resource, 4);
  assert.ok(Number(headers["x-ms-request-charge"]) > 20);
  assert.match(headers["x-ms-session-token"], /#/);
  assert.deepEqual(await ids("crud"), ["x"]);
});

test("what is thrown half-way undoes everything and says where", async () => {
  const half = await procedure(
    "function half(n) { __.createDocument(__.getSelfLink(), { id: 'half', pk: 'a' }, function (e) { if (e) throw e; throw new Error(n, 'half-way') }) }",
  );
  const error = await fails(half.execute("a", [418]), 400, 418);
  assert.match(error.body.message, /Exception = Error: half-way/);
  assert.match(error.body.message, /Stack trace: .*\.js:1:\d+/s);
  assert.deepEqual(await ids(), []);
  const conflict = await execute("function () { __.createDocument(__.getSelfLink(), { id: 'one', pk: 'a' }, function () { __.createDocument(__.getSelfLink(), { id: 'one', pk: 'a' }) }) }").catch((e) => e);
  assert.deepEqual([conflict.code, conflict.substatus], [400, 409]);
  assert.deepEqual(await ids(), []);
});

test("another logical partition is out of reach", async () => {
  const body = "function () { __.createDocument(__.getSelfLink(), { id: 'far', pk: 'b' }) }";
  await fails(execute(body), 400);
  assert.deepEqual(await ids("b"), []);
});

test("what is logged comes back when it is asked for", async () => {
  const log = await procedure("function () { console.log('The value of %s is %s.', 'x', 1) }");
  const loud = await log.execute("a", [], { enableScriptLogging: true });
  assert.equal(decodeURIComponent(loud.headers["x-ms-documentdb-script-log-results"]), "The value of x is 1.");
  const quiet = await log.execute("a");
  assert.equal(quiet.headers["x-ms-documentdb-script-log-results"], undefined);
});

test("queries written as JavaScript", async () => {
  for (let n = 0; n < 5; n += 1) await container.items.create({ id: `q${n}`, pk: "q", n });
  const chain = "function () { __.chain().filter((d) => d.n > 1).sortByDescending((d) => d.n).pluck('n').value((e, rows) => { if (e) throw e; __.response.setBody(rows) }) }";
  assert.deepEqual((await execute(chain, [], {}, "q")).resource, [4, 3, 2]);
  const text = (await execute("function () { __.pluck('n') }", [], {}, "q")).resource;
  assert.deepEqual(JSON.parse(text), [0, 1, 2, 3, 4]);
});

test("a script that never ends is ended, and the server goes on", async () => {
  const spin = await procedure("function () { __.createDocument(__.getSelfLink(), { id: 'spin', pk: 'a' }, function () { for (;;) ; }) }");
  const spinning = spin.execute("a");
  const other = await container.items.create({ id: "other", pk: "o" });
  assert.equal(other.statusCode, 201);
  await fails(spinning, 408);
  assert.deepEqual(await ids(), []);
});

test("a script that takes all memory or stack, or says too much, is ended", async () => {
  await fails(execute("function () { const a = []; for (;;) a.push(new Array(1000).fill(a)) }"), 400);
  await fails(execute("function f() { return f() + 1 }"), 400);
  await fails(execute("function () { __.response.setBody('x'.repeat(5e6)) }"), 400, 413);
});

test("no arguments and null are none", async () => {
  const count = await procedure("function () { __.response.setBody(arguments.length) }");
  const path = `/dbs/${place.database.id}/colls/${container.id}/sprocs/${count.id}`;
  for (const body of [undefined, "null", "[]"]) {
    const headers = { "x-ms-documentdb-partitionkey": '["a"]' };
    const { status, text } = await raw("POST", path, { headers, body });
    assert.deepEqual([status, text], [200, "0"], String(body));
  }
});
