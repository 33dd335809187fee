// Users, permissions, and clients that have nothing but a resource token.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, fails, scratch, unique } from "./server.mjs";

const place = await scratch();
const container = await place.container();
const user = (await place.database.users.create({ id: "ada" })).user;
for (const pk of ["a", "b"]) await container.items.create({ id: "1", pk, n: 1 });

const link = () => `dbs/${place.database.id}/colls/${container.id}`;

/** A client that holds a token for the container and nothing else. */
async function guest(permissionMode, resourcePartitionKey) {
  // A user has one permission per resource, so each guest is a user of its own.
  const { user: owner } = await place.database.users.create({ id: unique("guest") });
  const { resource } = await owner.permissions.create({
    id: "p",
    permissionMode,
    resource: link(),
    ...(resourcePartitionKey && { resourcePartitionKey }),
  });
  const client = connect({ resourceTokens: { [link()]: resource._token } });
  return client.database(place.database.id).container(container.id);
}

test("users are created, listed, renamed and deleted", async () => {
  const { user: byron } = await place.database.users.create({ id: "byron" });
  await fails(place.database.users.create({ id: "byron" }), 409);
  const { resources } = await place.database.users.readAll().fetchAll();
  assert.ok(resources.some(({ id }) => id === "byron"));
  const { resource } = await byron.replace({ id: "gordon" });
  assert.equal(resource.id, "gordon");
  const renamed = place.database.user("gordon");
  assert.equal((await renamed.delete()).statusCode, 204);
  await fails(renamed.read(), 404);
});

test("permissions are created, read, replaced, listed and deleted", async () => {
  const definition = { id: "p", permissionMode: "Read", resource: link() };
  const { permission, resource } = await user.permissions.create(definition);
  assert.match(resource._token, /^type=resource&ver=1(\.0)?&sig=/);
  assert.equal(resource.permissionMode, "Read");

  const { resource: read } = await permission.read();
  assert.equal(read.resource, resource.resource);
  await fails(user.permissions.create(definition), 409);

  const { resource: replaced } = await permission.replace({ ...definition, permissionMode: "All" });
  assert.equal(replaced.permissionMode, "All");
  const { resources } = await user.permissions.readAll().fetchAll();
  assert.deepEqual(resources.map(({ id }) => id), ["p"]);
  await permission.delete();
  await fails(permission.read(), 404);
});

test("a mode that does not exist is refused", async () => {
  const definition = { id: "bad", permissionMode: "Everything", resource: link() };
  await fails(user.permissions.create(definition), 400);
});

test("a token with all rights reads and writes its container", async () => {
  const items = await guest("All");
  await items.items.create({ id: "new", pk: "a" });
  assert.equal((await items.item("new", "a").read()).resource.id, "new");
  await items.item("new", "a").delete();
});

test("a token to read does not write", async () => {
  const items = await guest("Read");
  assert.equal((await items.item("1", "a").read()).resource.n, 1);
  assert.equal((await items.read()).statusCode, 200);
  await fails(items.items.create({ id: "new", pk: "a" }), 403);
  await fails(items.item("1", "a").replace({ id: "1", pk: "a", n: 2 }), 403);
  await fails(items.item("1", "a").delete(), 403);
  assert.equal((await container.item("1", "a").read()).resource.n, 1);
});

test("a token for one key does not see another", async () => {
  const items = await guest("All", ["a"]);
  assert.equal((await items.item("1", "a").read()).resource.n, 1);
  await fails(items.item("1", "b").delete(), 403);
  await fails(items.items.create({ id: "new", pk: "b" }), 403);
});

test("a token for one container does not open another", async () => {
  const { user: owner } = await place.database.users.create({ id: unique("stranger") });
  const permission = { id: "p", permissionMode: "All", resource: link() };
  const { resource } = await owner.permissions.create(permission);
  const other = await place.container();
  const otherLink = `dbs/${place.database.id}/colls/${other.id}`;
  const client = connect({ resourceTokens: { [otherLink]: resource._token } });
  const wrong = client.database(place.database.id).container(other.id);
  await fails(wrong.items.create({ id: "1", pk: "a" }), 403);
});

test("a token that was tampered with is refused", async () => {
  const { user: owner } = await place.database.users.create({ id: unique("forger") });
  const { resource } = await owner.permissions.create({
    id: "p",
    permissionMode: "Read",
    resource: link(),
  });
  const forged = resource._token.replace(/sig=(....)/, (_, start) =>
    start === "AAAA" ? "sig=BBBB" : "sig=AAAA",
  );
  const client = connect({ resourceTokens: { [link()]: forged } });
  const items = client.database(place.database.id).container(container.id);
  await assert.rejects(items.item("1", "a").read(), ({ code }) => code === 401 || code === 403);
});
