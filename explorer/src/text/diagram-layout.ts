// Where boxes and lines of a model's picture stand: what refers on the left, what is referred to on
// the right, types without relations below.
import type { Diagram, Line, Row, TypeBox } from "./model-diagram";

export interface PlacedBox {
  box: TypeBox;
  x: number;
  y: number;
  height: number;
  /** Rows that are drawn, and how many are not. */
  rows: Row[];
  hidden: number;
}

export interface PlacedLine {
  line: Line;
  path: string;
  /** Tip of the arrow, and whether it points right (1) or left (-1). */
  tip: { x: number; y: number; way: 1 | -1 };
  label: { x: number; y: number };
}

export interface PlacedDiagram {
  boxes: PlacedBox[];
  lines: PlacedLine[];
  width: number;
  height: number;
}

export const BOX_WIDTH = 252;
export const HEAD_HEIGHT = 46;
export const ROW_HEIGHT = 19;
const ROWS_MAX = 12;
const GAP_X = 118;
const GAP_Y = 34;
const MARGIN = 24;
const LABEL_GAP = 17;

/** In a narrow frame all boxes stand below each other, so that they can be read. */
export function placeDiagram({ boxes, lines }: Diagram, isNarrow = false): PlacedDiagram {
  const names = new Set(boxes.map(({ name }) => name));
  const drawn = lines.filter(({ from, to }) => names.has(from) && names.has(to));
  const linked = new Set(drawn.filter(({ from, to }) => from !== to).flatMap(({ from, to }) => [from, to]));
  const wide = columnsOf(boxes.filter(({ name }) => linked.has(name)), drawn);
  const columns = isNarrow && wide.length > 0 ? [wide.flat()] : wide;
  const placed = new Map<string, PlacedBox>();
  const heights = columns.map((column) => column.reduce((sum, box) => sum + heightOf(box) + GAP_Y, -GAP_Y));
  const tallest = Math.max(0, ...heights);
  columns.forEach((column, index) => {
    let y = MARGIN + (tallest - heights[index]!) / 2;
    for (const box of column) {
      placed.set(box.name, place(box, MARGIN + index * (BOX_WIDTH + GAP_X), y));
      y += heightOf(box) + GAP_Y;
    }
  });
  placeRest(boxes.filter(({ name }) => !linked.has(name)), placed, { columns: columns.length, height: tallest, isNarrow });
  const all = [...placed.values()];
  const placedLines = spread(drawn.map((line) => draw(line, placed.get(line.from)!, placed.get(line.to)!)));
  return {
    boxes: all,
    lines: placedLines,
    width: Math.max(0, ...all.map(({ x }) => x + BOX_WIDTH), ...placedLines.map(({ label }) => label.x + 40)) + MARGIN,
    height: Math.max(0, ...all.map(({ y, height }) => y + height)) + MARGIN,
  };
}

const shown = (box: TypeBox) => Math.min(box.rows.length, ROWS_MAX) + (box.rows.length > ROWS_MAX ? 1 : 0);
const heightOf = (box: TypeBox) => HEAD_HEIGHT + shown(box) * ROW_HEIGHT + (box.rows.length > 0 ? 8 : 0);

function place(box: TypeBox, x: number, y: number): PlacedBox {
  const rows = box.rows.slice(0, ROWS_MAX);
  return { box, x, y, height: heightOf(box), rows, hidden: box.rows.length - rows.length };
}

/** Types without relations, in rows as wide as what is above them, or about square. */
function placeRest(
  rest: readonly TypeBox[], placed: Map<string, PlacedBox>, above: { columns: number; height: number; isNarrow: boolean },
): void {
  const across = above.isNarrow ? 1 : Math.max(above.columns, Math.ceil(Math.sqrt(rest.length)), 1);
  const step = BOX_WIDTH + (above.columns > 1 ? GAP_X : GAP_Y);
  let y = MARGIN + (above.height > 0 ? above.height + GAP_Y : 0);
  for (let first = 0; first < rest.length; first += across) {
    const row = rest.slice(first, first + across);
    row.forEach((box, index) => placed.set(box.name, place(box, MARGIN + index * step, y)));
    y += Math.max(...row.map(heightOf)) + GAP_Y;
  }
}

