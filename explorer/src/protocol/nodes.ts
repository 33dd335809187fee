// The nodes of a store that several processes serve: what `GET /_orrery/nodes` answers.
import { type Json, type JsonObject, isObject } from "./json";
import { counted } from "./plan";

/** Work that a node does alone while it holds the lease for it. */
export interface Job {
  kind: string;
  /** Null where the job has none, or where it was deleted meanwhile. */
  database: string | null;
  container: string | null;
}

export interface StoreNode {
  number: number;
  /** Whether it is the node that answered. */
  isSelf: boolean;
  isDead: boolean;
  host: string;
  version: string;
  addresses: string[];
  startedAt: Date;
  uptimeS: number;
  heartbeatAgeMs: number;
  /** Seconds by which the global secondary indexes that it keeps are behind. */
  lagS: number;
  jobs: Job[];
}

export interface Nodes {
  /** False for a server with a store of its own, which has no nodes. */
  isShared: boolean;
  nodes: StoreNode[];
}

const text = (value: Json | undefined) => (typeof value === "string" ? value : null);
const list = (value: Json | undefined) => (Array.isArray(value) ? value : []);

/** Reads the server's answer; an answer that is none of it throws. */
export function readNodes(value: Json): Nodes {
  if (!isObject(value) || typeof value.shared !== "boolean" || !Array.isArray(value.nodes)) {
    throw new Error("The server's answer lists no nodes.");
  }
  return { isShared: value.shared, nodes: value.nodes.filter(isObject).map(readNode) };
}

function readNode(node: JsonObject): StoreNode {
  return {
    number: Number(node.node),
    isSelf: node.self === true,
    isDead: node.state === "dead",
    host: text(node.host) ?? "",
    version: text(node.version) ?? "",
    addresses: list(node.addresses).filter((address) => typeof address === "string"),
    startedAt: new Date(Number(node.startedUs) / 1000),
    uptimeS: Number(node.uptimeS),
    heartbeatAgeMs: Number(node.heartbeatAgeMs),
    lagS: Number(node.lagS),
    jobs: list(node.jobs).filter(isObject).map((job) => ({ kind: text(job.job) ?? "", database: text(job.database), container: text(job.container) })),
  };
}

/** What a job is for. */
export function jobText({ kind, database, container }: Job): string {
  const place = `${database ?? "a deleted database"} / ${container ?? "a deleted container"}`;
  switch (kind) {
    case "account": return "Account: unused shards, outcomes of distributed transactions";
    case "database": return `Model of ${database ?? "a deleted database"}`;
    case "container": return `Container ${place}`;
    case "layout": return `Split or merge of ${place}`;
    // Of a later release.
    default: return [kind, database, container].filter((part) => part !== null).join(" ");
  }
}

const KINDS: readonly (readonly [string, string])[] = [
  ["account", "accounts"], ["database", "models"], ["container", "containers"], ["layout", "splits or merges"],
];

/** How many jobs there are of each kind: `1 account, 3 containers`. */
export function jobSummary(jobs: readonly Job[]): string {
  const parts = KINDS.map(([kind, things]) => [jobs.filter((job) => job.kind === kind).length, things] as const);
  const known = parts.reduce((sum, [count]) => sum + count, 0);
  const shown = parts.filter(([count]) => count > 0).map(([count, things]) => (things === "splits or merges" && count === 1 ? "1 split or merge" : counted(count, things)));
  if (jobs.length > known) shown.push(`${(jobs.length - known).toLocaleString("en")} more`);
  return shown.join(", ");
}
