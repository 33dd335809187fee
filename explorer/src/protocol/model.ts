// The model of a database and what the advisor says about it, as the server gives them.
import type { Client } from "./client";
import { type Json, type JsonObject, isObject } from "./json";
import { Problem } from "./problem";
import { databasePath } from "./resources";

export type Severity = "info" | "warning" | "critical";

export interface Finding {
  /** `M01` and so on. */
  rule: string;
  severity: Severity;
  type: string;
  /** Empty for the whole item. */
  path: string;
  reason: string;
  counts: Record<string, number | string>;
  samples: string[];
  cost?: { of: string; measured: Effort; estimated: Effort };
  confidence: number;
  patch: JsonObject;
}

export interface Effort {
  bytes?: number;
  requestUnits: number;
}

export interface InferredType {
  name: string;
  container: string;
  items: number;
  paths: Record<string, string>;
}

export interface InferredLink {
  from: string;
  path: string;
  to: string;
  matchRate: number;
  declared: boolean;
}

export interface Report {
  window: { items: number; versions: number; from?: number; to?: number };
  types: InferredType[];
  links: InferredLink[];
  findings: Finding[];
  tooLittleData: string[];
}

/** A rule, and how far the data is under it. */
export interface RuleState {
  rule: string;
  /** `building`, `verified` or `enforced`. */
  state: string;
  /** Percent, while it is building. */
  progress: number | null;
  /** Items that break it, and some of them. */
  violations: number;
  samples: string[];
  /** Effects that follow later, and the age of the oldest. */
  pending: number;
  lagMs: number;
}

const modelPath = (database: string) => [...databasePath(database), "_model"];

/** The model with what the server adds to it; null where there is none. */
export async function readModel(client: Client, database: string): Promise<JsonObject | null> {
  try {
    return (await client.json({ method: "GET", segments: modelPath(database) })) as JsonObject;
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 404) return null;
    throw problem;
  }
}

/** Stores a model in place of the version that was read, or where there was none. */
export async function storeModel(client: Client, database: string, model: JsonObject, over: JsonObject | null): Promise<JsonObject> {
  const headers: Record<string, string> = over === null ? { "if-none-match": "*" } : { "if-match": String(over._etag) };
  return (await client.json({ method: "PUT", segments: modelPath(database), headers, body: model })) as JsonObject;
}

export async function deleteModel(client: Client, database: string, known: JsonObject): Promise<void> {
  const headers = { "if-match": String(known._etag) };
  await client.send({ method: "DELETE", segments: modelPath(database), headers });
}

/** Everything that is not as the model promises, a sentence each. The server reads all data for it. */
export async function verifyModel(client: Client, database: string, signal: AbortSignal): Promise<string[]> {
  const call = { method: "GET", segments: modelPath(database), headers: { "x-model-verify": "true" }, signal } as const;
  const { drift } = (await client.json(call)) as JsonObject;
  if (!Array.isArray(drift)) throw new Error("The server's answer lists no drift; is it of this version?");
  return drift.map(String);
}

export async function readAdvice(client: Client, database: string): Promise<Report> {
  const answer = await client.send({ method: "GET", segments: [...databasePath(database), "_advisor"] });
  return JSON.parse(answer.text) as Report;
}

/** The model as a person writes it. */
export function documentOf(model: JsonObject): JsonObject {
  const { _rid, _self, _etag, _ts, _state, ...own } = model;
  return own;
}

export function statesOf(model: JsonObject | null): RuleState[] {
  return entries(model, "_state").map((rule) => ({
    rule: String(rule.rule),
    state: String(rule.state),
    progress: rule.progress === undefined ? null : Number(rule.progress),
    violations: Number(rule.violations ?? 0),
    samples: Array.isArray(rule.samples) ? rule.samples.map(String) : [],
    pending: Number(rule.pending ?? 0),
    lagMs: Number(rule.lagMs ?? 0),
  }));
}

/** Whether the server still works on a rule, so that its state will change by itself. */
export const isUnsettled = ({ state, pending }: RuleState) => state !== "enforced" || pending > 0;

/** The objects of a list in a model; whatever else stands there is passed over. */
export function entries(model: JsonObject | null, list: string): JsonObject[] {
  const value: Json | undefined = model?.[list];
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Where in a model the server found a fault, as a path of names, and what it says. */
export function modelFault(problem: unknown): { path: string; reason: string } | null {
  if (!(problem instanceof Problem) || problem.status !== 400) return null;
  const found = /^The model is refused at '(.*?)': ([\s\S]*)$/.exec(problem.message);
  return found ? { path: found[1]!, reason: found[2]! } : null;
}

/** What a finding costs now and would cost afterwards; the advisor measures bytes, or counts charges. */
export function costOf(finding: Finding): { of: string; now: Effort; after: Effort } | null {
  if (finding.cost) return { of: finding.cost.of, now: finding.cost.measured, after: finding.cost.estimated };
  const { costOf: of, requestUnitsNow: now, requestUnitsAfter: after } = finding.counts;
  if (typeof now !== "number" || typeof after !== "number") return null;
  return { of: String(of ?? ""), now: { requestUnits: now }, after: { requestUnits: after } };
}

