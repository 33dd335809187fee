import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Client } from "../src/protocol/client";
import type { JsonObject } from "../src/protocol/json";
import { readModel, storeModel } from "../src/protocol/model";
import { createItem, replaceItem } from "../src/protocol/resources";
import { type Browser, ENDPOINT, connect, directClient, dropDatabase, editor, makeContainer, pictureFailures, retype, screen, startBrowser } from "./browser";

const DATABASE = "explorer-model";
const HOSTILE = "<img src=x onerror=\"document.title='hacked'\">";
let browser: Browser;
let client: Client;
pictureFailures(() => browser);

const AUTHORS: JsonObject[] = Array.from({ length: 24 }, (_, n) => ({ id: `a${n}`, type: "author", name: `Author ${n}`, born: 1500 + n }));
const BOOKS: JsonObject[] = Array.from({ length: 40 }, (_, n) => ({
  id: `b${n}`, type: "book", title: `Book ${n}`, price: n % 2 === 0 ? n : `${n}`, authorId: `a${n % 24}`, year: 1600 + n,
}));
const ODD: JsonObject[] = Array.from({ length: 20 }, (_, n) => ({ id: `x${n}`, type: HOSTILE, bookId: `b${n}` }));

beforeAll(async () => {
  client = await directClient();
  await dropDatabase(client, DATABASE);
  await makeContainer(client, DATABASE, "library", ["/id"], [...AUTHORS, ...BOOKS, ...ODD]);
  browser = await startBrowser({ width: 1440 });
  await connect(browser.page);
});
afterAll(async () => {
  await browser?.close();
  await dropDatabase(client, DATABASE);
});

const box = (name: string) => browser.page.getByRole("button", { name: new RegExp(`^${name} in library`) }).locator("visible=true");
const finding = (name: string) => browser.page.getByRole("article", { name }).locator("visible=true");
const relations = async () => ((await readModel(client, DATABASE))?.relations ?? []) as JsonObject[];

it("types and links that the data shows are drawn, and HTML in a name is text", async () => {
  const { page } = browser;
  await page.getByRole("treeitem", { name: DATABASE, exact: true }).click();
  await page.getByRole("treeitem", { name: "Model", exact: true }).click();
  await box("author").waitFor();
  await box("book").waitFor();
  await page.getByText("No model is declared yet").waitFor();
  await expect.poll(() => page.locator(".model-arrow .model-line.inferred").count()).toBe(2);
  await expect.poll(() => page.getByRole("button", { name: HOSTILE }).count()).toBeGreaterThan(0);
  await expect.poll(() => page.locator("img").count()).toBe(0);
  expect(await page.title()).toBe("Orrery");
  await screen(page, "model-inferred");
});

it("the picture moves and grows with keys, buttons and wheel", async () => {
  const { page } = browser;
  const look = () => page.locator(".picture-frame > svg > g").getAttribute("transform");
  const whole = await look();
  await page.locator(".picture-frame").focus();
  await page.keyboard.press("+");
  await page.keyboard.press("ArrowRight");
  const moved = await look();
  expect(moved).not.toBe(whole);
  await page.locator(".picture-frame").hover();
  await page.mouse.wheel(0, -200);
  await expect.poll(look).not.toBe(moved);
  await page.getByRole("button", { name: "Show all" }).click();
  await expect.poll(look).toBe(whole);
});

it("the picture is exported as a file of its own", async () => {
  const { page } = browser;
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export the picture as SVG" }).click()]);
  expect(file.suggestedFilename()).toBe(`${DATABASE}-model.svg`);
  const text = readFileSync(await file.path(), "utf8");
  expect(text).toMatch(/^<svg [^>]*viewBox="/);
  expect(text).toContain(">author</text>");
  expect(text).not.toMatch(/class=|var\(|<img/);
});

it("a type that is chosen with the keyboard shows its findings alone", async () => {
  const { page } = browser;
  const all = await page.getByRole("article").count();
  expect(all).toBeGreaterThan(1);
  await page.locator(".picture-frame").focus();
  const name = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? "");
  for (let presses = 0; presses < 10 && !(await name()).startsWith("author in library"); presses++) await page.keyboard.press("Tab");
  expect(await name()).toContain("author in library");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.getByRole("article").count()).toBeLessThan(all);
  await page.keyboard.press("Escape");
  await expect.poll(() => page.getByRole("article").count()).toBe(all);
});

