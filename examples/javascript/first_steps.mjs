// First steps: connect, make a container, store and read items, query, write a batch, follow changes.
//
//     cd examples/javascript && npm install
//     node first_steps.mjs

import { ChangeFeedStartFrom, CosmosClient } from "@azure/cosmos";

const endpoint = process.env.ORRERY_ENDPOINT ?? "http://localhost:8081/";
// The key that every emulator is known by; a server that listens on this machine only takes it.
const key =
  process.env.ORRERY_KEY ??
  "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

const planet = (name, au, moons) => ({ id: name.toLowerCase(), star: "Sun", kind: "planet", name, au, moons });
const moon = (name, planet) => ({ id: name.toLowerCase(), star: "Sun", kind: "moon", name, planet });
const create = (resourceBody) => ({ operationType: "Create", resourceBody });

// What was known before 1610, with the distance from the Sun in astronomical units.
const planets = [
  planet("Mercury", 0.39, 0),
  planet("Venus", 0.72, 0),
  planet("Earth", 1, 1),
  planet("Mars", 1.52, 0),
  planet("Jupiter", 5.2, 0),
  planet("Saturn", 9.58, 0),
];

// Connect. What an earlier run has left is removed.
const client = new CosmosClient({ endpoint, key });
await client.database("first-steps").delete().catch((error) => {
  if (error.code !== 404) throw error;
});

// A container needs a partition key: items that share its value can change in one transaction.
const { database } = await client.databases.create({ id: "first-steps" });
const { container: bodies } = await database.containers.create({ id: "bodies", partitionKey: "/star" });

// Items are JSON; `id` is the only property they must have.
for (const body of planets) await bodies.items.create(body);
console.log("stored:", planets.map(({ name }) => name).join(", "));

// The fastest way to an item is its id together with its partition key.
const { resource: earth } = await bodies.item("earth", "Sun").read();
console.log(`read: ${earth.name} has ${earth.moons} moon`);

// A query, with a parameter instead of pasted text.
const { resources: beyond } = await bodies.items
  .query(
    {
      query: "SELECT b.name, b.au FROM b WHERE b.kind = 'planet' AND b.au > @au ORDER BY b.au",
      parameters: [{ name: "@au", value: earth.au }],
    },
    { partitionKey: "Sun" },
  )
  .fetchAll();
console.log("beyond Earth:", beyond.map(({ name, au }) => `${name} ${au.toFixed(2)}`).join(", "));

// The change feed tells every change since the beginning, and where to go on.
async function changes(changeFeedStartFrom) {
  const iterator = bodies.items.getChangeFeedIterator({ changeFeedStartFrom });
  const found = [];
  for (;;) {
    const page = await iterator.readNext();
    if (page.statusCode === 304) return { found, position: page.continuationToken };
    found.push(...page.result);
  }
}
const first = await changes(ChangeFeedStartFrom.Beginning());
console.log(`change feed: ${first.found.length} changes`);

// Galileo looks at Jupiter: four moons and their count are written together, or not at all.
await bodies.items.batch(
  [
    ...["Io", "Europa", "Ganymede", "Callisto"].map((name) => create(moon(name, "jupiter"))),
    { operationType: "Replace", id: "jupiter", resourceBody: planet("Jupiter", 5.2, 4) },
  ],
  "Sun",
);
const { resource: jupiter } = await bodies.item("jupiter", "Sun").read();
console.log(`batch: ${jupiter.name} has ${jupiter.moons} moons`);

// Io is there already: the whole batch is refused, and nothing of it remains.
const { result } = await bodies.items.batch(
  [create(planet("Vulcan", 0.14, 0)), create(moon("Io", "jupiter"))],
  "Sun",
);
const refusal = result.find(({ statusCode }) => statusCode !== 424).statusCode;
const { resource: vulcan } = await bodies.item("vulcan", "Sun").read();
console.log(`batch refused with ${refusal}: there is ${vulcan ? "a" : "no"} Vulcan`);

// What has changed since.
const since = await changes(ChangeFeedStartFrom.Continuation(first.position));
console.log("change feed:", since.found.map(({ name }) => name).toSorted().join(", "));
client.dispose();
