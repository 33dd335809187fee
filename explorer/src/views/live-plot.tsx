// Lines over the last minutes, newest at the right.
import { shortNumber, ticks } from "../text/scale";

export interface Line {
  name: string;
  values: readonly (number | null)[];
}

interface Props {
  title: string;
  unit: string;
  lines: readonly Line[];
  /** How many moments fit; fewer begin at the right. */
  length: number;
}

const WIDTH = 400;
const HEIGHT = 150;
const TOP = 8;
const BOTTOM = 6;

export function LivePlot({ title, unit, lines, length }: Props) {
  const all = lines.flatMap(({ values }) => values).filter((value) => value !== null);
  // Where nothing happens there is still an axis that can be read.
  const highest = Math.max(...all, 0);
  const marks = ticks(0, highest > 0 ? highest : 1, 4);
  const high = marks.at(-1)! || 1;
  const xOf = (index: number, count: number) => (WIDTH * (length - count + index)) / Math.max(1, length - 1);
  const yOf = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / high);
  const path = ({ values }: Line) => values.map((value, index) => {
    if (value === null) return "";
    const at = `${xOf(index, values.length).toFixed(1)} ${yOf(value).toFixed(1)}`;
    const isFirst = (values[index - 1] ?? null) === null;
    // A value between two gaps is a point: a line of no length, which has round ends.
    const isAlone = isFirst && (values[index + 1] ?? null) === null;
    return `${isFirst ? "M" : "L"}${at}${isAlone ? "h0" : ""}`;
  }).join("");
  return (
    <section class="plot">
      <header><b>{title}</b><span class="muted">{unit}</span></header>
      <div class="plot-area">
      {marks.map((mark) => <span key={mark} class="plot-tick" style={{ top: `${(yOf(mark) / HEIGHT) * 100}%` }}>{shortNumber(mark)}</span>)}
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={title}>
        {marks.map((mark) => <line key={mark} class={mark === 0 ? "axis" : "gridline"} x1={0} x2={WIDTH} y1={yOf(mark)} y2={yOf(mark)} />)}
        {lines.map((line, index) => <g key={line.name} class={`s${index % 6}`}><path d={path(line)} /></g>)}
      </svg>
      </div>
      <div class="legend">
        {lines.map(({ name, values }, index) => (
          <span key={name} class={`s${index % 6}`}><i />{name} <b>{values.at(-1) === null || values.at(-1) === undefined ? "–" : shortNumber(values.at(-1)!)}</b></span>
        ))}
      </div>
    </section>
  );
}