it("a finding is seen with its evidence, and applied after its change was shown", async () => {
  const { page } = browser;
  const weak = finding("Weak link: book /authorId");
  await weak.getByText("Evidence").click();
  await weak.getByText("samples").or(weak.locator("dd").first()).first().waitFor();
  await screen(page, "model-finding");
  await weak.getByRole("button", { name: "Apply" }).click();
  const dialog = page.getByRole("dialog");
  await expect.poll(() => dialog.locator(".added").allInnerTexts()).toContainEqual(expect.stringContaining('"/authorId"'));
  await screen(page, "model-apply");
  expect(await readModel(client, DATABASE)).toBeNull();
  await dialog.getByRole("button", { name: "Apply" }).click();
  await page.getByText("Applied to the model.").waitFor();
  expect(await relations()).toMatchObject([{ from: "book", path: "/authorId", to: "author" }]);
  await weak.waitFor({ state: "detached" });
  await expect.poll(() => page.locator(".model-arrow .model-line:not(.inferred)").count()).toBe(1);
  await screen(page, "model-declared");
});

it("a change that somebody else was faster with is shown anew before it is applied", async () => {
  const { page } = browser;
  const drift = finding("Type drift: book /price");
  await drift.getByRole("button", { name: "Apply" }).click();
  const dialog = page.getByRole("dialog");
  await expect.poll(() => dialog.locator(".added").count()).toBeGreaterThan(0);
  const current = (await readModel(client, DATABASE))!;
  await storeModel(client, DATABASE, { ...current, types: { ...(current.types as JsonObject), extra: { container: "library", where: "c.type = 'extra'" } } }, current);
  await dialog.getByRole("button", { name: "Apply" }).click();
  await dialog.getByText("It was changed meanwhile.").waitFor();
  await dialog.getByRole("button", { name: "Edit it first" }).click();
  await expect.poll(() => editor(page, "Model").innerText()).toContain('"schema"');
  await page.getByRole("button", { name: "Revert" }).locator("visible=true").click();
});

it("what the server refuses in a document is marked at its place", async () => {
  const { page } = browser;
  const own = { version: 1, types: { book: { container: "library", where: "c.type = 'book'" } }, relations: [{ name: "a", from: "book", path: "/authorId", to: "nobody" }] };
  await retype(page, "Model", JSON.stringify(own, null, 2));
  await page.getByRole("button", { name: "Save model" }).click();
  const alert = page.getByRole("alert").locator("visible=true");
  await alert.filter({ hasText: "/relations/0/to" }).waitFor();
  await expect.poll(() => alert.innerText()).toMatch(/^Line \d+, /);
  await page.locator('[data-label="Model"] .cm-lintRange-error').locator("visible=true").first().waitFor();
  await screen(page, "model-refused");
  const right = { ...own, types: { ...own.types, author: { container: "library", where: "c.type = 'author'" } }, relations: [{ ...own.relations[0], to: "author", copies: { author: "t.name" }, inverse: { name: "books" } }] };
  await retype(page, "Model", JSON.stringify(right, null, 2));
  await editor(page, "Model").press("Control+s");
  await page.getByText("Saved the model.").waitFor();
  expect(await relations()).toMatchObject([{ to: "author", copies: { author: "t.name" } }]);
});

