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
      <progress aria-label="Bringing the data under the model" max={100} value={percent} />
      <span>
        Bringing what is there under {counted(building.length, "rules")} · {percent} %
        {violations > 0 && <b class="bad"> · {counted(violations, "items")} {violations === 1 ? "breaks" : "break"} a rule; the document lists them</b>}
      </span>
    </div>
  );
}

export function RuleStates({ states }: { states: readonly RuleState[] }) {
  return (
    <aside class="findings rules" aria-label="Rules">
      <header><h2>Rules</h2><span class="muted">{states.length}</span></header>
      {states.length === 0 && <p class="empty">A model tells the server which references, copies and counts to keep true. Without one, items are what clients write.</p>}
      {states.map((rule) => <Rule key={rule.rule} {...rule} />)}
    </aside>
  );
}

function Rule({ rule, state, progress, violations, samples, pending, lagMs }: RuleState) {
  return (
    <div class="rule">
      <span class="mono">{rule}</span>
      <span class={state === "enforced" ? "state good" : "state"}>{state}{progress !== null && ` ${progress} %`}</span>
      {pending > 0 && <p class="muted fine">{counted(pending, "effects")} to follow, the oldest for {(lagMs / 1000).toFixed(1)} s</p>}
      {violations > 0 && (
        <details class="fine">
          <summary class="bad">{counted(violations, "items")} {violations === 1 ? "breaks" : "break"} it</summary>
          <ul>{samples.map((sample) => <li key={sample}>{sample}</li>)}</ul>
        </details>
      )}
    </div>
  );
}
