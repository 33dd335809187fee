// Unique keys: no two items of one logical partition share the values.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container({
  uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }, { paths: ["/first", "/last"] }] },
});

const person = (id, pk, email, last = id) => ({ id, pk, email, first: "Ada", last });

test("a second item with the same value is refused, in one partition", async () => {
  await container.items.create(person("1", "create", "a@x"));
  await fails(container.items.create(person("2", "create", "a@x")), 409);
  assert.equal((await container.item("2", "create").read()).statusCode, 404);
  await container.items.create(person("2", "other", "a@x"));
});

test("all paths of a key count together", async () => {
  await container.items.create(person("1", "both", "1@x", "Lovelace"));
  await fails(container.items.create(person("2", "both", "2@x", "Lovelace")), 409);
  await container.items.create(person("2", "both", "2@x", "Byron"));
});

test("replace, upsert and patch keep the rule", async () => {
  await container.items.create(person("1", "change", "1@x"));
  await container.items.create(person("2", "change", "2@x"));
  const second = container.item("2", "change");
  await fails(second.replace(person("2", "change", "1@x")), 409);
  await fails(container.items.upsert(person("2", "change", "1@x")), 409);
  await fails(second.patch([{ op: "set", path: "/email", value: "1@x" }]), 409);
  assert.equal((await second.read()).resource.email, "2@x");
  await second.replace(person("2", "change", "2@x"));
});

test("a value is free again when its item is gone or changed", async () => {
  await container.items.create(person("1", "free", "1@x"));
  await container.item("1", "free").replace(person("1", "free", "one@x"));
  await container.items.create(person("2", "free", "1@x"));
  await container.item("2", "free").delete();
  await container.items.create(person("3", "free", "1@x"));
});

test("a missing value counts like any other", async () => {
  await container.items.create({ id: "1", pk: "missing", first: "A", last: "A" });
  await fails(container.items.create({ id: "2", pk: "missing", first: "B", last: "B" }), 409);
});

test("of many concurrent creates exactly one wins", async () => {
  const creates = Array.from({ length: 12 }, (_, n) =>
    container.items.create(person(`c${n}`, "race", "same@x")),
  );
  const outcomes = await Promise.allSettled(creates);
  assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
});
