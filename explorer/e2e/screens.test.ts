// Every screen, light and dark, wide and narrow, with the demo loaded: pictures for people to look at, nothing
// that is cut off at the side, and nothing serious that axe-core holds against it.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Client } from "../src/protocol/client";
import { create, listAll } from "../src/protocol/resources";
import { loadDemo, readDemo } from "../src/state/demo";
import { type Browser, ENDPOINT, connect, directClient, dropDatabase, editor, pictureFailures, retype, screen, startBrowser } from "./browser";
import { answerWithNodes } from "./nodes-answer";
import { SHOP, makeShop } from "./shop";

const PROCEDURE = "function addAll(amounts) {\n  getContext().getResponse().setBody(amounts.reduce((sum, amount) => sum + amount, 0));\n}\n";

interface Screen {
  name: string;
  /** The part of the address behind `#/`. */
  route: string;
  /** What is there when the screen is. */
  ready: (page: Page) => Promise<unknown>;
}

const seen = (page: Page, selector: string) => page.locator(selector).locator("visible=true").first().waitFor();
const shown = (page: Page, text: string | RegExp) => page.getByText(text).locator("visible=true").first().waitFor();
const press = (page: Page, name: string | RegExp) => page.getByRole("button", { name }).locator("visible=true").first().click();
const ran = async (page: Page, text: string) => {
  await retype(page, "Query", text);
  await page.keyboard.press("Escape");
  await editor(page, "Query").press("Control+Enter");
  await seen(page, ".results");
};
const face = (page: Page, name: string) => page.getByRole("tab", { name, exact: true }).locator("visible=true").click();
const GROUPED = "SELECT c.stars, COUNT(1) AS reviews\nFROM c\nWHERE c.type = 'review'\nGROUP BY c.stars";

const SCREENS: Screen[] = [
  { name: "home", route: "", ready: (page) => shown(page, "The demo, before and after a model") },
  { name: "database", route: "database/demo-library", ready: (page) => shown(page, "Delete database…") },
  { name: "items", route: `items/${SHOP}/orders`, ready: (page) => seen(page, ".grid tbody tr") },
  { name: "item", route: `items/${SHOP}/orders`, ready: async (page) => {
    await page.locator(".grid tbody tr").locator("visible=true").first().click();
    await seen(page, '[data-label="Item"]');
  } },
  { name: "query", route: `query/${SHOP}/orders`, ready: (page) => ran(page, "SELECT c.id, c.customerName, c.placed FROM c WHERE c.placed > '2026-06' ORDER BY c.placed DESC") },
  { name: "query-plan", route: `query/${SHOP}/orders`, ready: (page) => face(page, "Plan") },
  { name: "query-chart", route: `query/${SHOP}/orders`, ready: async (page) => {
    await ran(page, GROUPED);
    await face(page, "Chart");
  } },
  { name: "query-statistics", route: `query/${SHOP}/orders`, ready: (page) => face(page, "Statistics") },
  { name: "changes", route: `feed/${SHOP}/orders`, ready: async (page) => {
    await press(page, "From the beginning");
    await seen(page, ".feed-row");
  } },
  { name: "container", route: `settings/${SHOP}/orders`, ready: (page) => shown(page, "Delete container…") },
  { name: "script", route: `script/${SHOP}/orders/sprocs/addAll`, ready: (page) => seen(page, ".cm-content") },
  { name: "users", route: `users/${SHOP}`, ready: (page) => shown(page, "reader") },
  { name: "model", route: "model/demo-library", ready: (page) => seen(page, ".model-box") },
  { name: "model-findings", route: `model/${SHOP}`, ready: (page) => page.getByRole("article").locator("visible=true").first().waitFor() },
  { name: "model-document", route: "model/demo-library", ready: (page) => face(page, "Document") },
  { name: "roles", route: "roles", ready: (page) => shown(page, /Data Reader/) },
  { name: "nodes-alone", route: "nodes", ready: (page) => shown(page, "This server is the only process of its store.") },
  { name: "nodes", route: "nodes", ready: async (page) => {
    await answerWithNodes(page);
    await page.getByRole("button", { name: "11 jobs of node 1" }).click();
    await shown(page, "1 account, 1 model, 9 containers");
  } },
  { name: "metrics", route: "metrics", ready: (page) => seen(page, ".plot-area path") },
];

