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
  facts: string[];
}

export interface PlacedEdge {
  from: { x: number; y: number };
  to: { x: number; y: number };
  rows: number | null;
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
    const facts = factsOf(node);
    const height = 34 + (lines.length + facts.length) * LINE_HEIGHT + (facts.length > 0 ? 8 : 0);
    const inputs: PlacedNode[] = [];
    let right = left;
    for (const input of node.inputs) {
      const below = place(input, right, top + height + GAP_Y);
      inputs.push(below.placed);
      right = below.right + GAP_X;
    }
    right = Math.max(right - (node.inputs.length > 0 ? GAP_X : 0), left + WIDTH);
    const middle = inputs.length > 0 ? (inputs[0]!.x + inputs.at(-1)!.x) / 2 : left;
    const placed = { node, x: middle, y: top, width: WIDTH, height, lines, facts };
    nodes.push(placed);
    for (const input of inputs) {
      edges.push({
        from: { x: input.x + WIDTH / 2, y: input.y },
        to: { x: placed.x + WIDTH / 2, y: top + height },
        rows: rowsOf(input.node),
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

/** What flowed, where the server says so, else what was expected. */
function rowsOf(node: PlanNode): number | null {
  return node.actual.find(({ name }) => /rows/i.test(name))?.count ?? node.estimatedRows;
}

function factsOf(node: PlanNode): string[] {
  const facts = node.actual.map(({ name, count }) => counted(count, spelled(name)));
  if (node.estimatedRows !== null) facts.push(counted(node.estimatedRows, "rows expected"));
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
