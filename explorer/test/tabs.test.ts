import { beforeEach, expect, it } from "vitest";
import { titlesOf } from "../src/state/tab-titles";
import { type Route, activeAddress, addressOf, close, closeTabs, open, readTabs, routeOf, tabs, writeTabs } from "../src/state/tabs";

const items = (database: string, container: string): Route => ({ kind: "items", database, container });
const script = (container: string, scripts: "sprocs" | "triggers", name: string): Route => ({ kind: "script", database: "shop", container, scripts, script: name });

beforeEach(closeTabs);

it("an address leads to the route it was made of", () => {
  const routes: Route[] = [
    { kind: "metrics" }, { kind: "nodes" }, { kind: "roles" }, { kind: "model", database: "a/b" }, items("ü ä", "#?"), { kind: "query", database: "d", container: "c" }, script("c", "triggers", "x/y"),
  ];
  for (const route of routes) expect(routeOf(addressOf(route))).toEqual(route);
  for (const address of ["", "#/", "#/items/only", "#/nothing/a/b", "#/items/%E0%A4%A/c"]) expect(routeOf(address), address).toBeNull();
});

it("titles are short, and longer where two would be the same", () => {
  const check = (routes: Route[], titles: string[]) => expect(titlesOf(routes)).toEqual(titles);
  check([items("shop", "orders"), { kind: "query", database: "shop", container: "orders" }], ["orders", "orders query"]);
  check([items("shop", "orders"), items("archive", "orders"), items("shop", "users")], ["shop / orders", "archive / orders", "users"]);
  check([{ kind: "database", database: "orders" }, items("shop", "orders")], ["orders database", "shop / orders"]);
  check([script("a", "sprocs", "x"), script("b", "sprocs", "x")], ["a / x", "b / x"]);
  check([script("a", "sprocs", "x"), script("a", "triggers", "x")], ["shop / a / x procedure", "shop / a / x trigger"]);
  check([script("a", "sprocs", ""), script("a", "triggers", "")], ["New procedure", "New trigger"]);
});

it("titles of any tabs are all different", () => {
  const names = ["a", "b", "a / b"];
  const routes = names.flatMap((database) => names.flatMap((container): Route[] => [
    items(database, container), { kind: "query", database, container }, script(container, "sprocs", database), script(container, "triggers", database),
  ]));
  const titles = titlesOf(routes.slice(0, 8));
  expect(new Set(titles).size).toBe(titles.length);
});

it("tabs are written down and read again, and what is no tab is passed over", () => {
  open(items("shop", "orders"));
  open({ kind: "metrics" });
  const text = writeTabs();
  closeTabs();
  readTabs(text);
  expect(tabs.value.map(({ address }) => address)).toEqual(["#/items/shop/orders", "#/metrics"]);
  expect(activeAddress.value).toBeNull();
  closeTabs();
  for (const wrong of ["", "null", "{}", '[1, "#/nothing", "#/metrics", "#/metrics"]']) readTabs(wrong);
  expect(tabs.value.map(({ address }) => address)).toEqual(["#/metrics"]);
});

it("closing the active tab shows its neighbour, and the last one home", () => {
  open(items("shop", "a"));
  open(items("shop", "b"));
  open(items("shop", "c"));
  close("#/items/shop/c");
  expect(activeAddress.value).toBe("#/items/shop/b");
  close("#/items/shop/a");
  expect(activeAddress.value).toBe("#/items/shop/b");
  close("#/items/shop/b");
  expect(activeAddress.value).toBeNull();
});
