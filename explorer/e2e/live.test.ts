import { afterAll, beforeAll, expect, it } from "vitest";
import type { Client } from "../src/protocol/client";
import { create, createItem, deleteItem, replaceItem } from "../src/protocol/resources";
import { type Browser, ENDPOINT, connect, directClient, dropDatabase, makeContainer, pictureFailures, screen, startBrowser } from "./browser";

const DATABASE = "explorer-live";
let browser: Browser;
let client: Client;
pictureFailures(() => browser);

beforeAll(async () => {
  client = await directClient();
  await dropDatabase(client, DATABASE);
  await makeContainer(client, DATABASE, "events", ["/kind"], [{ id: "old", kind: "a" }]);
  browser = await startBrowser({ colorScheme: "dark" });
  await connect(browser.page);
  await browser.page.getByRole("tree").waitFor();
});
afterAll(async () => {
  await browser?.close();
  await dropDatabase(client, DATABASE);
});

it("metrics are plotted as they come, after those of the last hour", async () => {
  const { page } = browser;
  const history = page.waitForResponse((response) => response.url().endsWith("/metrics/history"));
  await page.getByRole("button", { name: "Metrics" }).click();
  const { readings } = (await (await history).json()) as { readings: unknown[] };
  expect(readings.length).toBeGreaterThan(0);
  await page.getByRole("radio", { name: "Live" }).check();
  const legend = page.locator(".plot").filter({ hasText: "Operations" }).locator(".legend");
  await expect.poll(async () => {
    await Promise.all(Array.from({ length: 40 }, () => client.send({ method: "GET", segments: ["dbs", DATABASE] })));
    return legend.innerText();
  }, { timeout: 20_000 }).toContain("database");
  await screen(page, "metrics-dark");
});

it("dark and light follow the person's choice", async () => {
  const { page } = browser;
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await paper()).toBe("rgb(18, 21, 27)");
  await page.getByRole("button", { name: "Colours: system" }).click();
  await expect.poll(paper).toBe("rgb(251, 250, 247)");
  await page.getByRole("button", { name: "Colours: light" }).click();
  await expect.poll(paper).toBe("rgb(18, 21, 27)");
});

