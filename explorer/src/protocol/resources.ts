// The resources of the protocol as the page uses them: their shapes, and one function for each
// thing that can be done to them.
import type { Answer, Client } from "./client";
import { type Json, type JsonObject, parseJson } from "./json";
import { asciiOnly, partitionKeyHeader } from "./partition-key";

export interface Resource extends JsonObject {
  id: string;
  _rid: string;
  _self: string;
  _etag: string;
  _ts: number;
}

export type Database = Resource;

export interface Container extends Resource {
  partitionKey: { paths: string[]; kind: string; version: number };
  indexingPolicy: JsonObject;
}

export interface Script extends Resource {
  body: string;
}

export type ScriptKind = "sprocs" | "triggers" | "udfs";

export interface User extends Resource {}

export interface Permission extends Resource {
  permissionMode: string;
  resource: string;
  _token: string;
}

/** A role of Entra ID principals; roles and assignments have no rid. */
export interface RoleDefinition extends JsonObject {
  id: string;
  roleName: string;
  type: string;
  assignableScopes: string[];
  permissions: { dataActions: string[] }[];
}

export interface RoleAssignment extends JsonObject {
  id: string;
  roleDefinitionId: string;
  principalId: string;
  scope: string;
}

/** Throughput as people set it: fixed, or a maximum that it scales up to. */
export type Throughput =
  | { kind: "none" }
  | { kind: "manual"; perSecond: number }
  | { kind: "autoscale"; maxPerSecond: number };

/** Names in a feed's body, by the last segment of its path. */
const LISTS: Readonly<Record<string, string>> = {
  dbs: "Databases",
  colls: "DocumentCollections",
  docs: "Documents",
  sprocs: "StoredProcedures",
  triggers: "Triggers",
  udfs: "UserDefinedFunctions",
  users: "Users",
  permissions: "Permissions",
  offers: "Offers",
  pkranges: "PartitionKeyRanges",
  _roledefinitions: "RoleDefinitions",
  _roleassignments: "RoleAssignments",
};

/** A page of a feed or query. */
export interface Page {
  rows: Json[];
  continuation: string | null;
  answer: Answer;
}

export const databasePath = (database: string) => ["dbs", database];
export const containerPath = (database: string, container: string) => ["dbs", database, "colls", container];

function page(segments: readonly string[], answer: Answer): Page {
  const body = answer.text === "" ? {} : (parseJson(answer.text) as JsonObject);
  const rows = body[LISTS[segments.at(-1)!]!];
  return {
    rows: Array.isArray(rows) ? rows : [],
    continuation: answer.headers.get("x-ms-continuation") || null,
    answer,
  };
}

/** Every resource of a small feed: databases, containers, scripts, users. */
export async function listAll<T extends JsonObject>(client: Client, segments: readonly string[]): Promise<T[]> {
  const all: T[] = [];
  let continuation: string | null = null;
  do {
    const headers: Record<string, string> = { "x-ms-max-item-count": "1000" };
    if (continuation !== null) headers["x-ms-continuation"] = continuation;
    const answer: Answer = await client.send({ method: "GET", segments, headers });
    const next = page(segments, answer);
    all.push(...(next.rows as T[]));
    continuation = next.continuation;
  } while (continuation !== null);
  return all;
}

export async function read<T extends JsonObject>(client: Client, segments: readonly string[]): Promise<T> {
  return (await client.json({ method: "GET", segments })) as T;
}

export async function create<T extends JsonObject>(
  client: Client, segments: readonly string[], body: Json, headers: Record<string, string> = {},
): Promise<T> {
  return (await client.json({ method: "POST", segments, body, headers })) as T;
}

export async function replace<T extends JsonObject>(
  client: Client, segments: readonly string[], body: JsonObject, etag?: string,
): Promise<T> {
  const headers: Record<string, string> = etag === undefined ? {} : { "if-match": etag };
  return (await client.json({ method: "PUT", segments, body, headers })) as T;
}

export async function remove(
  client: Client, segments: readonly string[], headers: Record<string, string> = {},
): Promise<void> {
  await client.send({ method: "DELETE", segments, headers });
}

// --- throughput ------------------------------------------------------------------------------

export function throughputHeaders(throughput: Throughput): Record<string, string> {
  switch (throughput.kind) {
    case "none":
      return {};
    case "manual":
      return { "x-ms-offer-throughput": String(throughput.perSecond) };
    case "autoscale":
      return { "x-ms-cosmos-offer-autopilot-settings": JSON.stringify({ maxThroughput: throughput.maxPerSecond }) };
  }
}

interface Offer extends JsonObject {
  _rid: string;
  content: JsonObject;
}

