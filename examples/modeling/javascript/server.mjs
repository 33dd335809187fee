// What the programs here share: a client of the server, and the model of a database, which is no matter of the SDK:
// one signed request stores it, as `orrery model apply` does.

import { createHmac } from "node:crypto";
import { CosmosClient } from "@azure/cosmos";

const endpoint = (process.env.ORRERY_ENDPOINT ?? "http://localhost:8081/").replace(/\/$/, "");
// The key that every emulator is known by; a server that listens on this machine only takes it.
const key =
  process.env.ORRERY_KEY ??
  "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

export const client = new CosmosClient({ endpoint, key });

/** A database with these containers (name and path of the partition key), made anew. */
export async function freshDatabase(id, containers) {
  await client.database(id).delete().catch((error) => {
    if (error.code !== 404) throw error;
  });
  const { database } = await client.databases.create({ id });
  const made = [];
  for (const [name, path] of containers) {
    made.push((await database.containers.create({ id: name, partitionKey: path })).container);
  }
  return made;
}

/** PUT /dbs/{database}/_model, signed. */
export async function storeModel(database, model) {
  const [link, date] = [`dbs/${database}`, new Date().toUTCString()];
  const text = `put\n_model\n${link}\n${date.toLowerCase()}\n\n`;
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  const answer = await fetch(`${endpoint}/${link}/_model`, {
    method: "PUT",
    body: JSON.stringify(model),
    headers: {
      authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`),
      "x-ms-date": date,
      "content-type": "application/json",
    },
  });
  if (!answer.ok) throw new Error(`the model was refused: ${await answer.text()}`);
}

/** The status of an operation that must be refused, and what the server says. */
export async function refused(operation) {
  try {
    await operation();
  } catch (error) {
    return { status: error.code, message: error.body?.message ?? error.message };
  }
  throw new Error("it was not refused");
}

export async function read(container, id, options) {
  return (await container.item(id, id).read(options)).resource;
}

export async function allRows(container, query) {
  return (await container.items.query(query).fetchAll()).resources;
}