it("users are given permissions, and their tokens are copied", async () => {
  const { page } = browser;
  await page.goto(`${ENDPOINT}_explorer/#/users/${DATABASE}`);
  await page.getByRole("button", { name: "New user" }).click();
  await page.getByLabel("Name").fill("tycho");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("button", { name: "tycho", exact: true }).click();
  await page.getByRole("button", { name: "New permission" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("observe");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("cell", { name: "observe", exact: true }).waitFor();
  await screen(page, "users-dark");
  await browser.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy the token of observe" }).click();
  await page.getByText("Copied the token of observe.").waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(/^type=resource&ver=1/);
});

it("roles are made, assigned and revoked", async () => {
  const { page } = browser;
  const dialog = page.getByRole("dialog");
  await page.goto(`${ENDPOINT}_explorer/#/roles`);
  await page.getByRole("cell", { name: "Cosmos DB Built-in Data Reader", exact: true }).waitFor();
  await page.getByRole("button", { name: "New role" }).click();
  await dialog.getByLabel("Name").fill("Feed reader");
  await dialog.getByLabel("readChangeFeed").check();
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("cell", { name: "Feed reader", exact: true }).first().waitFor();
  await page.getByRole("button", { name: "New assignment" }).click();
  await dialog.getByRole("combobox").selectOption("Feed reader");
  await dialog.getByLabel("Principal").fill("96313034-4739-43cb-93cd-74193adbe5b6");
  await dialog.getByLabel("Scope").fill(`/dbs/${DATABASE}`);
  await dialog.getByRole("button", { name: "Assign" }).click();
  await page.getByRole("cell", { name: `/dbs/${DATABASE}`, exact: true }).waitFor();
  await screen(page, "roles-dark");
  await page.getByRole("button", { name: "Revoke Feed reader" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No assignments yet.").waitFor();
  await page.getByRole("button", { name: "Delete Feed reader" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("cell", { name: "Feed reader", exact: true }).waitFor({ state: "detached" });
});

it("everything is reachable on a phone", async () => {
  const phone = await startBrowser({ width: 390, height: 800 });
  try {
    const { page } = phone;
    await connect(page);
    await page.getByRole("button", { name: "Show the tree" }).click();
    await page.getByRole("treeitem", { name: DATABASE }).click();
    await page.getByRole("treeitem", { name: "events" }).click();
    await page.getByRole("treeitem", { name: "Items" }).click();
    await page.locator(".grid tbody tr").first().click();
    await page.getByRole("button", { name: "Save", exact: true }).waitFor();
    await screen(page, "phone-item");
    await page.getByRole("button", { name: "Close item" }).click();
    await screen(page, "phone-items");
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow).toBe(0);
    expect(phone.complaints).toEqual([]);
  } finally {
    await phone.close();
  }
});

it("changes appear as they are written", async () => {
  const { page } = browser;
  await page.goto(`${ENDPOINT}_explorer/#/feed/${DATABASE}/events`);
  await page.getByRole("button", { name: "From the beginning" }).click();
  await page.getByRole("log").getByText("old", { exact: true }).waitFor();
  await create(client, ["dbs", DATABASE, "colls", "events", "docs"], { id: "fresh", kind: "b" });
  await page.getByRole("log").getByText("fresh", { exact: true }).waitFor();
  const [written] = await client.json({ method: "GET", segments: ["dbs", DATABASE, "colls", "events", "docs", "fresh"], headers: { "x-ms-documentdb-partitionkey": '["b"]' } }).then((item) => [(item as { _ts: number })._ts]);
  await expect.poll(() => page.locator(".feed-row").filter({ hasText: "fresh" }).locator("time").getAttribute("datetime")).toBe(new Date(written! * 1000).toISOString());
  await screen(page, "changes-dark");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused").waitFor();
});

it("nothing is asked while the changes are not seen, and what was missed appears", async () => {
  const { page } = browser;
  let asked = 0;
  page.on("request", (request) => (asked += request.headers()["a-im"] === undefined ? 0 : 1));
  await page.getByRole("button", { name: "Resume" }).click();
  await expect.poll(() => asked).toBeGreaterThan(0);
  await page.getByRole("button", { name: "Metrics" }).click();
  // The request that was under way may still end; after that two readings of the metrics go by without another.
  const readMetrics = () => page.waitForResponse((response) => response.url().includes("/metrics"));
  await readMetrics();
  const before = asked;
  await create(client, ["dbs", DATABASE, "colls", "events", "docs"], { id: "unseen", kind: "c" });
  await readMetrics();
  await readMetrics();
  expect(asked).toBe(before);
  await page.goBack();
  await page.getByRole("log").getByText("unseen", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
});

it("all versions and deletes are followed where the container keeps them", async () => {
  const { page } = browser;
  const visible = (name: string) => page.getByRole("button", { name }).locator("visible=true");
  await expect.poll(() => page.getByRole("switch").count()).toBe(0);
  await page.getByRole("treeitem", { name: "Settings" }).first().click();
  await page.getByLabel("Keep all versions and deletes").fill("60");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Saved the settings.").waitFor();
  await page.goto(`${ENDPOINT}_explorer/#/feed/${DATABASE}/events`);
  await page.getByRole("switch", { name: "All versions and deletes" }).check();
  expect(await visible("From the beginning").isDisabled()).toBe(true);
  await visible("Watch from now").click();
  await page.getByText("Waiting for the next change.").waitFor();
  const events = ["dbs", DATABASE, "colls", "events"];
  const made = await createItem(client, events, { id: "brief", kind: "b", n: 1 }, '["b"]');
  await replaceItem(client, events, { id: "brief", partitionKey: '["b"]' }, { ...made, n: 2 }, String(made._etag));
  await deleteItem(client, events, { id: "brief", partitionKey: '["b"]' });
  const log = page.getByRole("log").locator("visible=true");
  await log.getByText("delete", { exact: true }).waitFor();
  await expect.poll(() => log.locator(".operation").allInnerTexts()).toEqual(["delete", "replace", "create"]);
  await expect.poll(() => log.locator(".feed-row.delete").innerText()).toContain('"n":2');
  await screen(page, "changes-all-versions-dark");
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
