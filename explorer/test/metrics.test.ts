import { describe, expect, it } from "vitest";
import { buckets, percentile, readHistory, readMetrics } from "../src/protocol/prometheus";
import { momentOf, momentsOf } from "../src/state/metrics-watch";
import { linesOf, titled } from "../src/views/metrics-view";

const TEXT = `# HELP orrery_requests_total Requests answered
# TYPE orrery_requests_total counter
orrery_requests_total{operation="item",status="201"} 10
orrery_requests_total{operation="item",status="404"} 2
orrery_requests_total{operation="metrics",status="200"} 500

# TYPE orrery_request_seconds histogram
orrery_request_seconds_bucket{operation="item",le="0.001"} 4
orrery_request_seconds_bucket{operation="item",le="0.01"} 10
orrery_request_seconds_bucket{operation="item",le="+Inf"} 12
orrery_request_seconds_bucket{operation="metrics",le="+Inf"} 500
# TYPE odd gauge
odd{text="a \\"b\\", \\\\ \\n{}"} 1.5e3
nonsense line
`;

describe("metrics", () => {
  it("are read with their labels", () => {
    const families = readMetrics(TEXT);
    expect(families.get("orrery_requests_total")).toMatchObject({ kind: "counter", help: "Requests answered" });
    expect(families.get("orrery_requests_total")!.samples[0]).toEqual({ labels: { operation: "item", status: "201" }, value: 10 });
    expect(families.get("odd")!.samples).toEqual([{ labels: { text: 'a "b", \\ \n{}' }, value: 1500 }]);
  });

  it("have percentiles between two readings", () => {
    const now = buckets(readMetrics(TEXT).get("orrery_request_seconds_bucket"), ({ operation }) => operation === "item");
    expect(percentile(new Map(), now, 0.25)).toBeCloseTo(0.00075);
    expect(percentile(new Map(), now, 0.5)).toBeCloseTo(0.001 + 0.009 * (2 / 6));
    expect(percentile(new Map(), now, 0.99)).toBe(0.01);
    expect(percentile(now, now, 0.5)).toBeNull();
  });

  it("become rates, without the page's own requests", () => {
    const before = { at: 0, families: readMetrics('orrery_requests_total{operation="item",status="201"} 4\n') };
    const now = { at: 2000, families: readMetrics(TEXT) };
    const moment = momentOf(before, now);
    expect(moment.operations).toEqual({ item: 4 });
    expect(moment.outcomes).toEqual({ "successful (2xx, 3xx)": 3, "client errors (4xx)": 1 });
    expect(moment.gauges).toEqual({ odd: 1500 });
    expect(linesOf([moment, moment], ({ outcomes }) => outcomes).map(({ name }) => name)).toEqual(["successful (2xx, 3xx)", "client errors (4xx)"]);
  });

  it("of a server that was started again are never negative", () => {
    const before = { at: 0, families: readMetrics(TEXT) };
    const now = { at: 1000, families: readMetrics('orrery_requests_total{operation="item",status="201"} 1\n') };
    expect(momentOf(before, now).operations).toEqual({ item: 0 });
  });
});

describe("the last hour", () => {
  const history = {
    kinds: { orrery_requests_total: "counter", odd: "gauge" },
    names: ['orrery_requests_total{operation="item",status="201"}', "odd"],
    oldest: [10, 0],
    readings: [[10_000, 0, 20, 1, 3], [20_000], [30_000, 0, 50]] as [number, ...number[]][],
  };

  it("is made whole from what changed", () => {
    const values = readHistory(history).map(({ at, families }) => [at, families.get("orrery_requests_total")!.samples[0]!.value, families.get("odd")!.samples[0]!.value]);
    expect(values).toEqual([[10_000, 20, 3], [20_000, 20, 3], [30_000, 50, 3]]);
  });

  it("has rates between its readings", () => {
    const moments = momentsOf(readHistory(history));
    expect(moments.map(({ operations }) => operations)).toEqual([{ item: 0 }, { item: 3 }]);
    expect(moments.map(({ gauges }) => gauges)).toEqual([{ odd: 3 }, { odd: 3 }]);
  });
});

describe("a gauge", () => {
  it("is named as people write it", () => {
    expect(titled("orrery_model_lag_seconds")).toEqual({ title: "Model lag", unit: "seconds" });
    expect(titled("orrery_connections")).toEqual({ title: "Connections", unit: "" });
  });
});
