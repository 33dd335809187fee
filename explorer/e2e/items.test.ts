import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Client } from "../src/protocol/client";
import type { JsonObject } from "../src/protocol/json";
import { readItem, replaceItem } from "../src/protocol/resources";
import { type Browser, connect, directClient, dropDatabase, editor, holdRequests, makeContainer, pictureFailures, retype, screen, startBrowser } from "./browser";

const DATABASE = "explorer-items";
const PATH = ["dbs", DATABASE, "colls", "planets"];
let browser: Browser;
pictureFailures(() => browser);
let client: Client;

const PLANETS: JsonObject[] = [
  { id: "mercury", kind: "rocky", moons: 0, radiusKm: 2439.7, discovered: null },
  { id: "venus", kind: "rocky", moons: 0, radiusKm: 6051.8 },
  { id: "earth", kind: "rocky", moons: 1, radiusKm: 6371, satellites: [{ name: "Moon" }] },
  { id: "mars", kind: "rocky", moons: 2, radiusKm: 3389.5, visited: true },
  { id: "jupiter", kind: "gas", moons: 95, radiusKm: 69911, note: "<img src=x onerror=\"document.title='hacked'\"><b>bold</b>" },
  { id: "saturn", kind: "gas", moons: 146, radiusKm: 58232, rings: { visible: true } },
];

beforeAll(async () => {
  client = await directClient();
  await dropDatabase(client, DATABASE);
  await dropDatabase(client, "explorer-made");
  await makeContainer(client, DATABASE, "planets", ["/kind"], PLANETS);
  const many = Array.from({ length: 250 }, (_, index) => ({ id: `star-${String(index).padStart(4, "0")}`, kind: "star", n: index }));
  await makeContainer(client, DATABASE, "stars", ["/kind"], many);
  browser = await startBrowser();
  await connect(browser.page);
});
afterAll(async () => {
  await browser?.close();
  await dropDatabase(client, DATABASE);
});

const unfold = (name: string) => browser.page.getByRole("treeitem", { name, exact: true }).first().click();
const row = (id: string) => browser.page.getByRole("row").filter({ hasText: id }).locator("visible=true");
/** Chooses an item and waits until the page has read the stored version. */
const openItem = async (id: string) => {
  await row(id).click();
  await browser.page.locator("aside[aria-label=Item][aria-busy=false]").getByRole("heading", { name: id }).waitFor();
};
const planet = (id: string, kind = "rocky") => readItem(client, PATH, { id, partitionKey: JSON.stringify([kind]) });

it("a database and a container with hierarchical and unique keys are made", async () => {
  const { page } = browser;
  await page.getByTitle("New database").click();
  await page.getByLabel("Name").fill("explorer-made");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("treeitem", { name: "explorer-made" }).hover();
  await page.getByRole("button", { name: "New container in explorer-made" }).click();
  await page.getByLabel("Name").fill("orders");
  await page.getByLabel("Partition key 1").fill("/tenant");
  await page.getByRole("button", { name: "Add a level" }).click();
  await page.getByRole("textbox", { name: "Partition key 2" }).fill("/user");
  await page.getByRole("button", { name: "Add a unique key" }).click();
  await page.getByRole("textbox", { name: "Unique keys 1" }).fill("/number, /year");
  await page.getByRole("button", { name: "On", exact: true }).click();
  await page.getByRole("button", { name: "Autoscale" }).click();
  await screen(page, "new-container");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("This container has no items yet.").waitFor();
  const made = (await client.json({ method: "GET", segments: ["dbs", "explorer-made", "colls", "orders"] })) as JsonObject;
  expect(made).toMatchObject({
    partitionKey: { paths: ["/tenant", "/user"], kind: "MultiHash" },
    uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/number", "/year"] }] },
    defaultTtl: 86400,
  });
});

it("its settings are changed: time to live, indexing policy, throughput", async () => {
  const { page } = browser;
  await page.getByRole("treeitem", { name: "Settings" }).first().click();
  await page.getByRole("heading", { name: "orders" }).waitFor();
  await page.getByRole("button", { name: "On (no default)" }).locator("visible=true").click();
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Saved the settings.").waitFor();
  await page.getByRole("button", { name: "Manual" }).locator("visible=true").click();
  await page.getByRole("spinbutton", { name: "RU/s" }).locator("visible=true").fill("700");
  await page.getByRole("button", { name: "Save throughput" }).click();
  await page.getByText("Saved the throughput.").waitFor();
  await screen(page, "container-settings");
  const made = (await client.json({ method: "GET", segments: ["dbs", "explorer-made", "colls", "orders"] })) as JsonObject;
  expect(made.defaultTtl).toBe(-1);
});

