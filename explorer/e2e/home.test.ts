import { afterAll, beforeAll, expect, it } from "vitest";
import type { Client } from "../src/protocol/client";
import { readModel } from "../src/protocol/model";
import { listAll } from "../src/protocol/resources";
import { type Browser, ENDPOINT, connect, directClient, dropDatabase, editor, makeContainer, pictureFailures, retype, screen, startBrowser } from "./browser";

const DATABASE = "explorer-home";
let browser: Browser;
let client: Client;
pictureFailures(() => browser);

const dropDemo = async () => {
  for (const { id } of await listAll(client, ["dbs"])) if (String(id).startsWith("demo-")) await dropDatabase(client, String(id));
};

beforeAll(async () => {
  client = await directClient();
  await dropDatabase(client, DATABASE);
  await dropDemo();
  const items = Array.from({ length: 30 }, (_, n) => ({ id: `${n}`, kind: "a", text: "x".repeat(200) }));
  await makeContainer(client, DATABASE, "things", ["/kind"], items);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await dropDatabase(client, DATABASE);
  await dropDemo();
});

const card = (name: string) => browser.page.getByRole("rowgroup", { name, exact: true });

it("an empty server shows the first steps", async () => {
  const { page } = browser;
  const isList = (url: URL) => url.pathname === "/dbs";
  await page.route(isList, (route) => route.fulfill({ json: { _rid: "", Databases: [], _count: 0 } }));
  await connect(page);
  await page.getByRole("heading", { name: "This server is empty" }).waitFor();
  await screen(page, "home-empty");
  await browser.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy the connection string" }).click();
  await page.getByText("Copied the connection string.").waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(/^AccountEndpoint=http.*;AccountKey=.*;$/);
  await page.unrouteAll({ behavior: "wait" });
});

it("the demo is loaded, with its models", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "Load the demo" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("demo-library").waitFor();
  await screen(page, "demo");
  await dialog.getByRole("button", { name: "Load", exact: true }).click();
  await page.getByText("Loaded 5 databases.").waitFor();
  await page.getByRole("treeitem", { name: "demo-publishing" }).waitFor();
  expect(await readModel(client, "demo-publishing")).toMatchObject({ version: 1 });
  await expect.poll(() => page.url()).toContain("#/model/demo-library");
  await page.locator(".model-box").first().waitFor();
});

it("containers are listed with size, and with rates as they come", async () => {
  const { page } = browser;
  await page.getByRole("link", { name: "Orrery" }).click();
  await card(DATABASE).getByRole("row", { name: /things/ }).getByText("30", { exact: true }).waitFor();
  const rate = () => card(DATABASE).getByRole("row", { name: /things/ }).getByRole("cell").nth(5).innerText();
  await expect.poll(async () => {
    await client.send({ method: "GET", segments: ["dbs", DATABASE, "colls", "things", "docs", "1"], headers: { "x-ms-documentdb-partitionkey": '["a"]' } });
    return Number(await rate());
  }, { timeout: 15_000 }).toBeGreaterThan(0);
  await screen(page, "home");
});

it("queries of the demo are run, before and after a model, and are among the saved ones", async () => {
  const { page } = browser;
  const title = "Books with the name of their publisher";
  await page.getByRole("button", { name: `Before: ${title}` }).click();
  await expect.poll(() => page.locator(".results .grid tbody tr").locator("visible=true").count()).toBe(2);
  await page.getByRole("link", { name: "Orrery" }).click();
  await page.getByRole("button", { name: `After: ${title}` }).click();
  await expect.poll(() => page.locator(".results .grid tbody tr").locator("visible=true").count()).toBe(6);
  await page.locator(".results .grid tbody tr").locator("visible=true").filter({ hasText: "Orchard House" }).first().waitFor();
  // In a tab that is open already the text is replaced, and runs.
  await retype(page, "Query", "SELECT 1");
  await page.getByRole("link", { name: "Orrery" }).click();
  await page.getByRole("button", { name: `After: ${title}` }).click();
  await expect.poll(() => editor(page, "Query").innerText()).toContain("pub-name");
  await page.getByRole("button", { name: "Saved" }).locator("visible=true").click();
  await page.getByRole("button", { name: `${title} (after)` }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Orrery" }).click();
});

it("the advisor's findings are counted when asked", async () => {
  await card("demo-library").getByRole("button", { name: "Run the advisor" }).click();
  await card("demo-library").getByText(/No findings|\d+ findings?/).waitFor();
});

it("a container is opened from the home page, and going back leads there", async () => {
  const { page } = browser;
  await card(DATABASE).getByRole("button", { name: "things", exact: true }).click();
  await page.getByRole("grid", { name: "Items of things" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "Databases", exact: true }).waitFor();
});

it("the home page is dark where one likes it dark, and fits a phone", async () => {
  for (const [name, width, colorScheme] of [["home-dark", 1360, "dark"], ["home-phone", 390, "light"]] as const) {
    const other = await startBrowser({ width, height: 800, colorScheme });
    try {
      await connect(other.page);
      await other.page.getByRole("rowgroup", { name: DATABASE, exact: true }).getByText("30", { exact: true }).waitFor();
      await screen(other.page, name);
      const overflow = await other.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect([overflow, other.complaints, other.strangers]).toEqual([0, [], []]);
    } finally {
      await other.close();
    }
  }
});

it("the connect screen does without the code editor", async () => {
  const other = await startBrowser();
  try {
    const scripts: string[] = [];
    other.page.on("response", (response) => void (response.url().endsWith(".js") && scripts.push(response.url())));
    await other.page.goto(`${ENDPOINT}_explorer/`);
    await other.page.getByLabel("Key or connection string").waitFor();
    await other.page.waitForLoadState("networkidle");
    expect(scripts.map((url) => /\/(\w+)-[^/]*\.js$/.exec(url)?.[1])).toEqual(["index"]);
    await screen(other.page, "connect");
  } finally {
    await other.close();
  }
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
