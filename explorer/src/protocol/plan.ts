// The plan of a query as the server sends it beside the rows: a tree of steps, each with what was
// expected of it and what it took. Names of counts are the server's; they are shown as they come.
import { type Json, isObject, parseJson } from "./json";

export interface PlanNode {
  /** The first word: `IndexSeek`. */
  kind: string;
  /** The rest: `/price = 5`. */
  detail: string;
  estimatedRows: number | null;
  /** What it gave and took: rows, index entries, items loaded. */
  actual: { name: string; count: number }[];
  inputs: PlanNode[];
}

/** Reads the header's text; null where there is no plan, or one that is not understood. */
export function readPlan(header: string | null): PlanNode | null {
  if (header === null || header === "") return null;
  try {
    return readNode(parseJson(decodeURIComponent(header)));
  } catch {
    return null;
  }
}

function readNode(value: Json | undefined): PlanNode | null {
  if (!isObject(value)) return null;
  const text = String(value.node ?? "");
  const space = text.indexOf(" ");
  const inputs = Array.isArray(value.inputs) ? value.inputs.map(readNode).filter((node) => node !== null) : [];
  const counts = Object.entries(value).filter(([name, count]) => typeof count === "number" && name !== "estimatedRows");
  return {
    kind: space < 0 ? text : text.slice(0, space),
    detail: space < 0 ? "" : text.slice(space + 1),
    estimatedRows: typeof value.estimatedRows === "number" ? value.estimatedRows : null,
    actual: counts.map(([name, count]) => ({ name, count: Number(count) })),
    inputs,
  };
}

/** The plans of the answers of one page as one: what went the same way is added up, else the last counts. */
export function addPlans(plans: readonly (PlanNode | null)[]): PlanNode | null {
  return plans.reduce<PlanNode | null>((sum, plan) => (sum && plan ? (sumOf(sum, plan) ?? plan) : (plan ?? sum)), null);
}

function sumOf(a: PlanNode, b: PlanNode): PlanNode | null {
  if (a.kind !== b.kind || a.detail !== b.detail || a.inputs.length !== b.inputs.length) return null;
  const inputs = a.inputs.map((input, index) => sumOf(input, b.inputs[index]!));
  if (inputs.includes(null)) return null;
  const before = new Map(a.actual.map(({ name, count }) => [name, count]));
  return {
    ...b,
    estimatedRows: a.estimatedRows === null || b.estimatedRows === null ? (b.estimatedRows ?? a.estimatedRows) : a.estimatedRows + b.estimatedRows,
    actual: b.actual.map(({ name, count }) => ({ name, count: count + (before.get(name) ?? 0) })),
    inputs: inputs.filter((input) => input !== null),
  };
}

/** `itemsLoaded` as people write it. */
export function spelled(name: string): string {
  return name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

/** A number of things: `1 item loaded`, `2 items loaded`. */
export function counted(count: number, things: string): string {
  const words = count === 1 ? things.replace(/^(\w+?)(ies|s)\b/, (_, stem: string, end: string) => (end === "ies" ? `${stem}y` : stem)) : things;
  return `${count.toLocaleString("en")} ${words}`;
}
