import { afterAll, beforeAll, expect, it } from "vitest";
import type { Client } from "../src/protocol/client";
import type { JsonObject } from "../src/protocol/json";
import { type Browser, connect, directClient, dropDatabase, editor, makeContainer, pictureFailures, retype, screen, startBrowser } from "./browser";
import { read, replace } from "../src/protocol/resources";

const DATABASE = "explorer-script";
const PATH = ["dbs", DATABASE, "colls", "c"];
let browser: Browser;
let client: Client;
pictureFailures(() => browser);

beforeAll(async () => {
  client = await directClient();
  await dropDatabase(client, DATABASE);
  await makeContainer(client, DATABASE, "c", ["/kind"], [{ id: "1", kind: "a", n: 1 }, { id: "2", kind: "a", n: 5 }]);
  browser = await startBrowser();
  const { page } = browser;
  await connect(page);
  for (const name of [DATABASE, "c", "Scripts", "Stored procedures", "Triggers", "Functions"]) {
    await page.getByRole("treeitem", { name, exact: true }).click();
  }
});
afterAll(async () => {
  await browser?.close();
  await dropDatabase(client, DATABASE);
});

const make = async (button: string, name: string, body: string) => {
  const { page } = browser;
  await page.getByRole("button", { name: button }).click();
  await page.getByRole("textbox", { name: "Name" }).locator("visible=true").fill(name);
  await retype(page, "Script", body);
  await page.getByRole("button", { name: "Create" }).locator("visible=true").click();
  await page.getByRole("treeitem", { name, exact: true }).waitFor();
};
const visible = (name: string) => browser.page.getByLabel(name, { exact: true }).locator("visible=true");

it("a stored procedure is made and run, and its console is shown as text", async () => {
  const { page } = browser;
  await make("New stored procedure", "greet", `function greet(name) {
  console.log("<i>hello</i> " + name);
  getContext().getResponse().setBody({ greeted: name });
}`);
  await visible("Arguments").fill('["Kepler"]');
  await page.getByRole("button", { name: "Run" }).locator("visible=true").click();
  await page.getByText("runs within one partition key").waitFor();
  await visible("Partition key").fill("a");
  await page.getByRole("button", { name: "Run" }).locator("visible=true").click();
  await expect.poll(() => visible("Result").innerText()).toContain('"greeted": "Kepler"');
  await expect.poll(() => visible("Console").innerText()).toContain("<i>hello</i> Kepler");
  await screen(page, "script");
});

it("the template of a procedure runs as it is", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "New stored procedure" }).click();
  await page.getByRole("textbox", { name: "Name" }).locator("visible=true").fill("count");
  await page.getByRole("button", { name: "Create" }).locator("visible=true").click();
  await page.getByRole("treeitem", { name: "count", exact: true }).waitFor();
  await visible("Partition key").fill("a");
  await visible("Arguments").fill("[2]");
  await page.getByRole("button", { name: "Run" }).locator("visible=true").click();
  await expect.poll(() => visible("Result").innerText()).toBe("1");
});

it("an error in a script is told, and the script can be mended", async () => {
  const { page } = browser;
  await page.getByRole("treeitem", { name: "greet" }).click();
  await retype(page, "Script", 'function greet() { throw new Error("no telescope"); }');
  await editor(page, "Script").press("Control+s");
  await page.getByText("Saved greet.").waitFor();
  await page.getByRole("button", { name: "Run" }).locator("visible=true").click();
  await page.getByRole("alert").filter({ hasText: "no telescope" }).locator("visible=true").waitFor();
});

it("a script that somebody else has saved is shown as a difference", async () => {
  const { page } = browser;
  const at = [...PATH, "sprocs", "greet"];
  const { _etag, ...stored } = await read<JsonObject>(client, at);
  await replace(client, at, { ...stored, body: "function greet() { return 'theirs'; }" }, String(_etag));
  await retype(page, "Script", "function greet() { return 'mine'; }");
  await page.getByRole("button", { name: "Save", exact: true }).locator("visible=true").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("was changed meanwhile").waitFor();
  await dialog.locator(".removed").filter({ hasText: "theirs" }).waitFor();
  await dialog.getByRole("button", { name: "Take theirs" }).click();
  await expect.poll(() => editor(page, "Script").innerText()).toContain("theirs");
});

it("a trigger has a time and an operation", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "New trigger" }).click();
  await page.getByRole("textbox", { name: "Name" }).locator("visible=true").fill("stamp");
  await visible("Operation").selectOption("Create");
  await page.getByRole("button", { name: "Create" }).locator("visible=true").click();
  await page.getByRole("treeitem", { name: "stamp", exact: true }).waitFor();
  const made = (await client.json({ method: "GET", segments: [...PATH, "triggers", "stamp"] })) as JsonObject;
  expect(made).toMatchObject({ triggerType: "Pre", triggerOperation: "Create" });
});

it("a function is made, tried, and deleted", async () => {
  const { page } = browser;
  await make("New function", "double", "function double(x) { return x * 2; }");
  await visible("Arguments").fill("[21]");
  await page.getByRole("button", { name: "Run" }).locator("visible=true").click();
  await expect.poll(() => visible("Result").innerText()).toBe("42");
  await page.getByRole("button", { name: "Delete script" }).locator("visible=true").click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("treeitem", { name: "double", exact: true }).waitFor({ state: "detached" });
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