it("a database is deleted only when its name is typed", async () => {
  const { page } = browser;
  await page.getByRole("treeitem", { name: "explorer-made" }).hover();
  await page.getByRole("button", { name: "Delete explorer-made" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Type explorer-made to delete it.").waitFor();
  await page.locator("input[name=confirm]").fill("explorer-made");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("treeitem", { name: "explorer-made" }).waitFor({ state: "detached" });
});

it("items are shown, and HTML in them is text", async () => {
  const { page } = browser;
  await unfold(DATABASE);
  await unfold("planets");
  await row("jupiter").waitFor();
  await expect.poll(() => row("jupiter").innerText()).toContain("<img src=x onerror");
  await openItem("jupiter");
  await expect.poll(() => editor(page, "Item").innerText()).toContain("<b>bold</b>");
  expect(await page.title()).toBe("Orrery");
  await expect.poll(() => page.locator("img").count()).toBe(0);
  await screen(page, "items");
});

it("an item is created, and a fault in its JSON is named", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "New item" }).click();
  await retype(page, "Item", '{"id": "uranus", "kind": "ice", "moons": }');
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("This is not JSON").waitFor();
  await retype(page, "Item", '{"id": "uranus", "kind": "ice", "moons": 28, "mass": 86810000000000000000000000}');
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("Created uranus.").waitFor();
  expect(await planet("uranus", "ice")).toMatchObject({ moons: 28 });
});

it("an item is edited and saved", async () => {
  const { page } = browser;
  await openItem("mars");
  await expect.poll(() => editor(page, "Item").innerText()).toContain("3389.5");
  await retype(page, "Item", '{"id": "mars", "kind": "rocky", "moons": 2, "nickname": "Red Planet"}');
  await editor(page, "Item").press("Control+s");
  await page.getByText("Saved mars.").waitFor();
  expect(await planet("mars")).toMatchObject({ nickname: "Red Planet" });
});

/** Another client writes to an item. */
const changeMoons = async (id: string, moons: number) => {
  const current = await planet(id);
  await replaceItem(client, PATH, { id, partitionKey: '["rocky"]' }, { ...current, moons }, String(current._etag));
};

it("what is typed before the stored version has arrived is kept, and does not overwrite it", async () => {
  const { page } = browser;
  const release = await holdRequests(page, "GET", "/docs/mercury");
  await row("mercury").click();
  await retype(page, "Item", '{"id": "mercury", "kind": "rocky", "moons": 5}');
  await changeMoons("mercury", 3);
  await release();
  await page.locator("aside[aria-label=Item][aria-busy=false]").waitFor();
  await expect.poll(() => editor(page, "Item").innerText()).toContain('"moons": 5');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("dialog").getByText("was changed meanwhile").waitFor();
  expect(await planet("mercury")).toMatchObject({ moons: 3 });
  await page.getByRole("button", { name: "Take theirs" }).click();
  await expect.poll(() => editor(page, "Item").innerText()).toContain('"moons": 3');
});

it("what is typed while an item is saved is kept, and saved over that version", async () => {
  const { page } = browser;
  const release = await holdRequests(page, "PUT", "/docs/mercury");
  await retype(page, "Item", '{"id": "mercury", "kind": "rocky", "moons": 6}');
  await editor(page, "Item").press("Control+s");
  await editor(page, "Item").press("Control+s");
  await retype(page, "Item", '{"id": "mercury", "kind": "rocky", "moons": 7}');
  await release();
  await page.getByText("Saved mercury.").waitFor();
  expect(await planet("mercury")).toMatchObject({ moons: 6 });
  await expect.poll(() => editor(page, "Item").innerText()).toContain('"moons": 7');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect.poll(async () => (await planet("mercury")).moons).toBe(7);
  await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
});

