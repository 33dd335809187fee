// How far the data is under each rule of a model: the server brings it there beside the writers.
import type { RuleState } from "../protocol/model";
import { counted } from "../protocol/plan";

/** What is not done yet, in a line. */
export function BuildingBar({ states }: { states: readonly RuleState[] }) {
  const building = states.filter(({ state }) => state === "building");
  const violations = building.reduce((sum, rule) => sum + rule.violations, 0);
  if (building.length === 0) return null;
  const percent = Math.min(...building.map(({ progress }) => progress ?? 0));
  return (
    <div class={violations > 0 ? "verification bad-wash" : "verification"} role="status">
      <progress aria-label="Applying the model to existing data" max={100} value={percent} />
      <span>
        Applying {counted(building.length, "rules")} to existing data · {percent} %
        {violations > 0 && <b class="bad"> · {counted(violations, "violations")}; the document lists them</b>}
      </span>
    </div>
  );
}

export function RuleStates({ states }: { states: readonly RuleState[] }) {
  return (
    <aside class="findings rules" aria-label="Rules">
      <header><h2>Rules</h2><span class="muted">{states.length}</span></header>
      {states.length === 0 && <p class="empty">A model declares the references, copies and counts that the server maintains. Without one, items are stored as clients write them.</p>}
      {states.map((rule) => <Rule key={rule.rule} {...rule} />)}
    </aside>
  );
}

function Rule({ rule, state, progress, violations, samples, pending, lagMs }: RuleState) {
  return (
    <div class="rule">
      <span class="mono">{rule}</span>
      <span class={state === "enforced" ? "state good" : "state"}>{state}{progress !== null && ` ${progress} %`}</span>
      {pending > 0 && <p class="muted fine">{counted(pending, "updates")} pending, the oldest for {(lagMs / 1000).toFixed(1)} s</p>}
      {violations > 0 && (
        <details class="fine">
          <summary class="bad">{counted(violations, "violations")}</summary>
          <ul>{samples.map((sample) => <li key={sample}>{sample}</li>)}</ul>
        </details>
      )}
    </div>
  );
}
