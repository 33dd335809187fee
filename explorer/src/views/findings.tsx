// What the advisor found: each finding with its reason, its evidence, what it costs now and afterwards,
// and a way to apply what it proposes.
import type { Signal } from "@preact/signals";
import { prettyJson } from "../protocol/json";
import { type Effort, type Finding, costOf } from "../protocol/model";
import { counted, spelled } from "../protocol/plan";
import type { ModelWatch } from "../state/model-watch";
import { changeOf } from "../text/model-patch";
import { shortNumber } from "../text/scale";
import { ApplyFinding } from "./apply-finding";
import { openDialog } from "./dialog";
import { Icon } from "./icon";

const RULES: Readonly<Record<string, string>> = {
  M01: "Unbounded array", M02: "Item size", M03: "Hot duplicate", M04: "N+1 reads", M05: "Worth copying", M06: "Copy turned hot",
  M07: "Weak link", M08: "Wrong side", M09: "Join items", M10: "Counter", M11: "Partition", M12: "Index waste", M13: "Type drift",
  M14: "Queries by another key",
};

interface Props {
  watch: ModelWatch;
  /** The type whose findings are wanted; null for all. */
  selected: Signal<string | null>;
  /** Types of findings that the picture shows under another name. */
  names: ReadonlyMap<string, string>;
  onEditFirst: (text: string) => void;
}

export function Findings({ watch, selected, names, onEditFirst }: Props) {
  const report = watch.report.value;
  const all = report?.findings ?? [];
  const wanted = selected.value === null ? all : all.filter(({ type }) => (names.get(type) ?? type) === selected.value);
  return (
    <aside class="findings" aria-label="Findings">
      <header>
        <h2>Findings</h2>
        {report !== null && <span class="muted">{wanted.length}{wanted.length !== all.length && ` of ${all.length}`}</span>}
        {selected.value !== null && (
          <button type="button" class="chip" aria-label={`Show findings of all types, not only ${selected.value}`} onClick={() => (selected.value = null)}>
            {selected.value}<Icon name="close" size={10} />
          </button>
        )}
        <span class="grow" />
        {watch.isAdvising.value && <span class="muted fine" role="status">Reading the data…</span>}
      </header>
      {watch.adviceError.value !== null && <p class="problem" role="alert">{watch.adviceError.value}</p>}
      {report !== null && wanted.length === 0 && <p class="empty">{all.length === 0 ? "No findings." : `No findings for ${selected.value}.`}</p>}
      {wanted.map((finding) => (
        <Card key={`${finding.rule} ${finding.type} ${finding.path}`} finding={finding} watch={watch} onEditFirst={onEditFirst} />
      ))}
      {report !== null && (
        <footer class="muted fine">
          <p>Based on {counted(report.window.items, "items")}{span(report.window)}.</p>
          {report.tooLittleData.length > 0 && (
            <details>
              <summary>Too little data for {counted(report.tooLittleData.length, "checks")}</summary>
              <ul>{report.tooLittleData.map((text) => <li key={text}>{text}</li>)}</ul>
            </details>
          )}
        </footer>
      )}
    </aside>
  );
}

function span({ from, to }: { from?: number; to?: number }): string {
  if (from === undefined || to === undefined) return "";
  const day = (seconds: number) => new Date(seconds * 1000).toLocaleDateString();
  return day(from) === day(to) ? `, written on ${day(to)}` : `, written from ${day(from)} to ${day(to)}`;
}

function Card({ finding, watch, onEditFirst }: { finding: Finding; watch: ModelWatch; onEditFirst: (text: string) => void }) {
  const change = changeOf(finding);
  const cost = costOf(finding);
  const name = RULES[finding.rule] ?? finding.rule;
  const apply = () => openDialog(<ApplyFinding finding={finding} title={name} watch={watch} onEditFirst={onEditFirst} />);
  return (
    <article class={`finding ${finding.severity}`} aria-label={`${name}: ${finding.type} ${finding.path}`}>
      <header>
        <span class="severity">{finding.severity}</span>
        <b>{name}</b>
        <span class="muted">{finding.rule}</span>
        <span class="grow" />
        <span class="muted fine" title="Confidence of the advisor">confidence {Math.round(finding.confidence * 100)} %</span>
      </header>
      <p class="mono finding-place">{finding.type}{finding.path !== "" && <> <span class="muted">{finding.path}</span></>}</p>
      <p>{finding.reason}</p>
      {cost !== null && <Cost {...cost} />}
      <details>
        <summary>Evidence</summary>
        <Evidence finding={finding} />
      </details>
      {change.kind === "none"
        ? <p class="muted">{change.reason}</p>
        : <button type="button" class="primary" onClick={apply}>Apply…</button>}
      {change.kind === "none" && Object.keys(finding.patch).length > 0 && <pre class="proposal">{prettyJson(finding.patch)}</pre>}
    </article>
  );
}

function Cost({ of, now, after }: { of: string; now: Effort; after: Effort }) {
  const most = Math.max(now.requestUnits, after.requestUnits, 0.01);
  const bar = (label: string, effort: Effort, kind: string) => (
    <>
      <span class="muted">{label}</span>
      <svg class={`cost-bar ${kind}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect width={Math.max(1, (effort.requestUnits / most) * 100)} height="8" />
      </svg>
      <span class="number">{shortNumber(effort.requestUnits)} RU{effort.bytes !== undefined && <span class="muted"> · {shortNumber(effort.bytes)}B</span>}</span>
    </>
  );
  return (
    <div class="cost">
      <span class="cost-of muted">Cost of {of}</span>
      {bar("now", now, "now")}
      {bar("after", after, "after")}
    </div>
  );
}

const COST_COUNTS = /^(costOf|requestUnitsNow|requestUnitsAfter)$/;

function Evidence({ finding: { counts, samples } }: { finding: Finding }) {
  const shown = Object.entries(counts).filter(([name]) => !COST_COUNTS.test(name));
  return (
    <dl class="evidence">
      {shown.map(([name, value]) => (
        <>
          <dt>{spelled(name)}</dt>
          <dd>{typeof value === "number" ? value.toLocaleString("en") : typeof value === "string" ? value : JSON.stringify(value)}</dd>
        </>
      ))}
      {samples.length > 0 && <><dt>samples</dt><dd class="mono">{samples.join(", ")}</dd></>}
    </dl>
  );
}
