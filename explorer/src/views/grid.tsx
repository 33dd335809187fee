// Rows and columns of JSON values. Cells hold text and nothing but text: whatever an item says, it
// is shown and never interpreted. Arrow keys walk the rows.
import { useSignal } from "@preact/signals";
import type { Json } from "../protocol/json";
import { cellOf, cellText, isNumeric } from "../text/csv";

/** A cell shows this much; the whole value is in its title and in the editor. */
const CELL_CHARS = 160;

interface Props<T extends Json> {
  label: string;
  rows: readonly T[];
  columns: readonly string[];
  emphasized?: readonly string[];
  selected?: T | null;
  onSelect?: (row: T) => void;
  empty: string;
}

export function Grid<T extends Json>({ label, rows, columns, emphasized = [], selected = null, onSelect, empty }: Props<T>) {
  const focused = useSignal(0);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -rows.length, End: rows.length }[event.key];
    const row = rows[focused.value];
    if (event.key === "Enter" && row !== undefined) onSelect?.(row);
    else if (step !== undefined && rows.length > 0) {
      const next = Math.min(Math.max(focused.value + step, 0), rows.length - 1);
      focused.value = next;
      const body = event.currentTarget as HTMLElement;
      (body.children[next] as HTMLElement | undefined)?.focus();
    } else return;
    event.preventDefault();
  };
  if (rows.length === 0) return <div class="grid-scroll"><p class="empty">{empty}</p></div>;
  return (
    <div class="grid-scroll">
      <table class="grid" role="grid" aria-label={label} aria-rowcount={rows.length}>
        <thead>
          <tr>
            {columns.map((column) => <th key={column} scope="col" class={isNumeric(cellOf(rows[0]!, column)) ? "mono number" : "mono"}>{column}</th>)}
            <th class="filler" aria-hidden="true" />
          </tr>
        </thead>
        <tbody onKeyDown={onKeyDown}>
          {rows.map((row, index) => (
            <tr
              key={index} tabIndex={index === Math.min(focused.value, rows.length - 1) ? 0 : -1}
              aria-selected={row === selected}
              onClick={() => {
                focused.value = index;
                onSelect?.(row);
              }}
            >
              {columns.map((column) => <Cell key={column} value={cellOf(row, column)} isStrong={emphasized.includes(column)} />)}
              <td class="filler" aria-hidden="true" />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell({ value, isStrong }: { value: Json | undefined; isStrong: boolean }) {
  const text = cellText(value);
  const kind =
    value === undefined ? "undefined"
    : typeof value === "string" ? "string"
    : isNumeric(value) ? "number"
    : value === null || typeof value === "boolean" ? "word"
    : "nested";
  const cut = text.length > CELL_CHARS ? `${text.slice(0, CELL_CHARS)}…` : text;
  return <td class={`cell ${kind}${isStrong ? " strong" : ""}`} title={text.length > 24 ? text.slice(0, 2000) : undefined}>{cut}</td>;
}
