// Time to live of a container: off, on with items deciding, or a number of seconds.
import type { Signal } from "@preact/signals";

/** As the protocol has it: absent, -1, or seconds. */
export type Ttl = number | null;

export function TtlField({ value }: { value: Signal<Ttl> }) {
  const current = value.value;
  const options: [string, boolean, Ttl][] = [
    ["Off", current === null, null],
    ["On (no default)", current === -1, -1],
    ["On", current !== null && current !== -1, 86_400],
  ];
  return (
    <fieldset class="field">
      <legend class="label">Time to live</legend>
      <div class="inline">
        <div class="segmented">
          {options.map(([label, isChosen, initial]) => (
            <button type="button" key={label} aria-pressed={isChosen} onClick={() => (value.value = initial)}>{label}</button>
          ))}
        </div>
        {current !== null && current !== -1 && (
          <label class="inline">
            <input type="number" class="short" min={1} value={current} onInput={(event) => (value.value = event.currentTarget.valueAsNumber)} />
            seconds
          </label>
        )}
      </div>
    </fieldset>
  );
}