/** The throughput setting of a database or container, if it has one of its own. */
export async function readOffer(client: Client, self: string): Promise<Offer | null> {
  const body = {
    query: "SELECT * FROM root r WHERE r.resource = @link",
    parameters: [{ name: "@link", value: self }],
  };
  const headers = { "x-ms-documentdb-isquery": "true", "content-type": "application/query+json" };
  const answer = await client.send({ method: "POST", segments: ["offers"], headers, body });
  return (page(["offers"], answer).rows[0] as Offer | undefined) ?? null;
}

export function offerThroughput(offer: Offer | null): Throughput {
  if (offer === null) return { kind: "none" };
  const settings = offer.content.offerAutopilotSettings as JsonObject | undefined;
  if (settings) return { kind: "autoscale", maxPerSecond: Number(settings.maxThroughput) };
  return { kind: "manual", perSecond: Number(offer.content.offerThroughput) };
}

/** Changes a setting; between manual and autoscale the protocol wants two steps. */
export async function setThroughput(client: Client, offer: Offer, wanted: Throughput): Promise<void> {
  const segments = ["offers", offer._rid];
  let current = offer;
  if (offerThroughput(offer).kind !== wanted.kind) {
    const header =
      wanted.kind === "autoscale"
        ? "x-ms-cosmos-migrate-offer-to-autopilot"
        : "x-ms-cosmos-migrate-offer-to-manual-throughput";
    current = (await client.json({ method: "PUT", segments, body: offer, headers: { [header]: "true" } })) as Offer;
  }
  const content: JsonObject =
    wanted.kind === "autoscale"
      ? { offerAutopilotSettings: { maxThroughput: wanted.maxPerSecond } }
      : { offerThroughput: wanted.kind === "manual" ? wanted.perSecond : 400 };
  await client.send({ method: "PUT", segments, body: { ...current, content } });
}

// --- items -----------------------------------------------------------------------------------

/** Where an item is: its id, and its partition key as the header has it. */
export interface ItemAddress {
  id: string;
  partitionKey: string;
}

export function addressOf(item: JsonObject, container: Container): ItemAddress {
  return { id: String(item.id), partitionKey: partitionKeyHeader(item, container.partitionKey.paths) };
}

const itemPath = (container: readonly string[], id: string) => [...container, "docs", id];

export async function readItem(client: Client, container: readonly string[], at: ItemAddress): Promise<JsonObject> {
  const headers = { "x-ms-documentdb-partitionkey": at.partitionKey };
  return (await client.json({ method: "GET", segments: itemPath(container, at.id), headers })) as JsonObject;
}

export async function createItem(
  client: Client, container: readonly string[], item: JsonObject, partitionKey: string,
): Promise<JsonObject> {
  const headers = { "x-ms-documentdb-partitionkey": partitionKey };
  return (await client.json({ method: "POST", segments: [...container, "docs"], headers, body: item })) as JsonObject;
}

/** Replaces an item if it is still the version that was read. */
export async function replaceItem(
  client: Client, container: readonly string[], at: ItemAddress, item: JsonObject, etag: string,
): Promise<JsonObject> {
  const headers = { "x-ms-documentdb-partitionkey": at.partitionKey, "if-match": etag };
  return (await client.json({ method: "PUT", segments: itemPath(container, at.id), headers, body: item })) as JsonObject;
}

export async function deleteItem(
  client: Client, container: readonly string[], at: ItemAddress, etag?: string,
): Promise<void> {
  const headers: Record<string, string> = { "x-ms-documentdb-partitionkey": at.partitionKey };
  if (etag !== undefined) headers["if-match"] = etag;
  await client.send({ method: "DELETE", segments: itemPath(container, at.id), headers });
}

// --- queries ---------------------------------------------------------------------------------

export interface QueryCall {
  query: string;
  parameters?: { name: string; value: Json }[];
  pageSize: number;
  continuation: string | null;
  /** As the header has it; without it all partitions are asked. */
  partitionKey?: string | undefined;
  explain?: boolean;
  signal?: AbortSignal | undefined;
}

export async function query(client: Client, container: readonly string[], call: QueryCall): Promise<Page> {
  const segments = [...container, "docs"];
  const headers: Record<string, string> = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "true",
    "x-ms-documentdb-query-enablecrosspartition": "true",
    "x-ms-documentdb-populatequerymetrics": "true",
    "x-ms-max-item-count": String(call.pageSize),
  };
  if (call.continuation !== null) headers["x-ms-continuation"] = call.continuation;
  if (call.partitionKey !== undefined) headers["x-ms-documentdb-partitionkey"] = asciiOnly(call.partitionKey);
  if (call.explain) {
    headers["x-orrery-explain"] = "true";
    headers["x-ms-cosmos-populateindexmetrics-v2"] = "true";
  }
  const body: JsonObject = { query: call.query, parameters: (call.parameters ?? []) as unknown as Json };
  return page(segments, await client.send({ method: "POST", segments, headers, body, signal: call.signal }));
}
