// Embedding, with its bound as a fact that is checked: a person has at most ten addresses.
//
//     cd examples/modeling/javascript && npm install
//     node person_addresses.mjs

import { client, freshDatabase, read, refused, storeModel } from "./server.mjs";

const person = {
  container: "people",
  schema: { required: ["firstName", "lastName"], properties: { addresses: { maxItems: 10 } } },
  validation: { level: "moderate", action: "warn" },
};
const model = { version: 1, types: { person } };

const [people] = await freshDatabase("person-addresses", [["people", "/id"]]);
await storeModel("person-addresses", model);
const address = { line: "100 Some Street", city: "Seattle", zip: 98012 };
const thomas = { id: "1", firstName: "Thomas", lastName: "Andersen", addresses: Array(10).fill(address) };
await people.items.create(thomas);

thomas.addresses.push(address);
const { headers } = await people.item("1", "1").replace(thomas);
console.log("warn: written with", (await read(people, "1")).addresses.length, "addresses");
console.log("warning names the path:", headers["x-model-warnings"].includes("/addresses"));

person.validation = { level: "strict", action: "error" };
await storeModel("person-addresses", model);
thomas.addresses.push(address);
const { status, message } = await refused(() => people.item("1", "1").replace(thomas));
console.log(`error: ${status}, names the path: ${message.includes("/addresses")}`);
console.log("stored:", (await read(people, "1")).addresses.length, "addresses");
client.dispose();
