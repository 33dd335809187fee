import { afterAll, beforeAll, expect, it } from "vitest";
import { type Browser, ENDPOINT, KEY, connect, pictureFailures, screen, startBrowser } from "./browser";

let browser: Browser;
pictureFailures(() => browser);
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
});

it("a wrong key is refused in plain words", async () => {
  const { page } = browser;
  await connect(page, btoa("x".repeat(64)));
  await page.getByText("The server does not accept this key.").waitFor();
  await screen(page, "connect-wrong-key");
  await page.getByLabel("Key or connection string").fill("not a key");
  await page.keyboard.press("Enter");
  await page.getByText("This is not a key").waitFor();
});

it("on this machine one click signs in", async () => {
  const { page } = browser;
  await page.goto(`${ENDPOINT}_explorer/`);
  await page.getByRole("button", { name: "Sign in on this machine" }).click();
  await page.getByRole("tree").waitFor();
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.getByLabel("Key or connection string").waitFor();
});

it("the right key opens the account, from a connection string too", async () => {
  const { page } = browser;
  await connect(page, `AccountEndpoint=${ENDPOINT};AccountKey=${KEY};`);
  await page.getByRole("tree").waitFor();
});

it("the key is kept for the tab, never in the address, and is forgotten when asked", async () => {
  const { page } = browser;
  const kept = () => page.evaluate(() => [sessionStorage.getItem("orrery.key"), localStorage.getItem("orrery.key")]);
  expect(await kept()).toEqual([KEY, null]);
  expect(decodeURIComponent(page.url())).not.toContain(KEY);
  await page.reload();
  await page.getByRole("tree").waitFor();
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.getByLabel("Key or connection string").waitFor();
  expect(await kept()).toEqual([null, null]);
});

it("the key is kept in the browser when asked", async () => {
  const { page, context } = browser;
  await page.getByLabel("Keep the key in this browser").check();
  await page.getByLabel("Key or connection string").fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("tree").waitFor();
  const second = await context.newPage();
  await second.goto(`${ENDPOINT}_explorer/`);
  await second.getByRole("tree").waitFor();
  await second.close();
});

it("nothing was asked of any other host, and the security policy had nothing to refuse", () => {
  expect(browser.strangers).toEqual([]);
  expect(browser.complaints).toEqual([]);
});