it("an item that somebody else has changed is shown as a difference, and any side may win", async () => {
  const { page } = browser;
  await openItem("earth");
  await expect.poll(() => editor(page, "Item").innerText()).toContain("6371");
  await changeMoons("earth", 17);
  await retype(page, "Item", '{\n  "id": "earth",\n  "kind": "rocky",\n  "moons": 1,\n  "radiusKm": 6371,\n  "people": 8100000000\n}');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("was changed meanwhile").waitFor();
  await expect.poll(() => dialog.locator(".removed").allInnerTexts()).toContainEqual(expect.stringContaining('"moons": 17'));
  await expect.poll(() => dialog.locator(".added").allInnerTexts()).toContainEqual(expect.stringContaining('"people": 8100000000'));
  await screen(page, "conflict");
  await dialog.getByRole("button", { name: "Edit mine further" }).click();
  expect(await planet("earth")).toMatchObject({ moons: 17 });

  await changeMoons("earth", 18);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await dialog.getByRole("button", { name: "Overwrite with mine" }).click();
  await page.getByText("Saved earth.").waitFor();
  expect(await planet("earth")).toMatchObject({ moons: 1, people: 8100000000 });

  await changeMoons("earth", 19);
  await retype(page, "Item", '{"id": "earth", "kind": "rocky", "moons": 99}');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await dialog.getByRole("button", { name: "Take theirs" }).click();
  await expect.poll(() => editor(page, "Item").innerText()).toContain('"moons": 19');
});

it("a new item has an id, and an item is duplicated", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "New item" }).click();
  await expect.poll(() => editor(page, "Item").innerText()).toMatch(/"id": "[\da-f-]{36}"/);
  await openItem("saturn");
  await page.getByRole("button", { name: "Duplicate item" }).click();
  await page.getByRole("heading", { name: "New item" }).waitFor();
  const copy = JSON.parse((await editor(page, "Item").innerText()).replace(/\s+/g, " ")) as JsonObject;
  expect(copy).toMatchObject({ kind: "gas", moons: 146, rings: { visible: true } });
  expect(copy.id).not.toBe("saturn");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText(`Created ${String(copy.id)}.`).waitFor();
  expect(await planet(String(copy.id), "gas")).toMatchObject({ moons: 146 });
  await page.getByRole("button", { name: "Delete item" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText(`Deleted ${String(copy.id)}.`).waitFor();
  await openItem("earth");
});

it("what is not saved is discarded only when asked", async () => {
  const { page } = browser;
  await retype(page, "Item", '{"id": "earth", "kind": "rocky", "moons": 100}');
  await row("saturn").click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await expect.poll(() => editor(page, "Item").innerText()).toContain('"moons": 100');
  await row("saturn").click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard" }).click();
  await expect.poll(() => editor(page, "Item").innerText()).toContain("58232");
  expect(await planet("earth")).toMatchObject({ moons: 19 });
});

it("an item is deleted", async () => {
  const { page } = browser;
  await openItem("venus");
  await page.getByRole("button", { name: "Delete item" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Deleted venus.").waitFor();
  await expect(planet("venus")).rejects.toMatchObject({ status: 404 });
});

it("a filter narrows the items, and its faults are shown", async () => {
  const { page } = browser;
  await page.getByLabel("Filter").fill("c.moons > 90 ORDER BY c.moons DESC");
  await page.getByRole("button", { name: "Apply" }).click();
  await expect.poll(() => page.locator(".grid:visible tbody tr").count()).toBe(2);
  await expect.poll(() => page.locator(".grid:visible tbody tr").first().innerText()).toContain("saturn");
  await page.getByLabel("Filter").fill("c.moons >");
  await page.keyboard.press("Enter");
  await page.getByText("Syntax error").waitFor();
});

it("columns are chosen", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("group", { name: "Columns" }).getByLabel("radiusKm").uncheck();
  await page.keyboard.press("Escape");
  expect(await page.locator(".grid:visible th").allInnerTexts()).not.toContain("radiusKm");
});

it("a header sorts on the server, up, down and not at all", async () => {
  const { page } = browser;
  await page.getByLabel("Filter").fill("");
  await page.keyboard.press("Enter");
  const header = page.getByRole("columnheader", { name: "moons" });
  const ids = async () => (await page.locator(".grid:visible tbody tr td:nth-child(2)").allInnerTexts()).join();
  // The rows of the filter are still shown until all items have arrived.
  await expect.poll(async () => (await ids()).split(",").length).toBe(6);
  const before = await ids();
  await header.getByRole("button").click();
  await expect.poll(() => header.getAttribute("aria-sort")).toBe("ascending");
  await expect.poll(async () => (await ids()).split(",").at(-1)).toBe("saturn");
  await header.getByRole("button").click();
  await expect.poll(async () => (await ids()).split(",")[0]).toBe("saturn");
  await header.getByRole("button").click();
  await expect.poll(ids).toBe(before);
});

it("a column is resized at the edge of its header", async () => {
  const { page } = browser;
  const header = page.getByRole("columnheader", { name: "id", exact: true });
  const width = async () => Math.round((await header.boundingBox())!.width);
  const [before, box] = [await width(), (await header.boundingBox())!];
  await page.mouse.move(box.x + box.width - 3, box.y + 8);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width + 97, box.y + 8, { steps: 4 });
  await page.mouse.up();
  await expect.poll(width).toBe(before + 100);
  await page.mouse.dblclick(box.x + box.width + 97, box.y + 8);
  await expect.poll(width).toBe(before);
});

