import { expect, it } from "vitest";
import { ratesBetween, readTotals, sizeText } from "../src/state/overview";

const row = (container: string | null, count: number, charge: number) => ({ container, operation: "query", shape: null, count, failed: 0, throttled: 0, charge, latencyUs: [] });
const totals = (timeUs: number, rows: ReturnType<typeof row>[]) => readTotals({ enabled: true, timeUs, rows })!;

it("statistics are summed by container, and what has none is left out", () => {
  const { byContainer } = totals(0, [row("dbs/a/colls/b", 2, 3), row("dbs/a/colls/b", 5, 7.5), row(null, 100, 1), row("dbs/a/colls/c", 1, 1)]);
  expect([...byContainer]).toEqual([["dbs/a/colls/b", { requests: 7, charge: 10.5 }], ["dbs/a/colls/c", { requests: 1, charge: 1 }]]);
  expect(readTotals({ enabled: false, timeUs: 1, rows: [] })).toBeNull();
});

it("rates are differences a second; a server that was restarted counts from zero", () => {
  const before = totals(1_000_000, [row("dbs/a/colls/b", 10, 100)]);
  const after = totals(3_000_000, [row("dbs/a/colls/b", 30, 150), row("dbs/a/colls/new", 4, 8)]);
  expect(Object.fromEntries(ratesBetween(before, after))).toEqual({
    "dbs/a/colls/b": { requests: 10, charge: 25 }, "dbs/a/colls/new": { requests: 2, charge: 4 },
  });
  expect(ratesBetween(after, before).get("dbs/a/colls/b")).toEqual({ requests: 0, charge: 0 });
});

it("sizes have a unit that can be read", () => {
  expect([0, 1, 1023, 1024, 1536, 10_240, 5_000_000, 3e12].map(sizeText)).toEqual(["0 KB", "1 KB", "1,023 KB", "1 MB", "1.5 MB", "10 MB", "4.8 GB", "2,794 TB"]);
});
