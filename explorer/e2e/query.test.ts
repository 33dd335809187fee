import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Client } from "../src/protocol/client";
import { type Browser, ENDPOINT, connect, directClient, dropDatabase, editor, makeContainer, pictureFailures, retype, screen, startBrowser } from "./browser";

const DATABASE = "explorer-query";
let browser: Browser;
let client: Client;
pictureFailures(() => browser);

beforeAll(async () => {
  client = await directClient();
  await dropDatabase(client, DATABASE);
  const books = Array.from({ length: 120 }, (_, n) => ({
    id: `book-${n}`, publisher: ["Aldine", "Elsevier", "Plantin", "Blaeu"][n % 4]!, price: 10 + ((n * 37) % 90), year: 1500 + n,
    author: { name: `Author ${n % 7}` }, tags: ["astronomy", n % 2 ? "folio" : "quarto"],
  }));
  await makeContainer(client, DATABASE, "books", ["/publisher"], books);
  browser = await startBrowser();
  await connect(browser.page);
  await browser.page.getByRole("tree").waitFor();
  await browser.page.goto(`${ENDPOINT}_explorer/#/query/${DATABASE}/books`);
});
afterAll(async () => {
  await browser?.close();
  await dropDatabase(client, DATABASE);
});

const run = async (text: string) => {
  await retype(browser.page, "Query", text);
  await browser.page.keyboard.press("Escape");
  await editor(browser.page, "Query").press("Control+Enter");
};
const face = (name: string) => browser.page.getByRole("tab", { name, exact: true }).click();
const cells = () => browser.page.locator(".results .grid tbody tr");

it("a query is run and its rows are a table", async () => {
  await run("SELECT c.id, c.price, c.author.name AS author\nFROM c\nWHERE c.price >= 90\nORDER BY c.price DESC");
  await expect.poll(() => cells().count()).toBeGreaterThan(5);
  await expect.poll(() => cells().first().innerText()).toContain("99");
  await screen(browser.page, "query-table");
  await browser.page.getByRole("columnheader", { name: "price" }).getByRole("button").click();
  await expect.poll(() => cells().last().innerText()).toContain("99");
});

it("a fault is marked at its place", async () => {
  const { page } = browser;
  await run("SELECT c.id, x.price FROM c");
  await page.getByText("Identifier 'x' could not be resolved. (SC2001)").waitFor();
  await expect.poll(() => page.locator("[data-label=Query] .cm-lintRange-error").innerText()).toBe("x");
  await screen(page, "query-fault");
  await run("SELECT * FROM");
  await page.getByText("unexpected end-of-file").waitFor();
});

it("rows are JSON and a chart too, and have statistics", async () => {
  const { page } = browser;
  await run("SELECT c.publisher, COUNT(1) AS books, AVG(c.price) AS price\nFROM c\nGROUP BY c.publisher");
  await expect.poll(() => cells().count()).toBe(4);
  await face("JSON");
  await expect.poll(() => editor(page, "Rows as JSON").innerText()).toContain('"books": 30');
  await face("Chart");
  await expect.poll(() => page.locator(".chart-drawing .bar").count()).toBe(4);
  await screen(page, "query-chart");
  await face("Statistics");
  await page.getByText("server time").waitFor();
  await face("Table");
});

it("parameters and a partition key are used", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "Parameters" }).click();
  await page.getByLabel("Partition key").fill("Blaeu");
  await page.getByLabel("Parameters", { exact: true }).fill('{"@year": 1600}');
  await run("SELECT VALUE c.year FROM c WHERE c.year > @year");
  await expect.poll(() => cells().count()).toBe(5);
  await expect.poll(() => page.locator(".results th.mono").allInnerTexts()).toEqual(["value"]);
  await page.getByLabel("Partition key").fill("");
  await page.getByLabel("Parameters", { exact: true }).fill("");
});

it("completion knows the paths that were seen", async () => {
  const { page } = browser;
  await run("SELECT * FROM c");
  await expect.poll(() => cells().count()).toBe(100);
  await retype(page, "Query", "SELECT c");
  await editor(page, "Query").press("End");
  await page.keyboard.type(".author.");
  await page.locator(".cm-tooltip-autocomplete").getByText("name").waitFor();
  await screen(page, "query-completion");
  await page.keyboard.press("Escape");
});

it("all rows are exported as CSV and JSON", async () => {
  const { page } = browser;
  await run("SELECT c.id, c.price FROM c");
  await expect.poll(() => cells().count()).toBe(100);
  const save = async (choice: string) => {
    await page.getByRole("button", { name: "Export" }).click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: choice }).click()]);
    return readFileSync(await file.path(), "utf8");
  };
  const table = (await save("All rows as CSV")).trimEnd().split("\r\n");
  expect(table[0]).toBe("id,price");
  expect(table).toHaveLength(121);
  expect(JSON.parse(await save("All rows as JSON"))).toHaveLength(120);
});

it("queries are remembered, and saved by name", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "Saved" }).click();
  await page.getByRole("button", { name: "Save this query…" }).click();
  await page.getByLabel("Name").fill("prices");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "History" }).click();
  await page.getByRole("group", { name: "History" }).getByText("c.year > @year").click();
  await expect.poll(() => editor(page, "Query").innerText()).toContain("@year");
  await page.getByRole("button", { name: "Saved" }).click();
  await page.getByRole("group", { name: "Saved" }).getByText("prices").click();
  await expect.poll(() => editor(page, "Query").innerText()).toBe("SELECT c.id, c.price FROM c");
});

it("the plan of a query is drawn", async () => {
  const { page } = browser;
  await run("SELECT * FROM c WHERE c.year = 1507 AND c.price > 5 ORDER BY c.price");
  await expect.poll(() => cells().count()).toBe(1);
  await face("Plan");
  const plan = page.getByRole("img", { name: "Query plan" });
  await plan.getByText("Filter").waitFor();
  await plan.getByText("c.year = 1507 AND c.price > 5").waitFor();
  await expect.poll(() => plan.locator(".plan-node.index").count()).toBeGreaterThan(0);
  await expect.poll(() => plan.getByText("item loaded").count()).toBe(1);
  expect(await plan.locator(".plan-count").first().textContent()).toMatch(/^[\d,]+ rows?/);
  await screen(page, "query-plan");
  await face("Statistics");
  await page.getByText("Execution time by phase").waitFor();
  await screen(page, "query-statistics");
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
