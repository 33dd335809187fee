// A browser with a new profile, the server's data for a test, and a watch over where requests go.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, type Page, chromium } from "playwright-core";
import { beforeEach, expect, onTestFailed } from "vitest";
import { Client } from "../src/protocol/client";
import type { JsonObject } from "../src/protocol/json";
import { create, remove } from "../src/protocol/resources";
import { signerFor } from "../src/protocol/signature";

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run the tests with cargo xtask explorer --test`);
  return value;
}

export const ENDPOINT = setting("ORRERY_ENDPOINT");
export const KEY = setting("ORRERY_KEY");
const PICTURES = setting("ORRERY_PICTURES");

export interface Browser {
  context: BrowserContext;
  page: Page;
  /** Requests to hosts other than the server; there must be none. */
  strangers: string[];
  /** Errors of scripts and of the security policy; there must be none. */
  complaints: string[];
  close(): Promise<void>;
}

export interface Look {
  width?: number;
  height?: number;
  colorScheme?: "light" | "dark";
}

export async function startBrowser({ width = 1360, height = 860, colorScheme = "light" }: Look = {}): Promise<Browser> {
  const profile = mkdtempSync(join(tmpdir(), "orrery-explorer-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.ORRERY_CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
    viewport: { width, height },
    colorScheme,
    acceptDownloads: true,
  });
  const page = context.pages()[0] ?? (await context.newPage());
  page.setDefaultTimeout(10_000);
  const strangers: string[] = [];
  const complaints: string[] = [];
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(ENDPOINT) && !url.startsWith("blob:") && url !== "about:blank") strangers.push(url);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // A browser reports every answer of status 400 and above, also those a test asks for.
    const isAnswer = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isAnswer) complaints.push(message.text());
  });
  const close = async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  };
  return { context, page, strangers, complaints, close };
}

export async function connect(page: Page, key = KEY): Promise<void> {
  await page.goto(`${ENDPOINT}_explorer/`);
  await page.getByLabel("Key or connection string").fill(key);
  await page.getByRole("button", { name: "Connect" }).click();
}

async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

/** Keeps a picture of a screen beside the build, for people to look at, and checks that everybody can use it. */
export async function screen(page: Page, name: string): Promise<void> {
  await picture(page, name);
  expect.soft(await seriousFindings(page), name).toEqual([]);
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  id: string;
  impact: string | null;
  help: string;
  nodes: { target: unknown[]; failureSummary?: string }[];
}

/** What axe-core holds against the page as it is now, of what it calls serious or critical. */
async function seriousFindings(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run: (on: Document, options: object) => Promise<{ violations: unknown }> } };
    return (await axe.run(document, { resultTypes: ["violations"] })).violations;
  }) as Violation[];
  const isSerious = ({ impact }: Violation) => impact === "serious" || impact === "critical";
  return violations.filter(isSerious).flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary = "" }) => `${id}: ${help}: ${JSON.stringify(target)} ${failureSummary.replaceAll("\n", " ")}`));
}

/** Keeps a picture of what was there when a test failed. */
export function pictureFailures(browser: () => Browser): void {
  beforeEach(() => {
    onTestFailed(async () => {
      await picture(browser().page, "failure");
      console.log(browser().page.url(), browser().complaints);
    });
  });
}

/** A client of the test's own, to prepare data and to see what the page has done. */
export async function directClient(): Promise<Client> {
  return new Client(ENDPOINT, await signerFor(KEY));
}

export async function makeContainer(
  client: Client, database: string, container: string, paths = ["/kind"], items: readonly JsonObject[] = [],
): Promise<void> {
  await create(client, ["dbs"], { id: database }).catch(() => undefined);
  const partitionKey = { paths, kind: paths.length > 1 ? "MultiHash" : "Hash", version: 2 };
  await create(client, ["dbs", database, "colls"], { id: container, partitionKey });
  // One after another: items are shown in the order of insertion, and the first ones choose the columns.
  for (const item of items) await create(client, ["dbs", database, "colls", container, "docs"], item);
}

export async function dropDatabase(client: Client, database: string): Promise<void> {
  await remove(client, ["dbs", database]).catch(() => undefined);
}

/** The editable text of the editor with this label. */
export const editor = (page: Page, label: string) => page.locator(`[data-label="${label}"] .cm-content`).locator("visible=true");

/** Lines may be wrapped and indented on the screen as they like. */
const bare = (text: string) => text.replace(/\s+/g, "");

/** Replaces the whole text of an editor as a person would. */
export async function retype(page: Page, label: string, text: string): Promise<void> {
  await editor(page, label).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  // Inserted at once: typed characters would have their brackets closed for them.
  await page.keyboard.insertText(text);
  await expect.poll(async () => bare(await editor(page, label).innerText())).toBe(bare(text));
}

/** Holds requests to a path back until what it returns is called: then they go on, as they would have. */
export async function holdRequests(page: Page, method: string, pathEnd: string): Promise<() => Promise<void>> {
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => (release = resolve));
  const isHeld = (url: URL) => url.pathname.endsWith(pathEnd);
  await page.route(isHeld, async (route) => {
    if (route.request().method() === method) await isReleased;
    await route.continue();
  });
  return async () => {
    release();
    await page.unrouteAll({ behavior: "wait" });
  };
}
