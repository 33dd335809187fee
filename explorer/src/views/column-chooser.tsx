// Which columns the grid shows: a list of ticks that opens under its button.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icon";

interface Props {
  all: readonly string[];
  shown: readonly string[];
  /** Null: as it was at first. */
  onChange: (columns: string[] | null) => void;
}

export function ColumnChooser({ all, shown, onChange }: Props) {
  const isOpen = useSignal(false);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const away = (event: Event) => {
      if (!element.current?.contains(event.target as Node)) isOpen.value = false;
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, []);
  const offered = [...shown, ...all.filter((column) => !shown.includes(column))];
  const flip = (column: string) =>
    onChange(shown.includes(column) ? shown.filter((one) => one !== column) : [...shown, column]);
  return (
    <div class="menu-anchor" ref={element} onKeyDown={(event) => event.key === "Escape" && (isOpen.value = false)}>
      <button type="button" aria-haspopup="true" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
        <Icon name="columns" />Columns
      </button>
      {isOpen.value && (
        <div class="menu" role="group" aria-label="Columns">
          {offered.map((column) => (
            <label class="check" key={column}>
              <input type="checkbox" checked={shown.includes(column)} onChange={() => flip(column)} />
              <span class="mono">{column}</span>
            </label>
          ))}
          <button type="button" class="link" onClick={() => onChange(null)}>As at first</button>
        </div>
      )}
    </div>
  );
}
