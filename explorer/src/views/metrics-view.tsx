// What the server does and did: operations, latency, responses and charge, in the last hour or live.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { type Moment, MetricsWatch } from "../state/metrics-watch";
import { activeAddress, addressOf } from "../state/tabs";
import { isPageVisible } from "../state/visibility";
import { type Line, LivePlot } from "./live-plot";

const LINES_MAX = 6;
const MOMENTS_AT_FIRST = 30;

/** One line for each name that occurs, the busiest first. */
export function linesOf(moments: readonly Moment[], pick: (moment: Moment) => Record<string, number | null>): Line[] {
  const names = [...new Set(moments.flatMap((moment) => Object.keys(pick(moment))))];
  const lines = names.map((name): Line => ({ name, values: moments.map((moment) => pick(moment)[name] ?? null) }));
  const weight = ({ values }: Line) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  return lines.filter((line) => weight(line) > 0).sort((a, b) => weight(b) - weight(a)).slice(0, LINES_MAX);
}

/** `orrery_model_lag_seconds` as people write it: Model lag, in seconds. */
export function titled(metric: string): { title: string; unit: string } {
  const words = metric.replace(/^orrery_/, "").split("_");
  const unit = ["seconds", "bytes"].includes(words.at(-1)!) ? words.pop()! : "";
  const text = words.join(" ");
  return { title: text.charAt(0).toUpperCase() + text.slice(1), unit };
}

export function MetricsView() {
  const watch = useMemo(() => new MetricsWatch(), []);
  // Nothing is read while nobody sees it.
  useSignalEffect(() => {
    if (isPageVisible.value && activeAddress.value === addressOf({ kind: "metrics" })) watch.start();
    else watch.stop();
  });
  useEffect(() => () => watch.stop(), []);
  const isLive = useSignal(false);
  const moments = isLive.value ? watch.moments.value : watch.hour.value;
  // A few steps at first; the window grows with what there is to see.
  const length = Math.max(MOMENTS_AT_FIRST, moments.length);
  const latency = ["50 %", "95 %", "99 %"].map((name): Line => ({ name, values: moments.map(({ latencyMs }) => latencyMs[name] ?? null) }));
  const charge = linesOf(moments, (moment) => moment.charge);
  const gauges = [...new Set(moments.flatMap(({ gauges: all }) => Object.keys(all)))];
  return (
    <>
      {watch.error.value !== null && <p class="problem bar" role="alert">{watch.error.value}</p>}
      <div class="plot-time" role="radiogroup" aria-label="Time">
        <label class="check"><input type="radio" name="metrics-time" checked={!isLive.value} onChange={() => (isLive.value = false)} /> Last hour</label>
        <label class="check"><input type="radio" name="metrics-time" checked={isLive.value} onChange={() => (isLive.value = true)} /> Live</label>
      </div>
      <div class="plots" tabIndex={0} role="group" aria-label="Metrics">
        <LivePlot title="Operations" unit="per second" lines={linesOf(moments, (moment) => moment.operations)} length={length} />
        <LivePlot title="Latency" unit="ms, in the server" lines={latency} length={length} />
        <LivePlot title="Responses" unit="per second" lines={linesOf(moments, (moment) => moment.outcomes)} length={length} />
        {charge.length > 0 && <LivePlot title="Charge" unit="RU per second" lines={charge} length={length} />}
        {gauges.map((name) => (
          <LivePlot key={name} {...titled(name)} lines={[{ name: "now", values: moments.map((moment) => moment.gauges[name] ?? null) }]} length={length} />
        ))}
      </div>
    </>
  );
}
