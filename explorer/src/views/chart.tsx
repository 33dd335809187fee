// Rows as a chart: one column along the axis, one or more numbers over it.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Json, RawNumber } from "../protocol/json";
import { cellOf, cellText, columnsOf, isNumeric } from "../text/csv";
import { shortNumber, ticks } from "../text/scale";
import { ExportPicture } from "./export-picture";

type Kind = "bars" | "line" | "points";

/** The drawing is as wide as its place, within these: text keeps its size. */
const WIDTH_MIN = 320;
const WIDTH_MAX = 920;
const HEIGHT = 380;
const EDGE = { top: 14, right: 16, bottom: 56, left: 60 };
/** Room for a label under the axis. */
const LABEL_WIDTH = 36;

const numberOf = (value: Json | undefined): number | null => {
  const number = typeof value === "number" ? value : value instanceof RawNumber ? Number(value.raw) : Number.NaN;
  return Number.isFinite(number) ? number : null;
};

export function Chart({ rows }: { rows: readonly Json[] }) {
  const columns = columnsOf(rows);
  const numeric = columns.filter((column) => rows.some((row) => isNumeric(cellOf(row, column))) && column !== "_ts");
  const chosenX = useSignal<string | null>(null);
  const chosenY = useSignal<string | null>(null);
  const kind = useSignal<Kind>("bars");
  const frame = useRef<HTMLDivElement>(null);
  const width = useSignal(WIDTH_MAX);
  useEffect(() => {
    if (!frame.current) return;
    const observer = new ResizeObserver(([entry]) => (width.value = Math.round(entry!.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, [numeric.length > 0]);
  if (numeric.length === 0) return <p class="empty">A chart needs a column of numbers, such as<br /><code class="mono">SELECT c.kind, COUNT(1) AS n FROM c GROUP BY c.kind</code></p>;
  const plain = columns.filter((column) => !numeric.includes(column) && !column.startsWith("_"));
  // Where all columns are numbers, what is counted or added up stands behind what it is grouped by.
  const y = chosenY.value !== null && numeric.includes(chosenY.value) ? chosenY.value : numeric.at(plain.length > 0 ? 0 : -1)!;
  const x = chosenX.value !== null && (chosenX.value === "" || columns.includes(chosenX.value)) ? chosenX.value : (plain[0] ?? numeric.find((column) => column !== y) ?? "");
  const points = rows.map((row, index) => ({ label: x === "" ? String(index + 1) : cellText(cellOf(row, x)), value: numberOf(cellOf(row, y)) }));
  return (
    <div class="chart" ref={frame} tabIndex={0} role="group" aria-label="Chart">
      <div class="inline chart-settings">
        <div class="segmented">
          {(["bars", "line", "points"] as const).map((one) => (
            <button type="button" key={one} aria-pressed={kind.value === one} onClick={() => (kind.value = one)}>{one}</button>
          ))}
        </div>
        <label class="inline muted">of
          <select value={y} onChange={(event) => (chosenY.value = event.currentTarget.value)}>{numeric.map((column) => <option key={column}>{column}</option>)}</select>
        </label>
        <label class="inline muted">by
          <select value={x} onChange={(event) => (chosenX.value = event.currentTarget.value)}>
            <option value="">row</option>
            {columns.map((column) => <option key={column} value={column}>{column}</option>)}
          </select>
        </label>
        <span class="grow" />
        <ExportPicture name="chart" find={() => {
          const drawing = frame.current?.querySelector<SVGSVGElement>(".chart-drawing");
          return drawing ? { drawing } : null;
        }} />
      </div>
      <Drawing points={points} kind={kind.value} width={Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, width.value))} label={`${y} by ${x || "row"}`} />
    </div>
  );
}

interface Point {
  label: string;
  value: number | null;
}

function Drawing({ points, kind, width, label }: { points: readonly Point[]; kind: Kind; width: number; label: string }) {
  const values = points.map(({ value }) => value).filter((value) => value !== null);
  const marks = ticks(Math.min(0, ...values), Math.max(0, ...values) || 1, 6);
  const [low, high] = [marks[0]!, marks.at(-1)!];
  const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const step = inner.width / Math.max(1, points.length);
  const xOf = (index: number) => EDGE.left + step * (index + 0.5);
  const yOf = (value: number) => EDGE.top + inner.height * (1 - (value - low) / (high - low));
  const every = Math.max(1, Math.ceil((points.length * LABEL_WIDTH) / inner.width));
  return (
    <svg class="chart-drawing" viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={label}>
      {marks.map((mark) => (
        <g key={mark}>
          <line class={mark === 0 ? "axis" : "gridline"} x1={EDGE.left} x2={width - EDGE.right} y1={yOf(mark)} y2={yOf(mark)} />
          <text class="tick" x={EDGE.left - 8} y={yOf(mark) + 4} text-anchor="end">{shortNumber(mark)}</text>
        </g>
      ))}
      {kind === "line" && <path class="series-line" d={linePath(points, xOf, yOf)} />}
      {points.map(({ label: name, value }, index) => value !== null && (
        <g key={index}>
          <title>{`${name}: ${value}`}</title>
          {kind === "bars"
            ? <rect class="bar" x={xOf(index) - Math.min(step * 0.36, 28)} width={Math.min(step * 0.72, 56)} y={Math.min(yOf(value), yOf(0))} height={Math.max(0.5, Math.abs(yOf(value) - yOf(0)))} />
            : <circle class="point" cx={xOf(index)} cy={yOf(value)} r={points.length > 80 ? 2 : 3.2} />}
        </g>
      ))}
      {points.map(({ label: name }, index) => index % every === 0 && (
        <text key={index} class="tick" transform={`translate(${xOf(index)} ${HEIGHT - EDGE.bottom + 14}) rotate(${points.length > 10 ? -35 : 0})`} text-anchor={points.length > 10 ? "end" : "middle"}>
          {name.length > 18 ? `${name.slice(0, 17)}…` : name}
        </text>
      ))}
    </svg>
  );
}

/** A line through the values; where one is missing it is broken. */
function linePath(points: readonly Point[], xOf: (index: number) => number, yOf: (value: number) => number): string {
  let isDrawing = false;
  return points.map(({ value }, index) => {
    const command = value === null ? "" : `${isDrawing ? "L" : "M"}${xOf(index).toFixed(1)} ${yOf(value).toFixed(1)}`;
    isDrawing = value !== null;
    return command;
  }).join("");
}
