// Loads the five small databases of `orrery demo` through the public protocol: containers, the model,
// then the items, which the model completes. What exists already is brought up to date.
import { type Json, type JsonObject, isObject, parseJson } from "../protocol/json";
import { partitionKeyHeader } from "../protocol/partition-key";
import { Problem } from "../protocol/problem";
import { containerPath, create, databasePath } from "../protocol/resources";
import type { Client } from "../protocol/client";

/** One database: what it shows, and what is in it. */
export interface DemoCase {
  name: string;
  about: string;
  containers: JsonObject[];
  model: JsonObject;
  items: Record<string, JsonObject[]>;
}

const PREFIX = "demo-";

const FILES = import.meta.glob(["../../../crates/cli/demo/*.json", "!../../../crates/cli/demo/queries.json"], { query: "?raw", import: "default" });

/** The demo databases; a file of their own, fetched when somebody wants them. */
export async function readDemo(): Promise<DemoCase[]> {
  const cases = Object.entries(FILES).map(async ([path, load]): Promise<DemoCase> => {
    const value = parseJson((await load()) as string) as unknown as Omit<DemoCase, "name">;
    return { ...value, name: `${PREFIX}${/([^/]+)\.json$/.exec(path)![1]!}` };
  });
  return Promise.all(cases);
}

/** Loads one of them. */
export async function loadDemo(client: Client, demo: DemoCase): Promise<number> {
  await unlessThere(create(client, ["dbs"], { id: demo.name }));
  for (const container of demo.containers) await unlessThere(create(client, [...databasePath(demo.name), "colls"], container));
  await client.send({ method: "PUT", segments: [...databasePath(demo.name), "_model"], body: demo.model });
  let count = 0;
  for (const [container, items] of Object.entries(demo.items)) {
    const paths = keyPaths(demo.containers.find(({ id }) => id === container));
    for (const item of items) {
      const headers = { "x-ms-documentdb-partitionkey": partitionKeyHeader(item, paths), "x-ms-documentdb-is-upsert": "true" };
      await client.send({ method: "POST", segments: [...containerPath(demo.name, container), "docs"], headers, body: item });
      count++;
    }
  }
  return count;
}

function keyPaths(container: JsonObject | undefined): string[] {
  const key: Json | undefined = container?.partitionKey;
  return isObject(key) && Array.isArray(key.paths) ? key.paths.map(String) : ["/id"];
}

async function unlessThere(creation: Promise<unknown>): Promise<void> {
  await creation.catch((problem: unknown) => {
    if (!(problem instanceof Problem) || problem.status !== 409) throw problem;
  });
}
