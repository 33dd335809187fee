// Rows and columns of JSON values. Cells hold text and nothing but text: whatever an item says, it
// is shown and never interpreted. Arrow keys move between rows, headers sort, their edges resize.
import { useSignal } from "@preact/signals";
import type { Json } from "../protocol/json";
import { cellOf, cellText, isNumeric } from "../text/csv";
import type { Sort } from "../text/sort-rows";

/** A cell shows this much; the whole value is in its title and in the editor. */
const CELL_CHARS = 160;
const WIDTH_MIN = 48;

interface Props<T extends Json> {
  label: string;
  rows: readonly T[];
  columns: readonly string[];
  emphasized?: readonly string[];
  selected?: T | null;
  onSelect?: (row: T) => void;
  sort?: Sort | null;
  /** Without it headers do not sort. */
  onSort?: ((column: string) => void) | undefined;
  /** Rows that are ticked; without it there are no ticks. */
  checked?: ReadonlySet<T>;
  onCheck?: (rows: ReadonlySet<T>) => void;
  empty: string;
}

export function Grid<T extends Json>(props: Props<T>) {
  const { label, rows, columns, emphasized = [], selected = null, onSelect, checked, empty } = props;
  const focused = useSignal(0);
  const widths = useSignal<Readonly<Record<string, number>>>({});
  const onKeyDown = (event: KeyboardEvent) => {
    if ((event.target as HTMLElement).tagName !== "TR") return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -rows.length, End: rows.length }[event.key];
    const row = rows[focused.value];
    if (event.key === "Enter" && row !== undefined) onSelect?.(row);
    else if (event.key === " " && row !== undefined && checked) toggle(props, row);
    else if (step !== undefined && rows.length > 0) {
      const next = Math.min(Math.max(focused.value + step, 0), rows.length - 1);
      focused.value = next;
      const body = event.currentTarget as HTMLElement;
      (body.children[next] as HTMLElement | undefined)?.focus();
    } else return;
    event.preventDefault();
  };
  const resize = (column: string, width: number | null) => {
    const { [column]: _, ...others } = widths.value;
    widths.value = width === null ? others : { ...others, [column]: Math.max(WIDTH_MIN, width) };
  };
  if (rows.length === 0) return <div class="grid-scroll"><p class="empty">{empty}</p></div>;
  return (
    <div class="grid-scroll">
      <table class="grid" role="grid" aria-label={label} aria-rowcount={rows.length} aria-multiselectable={checked !== undefined}>
        <thead>
          <tr>
            {checked && <th class="tick"><TickAll {...props} /></th>}
            {columns.map((column) => (
              <Header
                key={column} column={column} isNumber={isNumeric(cellOf(rows[0]!, column))} width={widths.value[column] ?? null}
                sort={props.sort?.column === column ? props.sort : null} onSort={props.onSort} onResize={(width) => resize(column, width)}
              />
            ))}
            <td class="filler" aria-hidden="true" />
          </tr>
        </thead>
        <tbody onKeyDown={onKeyDown}>
          {rows.map((row, index) => (
            <tr
              key={index} tabIndex={index === Math.min(focused.value, rows.length - 1) ? 0 : -1}
              aria-selected={checked ? checked.has(row) : row === selected} class={row === selected ? "current" : ""}
              onClick={() => {
                focused.value = index;
                onSelect?.(row);
              }}
            >
              {checked && (
                <td class="tick" onClick={(event) => event.stopPropagation()}>
                  <input type="checkbox" tabIndex={-1} aria-label={`Select row ${index + 1}`} checked={checked.has(row)} onChange={() => toggle(props, row)} />
                </td>
              )}
              {columns.map((column) => <Cell key={column} value={cellOf(row, column)} isStrong={emphasized.includes(column)} width={widths.value[column] ?? null} />)}
              <td class="filler" aria-hidden="true" />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function toggle<T extends Json>({ checked, onCheck }: Props<T>, row: T): void {
  const next = new Set(checked);
  if (!next.delete(row)) next.add(row);
  onCheck?.(next);
}

function TickAll<T extends Json>({ rows, checked, onCheck }: Props<T>) {
  const isAll = rows.every((row) => checked!.has(row));
  return (
    <input
      type="checkbox" aria-label="Select all rows of this page" checked={isAll} indeterminate={!isAll && checked!.size > 0}
      onChange={() => onCheck?.(new Set(isAll ? [] : rows))}
    />
  );
}

interface HeaderProps {
  column: string;
  isNumber: boolean;
  width: number | null;
  sort: Sort | null;
  onSort: ((column: string) => void) | undefined;
  onResize: (width: number | null) => void;
}

const styleOf = (width: number | null) => (width === null ? {} : { width: `${width}px`, minWidth: `${width}px`, maxWidth: `${width}px` });

function Header({ column, isNumber, width, sort, onSort, onResize }: HeaderProps) {
  const drag = (event: PointerEvent) => {
    const edge = event.currentTarget as HTMLElement;
    const start = edge.parentElement!.getBoundingClientRect().width - event.clientX;
    edge.setPointerCapture(event.pointerId);
    const move = (moved: PointerEvent) => onResize(start + moved.clientX);
    edge.addEventListener("pointermove", move);
    edge.addEventListener("pointerup", () => edge.removeEventListener("pointermove", move), { once: true });
  };
  const order = sort === null ? "none" : sort.isDescending ? "descending" : "ascending";
  return (
    <th scope="col" class={isNumber ? "mono number" : "mono"} style={styleOf(width)} aria-sort={onSort ? order : undefined}>
      {onSort
        ? <button type="button" title={`Sort by ${column}`} onClick={() => onSort(column)}>{column}<span aria-hidden="true">{sort === null ? "" : sort.isDescending ? " ↓" : " ↑"}</span></button>
        : column}
      <span class="column-edge" aria-hidden="true" title="Drag to resize; double-click to fit" onPointerDown={drag} onDblClick={() => onResize(null)} />
    </th>
  );
}

function Cell({ value, isStrong, width }: { value: Json | undefined; isStrong: boolean; width: number | null }) {
  const text = cellText(value);
  const kind =
    value === undefined ? "undefined"
    : typeof value === "string" ? "string"
    : isNumeric(value) ? "number"
    : value === null || typeof value === "boolean" ? "word"
    : "nested";
  const cut = text.length > CELL_CHARS ? `${text.slice(0, CELL_CHARS)}…` : text;
  return <td class={`cell ${kind}${isStrong ? " strong" : ""}`} style={styleOf(width)} title={text.length > 24 ? text.slice(0, 2000) : undefined}>{cut}</td>;
}
