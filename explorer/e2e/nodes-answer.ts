// What `GET /_orrery/nodes` answers on a store that three processes share, one of which has died a moment ago.
import type { JsonObject } from "../src/protocol/json";
import type { Page } from "playwright-core";

const STARTED_US = 1_795_129_526_000_000;
const container = (number: number): JsonObject => ({ job: "container", database: "shop", container: `orders-${number}` });

function node(number: number, more: JsonObject, jobs: JsonObject[]): JsonObject {
  return {
    node: number, self: false, state: "live", startedUs: STARTED_US + number * 1_000_000, uptimeS: 7300 - number, heartbeatAgeMs: 400 * number, lagS: 0,
    host: `orrery-${number}.internal.example`, version: "0.9.0", addresses: [`10.0.0.${number}:8081`], ...more, jobCount: jobs.length, jobs,
  };
}

const THREE_NODES: JsonObject = {
  shared: true,
  timeUs: STARTED_US + 7_300_000_000,
  nodes: [
    node(1, { self: true, lagS: 3 }, [{ job: "account" }, { job: "database", database: "shop" }, ...Array.from({ length: 9 }, (_, n) => container(n))]),
    node(2, {}, [container(9), { job: "layout", database: "shop", container: "orders-1" }]),
    node(4, { state: "dead", heartbeatAgeMs: 10_700 }, []),
  ],
};

/** Answers the page in place of the server, which has a store of its own. */
export async function answerWithNodes(page: Page): Promise<void> {
  await page.route((url) => url.pathname === "/_orrery/nodes", (route) => route.fulfill({ json: THREE_NODES }));
}
