// Clients that sign in with tokens of a directory, on a server whose keys are switched off. The tokens are real: a
// test issuer signs them, and the server reads its key set. `cargo xtask conformance js` starts both.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import https from "node:https";
import { after, before, test } from "node:test";
import { ChangeFeedStartFrom, CosmosClient } from "@azure/cosmos";
import { fails, key, required, unique, until } from "./server.mjs";

const endpoint = required("ORRERY_ENTRA_ENDPOINT");
const issuer = required("ORRERY_ISSUER");
const administrator = required("ORRERY_ADMINISTRATOR");
const READER = "00000000-0000-0000-0000-000000000001";
const CONTRIBUTOR = "00000000-0000-0000-0000-000000000002";
const ACTIONS = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/";
const HOUR_S = 3600;
// Without a setting the SDK asks for a scope with the server's port in it; users name that of their application.
const SCOPE = "https://db.example/.default";

const agent = new https.Agent({ keepAlive: true, rejectUnauthorized: false });
const shop = { reader: randomUUID(), writer: randomUUID(), clerk: randomUUID(), id: unique("entra") };
const clients = [];

async function token(principal, scope, lifetime = HOUR_S) {
  const body = JSON.stringify({ principal, scope, lifetime });
  const reply = await fetch(`${issuer}token`, { method: "POST", body });
  assert.equal(reply.status, 200);
  return (await reply.json()).access_token;
}

/** Gets the tokens of one principal, as a credential of @azure/identity; the SDK keeps one while it seems valid. */
function credential(principal, { lifetime, scope } = {}) {
  const asked = [];
  const getToken = async (scopes) => {
    asked.push([scopes].flat());
    const made = await token(principal, scope ?? [scopes].flat()[0], lifetime);
    return { token: made, expiresOnTimestamp: Date.now() + HOUR_S * 1000 };
  };
  return { getToken, asked };
}

function connect(aadCredentials, options = {}) {
  const connectionPolicy = { retryOptions: { maxRetryAttemptCount: 0 }, enableBackgroundEndpointRefreshing: false };
  const client = new CosmosClient({ endpoint, aadCredentials, agent, aadScope: SCOPE, connectionPolicy, ...options });
  clients.push(client);
  return client;
}

const container = (principal, id = "orders", more) =>
  connect(credential(principal, more)).database(shop.id).container(id);

/** The ids in the change feed of a logical partition. */
async function changesOf(container, pk) {
  const start = ChangeFeedStartFrom.Beginning(pk);
  const page = await container.items.getChangeFeedIterator({ changeFeedStartFrom: start }).readNext();
  return page.result.map((item) => item.id);
}

/** Gives a role; the service has this in its management plane, so that no SDK has a method for it. */
async function assign(roleDefinitionId, principalId, scope) {
  const made = await token(administrator, SCOPE);
  const headers = { authorization: `type=aad&ver=1.0&sig=${made}` };
  const body = JSON.stringify({ roleDefinitionId, principalId, scope });
  const status = await new Promise((resolve, reject) => {
    const url = new URL("_roleassignments", endpoint);
    const request = https.request(url, { method: "POST", headers, agent }, (reply) => {
      reply.resume();
      reply.on("end", () => resolve(reply.statusCode));
    });
    request.on("error", reject);
    request.end(body);
  });
  assert.equal(status, 201);
}

before(async () => {
  const { database } = await connect(credential(administrator)).databases.create({ id: shop.id });
  for (const id of ["orders", "other"]) {
    const made = await database.containers.create({ id, partitionKey: { paths: ["/pk"] } });
    await made.container.items.create({ id: "first", pk: "p", n: 1 });
  }
  await assign(READER, shop.reader, `/dbs/${shop.id}`);
  await assign(CONTRIBUTOR, shop.writer, `/dbs/${shop.id}`);
  await assign(CONTRIBUTOR, shop.clerk, `/dbs/${shop.id}/colls/orders`);
});

