// Triggers: they run when a write names them, within it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch, unique } from "./server.mjs";

const place = await scratch();
const container = await place.container();
const { triggers } = container.scripts;

async function trigger(body, triggerType = "Pre", triggerOperation = "All") {
  const { resource } = await triggers.create({ id: unique("t"), body, triggerType, triggerOperation });
  return resource.id;
}

const exists = async (id, pk = "a") => (await container.item(id, pk).read()).statusCode === 200;

test("triggers are created, read, replaced, listed and deleted", async () => {
  const definition = { id: "crud", body: "function () {}", triggerType: "Pre", triggerOperation: "All" };
  const { resource, trigger: client } = await triggers.create(definition);
  assert.deepEqual([resource.triggerType, resource.triggerOperation], ["Pre", "All"]);
  assert.equal((await client.read()).resource.body, "function () {}");
  const { resource: replaced } = await client.replace({ ...definition, triggerOperation: "Delete" });
  assert.equal(replaced.triggerOperation, "Delete");
  assert.ok((await triggers.readAll().fetchAll()).resources.some(({ id }) => id === "crud"));
  await client.delete();
  await fails(client.read(), 404);
  await fails(triggers.create({ id: "half", body: "function () {}", triggerType: "Pre" }), 400);
});

test("a trigger before a write changes the item", async () => {
  const stamp = await trigger(function () {
    const request = getContext().getRequest();
    const item = request.getBody();
    item.stamped = request.getOperationType();
    request.setBody(item);
  });
  const created = await container.items.create({ id: "1", pk: "a" }, { preTriggerInclude: [stamp] });
  assert.equal(created.resource.stamped, "Create");
  const replaced = await container.item("1", "a").replace({ id: "1", pk: "a" }, { preTriggerInclude: [stamp] });
  assert.equal(replaced.resource.stamped, "Replace");
  const upserted = await container.items.upsert({ id: "1", pk: "a" }, { preTriggerInclude: [stamp] });
  assert.equal(upserted.resource.stamped, "Upsert");
  assert.equal((await container.items.create({ id: "2", pk: "a" })).resource.stamped, undefined);
});

test("a trigger after a write sees it and writes with it", async () => {
  const count = await trigger(function () {
    const made = getContext().getResponse().getBody();
    __.upsertDocument(__.getSelfLink(), { id: "last", pk: made.pk, of: made.id, etag: made._etag });
  }, "Post");
  const { resource } = await container.items.create({ id: "3", pk: "a" }, { postTriggerInclude: [count] });
  const last = (await container.item("last", "a").read()).resource;
  assert.deepEqual([last.of, last.etag], ["3", resource._etag]);
});

test("a trigger that throws undoes the write", async () => {
  const never = await trigger("function () { throw new Error(417, 'never') }", "Post");
  const error = await fails(container.items.create({ id: "4", pk: "a" }, { postTriggerInclude: [never] }), 400, 417);
  assert.match(error.body.message, /never/);
  assert.ok(!(await exists("4")));
  await container.items.create({ id: "5", pk: "a" });
  await fails(container.item("5", "a").delete({ postTriggerInclude: [never] }), 400);
  assert.ok(await exists("5"));
});

test("a trigger refuses a dangling reference", async () => {
  const hasAuthor = await trigger(function () {
    const book = getContext().getRequest().getBody();
    __.readDocument(`${__.getAltLink()}/docs/${book.author}`, (error) => {
      if (error) throw new Error(error.number, `There is no author ${book.author}.`);
    });
  });
  const options = { preTriggerInclude: [hasAuthor] };
  await fails(container.items.create({ id: "book", pk: "a", author: "ada" }, options), 400, 404);
  await container.items.create({ id: "ada", pk: "a" });
  assert.equal((await container.items.create({ id: "book", pk: "a", author: "ada" }, options)).statusCode, 201);
});

test("a trigger runs for what it is meant, and when", async () => {
  const onDelete = await trigger("function () {}", "Post", "Delete");
  const item = { id: "6", pk: "a" };
  await fails(container.items.create(item, { postTriggerInclude: [onDelete] }), 400);
  await fails(container.items.create(item, { preTriggerInclude: [onDelete] }), 400);
  await fails(container.items.create(item, { preTriggerInclude: ["none"] }), 400);
  assert.ok(!(await exists("6")));
  await container.items.create(item);
  assert.equal((await container.item("6", "a").delete({ postTriggerInclude: [onDelete] })).statusCode, 204);
});
