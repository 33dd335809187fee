// A shop with a model that leaves something to find: a link that is not declared, and a property of two types.
import type { Client } from "../src/protocol/client";
import type { JsonObject } from "../src/protocol/json";
import { storeModel } from "../src/protocol/model";
import { create } from "../src/protocol/resources";
import { dropDatabase, makeContainer } from "./browser";

const CITIES = ["Delft", "Porto", "Uppsala", "Ghent", "Graz"];
const THINGS = ["lamp", "chair", "kettle", "clock", "shelf", "mirror", "rug", "stool"];

const many = (count: number, item: (n: number) => JsonObject) => Array.from({ length: count }, (_, n) => item(n));
const noise = (n: number, below: number) => (n * 7919 + 104729) % below;

const CUSTOMERS = many(40, (n) => ({ id: `c${n}`, name: `Customer ${n}`, city: CITIES[n % CITIES.length]!, email: `c${n}@shop.example` }));
const SUPPLIERS = many(12, (n) => ({ id: `s${n}`, type: "supplier", name: `Supplier ${n}`, country: ["NL", "PT", "SE"][n % 3]! }));
const PRODUCTS = many(60, (n) => ({
  id: `p${n}`, type: "product", title: `${THINGS[n % THINGS.length]} ${n}`, price: 5 + noise(n, 200), supplierId: `s${noise(n, 12)}`, tags: ["home"],
}));
const ORDERS = many(120, (n) => ({
  id: `o${n}`, type: "order", customerId: `c${noise(n, 40)}`, productId: `p${noise(n, 60)}`,
  total: n % 2 === 0 ? 10 + noise(n, 90) : `${10 + noise(n, 90)}`, placed: `2026-0${1 + (n % 9)}-1${n % 10}`,
}));
const REVIEWS = many(80, (n) => ({ id: `r${n}`, type: "review", productId: `p${noise(n, 60)}`, customerId: `c${noise(n, 40)}`, stars: 1 + (n % 5), text: "…" }));

const MODEL: JsonObject = {
  version: 1,
  types: {
    customer: { container: "customers" },
    product: { container: "catalog", where: "c.type = 'product'" },
    order: { container: "orders", where: "c.type = 'order'" },
    review: { container: "orders", where: "c.type = 'review'" },
  },
  relations: [
    { name: "customer", from: "order", path: "/customerId", to: "customer", onMissing: "reject", onDelete: "restrict", copies: { customerName: "t.name" }, inverse: { name: "orders" } },
    { name: "product", from: "order", path: "/productId", to: "product", onMissing: "reject", onDelete: "restrict" },
    { name: "about", from: "review", path: "/productId", to: "product", onMissing: "reject", onDelete: "cascade", inverse: { name: "reviews" } },
  ],
  aggregates: [
    { on: "customer", path: "/countOfOrders", of: "orders", value: "COUNT(1)", propagate: "sync" },
    { on: "product", path: "/countOfReviews", of: "reviews", value: "COUNT(1)", propagate: "sync" },
  ],
};

export const SHOP = "corner-shop";

/** Makes it anew: the model first, so that every item comes under it. */
export async function makeShop(client: Client): Promise<void> {
  await dropDatabase(client, SHOP);
  for (const container of ["customers", "catalog", "orders"]) await makeContainer(client, SHOP, container, ["/id"]);
  await storeModel(client, SHOP, MODEL, null);
  const fill = async (container: string, items: JsonObject[]) => {
    for (const item of items) await create(client, ["dbs", SHOP, "colls", container, "docs"], item);
  };
  await fill("customers", CUSTOMERS);
  await fill("catalog", [...SUPPLIERS, ...PRODUCTS]);
  await fill("orders", [...ORDERS, ...REVIEWS]);
}
