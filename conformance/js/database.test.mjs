// Databases: create, read, list, query, delete.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, fails, unique } from "./server.mjs";

const client = connect();

test("a database is created, read and deleted", async () => {
  const id = unique("db");
  const created = await client.databases.create({ id });
  assert.equal(created.statusCode, 201);
  assert.equal(created.resource.id, id);
  for (const name of ["_rid", "_self", "_etag", "_ts", "_colls", "_users"]) {
    assert.ok(name in created.resource, name);
  }
  const read = await created.database.read();
  assert.equal(read.statusCode, 200);
  assert.deepEqual(read.resource, created.resource);

  assert.equal((await created.database.delete()).statusCode, 204);
  await fails(created.database.read(), 404);
  await fails(created.database.delete(), 404);
});

test("a database that exists is not created again", async () => {
  const id = unique("db");
  const { database } = await client.databases.create({ id });
  await fails(client.databases.create({ id }), 409);
  assert.equal((await client.databases.createIfNotExists({ id })).statusCode, 200);
  await database.delete();
});

test("ids are compared with regard to case", async () => {
  const id = unique("Case");
  const { database: upper } = await client.databases.create({ id });
  const { database: lower } = await client.databases.create({ id: id.toLowerCase() });
  await upper.delete();
  assert.equal((await lower.read()).resource.id, id.toLowerCase());
  await lower.delete();
});

test("an id may hold blanks and letters of any language", async () => {
  const id = unique("день 日 é + %20 &=");
  const { database } = await client.databases.create({ id });
  assert.equal((await client.database(id).read()).resource.id, id);
  const { container } = await database.containers.create({ id, partitionKey: "/pk" });
  assert.equal((await container.read()).resource.id, id);
  await database.delete();
});

test("databases are listed and queried", async () => {
  const ids = [unique("list"), unique("list")].sort();
  for (const id of ids) await client.databases.create({ id });
  const { resources: all } = await client.databases.readAll().fetchAll();
  const listed = all.map(({ id }) => id).filter((id) => ids.includes(id));
  assert.deepEqual(listed.sort(), ids);

  const query = {
    query: "SELECT * FROM root r WHERE r.id = @id",
    parameters: [{ name: "@id", value: ids[0] }],
  };
  const { resources: found } = await client.databases.query(query).fetchAll();
  assert.deepEqual(found.map(({ id }) => id), [ids[0]]);
  for (const id of ids) await client.database(id).delete();
});

test("deleting a database deletes what is in it", async () => {
  const id = unique("db");
  const { database } = await client.databases.create({ id });
  const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
  await container.items.create({ id: "1", pk: "a" });
  await database.delete();
  const { database: again } = await client.databases.create({ id });
  const { resources } = await again.containers.readAll().fetchAll();
  assert.deepEqual(resources, []);
  await again.delete();
});