after(async () => {
  await connect(credential(administrator)).database(shop.id).delete();
  for (const client of clients) client.dispose();
  agent.destroy();
});

test("a data contributor reads and writes items", async () => {
  const orders = container(shop.writer);
  await orders.items.create({ id: "a", pk: "w", n: 1 });
  await orders.items.upsert({ id: "b", pk: "w", n: 2 });
  await orders.item("a", "w").replace({ id: "a", pk: "w", n: 3 });
  await orders.item("a", "w").patch([{ op: "incr", path: "/n", value: 4 }]);
  assert.equal((await orders.item("a", "w").read()).resource.n, 7);
  const batch = [
    { operationType: "Create", resourceBody: { id: "c", pk: "w", n: 5 } },
    { operationType: "Read", id: "a" },
    { operationType: "Delete", id: "b" },
  ];
  const { result } = await orders.items.batch(batch, "w");
  assert.deepEqual(result.map((one) => one.statusCode), [201, 200, 204]);
  const query = "SELECT VALUE c.n FROM c WHERE c.pk = 'w' ORDER BY c.n";
  assert.deepEqual((await orders.items.query(query).fetchAll()).resources, [5, 7]);
  assert.deepEqual((await changesOf(orders, "w")).sort(), ["a", "c"]);
  const bulk = ["a", "c"].map((id) => ({ operationType: "Delete", id, partitionKey: "w" }));
  const deleted = await orders.items.executeBulkOperations(bulk);
  assert.deepEqual(deleted.map((one) => one.response.statusCode), [204, 204]);
  assert.deepEqual((await orders.items.readAll({ partitionKey: "w" }).fetchAll()).resources, []);
});

test("a data reader reads, and is refused every write by name", async () => {
  const orders = container(shop.reader);
  assert.equal((await orders.item("first", "p").read()).resource.n, 1);
  assert.deepEqual((await orders.items.query("SELECT VALUE c.id FROM c").fetchAll()).resources, ["first"]);
  assert.deepEqual(await changesOf(orders, "p"), ["first"]);
  const first = orders.item("first", "p");
  const changed = { id: "first", pk: "p", n: 2 };
  const created = { operationType: "Create", resourceBody: { id: "x", pk: "p" } };
  for (const [action, call] of [
    ["create", () => orders.items.create({ id: "x", pk: "p" })],
    ["replace", () => first.replace(changed)],
    ["upsert", () => orders.items.upsert(changed)],
    ["replace", () => first.patch([{ op: "set", path: "/n", value: 2 }])],
    ["delete", () => first.delete()],
    ["delete", () => orders.deleteAllItemsForPartitionKey("p")],
  ]) {
    const refusal = await fails(call(), 403, 5302);
    assert.ok(refusal.body.message.includes(refusalOf(action)), refusal.body.message);
  }
  // The SDK keeps nothing of a batch's refusal but its text.
  const batch = orders.items.batch([{ operationType: "Read", id: "first" }, created], "p");
  await assert.rejects(batch, ({ message }) => message.includes(refusalOf("create")));
  assert.equal((await first.read()).resource.n, 1);
});

const refusalOf = (action) =>
  `principal [${shop.reader}] does not have required RBAC permissions to perform action ` +
  `[${ACTIONS}items/${action}] on resource [dbs/${shop.id}/colls/orders]`;

test("management needs more than any data role", async () => {
  const client = connect(credential(shop.writer));
  const database = client.database(shop.id);
  const orders = database.container("orders");
  const code = { id: "t", body: "function () {}" };
  for (const call of [
    () => client.databases.create({ id: "none" }),
    () => database.delete(),
    () => database.containers.create({ id: "none", partitionKey: { paths: ["/pk"] } }),
    () => orders.delete(),
    () => orders.scripts.triggers.create({ ...code, triggerType: "Pre", triggerOperation: "All" }),
    () => orders.scripts.storedProcedures.create(code),
    () => database.users.create({ id: "u" }),
    () => client.offers.readAll().fetchAll(),
  ]) {
    const refusal = await fails(call(), 403, 5300);
    const expected = "cannot be authorized by AAD token in data plane";
    assert.ok(refusal.body.message.includes(expected), refusal.body.message);
  }
  // What it may read of the catalog.
  assert.equal((await orders.read()).resource.id, "orders");
  const listed = (await database.containers.readAll().fetchAll()).resources;
  assert.deepEqual(listed.map((one) => one.id).sort(), ["orders", "other"]);
});