/** Boxes by the longest way that leads to them; a line that would close a circle counts backwards. */
function columnsOf(boxes: readonly TypeBox[], lines: readonly Line[]): TypeBox[][] {
  const targets = new Map(boxes.map(({ name }) => [name, new Set<string>()]));
  for (const { from, to } of lines) if (from !== to) targets.get(from)!.add(to);
  const order: string[] = [];
  const state = new Map<string, "open" | "done">();
  const forward = new Map(boxes.map(({ name }) => [name, [] as string[]]));
  const visit = (name: string): void => {
    state.set(name, "open");
    for (const to of targets.get(name)!) {
      if (state.get(to) === "open") {
        forward.get(to)!.push(name);
        continue;
      }
      forward.get(name)!.push(to);
      if (!state.has(to)) visit(to);
    }
    state.set(name, "done");
    order.unshift(name);
  };
  const pointedAt = new Set(lines.filter(({ from, to }) => from !== to).map(({ to }) => to));
  for (const { name } of boxes) if (!pointedAt.has(name) && !state.has(name)) visit(name);
  for (const { name } of boxes) if (!state.has(name)) visit(name);
  const level = new Map(boxes.map(({ name }) => [name, 0]));
  for (const name of order) {
    for (const to of forward.get(name)!) level.set(to, Math.max(level.get(to)!, level.get(name)! + 1));
  }
  const columns: TypeBox[][] = [];
  for (const box of boxes) (columns[level.get(box.name)!] ??= []).push(box);
  return untangled(columns.filter((column) => column !== undefined), lines);
}

/** Puts each box near the middle of its neighbours, so that fewer lines cross. */
function untangled(columns: TypeBox[][], lines: readonly Line[]): TypeBox[][] {
  const neighbours = new Map<string, string[]>();
  for (const { from, to } of lines) {
    neighbours.set(from, [...(neighbours.get(from) ?? []), to]);
    neighbours.set(to, [...(neighbours.get(to) ?? []), from]);
  }
  for (let round = 0; round < 4; round++) {
    const rank = new Map(columns.flatMap((column) => column.map(({ name }, index) => [name, index / column.length] as const)));
    const middle = ({ name }: TypeBox) => {
      const near = neighbours.get(name) ?? [];
      return near.reduce((sum, other) => sum + (rank.get(other) ?? 0), 0) / Math.max(near.length, 1);
    };
    for (const column of columns) column.sort((a, b) => middle(a) - middle(b));
  }
  return columns;
}

function rowTop(placed: PlacedBox, path: string): number {
  const index = placed.rows.findIndex((row) => row.path === path);
  return index < 0 ? placed.y + HEAD_HEIGHT / 2 : placed.y + HEAD_HEIGHT + (index + 0.5) * ROW_HEIGHT + 2;
}

function draw(line: Line, from: PlacedBox, to: PlacedBox): PlacedLine {
  const start = rowTop(from, line.path);
  const end = to.y + HEAD_HEIGHT / 2;
  if (from.x === to.x) {
    // The same column, or the same box: out and back on the right.
    const x = from.x + BOX_WIDTH;
    const bend = x + 56 + Math.min(60, Math.abs(end - start) / 6);
    return {
      line,
      path: `M${x} ${start}C${bend} ${start} ${bend} ${end} ${x + 8} ${end}`,
      tip: { x, y: end, way: -1 },
      label: { x: x + (bend - x) * 0.75, y: (start + end) / 2 },
    };
  }
  const way = from.x < to.x ? 1 : -1;
  const x1 = way > 0 ? from.x + BOX_WIDTH : from.x;
  const x2 = way > 0 ? to.x : to.x + BOX_WIDTH;
  const middle = (x1 + x2) / 2;
  return {
    line,
    path: `M${x1} ${start}C${middle} ${start} ${middle} ${end} ${x2 - way * 8} ${end}`,
    tip: { x: x2, y: end, way },
    label: { x: middle, y: (start + end) / 2 },
  };
}

/** Moves labels apart that would lie on each other. */
function spread(lines: PlacedLine[]): PlacedLine[] {
  const sorted = [...lines].sort((a, b) => a.label.y - b.label.y);
  sorted.forEach(({ label }, index) => {
    for (const { label: above } of sorted.slice(0, index)) {
      if (Math.abs(above.x - label.x) < GAP_X && label.y - above.y < LABEL_GAP) label.y = above.y + LABEL_GAP;
    }
  });
  return lines;
}
