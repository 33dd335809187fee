import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { parseJson } from "../src/protocol/json";
import { type Job, jobSummary, jobText, readNodes } from "../src/protocol/nodes";
import { Problem } from "../src/protocol/problem";
import { EVERY_MS, NodesWatch } from "../src/state/nodes-watch";
import { elapsedText } from "../src/text/elapsed";

const ALONE = '{"shared":false,"nodes":[]}';
const SHARED = `{"shared":true,"timeUs":1795129586000000,"nodes":[{"node":3,"self":true,"state":"live","startedUs":1795129526000000,"uptimeS":60,
  "heartbeatAgeMs":1250,"lagS":2,"host":"a","version":"0.9.0","addresses":["127.0.0.1:8081"],"jobCount":2,
  "jobs":[{"job":"account"},{"job":"container","database":"shop","container":"orders"}]}]}`;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("nodes are read with what they hold; what is no such answer is refused", () => {
  expect(readNodes(parseJson(ALONE))).toEqual({ isShared: false, nodes: [] });
  expect(readNodes(parseJson(SHARED)).nodes).toEqual([{
    number: 3, isSelf: true, isDead: false, host: "a", version: "0.9.0", addresses: ["127.0.0.1:8081"], startedAt: new Date(1795129526000),
    uptimeS: 60, heartbeatAgeMs: 1250, lagS: 2,
    jobs: [{ kind: "account", database: null, container: null }, { kind: "container", database: "shop", container: "orders" }],
  }]);
  for (const wrong of ["null", "[]", "{}", '{"shared":true}', '{"nodes":[]}']) expect(() => readNodes(parseJson(wrong)), wrong).toThrow("lists no nodes");
});

it("a job says what it is for, also when that was deleted meanwhile", () => {
  const job = (kind: string, database: string | null = null, container: string | null = null): Job => ({ kind, database, container });
  const jobs = [job("account"), job("database", "shop"), job("database"), job("container", "shop", "orders"), job("layout", "shop"), job("later", "shop")];
  expect(jobs.map(jobText)).toEqual([
    "Account: unused shards, outcomes of distributed transactions", "Model of shop", "Model of a deleted database", "Container shop / orders",
    "Split or merge of shop / a deleted container", "later shop",
  ]);
  expect(jobSummary(jobs)).toBe("1 account, 2 models, 1 container, 1 split or merge, 1 more");
});

it("times have a unit that can be read", () => {
  expect([-1, 0, 59.9, 60, 7199, 86_399, 86_400 * 12].map(elapsedText)).toEqual(["0 s", "0 s", "59 s", "1 min", "1 h", "23 h", "12 d"]);
});

it("nodes are read again and again until the watch is stopped, and after a failure too", async () => {
  const answers = [() => parseJson(SHARED), () => { throw new TypeError("refused"); }, () => parseJson(ALONE)];
  let asked = 0;
  const watch = new NodesWatch(async () => answers[asked++]!());
  watch.start();
  watch.start();
  await vi.advanceTimersByTimeAsync(0);
  expect([asked, watch.nodes.value?.nodes.length, watch.error.value]).toEqual([1, 1, null]);
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect([asked, watch.nodes.value?.nodes.length, watch.error.value]).toEqual([2, 1, "The server did not answer. Is it still running?"]);
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect([asked, watch.nodes.value?.isShared, watch.error.value]).toEqual([3, false, null]);
  watch.stop();
  await vi.advanceTimersByTimeAsync(10 * EVERY_MS);
  expect(asked).toBe(3);
});

it("an answer that comes after the stop is not taken, and one run is enough after a start anew", async () => {
  const waiting: ((text: string) => void)[] = [];
  const watch = new NodesWatch(() => new Promise((resolve) => waiting.push((text) => resolve(parseJson(text)))));
  watch.start();
  watch.stop();
  watch.start();
  expect(waiting.length).toBe(2);
  waiting[0]!(SHARED);
  await vi.advanceTimersByTimeAsync(0);
  expect(watch.nodes.value).toBeNull();
  waiting[1]!(ALONE);
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect([watch.nodes.value?.isShared, waiting.length]).toEqual([false, 3]);
  watch.stop();
});

it("what the key does not permit is not asked again", async () => {
  let asked = 0;
  const watch = new NodesWatch(async () => {
    asked++;
    throw new Problem(403, 0, "Forbidden", "Not with this token.", "");
  });
  watch.start();
  await vi.advanceTimersByTimeAsync(3 * EVERY_MS);
  expect([asked, watch.error.value]).toEqual([1, "Not with this token."]);
});