test("a role at a container ends there", async () => {
  const own = container(shop.clerk);
  await own.items.create({ id: "own", pk: "c" });
  await own.item("own", "c").delete();
  const client = connect(credential(shop.clerk));
  const other = client.database(shop.id).container("other");
  // The SDK reads the container first.
  await fails(other.items.create({ id: "x", pk: "c" }), 403, 5301);
  await fails(client.database(shop.id).containers.readAll().fetchAll(), 403, 5301);
  await fails(client.databases.readAll().fetchAll(), 403, 5301);
});

test("a principal without a role and a key open nothing", async () => {
  const refusal = await fails(container(randomUUID()).item("first", "p").read(), 403, 5301);
  assert.ok(refusal.body.message.includes("readMetadata"), refusal.body.message);
  const byKey = connect(undefined, { key });
  const disabled = await fails(byKey.database(shop.id).container("orders").item("first", "p").read(), 401, 5202);
  assert.ok(disabled.body.message.includes("Local Authorization is disabled."), disabled.body.message);
});

test("an expired token and one for another audience are refused", async () => {
  const expired = container(shop.writer, "orders", { lifetime: -HOUR_S });
  await fails(expired.item("first", "p").read(), 401, 5006);
  const other = container(shop.writer, "orders", { scope: "https://cosmos.azure.com/.default" });
  await fails(other.item("first", "p").read(), 401, 5008);
});

test("the SDK asks for the scope of its setting, or for the endpoint's, and keeps the token", async () => {
  const own = credential(shop.reader);
  const orders = connect(own).database(shop.id).container("orders");
  for (let n = 0; n < 3; n++) assert.equal((await orders.item("first", "p").read()).resource.n, 1);
  assert.deepEqual(own.asked, [[SCOPE]]);
  const bare = credential(shop.reader);
  const unset = connect(bare, { aadScope: undefined }).database(shop.id).container("orders");
  await fails(unset.item("first", "p").read(), 401, 5008);
  assert.ok(bare.asked.flat().every((scope) => scope.startsWith(endpoint)), bare.asked);
});

test("the issuer changes its signing key while clients work", async () => {
  let old = container(shop.writer);
  await old.items.upsert({ id: "r", pk: "r", n: 0 });
  // Of both kinds in turn: RSA, then an elliptic curve, or the other way round.
  for (let n = 0; n < 2; n++) {
    assert.equal((await fetch(`${issuer}keys`, { method: "POST" })).status, 200);
    const renewed = await until(Boolean, signedIn, 30);
    assert.ok(renewed, "the new key is accepted");
    await old.items.upsert({ id: "r", pk: "r", n });
    await renewed.item("r", "r").patch([{ op: "incr", path: "/n", value: 10 }]);
    assert.equal((await old.item("r", "r").read()).resource.n, n + 10, "the old key is still published");
    assert.equal((await fetch(`${issuer}keys`, { method: "DELETE" })).status, 200);
    assert.ok(await until(Boolean, () => isUnknown(old), 30), "the old key is withdrawn");
    await renewed.item("r", "r").read();
    old = renewed;
  }
  await old.item("r", "r").delete();
});

/** A client with a token of the newest key, once the server has read the key set. */
async function signedIn() {
  const orders = container(shop.writer);
  return (await isUnknown(orders)) ? undefined : orders;
}

async function isUnknown(orders) {
  try {
    await orders.item("first", "p").read();
    return false;
  } catch (error) {
    assert.deepEqual([error.code, error.substatus], [401, 5200], error.message);
    return true;
  }
}
