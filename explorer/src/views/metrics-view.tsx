// What the server is doing, live: operations, latency, outcomes, charge, and the size of what it holds.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { describe } from "../protocol/problem";
import { type Container, containerPath, listAll } from "../protocol/resources";
import { readUsage } from "../protocol/usage";
import { client } from "../state/account";
import { type Moment, MetricsWatch } from "../state/metrics-watch";
import { Icon } from "./icon";
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
  useEffect(() => {
    watch.start();
    return () => watch.stop();
  }, []);
  const moments = watch.moments.value;
  // A minute at first; the window grows with what there is to see.
  const length = Math.max(MOMENTS_AT_FIRST, moments.length);
  const latency = ["50 %", "95 %", "99 %"].map((name): Line => ({ name, values: moments.map(({ latencyMs }) => latencyMs[name] ?? null) }));
  const charge = linesOf(moments, (moment) => moment.charge);
  const gauges = [...new Set(moments.flatMap(({ gauges: all }) => Object.keys(all)))];
  return (
    <>
      {watch.error.value !== null && <p class="problem bar" role="alert">{watch.error.value}</p>}
      <div class="plots">
        <LivePlot title="Operations" unit="a second" lines={linesOf(moments, (moment) => moment.operations)} length={length} />
        <LivePlot title="Latency" unit="ms, in the server" lines={latency} length={length} />
        <LivePlot title="Answers" unit="a second" lines={linesOf(moments, (moment) => moment.outcomes)} length={length} />
        {charge.length > 0 && <LivePlot title="Charge" unit="RU a second" lines={charge} length={length} />}
        {gauges.map((name) => (
          <LivePlot key={name} {...titled(name)} lines={[{ name: "now", values: moments.map((moment) => moment.gauges[name] ?? null) }]} length={length} />
        ))}
        <Storage />
      </div>
    </>
  );
}

interface Held {
  where: string;
  items: number;
  sizeKb: number;
}

/** What each container holds; asked for when wanted, since it takes a request for each. */
function Storage() {
  const held = useSignal<readonly Held[] | null>(null);
  const error = useSignal<string | null>(null);
  const load = async () => {
    error.value = null;
    try {
      const all: Held[] = [];
      for (const database of await listAll(client(), ["dbs"])) {
        for (const container of await listAll<Container>(client(), ["dbs", String(database.id), "colls"])) {
          const headers = { "x-ms-documentdb-populatequotainfo": "true" };
          const segments = containerPath(String(database.id), container.id);
          const answer = await client().send({ method: "GET", segments, headers });
          const usage = readUsage(answer.headers.get("x-ms-resource-usage"));
          all.push({ where: `${String(database.id)} / ${container.id}`, items: usage.documentsCount ?? 0, sizeKb: usage.documentsSize ?? 0 });
        }
      }
      held.value = all.sort((a, b) => b.sizeKb - a.sizeKb || b.items - a.items);
    } catch (problem) {
      error.value = describe(problem);
    }
  };
  useEffect(() => void load(), []);
  return (
    <section class="plot">
      <header><b>Storage</b><span class="muted">by container</span><span class="grow" /><button type="button" class="quiet" aria-label="Count again" onClick={() => void load()}><Icon name="refresh" /></button></header>
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
      <table class="plain">
        <thead><tr><th>Container</th><th class="number">Items</th><th class="number">KB</th></tr></thead>
        <tbody>
          {(held.value ?? []).map(({ where, items, sizeKb }) => (
            <tr key={where}><td class="mono">{where}</td><td class="number">{items.toLocaleString()}</td><td class="number">{sizeKb === 0 && items > 0 ? "< 1" : sizeKb.toLocaleString()}</td></tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
