// What the picture of a model shows: types as boxes with their paths, declared and inferred
// relations as lines, and what the advisor found about each of them.
import { type JsonObject, isObject } from "../protocol/json";
import { type Finding, type Report, type Severity, entries } from "../protocol/model";

export interface Row {
  path: string;
  kind: string;
  mark: Severity | null;
}

export interface TypeBox {
  name: string;
  container: string;
  isDeclared: boolean;
  items: number | null;
  rows: Row[];
  /** The worst finding about the type as a whole. */
  mark: Severity | null;
  findings: number;
}

export interface Line {
  from: string;
  path: string;
  to: string;
  label: string;
  /** More about it, in words. */
  hint: string;
  isDeclared: boolean;
  mark: Severity | null;
}

export interface Diagram {
  boxes: TypeBox[];
  lines: Line[];
  /** Types of the data that are drawn as a declared type of another name. */
  names: ReadonlyMap<string, string>;
}

const WEIGHT: Record<Severity, number> = { info: 1, warning: 2, critical: 3 };
export const worse = (a: Severity | null, b: Severity): Severity => (a !== null && WEIGHT[a] >= WEIGHT[b] ? a : b);

/** What the server keeps, or a link: rows of more interest than others. */
const TELLING = /^(reference|link|copy|inverse|aggregate|buckets)$/;

export function diagramOf(model: JsonObject | null, report: Report | null): Diagram {
  const boxes = new Map<string, TypeBox>();
  const lines: Line[] = [];
  const row = (type: string, path: string, kind: string) => {
    const box = boxes.get(type);
    if (box && !box.rows.some((known) => known.path === path)) box.rows.push({ path, kind, mark: null });
  };
  declare(model, boxes, lines, row);
  const seen = report === null ? null : withoutBuckets(report, model, boxes);
  const names = seen === null ? new Map<string, string>() : declaredNames(seen, boxes);
  if (seen !== null) infer(seen, names, boxes, lines, row);
  for (const box of boxes.values()) box.rows.sort((a, b) => interest(b) - interest(a));
  return { boxes: [...boxes.values()], lines, names };
}

function interest({ path, kind, mark }: Row): number {
  return path === "/id" ? 3 : mark !== null ? 2 : TELLING.test(kind) ? 1 : 0;
}

type AddRow = (type: string, path: string, kind: string) => void;

function declare(model: JsonObject | null, boxes: Map<string, TypeBox>, lines: Line[], row: AddRow): void {
  for (const [name, type] of Object.entries(isObject(model?.types) ? model.types : {})) {
    if (!isObject(type)) continue;
    boxes.set(name, { name, container: String(type.container), isDeclared: true, items: null, rows: [], mark: null, findings: 0 });
    const properties = isObject(type.schema) && isObject(type.schema.properties) ? type.schema.properties : {};
    for (const [property, schema] of Object.entries(properties)) {
      row(name, `/${property}`, isObject(schema) && typeof schema.type === "string" ? schema.type : "any");
    }
  }
  for (const relation of entries(model, "relations")) {
    const [from, path, to] = [String(relation.from), String(relation.path), String(relation.to)];
    row(from, path, "reference");
    for (const copy of Object.keys(isObject(relation.copies) ? relation.copies : {})) {
      row(from, path.replace(/[^/]*$/, copy), "copy");
    }
    const inverse = isObject(relation.inverse) ? relation.inverse : null;
    if (typeof inverse?.store === "string") row(to, inverse.store, "inverse");
    const rules = ["onMissing", "onDelete", "propagate"].filter((rule) => relation[rule] !== undefined);
    const hint = [`${from} ${path} refers to ${to}`, ...rules.map((rule) => `${rule}: ${String(relation[rule])}`)].join("\n");
    lines.push({ from, path, to, label: String(relation.name ?? path), hint, isDeclared: true, mark: null });
  }
  for (const aggregate of entries(model, "aggregates")) row(String(aggregate.on), String(aggregate.path), "aggregate");
  for (const bucket of entries(model, "buckets")) row(String(bucket.on), String(bucket.array), "buckets");
}

function infer(
  report: Report, names: ReadonlyMap<string, string>, boxes: Map<string, TypeBox>, lines: Line[], row: AddRow,
): void {
  const nameOf = (inferred: string) => names.get(inferred) ?? inferred;
  for (const { name: inferred, container, items, paths } of report.types) {
    const name = nameOf(inferred);
    const box = boxes.get(name);
    if (box) box.items = (box.items ?? 0) + items;
    else boxes.set(name, { name, container, isDeclared: false, items, rows: [], mark: null, findings: 0 });
    for (const [path, kind] of Object.entries(paths)) row(name, path, kind);
  }
  for (const link of report.links) {
    const [from, to] = [nameOf(link.from), nameOf(link.to)];
    if (link.declared || lines.some((line) => line.from === from && line.path === link.path && line.to === to)) continue;
    const box = boxes.get(from);
    const known = box?.rows.find(({ path }) => path === link.path);
    if (known) known.kind = "link";
    else row(from, link.path, "link");
    const share = `${Math.floor(link.matchRate * 100)} %`;
    const hint = `${share} of the values of ${from} ${link.path} are ids of ${to}; no relation says so`;
    lines.push({ from, path: link.path, to, label: share, hint, isDeclared: false, mark: null });
  }
  for (const finding of report.findings) mark(finding, boxes.get(nameOf(finding.type)), lines);
}

function mark({ severity, path, rule }: Finding, box: TypeBox | undefined, lines: Line[]): void {
  if (!box) return;
  box.findings++;
  if (path === "") {
    box.mark = worse(box.mark, severity);
    return;
  }
  const row = box.rows.find((known) => known.path === path);
  if (row) row.mark = worse(row.mark, severity);
  else box.rows.push({ path, kind: rule, mark: severity });
  for (const line of lines) if (line.from === box.name && line.path === path) line.mark = worse(line.mark, severity);
}

/**
 * Buckets of an array are items beside their parents, in the same container. They are no type of their own: the data
 * shows them as one that has the bucket's link and its array.
 */
function withoutBuckets(report: Report, model: JsonObject | null, boxes: ReadonlyMap<string, TypeBox>): Report {
  const rules = entries(model, "buckets").map((rule) => ({
    container: boxes.get(String(rule.on))?.container,
    paths: [String(rule.array), isObject(rule.bucket) ? String(rule.bucket.link) : ""],
  }));
  const isBucket = ({ name, container, paths }: Report["types"][number]) =>
    !boxes.has(name) && rules.some((rule) => rule.container === container && rule.paths.every((path) => path in paths));
  const strays = new Set(report.types.filter(isBucket).map(({ name }) => name));
  if (strays.size === 0) return report;
  return {
    ...report,
    types: report.types.filter(({ name }) => !strays.has(name)),
    links: report.links.filter(({ from, to }) => !strays.has(from) && !strays.has(to)),
  };
}

/** Data without a discriminator is named for its container; where that is one declared type, it is it. */
function declaredNames(report: Report, boxes: Map<string, TypeBox>): Map<string, string> {
  const names = new Map<string, string>();
  for (const { name, container } of report.types) {
    if (boxes.has(name)) continue;
    const own = [...boxes.values()].filter((box) => box.container === container);
    const inferred = report.types.filter((type) => type.container === container);
    if (own.length === 1 && inferred.length === 1) names.set(name, own[0]!.name);
  }
  return names;
}
