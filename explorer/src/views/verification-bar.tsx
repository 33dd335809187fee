// How far a verification is, and what it found. The server reads all data in one request, so what can
// be told meanwhile is that it runs and since when.
import type { ModelWatch } from "../state/model-watch";
import { counted } from "../protocol/plan";
import { Icon } from "./icon";

/** More than anybody reads at once; the number of all is told. */
const DRIFT_SHOWN = 200;

export function VerificationBar({ watch, rules }: { watch: ModelWatch; rules: number }) {
  const state = watch.verification.value;
  if (state.kind === "none") return null;
  const dismiss = (
    <button type="button" class="quiet" aria-label="Dismiss" onClick={() => (watch.verification.value = { kind: "none" })}><Icon name="close" size={12} /></button>
  );
  if (state.kind === "running") {
    return (
      <div class="verification" role="status">
        <progress aria-label="Verifying" /><span>Verifying the data against the model · {state.seconds.toFixed(0)} s</span>
        <span class="grow" />
        <button type="button" onClick={() => watch.stopVerifying()}>Stop</button>
      </div>
    );
  }
  if (state.kind === "failed") return <div class="verification bad-wash" role="alert"><span class="bad">{state.message}</span><span class="grow" />{dismiss}</div>;
  const took = `${state.seconds.toFixed(1)} s`;
  if (state.drift.length === 0) {
    return (
      <div class="verification good-wash" role="status">
        <Icon name="check" /><span>The data agrees with the model: {counted(rules, "rules")} verified in {took}.</span>
        <span class="grow" />{dismiss}
      </div>
    );
  }
  return (
    <div class="verification bad-wash" role="alert">
      <details open>
        <summary class="bad">The data differs from the model: {counted(state.drift.length, "differences")} ({took})</summary>
        <ul>{state.drift.slice(0, DRIFT_SHOWN).map((line, index) => <li key={index} class="mono">{line}</li>)}</ul>
      </details>
      <span class="grow" />{dismiss}
    </div>
  );
}