const DIALOGS: Screen[] = [
  { name: "new-database", route: "", ready: (page) => press(page, "New database") },
  { name: "load-demo", route: "", ready: async (page) => {
    await press(page, "Load the demo");
    await shown(page, "demo-library");
  } },
  { name: "new-container", route: "", ready: (page) => press(page, `New container in ${SHOP}`) },
  { name: "import", route: `items/${SHOP}/orders`, ready: (page) => press(page, "Import") },
  { name: "relation", route: "model/demo-library", ready: async (page) => {
    await face(page, "Picture");
    await press(page, "Relation");
  } },
];

let client: Client;
let browser: Browser;
pictureFailures(() => browser);

beforeAll(async () => {
  client = await directClient();
  for (const demo of await readDemo()) await loadDemo(client, demo);
  await makeShop(client);
  await create(client, ["dbs", SHOP, "colls", "orders", "sprocs"], { id: "addAll", body: PROCEDURE });
  await create(client, ["dbs", SHOP, "users"], { id: "reader" });
  await create(client, ["dbs", SHOP, "users", "reader", "permissions"], { id: "reads", permissionMode: "Read", resource: `dbs/${SHOP}/colls/orders` });
});
afterAll(async () => {
  for (const { id } of await listAll(client, ["dbs"])) {
    if (String(id).startsWith("demo-") || id === SHOP) await dropDatabase(client, String(id));
  }
});

/** How far the page is wider than its window; what is wider scrolls in a place of its own. */
const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

it("the picture of README and of the Explorer's page", async () => {
  browser = await startBrowser({ width: 1400, height: 720 });
  const { page } = browser;
  await connect(page);
  await page.getByRole("treeitem", { name: SHOP, exact: true }).click();
  await page.getByRole("treeitem", { name: "Model", exact: true }).click();
  await page.getByRole("article", { name: /^Weak link/ }).waitFor();
  await screen(page, "readme");
  expect([await overflow(page), browser.complaints, browser.strangers]).toEqual([0, [], []]);
  await browser.close();
});

for (const [look, width, height, colorScheme] of [
  ["wide-light", 1360, 860, "light"], ["wide-dark", 1360, 860, "dark"], ["narrow-light", 390, 800, "light"], ["narrow-dark", 390, 800, "dark"],
] as const) {
  describe(look, () => {
    beforeAll(async () => {
      browser = await startBrowser({ width, height, colorScheme });
    });
    afterAll(() => browser.close());

    it("connect", async () => {
      const { page } = browser;
      await page.goto(`${ENDPOINT}_explorer/`);
      await page.getByLabel("Key or connection string").waitFor();
      await screen(page, `connect-${look}`);
      expect([await overflow(page), browser.complaints, browser.strangers]).toEqual([0, [], []]);
      await connect(page);
      await page.locator(".workspace").waitFor();
    });

    it.each(SCREENS)("$name", async ({ name, route, ready }) => {
      const { page } = browser;
      await page.goto(`${ENDPOINT}_explorer/#/${route}`);
      await ready(page);
      await screen(page, `${name}-${look}`);
      expect([await overflow(page), browser.complaints, browser.strangers]).toEqual([0, [], []]);
    });

    it.each(DIALOGS)("$name", async ({ name, route, ready }) => {
      const { page } = browser;
      await page.goto(`${ENDPOINT}_explorer/#/${route}`);
      await ready(page);
      await page.getByRole("dialog").waitFor();
      await screen(page, `${name}-${look}`);
      expect([await overflow(page), browser.complaints]).toEqual([0, []]);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    });
  });
}
