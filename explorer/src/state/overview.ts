// What the home page shows of each container: size, and what requests did to it since the last reading.
// Sizes are read a few at a time, since the server counts items for each; rates come in one request.
import { signal } from "@preact/signals";
import { type JsonObject, isObject } from "../protocol/json";
import { readAdvice } from "../protocol/model";
import { describe } from "../protocol/problem";
import { containerPath } from "../protocol/resources";
import { readUsage } from "../protocol/usage";
import { client } from "./account";
import { inParallel } from "./parallel";

export interface Size {
  items: number;
  kilobytes: number;
}

/** Requests and request units a second. */
export interface Rate {
  requests: number;
  charge: number;
}

export type Findings = { kind: "reading" } | { kind: "done"; count: number; worst: string | null } | { kind: "failed"; message: string };

/** Counts since the server's start, by `dbs/…/colls/…`. */
export interface Totals {
  atUs: number;
  byContainer: ReadonlyMap<string, { requests: number; charge: number }>;
}

export const linkOf = (database: string, container: string) => `dbs/${database}/colls/${container}`;

/** The server's statistics summed by container; null where it keeps none. */
export function readTotals(value: JsonObject): Totals | null {
  if (value.enabled !== true) return null;
  const byContainer = new Map<string, { requests: number; charge: number }>();
  for (const row of Array.isArray(value.rows) ? value.rows.filter(isObject) : []) {
    if (typeof row.container !== "string") continue;
    const sum = byContainer.get(row.container) ?? { requests: 0, charge: 0 };
    byContainer.set(row.container, { requests: sum.requests + Number(row.count), charge: sum.charge + Number(row.charge) });
  }
  return { atUs: Number(value.timeUs), byContainer };
}

/** What happened between two readings; a server that was restarted counts from zero. */
export function ratesBetween(before: Totals, now: Totals): Map<string, Rate> {
  const seconds = Math.max((now.atUs - before.atUs) / 1e6, 0.001);
  return new Map([...now.byContainer].map(([link, { requests, charge }]) => {
    const old = before.byContainer.get(link) ?? { requests: 0, charge: 0 };
    return [link, { requests: Math.max(0, requests - old.requests) / seconds, charge: Math.max(0, charge - old.charge) / seconds }];
  }));
}

const EVERY_MS = 3000;
const SIZES_AT_ONCE = 4;
/** Sizes that are read without being asked for. */
export const SIZES_AT_FIRST = 40;

export class Overview {
  readonly sizes = signal<Readonly<Record<string, Size>>>({});
  readonly rates = signal<ReadonlyMap<string, Rate> | null>(null);
  readonly findings = signal<Readonly<Record<string, Findings>>>({});
  readonly error = signal<string | null>(null);
  private last: Totals | null = null;
  private timer: ReturnType<typeof setInterval> | null = null;
  private readonly asked = new Set<string>();

  /** Reads rates until it is stopped. */
  start(): void {
    if (this.timer !== null) return;
    void this.readRates();
    this.timer = setInterval(() => void this.readRates(), EVERY_MS);
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    this.last = null;
  }

  private async readRates(): Promise<void> {
    try {
      const now = readTotals((await client().json({ method: "GET", segments: ["_orrery", "statistics"] })) as JsonObject);
      if (this.last !== null && now !== null) this.rates.value = ratesBetween(this.last, now);
      this.last = now;
    } catch (problem) {
      // A key that may only read, or a server that keeps no statistics: there are no rates to show.
      this.stop();
      this.error.value = describe(problem);
    }
  }

  /** Reads the sizes of containers whose size is not known yet. */
  async readSizes(containers: readonly { database: string; container: string }[]): Promise<void> {
    const wanted = containers.filter(({ database, container }) => !this.asked.has(linkOf(database, container)));
    for (const { database, container } of wanted) this.asked.add(linkOf(database, container));
    await inParallel(wanted, SIZES_AT_ONCE, ({ database, container }) => this.readSize(database, container));
  }

  /** Forgets all sizes, so that they are read again. */
  forgetSizes(): void {
    this.asked.clear();
    this.sizes.value = {};
  }

  private async readSize(database: string, container: string): Promise<void> {
    try {
      const headers = { "x-ms-documentdb-populatequotainfo": "true" };
      const answer = await client().send({ method: "GET", segments: containerPath(database, container), headers });
      const usage = readUsage(answer.headers.get("x-ms-resource-usage"));
      const size = { items: usage.documentsCount ?? 0, kilobytes: usage.documentsSize ?? 0 };
      this.sizes.value = { ...this.sizes.value, [linkOf(database, container)]: size };
    } catch {
      // Deleted meanwhile: the tree will say so.
    }
  }

  /** Asks the advisor about a database; the server reads data for it. */
  async advise(database: string): Promise<void> {
    const set = (findings: Findings) => (this.findings.value = { ...this.findings.value, [database]: findings });
    set({ kind: "reading" });
    try {
      const { findings } = await readAdvice(client(), database);
      const worst = ["critical", "warning", "info"].find((severity) => findings.some((one) => one.severity === severity)) ?? null;
      set({ kind: "done", count: findings.length, worst });
    } catch (problem) {
      set({ kind: "failed", message: describe(problem) });
    }
  }
}

/** Kilobytes as people write them. */
export function sizeText(kilobytes: number): string {
  const units = ["KB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log(Math.max(1, kilobytes)) / Math.log(1024))));
  const value = kilobytes / 1024 ** step;
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 && step > 0 ? 1 : 0 })} ${units[step]}`;
}

