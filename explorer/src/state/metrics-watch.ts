// Reads `/metrics` every two seconds and keeps five minutes of what happened in between; and an hour in steps of ten
// seconds, which begins with what the server has kept.
import { signal } from "@preact/signals";
import { describe } from "../protocol/problem";
import { type History, type Reading, type Sample, buckets, percentile, readHistory, readMetrics } from "../protocol/prometheus";
import { endpoint } from "./account";

const EVERY_MS = 2000;
const MOMENTS_KEPT = 150;
const HOUR_STEP_MS = 10_000;
const HOUR_MOMENTS = 360;

/** What happened between two readings: lines of plots by name. */
export interface Moment {
  at: number;
  operations: Record<string, number>;
  outcomes: Record<string, number>;
  latencyMs: Record<string, number | null>;
  charge: Record<string, number>;
  gauges: Record<string, number>;
}

/** Routes beside the protocol, this page's own reading among them, say nothing about the database. */
const ASIDE = new Set(["metrics", "explorer", "health", "ready", "certificate"]);
const isOperation = (labels: Sample["labels"]) => !ASIDE.has(labels.operation ?? "");

const REQUESTS = "orrery_requests_total";
const SECONDS = "orrery_request_seconds_bucket";
const CHARGE = "orrery_request_charge_total";

/** The increase of a counter per second, summed by a name made of the labels. */
function rates(before: Reading, now: Reading, family: string, nameOf: (labels: Sample["labels"]) => string): Record<string, number> {
  const seconds = (now.at - before.at) / 1000;
  const sums: Record<string, number> = {};
  const add = (reading: Reading, sign: number) => {
    for (const { labels, value } of reading.families.get(family)?.samples ?? []) {
      if (isOperation(labels)) sums[nameOf(labels)] = (sums[nameOf(labels)] ?? 0) + sign * value;
    }
  };
  add(now, 1);
  add(before, -1);
  // A server that was started again counts from zero.
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, Math.max(0, sum) / seconds]));
}

function outcomeName({ status = "" }: Sample["labels"]): string {
  if (status.startsWith("5")) return "server errors (5xx)";
  if (status === "429") return "throttled (429)";
  return status.startsWith("4") ? "client errors (4xx)" : "successful (2xx, 3xx)";
}

export function momentOf(before: Reading, now: Reading): Moment {
  const [old, current] = [before, now].map(({ families }) => buckets(families.get(SECONDS), isOperation)) as [Map<number, number>, Map<number, number>];
  const ms = (share: number) => {
    const seconds = percentile(old, current, share);
    return seconds === null ? null : seconds * 1000;
  };
  const gauges: Record<string, number> = {};
  for (const { name, kind, samples } of now.families.values()) {
    if (kind === "gauge") gauges[name] = samples.reduce((sum, { value }) => sum + value, 0);
  }
  return {
    at: now.at,
    operations: rates(before, now, REQUESTS, ({ operation = "" }) => operation),
    outcomes: rates(before, now, REQUESTS, outcomeName),
    latencyMs: { "50 %": ms(0.5), "95 %": ms(0.95), "99 %": ms(0.99) },
    charge: rates(before, now, CHARGE, () => "charge"),
    gauges,
  };
}

/** What happened between each reading and the next. */
export function momentsOf(readings: readonly Reading[]): Moment[] {
  return readings.slice(1).map((now, index) => momentOf(readings[index]!, now));
}

export class MetricsWatch {
  readonly moments = signal<readonly Moment[]>([]);
  readonly hour = signal<readonly Moment[]>([]);
  readonly error = signal<string | null>(null);
  private timer: ReturnType<typeof setInterval> | null = null;
  private last: Reading | null = null;
  private lastOfHour: Reading | null = null;

  start(): void {
    if (this.timer !== null) return;
    void this.readHour().then(() => this.read());
    this.timer = setInterval(() => void this.read(), EVERY_MS);
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    // What happens until it starts again is no part of the next interval.
    this.last = null;
    this.lastOfHour = null;
  }

  private async readHour(): Promise<void> {
    try {
      const readings = readHistory((await (await this.ask("/metrics/history")).json()) as History);
      this.hour.value = momentsOf(readings);
      this.lastOfHour = readings.at(-1) ?? null;
    } catch (problem) {
      this.error.value = describe(problem);
    }
  }

  private async read(): Promise<void> {
    try {
      const now = { at: Date.now(), families: readMetrics(await (await this.ask("/metrics")).text()) };
      if (this.last !== null) this.moments.value = [...this.moments.value, momentOf(this.last, now)].slice(-MOMENTS_KEPT);
      this.last = now;
      this.addToHour(now);
      this.error.value = null;
    } catch (problem) {
      this.error.value = describe(problem);
    }
  }

  private addToHour(now: Reading): void {
    this.lastOfHour ??= now;
    // The server's clock may be ahead of this one; a step of no length has no rates.
    if (now.at - this.lastOfHour.at < HOUR_STEP_MS) return;
    this.hour.value = [...this.hour.value, momentOf(this.lastOfHour, now)].slice(-HOUR_MOMENTS);
    this.lastOfHour = now;
  }

  private async ask(path: string): Promise<Response> {
    const response = await fetch(new URL(path, endpoint()), { cache: "no-store", credentials: "omit" });
    if (!response.ok) throw new Error(`The server answered ${response.status} when asked for its metrics.`);
    return response;
  }
}
