// Referring instead of copying what changes often: a portfolio names its stocks, and a query reads the live price
// through the reference in one round trip.
//
//     cd examples/modeling/javascript && npm install
//     node portfolio.mjs

import { allRows, client, freshDatabase, read, refused, storeModel } from "./server.mjs";

const model = {
  version: 1,
  types: { person: { container: "people" }, stock: { container: "stocks" } },
  relations: [
    {
      name: "stock",
      from: "person",
      path: "/holdings/*/stockId",
      to: "stock",
      coerce: "string",
      onMissing: "reject",
      onDelete: "restrict",
    },
  ],
};
const query = "SELECT VALUE h.numberHeld * h.stock.high FROM p JOIN h IN p.holdings WHERE p.id = '1'";
const value = async () => (await allRows(people, query)).reduce((sum, each) => sum + each, 0);

const [people, stocks] = await freshDatabase("portfolio", [["people", "/id"], ["stocks", "/id"]]);
await storeModel("portfolio", model);
for (let n = 1; n <= 20; n += 1) await stocks.items.create({ id: `${n}`, symbol: `S${n}`, high: 10 * n });
// The reference is a number and ids are strings: "coerce" makes them meet.
const holdings = Array.from({ length: 20 }, (_, n) => ({ numberHeld: 2, stockId: n + 1 }));
const { resource: person } = await people.items.create({ id: "1", firstName: "Thomas", holdings });
console.log("value:", await value());

// The price changes: one write, and no portfolio is touched.
await stocks.item("1", "1").replace({ id: "1", symbol: "S1", high: 1000 });
console.log("value at the new price:", await value());
console.log("portfolio unchanged:", (await read(people, "1"))._etag === person._etag);

// An item with what it refers to, read whole and saved back: it is the same item.
const whole = await read(people, "1", { initialHeaders: { "x-model-expand": "stock(high)" } });
console.log("expanded:", whole.holdings[0].stock.high);
await people.item("1", "1").replace(whole);
console.log("saved back without it:", !("stock" in (await read(people, "1")).holdings[0]));

person.holdings.push({ numberHeld: 1, stockId: 99 });
const { status, message } = await refused(() => people.item("1", "1").replace(person));
const named = message.includes("/holdings/*/stockId") && message.includes("99");
console.log(`stock 99: ${status}, names path and value: ${named}`);
const held = await refused(() => stocks.item("1", "1").delete());
console.log(`delete of a held stock: ${held.status}`);
client.dispose();
