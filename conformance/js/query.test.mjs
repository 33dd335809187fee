// Queries as the SDK sends them. What the language means is tested elsewhere; here it travels.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scratch } from "./server.mjs";

const place = await scratch();
const container = await place.container();
for (let n = 0; n < 12; n++) {
  await container.items.create({ id: `${n}`, pk: n % 2 ? "odd" : "even", n, tags: ["t", n] });
}

async function check(query, expected, options) {
  const { resources } = await container.items.query(query, options).fetchAll();
  assert.deepEqual(resources, expected);
}

test("a filter with parameters", async () => {
  const query = {
    query: "SELECT VALUE c.n FROM c WHERE c.n >= @low AND c.n < @high ORDER BY c.n",
    parameters: [
      { name: "@low", value: 3 },
      { name: "@high", value: 6 },
    ],
  };
  await check(query, [3, 4, 5]);
  await check(query, [3, 5], { partitionKey: "odd" });
});

test("order, offset and limit over all partitions", async () => {
  await check("SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 1 LIMIT 3", [10, 9, 8]);
  await check("SELECT TOP 2 VALUE c.id FROM c ORDER BY c.n", ["0", "1"]);
});

test("aggregates over all partitions", async () => {
  await check("SELECT VALUE COUNT(1) FROM c", [12]);
  await check("SELECT VALUE SUM(c.n) FROM c", [66]);
  await check("SELECT VALUE MAX(c.n) FROM c WHERE c.pk = 'even'", [10]);
});

test("projections, arrays and absent values", async () => {
  await check("SELECT c.id, c.missing FROM c WHERE c.n = 7", [{ id: "7" }]);
  await check("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 4", ["t", 4]);
});

test("pages of a query go on from a continuation token", async () => {
  const query = "SELECT VALUE c.n FROM c";
  const options = { maxItemCount: 5, partitionKey: "even" };
  const first = await container.items.query(query, options).fetchNext();
  assert.ok(first.resources.length <= 5);
  assert.ok(first.continuationToken);
  const rest = await container.items
    .query(query, { ...options, continuationToken: first.continuationToken })
    .fetchAll();
  const all = [...first.resources, ...rest.resources].toSorted((a, b) => a - b);
  assert.deepEqual(all, [0, 2, 4, 6, 8, 10]);
});

async function resumed(container, query, maxItemCount) {
  const found = [];
  let continuationToken;
  for (let pages = 0; pages < 100; pages++) {
    const options = { maxItemCount, enableQueryControl: true, continuationToken };
    const page = await container.items.query(query, options).fetchNext();
    found.push(...(page.resources ?? []));
    continuationToken = page.continuationToken;
    if (!continuationToken) return found;
  }
  throw new Error(`${query} has no end`);
}

test("an ordered query goes on from the token of every page", async () => {
  const wide = await place.container({ throughput: 30000 });
  for (let n = 0; n < 24; n++) {
    await wide.items.create({ id: `${n}`, pk: `${n}`, n, s: `s${String(n).padStart(2, "0")}` });
  }
  for (const [of, count] of [[container, 12], [wide, 24]]) {
    const up = Array.from({ length: count }, (_, n) => n);
    for (const size of [1, 3, 5]) {
      assert.deepEqual(await resumed(of, "SELECT VALUE c.n FROM c ORDER BY c.n", size), up);
      const down = await resumed(of, "SELECT VALUE c.n FROM c ORDER BY c.n DESC", size);
      assert.deepEqual(down, up.toReversed());
      const filtered = await resumed(of, "SELECT VALUE c.n FROM c WHERE c.n > 2 ORDER BY c.n", size);
      assert.deepEqual(filtered, up.slice(3));
    }
  }
  const texts = await resumed(wide, "SELECT VALUE c.s FROM c ORDER BY c.s DESC", 4);
  assert.deepEqual(texts, texts.toSorted().toReversed());
  assert.equal(texts.length, 24);
});

test("a query that cannot be parsed is refused with its place", async () => {
  const error = await fails(container.items.query("SELECT * FROM").fetchAll(), 400);
  assert.match(error.body.message, /SC1002/);
});

test("index metrics name the indexes that a query used, single and composite", async () => {
  const indexingPolicy = {
    compositeIndexes: [
      [
        { path: "/n", order: "ascending" },
        { path: "/id", order: "descending" },
      ],
    ],
  };
  const own = await place.container({ indexingPolicy });
  for (let n = 0; n < 40; n++) {
    await own.items.create({ id: `${n}`, pk: "one", n: n % 5 });
  }
  const options = { partitionKey: "one", populateIndexMetrics: true, maxItemCount: 5 };
  const metrics = async (query) => (await own.items.query(query, options).fetchNext()).indexMetrics;
  const ordered = await metrics("SELECT * FROM c ORDER BY c.n, c.id DESC");
  assert.match(ordered, /\/n ASC/);
  assert.match(ordered, /\/id DESC/);
  assert.match(await metrics("SELECT * FROM c WHERE c.n = 3"), /\/n\/\?/);
});
