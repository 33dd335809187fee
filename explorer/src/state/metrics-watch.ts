// Reads `/metrics` every two seconds and keeps five minutes of what happened in between.
import { signal } from "@preact/signals";
import { describe } from "../protocol/problem";
import { type Family, type Sample, buckets, percentile, readMetrics } from "../protocol/prometheus";
import { endpoint } from "./account";

const EVERY_MS = 2000;
const MOMENTS_KEPT = 150;

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

interface Reading {
  at: number;
  families: Map<string, Family>;
}

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

export class MetricsWatch {
  readonly moments = signal<readonly Moment[]>([]);
  readonly error = signal<string | null>(null);
  private timer: ReturnType<typeof setInterval> | null = null;
  private last: Reading | null = null;

  start(): void {
    if (this.timer !== null) return;
    void this.read();
    this.timer = setInterval(() => void this.read(), EVERY_MS);
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    // What happens until it starts again is no part of the next interval.
    this.last = null;
  }

  private async read(): Promise<void> {
    try {
      const response = await fetch(new URL("/metrics", endpoint()), { cache: "no-store", credentials: "omit" });
      if (!response.ok) throw new Error(`The server answered ${response.status} when asked for its metrics.`);
      const now = { at: Date.now(), families: readMetrics(await response.text()) };
      if (this.last !== null) this.moments.value = [...this.moments.value, momentOf(this.last, now)].slice(-MOMENTS_KEPT);
      this.last = now;
      this.error.value = null;
    } catch (problem) {
      this.error.value = describe(problem);
    }
  }
}
