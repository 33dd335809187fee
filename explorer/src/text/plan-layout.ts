// Where the steps of a plan stand in its picture: the answer on top, what it draws on below, siblings
// side by side and parents over the middle of their inputs.
import { type PlanNode, counted, spelled } from "../protocol/plan";

export interface PlacedNode {
  node: PlanNode;
  x: number;
  y: number;
  width: number;
  height: number;
  lines: string[];
  /** How many rows it gave, where the server says so. */
  count: RowCount | null;
  facts: string[];
}

export interface RowCount {
  text: string;
  /** Whether what was expected was wrong by far: there the plan may be the wrong one. */
  isOff: boolean;
}

export interface PlacedEdge {
  from: { x: number; y: number };
  to: { x: number; y: number };
  rows: number | null;
  /** Whether that is what was expected and not what came. */
  isExpected: boolean;
}

export interface PlacedPlan {
  nodes: PlacedNode[];
  edges: PlacedEdge[];
  width: number;
  height: number;
}

const WIDTH = 250;
const GAP_X = 28;
const GAP_Y = 44;
const LINE_CHARS = 34;
const LINES_MAX = 4;
const LINE_HEIGHT = 16;
const MARGIN = 16;

export function placePlan(root: PlanNode): PlacedPlan {
  const nodes: PlacedNode[] = [];
  const edges: PlacedEdge[] = [];
  const place = (node: PlanNode, left: number, top: number): { placed: PlacedNode; right: number } => {
    const lines = wrap(node.detail);
    const count = countOf(node);
    const facts = factsOf(node);
    const told = facts.length + (count === null ? 0 : 1);
    const height = 34 + (lines.length + told) * LINE_HEIGHT + (told > 0 ? 8 : 0);
    const inputs: PlacedNode[] = [];
    let right = left;
    for (const input of node.inputs) {
      const below = place(input, right, top + height + GAP_Y);
      inputs.push(below.placed);
      right = below.right + GAP_X;
    }
    right = Math.max(right - (node.inputs.length > 0 ? GAP_X : 0), left + WIDTH);
    const middle = inputs.length > 0 ? (inputs[0]!.x + inputs.at(-1)!.x) / 2 : left;
    const placed = { node, x: middle, y: top, width: WIDTH, height, lines, count, facts };
    nodes.push(placed);
    for (const input of inputs) {
      edges.push({
        from: { x: input.x + WIDTH / 2, y: input.y },
        to: { x: placed.x + WIDTH / 2, y: top + height },
        rows: given(input.node) ?? input.node.estimatedRows,
        isExpected: given(input.node) === null,
      });
    }
    return { placed, right };
  };
  place(root, MARGIN, MARGIN);
  return {
    nodes,
    edges,
    width: Math.max(...nodes.map(({ x, width }) => x + width)) + MARGIN,
    height: Math.max(...nodes.map(({ y, height }) => y + height)) + MARGIN,
  };
}

/** Rows that a step gave. */
function given(node: PlanNode): number | null {
  return node.actual.find(({ name }) => name === "rows")?.count ?? null;
}

const OFF_FACTOR = 10;

function countOf(node: PlanNode): RowCount | null {
  const rows = given(node);
  if (rows === null) return null;
  const expected = node.estimatedRows;
  const ratio = expected === null ? 1 : (rows + 1) / (expected + 1);
  const text = expected === null || expected === rows ? counted(rows, "rows") : `${counted(rows, "rows")} of ${expected.toLocaleString("en")} expected`;
  return { text, isOff: ratio >= OFF_FACTOR || ratio <= 1 / OFF_FACTOR };
}

function factsOf(node: PlanNode): string[] {
  const facts = node.actual.filter(({ name }) => name !== "rows").map(({ name, count }) => counted(count, spelled(name)));
  if (node.estimatedRows !== null && given(node) === null) facts.push(counted(node.estimatedRows, "rows expected"));
  return facts;
}

/** Breaks a text into lines that fit a box; what does not fit at all ends with an ellipsis. */
function wrap(text: string): string[] {
  const lines: string[] = [];
  let rest = text;
  while (rest !== "" && lines.length < LINES_MAX) {
    if (rest.length <= LINE_CHARS) {
      lines.push(rest);
      return lines;
    }
    const space = rest.lastIndexOf(" ", LINE_CHARS);
    const cut = space > LINE_CHARS / 2 ? space : LINE_CHARS;
    lines.push(rest.slice(0, cut));
    rest = rest.slice(cut).trimStart();
  }
  if (rest !== "") lines[LINES_MAX - 1] = `${lines[LINES_MAX - 1]!.slice(0, LINE_CHARS - 1)}…`;
  return lines;
}