it("a file is imported, and what is refused is listed", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "Import" }).click();
  const dialog = page.getByRole("dialog");
  const choose = (name: string, text: string) => dialog.locator("input[type=file]").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await choose("comets.csv", "id,kind,period\nhalley,comet,76\nencke,comet,3.3\nearth,rocky,1\n");
  await dialog.getByText("3 items to import.").waitFor();
  await dialog.getByRole("button", { name: "Import" }).click();
  await dialog.getByText("Refused: 1 of 3 items.").waitFor();
  await dialog.getByText(/^earth: /).waitFor();
  await screen(page, "import");
  expect(await planet("halley", "comet")).toMatchObject({ period: 76 });
  expect((await planet("earth")).period).toBeUndefined();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await row("encke").waitFor();
});

it("items are selected, exported and deleted together", async () => {
  const { page } = browser;
  for (const id of ["halley", "encke"]) await row(id).getByRole("checkbox").check();
  const selection = page.getByRole("group", { name: "Selected items" });
  await selection.getByText("2 items selected").waitFor();
  await screen(page, "items-selected");
  const [file] = await Promise.all([page.waitForEvent("download"), selection.getByRole("button", { name: "Export" }).click()]);
  const exported = JSON.parse(readFileSync(await file.path(), "utf8")) as JsonObject[];
  expect(exported.map(({ id }) => id).sort()).toEqual(["encke", "halley"]);
  await selection.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Deleted 2 items.").waitFor();
  await expect(planet("halley", "comet")).rejects.toMatchObject({ status: 404 });
  await row("halley").waitFor({ state: "detached" });
  await expect.poll(() => selection.count()).toBe(0);
});

it("many items are walked page by page, forth and back", async () => {
  const { page } = browser;
  await unfold("stars");
  const range = () => page.locator(".pager:visible span").first().innerText();
  const first = () => page.locator(".grid:visible tbody tr").first().innerText();
  await expect.poll(range).toBe("1–100 of 250");
  const start = await first();
  await page.getByRole("button", { name: "Next page" }).locator("visible=true").click();
  await expect.poll(range).toBe("101–200 of 250");
  expect(await first()).not.toBe(start);
  await page.getByRole("button", { name: "Next page" }).locator("visible=true").click();
  await expect.poll(range).toBe("201–250 of 250");
  expect(await page.getByRole("button", { name: "Next page" }).locator("visible=true").isDisabled()).toBe(true);
  await page.getByRole("button", { name: "Previous page" }).locator("visible=true").click();
  await page.getByRole("button", { name: "Previous page" }).locator("visible=true").click();
  await expect.poll(range).toBe("1–100 of 250");
  expect(await first()).toBe(start);
});

it("the tree is walked with the keyboard alone", async () => {
  const { page } = browser;
  await page.getByRole("treeitem", { name: "stars" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toContain("#/query/explorer-items/stars");
  await page.goBack();
  await expect.poll(() => page.url()).toContain("#/items/explorer-items/stars");
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
