// A plan as a picture: boxes for steps, lines as thick as what flows along them.
import { useRef } from "preact/hooks";
import type { PlanNode } from "../protocol/plan";
import { type PlacedEdge, type PlacedNode, placePlan } from "../text/plan-layout";
import { shortNumber } from "../text/scale";
import { ExportPicture } from "./export-picture";

export function PlanPicture({ plan }: { plan: PlanNode }) {
  const { nodes, edges, width, height } = placePlan(plan);
  const drawing = useRef<SVGSVGElement>(null);
  return (
    <div class="plan-scroll" tabIndex={0} role="group" aria-label="Plan">
      <div class="picture-corner"><ExportPicture name="plan" find={() => drawing.current && { drawing: drawing.current }} /></div>
      <svg ref={drawing} class="plan" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label="Query plan">
        {edges.map((edge, index) => <Edge key={index} edge={edge} />)}
        {nodes.map((node, index) => <Box key={index} placed={node} />)}
      </svg>
    </div>
  );
}

function Edge({ edge: { from, to, rows, isExpected } }: { edge: PlacedEdge }) {
  const middle = (from.y + to.y) / 2;
  const thickness = 1.2 + Math.min(6, Math.log10(1 + (rows ?? 0)));
  return (
    <g>
      <path class="plan-edge" stroke-width={thickness} d={`M${from.x} ${from.y}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`} />
      {rows !== null && <text class="plan-rows" x={from.x + 8} y={from.y - 7}>{isExpected && "≈ "}{shortNumber(rows)}</text>}
    </g>
  );
}

/** Steps that read everything are marked: they are where a plan is slow. */
const READS_ALL = /^(ContainerScan|PartitionScan|RowScan)$/;
const READS_INDEX = /^(Index|Composite|PointRead|Intersect|Union)/;

function Box({ placed: { node, x, y, width, height, lines, count, facts } }: { placed: PlacedNode }) {
  const kind = READS_ALL.test(node.kind) ? "scan" : READS_INDEX.test(node.kind) ? "index" : "step";
  const detailTop = y + 38;
  const countTop = detailTop + lines.length * 16 + 6;
  const factsTop = count === null ? countTop : countTop + 16;
  return (
    <g class={`plan-node ${kind}`}>
      <rect x={x} y={y} width={width} height={height} rx={6} />
      <text class="plan-kind" x={x + 12} y={y + 20}>{node.kind}</text>
      {lines.map((line, index) => <text key={line + index} class="plan-detail" x={x + 12} y={detailTop + index * 16}>{line}</text>)}
      {count !== null && <text class={count.isOff ? "plan-count off" : "plan-count"} x={x + 12} y={countTop}>{count.text}</text>}
      {facts.map((fact, index) => <text key={fact} class="plan-fact" x={x + 12} y={factsTop + index * 16}>{fact}</text>)}
    </g>
  );
}
