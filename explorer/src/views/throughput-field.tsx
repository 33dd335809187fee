// Request units a second: none of its own, fixed, or scaling up to a maximum.
import type { Signal } from "@preact/signals";
import type { Throughput } from "../protocol/resources";

interface Props {
  value: Signal<Throughput>;
  /** What it means to have none, or null where one is needed. */
  none: string | null;
}

const MANUAL: Throughput = { kind: "manual", perSecond: 400 };
const AUTOSCALE: Throughput = { kind: "autoscale", maxPerSecond: 1000 };

export function ThroughputField({ value, none }: Props) {
  const current = value.value;
  const kinds: [Throughput["kind"], string][] = [["manual", "Manual"], ["autoscale", "Autoscale"]];
  if (none !== null) kinds.unshift(["none", none]);
  const choose = (kind: Throughput["kind"]) =>
    (value.value = kind === "none" ? { kind } : kind === "manual" ? MANUAL : AUTOSCALE);
  return (
    <fieldset class="field">
      <legend class="label">Throughput</legend>
      <div class="inline">
        <div class="segmented">
          {kinds.map(([kind, label]) => (
            <button type="button" key={kind} aria-pressed={current.kind === kind} onClick={() => choose(kind)}>{label}</button>
          ))}
        </div>
        {current.kind === "manual" && (
          <Amount label="RU/s" value={current.perSecond} step={100} min={400} onChange={(perSecond) => (value.value = { kind: "manual", perSecond })} />
        )}
        {current.kind === "autoscale" && (
          <Amount label="RU/s maximum" value={current.maxPerSecond} step={1000} min={1000} onChange={(maxPerSecond) => (value.value = { kind: "autoscale", maxPerSecond })} />
        )}
      </div>
    </fieldset>
  );
}

interface AmountProps {
  label: string;
  value: number;
  step: number;
  min: number;
  onChange: (value: number) => void;
}

function Amount({ label, value, step, min, onChange }: AmountProps) {
  return (
    <label class="inline">
      <input type="number" class="short" value={value} step={step} min={min} onInput={(event) => onChange(event.currentTarget.valueAsNumber)} />
      {label}
    </label>
  );
}