it("a relation is edited and removed in the picture, and one is drawn", async () => {
  const { page } = browser;
  await page.getByRole("tab", { name: "Picture" }).click();
  const line = (name: string) => page.getByRole("button", { name: new RegExp(`^Edit the relation ${name}:`) });
  const dialog = page.getByRole("dialog");
  await line("a").focus();
  await page.keyboard.press("Enter");
  await dialog.getByLabel("When the target is deleted").selectOption("unset");
  await dialog.locator(".added").filter({ hasText: '"onDelete": "unset"' }).waitFor();
  await screen(page, "relation");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved the relation a.").waitFor();
  expect(await relations()).toMatchObject([{ name: "a", onDelete: "unset", copies: { author: "t.name" }, inverse: { name: "books" } }]);

  const year = page.locator(".model-box[data-type=book] .model-row").filter({ hasText: "/year" }).locator(".model-port");
  const [start, end] = [(await year.boundingBox())!, (await box("author").boundingBox())!];
  await page.mouse.move(start.x + start.width / 2, start.y + start.height / 2);
  await page.mouse.down();
  await page.mouse.move(end.x + 60, end.y + 20, { steps: 6 });
  await page.mouse.up();
  await dialog.getByLabel("Name").fill("sameYear");
  expect([await dialog.getByLabel("From").inputValue(), await dialog.getByLabel("Path").inputValue(), await dialog.getByLabel("To").inputValue()]).toEqual(["book", "/year", "author"]);
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByText("Saved the relation sameYear.").waitFor();
  expect(await relations()).toHaveLength(2);
  await line("sameYear").focus();
  await page.keyboard.press("Enter");
  await dialog.getByRole("button", { name: "Remove" }).click();
  await page.getByText("Removed the relation sameYear.").waitFor();
  await expect.poll(async () => (await relations()).length).toBe(1);
});

it("everything that the model promises is verified", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "Verify" }).click();
  await page.getByText("The data agrees with the model").waitFor();
  await screen(page, "model-verified");
});

it("a rule that data breaks says which items, and goes on when they are put right", async () => {
  const { page } = browser;
  const stray = ["dbs", DATABASE, "colls", "library"];
  const made = await createItem(client, stray, { id: "x-stray", type: "note", bookId: "b-none" }, '["x-stray"]');
  const model = (await readModel(client, DATABASE))!;
  const types = { ...(model.types as JsonObject), note: { container: "library", where: "c.type = 'note'" } };
  const relation = { name: "about", from: "note", path: "/bookId", to: "book", onMissing: "reject" };
  await storeModel(client, DATABASE, { ...model, types, relations: [...(model.relations as JsonObject[]), relation] }, model);
  await page.getByRole("tab", { name: "Document" }).click();
  await page.getByRole("button", { name: "Read model and advice again" }).click();
  const rules = page.getByRole("complementary", { name: "Rules" });
  await rules.getByText("1 violation").click();
  await rules.getByText("x-stray").waitFor();
  await expect.poll(() => page.getByText("The data agrees with the model").count()).toBe(0);
  await screen(page, "model-violation");
  await replaceItem(client, stray, { id: "x-stray", partitionKey: '["x-stray"]' }, { ...made, bookId: "b1" }, String(made._etag));
  await rules.getByText("1 violation").waitFor({ state: "detached", timeout: 20_000 });
  await expect.poll(() => rules.getByText("building").count(), { timeout: 20_000 }).toBe(0);
});

it("it is dark where one likes it dark, and fits a phone", async () => {
  const look = async (name: string, width: number, height: number, colorScheme: "light" | "dark") => {
    const other = await startBrowser({ width, height, colorScheme });
    try {
      await connect(other.page);
      await other.page.locator(".workspace").waitFor();
      await other.page.goto(`${ENDPOINT}_explorer/#/model/${DATABASE}`);
      await other.page.getByRole("article").first().waitFor();
      await screen(other.page, name);
      const overflow = await other.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect([overflow, other.complaints, other.strangers]).toEqual([0, [], []]);
    } finally {
      await other.close();
    }
  };
  await look("model-dark", 1360, 860, "dark");
  await look("model-phone", 390, 800, "light");
});

it("the model is deleted, and the data stays", async () => {
  const { page } = browser;
  await page.getByRole("tab", { name: "Document" }).click();
  await page.getByRole("button", { name: "Delete the model" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Deleted the model.").waitFor();
  expect(await readModel(client, DATABASE)).toBeNull();
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
