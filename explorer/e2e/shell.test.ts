import { afterAll, beforeAll, expect, it } from "vitest";
import type { Client } from "../src/protocol/client";
import { type Browser, ENDPOINT, connect, directClient, dropDatabase, editor, makeContainer, pictureFailures, retype, screen, startBrowser } from "./browser";

const DATABASES = ["explorer-shell-a", "explorer-shell-b"];
let browser: Browser;
let client: Client;
pictureFailures(() => browser);

beforeAll(async () => {
  client = await directClient();
  for (const database of DATABASES) {
    await dropDatabase(client, database);
    await makeContainer(client, database, "orders", ["/kind"], [{ id: "1", kind: "a" }, { id: "2", kind: "b" }]);
  }
  browser = await startBrowser();
  await connect(browser.page);
  await browser.page.getByRole("tree").waitFor();
});
afterAll(async () => {
  await browser?.close();
  for (const database of DATABASES) await dropDatabase(client, database);
});

const go = (route: string) => browser.page.goto(`${ENDPOINT}_explorer/#/${route}`);
const tab = (name: string) => browser.page.getByRole("tablist", { name: "Open tabs" }).getByRole("tab", { name, exact: true });
const tabNames = () => browser.page.getByRole("tablist", { name: "Open tabs" }).getByRole("tab").allInnerTexts();

it("a query tab opens with the focus in its editor, and a key runs it", async () => {
  const { page } = browser;
  await go(`query/${DATABASES[0]}/orders`);
  await editor(page, "Query").waitFor();
  await page.keyboard.press("Control+Enter");
  await expect.poll(() => page.locator(".results .grid tbody tr").count()).toBe(2);
});

it("rows are marked when the text has changed since they were read", async () => {
  const { page } = browser;
  const note = page.getByText("The query has changed since these rows were read.");
  await expect.poll(() => note.count()).toBe(0);
  await retype(page, "Query", "SELECT c.id FROM c WHERE c.id = '2'");
  await note.waitFor();
  await screen(page, "query-outdated");
  await page.getByRole("button", { name: "Run it again" }).click();
  await expect.poll(() => page.locator(".results .grid tbody tr").count()).toBe(1);
  await expect.poll(() => note.count()).toBe(0);
});

it("tabs of the same name in two databases are told apart", async () => {
  await go(`items/${DATABASES[0]}/orders`);
  await tab("orders").waitFor();
  await go(`items/${DATABASES[1]}/orders`);
  await tab("explorer-shell-b / orders").waitFor();
  expect(await tabNames()).toEqual(["orders query", "explorer-shell-a / orders", "explorer-shell-b / orders"]);
});

it("tabs and a text that was never run survive a reload", async () => {
  const { page } = browser;
  await tab("orders query").click();
  await retype(page, "Query", "SELECT c.neverRun FROM c");
  await tab("explorer-shell-b / orders").click();
  await page.reload();
  await tab("explorer-shell-b / orders").waitFor();
  expect(await tabNames()).toEqual(["orders query", "explorer-shell-a / orders", "explorer-shell-b / orders"]);
  await expect.poll(() => tab("explorer-shell-b / orders").getAttribute("aria-selected")).toBe("true");
  await tab("orders query").click();
  await expect.poll(() => editor(page, "Query").innerText()).toBe("SELECT c.neverRun FROM c");
});

it("tabs are walked, and closed with the keyboard", async () => {
  const { page } = browser;
  await tab("orders query").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toContain(`#/items/${DATABASES[0]}/orders`);
  await page.keyboard.press("Delete");
  await expect.poll(tabNames).toEqual(["orders query", "orders"]);
});

it("tabs that do not fit are in a menu", async () => {
  const { page } = browser;
  await expect.poll(() => page.getByRole("button", { name: "All tabs" }).count()).toBe(0);
  for (const kind of ["settings", "feed", "query"]) for (const database of DATABASES) await go(`${kind}/${database}/orders`);
  for (const kind of ["users", "model", "database"]) for (const database of DATABASES) await go(`${kind}/${database}`);
  await page.getByRole("button", { name: "All tabs" }).click();
  await screen(page, "tabs-menu");
  await page.getByRole("group", { name: "All tabs" }).getByRole("button").first().click();
  await expect.poll(() => page.url()).toContain("#/query/");
  await page.getByRole("group", { name: "All tabs" }).waitFor({ state: "detached" });
});

it("the tree is searched", async () => {
  const { page } = browser;
  const search = page.getByLabel("Search databases and containers");
  await search.fill("SHELL-B");
  await expect.poll(() => page.getByRole("treeitem").allInnerTexts()).toEqual(["explorer-shell-b", "orders"]);
  await page.getByRole("treeitem", { name: "orders" }).click();
  await expect.poll(() => page.url()).toContain("#/items/explorer-shell-b/orders");
  await search.fill("no such thing");
  await page.getByRole("treeitem", { name: "Nothing of this name" }).waitFor();
  await search.fill("");
  await page.getByRole("treeitem", { name: "explorer-shell-a", exact: true }).waitFor();
});

it("the request log is opened, and closed in every way one tries", async () => {
  const { page } = browser;
  const toggle = page.locator("footer button").last();
  const log = page.getByRole("region", { name: "Request log" });
  const ways = [
    () => page.getByRole("button", { name: "Close the request log" }).click(),
    () => page.keyboard.press("Escape"),
    () => page.locator(".topbar").click({ position: { x: 300, y: 10 } }),
    () => toggle.click(),
  ];
  for (const way of ways) {
    await toggle.click();
    await log.waitFor();
    await way();
    await log.waitFor({ state: "detached" });
  }
  await toggle.click();
  await screen(page, "request-log");
  await page.keyboard.press("Escape");
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
