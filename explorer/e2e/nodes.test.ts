import { afterAll, beforeAll, expect, it } from "vitest";
import { type Browser, connect, pictureFailures, screen, startBrowser } from "./browser";
import { answerWithNodes } from "./nodes-answer";

let browser: Browser;
pictureFailures(() => browser);

beforeAll(async () => {
  browser = await startBrowser();
  await connect(browser.page);
  await browser.page.getByRole("tree").waitFor();
});
afterAll(() => browser?.close());

const isNodes = (url: string) => new URL(url).pathname === "/_orrery/nodes";
const rows = () => browser.page.getByRole("group", { name: "Nodes of the store" });

it("a server with a store of its own says so", async () => {
  const { page } = browser;
  await page.getByRole("button", { name: "Nodes" }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("This server is the only process of its store.").waitFor();
  expect(await rows().count()).toBe(0);
  await screen(page, "nodes-alone");
});

it("the nodes of a shared store appear with what they hold, and the jobs open with the keyboard", async () => {
  const { page } = browser;
  await answerWithNodes(page);
  await page.getByText("2 nodes serve this store, 1 has died.").waitFor();
  const cells = (name: string) => page.getByRole("rowgroup", { name }).getByRole("row").first().getByRole("cell").allInnerTexts();
  expect((await cells("Node 1")).map((cell) => cell.split("\n")[0]!.trim()).filter((_, at) => at !== 3)).toEqual([
    "1", "orrery-1.internal.example answered", "0.9.0", "0.4 s", "3 s", "11",
  ]);
  expect((await cells("Node 1"))[3]).toContain("2 h ago");
  expect((await cells("Node 4")).slice(4)).toEqual(["dead, 10.7 s", "0 s", "0"]);
  const jobs = page.getByRole("button", { name: "2 jobs of node 2" });
  await jobs.focus();
  await page.keyboard.press("Enter");
  await page.getByText("1 container, 1 split or merge").waitFor();
  expect(await rows().getByRole("listitem").allInnerTexts()).toEqual(["Container shop / orders-9", "Split or merge of shop / orders-1"]);
  // A reading leaves open what is open.
  await page.waitForResponse((response) => isNodes(response.url()));
  expect(await jobs.getAttribute("aria-expanded")).toBe("true");
  await screen(page, "nodes-jobs");
});

it("what goes wrong is shown beside what was read last, until it goes right again", async () => {
  const { page } = browser;
  await page.unrouteAll({ behavior: "wait" });
  await page.route((url) => isNodes(url.href), (route) => route.abort("connectionrefused"));
  await page.getByRole("alert").getByText(/The server did not answer\..* What is shown was read at /).waitFor();
  expect(await rows().count()).toBe(1);
  await screen(page, "nodes-problem");
  await page.unrouteAll({ behavior: "wait" });
  await page.getByText("This server is the only process of its store.").waitFor();
  expect(await page.getByRole("alert").count()).toBe(0);
});

it("nothing is asked while the nodes are not seen", async () => {
  const { page } = browser;
  let asked = 0;
  page.on("request", (request) => (asked += isNodes(request.url()) ? 1 : 0));
  await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(0);
  await page.getByRole("button", { name: "Metrics" }).click();
  // The request that was under way may still end; after that the metrics are read for longer than the pause between two readings of the nodes.
  const readMetrics = () => page.waitForResponse((response) => new URL(response.url()).pathname === "/metrics");
  await readMetrics();
  const before = asked;
  for (let reading = 0; reading < 3; reading++) await readMetrics();
  expect(asked).toBe(before);
  await page.goBack();
  await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(before);
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
